"""The shapes that collaborators must have: engines, sessions, probes, progress.

All calls are synchronous; concurrency lives inside a probe. Real ones are made in `cli`, fakes in `tests/fakes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from servegate.domain.arms import Arm
from servegate.domain.evidence import EngineFacts
from servegate.domain.load import Load, LoadSpec
from servegate.domain.workload import (
    ChatPrompt,
    Completion,
    CompletionRequest,
    Endpoint,
    Evaluation,
    EvaluationSpec,
    PromptScore,
    Rendered,
    ScoreRequest,
)

Advance = Callable[[int], None]
"""Tell the progress display that so many more items are done."""


class Completions(Protocol):
    """Renders prompts and completes them."""

    def render(self, prompts: Sequence[ChatPrompt]) -> tuple[Rendered, ...]:
        """Return the token ids of each prompt under the endpoint's own chat template, in the same order."""

    def complete(self, requests: Sequence[CompletionRequest], concurrency: int, advance: Advance) -> tuple[Completion, ...]:
        """Complete every request; a failed one comes back with its status, it never raises or goes missing."""


class PromptLogprobs(Protocol):
    """Scores given texts: the logprob of every token of a prompt, without generating."""

    def tokenize(self, texts: Sequence[str], *, special: bool) -> tuple[tuple[int, ...], ...]:
        """Return the token ids of each text, in order; `special` adds what the tokenizer adds to a prompt (such as BOS)."""

    def why_unsupported(self, token_ids: tuple[int, ...], top_k: int) -> str | None:
        """Score one short text; return why the engine cannot do it, or None when it can."""

    def score(
        self, requests: Sequence[ScoreRequest], top_k: int, concurrency: int, advance: Advance
    ) -> tuple[PromptScore, ...]:
        """Score every text; a failed one comes back with its status, it never raises or goes missing."""


class Embeddings(Protocol):
    """Says how near texts are by an embedding model, which is none of the arms."""

    def cosines(self, url: str, model: str, pairs: Sequence[tuple[str, str]]) -> tuple[tuple[float | None, str | None], ...]:
        """Return (cosine, None) or (None, why not) of each pair, in order; it never raises."""


class LoadGenerator(Protocol):
    """Loads the endpoint and reports throughput and latency."""

    def load(self, spec: LoadSpec) -> Load:
        """Run one point, all its windows. Raises MeasurementError when the tool fails or its result is unreadable."""


class Evaluator(Protocol):
    """Scores a task against the endpoint."""

    def evaluate(self, spec: EvaluationSpec, known: Mapping[str, str | None] | None = None) -> Evaluation:
        """Run one pass of one task. Raises MeasurementError when the tool fails or its result is unreadable.

        `known` holds answers by `prompt_hash` (None: a null); the engine is not asked for these.
        """


@dataclass(frozen=True)
class Probes:
    """Instruments that a check points at an endpoint."""

    completions: Completions
    load_generator: LoadGenerator
    evaluator: Evaluator
    prompt_logprobs: PromptLogprobs | None = None
    """None where nothing can score given texts."""
    embeddings: Embeddings | None = None
    """None where nothing asks an embedding model."""


class Session(Protocol):
    """An arm that is being served."""

    @property
    def endpoint(self) -> Endpoint:
        """Where it answers."""

    @property
    def facts(self) -> EngineFacts:
        """What it said about itself while it started."""

    def ensure_alive(self) -> None:
        """Raise EngineError with the first exception of its log when our child is gone."""

    def ensure_generating(self) -> None:
        """Ask for one token; raise EngineError when none comes in time, although everything else may be answered."""


@runtime_checkable
class SleepingSession(Session, Protocol):
    """A session whose engine can give the card to another and take it back. Asleep it answers nothing."""

    def fall_asleep(self) -> None:
        """Move the weights off the card. Raises EngineError when the engine does not fall asleep in time."""

    def wake_up(self) -> None:
        """Take the card again and generate a token. Raises EngineError when it does not in time."""


class Engine(Protocol):
    """A kind of server. A failed start raises `EngineError`; its facts are then on the exception as `facts`."""

    def session(self, arm: Arm, log_path: Path) -> AbstractContextManager[Session]:
        """Serve the arm; the whole log goes to `log_path`; on leaving, nothing of it is left running."""


class Progress(Protocol):
    """Shows what is going on."""

    def stage(self, title: str, arm: str | None, total: int | None) -> AbstractContextManager[Advance]:
        """Show a stage while the context is open; `total` items, or unknown."""

    def say(self, line: str) -> None:
        """Print one line above the display."""
