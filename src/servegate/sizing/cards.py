"""Which row of the card table a name means, and what a compute capability can do."""

from __future__ import annotations

import re
from difflib import get_close_matches

from servegate.data.cards import CARDS, Card
from servegate.errors import UsageError

FP8_CAPABILITY = (8, 9)
"""Tensor cores multiply FP8 from here on (Ada); before, weights are stored in FP8 and multiplied in 16 bits.

CUDA C++ Programming Guide, "Compute Capabilities"; vLLM gates its FP8 kernels on the same number.
"""


def find_card(name: str) -> Card | None:
    """Return the card of a name, ours (`H200`, `RTX PRO 6000`) or the driver's, or None. Case and blanks do not matter."""
    wanted = _plain(name)
    return next((card for card in CARDS if wanted in {_plain(each) for each in (card.name, *card.nvml_names)}), None)


def card_named(name: str) -> Card:
    """Return the card of a name.

    Raises:
        UsageError: no row has it; says which there are.
    """
    card = find_card(name)
    if card is None:
        known = [each.name for each in CARDS]
        near = get_close_matches(name.upper(), known, n=1)
        raise UsageError(
            f"--card {name!r}: no such card is known" + (f", did you mean {near[0]!r}?" if near else ""),
            advice=f"Cards: {', '.join(known)}. For any other, give its memory: --vram GIB.",
        )
    return card


def has_native_fp8(compute_capability: str) -> bool | None:
    """Whether a compute capability such as `8.9` multiplies FP8 natively; None when it is not written so."""
    match = re.fullmatch(r"(\d{1,3})\.(\d{1,3})", compute_capability)
    return None if match is None else (int(match[1]), int(match[2])) >= FP8_CAPABILITY


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]|nvidia|geforce", "", name.lower())
