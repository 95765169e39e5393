"""Rendering once, and one round: what is sent, and what of the answers is kept."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from servegate.checks.contract import MeasureContext
from servegate.checks.prompts import CHECK
from servegate.checks.prompts.records import PromptsInputs, PromptsMeasurement
from servegate.checks.prompts.settings import PromptsSettings
from servegate.domain.evidence import EngineFacts, EngineStatus, ItemStatus, sha256_of_token_ids
from servegate.domain.workload import ChatPrompt, Completion, CompletionRequest, Rendered
from servegate.errors import MeasurementError, UsageError
from servegate.ports import Advance, Probes


@dataclass
class Engine:
    """An engine that renders a message to its code points and answers with the prompt's id; keeps what it was sent."""

    answers: dict[str, Completion] = field(default_factory=dict)
    sent: list[tuple[CompletionRequest, ...]] = field(default_factory=list)
    lose: str | None = None

    def render(self, prompts: Sequence[ChatPrompt]) -> tuple[Rendered, ...]:
        return tuple(Rendered(id=one.id, token_ids=tuple(map(ord, one.messages[-1]["content"]))) for one in reversed(prompts))

    def complete(self, requests: Sequence[CompletionRequest], concurrency: int, advance: Advance) -> tuple[Completion, ...]:
        self.sent.append(tuple(requests))
        advance(len(requests))
        plain = {one.id: Completion(id=one.id, status=ItemStatus.OK, text=f"answer to {one.id}") for one in requests}
        return tuple({**plain, **self.answers}[one.id] for one in requests if one.id != self.lose)


def facts(max_model_len: int | None = None) -> EngineFacts:
    return EngineFacts(role="baseline", session=0, status=EngineStatus.READY, version="0", max_model_len=max_model_len)


def inputs(count: int = 3) -> PromptsInputs:
    lines = "\n".join(json.dumps({"id": f"p{n}", "prompt": "abc"[: n % 3 + 1], "max_tokens": 8}) for n in range(count))
    assert CHECK.load is not None
    loaded = CHECK.load(PromptsSettings(), lambda _name: lines.encode())
    assert isinstance(loaded, PromptsInputs)
    return loaded


def prepared(engine: Engine, count: int = 3, max_model_len: int | None = None) -> PromptsInputs:
    assert CHECK.prepare is not None
    made = CHECK.prepare(probes(engine), PromptsSettings(), inputs(count), facts(max_model_len))
    assert isinstance(made, PromptsInputs)
    return made


def probes(engine: Engine) -> Probes:
    return Probes(completions=engine, load_generator=None, evaluator=None)  # type: ignore[arg-type]


def measured(
    engine: Engine, made: PromptsInputs | None, arm: str = "baseline", step: int = 0, **settings: Any
) -> PromptsMeasurement:
    done: list[int] = []
    context: MeasureContext[PromptsMeasurement] = MeasureContext(
        arm=arm, step=step, engine=facts(), inputs=made, baseline=None, advance=done.append
    )
    found = CHECK.measure(probes(engine), PromptsSettings(**settings), context)
    assert sum(done) == len(found.answers)
    return found


def test_prompts_are_rendered_by_id_and_hashed() -> None:
    made = prepared(Engine())
    assert [one.token_ids for one in made.prompts] == [(97,), (97, 98), (97, 98, 99)]
    assert made.prompts[1].token_ids_sha256 == sha256_of_token_ids((97, 98))


def test_a_prompt_longer_than_the_context_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        prepared(Engine(), count=12, max_model_len=10)
    assert "context of 10 tokens: p2 (3 + 8), p5 (3 + 8), p8 (3 + 8), p11 (3 + 8)" in caught.value.what
    assert len(prepared(Engine(), count=12, max_model_len=11).prompts) == 12


def test_every_sampling_parameter_is_pinned_and_greedy() -> None:
    engine = Engine()
    measured(engine, prepared(engine), top_logprobs=3)
    for one in engine.sent[0]:
        assert (one.temperature, one.top_p, one.top_k, one.min_p, one.repetition_penalty) == (0.0, 1.0, 0, 0.0, 1.0)
        assert (one.max_tokens, one.top_logprobs, one.stop) == (8, 3, ())


def test_both_arms_get_the_same_ids_in_the_same_shuffled_order_and_no_round_shares_a_salt() -> None:
    engine, made = Engine(), prepared(Engine(), count=40)
    for arm, step in (("baseline", 0), ("baseline", 1), ("candidate", 0), ("candidate", 1), ("candidate", 1)):
        measured(engine, made, arm, step)
    orders = [[one.id for one in sent] for sent in engine.sent]
    assert orders[0] == orders[2] != orders[1] == orders[3]
    assert orders[0] != sorted(orders[0], key=lambda name: int(name[1:]))
    salts = [{one.cache_salt for one in sent} for sent in engine.sent]
    assert all(len(salt) == 1 for salt in salts)
    assert len(set.union(*salts)) == 5, "an engine that stays up must not answer a second run from the cache of the first"
    assert {one.id: one.token_ids for one in engine.sent[0]} == {one.id: one.token_ids for one in made.prompts}


def test_hashes_are_equal_between_arms_and_change_with_the_sampling() -> None:
    engine, made = Engine(), prepared(Engine())
    one, other = measured(engine, made), measured(engine, made, "candidate")
    keys = [(a.prompt_sha256, a.token_ids_sha256, a.sampling_sha256) for a in one.answers]
    assert keys == [(a.prompt_sha256, a.token_ids_sha256, a.sampling_sha256) for a in other.answers]
    assert measured(engine, made, top_logprobs=2).answers[0].sampling_sha256 != one.answers[0].sampling_sha256


def test_tokens_and_logprobs_become_rows_and_what_is_missing_stays_missing() -> None:
    engine = Engine(
        {
            "p0": Completion(
                id="p0",
                status=ItemStatus.OK,
                text="x",
                token_ids=(7, 8),
                logprobs=(-0.5, None),
                top_ids=((7, 9), (8,)),
                top_logprobs=((-0.5, -1.0), (-0.25,)),
                cached_tokens=4,
            ),
            "p1": Completion(id="p1", status=ItemStatus.TIMEOUT, error="no answer within 5 s"),
            "p2": Completion(id="p2", status=ItemStatus.OK, text="y", token_ids=(5,), logprobs=(-1.0, -2.0)),
        }
    )
    found = measured(engine, prepared(engine), top_logprobs=2)
    rows = {answer.prompt_id: (answer.first_row, answer.rows) for answer in found.answers}
    assert rows == {"p0": (0, 2), "p1": (2, 0), "p2": (2, 1)}
    assert found.columns["token_id"].tolist() == [7, 8, 5]
    assert found.columns["top_id"].tolist() == [[7, 9], [8, -1], [-1, -1]]
    logprobs = found.columns["logprob"].tolist()
    assert logprobs[0] == -0.5
    assert math.isnan(logprobs[1])
    assert math.isnan(logprobs[2]), "two logprobs for one token belong to nobody"
    assert {name: column.dtype.str for name, column in found.columns.items()} == {
        "token_id": "<i4", "logprob": "<f4", "top_id": "<i4", "top_logprob": "<f4", "arrival_ms": "<f4",
    }  # fmt: skip
    p0, p1, _ = found.answers
    assert (p0.cached_tokens, p0.cached_tokens_reason) == (4, None)
    assert (p1.status, p1.error, p1.e2e_latency_s_reason) == (
        ItemStatus.TIMEOUT,
        "no answer within 5 s",
        "no answer within 5 s",
    )


def test_rounds_join_and_survive_json() -> None:
    engine = Engine(
        {"p0": Completion(id="p0", status=ItemStatus.OK, text="half \ud83d", token_ids=(7, 8), logprobs=(-1.0, -2.0))}
    )
    made = prepared(engine)
    both = measured(engine, made, step=0).joined(measured(engine, made, step=1))
    assert [one.round for one in both.rounds] == [0, 1]
    assert [(a.prompt_id, a.round, a.first_row) for a in both.answers if a.rows] == [("p0", 0, 0), ("p0", 1, 2)]
    text = json.dumps(both.to_json(), allow_nan=False)
    again = PromptsMeasurement.model_validate({**json.loads(text), "columns": both.columns})
    assert again.answers == both.answers
    assert np.array_equal(again.columns["token_id"], both.columns["token_id"])


def test_a_lost_answer_or_an_unrendered_prompt_is_an_error_of_the_harness() -> None:
    with pytest.raises(MeasurementError, match="3 requests were sent, 2 answers"):
        measured(Engine(lose="p1"), prepared(Engine()))
    with pytest.raises(MeasurementError, match="not rendered"):
        measured(Engine(), inputs())
    with pytest.raises(MeasurementError, match="not rendered"):
        measured(Engine(), None)


def test_damaged_records_are_refused() -> None:
    good = measured(Engine(), prepared(Engine()))
    with pytest.raises(ValueError, match="two answers of prompt and round"):
        good.joined(good)
    answer = good.answers[0].model_copy(update={"rows": 3})
    with pytest.raises(ValueError, match="answers need 3 rows"):
        PromptsMeasurement(rounds=good.rounds, answers=(answer,), columns=good.columns)


def test_progress_counts_prompts_and_settings_are_strict() -> None:
    assert CHECK.items(PromptsSettings(), inputs(5)) == 5
    assert CHECK.items(PromptsSettings(), None) is None
    for bad in ({"max_tokens": "256"}, {"contract_round": 4}, {"max_tokens": 0}, {"limits": {"contract_break": 1}}):
        with pytest.raises(ValueError, match="validation error"):
            PromptsSettings(**bad)  # type: ignore[arg-type]


def test_rounds_past_the_gates_ask_only_the_prompts_with_a_contract() -> None:
    lines = [{"id": "a", "prompt": "x"}, {"id": "b", "prompt": "y", "expect": {"json": True}}]
    assert CHECK.load is not None
    loaded = CHECK.load(PromptsSettings(), lambda _name: "\n".join(map(json.dumps, lines)).encode())
    settings = PromptsSettings(contract_rounds=4, samples=0, sequential="never")
    assert [CHECK.steps(settings, loaded, rounds) for rounds in (1, 2, 4, 6)] == [4, 4, 4, 6]
    assert CHECK.steps(settings, inputs(), 2) == 2, "no prompt has a contract"
    asked = [CHECK.part(settings, loaded, step, 2) for step in range(4)]
    assert [[one.id for one in part.prompts] for part in asked] == [["a", "b"], ["a", "b"], ["b"], ["b"]]
    engine = Engine()
    assert CHECK.prepare is not None
    made = CHECK.prepare(probes(engine), settings, loaded, facts())
    rounds = [measured(engine, CHECK.part(settings, made, step, 2), step=step) for step in range(4)]  # type: ignore[arg-type]
    whole = rounds[0].joined(rounds[1]).joined(rounds[2]).joined(rounds[3])
    assert [(one.round, one.asked) for one in whole.rounds] == [(0, "all"), (1, "all"), (2, "contracts"), (3, "contracts")]
    assert sorted((one.prompt_id, one.round) for one in whole.answers if one.round > 1) == [("b", 2), ("b", 3)]


@dataclass
class Near:
    """An embedding model that knows one number, or one reason."""

    said: tuple[float | None, str | None] = (0.75, None)
    asked: list[tuple[str, str, tuple[tuple[str, str], ...]]] = field(default_factory=list)

    def cosines(self, url: str, model: str, pairs: Sequence[tuple[str, str]]) -> tuple[tuple[float | None, str | None], ...]:
        self.asked.append((url, model, tuple(pairs)))
        return (self.said,) * len(pairs)


EMBEDDINGS = {"url": "http://127.0.0.1:8001", "model": "e5"}


@pytest.mark.parametrize("said", [(0.75, None), (None, "HTTP 400: too long")])
def test_an_embedding_model_is_asked_about_answers_that_differ_and_only_for_the_candidate(
    said: tuple[float | None, str | None],
) -> None:
    other = {
        "p1": Completion(id="p1", status=ItemStatus.OK, text="another"),
        "p2": Completion(id="p2", status=ItemStatus.EMPTY, text=""),
    }
    made, near = prepared(Engine()), Near(said)
    settings = PromptsSettings.model_validate({"embeddings": EMBEDDINGS})

    def arm(name: str, engine: Engine, baseline: PromptsMeasurement | None, step: int = 0) -> PromptsMeasurement:
        context = MeasureContext(arm=name, step=step, engine=facts(), inputs=made, baseline=baseline, advance=lambda _: None)
        tools = Probes(completions=engine, load_generator=None, evaluator=None, embeddings=near)  # type: ignore[arg-type]
        return CHECK.measure(tools, settings, context)

    before = arm("baseline", Engine(), None)
    assert near.asked == []
    after = arm("candidate", Engine(answers=other), before)
    assert near.asked == [("http://127.0.0.1:8001", "e5", (("answer to p1", "another"),))]
    found = {one.prompt_id: (one.cosine, one.cosine_reason) for one in after.answers}
    assert found == {"p0": (1.0, None), "p1": said, "p2": (None, "one side has no answer")}
    assert all(one.cosine is one.cosine_reason is None for one in before.answers)
    assert {one.cosine_reason for one in arm("candidate", Engine(), before, step=1).answers} == {
        "the baseline's answer was not there yet"
    }


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8001", "ftp://host", "http://", "http://user:secret@host", "http://host/?key=secret"]
)
def test_the_address_of_an_embedding_model_is_http_and_holds_no_secret(url: str) -> None:
    with pytest.raises(ValueError, match="url"):
        PromptsSettings.model_validate({"embeddings": {"url": url, "model": "e5"}})
