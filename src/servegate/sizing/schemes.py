"""In how many bytes each matrix is kept: the formats, and which of a model's matrices a scheme leaves alone.

Geometry of the scales: one a matrix (per tensor), one a row (per channel), one a block of rows and columns, or one a
group of columns. 4-bit formats: AWQ (Lin et al. 2023) and GPTQ (Frantar et al. 2022) as the packed checkpoints hold
them; MXFP4 and MXFP8 from the OCP Microscaling Formats specification v1.0 (32 values share an 8-bit power of two);
NVFP4 from NVIDIA's description of the format (16 values share an E4M3 scale, a matrix one FP32 scale besides).
Embeddings, routers and norms stay in 16 bits in all of them, and so does `lm_head` unless the checkpoint says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from servegate.sizing.matrices import Matrix, Part, Shape

Rate = Literal["bf16", "fp8", "fp4", "int8"]
"""The arithmetic that a scheme's products want; a card without FP8 does them in 16 bits."""
WHOLE = 0
"""A group that spans a whole row or column."""


@dataclass(frozen=True)
class Format:
    """How the numbers of one matrix are kept.

    `group` is (rows, columns) that share a scale of `scale_bytes` and a zero point of `zero_bits`; None means no scales.
    """

    bits: float
    group: tuple[int, int] | None = None
    scale_bytes: float = 0
    zero_bits: float = 0
    matrix_bytes: int = 0

    def bytes_of(self, rows: int, columns: int) -> float:
        """Return the bytes of a matrix of `rows` outputs by `columns` inputs, its scales included."""
        size = rows * columns * self.bits / 8 + self.matrix_bytes
        if self.group is not None:
            high, wide = (length or whole for length, whole in zip(self.group, (rows, columns), strict=True))
            size += -(-rows // high) * -(-columns // wide) * (self.scale_bytes + self.zero_bits / 8)
        return size


SIXTEEN = Format(16)
PER_TENSOR = Format(8, (WHOLE, WHOLE), 4)
PER_CHANNEL = Format(8, (1, WHOLE), 4)
MXFP8 = Format(8, (1, 32), 1)
MXFP4 = Format(4, (1, 32), 1)
NVFP4 = Format(4, (1, 16), 1, matrix_bytes=8)
NF4 = Format(4, (1, 64), 4)


def per_block(rows: int, columns: int) -> Format:
    """Return FP8 with a 32-bit scale for each block."""
    return Format(8, (rows, columns), 4)


def packed(bits: int, group: int, *, zero_points: bool) -> Format:
    """Return integers packed in groups of columns with a 16-bit scale each; a group of -1 is a whole row."""
    return Format(bits, (1, max(group, WHOLE)), 2, zero_bits=bits if zero_points else 0)


@dataclass(frozen=True)
class Scheme:
    """A format for the linear layers, and what keeps 16 bits (32 under `plain`)."""

    name: str
    linear: Format | None = None
    rate: Rate = "bf16"
    experts_only: bool = False
    head: bool = False
    kept: tuple[str, ...] = ()
    """Names, beginnings or patterns of modules that are not quantized, as the checkpoint lists them."""
    plain: Format = SIXTEEN
    kv_cache: str | None = None
    """KV cache that the checkpoint asks for when the serving config says `auto`."""
    notes: tuple[str, ...] = ()

    def format_of(self, matrix: Matrix) -> Format:
        """Return how a matrix is kept."""
        if self.linear is None or matrix.part in (Part.EMBEDDING, Part.ROUTER):
            return self.plain
        if matrix.part is Part.HEAD and not self.head:
            return self.plain
        if (self.experts_only and matrix.part is not Part.EXPERT) or self._is_kept(matrix.name):
            return self.plain
        return self.linear

    def bytes_of(self, shape: Shape, cards: int = 1) -> float:
        """Return the bytes of a model's weights on each of `cards` that share it by tensor parallelism."""
        vectors = shape.vectors * self.plain.bits / 8
        return vectors + sum(each.copies * self.format_of(each).bytes_of(*each.on_card(cards)) for each in shape.matrices)

    def read_bytes(self, shape: Shape, cards: int, requests: float) -> float:
        """Return the bytes of weights that one decode step reads on each card.

        Embeddings are looked up, not read. Of n experts, requests that choose k each at random read
        n * (1 - (1 - k/n)^requests), the expected number of distinct ones.
        """
        total = shape.vectors * self.plain.bits / 8
        for each in shape.matrices:
            if each.part is Part.EMBEDDING:
                continue
            share = 1 - (1 - each.active / each.copies) ** requests if each.copies > 1 else 1.0
            total += share * each.copies * self.format_of(each).bytes_of(*each.on_card(cards))
        return total

    def _is_kept(self, name: str) -> bool:
        return any(_matches(pattern, name) for pattern in self.kept)


def _matches(pattern: str, name: str) -> bool:
    """A whole name, the beginning or a part of one at dots, or a pattern with `*` (a simple `re:` reads as one)."""
    if pattern.startswith("re:"):
        plain = pattern[3:].removeprefix("^").removesuffix("$").replace("\\.", ".").replace(".*", "*")
        return fnmatchcase(name, plain) or fnmatchcase(name, f"{plain}.*")
    if "*" in pattern:
        return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")
    return f".{pattern}." in f".{name}."


def patterns(*lists: Any) -> tuple[str, ...]:
    """Return the texts in lists of unknown content, at most 10,000 of at most 200 characters."""
    found = [item for each in lists if isinstance(each, list) for item in each if isinstance(item, str) and len(item) <= 200]
    return tuple(found[:10_000])


def first(values: Mapping[str, Any], *names: str) -> Any:
    """Return the first of these keys that is set, or None."""
    return next((values[name] for name in names if values.get(name) is not None), None)
