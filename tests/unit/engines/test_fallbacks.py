"""Declared ways round a failed start: what they may hold, how they are laid over an arm, how one is suggested."""

from __future__ import annotations

import pytest
import yaml

from servegate.domain.arms import Fallback
from servegate.engines.diagnosis import diagnose
from servegate.engines.fallbacks import applied, checked
from servegate.engines.faults import known_faults
from servegate.engines.log_lines import lines_of
from servegate.errors import UsageError
from tests.unit.samples import arm


@pytest.mark.parametrize(
    ("fallback", "said"),
    [
        (Fallback(name="a"), "changes nothing"),
        (Fallback(name="a", options={"model": "other/m"}), "names another `model`"),
        (Fallback(name="a", options={"quantisation": "fp8"}), "is no option of vLLM .*did you mean 'quantization'"),
        (Fallback(name="a", options={"api-key": "x"}), "holds a secret"),
    ],
)
def test_what_a_fallback_may_not_be(fallback: Fallback, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        checked(fallback, "servegate.yaml:7")


def test_it_is_laid_over_the_arm() -> None:
    served = arm("candidate", quantization="fp8", **{"no-enable-prefix-caching": True, "max-num-seqs": 8})
    fallback = checked(
        Fallback(name="a", environment={"X": "1"}, options={"enable_prefix_caching": True, "max-num-seqs": 4}), "here"
    )
    other = applied(served, fallback)
    assert other.argv == (
        "vllm", "serve", "m", "--quantization=fp8", "--max-num-seqs=4", "--enable-prefix-caching",
    )  # fmt: skip
    assert other.environment == {"X": "1"}
    assert other.name == served.name
    assert served.environment == {}


def test_a_known_workaround_is_an_entry_that_can_be_pasted_and_is_never_applied() -> None:
    log = "(EngineCore pid=1) Traceback (most recent call last):\n(EngineCore pid=1) RuntimeError: Assertion error "
    found = diagnose(lines_of(log + "(/a/layout.hpp:1): Unknown recipe\n"))
    assert found is not None
    assert found.workaround is not None
    pasted = found.workaround.split("`")[1]
    entry = yaml.safe_load(pasted)["engine"]["fallbacks"][0]
    assert entry == {"name": "deepgemm_sm120", "environment": {"VLLM_USE_DEEP_GEMM": "0"}}
    checked(Fallback(**entry), "pasted")


def test_every_suggested_fallback_is_one_that_may_be_declared() -> None:
    suggested = [fault for fault in known_faults() if fault.fallback]
    assert suggested
    for fault in suggested:
        checked(Fallback(name=fault.code, **fault.fallback), fault.code)
    assert {fault.blame for fault in known_faults()} == {None, "runner"}
