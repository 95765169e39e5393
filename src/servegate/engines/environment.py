"""The environment an engine is served with: the caller's, less its secrets, plus the arm's.

An engine runs other people's code (a model with `trust_remote_code`, a plug-in, a kernel that compiles at run time) and
writes a log that becomes an artifact. It gets no credential that it does not need: the one it may need is the hub's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from servegate.errors import UsageError
from servegate.text.secret_names import is_secret

HUB_TOKENS = frozenset({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
"""Passed on, since a gated model cannot be downloaded without; never shown."""

_WITHHELD = re.compile(r"^(ACTIONS|AWS|AZURE|GITHUB|GH|INPUT)_|^SSH_AUTH_SOCK$|^SERVEGATE_ARM$")
"""Cloud and CI credentials; GITHUB_* also names files through which a process steers later steps of a workflow."""

API_KEY = "VLLM_API_KEY"
"""By this variable an engine learns the key that its clients must send; servegate draws a new one for every start."""

OURS = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
"""A measurement reports to nobody. Nothing here changes what is served."""


def is_passed_on(name: str) -> bool:
    """Return whether a variable of the caller reaches the engine."""
    return name in HUB_TOKENS or not (is_secret(name) or _WITHHELD.search(name.upper()))


def engine_environment(inherited: Mapping[str, str], arm: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment for one arm; what the gate config sets for an arm is passed as it is.

    Raises:
        UsageError: a variable of the arm that no process can be given, or that is servegate's own.
    """
    if API_KEY in arm:
        raise UsageError(
            f"environment variable {API_KEY!r} cannot be set for an arm",
            why="servegate gives every engine it starts a random key of its own, which nobody else knows.",
            advice="Remove it from `environment`; set it where you deploy.",
        )
    for name, value in arm.items():
        if not name or "=" in name or "\0" in name + value or not _encodable(name + value):
            raise UsageError(
                f"environment variable {name!r} cannot be set",
                why="A name may not be empty or hold `=`; neither name nor value may hold a NUL or a lone surrogate.",
                advice="Correct `environment` in the gate config.",
            )
    return {name: value for name, value in inherited.items() if is_passed_on(name)} | OURS | dict(arm)


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
