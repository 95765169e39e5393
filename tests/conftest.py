"""Shared fixtures, and the rule for tests that need something this machine may lack.

`service` tests call `need(...)`: without the tool they are skipped with its name; with SERVEGATE_REQUIRE=all, as in CI,
the missing tool is a failure, so that a green CI means they ran.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.fakes.github import Replica

# A busy machine is no failure: hangs are found by pytest-timeout, speed by benchmarks/.
# CI tries the same examples every time, so that a red run can be repeated; elsewhere new ones are looked for.
settings.register_profile("project", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "project")

Need = Callable[..., str]


@pytest.fixture
def need() -> Need:
    """Return the path of the first of the given tools, or skip (fail under SERVEGATE_REQUIRE=all)."""

    def find(*names: str) -> str:
        for name in names:
            path = shutil.which(name)
            if path is not None:
                return path
        return missing(" or ".join(names))

    return find


def missing(what: str) -> str:
    """Skip, or fail where everything is required."""
    message = f"{what} is not on this machine"
    if os.environ.get("SERVEGATE_REQUIRE") == "all":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture
def real_engine() -> Path:
    """Return the vllm executable of the end-to-end tests (`make test` sets SERVEGATE_TEST_ENGINE)."""
    path = os.environ.get("SERVEGATE_TEST_ENGINE")
    return Path(path) if path and Path(path).is_file() else Path(missing("SERVEGATE_TEST_ENGINE (a vllm executable)"))


@pytest.fixture(scope="module")
def shared_replica(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    """A replica of GitHub for the tests of one file; each of them resets it first."""
    from tests.fakes.github import Replica

    with Replica(tmp_path_factory.mktemp("replica")) as running:
        yield running
