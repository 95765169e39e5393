"""What there is to decide on, as it is shown: rounded for people, in full precision as CSV, hostile text harmless."""

from __future__ import annotations

import csv
import io

from servegate.domain.deciding import QUANTITIES, ArmValue, Figures
from servegate.report import render
from tests.unit.report.report_samples import NASTY, passed

NOTHING = ArmValue(value=None, reason="the gate has no accuracy check")


def value(number: float, noise: str = "CV 0.4 %") -> ArmValue:
    return ArmValue(value=number, noise=noise)


def rendered(*rows: Figures) -> dict[str, str]:
    files = render(passed().source(rows))
    return {name: content.decode() for name, content in files.items()}


def lines(files: dict[str, str]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(files["tables/decide.csv"])))


WEIGHTS = Figures(key="weights", baseline=value(15.274), candidate=value(8.796), bound="predicted: 15.26 GiB -> 8.79 GiB")
ACCURACY = Figures(key="accuracy", baseline=NOTHING, candidate=NOTHING)


def test_a_value_is_shown_with_its_noise_and_its_difference() -> None:
    files = rendered(WEIGHTS)
    for document in (files["report.html"], files["report.md"]):
        for text in ("15.27 GiB", "8.80 GiB", "CV 0.4 %", "−42.4 %", "predicted: 15.26 GiB -&gt; 8.79 GiB"):
            assert text in document
    assert lines(files)[0]["baseline"] == "15.274"


def test_what_is_not_measured_says_why_and_is_no_number() -> None:
    files = rendered(ACCURACY)
    for document in (files["report.html"], files["report.md"]):
        assert "not measured: the gate has no accuracy check" in document
    row = lines(files)[0]
    assert (row["candidate"], row["candidate_not_measured"]) == ("", "the gate has no accuracy check")
    assert row["difference"] == ""


def test_one_missing_arm_gives_no_difference() -> None:
    files = rendered(
        Figures(key="tpot", baseline=value(5.0), candidate=ArmValue(value=None, reason="it died"), difference="-50 %")
    )
    assert "not measured: it died" in files["report.html"]
    assert lines(files)[0]["difference"] == ""


def test_points_are_subtracted_and_nothing_is_divided_by_zero() -> None:
    files = rendered(
        Figures(key="changed", baseline=value(0.0), candidate=value(12.5)),
        Figures(key="energy", baseline=value(0.0), candidate=value(12.5)),
    )
    assert [row["difference"].lstrip("'") for row in lines(files)] == ["+12.50 points", ""]


def test_every_quantity_has_a_row() -> None:
    rows = tuple(Figures(key=quantity.key, baseline=value(1.0), candidate=value(2.0)) for quantity in QUANTITIES)
    files = rendered(*rows)
    assert [row["key"] for row in lines(files)] == [quantity.key for quantity in QUANTITIES]
    assert all(quantity.title in files["report.html"] for quantity in QUANTITIES)


def test_hostile_reasons_stay_text() -> None:
    for nasty in filter(None, NASTY):
        bad = ArmValue(value=None, reason=nasty)
        row = Figures(key="cost", about=nasty, baseline=bad, candidate=value(1.0, nasty), bound=nasty, difference=nasty)
        html = rendered(row, Figures(key="energy", baseline=bad, candidate=bad))["report.html"]
        assert "<script" not in html
        assert "<img" not in html
        assert html.count("<table") == html.count("</table")


def test_a_record_without_the_table_has_none() -> None:
    files = rendered()
    assert "What there is to decide on" not in files["report.html"]
    assert "tables/decide.csv" not in files


def test_a_reason_that_voids_several_rows_stands_once() -> None:
    void = ArmValue(value=None, reason="INVALID: cache: half of the prompts came from the prefix cache")
    files = rendered(*(Figures(key=key, baseline=void, candidate=void) for key in ("throughput", "ttft", "tpot")))
    assert files["report.html"].count("half of the prompts") == 1
    assert files["report.html"].count("not measured: as for “Throughput”") == 2
    assert files["report.md"].count("not measured: as for “Throughput”") == 2  # a line of the list for both arms
    assert [row["candidate_not_measured"] for row in lines(files)] == [void.reason] * 3


def test_a_reason_that_says_not_is_not_doubled() -> None:
    for words in ("not read: the engine slept", "not observed: the engine slept", "the engine slept"):
        nothing = ArmValue(value=None, reason=words)
        html = rendered(Figures(key="kv_tokens", baseline=nothing, candidate=nothing))["report.html"]
        assert "not measured: the engine slept" in html
