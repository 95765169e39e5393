"""The passes beside the rounds: contracts sampled as the config samples, and the 2 x 2 of batching and change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from servegate.checks.contract import ArmEvidence, Evidence, MeasureContext
from servegate.checks.prompts import CHECK, passes
from servegate.checks.prompts.records import Answer, PromptsInputs, PromptsMeasurement
from servegate.checks.prompts.settings import Limits, PromptsSettings
from servegate.domain.blocks import Table
from servegate.domain.evidence import ItemStatus
from servegate.domain.judgement import Comparison, Finding, Severity
from servegate.domain.workload import Chat, ChatPrompt, Completion, CompletionRequest, Rendered
from servegate.errors import MeasurementError
from servegate.ports import Advance, Probes
from servegate.probes.chat_replies import chat_payload
from servegate.probes.completion_replies import payload
from tests.unit.checks.prompts_evidence import measurement, prompt
from tests.unit.samples import engine_facts

JSON = {"json": True}


@dataclass
class Engine:
    """Answers with JSON; keeps what it was sent, and how much at once."""

    sent: list[tuple[CompletionRequest, ...]] = field(default_factory=list)
    in_flight: list[int] = field(default_factory=list)
    lose: str = ""
    status: ItemStatus = ItemStatus.OK

    def render(self, prompts: Sequence[ChatPrompt]) -> tuple[Rendered, ...]:
        return tuple(Rendered(id=one.id, token_ids=(1, 2)) for one in prompts)

    def complete(self, requests: Sequence[CompletionRequest], concurrency: int, advance: Advance) -> tuple[Completion, ...]:
        self.sent.append(tuple(requests))
        self.in_flight.append(concurrency)
        return tuple(Completion(id=one.id, status=self.status, text="{}") for one in requests if one.id != self.lose)


def probes(engine: Engine) -> Probes:
    return Probes(completions=engine, load_generator=None, evaluator=None)  # type: ignore[arg-type]


def inputs(plain: int = 3, held: int = 2) -> PromptsInputs:
    lines: list[dict[str, Any]] = [{"id": f"p{number}", "prompt": "x"} for number in range(plain)]
    lines += [{"id": f"c{number}", "prompt": "y", "expect": JSON} for number in range(held)]
    assert CHECK.load is not None
    assert CHECK.prepare is not None
    loaded = CHECK.load(PromptsSettings(), lambda _name: "\n".join(map(json.dumps, lines)).encode())
    made = CHECK.prepare(probes(Engine()), PromptsSettings(), loaded, engine_facts())
    assert isinstance(made, PromptsInputs)
    return made


def step(
    engine: Engine, settings: PromptsSettings, number: int, made: PromptsInputs, baseline: PromptsMeasurement | None = None
) -> PromptsMeasurement:
    assert CHECK.measure is not None
    part = CHECK.part(settings, made, number, 2)
    context = MeasureContext("baseline", number, engine_facts(), part, baseline, lambda _done: None)
    measured = CHECK.measure(probes(engine), settings, context)
    assert isinstance(measured, PromptsMeasurement)
    return measured


# -- what each step asks -------------------------------------------------------------------------------------------------


def test_the_passes_come_after_all_rounds_and_only_where_they_can_show_something() -> None:
    settings, both = PromptsSettings(), inputs()
    kinds = [CHECK.part(settings, both, number, 2).asked for number in range(CHECK.steps(settings, both, 2))]  # type: ignore[attr-defined]
    assert kinds == ["all", "all", "contracts", "contracts", "sampled", "sequential"]
    assert CHECK.steps(settings, inputs(held=0), 2) == 3, "nothing to sample without a contract"
    assert CHECK.steps(PromptsSettings(concurrency=1), both, 2) == 5, "one in flight is sequential already"
    assert CHECK.steps(PromptsSettings(samples=0, sequential="never"), both, 2) == 4


def test_samples_state_nothing_but_seed_and_length_so_the_config_decides() -> None:
    engine = Engine()
    made = step(engine, PromptsSettings(), 4, inputs())
    (sent,) = engine.sent
    assert len(sent) == len(made.sampled) == 2 * 4
    bodies = [payload("m", request) for request in sent]
    bodies += [chat_payload("m", request, Chat(messages=({"role": "user", "content": "y"},))) for request in sent]
    left_open = {"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"}
    assert all(left_open.isdisjoint(body) for body in bodies)
    assert all(body["max_tokens"] == 256 for body in bodies)
    assert sorted(body["seed"] for body in bodies) == sorted([1, 2, 3, 4] * 2 * 2)
    assert {(one.prompt_id, one.round) for one in made.sampled} == {(f"c{n}", sample) for n in range(2) for sample in range(4)}
    assert (made.rounds, made.answers, made.columns) == ((), (), {})


def test_a_greedy_request_still_pins_every_parameter() -> None:
    body = payload("m", CompletionRequest(id="a", token_ids=(1,), max_tokens=1))
    assert (body["temperature"], body["top_p"], body["top_k"], body["logprobs"]) == (0.0, 1.0, 0, None)


def test_sequential_prompts_are_asked_alone_and_the_candidate_asks_what_the_baseline_asked() -> None:
    engine = Engine()
    baseline = step(engine, PromptsSettings(), 5, inputs())
    assert engine.in_flight == [1] * 5
    assert all(len(sent) == 1 and sent[0].temperature == 0.0 for sent in engine.sent)
    short = baseline.model_copy(update={"sequential": baseline.sequential[:2]})
    again = step(Engine(), PromptsSettings(), 5, inputs(), short)
    assert [one.prompt_id for one in again.sequential] == [one.prompt_id for one in baseline.sequential[:2]]


def test_auto_ends_after_its_time_and_asks_no_more_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    many = inputs(plain=50)
    assert len(step(Engine(), PromptsSettings(), 5, many).sequential) == passes.SEQUENTIAL_PROMPTS
    assert len(step(Engine(), PromptsSettings(sequential="always"), 5, many).sequential) == 52
    monkeypatch.setattr(passes, "SEQUENTIAL_SECONDS", -1.0)
    assert step(Engine(), PromptsSettings(), 5, many).sequential == ()
    assert len(step(Engine(), PromptsSettings(sequential="always"), 5, many).sequential) == 52


def test_an_engine_that_does_not_answer_is_not_asked_one_by_one_for_ever() -> None:
    assert len(step(Engine(status=ItemStatus.TIMEOUT), PromptsSettings(sequential="always"), 5, inputs()).sequential) == 1


def test_a_lost_answer_is_an_error_in_either_pass() -> None:
    with pytest.raises(MeasurementError, match="8 requests were sent, 7 answers"):
        step(Engine(lose="0:c0"), PromptsSettings(), 4, inputs())
    with pytest.raises(MeasurementError, match="1 requests were sent, 0 answers"):
        step(Engine(lose="c0"), PromptsSettings(), 5, inputs())


def test_passes_join_the_rounds_and_survive_being_stored() -> None:
    engine, settings, made = Engine(), PromptsSettings(), inputs()
    whole = step(engine, settings, 0, made)
    for number in range(1, 6):
        whole = whole.joined(step(engine, settings, number, made))
    assert [one.name for one in whole.passes] == ["sampled", "sequential"]
    assert (len(whole.answers), len(whole.sampled), len(whole.sequential)) == (5 + 5 + 2 + 2, 8, 5)
    assert PromptsMeasurement.model_validate(whole.to_json()).sampled == whole.sampled
    with pytest.raises(ValueError, match="two answers of prompt and round"):
        whole.joined(step(engine, settings, 4, made))


# -- judging what was sampled --------------------------------------------------------------------------------------------

KEPT, BROKEN = "{}", "no JSON"
FEW_ARE_ENOUGH = Limits(unseen_increase_points=100)
"""That 30 prompts rule out little is another rule's to say."""


def answer(prompt_id: str, number: int, text: str, **changes: Any) -> Answer:
    hashes = {"prompt_sha256": prompt(prompt_id).prompt_sha256, "token_ids_sha256": "t", "sampling_sha256": f"s{number}"}
    return Answer(**{"prompt_id": prompt_id, "round": number, "status": ItemStatus.OK, "text": text, **hashes, **changes})


def sampled(good: Sequence[int], samples: int = 4) -> tuple[Answer, ...]:
    """`good`: of prompt n, so many samples keep the contract."""
    return tuple(
        answer(f"c{n:02}", number, KEPT if number < kept else BROKEN)
        for n, kept in enumerate(good)
        for number in range(samples)
    )


def judged(baseline: dict[str, Any], candidate: dict[str, Any], prompts: int = 30) -> tuple[Comparison, dict[str, Finding]]:
    """Arms whose greedy answers agree, each with its own passes beside them."""
    settings = PromptsSettings(limits=FEW_ARE_ENOUGH)
    names = [f"c{number:02}" for number in range(prompts)]
    greedy = measurement({name: [KEPT, KEPT] for name in names})
    sides = [ArmEvidence(None, None, greedy.model_copy(update=update)) for update in (baseline, candidate)]
    asked = PromptsInputs(prompts=tuple(prompt(name, JSON) for name in names))
    evidence: Evidence[PromptsMeasurement] = Evidence(sides[0], sides[1], asked)
    comparison = CHECK.compare(evidence, settings)
    assert isinstance(comparison, Comparison)
    section = CHECK.present(comparison, evidence, settings, ())
    tables = {block.name for block in section.blocks if isinstance(block, Table)}
    assert ("prompt-sampled" in tables) == ("sampled" in comparison.candidate)
    return comparison, {item.code.removeprefix("prompts/"): item for item in CHECK.judge(comparison, settings)}


def test_a_loss_under_sampling_that_greedy_answers_hide_is_read() -> None:
    comparison, found = judged({"sampled": sampled([4] * 30)}, {"sampled": sampled([1] * 15 + [4] * 15)})
    assert {code: item.severity for code, item in found.items()} == {"sampled-worse": Severity.REVIEW}
    loss = comparison.estimates["sampled_drop"]
    assert (loss.value, loss.n) == (37.5, 30)
    assert found["sampled-worse"].value == loss.low
    assert loss.low is not None
    assert 20 < loss.low < 30
    assert "120 of 120 -> 75 of 120" in found["sampled-worse"].message


def test_the_interval_is_clustered_by_prompt() -> None:
    """Two prompts of thirty that lose all samples: as 120 draws that were proof, as 30 prompts it is chance."""
    comparison, found = judged({"sampled": sampled([4] * 30)}, {"sampled": sampled([0, 0] + [4] * 28)})
    loss = comparison.estimates["sampled_drop"]
    assert loss.value == pytest.approx(100 * 2 / 30)
    assert loss.low is not None
    assert loss.low < 0
    assert found == {}


def test_a_small_loss_and_a_gain_inform_only() -> None:
    assert judged({"sampled": sampled([4] * 30)}, {"sampled": sampled([3] * 3 + [4] * 27)})[1] == {}
    assert judged({"sampled": sampled([2] * 30)}, {"sampled": sampled([4] * 30)})[1] == {}
    assert judged({}, {})[0].candidate.get("sampled") is None, "an old run was never sampled, and says nothing of it"


def test_no_difference_at_all_is_not_an_interval_of_width_zero() -> None:
    comparison, _ = judged({"sampled": sampled([4] * 30)}, {"sampled": sampled([4] * 30)})
    loss = comparison.estimates["sampled_drop"]
    assert loss.high == pytest.approx(100 * (1 - 0.05 ** (1 / 30)))


def test_one_prompt_that_loses_every_sample_is_read_and_fewer_losses_are_chance() -> None:
    """One cluster has no spread, yet a contract that is always kept and then never is worth a look."""
    comparison, found = judged({"sampled": sampled([4])}, {"sampled": sampled([0])})
    assert comparison.estimates["sampled_drop"].low == pytest.approx(5)
    assert {code: item.severity for code, item in found.items()} == {"sampled-worse": Severity.REVIEW}
    assert judged({"sampled": sampled([4])}, {"sampled": sampled([1])})[1] == {}


UNREAD = [
    {"status": ItemStatus.TRUNCATED, "text": '{"a": '},
    {"status": ItemStatus.TRUNCATED, "text": "<think>well"},
    {"status": ItemStatus.REASONING_ONLY, "text": ""},
]


@pytest.mark.parametrize("change", UNREAD, ids=["cut", "a thought without an end", "a thought alone"])
def test_samples_that_became_no_evidence_are_read(change: dict[str, Any]) -> None:
    """Neither kept nor broken: leaving them out would call a candidate that never comes to its answer as good as before."""
    good = sampled([4] * 30)
    rambling = tuple(one.model_copy(update=change) for one in good[:40])
    comparison, found = judged({"sampled": good}, {"sampled": (*rambling, *good[40:])})
    assert comparison.estimates["sampled_drop"].value == 0
    assert {code: item.severity for code, item in found.items()} == {"sampled-not-judged": Severity.REVIEW}
    assert "40 answers of the candidate are no evidence" in found["sampled-not-judged"].message
    assert judged({"sampled": (*rambling, *good[40:])}, {"sampled": good})[1] == {}


def test_a_loop_that_happens_to_keep_its_contract_is_not_kept_under_sampling() -> None:
    good = sampled([4] * 30)
    loop = json.dumps(["the same line again"] * 40, indent=1)
    looping = tuple(one.model_copy(update={"text": loop}) for one in good[:60])
    _, found = judged({"sampled": good}, {"sampled": (*looping, *good[60:])})
    assert {code: item.severity for code, item in found.items()} == {"sampled-worse": Severity.REVIEW}


@pytest.mark.parametrize("change", [{"status": ItemStatus.FAILED, "error": "HTTP 500"}, {"sampling_sha256": "another"}])
def test_samples_that_failed_or_were_asked_otherwise_are_no_pass(change: dict[str, Any]) -> None:
    good = sampled([4] * 30)
    other = (good[0].model_copy(update=change), *good[1:])
    _, found = judged({"sampled": good}, {"sampled": other})
    assert {code: item.severity for code, item in found.items()} == {"sampled-not-answered": Severity.REVIEW}
    assert judged({"sampled": good}, {"sampled": ()})[1]["sampled-not-answered"].severity is Severity.REVIEW


def test_the_limit_of_the_loss_is_a_limit() -> None:
    comparison, _ = judged({"sampled": sampled([4] * 30)}, {"sampled": sampled([1] * 15 + [4] * 15)})
    tolerant = PromptsSettings(limits=FEW_ARE_ENOUGH.model_copy(update={"sampled_drop_points": 50.0}))
    assert CHECK.judge(comparison, tolerant) == ()


# -- the 2 x 2 -----------------------------------------------------------------------------------------------------------


def alone(texts: dict[str, str]) -> dict[str, Any]:
    return {"sequential": tuple(answer(name, 0, text, sampling_sha256="s") for name, text in texts.items())}


def test_batching_and_change_are_told_apart() -> None:
    """c00 differs by the change alone, c01 when the baseline is alone, c02 only when the candidate is."""
    comparison, found = judged(
        alone({"c00": "{}", "c01": "[1]", "c02": "{}", "c03": "{}"}),
        alone({"c00": "[2]", "c01": "{}", "c02": "[3]", "c03": "{}"}),
    )
    counted = comparison.candidate["batching"]
    assert counted["prompts"] == counted["asked"] == 4
    assert counted["by_batching"] == {"baseline": 1, "candidate": 2}
    assert counted["by_change"] == {"sequential": 3, "concurrent": 0}
    assert counted["like_reference"] == {
        "baseline_sequential": 4, "baseline_concurrent": 3, "candidate_sequential": 1, "candidate_concurrent": 3,
    }  # fmt: skip
    assert counted["same_everywhere"] == 1
    assert found == {}, "it informs and never decides"


def test_only_prompts_with_all_four_answers_are_in_the_table() -> None:
    comparison, _ = judged(alone({"c00": "{}", "c01": "{}"}), alone({"c00": "{}"}))
    assert (comparison.candidate["batching"]["asked"], comparison.candidate["batching"]["prompts"]) == (2, 1)
    failed = {"sequential": (answer("c00", 0, "", sampling_sha256="s", status=ItemStatus.FAILED, error="x"),)}
    assert judged(alone({"c00": "{}"}), failed)[0].candidate["batching"]["prompts"] == 0
    assert "batching" not in judged({}, {})[0].candidate
