"""The overview never hides what was not measured behind what was."""

from __future__ import annotations

from servegate.domain.judgement import Outcome
from servegate.report.overview import Row, overall, overview

COMMITS = {"base": "a" * 40, "head": "b" * 40}
PASSED = Row("serving/a.yaml", Outcome.PASS, "no damage found", True)
LEFT = Row("serving/b.yaml", Outcome.REVIEW, "was deleted", False)


def test_nothing_changed_is_not_evaluated_and_no_pass():
    assert overall(()) == (Outcome.REVIEW, "not evaluated: no serving config changed")


def test_one_that_was_not_measured_keeps_the_whole_from_passing():
    outcome, headline = overall((PASSED, LEFT))
    assert outcome is Outcome.REVIEW
    assert headline == "1 of 2 changed serving configs were not measured: serving/b.yaml: was deleted"
    text = overview((PASSED, LEFT), (), COMMITS).decode()
    assert text.index("serving/b.yaml") < text.index("serving/a.yaml")
    assert "- 🟡 **not measured** `serving/b.yaml`: was deleted" in text


def test_the_worst_decides():
    failed = Row("serving/c.yaml", Outcome.FAIL, "accuracy fell", True)
    assert overall((PASSED, failed, LEFT))[0] is Outcome.FAIL
    assert overall((PASSED, failed)) == (Outcome.FAIL, "serving/c.yaml: accuracy fell")
    assert overall((PASSED,)) == (Outcome.PASS, "no damage found")


def test_changed_rules_stand_above_the_table():
    text = overview((PASSED,), ("servegate.yaml",), COMMITS).decode()
    assert text.index("changes the rules by which it is judged** (`servegate.yaml`)") < text.index(
        "- ✅ **PASS** `serving/a.yaml`"
    )


def test_hostile_paths_and_reasons_stay_in_their_cells():
    hostile = Row("a|b`@acme/all <!-- servegate:x -->\n## PASS", Outcome.ERROR, "x | y\n@acme/all fixes #1 <b>", False)
    text = overview((hostile,) * 3, ("`x|<script>`",), COMMITS).decode()
    assert "<!-- servegate:" not in text
    assert "(<code>&#96;x&#124;&lt;script&gt;&#96;</code>)" in text
    assert len([line for line in text.splitlines() if line.startswith("- ")]) == 3
    assert len(text.splitlines()) == 11
    assert not any(line.startswith("## PASS") for line in text.splitlines())
    assert "@acme" not in text.replace("@\u200bacme", "")


def test_many_files_fit_a_comment():
    rows = tuple(Row(f"serving/{'日' * 60}{n}.yaml", Outcome.ERROR, "日" * 4_000, False) for n in range(500))
    text = overview(rows, ("日" * 300,) * 100, COMMITS)
    assert len(text) < 60_000
    assert "… and 460 more" in text.decode()


def test_forty_configs_of_the_worst_text_fit_into_a_comment():
    for text in ("`" * 400, "\u202e" * 400, "&<>@#|_*" * 50, "\u65e5" * 400, "\\" * 400, "#1 " * 200):
        rows = tuple(Row(f"{n}{text}", Outcome.REVIEW, text, False) for n in range(60))
        content = overview(rows, (text,) * 30, COMMITS)
        assert len(content) <= 60_000, (text[:8], len(content))
        assert b"REVIEW: serving configs of this pull request" in content
        assert b"**60 of 60" in content
        shown = content.count(b"**not measured**")
        assert shown >= 10
        assert f"and {60 - shown} more".encode() in content
