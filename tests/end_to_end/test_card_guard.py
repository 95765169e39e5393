"""The card's lock and guard on a real card: who holds it is named, and its memory is awaited."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from servegate import nvml
from servegate.engines.card_guard import CardGuard
from servegate.errors import RunnerError
from tests.unit.engines.test_cards import arm

pytestmark = pytest.mark.gpu

HOLD = """
import time, torch
kept = torch.zeros(3 << 30, dtype=torch.uint8, device="cuda")
print("held", flush=True)
time.sleep(120)
"""


@pytest.fixture
def driver() -> nvml.Nvml:
    found = nvml.opened()
    if isinstance(found, nvml.Absent):
        pytest.skip(found.reason)
    return found


def test_a_real_card(driver, tmp_path):
    card = driver.devices()[0]
    assert card.uuid.startswith("GPU-")
    reading = driver.reading(card.uuid)
    assert None not in (reading.used_bytes, reading.sm_clock_mhz, reading.power_w, reading.temperature_c), reading
    guard = CardGuard(nvml=driver, inherited={}, who="gate", wait_s=0, directory=tmp_path)
    with guard.claimed([arm()]), guard.watching(arm()) as watch:
        watch.ensure_well()
        print(guard.said(arm()), reading, driver.versions())
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "held\n"
            with pytest.raises(RunnerError) as caught, guard.claimed([arm()]):
                pytest.fail("the card is somebody else's")
            print(caught.value.what)
            assert card.uuid in caught.value.what
            # Memory of an earlier start is awaited, and given back when its process ends.
            guard.levels = {card.uuid: reading.used_bytes}
            threading.Timer(2, other.kill).start()
            started = time.monotonic()
            guard.before_start(arm())
            waited = time.monotonic() - started
            print(f"given back after {waited:.1f} s")
            assert 1.5 < waited < 30
        finally:
            other.kill()
