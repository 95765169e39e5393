"""Speed with an interval, INVALID where it proves nothing, and no claim that was not earned."""

from __future__ import annotations

import numpy as np
import pytest

from servegate.checks.throughput.comparing import compare
from servegate.checks.throughput.judging import judge
from servegate.checks.throughput.presenting import present
from servegate.checks.throughput.record import ThroughputMeasurement
from servegate.checks.throughput.settings import ThroughputSettings
from servegate.checks.throughput.shape import SpeedContrast, SpeedPair
from servegate.domain.blocks import Section, Table
from servegate.domain.evidence import EngineFacts, Kernel, NotMeasured, Reason
from servegate.domain.judgement import Comparison, Finding, Outcome, Severity, outcome_of
from tests.unit.checks.throughput_samples import arm, evidence, point, recorded
from tests.unit.samples import engine_facts

SETTINGS = ThroughputSettings()
STEADY = [1000.0, 1004.0, 997.0, 1001.0, 999.0]


def compared(
    baseline: ThroughputMeasurement,
    candidate: ThroughputMeasurement,
    settings: ThroughputSettings = SETTINGS,
    facts: tuple[EngineFacts, EngineFacts] | None = None,
) -> Comparison:
    comparison = compare(evidence(baseline, candidate, facts), settings)
    assert isinstance(comparison, Comparison)
    return comparison


def at(comparison: Comparison, concurrency: int = 32) -> SpeedPair:
    found = SpeedContrast.model_validate(comparison.candidate).at(concurrency)
    assert found is not None
    return found


def findings(*arms: ThroughputMeasurement, settings: ThroughputSettings = SETTINGS) -> tuple[Finding, ...]:
    return judge(compared(*arms, settings=settings), settings)


def faster(by: float) -> ThroughputMeasurement:
    return arm({32: [speed * by for speed in STEADY]})


def test_recorded_8b_results() -> None:
    """Output tok/s on one H200, BF16 and FP8 per channel, one window each at 1, 8, 32 and 64 in flight."""
    comparison = compared(recorded("bf16"), recorded("fp8_per_channel"))
    points = SpeedContrast.model_validate(comparison.candidate).points
    assert [point.concurrency for point in points] == [1, 8, 32, 64]
    speeds = [
        [round(side.output_tokens_per_second, 1) for point in points if (side := getattr(point, name))]
        for name in ("left", "right")
    ]
    assert speeds == [[188.1, 1239.6, 3368.8, 4811.0], [251.6, 1708.1, 4181.7, 6386.5]]
    assert [round(point.ratio, 3) for point in points if point.ratio] == [1.338, 1.378, 1.241, 1.327]
    assert not any(point.invalid for point in points)


def test_one_window_is_shown_but_not_judged() -> None:
    comparison = compared(recorded("bf16"), recorded("fp8_per_channel"))
    assert at(comparison).low is None
    assert comparison.n == 0
    unseen, finding = judge(comparison, SETTINGS)
    assert (finding.code, finding.severity) == ("throughput/not-judged-no-interval", Severity.INFO)
    assert (unseen.code, unseen.severity) == ("throughput/unobserved", Severity.REVIEW)
    assert "other processes on the card (not recorded)" in unseen.message


def test_a_clear_loss_fails_and_names_its_windows() -> None:
    (finding,) = findings(arm({32: STEADY}), faster(0.90))
    assert (finding.code, finding.severity, finding.limit) == ("throughput/slower", Severity.FAIL, 0.95)
    assert finding.value is not None
    assert finding.value < 0.95
    assert [ref.id for ref in finding.evidence] == [f"32/{block}" for block in range(5)]


def test_a_loss_within_the_limit_is_said_but_does_not_fail() -> None:
    (finding,) = findings(arm({32: STEADY}), faster(0.96))
    assert (finding.code, finding.severity) == ("throughput/somewhat-slower", Severity.INFO)


def test_a_loss_elsewhere_than_where_it_is_judged_does_not_fail() -> None:
    slow_at_64 = arm({32: STEADY, 64: [speed / 2 for speed in STEADY]})
    assert outcome_of(findings(arm({32: STEADY, 64: STEADY}), slow_at_64)) is Outcome.PASS


@pytest.mark.parametrize(("by", "claim"), [(1.10, "faster"), (1.01, "n.s."), (1.0, "n.s."), (0.90, "slower")])
def test_claims_need_the_interval(by: float, claim: str) -> None:
    assert at(compared(arm({32: STEADY}), faster(by))).claim == claim


def test_noise_is_not_a_win() -> None:
    assert at(compared(arm({32: [100.0, 112.0, 96.0]}), arm({32: [104.0, 109.0, 99.0]}))).claim == "n.s."
    assert at(compared(arm({32: [900.0, 1210.0, 1205.0]}), arm({32: [1220.0, 1215.0, 1210.0]}))).claim == "n.s."


def test_unchanged_servers_rarely_get_a_claim() -> None:
    """Restart SD 1 %, windows 1 %: false claims stay near 5 %, and nothing ever fails."""
    generator = np.random.default_rng(3)
    claims = fails = 0
    for _ in range(200):
        start = generator.normal(0, 0.01, 2)
        arms = [arm({32: list(1000 * np.exp(shift + generator.normal(0, 0.01, 5)))}) for shift in start]
        comparison = compared(*arms)
        claims += at(comparison).claim != "n.s."
        fails += any(finding.severity is Severity.FAIL for finding in judge(comparison, SETTINGS))
    assert claims <= 20
    assert fails == 0


@pytest.mark.parametrize(
    ("changes", "code", "severity"),
    [
        ({"completed": 97, "failed": 3, "requests": 100}, "failed-requests", Severity.ERROR),
        ({"completed": 97, "failed": 0, "requests": 100}, "failed-requests", Severity.ERROR),
        ({"output_tokens": 6100}, "output-lengths", Severity.NOT_COMPARABLE),
        ({"prefix_cache_hit_rate": 0.8}, "warm-cache", Severity.ERROR),
        ({"foreign_processes": ("4711 python",)}, "foreign-processes", Severity.ERROR),
    ],
)
def test_windows_that_prove_nothing_are_invalid(changes: dict[str, object], code: str, severity: Severity) -> None:
    void = arm({32: [speed * 1.8 for speed in STEADY]}, **changes)
    comparison = compared(arm({32: STEADY}), void)
    assert at(comparison).claim == "INVALID"
    assert comparison.n == 0
    assert "judged_ratio" not in comparison.estimates
    found = judge(comparison, SETTINGS)
    assert [(finding.code, finding.severity) for finding in found] == [(f"throughput/{code}", severity)]


def test_an_invalid_point_that_is_not_judged_is_for_a_person() -> None:
    void = arm({32: STEADY})
    void = ThroughputMeasurement(points=(*void.points, *(point(64, block, 1000.0, completed=1) for block in range(5))))
    whole = arm({32: STEADY, 64: STEADY})
    (finding,) = findings(whole, void)
    assert (finding.code, finding.severity) == ("throughput/failed-requests", Severity.REVIEW)
    assert compared(whole, void).n == 5


@pytest.mark.parametrize(("tokens", "invalid"), [(16384 - 82, True), (16384 - 81, False)])
def test_output_lengths_may_differ_by_half_a_percent(tokens: int, invalid: bool) -> None:
    assert bool(at(compared(arm({32: STEADY}), arm({32: STEADY}, output_tokens=tokens))).invalid) is invalid


def test_windows_are_paired_by_block_and_workload() -> None:
    comparison = compared(arm({32: STEADY}), arm({32: STEADY[:4]}))
    assert comparison.unpaired.baseline_only == 1
    assert judge(comparison, SETTINGS)[0].severity is Severity.REVIEW
    other = compared(arm({32: STEADY}), arm({32: STEADY}, workload_sha256="other"))
    assert other.unpaired.hash_differs == 5
    assert judge(other, SETTINGS)[0].severity is Severity.NOT_COMPARABLE


def test_a_cpu_is_not_judged_and_the_kernel_is_quoted() -> None:
    kernel = Kernel(kernel="ChannelWiseTorchFP8ScaledMMLinearKernel", layers="Fp8PtpcOnlineLinearMethod", count=1, line=43)
    facts = engine_facts("baseline", device="cpu"), engine_facts("candidate", device="cpu", kernels=(kernel,))
    comparison = compared(arm({32: STEADY}), faster(0.1), facts=facts)
    (finding,) = judge(comparison, SETTINGS)
    assert (finding.code, finding.severity) == ("throughput/not-judged-cpu", Severity.INFO)
    assert "ChannelWiseTorchFP8ScaledMMLinearKernel" in finding.message
    assert "server.log line 43" in finding.message
    assert comparison.n == 0
    section = present(comparison, evidence(arm({32: STEADY}), faster(0.1), facts), SETTINGS, (finding,))
    assert section.outcome is Outcome.REVIEW
    assert section.summary.startswith("Speed is not judged on a CPU")
    assert tables(section)["throughput-speed"].rows[0][6] == "not judged"


def test_what_the_engine_ran_on_must_be_known() -> None:
    facts = engine_facts("baseline"), engine_facts("candidate")
    assert (
        judge(compared(arm({32: STEADY}), faster(0.5), facts=facts), SETTINGS)[0].code == "throughput/not-judged-device-unknown"
    )
    assert judge(compared(arm({32: STEADY}), faster(0.5)), SETTINGS)[0].severity is Severity.FAIL


def test_noise_is_each_arm_against_itself() -> None:
    comparison = compared(arm({32: STEADY}), arm({32: [1000.0, 1100.0, 1000.0, 1100.0, 1000.0]}))
    assert comparison.noise is not None
    assert comparison.noise.candidate is not None
    own = SpeedContrast.model_validate(comparison.noise.candidate).at(32)
    assert own is not None
    assert own.ratio == pytest.approx(1.1)
    assert "throughput/unstable" in [finding.code for finding in judge(comparison, SETTINGS)]
    single = compared(arm({32: [1.0]}), arm({32: [1.0]}))
    assert (single.noise, bool(single.noise_reason)) == (None, True)


def test_not_measured_gives_its_reason() -> None:
    lost = NotMeasured(reason=Reason(code="x", message="tool died"))
    assert compare(evidence(lost, faster(1)), SETTINGS) == NotMeasured(reason=Reason(code="x", message="baseline: tool died"))


# -- how it is shown -------------------------------------------------------------------------------------------


def tables(section: Section) -> dict[str, Table]:
    return {block.name: block for block in section.blocks if isinstance(block, Table)}


def shown(baseline: ThroughputMeasurement, candidate: ThroughputMeasurement) -> Section:
    arms = evidence(baseline, candidate)
    comparison = compare(arms, SETTINGS)
    assert isinstance(comparison, Comparison)
    return present(comparison, arms, SETTINGS, judge(comparison, SETTINGS))


def test_the_summary_starts_with_the_ratio() -> None:
    section = shown(arm({32: STEADY}), faster(1.25))
    assert section.summary.startswith("1.250x (95 % 1.2")
    assert "faster: 1,000.2 -> 1,250.2 output tok/s at 32 in flight" in section.summary
    assert "CV" in section.noise
    assert section.outcome is Outcome.PASS


def test_percentiles_are_shown_only_with_the_requests_they_need() -> None:
    rows = tables(shown(recorded("bf16"), recorded("fp8_per_channel")))["throughput-latency"].rows
    ttft = {line[0]: line[2:] for line in rows if line[1] == "ttft_ms"}
    assert [value != "n too small" for value in ttft[8]] == [True, True, False, False, False, False]
    assert [value != "n too small" for value in ttft[64]] == [True, True, True, True, False, False]
    assert ttft[1][0] == pytest.approx(23.91, abs=0.01)
