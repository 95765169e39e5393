"""Showing: the sentence, the tables, the order of reading, and that hostile text stays text."""

from __future__ import annotations

from servegate.checks.contract import Evidence
from servegate.checks.prompts import CHECK
from servegate.checks.prompts.records import PromptsMeasurement
from servegate.checks.prompts.settings import PromptsSettings
from servegate.domain.blocks import Block, Facts, Figure, Fold, Pair, Section, Table
from servegate.domain.judgement import Outcome
from tests.unit.checks.prompts_evidence import Said, compared, evidence

JSON = {"json": True}
GOOD, BAD = '{"a": 1}', "no JSON at all"
LOOP = "and so on " * 20


def section(found: Evidence[PromptsMeasurement]) -> Section:
    comparison, settings = compared(found), PromptsSettings()
    return CHECK.present(comparison, found, settings, CHECK.judge(comparison, settings))


def pairs(blocks: tuple[Block, ...], *, folded: bool) -> list[Pair]:
    found = [block for block in blocks if isinstance(block, Pair)]
    for block in blocks:
        if folded and isinstance(block, Fold):
            found += pairs(block.blocks, folded=True)
    return found


def table(blocks: tuple[Block, ...], name: str) -> Table:
    flat = [*blocks, *(inner for block in blocks if isinstance(block, Fold) for inner in block.blocks)]
    return next(block for block in flat if isinstance(block, Table) and block.name == name)


MIXED = evidence(
    {
        "json": [GOOD, GOOD],
        "loop": ["sound"] * 2,
        "far": ["aaaa bbbb"] * 2,
        "near": ["one two three four"] * 2,
        "space": ["a b"] * 2,
    },
    {
        "json": [BAD, BAD],
        "loop": [LOOP] * 2,
        "far": ["zzzz"] * 2,
        "near": ["one two three five"] * 2,
        "space": ["a  b", "a  c"],
    },
    {"json": JSON},
)


def test_the_sentence_says_what_changed_beside_the_noise() -> None:
    one = section(MIXED)
    assert one.summary == (
        "5 of 29 answers differ; the baseline differs from itself in 0 of 29, the candidate in 1 of 29; "
        "1 of 1 contract broken; 2 unread fact changes"
    )
    assert one.noise == "baseline, round 1 against round 2: 0 of 29 differ; candidate, round 1 against round 2: 1 of 29 differ"
    assert (one.n, one.outcome) == ("29 prompts x 2 rounds", Outcome.FAIL)


def test_the_queue_starts_with_what_matters_and_ends_with_what_is_most_alike() -> None:
    titles = [pair.title.split(" · ")[0] for pair in pairs(section(MIXED).blocks, folded=False)]
    assert titles == ["json", "loop", "far", "space", "near"]


def test_a_pair_shows_both_texts_and_marks_only_what_differs() -> None:
    near = next(pair for pair in pairs(section(MIXED).blocks, folded=False) if pair.title.startswith("near"))
    assert (near.left, near.right) == ("one two three four", "one two three five")
    assert [near.left[mark.start : mark.end] for mark in near.left_marks] == ["four"]
    assert [near.right[mark.start : mark.end] for mark in near.right_marks] == ["five"]
    assert near.asked == "Asked: question of near"


def test_every_prompt_has_a_row_and_classes_stand_beside_the_noise() -> None:
    blocks = section(MIXED).blocks
    assert len(table(blocks, "prompts").rows) == 29
    classes = table(blocks, "prompt-classes")
    assert [column.title for column in classes.columns] == [
        "class", "candidate, round 1", "candidate, round 2", "baseline against itself", "candidate against itself",
    ]  # fmt: skip
    assert {row[0]: row[1:] for row in classes.rows}["contract broken"] == (1, 1, 0, 0)
    assert classes.rows[-1] == ("all pairs", 29, 29, 29, 29)
    contracts = table(blocks, "prompt-contracts")
    assert contracts.rows == (
        ("json", "json", "broken in every round", "2 of 2", "0 of 2", "json: Expecting value at line 1 column 1"),
    )


def test_a_run_that_was_judged_before_there_was_rouge_l_or_a_cosine_is_drawn() -> None:
    comparison, settings = compared(MIXED), PromptsSettings()
    later = {"rouge_l", "cosine", "cosine_reason"}
    items = tuple({key: value for key, value in item.items() if key not in later} for item in comparison.items)
    older = comparison.model_copy(update={"items": items})
    drawn = table(CHECK.present(older, MIXED, settings, CHECK.judge(older, settings)).blocks, "prompts")
    places = [index for index, column in enumerate(drawn.columns) if column.title in ("ROUGE-L", "embedding cosine")]
    assert len(places) == 2
    assert {row[place] for row in drawn.rows for place in places} == {None}


def test_many_differences_are_folded_and_alike_answers_too() -> None:
    names = [f"p{number:02d}" for number in range(12)]
    one = section(evidence({n: [f"a {n}"] * 2 for n in names}, {n: [f"b {n}"] * 2 for n in names}))
    assert len(pairs(one.blocks, folded=False)) == 5
    assert [fold.title for fold in one.blocks if isinstance(fold, Fold)] == [
        "7 more answers that differ", "24 answers that are the same", "Cap hits, lengths and where the answers part",
        "Every prompt as a table",
    ]  # fmt: skip


def test_above_two_thousand_prompts_only_differences_are_shown() -> None:
    one = section(evidence({"p": ["x", "x"]}, {"p": ["y", "y"]}, filler=2_000))
    assert [pair.title for pair in pairs(one.blocks, folded=True)] == ["p · changed fact: answer x -> y"]
    assert len(table(one.blocks, "prompts").rows) == 2_001


def test_what_is_not_there_is_said_in_brackets() -> None:
    one = section(evidence({"p": ["x", "x"]}, {"p": [Said("", "timeout", error="no answer within 5 s"), "x"]}))
    shown = pairs(one.blocks, folded=False)[0]
    assert shown.right == "(timeout: no answer within 5 s)"
    assert shown.title == "p · not comparable: candidate: timeout"


def test_long_and_hostile_texts_are_shown_in_part_and_as_they_are() -> None:
    start = "word " * 50_000
    left = start + "<script>alert(1)</script>\u2028::error::x \ud83d"
    right = start + "<b>bold</b>"
    shown = pairs(section(evidence({"p": [left] * 2}, {"p": [right] * 2})).blocks, folded=False)[0]
    assert len(shown.left) < 5_000
    assert shown.left.startswith("… ")
    assert "<script>" in shown.left
    assert shown.note.endswith("Shown in part.")
    assert all(0 <= mark.start < mark.end <= len(shown.left) for mark in shown.left_marks)


def test_contracts_that_the_baseline_never_keeps_are_not_reported_as_kept() -> None:
    one = section(evidence({"p": [BAD, BAD]}, {"p": [BAD, BAD]}, {"p": JSON}))
    assert "none of 1 contracts could be tested" in one.summary


def test_one_round_says_that_noise_is_not_known() -> None:
    one = section(evidence({"p": ["x"]}, {"p": ["y"]}))
    assert one.summary == "1 of 25 answers differ"
    assert "one round was measured" in one.noise


def figures(blocks: tuple[Block, ...]) -> list[Figure]:
    found = [block for block in blocks if isinstance(block, Figure)]
    return found + [one for block in blocks if isinstance(block, Fold) for one in figures(block.blocks)]


def test_contracts_that_the_arms_keep_alike_are_folded() -> None:
    said = {"kept": ['{"a": 1}'] * 2, "broken": ['{"a": 1}'] * 2}
    now = {**said, "broken": ["no"] * 2}
    blocks = section(evidence(said, now, dict.fromkeys(said, JSON))).blocks
    assert [row[0] for row in table(blocks, "prompt-contracts").rows] == ["broken"]
    assert [row[0] for row in table(blocks, "prompt-contracts-alike").rows] == ["kept"]
    assert "1 contract kept by both arms, or by neither" in [one.title for one in blocks if isinstance(one, Fold)]


def test_the_curve_shows_where_answers_part_beside_each_arm_against_itself() -> None:
    def tokens(*ids: int) -> list[tuple[int, float, dict[int, float]]]:
        return [(one, -0.1, {one: -0.1}) for one in ids]

    left = {"p": [Said("a b", tokens=tokens(1, 2))] * 2, "q": [Said("a b", tokens=tokens(1, 2))] * 2}
    right = {"p": [Said("a c", tokens=tokens(1, 3))] * 2, "q": [Said("a b", tokens=tokens(1, 2))] * 2}
    one = section(evidence(left, right))
    (figure,) = figures(one.blocks)
    points = {series.name: [(point.x, point.y) for point in series.points] for series in figure.series}
    assert points["baseline against candidate"] == [(0.0, 1.0), (2.0, 0.5)]
    assert points["baseline against itself"] == points["candidate against itself"] == [(0.0, 1.0), (2.0, 1.0)]
    same = evidence(left, left)
    assert figures(section(same).blocks) == [], "nothing parts, so there is no curve"


def test_an_embedding_models_cosine_orders_the_reading_and_is_said_to_be_missing_where_it_is() -> None:
    words = {"far": "one two three five", "near": "ten nine eight seven"}
    before = {name: ["one two three four"] * 2 for name in words}
    plain = evidence(before, {name: [text] * 2 for name, text in words.items()})
    assert [one.title.split(" ")[0] for one in pairs(section(plain).blocks, folded=False)] == ["near", "far"]
    near = {"far": 0.1, "near": 0.9}
    cosines = {name: [Said(text, overrides={"cosine": near[name]})] * 2 for name, text in words.items()}
    asked = evidence(before, cosines)
    assert [one.title.split(" ")[0] for one in pairs(section(asked).blocks, folded=False)] == ["far", "near"]
    assert {one.code for one in CHECK.judge(compared(plain), PromptsSettings())} == {
        one.code for one in CHECK.judge(compared(asked), PromptsSettings())
    }
    for found, expected in ((plain, (None, None)), (asked, (0.1, 0.9))):
        shown = table(section(found).blocks, "prompts")
        column = [one.title for one in shown.columns].index("embedding cosine")
        rows = {row[0]: row[column] for row in shown.rows}
        assert (rows["far"], rows["near"]) == expected
    facts = [block for block in section(plain).blocks if isinstance(block, Fold)]
    said = [fact for fold in facts for block in fold.blocks if isinstance(block, Facts) for fact in block.facts]
    assert next((one.value, one.note) for one in said if "cosine" in one.name) == (
        None,
        "`prompts.embeddings` names no model",
    )


def test_a_class_has_its_colour_where_there_is_one_of_it() -> None:
    shown = table(section(MIXED).blocks, "prompt-classes")
    tones = {row[0]: tone for row, tone in zip(shown.rows, shown.tones, strict=True)}
    assert tones == {
        "identical bytes": "pass", "encoding only": "", "white space only": "pass", "wording": "", "changed fact": "review",
        "contract broken": "fail", "degenerate": "fail", "not comparable": "", "all pairs": "",
    }  # fmt: skip
