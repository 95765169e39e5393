"""Environment variables that look like vLLM's and are not: a typing error that silently leaves everything as it was."""

from __future__ import annotations

import re

_NEAR = re.compile(r"^(?:LLM|VLM|VLLLM|VVLLM|VLLMS|VLLN|VLL|V_LLM|vllm)_(?=[A-Za-z])")


def meant(name: str) -> str | None:
    """Return the name that was perhaps meant, when a variable's name is like vLLM's and no variable of vLLM can have it.

    All of vLLM's own begin with `VLLM_`; `LLM_DISABLED_KERNELS` steers nothing, and nobody says so.
    """
    return f"VLLM_{_NEAR.sub('', name).upper()}" if _NEAR.match(name) else None
