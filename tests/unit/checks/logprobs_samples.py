"""Small logprobs measurements to start from: arrays of logprobs become an arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servegate.checks.contract import ArmEvidence, Evidence
from servegate.checks.logprobs.measuring import _Rows
from servegate.checks.logprobs.record import LogprobsInputs, LogprobsMeasurement, Rung, Sample, Window, WindowInput
from servegate.domain.evidence import ItemStatus, NotMeasured, sha256_of_token_ids
from servegate.domain.plan import ModelSource
from servegate.domain.workload import PromptScore
from tests.unit.samples import engine_facts, manifest, plan

RECORDED = Path(__file__).parents[2] / "recorded" / "logprobs" / "h200-smollm2-135m.npz"
BIG = {"vocab_size": 128_256, "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
       "num_key_value_heads": 8, "intermediate_size": 14_336}  # fmt: skip
SMALL = {"vocab_size": 49_152, "hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9,
         "num_key_value_heads": 3, "intermediate_size": 1536, "tie_word_embeddings": True}  # fmt: skip
LADDER = (Rung(step="Q8_0", ppl_ratio=1.000425, same_top=0.97674, rms_delta_p=0.01198, kl_nats=0.001355),)

Logprobs = Sequence[float | None] | npt.NDArray[Any]


def score(logprobs: Logprobs, tops: Sequence[int] | None = None, **changes: Any) -> PromptScore:
    """Return the score of a text whose tokens after the first have these logprobs; None is a missing one."""
    values = np.array([np.nan, *(np.nan if one is None else one for one in logprobs)], dtype=np.float32)
    n = len(values)
    top = np.array([-1, *(tops if tops is not None else range(1, n))], dtype=np.int32).reshape(n, 1)
    fields: dict[str, Any] = {
        "id": "w",
        "status": ItemStatus.OK,
        "logprob": values,
        "rank": np.full(n, 1, dtype=np.int32),
        "top_id": top,
        "top_logprob": np.full((n, 1), -0.1, dtype=np.float32),
    }
    return PromptScore(**{**fields, **changes})


def arm(rounds: Sequence[Mapping[str, PromptScore]], first_id: int = 0, **changes: Any) -> LogprobsMeasurement:
    """Return an arm; each round maps window ids to scores. Equal window ids hold equal token ids, unless `first_id` differs."""
    made = None
    for number, scores in enumerate(rounds):
        rows = _Rows(1)
        windows = []
        for name, one in scores.items():
            ids = tuple(range(first_id, first_id + max(len(one.logprob), 1)))
            windows.append(
                Window(window_id=name, document_id=name.split(".", maxsplit=1)[0], round=number,
                       token_ids_sha256=sha256_of_token_ids(ids), **rows.add(ids, one))
            )  # fmt: skip
        step = LogprobsMeasurement(**{"windows": tuple(windows), "top_k": 1, "columns": rows.columns(), **changes})
        made = step if made is None else made.joined(step)
    assert made is not None
    return made


def many(windows: int = 40, tokens: int = 300, seed: int = 1, shift: float = 0.0, spread: float = 0.0, rounds: int = 2,
         noise: float = 0.0) -> LogprobsMeasurement:  # fmt: skip
    """Return an arm of one model: `shift` nats better everywhere, `spread` per window, `noise` per round and token."""
    base = np.random.default_rng(seed)
    own = np.random.default_rng(abs(hash((shift, spread, noise))) % 1000)
    values = {f"w{number:05d}": -base.exponential(2.0, tokens) for number in range(windows)}
    moves = {name: shift + spread * own.normal() for name in values}
    return arm(
        [
            {
                name: score(np.minimum(array + moves[name] + noise * own.normal(size=tokens), 0.0))
                for name, array in values.items()
            }
            for _ in range(rounds)
        ]
    )


def sample(name: str, logprobs: Logprobs, scoring: int, rows: _Rows, prompt: int = 2) -> Sample:
    one = score(logprobs)
    ids = tuple(range(len(one.logprob)))
    return Sample(sample_id=name, prompt_id=name, scoring=scoring, prompt_tokens=prompt,
                  token_ids_sha256=sha256_of_token_ids(ids), **rows.add(ids, one))  # fmt: skip


def evidence(
    baseline: LogprobsMeasurement | NotMeasured,
    candidate: LogprobsMeasurement | NotMeasured,
    model: Any = BIG,
    options: Sequence[str] = (),
) -> Evidence[LogprobsMeasurement]:
    facts = engine_facts("candidate", argv=("vllm", "serve", "m", *options))
    return Evidence(
        ArmEvidence(engine_facts("baseline"), manifest(), baseline),
        ArmEvidence(facts, manifest(), candidate),
        inputs(),
        plan(model=ModelSource(source="m", revision=None, revision_reason="local", config=model, config_reason="unknown")),
    )


def inputs(windows: int = 1) -> LogprobsInputs:
    ids = tuple(range(40))
    given = [
        WindowInput(window_id=f"w{number:05d}", document_id="d00000", token_ids=ids, token_ids_sha256=sha256_of_token_ids(ids))
        for number in range(windows)
    ]
    return LogprobsInputs(windows=tuple(given), ladder=LADDER)


def recorded(name: str) -> LogprobsMeasurement:
    """Return one arm of the H200 recording: two windows of 512 tokens, scored once."""
    rows = _Rows(1)
    windows = []
    with np.load(RECORDED, allow_pickle=False) as archive:
        for number in range(2):
            column = {
                key: archive[f"{name}.{number}.{key}"] for key in ("token_id", "logprob", "rank", "top_id", "top_logprob")
            }
            ids = tuple(int(one) for one in column.pop("token_id"))
            made = PromptScore(id=f"w{number}", status=ItemStatus.OK, **column)
            windows.append(
                Window(window_id=f"w{number}", document_id="corpus", round=0, token_ids_sha256=sha256_of_token_ids(ids),
                       **rows.add(ids, made))
            )  # fmt: skip
    return LogprobsMeasurement(windows=tuple(windows), top_k=1, columns=rows.columns())
