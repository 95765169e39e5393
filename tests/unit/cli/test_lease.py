"""A card that another job measures on is waited for, and never shared."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path

import pytest

from servegate.cli.ci import leased
from servegate.errors import UsageError


def test_a_card_that_is_not_free_in_time_is_an_error(tmp_path: Path) -> None:
    lock = tmp_path / "cards/0.lock"
    with leased(lock, 0), pytest.raises(UsageError, match="not free within 0 minutes"), leased(lock, 0):
        raise AssertionError("the card was shared")
    with leased(lock, 0):
        pass  # it is free again


def test_a_card_is_waited_for(tmp_path: Path) -> None:
    lock = tmp_path / "0.lock"
    stream = lock.open("a")
    fcntl.flock(stream, fcntl.LOCK_EX)
    threading.Timer(0.3, stream.close).start()
    with leased(lock, 1):
        pass


def test_no_lease_is_no_lock() -> None:
    with leased(None, 0), leased(None, 0):
        pass
