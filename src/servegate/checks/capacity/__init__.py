"""Does the engine take the memory, and hold the tokens, that arithmetic says?

Weights and KV cache are predicted from the model's config and the card before anything runs, then laid beside the
engine's own log. A gap is named with the reservation that explains it, or as unexplained: quantization that was not
applied, or a cache of another type than was asked for, shows here first. It costs no GPU second and only informs.
"""

from __future__ import annotations

from servegate.checks.capacity.comparing import compare
from servegate.checks.capacity.figures import figures
from servegate.checks.capacity.judging import CHECK_NAME, judge
from servegate.checks.capacity.presenting import present
from servegate.checks.capacity.settings import CapacitySettings
from servegate.checks.contract import Check

CHECK = Check(
    name=CHECK_NAME,
    settings=CapacitySettings,
    measurement=None,
    measure=None,
    compare=compare,
    judge=judge,
    present=present,
    figures=figures,
    required=False,
)
