from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from servegate.domain.blocks import Fold, Pair, Section, Table, Text
from servegate.domain.judgement import EvidenceRef, Finding, Outcome, Severity
from servegate.report.products import COMMENT_AIM, COMMENT_MOST, SUMMARY_MOST
from tests.unit.report.report_samples import NASTY, SAMPLES, failed, hostile, not_comparable, not_started, passed, review


@pytest.mark.parametrize("name", [*SAMPLES, "hostile"])
def test_the_same_records_give_the_same_bytes(name: str) -> None:
    make = {**SAMPLES, "hostile": hostile}[name]
    first, second = make().render(), make().render()
    assert first == second
    assert {
        "comment.md",
        "summary.md",
        "report.md",
        "report.html",
        "environment.json",
        "reproduce.sh",
        "tables/checks.csv",
    } <= set(first)


@pytest.mark.parametrize(
    ("sample", "word"),
    [
        (passed(), "PASS"),
        (review(), "REVIEW"),
        (failed(), "FAIL"),
        (not_comparable(), "NOT COMPARABLE"),
        (not_started(), "ERROR"),
    ],
)
def test_the_outcome_and_its_reason_come_first(sample: object, word: str) -> None:
    files = sample.render()  # type: ignore[attr-defined]
    lines = files["comment.md"].decode().splitlines()
    assert lines[0] == "<!-- servegate:qwen3-8b-fp8 -->"
    assert word in lines[1]
    assert re.search(rf'<h1[^>]*><span class="outcome">{word}</span>', files["report.html"].decode())
    assert word in files["report.md"].decode().splitlines()[0]
    assert len(files["comment.md"]) < 3_000


def test_every_check_shows_its_noise_and_its_n() -> None:
    sample = failed()
    files = {name: content.decode() for name, content in sample.render().items()}
    for document in ("comment.md", "summary.md", "report.md", "report.html"):
        for section in sample.sections:
            assert section.noise in files[document]
            assert section.n in files[document]


def test_findings_are_sorted_by_severity_with_their_rule() -> None:
    comment = failed().render()["comment.md"].decode()
    fail, doubt, note = (comment.index(word) for word in ("**FAIL**", "**REVIEW**", "**note**"))
    assert fail < doubt < note
    assert "lower 99 % of the drop: 0.0312 &gt; 0.005" in comment


def test_rounds_count_from_1_in_the_table_of_findings_as_in_the_report() -> None:
    sample = failed()
    refs = [ref for finding in sample.verdict.findings for ref in finding.evidence if ref.step is not None]
    assert refs
    table = sample.render()["tables/findings.csv"].decode()
    assert all(f"{ref.check}:{ref.id}:{ref.step + 1}" in table for ref in refs if ref.step is not None)
    assert not any(f"{ref.check}:{ref.id}:0" in table for ref in refs)


def test_an_engine_that_did_not_start_is_explained() -> None:
    sample = not_started()
    files = {name: content.decode() for name, content in sample.render().items()}
    for document in ("comment.md", "report.md", "report.html"):
        assert "Free memory on device cuda:0" in files[document]
        assert "arms/candidate/server.log, line 57" in files[document]
    for document in ("report.md", "report.html"):
        assert "--quantization=fp8_per_channel \\" in files[document]
    assert "The run did not finish" in files["comment.md"]
    assert "not known: the engine stopped before it said so" in files["report.html"]
    page = files["report.html"]
    assert page.index('class="diagnosis"') < page.index('id="checks"')


def test_differing_rows_of_the_environment_are_marked() -> None:
    page = not_comparable().render()["report.html"].decode()
    marked = re.findall(r'<tr class="differs"><th scope="row">([^<]+?) <', page)
    assert {"driver", "host", "quantization, resolved", "KV cache tokens"} <= set(marked)
    assert {"version", "CPU", "compile", "attention backend"}.isdisjoint(marked)


def test_environment_json_holds_both_arms_and_names_what_differs() -> None:
    content = not_comparable().render()["environment.json"]
    document = json.loads(content)
    assert content.isascii()
    assert document["manifest_differs"] == ["driver", "host"]
    assert document["arms"]["candidate"]["manifest"]["driver"] == "570.133.20"
    missing = json.loads(not_started().render()["environment.json"])["arms"]["candidate"]
    assert missing["manifest"] is None
    assert missing["manifest_reason"]
    assert missing["engine"]["status"] == "failed"


@pytest.mark.parametrize("text", ["x", "[", "\U000e0041", "😀", "<", "`", "@a ", "\n"])
def test_documents_stay_within_their_bounds(text: str) -> None:
    files = hostile(*(text * 20_000 for _ in range(8))).render()
    assert len(files["comment.md"]) < COMMENT_MOST
    assert len(files["summary.md"]) <= SUMMARY_MOST
    for name, content in files.items():
        content.decode()
        assert name.isascii()


def test_a_crowd_of_checks_still_fits() -> None:
    sample = failed()
    pairs = tuple(Pair(title=f"p{n}", left_title="a", right_title="b", left="x" * 9_000, right="y" * 9_000) for n in range(60))
    section = Section(
        check="prompts", title="Answers", outcome=Outcome.FAIL, question="?", summary="s" * 300, noise="n" * 300, n="1",
        blocks=(Fold(title="all", blocks=pairs), *pairs),
    )  # fmt: skip
    findings = tuple(
        Finding(code="prompts/x", severity=Severity.FAIL, check="prompts", message=f"{n} " + "m" * 300) for n in range(500)
    )
    many = replace(sample, sections=(section,) * 6, verdict=sample.verdict.model_copy(update={"findings": findings}))
    files = many.render()
    assert len(files["comment.md"]) <= COMMENT_AIM
    assert re.search(r"- … and 49\d more in the report", files["comment.md"].decode())
    assert len(files["summary.md"]) <= SUMMARY_MOST


def test_a_hundred_kilobytes_in_one_cell_are_cut_and_counted() -> None:
    section = failed().sections[0].model_copy(update={"blocks": (Text(text="w" * 100_000),)})
    sample = replace(failed(), sections=(section,))
    for document in ("report.md", "report.html"):
        assert "… 92,000 more characters" in sample.render()[document].decode()


def test_a_row_with_too_many_cells_is_refused() -> None:
    section = failed().sections[0].model_copy(update={"blocks": (Table(name="t", title="t", columns=(), rows=((1,),)),)})
    with pytest.raises(ValueError, match="1 cells for 0 columns"):
        replace(failed(), sections=(section,)).render()


def test_nothing_of_the_machine_is_in_the_products() -> None:
    from servegate import report

    root = str(report.__file__).rsplit("/src/", 1)[0]
    for content in failed().render().values():
        assert root.encode() not in content
        assert not re.search(rb"20\d\d-\d\d-\d\d[T ]\d\d:\d\d", content)


def test_markdown_documents_hold_no_mention_link_or_foreign_marker() -> None:
    from cmarkgfm import github_flavored_markdown_to_html
    from cmarkgfm.cmark import Options

    from tests.unit.report.test_filters import LATER, html5lib, outside_code

    files = hostile(*NASTY).render()
    for name in ("comment.md", "summary.md", "report.md"):
        source = files[name].decode()
        assert source.count("<!--") == (1 if name == "comment.md" else 0)
        assert not [line for line in source.splitlines() if name == "comment.md" and line.startswith(("/", "::"))]
        tree = html5lib.parse(github_flavored_markdown_to_html(source, Options.CMARK_OPT_UNSAFE), namespaceHTMLElements=False)
        tags = {element.tag for element in tree.iter() if isinstance(element.tag, str)}
        assert tags <= {
            "html",
            "head",
            "body",
            "h1",
            "h2",
            "h3",
            "p",
            "strong",
            "em",
            "code",
            "pre",
            "ul",
            "li",
            "br",
            "sub",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
            "details",
            "summary",
        }, (name, tags)
        for pattern in LATER:
            assert not pattern.search(outside_code(tree)), (name, pattern.pattern)


def test_a_check_that_says_it_does_not_judge_is_called_so_in_every_document() -> None:
    sample = review()
    speed = sample.sections[-1].model_copy(update={"outcome": Outcome.REVIEW})
    said = Finding(code="throughput/not-judged-cpu", severity=Severity.INFO, check="throughput", message="not on a CPU")
    found = (*sample.verdict.findings, said)
    verdict = sample.verdict.model_copy(update={"findings": found})
    files = replace(sample, sections=(*sample.sections[:-1], speed), verdict=verdict).render()
    for name in ("comment.md", "summary.md", "report.md"):
        assert re.search(r"Speed.*not judged", files[name].decode()), name
    assert re.search(r'class="badge info">not judged<', files["report.html"].decode())


@pytest.mark.parametrize("document", ["report.html", "report.md", "comment.md"])
def test_whatever_the_arms_differ_in_stands_before_the_first_check(document: str) -> None:
    sample = failed()
    text = sample.render()[document].decode()
    body = text[text.index("<body") :] if "<body" in text else text
    checks = 'aria-labelledby="checks"'  # the page lists the checks at its side, too
    head = body[: body.index(checks if checks in body else sample.sections[0].title)]
    assert sample.plan.knobs
    assert all(knob.name in head and str(knob.candidate) in head for knob in sample.plan.knobs)


def test_the_evidence_of_a_finding_links_to_the_answers_that_are_shown() -> None:
    pairs = tuple(
        Pair(title=name, left_title="a", right_title="b", left=name, right="x", item=name) for name in ("p07", "p 'x\"<y>")
    )
    sample = failed()
    sections = (sample.sections[0].model_copy(update={"blocks": (pairs[0], Fold(title="more", blocks=(pairs[1],)))}),)
    refs = tuple(EvidenceRef(check="prompts", id=name, step=0) for name in ("p07", "p 'x\"<y>", "not shown"))
    finding = Finding(code="prompts/a", severity=Severity.FAIL, check="prompts", message="m", evidence=refs)
    verdict = sample.verdict.model_copy(update={"findings": (finding,)})
    files = replace(sample, sections=sections, verdict=verdict).render()
    page = files["report.html"].decode()
    links = re.findall(r'<a href="#(s1-pair-\d)"><code>([^<]+) \(round 1\)</code></a>', page)
    assert [anchor for anchor, _ in links] == ["s1-pair-1", "s1-pair-2"]
    assert all(f'<figure class="pair" id="{anchor}">' in page for anchor, _ in links)
    assert "<code>not shown (round 1)</code>" in page
    assert "s1-pair" not in files["report.md"].decode()
