"""What the logprobs check is given and what it records of one arm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from pydantic import model_validator

from servegate.checks.contract import Inputs
from servegate.checks.prompts.records import Prompt
from servegate.domain.evidence import LOGPROBS, ItemStatus, Measurement, absent, ensure_single, unplanned
from servegate.domain.records import MOST, Amount, Count, Record, Share

CORPUS = "corpus"


class WindowInput(Record):
    """One window as token ids; the same in both arms."""

    window_id: str
    document_id: str
    token_ids: tuple[Count, ...]
    token_ids_sha256: str


class Rung(Record):
    """One step of the reference ladder; None where its source does not state the number."""

    step: str
    ppl_ratio: Amount | None
    same_top: Share | None
    rms_delta_p: Amount | None
    kl_nats: Amount | None


class LogprobsInputs(Inputs):
    """The corpus: as documents when loaded, as windows once the baseline's tokenizer cut it."""

    documents: tuple[str, ...] = ()
    """Text, dropped once it is cut: the windows are what is scored, and the file's hash stands in the plan."""
    windows: tuple[WindowInput, ...] = ()
    bos_token_ids: tuple[Count, ...] = ()
    copies: Count = 0
    """Windows that mostly repeat the text of earlier ones."""
    """What stands before each window; empty when the tokenizer adds nothing."""
    traffic: tuple[Prompt, ...] = ()
    ladder: tuple[Rung, ...] = ()

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        ensure_single("windows with the id", (one.window_id for one in self.windows))
        return self


class Window(Record):
    """One window scored in one round: `rows` rows of the columns from `first_row`, row = position, the first never scored."""

    window_id: str
    document_id: str
    round: Count
    token_ids_sha256: str
    status: ItemStatus
    clamped: Count = 0
    """Tokens whose logprob was minus infinity."""
    missing: Count = 0
    """Tokens without a usable logprob for another reason."""
    error: str | None = None
    first_row: Count = 0
    rows: Count = 0


class Sample(Record):
    """One answer that the baseline drew at temperature 1, scored for the `scoring`-th time; its rows hold prompt and answer."""

    sample_id: str
    prompt_id: str
    scoring: Count
    drawn_in: str = "baseline"
    prompt_tokens: Count
    token_ids_sha256: str
    status: ItemStatus
    clamped: Count = 0
    missing: Count = 0
    error: str | None = None
    first_row: Count = 0
    rows: Count = 0


class ScoringPass(Record):
    """What one round over the windows cost: `client_cpu_s` is the processor time of servegate itself, all its threads."""

    round: Count
    windows: Count
    positions: Count
    wall_s: Amount
    client_cpu_s: Amount


class LogprobsMeasurement(Measurement):
    """Every round of one arm.

    Columns, one row a token of a text: token_id i4[R], logprob f4[R] (nats, of that token), rank i4[R], top_id i4[R,k] and
    top_logprob f4[R,k] (likeliest first). Missing ids and ranks are -1, missing logprobs NaN.
    """

    SAMPLES: ClassVar[tuple[str, ...]] = ("windows", "samples", "passes")
    COLUMNS: ClassVar[dict[str, tuple[str, int]]] = {
        "token_id": ("iu", 1), "logprob": ("f", 1), "rank": ("iu", 1), "top_id": ("iu", 2), "top_logprob": ("f", 2),
    }  # fmt: skip

    RANGES: ClassVar[dict[str, tuple[float, float]]] = {
        "token_id": (-1, MOST), "rank": (-1, MOST), "top_id": (-1, MOST), "logprob": LOGPROBS, "top_logprob": LOGPROBS,
    }  # fmt: skip

    windows: tuple[Window, ...]
    samples: tuple[Sample, ...] = ()
    passes: tuple[ScoringPass, ...] = ()
    """One a round; empty in records that were made before it was kept."""
    top_k: Count
    logprobs_mode: str = "raw_logprobs"
    """What the engine was told to report; without an option, vLLM reports raw logprobs."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        ensure_single("records of window and round", ((one.window_id, one.round) for one in self.windows))
        ensure_single("records of sample and scoring", ((one.sample_id, one.scoring) for one in self.samples))
        items: tuple[Window | Sample, ...] = (*self.windows, *self.samples)
        needed = max((item.first_row + item.rows for item in items), default=0)
        lengths = {len(column) for column in self.columns.values()} or {0}
        if len(lengths) != 1 or needed > max(lengths) or any(item.first_row < 0 or item.rows < 0 for item in items):
            raise ValueError(f"windows and samples need {needed} rows, the columns have {sorted(lengths)}")
        return self

    def gaps(self, steps: Sequence[int], rounds: int, inputs: Any) -> tuple[str, ...]:
        """Return which planned windows, and which samples of a scoring, are not held."""
        given = inputs.windows if isinstance(inputs, LogprobsInputs) else ()
        windows = dict.fromkeys([*(one.window_id for one in given), *(one.window_id for one in self.windows)])
        scorings = {one.scoring for one in self.samples}
        samples = dict.fromkeys(one.sample_id for one in self.samples)
        return (
            *absent("planned rounds", steps, (one.round for one in self.windows)),
            *absent(
                "planned windows",
                [(name, step) for step in steps for name in windows],
                [(one.window_id, one.round) for one in self.windows],
            ),
            *absent(
                "samples",
                [(name, scoring) for name in samples for scoring in sorted(scorings)],
                [(one.sample_id, one.scoring) for one in self.samples],
            ),
        )

    def surplus(self, steps: Sequence[int], inputs: Any) -> tuple[str, ...]:
        """Return rounds past the last, and windows of no text of the corpus."""
        known = [window.window_id for window in inputs.windows] if isinstance(inputs, LogprobsInputs) else []
        return (
            *unplanned("rounds", (one.round for one in self.windows), steps),
            *(unplanned("windows", (one.window_id for one in self.windows), known) if known else ()),
        )
