"""Joins two passes over the same texts: by id, hash and row, never by place in a list.

A text counts when both passes scored it whole and its token ids are equal; then row i of the one belongs to row i of the
other, since a row is a position of the text. A position counts when both passes hold a usable logprob for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from servegate.checks.logprobs.record import LogprobsMeasurement, Sample, Window
from servegate.domain.evidence import Columns, ItemStatus
from servegate.domain.judgement import Unpaired

FEWEST_DOCUMENTS = 30
"""Documents are the clusters when there are so many of them; else windows are, of which there are more."""


@dataclass(frozen=True)
class Text:
    """One text as one pass scored it. Rows before `skip` are not compared."""

    key: str
    document: str
    number: int
    sha256: str
    ok: bool
    first_row: int
    rows: int
    skip: int
    clamped: int
    missing: int


@dataclass(frozen=True)
class Pass:
    """Texts of one arm with the columns that hold their rows."""

    texts: tuple[Text, ...]
    columns: Columns


@dataclass(frozen=True)
class Paired:
    """Compared positions [N] of two passes: rows in either's columns, text number, position, and what was left out."""

    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    text: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]
    keys: tuple[str, ...]
    documents: tuple[str, ...]
    """Document of each text number."""
    unpaired: Unpaired
    unscored: int
    """Texts that a side did not score."""
    lost: int
    """Positions of paired texts without a usable logprob on a side."""
    lost_right_only: int
    """Of these, positions that the left side scored."""
    passes: int

    @property
    def clusters(self) -> tuple[npt.NDArray[np.int64], str]:
        """Cluster of each position, and what a cluster is."""
        names = [self.documents[number] for number in np.unique(self.text)]
        if len(set(names)) < FEWEST_DOCUMENTS:
            return self.text, "window"
        order = {name: number for number, name in enumerate(dict.fromkeys(self.documents))}
        of_text = np.array([order[name] for name in self.documents], dtype=np.int64)
        return of_text[self.text], "document"


def windows_of(measurement: LogprobsMeasurement, keep: Callable[[int], bool] = lambda _: True, shift: int = 0) -> Pass:
    """Return the rounds for which `keep` holds; `shift` moves their numbers, to pair an arm's rounds with each other."""
    return Pass(tuple(_window(one, one.round + shift) for one in measurement.windows if keep(one.round)), measurement.columns)


def samples_of(measurement: LogprobsMeasurement, keep: Callable[[int], bool] = lambda _: True, shift: int = 0) -> Pass:
    """Return the scorings of the samples; only the drawn answer is compared, not its prompt."""
    return Pass(
        tuple(_sample(one, one.scoring + shift) for one in measurement.samples if keep(one.scoring)), measurement.columns
    )


def _window(one: Window, number: int) -> Text:
    return Text(one.window_id, one.document_id, number, one.token_ids_sha256, one.status is ItemStatus.OK, one.first_row,
                one.rows, 1, one.clamped, one.missing)  # fmt: skip


def _sample(one: Sample, number: int) -> Text:
    return Text(one.sample_id, one.sample_id, number, one.token_ids_sha256, one.status is ItemStatus.OK, one.first_row,
                one.rows, one.prompt_tokens, one.clamped, one.missing)  # fmt: skip


def pair(left: Pass, right: Pass) -> Paired:
    """Join two passes over the same texts."""
    lefts, rights = _by_key(left.texts), _by_key(right.texts)
    both = sorted(lefts.keys() & rights.keys())
    differing = [key for key in both if lefts[key].sha256 != rights[key].sha256 and lefts[key].ok and rights[key].ok]
    scored = [key for key in both if lefts[key].ok and rights[key].ok and key not in set(differing)]
    joined = [(lefts[key], rights[key]) for key in scored]
    # Hashes are what was sent; the ids in the columns are what was stored. Both must agree.
    torn = [a for a, b in joined if not _same_ids(a, b, left.columns, right.columns)]
    joined = [(a, b) for a, b in joined if a not in torn]
    documents = {text.key: text.document for text in (*left.texts, *right.texts)}
    keys = tuple(sorted({a.key for a, _ in joined}))
    number = {key: place for place, key in enumerate(keys)}
    spans = [np.arange(a.skip, a.rows, dtype=np.int64) for a, _ in joined]
    position = _joined(spans)
    left_rows = _joined([span + a.first_row for span, (a, _) in zip(spans, joined, strict=True)])
    right_rows = _joined([span + b.first_row for span, (_, b) in zip(spans, joined, strict=True)])
    text = np.repeat(np.array([number[a.key] for a, _ in joined], dtype=np.int64), [len(span) for span in spans])
    known_left = np.isfinite(left.columns["logprob"][left_rows]) if len(left_rows) else np.zeros(0, dtype=bool)
    known_right = np.isfinite(right.columns["logprob"][right_rows]) if len(right_rows) else np.zeros(0, dtype=bool)
    known = known_left & known_right
    return Paired(
        left=left_rows[known],
        right=right_rows[known],
        text=text[known],
        position=position[known],
        keys=keys,
        documents=tuple(documents[key] for key in keys),
        unpaired=Unpaired(
            baseline_only=len(lefts.keys() - rights.keys()),
            candidate_only=len(rights.keys() - lefts.keys()),
            hash_differs=len(differing) + len(torn),
        ),
        unscored=len(both) - len(scored) - len(differing),
        lost=int((~known).sum()),
        lost_right_only=int((known_left & ~known_right).sum()),
        passes=len({a.number for a, _ in joined}),
    )


def with_itself(measurement: LogprobsMeasurement) -> Paired | None:
    """Pair an arm's rounds 0 and 1, 2 and 3, ...; None when it has a single round."""
    rounds = sorted({one.round for one in measurement.windows})
    odd = rounds[1::2]
    if not odd:
        return None
    even = [number - 1 for number in odd]
    return pair(windows_of(measurement, lambda n: n in even), windows_of(measurement, lambda n: n in odd, -1))


def _by_key(texts: Iterable[Text]) -> dict[tuple[str, int], Text]:
    return {(text.key, text.number): text for text in texts}


def _same_ids(a: Text, b: Text, left: Columns, right: Columns) -> bool:
    ids = [columns["token_id"][text.first_row : text.first_row + text.rows] for text, columns in ((a, left), (b, right))]
    return bool(np.array_equal(ids[0], ids[1]))


def _joined(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
