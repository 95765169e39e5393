"""The whole command on a machine with a card, which a fake driver plays: busy, given back, lost while an arm is served."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from servegate import nvml
from servegate.cli.measure import measure
from servegate.config import Overrides, load, resolve
from servegate.engines import card_lock
from servegate.errors import ExitCode, RunnerError
from servegate.nvml import GpuProcess, Xid
from servegate.pipeline import compare
from tests.fakes.nvml import FakeNvml, device
from tests.integration.test_command_line import here

__all__ = ["here"]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeNvml:
    made = FakeNvml()
    monkeypatch.setattr(nvml, "opened", lambda: made)
    monkeypatch.setattr(card_lock, "SYSTEM_LOCKS", tmp_path)
    return made


def gate(here: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(here)
    monkeypatch.setenv("FAKE_VLLM_ANSWERS", str(here / "answers.json"))
    text = Path("servegate.yaml").read_text()
    Path("servegate.yaml").write_text(text.replace("engine: {", "engine: {wait_minutes: 0, "))
    return resolve(load(None, Overrides()))


def test_a_busy_card_is_refused_before_anything_is_made(here, driver, monkeypatch):
    driver.running[device().uuid] = (GpuProcess(2**22 + 1, 8000 << 20),)
    with pytest.raises(RunnerError, match=r"is in use by pid 4194305 .*8,000 MiB") as caught:
        measure(gate(here, monkeypatch), None, force=False, console=Console(quiet=True))
    assert caught.value.exit_code is ExitCode.ERROR
    assert not (here / "servegate-runs/demo").exists()


def test_a_card_that_is_lost_while_the_candidate_is_served_is_a_fault_of_the_runner(here, driver, monkeypatch):
    found = gate(here, monkeypatch)
    real = FakeNvml.watching
    starts: list[int] = []

    def watching(self: FakeNvml, uuids):
        starts.append(1)
        if len(starts) == 2:
            self.xids = [Xid(device().uuid, 79)]
        return real(self, uuids)

    monkeypatch.setattr(FakeNvml, "watching", watching)
    run = measure(found, None, force=False, console=Console(quiet=True))
    verdict = compare(run)
    assert verdict.outcome.value == "error"
    assert "a fault of the runner, not of the candidate" in verdict.headline
    assert "Xid 79" in verdict.headline
    manifest = run.read_manifest("baseline")
    assert manifest.card_guard == f"locked and watched: {device().uuid} (0 MiB in use before the first start)"
