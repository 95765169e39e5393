"""One module per question. Every module here that defines `CHECK` is a check; nothing else registers it."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from servegate.checks.contract import AnyCheck


@cache
def discovered() -> dict[str, AnyCheck]:
    """Return every check by name, in alphabetical order."""
    found: dict[str, AnyCheck] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda item: item.name):
        check = getattr(importlib.import_module(f"{__name__}.{module.name}"), "CHECK", None)
        if check is not None:
            found[check.name] = check
    return found
