"""Sample logs of lm-eval 0.4.13: a recorded one, and rows that must not be believed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from servegate.errors import MeasurementError, ServegateError, UsageError
from servegate.probes.lm_eval_samples import check_complete, check_judgeable, find_files, read_results, read_samples


def rows_of(recorded: Path) -> list[dict[str, Any]]:
    path = next((recorded / "lm_eval").glob("samples_*.jsonl"))
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def written(directory: Path, rows: list[dict[str, Any]]) -> Path:
    path = directory / "samples_arith_x.jsonl"
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_bytes(text.encode())
    return path


def test_a_recorded_pass(recorded: Path) -> None:
    results_path, samples_path = find_files(recorded / "lm_eval")
    results = read_results(results_path)
    samples, warnings = read_samples(samples_path)
    assert (results.task, results.version, results.documents, results.lm_eval) == ("arith", "Yaml", 4, "0.4.13")
    assert check_complete(samples, results.documents) == ("exact_match", ("strict-match", "flexible-extract"))
    assert warnings == []
    row = samples[0].row
    assert (row.doc_id, row.filter, row.extracted, row.score) == (0, "strict-match", "9", 1.0)
    assert row.prompt_hash == "a6fa43ffc9a66c1126c640bfad8d90d984f9848514b895ad319acca4ecf7353f"
    assert row.response == " Lena starts with 3 and buys 6 more. 3 + 6 = 9.\n#### 9\n\n"
    assert row.question == "Lena has 3 coins and buys 6 more. How many coins does Lena have now?"
    assert samples[0].prompt.endswith("does Lena have now?\nAnswer:")


def test_unicode_line_separators_do_not_split_a_row(recorded: Path, tmp_path: Path) -> None:
    rows = rows_of(recorded)
    rows[0]["resps"] = [["a\u2028b\u2029c\x85d"]]
    samples, _ = read_samples(written(tmp_path, rows))
    assert (len(samples), samples[0].row.response) == (8, "a\u2028b\u2029c\x85d")


@pytest.mark.parametrize(("value", "score"), [(1, 1.0), (1.0, 1.0), (True, 1.0), ("True", 1.0), ("0.0", 0.0), (False, 0.0)])
def test_scores_in_any_form(recorded: Path, tmp_path: Path, value: Any, score: float) -> None:
    rows = rows_of(recorded)
    rows[0]["exact_match"] = value
    assert read_samples(written(tmp_path, rows))[0][0].row.score == score


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"exact_match": float("nan")}, "NaN is not JSON"),
        ({"exact_match": "nan"}, "exact_match is 'nan', which is no score"),
        ({"exact_match": None}, "exact_match is None"),
        ({"doc_hash": None}, "doc_hash is None"),
        ({"target_hash": ""}, "target_hash is ''"),
        ({"prompt_hash": 5}, "prompt_hash is 5"),
        ({"filter": None}, "filter is None"),
        ({"doc_id": "0"}, "doc_id is '0'"),
        ({"doc_id": True}, "doc_id is True"),
        ({"resps": []}, "exactly one response"),
        ({"resps": [["a", "b"]]}, "exactly one response"),
        ({"resps": [[None]]}, "the response is None"),
        ({"filtered_resps": ["a", "b"]}, "exactly one text"),
        ({"metrics": []}, "metrics is"),
        ({"arguments": {}}, "exactly one prompt"),
    ],
)
def test_rows_that_must_not_be_believed(recorded: Path, tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    rows = rows_of(recorded)
    rows[2] |= changes
    with pytest.raises(ValueError, match=f"line 3: .*{said}"):
        read_samples(written(tmp_path, rows))


def test_a_repeated_row_that_agrees_is_dropped_and_one_that_disagrees_is_an_error(recorded: Path, tmp_path: Path) -> None:
    rows = rows_of(recorded)
    samples, warnings = read_samples(written(tmp_path, [*rows, rows[0]]))
    assert (len(samples), warnings) == (8, ["1 rows of the sample log came twice and agreed"])
    with pytest.raises(ValueError, match="document 0 under 'strict-match' contradicts an earlier row"):
        read_samples(written(tmp_path, [*rows, {**rows[0], "exact_match": 0.0}]))


def test_order_does_not_matter_and_a_missing_row_is_an_error(recorded: Path, tmp_path: Path) -> None:
    rows = rows_of(recorded)
    samples, _ = read_samples(written(tmp_path, rows[::-1]))
    assert check_complete(samples, 4)[0] == "exact_match"
    samples, _ = read_samples(written(tmp_path, rows[:-1]))
    with pytest.raises(ValueError, match="3 of 4 documents have a row under filter 'flexible-extract'"):
        check_complete(samples, 4)


def test_rows_scored_by_different_metrics_are_an_error(recorded: Path, tmp_path: Path) -> None:
    rows = rows_of(recorded)
    rows[0] |= {"metrics": ["acc"], "acc": 1.0}
    samples, _ = read_samples(written(tmp_path, rows))
    with pytest.raises(ValueError, match="different metrics: acc, exact_match"):
        check_complete(samples, 4)


@pytest.mark.parametrize(
    ("directions", "score", "said"),
    [
        ({"exact_match": False}, 0.5, "metric 'exact_match' can not be judged: it is better when it is lower"),
        ({"exact_match": True}, 37.2, "can not be judged: it scores from 0 to 37.2"),
        ({"exact_match": None}, -1.0, "can not be judged: it scores from -1 to 1"),
    ],
)
@pytest.mark.parametrize("error", [UsageError, MeasurementError])
def test_a_metric_whose_drop_is_no_loss_in_points_is_refused(
    recorded: Path, tmp_path: Path, directions: dict[str, bool | None], score: float, said: str, error: type[ServegateError]
) -> None:
    rows = rows_of(recorded)
    rows[0]["exact_match"] = score
    rows[1]["exact_match"] = 0.0
    samples, _ = read_samples(written(tmp_path, rows))
    with pytest.raises(error, match=said) as raised:
        check_judgeable("arith", samples, "exact_match", {**directions, "acc": True, "wer": False}, error)
    assert raised.value.what.startswith("task arith:")
    assert raised.value.advice.endswith("The task also has: acc.")


def test_the_recorded_metric_may_be_judged(recorded: Path) -> None:
    results_path, samples_path = find_files(recorded / "lm_eval")
    results = read_results(results_path)
    assert results.higher_is_better == {"exact_match": True}
    check_judgeable("arith", read_samples(samples_path)[0], "exact_match", results.higher_is_better, UsageError)


@pytest.mark.parametrize(
    "higher", [None, [], {"arith": None}, {"arith": {"exact_match": "yes"}}, {"other": {"exact_match": True}}]
)
def test_an_unknown_direction_is_unknown(recorded: Path, tmp_path: Path, higher: Any) -> None:
    document = json.loads(find_files(recorded / "lm_eval")[0].read_bytes())
    document["higher_is_better"] = higher
    path = tmp_path / "results_x.json"
    path.write_text(json.dumps(document))
    assert read_results(path).higher_is_better.get("exact_match") is None


def test_a_named_metric_is_read_and_a_missing_one_is_an_error(recorded: Path, tmp_path: Path) -> None:
    rows = [{**row, "metrics": ["exact_match", "acc"], "acc": 0.0} for row in rows_of(recorded)]
    samples, _ = read_samples(written(tmp_path, rows), "acc")
    assert {(sample.metric, sample.row.score) for sample in samples} == {("acc", 0.0)}
    with pytest.raises(ValueError, match="there is no metric 'f1'; the task has exact_match, acc"):
        read_samples(written(tmp_path, rows), "f1")


def test_two_sample_logs_are_named_and_none_is_chosen(recorded: Path, tmp_path: Path) -> None:
    shutil.copytree(recorded / "lm_eval", tmp_path / "run")
    (tmp_path / "run" / "samples_arith_later.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match=r"exactly one samples_\*\.jsonl, found 2 \(samples_arith_2026.*later"):
        find_files(tmp_path / "run")
    with pytest.raises(ValueError, match="found 0"):
        find_files(tmp_path / "nowhere")


def test_results_of_a_group_are_refused(recorded: Path, tmp_path: Path) -> None:
    document = json.loads(find_files(recorded / "lm_eval")[0].read_bytes())
    document["n-samples"]["other"] = {"original": 1, "effective": 1}
    path = tmp_path / "results_x.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"describes 2 tasks \(arith, other\), not one"):
        read_results(path)


def test_an_empty_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no rows"):
        read_samples(written(tmp_path, []))
