"""What the arms are asked, and what becomes of the answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

import pytest
from pydantic import ValidationError

from servegate.checks.accuracy.judging import stop
from servegate.checks.accuracy.measuring import finish, items, measure
from servegate.checks.accuracy.questions import load
from servegate.checks.accuracy.record import AccuracyInputs, AccuracyMeasurement
from servegate.checks.accuracy.settings import AccuracySettings, Limits, Task
from servegate.checks.contract import MeasureContext
from servegate.domain.evidence import ItemStatus, Reason
from servegate.domain.judgement import Severity
from servegate.domain.workload import EvaluatedRow, Evaluation, EvaluationSpec
from servegate.errors import MeasurementError, UsageError
from servegate.ports import Completions, LoadGenerator, Probes
from tests.unit.checks.accuracy_samples import evidence
from tests.unit.samples import engine_facts

SHOT = {"question": "1 + 1?", "answer": "Two.\n#### 2"}
ROWS = [{"question": f"{index} + 0?", "answer": f"#### {index}"} for index in range(4)]


class FakeEvaluator:
    """Answers by document what is not known, the second time with `later`; remembers what it was asked."""

    def __init__(
        self,
        responses: tuple[str, ...] = ("#### 0", "", "  ", "[null]"),
        filters: tuple[str, ...] = (),
        later: tuple[str, ...] | None = None,
        hashes: str = "d",
        twins: Mapping[int, int] = {},
    ) -> None:
        self.twins = twins
        self.specs: list[EvaluationSpec] = []
        self.asked: list[list[int]] = []
        self.responses, self.later = responses, later
        self.filters = filters or ("strict-match", "flexible-extract")
        self.hashes = hashes

    def evaluate(self, spec: EvaluationSpec, known: Mapping[str, str | None] | None = None) -> Evaluation:
        self.specs.append(spec)
        again = spec.label.endswith("-again")
        if again and self.later is None:
            raise MeasurementError("lm-eval ended")
        known, texts = known or {}, list(self.later if again and self.later is not None else self.responses)
        ids = range(len(spec.questions or texts))[: spec.limit]
        prompts = {doc_id: f"p{self.twins.get(doc_id, doc_id)}" for doc_id in ids}
        self.asked.append([doc_id for doc_id in ids if prompts[doc_id] not in known])
        for doc_id, prompt in prompts.items():
            if prompt in known:
                texts[doc_id] = "[null]" if known[prompt] is None else str(known[prompt])
        rows = tuple(
            EvaluatedRow(
                doc_id=doc_id, filter=name, doc_hash=f"{self.hashes if again else 'd'}{doc_id}", target_hash="t",
                prompt_hash=prompts[doc_id], question="q", target="#### 0", response=texts[doc_id], extracted=texts[doc_id],
                score=float(texts[doc_id] == "#### 0"),
            )
            for name in self.filters
            for doc_id in ids
        )  # fmt: skip
        return Evaluation(
            task=spec.task, version="3.0", metric="exact_match", filters=self.filters, rows=rows, lm_eval="0.4.13",
            command=("lm_eval",), warnings=("careful",), null_answer="[null]", higher_is_better=True,
            cut=tuple(doc_id for doc_id in ids if texts[doc_id].startswith("cut")),
        )  # fmt: skip


def run(
    evaluator: FakeEvaluator,
    settings: AccuracySettings,
    step: int = 0,
    inputs: AccuracyInputs | None = None,
    baseline: AccuracyMeasurement | None = None,
    arm: str = "baseline",
    **facts: object,
) -> tuple[AccuracyMeasurement, list[int]]:
    advanced: list[int] = []
    probes = Probes(cast(Completions, None), cast(LoadGenerator, None), evaluator)
    context = MeasureContext(arm, step, engine_facts(**facts), inputs, baseline, advanced.append)
    return measure(probes, settings, context), advanced


def file_of(content: object) -> bytes:
    return content if isinstance(content, bytes) else json.dumps(content).encode()


def loaded(content: object, **task: object) -> AccuracyInputs:
    settings = AccuracySettings(tasks=(Task.model_validate({"file": "sums.json", "shots": 1, **task}),))
    return load(settings, lambda _: file_of(content))


def test_every_round_asks_the_same_with_the_context_of_the_engine() -> None:
    evaluator = FakeEvaluator(("#### 0",) * 4)
    first, advanced = run(evaluator, AccuracySettings())
    second, _ = run(evaluator, AccuracySettings(), step=1)
    spec, again = evaluator.specs
    assert (spec.task, spec.shots, spec.limit, spec.max_length, spec.concurrency) == ("gsm8k", 5, None, 2048, 64)
    assert spec.model_copy(update={"label": ""}) == again.model_copy(update={"label": ""})
    assert spec.label != again.label
    assert advanced == [4]
    joined = first.joined(second)
    assert {row.round for row in joined.rows} == {0, 1}
    assert len(joined.rows) == 16
    assert len(joined.responses) == 8
    assert len(joined.documents) == 4
    assert [one.warnings for one in joined.passes] == [("careful",)] * 2


def test_the_candidate_is_told_the_context_of_the_baseline() -> None:
    evaluator = FakeEvaluator(("#### 0",))
    baseline, _ = run(evaluator, AccuracySettings())
    run(evaluator, AccuracySettings(), baseline=baseline, max_model_len=512)
    assert evaluator.specs[-1].max_length == 2048


def test_a_baseline_that_gets_nothing_right_ends_the_check_before_the_candidate_starts() -> None:
    with pytest.raises(MeasurementError, match="all 24 answers of the baseline scored 0") as raised:
        run(FakeEvaluator(("no idea",) * 24), AccuracySettings())
    assert "no idea" in raised.value.why
    assert len(run(FakeEvaluator(("no idea",) * 19), AccuracySettings())[0].responses) == 19
    right, _ = run(FakeEvaluator(("#### 0",) * 24), AccuracySettings())
    wrong, _ = run(FakeEvaluator(("no idea",) * 24), AccuracySettings(), arm="candidate", baseline=right)
    assert len(wrong.responses) == 24


def test_an_arm_is_not_asked_when_there_is_nothing_to_compare_it_with() -> None:
    evaluator = FakeEvaluator()
    with pytest.raises(MeasurementError, match="the baseline was not measured"):
        run(evaluator, AccuracySettings(), arm="candidate")
    assert evaluator.specs == []


def test_an_unknown_context_is_no_measurement() -> None:
    with pytest.raises(MeasurementError, match="context length is unknown"):
        run(FakeEvaluator(), AccuracySettings(), max_model_len=None)


def test_answers_that_never_came_are_told_apart() -> None:
    measurement, _ = run(FakeEvaluator(), AccuracySettings())
    assert [one.status for one in measurement.responses] == [
        ItemStatus.OK, ItemStatus.EMPTY, ItemStatus.EMPTY, ItemStatus.FAILED,
    ]  # fmt: skip


def finished(evaluator: FakeEvaluator, *steps: int, settings: AccuracySettings | None = None) -> AccuracyMeasurement:
    """Return an arm whose rounds were measured with the evaluator's `responses` of each, then completed."""
    settings = settings or AccuracySettings()
    measurements = [run(evaluator, settings, step=step)[0] for step in steps]
    arm = measurements[0]
    for later in measurements[1:]:
        arm = arm.joined(later)
    probes = Probes(cast(Completions, None), cast(LoadGenerator, None), evaluator)
    context = MeasureContext[AccuracyMeasurement]("baseline", steps[-1], engine_facts(), None, None, lambda _count: None)
    return finish(probes, settings, context, arm)


def test_what_did_not_come_whole_is_asked_once_more_in_one_pass_for_all_rounds() -> None:
    """The other questions are answered from what came, so they are scored in the words in which they were asked."""
    later = ("wrong", "#### 0", " ", "#### 0", "wrong") + ("#### 0",) * 9 + ("cut",)
    evaluator = FakeEvaluator(("#### 0", "", "  ", "[null]", *["no"] * 10, "#### 0"), later=later)
    settings = AccuracySettings()
    first, _ = run(evaluator, settings)
    evaluator.responses = ("", "#### 0", "", "#### 0", *["no"] * 10, "cut")
    second, _ = run(evaluator, settings, step=1)
    probes = Probes(cast(Completions, None), cast(LoadGenerator, None), evaluator)
    context = MeasureContext[AccuracyMeasurement]("baseline", 1, engine_facts(), None, None, lambda _count: None)
    arm = finish(probes, settings, context, first.joined(second))
    assert evaluator.asked[2:] == [[0, 1, 2, 3, 14]]
    assert [spec.label.removeprefix("0-gsm8k-") for spec in evaluator.specs] == ["round-0", "round-1", "round-1-again"]
    lost = {(one.round, one.doc_id): one.status for one in arm.responses if one.status is not ItemStatus.OK}
    assert lost == {(0, 2): ItemStatus.EMPTY, (1, 2): ItemStatus.EMPTY, (1, 14): ItemStatus.TRUNCATED}
    twice = {(one.round, one.doc_id) for one in arm.responses if one.asked == 2}
    assert twice == {(0, 1), (0, 2), (0, 3), (1, 0), (1, 2), (1, 14)}
    scores = {(row.round, row.doc_id): row.score for row in arm.rows if row.filter == "strict-match"}
    assert len(arm.rows) == 60
    assert {key: scores[key] for key in ((0, 0), (0, 1), (0, 3), (0, 4), (1, 0), (1, 1), (1, 14))} == {
        (0, 0): 1.0, (0, 1): 1.0, (0, 3): 1.0, (0, 4): 0.0, (1, 0): 0.0, (1, 1): 1.0, (1, 14): 0.0,
    }  # fmt: skip
    said = "6 answers to 5 questions did not come whole, and these questions were asked again; 3 of the answers then came"
    assert [one.warnings[0] for one in arm.passes] == ["careful", "careful", said]


def test_an_arm_whose_answers_all_came_is_not_asked_again() -> None:
    evaluator = FakeEvaluator(("#### 0",) * 4)
    assert len(finished(evaluator, 0, 1).passes) == 2
    assert len(evaluator.specs) == 2


def test_another_question_never_replaces_an_answer() -> None:
    measurement = finished(FakeEvaluator(later=("#### 0",) * 4, hashes="other"), 0)
    assert [one.status for one in measurement.responses].count(ItemStatus.OK) == 1
    assert {row.doc_hash for row in measurement.rows} == {"d0", "d1", "d2", "d3"}


def test_asking_again_that_fails_leaves_the_first_answers() -> None:
    measurement = finished(FakeEvaluator(), 0)
    assert len(measurement.responses) == 4
    assert {one.asked for one in measurement.responses} == {1}
    assert "asking again failed: lm-eval ended" in measurement.passes[-1].warnings[0]


def test_many_cut_answers_are_a_limit_that_is_too_low_and_are_not_asked_again() -> None:
    evaluator = FakeEvaluator(("cut",) * 3 + ("#### 0",) * 7)
    measurement = finished(evaluator, 0)
    assert len(evaluator.specs) == 1
    assert [one.status for one in measurement.responses].count(ItemStatus.TRUNCATED) == 3


@pytest.mark.parametrize(
    ("first", "asked"),
    [
        (("wrong",) * 12 + ("#### 0",) * 52, [64]),
        (("wrong",) * 11 + ("#### 0",) * 53, [64, 536]),
        (("wrong",) * 13 + ("",) * 2 + ("#### 0",) * 49, [64]),
    ],
)
def test_a_catastrophe_ends_after_the_first_64_questions_and_nobody_is_asked_twice(
    first: tuple[str, ...], asked: list[int]
) -> None:
    baseline, _ = run(FakeEvaluator(("#### 0",) * 600), AccuracySettings())
    evaluator = FakeEvaluator(first + ("#### 0",) * 536)
    found, advanced = run(evaluator, AccuracySettings(), arm="candidate", baseline=baseline)
    assert [len(one) for one in evaluator.asked] == asked
    assert len(found.responses) == sum(advanced) == sum(asked)
    assert evaluator.specs[0].limit == 64
    stopped = stop(evidence(baseline, found), AccuracySettings())
    assert (stopped is not None) == (len(asked) == 1)
    assert not stopped or (stopped.severity, stopped.code) == (Severity.FAIL, "accuracy/drop")


def test_a_question_in_the_words_of_one_of_the_first_64_is_asked_and_not_given_their_answer() -> None:
    """Question 100 reads like question 5: the proxy knows prompts by their text, and would answer it without the engine."""
    twins = {100: 5, 200: 201}
    baseline, _ = run(FakeEvaluator(("#### 0",) * 600, twins=twins), AccuracySettings())
    evaluator = FakeEvaluator(("#### 0",) * 100 + ("wrong",) + ("#### 0",) * 499, twins=twins)
    found, _ = run(evaluator, AccuracySettings(), arm="candidate", baseline=baseline)
    assert evaluator.asked == [list(range(64)), [5, *range(64, 600)]]
    assert {one.text for one in found.responses if one.doc_id == 100} == {"wrong"}


def test_a_candidate_that_gains_as_well_is_no_catastrophe() -> None:
    baseline, _ = run(FakeEvaluator(("wrong",) + ("#### 0",) * 599), AccuracySettings())
    evaluator = FakeEvaluator(("#### 0",) + ("wrong",) * 30 + ("#### 0",) * 569)
    found, _ = run(evaluator, AccuracySettings(), arm="candidate", baseline=baseline)
    assert [len(one) for one in evaluator.asked] == [64, 536]
    assert len(found.responses) == 600


@pytest.mark.parametrize(("questions", "step", "arm"), [(499, 0, "candidate"), (600, 1, "candidate"), (600, 0, "baseline")])
def test_a_small_check_a_later_round_and_the_baseline_pay_for_no_look(questions: int, step: int, arm: str) -> None:
    baseline, _ = run(FakeEvaluator(("#### 0",) * questions), AccuracySettings())
    evaluator = FakeEvaluator(("#### 0", *["wrong"] * (questions - 1)))
    run(evaluator, AccuracySettings(), step, arm=arm, baseline=None if arm == "baseline" else baseline)
    assert [len(one) for one in evaluator.asked] == [questions]


def test_of_several_tasks_a_catastrophe_ends_after_the_one_that_shows_it() -> None:
    settings = AccuracySettings(tasks=(Task(name="one"), Task(name="two")))
    baseline, _ = run(FakeEvaluator(("#### 0",) * 40), settings)
    evaluator = FakeEvaluator(("wrong",) * 20 + ("#### 0",) * 20)
    found, _ = run(evaluator, settings, arm="candidate", baseline=baseline)
    assert [spec.task for spec in evaluator.specs] == ["one"]
    assert {row.task for row in found.rows} == {"one"}
    part = found.model_copy(update={"partial": Reason(code="stopped_early", message="it was decided")})
    assert getattr(stop(evidence(baseline, part), settings), "severity", None) is Severity.FAIL
    assert stop(evidence(baseline, found), settings) is None, "a whole arm without a task was asked differently"


def test_the_direction_of_the_metric_is_kept() -> None:
    measurement, _ = run(FakeEvaluator(("#### 0",)), AccuracySettings(tasks=(Task(metric="exact_match"),)))
    assert measurement.tasks[0].higher_is_better is True


def test_the_judged_filter() -> None:
    measurement, _ = run(FakeEvaluator(), AccuracySettings())
    assert measurement.tasks[0].judged_filter == "flexible-extract"
    measurement, _ = run(FakeEvaluator(filters=("none",)), AccuracySettings())
    assert measurement.tasks[0].judged_filter == "none"
    with pytest.raises(MeasurementError, match="no filter 'flexible'") as raised:
        run(FakeEvaluator(), AccuracySettings(tasks=(Task(filter="flexible"),)))
    assert "flexible-extract" in raised.value.advice


def test_a_local_file_becomes_rows() -> None:
    settings = AccuracySettings(tasks=(Task(file="a/My sums.json", shots=1, questions=3),))
    inputs = load(settings, lambda _: file_of({"fewshot": [SHOT], "test": ROWS}))
    evaluator = FakeEvaluator(("#### 0",) * 3)
    run(evaluator, settings, inputs=inputs)
    (spec,) = evaluator.specs
    assert (spec.task, spec.limit, len(spec.questions), len(spec.fewshot)) == ("My-sums", None, 3, 1)
    assert spec.label == "0-my-sums-round-0"
    assert items(settings, inputs) == 3


def test_how_many_questions_are_known_beforehand() -> None:
    assert items(AccuracySettings(), AccuracyInputs()) is None
    assert items(AccuracySettings(tasks=(Task(questions=100),)), None) == 100


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", r"sums.json:1: not JSON"),
        (b"\xff", "not strict JSON"),
        (b'{"test": [], "test": []}', "the key 'test' is repeated"),
        (b'{"test": NaN}', "NaN"),
        ([], "holds a list"),
        ({"tests": ROWS}, "did you mean 'test'"),
        ({"test": {}}, "`test` is an object"),
        ({"fewshot": [SHOT], "test": []}, "`test` holds no question"),
        ({"fewshot": [], "test": ROWS}, "holds 0 rows, but the task asks for 1 shots"),
        ({"fewshot": [SHOT], "test": ["x"]}, r"test\[0\] is text"),
        ({"fewshot": [SHOT], "test": [{"question": "a"}]}, r"test\[0\] has no 'answer'"),
        ({"fewshot": [SHOT], "test": [{**SHOT, "id": 1}]}, "unknown key 'id'"),
        ({"fewshot": [SHOT], "test": [{"question": 1, "answer": "#### 1"}]}, r"test\[0\].question is a number"),
        ({"fewshot": [SHOT], "test": [{"question": " ", "answer": "#### 1"}]}, r"test\[0\].question is empty"),
        ({"fewshot": [SHOT], "test": [{"question": "a", "answer": "1"}]}, "#### N"),
        ({"fewshot": [SHOT], "test": [*ROWS, ROWS[2]]}, r"test\[4\] repeats the question of test\[2\]"),
        ({"fewshot": [SHOT], "test": [*ROWS, SHOT]}, r"test\[4\] repeats the question of fewshot\[0\]"),
        ({"fewshot": [SHOT], "test": [{"question": "\ud800", "answer": "#### 1"}]}, "surrogate"),
    ],
)  # fmt: skip
def test_a_wrong_file_gets_one_clear_error(content: object, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        loaded(content)
    assert raised.value.what.startswith("sums.json")
    assert raised.value.advice


def test_more_questions_than_there_are() -> None:
    with pytest.raises(UsageError, match="holds 4 questions, but the task asks for 9"):
        loaded({"fewshot": [SHOT], "test": ROWS}, questions=9)


def test_line_separators_stay_in_a_question() -> None:
    question = "a\u2028b"
    inputs = loaded({"fewshot": [SHOT], "test": [{"question": question, "answer": "#### 1"}]})
    assert inputs.tasks[0].questions[0]["question"] == question


@pytest.mark.parametrize(
    "values",
    [
        {"tasks": ()},
        {"tasks": ({}, {})},
        {"tasks": ({"questions": 0},)},
        {"tasks": ({"questions": "some"},)},
        {"tasks": ({"name": "../x"},)},
        {"concurrency": 0},
        {"concurency": 8},
        {"limits": {"fail_drop_points": 3.0}},
    ],
)
def test_wrong_settings_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        AccuracySettings.model_validate(values)


def test_the_policy_numbers_are_the_stated_ones() -> None:
    limits = Limits()
    assert (limits.pass_drop_points, limits.fail_drop_points, limits.smallest_n) == (2.5, 0.5, 500)
