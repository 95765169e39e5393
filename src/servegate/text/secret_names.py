"""Which names say that their value is a secret: such a value is never shown, recorded, or passed on by accident."""

from __future__ import annotations

import re

_SECRET = re.compile(
    r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|PAT)S?$|SECRET|PASSWORD|PRIVATE_KEY|ACCESS_KEY"
)


def is_secret(name: str) -> bool:
    """Return whether a variable's name says that its value must not be shown or recorded."""
    return bool(_SECRET.search(name.upper()))
