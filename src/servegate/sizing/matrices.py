"""What a model is made of, as far as memory goes: matrices, small vectors, and what each layer keeps per token."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Part(StrEnum):
    """What a matrix is for; a quantization scheme treats these alike within a kind."""

    LINEAR = "linear"
    EXPERT = "expert"
    ROUTER = "router"
    EMBEDDING = "embedding"
    HEAD = "head"


@dataclass(frozen=True)
class Matrix:
    """`copies` equal matrices of `rows` outputs by `columns` inputs; `active` of them are read for one token.

    Tensor parallelism divides the rows (or columns, if `by_columns`) in whole units; `units` 1 means every card holds all.
    """

    name: str
    part: Part
    rows: int
    columns: int
    units: int
    by_columns: bool = False
    copies: int = 1
    active: int = 1

    def on_card(self, cards: int) -> tuple[int, int]:
        """Return (rows, columns) of the part that one of `cards` holds; a unit is never cut, so it may be repeated."""
        units = -(-self.units // cards)
        if self.by_columns:
            return self.rows, -(-self.columns * units // self.units)
        return -(-self.rows * units // self.units), self.columns


class Keeps(StrEnum):
    """What a layer keeps of the tokens before."""

    FULL = "full"
    """Keys and values of every token."""
    WINDOW = "window"
    """Keys and values of the last tokens only."""
    LATENT = "latent"
    """One compressed vector a token that all heads share (MLA): every card holds it whole."""
    STATE = "state"
    """A state of fixed size, however many tokens there are."""


@dataclass(frozen=True)
class Memory:
    """What one layer keeps: `values` numbers a token and head; for a state, `state_bytes` a request, of `heads` heads."""

    keeps: Keeps
    heads: int
    values: int
    window: int | None = None
    state_bytes: int = 0


@dataclass(frozen=True)
class Shape:
    """A model's shape. `vectors` counts the numbers in norms and biases, which every card holds and no scheme quantizes."""

    family: str
    hidden: int
    intermediate: int
    vocabulary: int
    longest: int | None
    matrices: tuple[Matrix, ...]
    vectors: int
    layers: tuple[Memory, ...]
    notes: tuple[str, ...] = ()
    """What is served besides and is not counted."""

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return self.vectors + sum(each.rows * each.columns * each.copies for each in self.matrices)

    @property
    def active_parameters(self) -> int:
        """Number of weights that take part in one token's multiplications; an embedding is looked up, not multiplied."""
        return sum(each.rows * each.columns * each.active for each in self.matrices if each.part is not Part.EMBEDDING)
