"""`doctor --require` on machines with other cards than this one."""

from __future__ import annotations

import pytest

from servegate.cli import capacity, doctor
from servegate.domain.manifest import Gpu
from tests.unit.checks.capacity_samples import qwen3_plan, smollm2_plan


def card(name: str, capability: str) -> Gpu:
    return Gpu(name=name, uuid=f"GPU-{name}", compute_capability=capability, memory_gib=24.0, mig=False)


A10, L4, H200 = card("NVIDIA A10", "8.6"), card("NVIDIA L4", "8.9"), card("NVIDIA H200", "9.0")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    return monkeypatch


def holds(machine: pytest.MonkeyPatch, *gpus: Gpu) -> None:
    answer = (
        (gpus, "580.1", "13.0", None) if gpus else ((), None, None, "no NVIDIA driver answers: NVML Shared Library Not Found")
    )
    for module in (doctor, capacity):
        machine.setattr(module, "host_gpus", lambda: answer)


@pytest.mark.parametrize(
    ("gpus", "requirement", "said"),
    [
        ((L4,), "fp8-native", None),
        ((H200, L4), "fp8-native", None),
        ((A10,), "gpu", None),
        ((A10,), "fp8-native", "not met by NVIDIA A10 (compute capability 8.6)"),
        ((H200, A10), "fp8-native", "not met by NVIDIA A10"),
        ((card("Odd", "unknown"),), "fp8-native", "not met by Odd"),
        ((), "gpu", "there is no GPU: no NVIDIA driver answers"),
        ((), "fp8-native", "there is no GPU"),
    ],
)
def test_a_requirement_is_met_by_every_card_or_says_by_which_not(
    machine: pytest.MonkeyPatch, gpus: tuple[Gpu, ...], requirement: str, said: str | None
) -> None:
    holds(machine, *gpus)
    found = doctor.lacks(requirement)
    assert (found is None) if said is None else (found is not None and said in found)


def test_without_a_card_the_machine_decides_where_it_would_be_served(machine: pytest.MonkeyPatch) -> None:
    holds(machine, L4)
    here = capacity.room(qwen3_plan(), None, None)
    assert not isinstance(here, str)
    assert (here.memory_gib, here.card and here.card.name) == (24.0, "L4")
    holds(machine)
    nothing = capacity.room(qwen3_plan(), None, None)
    assert isinstance(nothing, str)
    assert "--card NAME" in nothing
    cpu = capacity.room(smollm2_plan(), None, None)
    assert not isinstance(cpu, str)
    assert cpu.cpu
