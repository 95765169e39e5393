"""A server that speaks vLLM's HTTP interface, and the recordings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.completions_server import CompletionsServer, completions_server


@pytest.fixture
def server() -> Iterator[CompletionsServer]:
    """Serve on a loopback port."""
    with completions_server() as running:
        yield running


@pytest.fixture
def recorded() -> Path:
    """Return the directory of recordings."""
    return Path(__file__).parents[2] / "recorded"
