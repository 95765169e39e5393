"""From a corpus file to columns: reading hostile bytes, cutting windows, asking, drawing, and not asking in vain."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from servegate.checks.contract import MeasureContext
from servegate.checks.logprobs import CHECK
from servegate.checks.logprobs.inputs import LADDER, read_ladder
from servegate.checks.logprobs.record import LogprobsInputs, LogprobsMeasurement
from servegate.checks.logprobs.settings import Corpus, LogprobsSettings, OwnTraffic
from servegate.domain.evidence import EngineFacts, ItemStatus, sha256_of_token_ids
from servegate.domain.workload import ChatPrompt, Completion, CompletionRequest, PromptScore, Rendered, ScoreRequest
from servegate.errors import MeasurementError, UnsupportedError, UsageError
from servegate.ports import Advance, Probes
from tests.unit.samples import engine_facts

LADDER_BYTES = (Path(__file__).parents[3] / "src" / "servegate" / "data" / "reference_ladder.tsv").read_bytes()
BOS = (1,)


@dataclass
class Engine:
    """Tokenizes a byte to an id, scores every token -1, and answers prompts with three tokens."""

    bos: tuple[int, ...] = ()
    unsupported: str | None = None
    fails: tuple[str, ...] = ()
    scored: list[tuple[tuple[ScoreRequest, ...], int, int]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    drawn: list[CompletionRequest] = field(default_factory=list)
    lost: int = 0

    def tokenize(self, texts: Sequence[str], *, special: bool) -> tuple[tuple[int, ...], ...]:
        self.texts += texts
        return tuple((*(self.bos if special else ()), *text.encode()) for text in texts)

    def why_unsupported(self, token_ids: tuple[int, ...], top_k: int) -> str | None:
        assert len(token_ids) <= 8
        return self.unsupported

    def score(
        self, requests: Sequence[ScoreRequest], top_k: int, concurrency: int, advance: Advance
    ) -> tuple[PromptScore, ...]:
        self.scored.append((tuple(requests), top_k, concurrency))
        advance(len(requests))
        return tuple(self._score(request, top_k) for request in requests[self.lost :])

    def _score(self, request: ScoreRequest, top_k: int) -> PromptScore:
        n = len(request.token_ids)
        if request.id in self.fails:
            return PromptScore.nothing(request.id, ItemStatus.FAILED, "broken", top_k)
        logprob = np.full(n, -1.0, dtype=np.float32)
        logprob[0] = np.nan
        top = np.full((n, top_k), 5, dtype=np.int32)
        return PromptScore(request.id, ItemStatus.OK, logprob, np.ones(n, dtype=np.int32), top, -top.astype(np.float32))

    def render(self, prompts: Sequence[ChatPrompt]) -> tuple[Rendered, ...]:
        return tuple(Rendered(id=one.id, token_ids=(7, 8)) for one in prompts)

    def complete(self, requests: Sequence[CompletionRequest], concurrency: int, advance: Advance) -> tuple[Completion, ...]:
        self.drawn += requests
        return tuple(
            Completion(id=one.id, status=ItemStatus.FAILED, error="refused")
            if one.id in self.fails
            else Completion(id=one.id, status=ItemStatus.TRUNCATED, token_ids=(20, 21, 22))
            for one in requests
        )


def read(**files: bytes) -> Callable[[str], bytes]:
    named = {"corpus.txt": files.get("corpus", b""), "prompts.jsonl": b'{"id": "p", "prompt": "x"}\n{"id": "q", "prompt": "y"}'}
    return lambda name: LADDER_BYTES if name == LADDER else named[name]


def loaded(corpus: bytes, settings: LogprobsSettings | None = None) -> LogprobsInputs:
    assert CHECK.load is not None
    found = CHECK.load(settings or LogprobsSettings(), read(corpus=corpus))
    assert isinstance(found, LogprobsInputs)
    return found


def settings(windows: int = 100, tokens: int = 40, **more: Any) -> LogprobsSettings:
    return LogprobsSettings(corpus=Corpus(windows=windows, window_tokens=tokens), **more)


def probes(engine: Engine) -> Probes:
    return Probes(completions=engine, load_generator=None, evaluator=None, prompt_logprobs=engine)  # type: ignore[arg-type]


def prepared(engine: Engine, corpus: bytes, chosen: LogprobsSettings, longest: int | None = 2048) -> LogprobsInputs:
    assert CHECK.prepare is not None
    made = CHECK.prepare(probes(engine), chosen, loaded(corpus, chosen), engine_facts(max_model_len=longest))
    assert isinstance(made, LogprobsInputs)
    return made


def measured(
    engine: Engine,
    inputs: LogprobsInputs | None,
    chosen: LogprobsSettings,
    step: int = 0,
    baseline: LogprobsMeasurement | None = None,
    facts: EngineFacts | None = None,
) -> LogprobsMeasurement:
    arm = "candidate" if baseline else "baseline"
    return CHECK.measure(
        probes(engine), chosen, MeasureContext(arm, step, facts or engine_facts(), inputs, baseline, lambda _: None)
    )


# -- the corpus ------------------------------------------------------------------------------------------------


def test_a_form_feed_begins_a_document_and_the_ladder_comes_along() -> None:
    found = loaded("\ufeffone\x0c \x0ctwo \u2028 \x00 three\r\n".encode())
    assert found.documents == ("one", "two \u2028 \x00 three\r\n")
    assert [one.step for one in found.ladder][:3] == ["BF16 for FP16", "Q8_0", "Q6_K"]
    assert found.ladder[4].same_top == 0.91901


@pytest.mark.parametrize("corpus", [b"", b" \n\x0c\n "])
def test_a_corpus_without_text_is_an_error(corpus: bytes) -> None:
    with pytest.raises(UsageError, match=r"corpus\.txt: the corpus holds no text"):
        loaded(corpus)


def test_bytes_that_are_no_text_are_named_by_line_and_byte() -> None:
    with pytest.raises(UsageError, match=r"corpus\.txt:2: byte 3 of the line is not UTF-8"):
        loaded(b"fine\nab\xff\n")


def test_an_empty_cell_of_the_ladder_is_unknown_and_not_zero() -> None:
    assert read_ladder(b"# a\nQ5\t\t\t0.03\t0.01\n")[0].model_dump() == {
        "step": "Q5", "ppl_ratio": None, "same_top": None, "rms_delta_p": 0.03, "kl_nats": 0.01,
    }  # fmt: skip


@pytest.mark.parametrize("values", [{"top_k": 50}, {"top_k": -1}, {"concurrency": 0}, {"corpus": {"windows": 0}}])
def test_d9_what_no_engine_grants_is_refused_before_anything_starts(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"less than or equal to 20|greater than or equal to"):
        LogprobsSettings.model_validate(values)


# -- windows ---------------------------------------------------------------------------------------------------


def test_windows_are_cut_per_document_and_short_rests_are_dropped() -> None:
    made = prepared(Engine(), b"a" * 100 + b"\x0c" + b"b" * 75 + b"\x0c" + b"c" * 33, settings(tokens=40))
    assert [(one.window_id, one.document_id, len(one.token_ids)) for one in made.windows] == [
        ("w00000", "d00000", 40), ("w00001", "d00000", 40), ("w00002", "d00001", 40), ("w00003", "d00001", 35),
        ("w00004", "d00002", 33),
    ]  # fmt: skip
    assert all(one.token_ids_sha256 == sha256_of_token_ids(one.token_ids) for one in made.windows)
    assert made.documents == ()
    assert made.ladder


def test_text_that_is_repeated_is_counted_wherever_the_copy_begins() -> None:
    draw = random.Random(3)
    paragraph = bytes(draw.randrange(97, 123) for _ in range(310))
    own = bytes(draw.randrange(97, 123) for _ in range(4_000))
    assert prepared(Engine(), own, settings(windows=100, tokens=100)).copies == 0
    repeated = prepared(Engine(), paragraph * 20, settings(windows=100, tokens=100))
    assert (len(repeated.windows), repeated.copies) == (62, 59)
    assert prepared(Engine(bos=BOS), own + own, settings(windows=100, tokens=100)).copies >= 35


def test_d7_bos_is_what_the_tokenizer_adds_and_explicit() -> None:
    made = prepared(Engine(bos=BOS), b"a" * 100, settings(tokens=40))
    assert made.bos_token_ids == BOS
    assert [one.token_ids[:2] for one in made.windows] == [(1, 97), (1, 97)]
    assert {len(one.token_ids) for one in made.windows} == {40}
    bare = LogprobsSettings(corpus=Corpus(window_tokens=40, bos="none"))
    assert prepared(Engine(bos=BOS), b"a" * 100, bare).windows[0].token_ids[0] == 97


def test_windows_leave_room_for_the_one_generated_token() -> None:
    made = prepared(Engine(), b"a" * 300, settings(tokens=2048), longest=65)
    assert {len(one.token_ids) for one in made.windows} == {64, 44}


def test_no_more_is_tokenized_than_the_windows_need_and_no_piece_exceeds_the_context() -> None:
    engine = Engine()
    text = ("wörd " * 20_000).encode()
    made = prepared(engine, text, settings(windows=5, tokens=40), longest=101)
    assert len(made.windows) == 5
    assert max(len(one.encode()) for one in engine.texts) <= 100
    assert sum(len(one.encode()) for one in engine.texts) < 10_000
    pieces = [one for one in engine.texts if one != "text"]
    assert "".join(pieces) == text.decode()[: len("".join(pieces))]
    assert all(one.startswith(" ") for one in pieces[1:])


@pytest.mark.parametrize("text", ["a" * 50_000, "\u3042" * 20_000, "\U0001f600" * 9_000, " " * 9_000 + "x" * 90])
def test_text_without_words_is_cut_all_the_same(text: str) -> None:
    engine = Engine()
    prepared(engine, text.encode(), settings(windows=10_000, tokens=512), longest=300)
    assert "".join(one for one in engine.texts if one != "text") == text


def test_a_corpus_shorter_than_a_window_or_a_tiny_context_is_an_error() -> None:
    with pytest.raises(UsageError, match="no document has the 32 tokens"):
        prepared(Engine(), b"too short", settings())
    with pytest.raises(UsageError, match="windows of 15 tokens are too short"):
        prepared(Engine(), b"a" * 100, settings(), longest=16)


def test_an_engine_that_cannot_score_is_unsupported() -> None:
    assert CHECK.prepare is not None
    nothing = Probes(completions=Engine(), load_generator=None, evaluator=None)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="no way to score"):
        CHECK.prepare(nothing, settings(), loaded(b"a" * 100), engine_facts())


# -- measuring -------------------------------------------------------------------------------------------------


def test_every_round_has_its_own_order_and_salt() -> None:
    engine, chosen = Engine(), settings(tokens=40)
    made = prepared(engine, b"a" * 4000, chosen)
    both = measured(engine, made, chosen).joined(measured(engine, made, chosen, step=1))
    orders = [[request.id for request in requests] for requests, _, _ in engine.scored]
    assert sorted(orders[0]) == sorted(orders[1]) == [one.window_id for one in made.windows]
    assert orders[0] != orders[1]
    assert len({request.cache_salt for requests, _, _ in engine.scored for request in requests}) == 2
    assert [(one.round, one.first_row, one.rows) for one in both.windows][99:102] == [
        (0, 3960, 40),
        (1, 4000, 40),
        (1, 4040, 40),
    ]
    assert both.columns["token_id"].tolist() == [97] * 8000
    assert both.columns["top_id"].shape == (8000, 1)


def test_a_failed_window_has_a_status_and_no_rows() -> None:
    engine, chosen = Engine(fails=("w00001",)), settings(windows=3)
    found = measured(engine, prepared(engine, b"a" * 400, chosen), chosen)
    assert [(one.status.value, one.rows, one.error) for one in found.windows] == [
        ("ok", 40, None), ("failed", 0, "broken"), ("ok", 40, None),
    ]  # fmt: skip


def test_a_lost_score_is_an_error_and_not_a_shorter_list() -> None:
    engine, chosen = Engine(lost=1), settings(windows=3)
    with pytest.raises(MeasurementError, match="3 texts were sent to be scored, 2 scores"):
        measured(engine, prepared(engine, b"a" * 400, chosen), chosen)


def test_windows_that_were_not_cut_are_not_measured() -> None:
    with pytest.raises(MeasurementError, match="not cut into windows"):
        measured(Engine(), loaded(b"a" * 100), settings())


def test_d11_an_unsupported_engine_is_asked_once_and_says_why() -> None:
    engine, chosen = Engine(unsupported="HTTP 500: 4226"), settings()
    with pytest.raises(UnsupportedError, match=r"does not support prompt_logprobs=1: HTTP 500: 4226") as raised:
        measured(engine, prepared(engine, b"a" * 100, chosen), chosen)
    assert raised.value.reason_code == "unsupported"
    assert engine.scored == []


def test_d6_the_mode_is_recorded_and_logits_are_no_logprobs() -> None:
    engine, chosen = Engine(), settings()
    made = prepared(engine, b"a" * 100, chosen)
    assert measured(engine, made, chosen).logprobs_mode == "raw_logprobs"
    told = engine_facts(argv=("vllm", "serve", "m", "--logprobs-mode=processed_logprobs"))
    assert measured(engine, made, chosen, facts=told).logprobs_mode == "processed_logprobs"
    logits = engine_facts(argv=("vllm", "serve", "m", "--logprobs-mode=raw_logits"))
    with pytest.raises(UnsupportedError, match="'raw_logits', which are no logprobs"):
        measured(engine, made, chosen, facts=logits)


# -- own traffic -----------------------------------------------------------------------------------------------

OWN = settings(windows=2, top_k=1, own_traffic=OwnTraffic(file="prompts.jsonl", samples=3, max_tokens=3))


def test_the_baseline_draws_from_the_whole_distribution_and_both_arms_score_it() -> None:
    engine = Engine()
    made = prepared(engine, b"a" * 100, OWN)
    baseline = measured(engine, made, OWN)
    assert [(one.id, one.temperature, one.top_p, one.top_k, one.seed, one.max_tokens) for one in engine.drawn] == [
        (f"s{n:05d}", 1.0, 1.0, 0, n, 3) for n in range(3)
    ]
    assert [(one.sample_id, one.prompt_id, one.scoring, one.prompt_tokens, one.rows) for one in baseline.samples][:4] == [
        ("s00000", "p", 0, 2, 5), ("s00001", "q", 0, 2, 5), ("s00002", "p", 0, 2, 5), ("s00000", "p", 1, 2, 5),
    ]  # fmt: skip
    first = baseline.samples[0]
    assert baseline.columns["token_id"][first.first_row : first.first_row + 5].tolist() == [7, 8, 20, 21, 22]
    other = Engine()
    candidate = measured(other, made, OWN, baseline=baseline)
    assert other.drawn == []
    assert [one.token_ids_sha256 for one in candidate.samples] == [one.token_ids_sha256 for one in baseline.samples]
    assert [top_k for _, top_k, _ in other.scored] == [1, 0, 0]
    assert measured(other, made, OWN, step=1, baseline=baseline).samples == ()


def test_an_answer_that_was_not_drawn_is_skipped_in_both_arms() -> None:
    engine = Engine(fails=("s00001",))
    made = prepared(engine, b"a" * 100, OWN)
    baseline = measured(engine, made, OWN)
    candidate = measured(Engine(), made, OWN, baseline=baseline)
    for arm, said in ((baseline, "refused"), (candidate, "the baseline did not score it")):
        assert [(one.status.value, one.error) for one in arm.samples][:2] == [("ok", None), ("skipped", said)]


def test_a_prompt_that_leaves_no_room_for_its_answer_is_an_error() -> None:
    chosen = OWN.model_copy(update={"own_traffic": OwnTraffic(file="prompts.jsonl", samples=3, max_tokens=100)})
    with pytest.raises(UsageError, match="do not fit into the 100 tokens of context: p, q"):
        prepared(Engine(), b"a" * 100, chosen, longest=100)
