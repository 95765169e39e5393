"""Speed with an interval, INVALID where it proves nothing, and no claim that was not earned."""

from __future__ import annotations

import numpy as np
import pytest

from servegate.checks.throughput import comparing
from servegate.checks.throughput.ceilings import Allowance
from servegate.checks.throughput.comparing import compare
from servegate.checks.throughput.figures import figures
from servegate.checks.throughput.judging import judge
from servegate.checks.throughput.presenting import present
from servegate.checks.throughput.record import ThroughputMeasurement
from servegate.checks.throughput.settings import Limits, Slo, ThroughputSettings
from servegate.checks.throughput.shape import SpeedContrast, SpeedPair
from servegate.domain.blocks import Figure, Fold, Section, Table, Text
from servegate.domain.evidence import EngineFacts, Kernel, NotMeasured, Reason
from servegate.domain.judgement import Comparison, Finding, Outcome, Severity, outcome_of
from servegate.probes.metrics import PrefixCache, hit_rate
from tests.unit.checks.throughput_samples import CARD, TELEMETRY, arm, evidence, point, recorded
from tests.unit.samples import engine_facts

SETTINGS = ThroughputSettings()
CEILING = 5_000.0
"""Output tokens per second of a card that is known, which the speeds here come near."""
STEADY = [1000.0, 1004.0, 997.0, 1001.0, 999.0]


@pytest.fixture
def known_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cards' ceilings are known, so that it is told who sets the pace."""
    monkeypatch.setattr(comparing, "allowance", lambda *_: Allowance((CEILING, CEILING), None))


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


SILENT_CARD = {**TELEMETRY, "cards": [{"uuid": "GPU-0", "samples": 0, "sm_clock_mhz": 1980.0}]}


@pytest.mark.parametrize(
    ("change", "what"),
    [({"foreign_requests": None}, "other clients of the engine"), ({"telemetry": SILENT_CARD}, "clocks of the card")],
)
def test_what_nobody_looked_at_is_told_and_claims_nothing_unread(change: dict[str, object], what: str) -> None:
    (finding,) = findings(arm({32: STEADY}), arm({32: [2 * speed for speed in STEADY]}, **change))
    assert (finding.code, finding.severity) == ("throughput/unobserved", Severity.REVIEW)
    assert what in finding.message


@pytest.mark.parametrize(
    ("change", "code", "severity"),
    [
        ({"output_tokens": 0}, "numbers-disagree", Severity.ERROR),
        ({"duration_s": 100.0}, "numbers-disagree", Severity.ERROR),
        ({"completed": 129}, "numbers-disagree", Severity.ERROR),
        ({"input_tokens": 128 * 50}, "input-lengths", Severity.NOT_COMPARABLE),
    ],
)
def test_windows_that_do_not_add_up_or_did_other_work_claim_nothing(
    change: dict[str, object], code: str, severity: Severity
) -> None:
    comparison = compared(arm({32: STEADY}), arm({32: [2 * speed for speed in STEADY]}, **change))
    assert comparison.n == 0
    assert (f"throughput/{code}", severity) in {(item.code, item.severity) for item in judge(comparison, SETTINGS)}


@pytest.mark.usefixtures("known_card")
def test_a_clear_loss_fails_and_names_its_windows() -> None:
    (finding,) = findings(arm({32: STEADY}), faster(0.90))
    assert (finding.code, finding.severity, finding.limit) == ("throughput/slower", Severity.FAIL, 0.95)
    assert finding.value is not None
    assert finding.value < 0.95
    assert [ref.id for ref in finding.evidence] == [f"32/{block}" for block in range(5)]


@pytest.mark.usefixtures("known_card")
def test_a_loss_within_the_limit_is_said_but_does_not_fail() -> None:
    (finding,) = findings(arm({32: STEADY}), faster(0.96))
    assert (finding.code, finding.severity) == ("throughput/somewhat-slower", Severity.INFO)


def test_a_loss_elsewhere_than_where_it_is_judged_does_not_fail() -> None:
    slow_at_64 = arm({32: STEADY, 64: [speed / 2 for speed in STEADY]})
    assert outcome_of(findings(arm({32: STEADY, 64: STEADY}), slow_at_64)) is Outcome.PASS


@pytest.mark.usefixtures("known_card")
@pytest.mark.parametrize(("by", "claim"), [(1.10, "faster"), (1.01, "n.s."), (1.0, "n.s."), (0.90, "slower")])
def test_claims_need_the_interval(by: float, claim: str) -> None:
    assert at(compared(arm({32: STEADY}), faster(by))).claim == claim


def test_noise_is_not_a_win() -> None:
    assert at(compared(arm({32: [100.0, 112.0, 96.0]}), arm({32: [104.0, 109.0, 99.0]}))).claim == "n.s."
    assert at(compared(arm({32: [1100.0, 1210.0, 1205.0]}), arm({32: [1220.0, 1215.0, 1210.0]}))).claim == "n.s."


def test_a_speed_that_moves_within_a_start_says_nothing_between_starts() -> None:
    """Two starts of one config on an H200, 135M model: 16 % apart; the interval alone (1.06 to 1.27) would have claimed it."""
    first = [1667, 2099, 1475, 1848, 1290, 1092, 1358, 1406, 1198, 1731, 1476, 1137, 1129, 1226, 1108, 1139, 1096, 1086]
    again = [1504, 1299, 1577, 1539, 1572, 1383, 1680, 1867, 1796, 1433, 1655, 1272, 1652, 1351, 1359, 1094, 1245, 1553]
    arms = [arm({32: [float(speed) for speed in speeds]}, prefix_cache_hit_rate=0.016) for speeds in (first, again)]
    comparison = compared(*arms)
    assert at(comparison).claim == "INVALID"
    found = {finding.code for finding in judge(comparison, SETTINGS) if finding.severity is not Severity.INFO}
    assert found == {"throughput/unsteady"}, "equal chance hits of random prompts (1.6 %) are no warm cache"


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


def on_card(**changes: object) -> dict[str, object]:
    """A machine in order but for its card."""
    return {"telemetry": {**TELEMETRY, "cards": [{**CARD, **changes}]}}


@pytest.mark.parametrize(
    ("changes", "code", "severity"),
    [
        ({"completed": 97, "failed": 3, "requests": 100}, "failed-requests", Severity.ERROR),
        ({"completed": 97, "failed": 0, "requests": 100}, "failed-requests", Severity.ERROR),
        ({"output_tokens": 6100}, "output-lengths", Severity.NOT_COMPARABLE),
        ({"prefix_cache_hit_rate": 0.8}, "warm-cache", Severity.ERROR),
        ({"prefix_cache_hit_rate": 0.03}, "cache-differs", Severity.NOT_COMPARABLE),
        ({"foreign_processes": ("4711 python",)}, "foreign-processes", Severity.ERROR),
        ({"foreign_requests": 9}, "foreign-requests", Severity.ERROR),
        ({"wrong_lengths": 7}, "wrong-lengths", Severity.ERROR),
        ({"command": ("/opt/new/vllm",)}, "other-tool", Severity.NOT_COMPARABLE),
        (on_card(throttled={"HW thermal slowdown": 0.3}), "throttled", Severity.ERROR),
        (on_card(sm_clock_mhz=1400.0), "clocks-differ", Severity.NOT_COMPARABLE),
        (on_card(memory_clock_mhz=1600.0), "clocks-differ", Severity.NOT_COMPARABLE),
    ],
)
def test_windows_that_prove_nothing_are_invalid(changes: dict[str, object], code: str, severity: Severity) -> None:
    void = arm({32: [speed * 1.8 for speed in STEADY]}, **changes)
    comparison = compared(arm({32: STEADY}, command=("/opt/vllm",)), void)
    assert at(comparison).claim == "INVALID"
    assert comparison.n == 0
    assert "judged_ratio" not in comparison.estimates
    found = judge(comparison, SETTINGS)
    assert [(finding.code, finding.severity) for finding in found] == [(f"throughput/{code}", severity)]


def test_clocks_that_a_power_limit_explains_are_said_and_void_nothing() -> None:
    capped = arm({32: STEADY}, **on_card(sm_clock_mhz=1400.0, throttled={"SW power cap": 0.9}))
    comparison = compared(arm({32: STEADY}), capped)
    assert at(comparison).claim == "n.s."
    (finding,) = judge(comparison, SETTINGS)
    assert (finding.code, finding.severity) == ("throughput/power-limit", Severity.INFO)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"foreign_processes": None, "foreign_processes_reason": "pids of another namespace"}, "other processes on the card"),
        ({"telemetry": None, "telemetry_reason": "nobody looked"}, "clocks of the card (nobody looked)"),
        ({"prefix_cache_hit_rate": None, "prefix_cache_hit_rate_reason": "no counters"}, "the prefix cache (no counters)"),
    ],
)
def test_what_nobody_looked_at_is_for_a_person(changes: dict[str, object], said: str) -> None:
    (finding,) = findings(arm({32: STEADY}), arm({32: STEADY}, **changes))
    assert (finding.code, finding.severity) == ("throughput/unobserved", Severity.REVIEW)
    assert said in finding.message


def test_a_prefix_cache_that_is_off_is_no_doubt() -> None:
    off = {"prefix_cache_hit_rate": None, "prefix_cache_hit_rate_reason": hit_rate(PrefixCache(5, 0), PrefixCache(5, 0))[1]}
    assert findings(arm({32: STEADY}, **off), arm({32: STEADY}, **off)) == ()


def test_queues_preemptions_and_odd_prompts_explain_and_void_nothing() -> None:
    odd = arm({32: STEADY}, queue_time_s=5.0, preemptions=4, prompt_tokens_per_request=655.0)
    comparison = compared(arm({32: STEADY}), odd)
    assert at(comparison).invalid == ()
    assert [finding.code for finding in judge(comparison, SETTINGS)] == [
        "throughput/queued", "throughput/preempted", "throughput/prompt-lengths",
    ]  # fmt: skip


def test_a_busy_cpu_voids_an_engine_on_it_and_is_for_a_person_beside_a_gpu() -> None:
    busy = arm({32: STEADY}, telemetry={**TELEMETRY, "foreign_cpu_cores": 12.0})
    facts = engine_facts("baseline", device="cpu"), engine_facts("candidate", device="cpu")
    comparison = compared(arm({32: STEADY}), busy, facts=facts)
    assert at(comparison).claim == "INVALID"
    assert {finding.severity for finding in judge(comparison, SETTINGS)} == {Severity.INFO}
    beside = compared(arm({32: STEADY}), busy)
    assert at(beside).claim == "n.s."
    (finding,) = judge(beside, SETTINGS)
    assert (finding.code, finding.severity) == ("throughput/busy-cpu", Severity.REVIEW)


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
    folded = [block for fold in section.blocks if isinstance(fold, Fold) for block in fold.blocks]
    return {block.name: block for block in (*section.blocks, *folded) if isinstance(block, Table)}


def shown(baseline: ThroughputMeasurement, candidate: ThroughputMeasurement) -> Section:
    arms = evidence(baseline, candidate)
    comparison = compare(arms, SETTINGS)
    assert isinstance(comparison, Comparison)
    return present(comparison, arms, SETTINGS, judge(comparison, SETTINGS))


@pytest.mark.usefixtures("known_card")
def test_the_summary_starts_with_the_ratio() -> None:
    section = shown(arm({32: STEADY}), faster(1.25))
    assert section.summary.startswith("1.250x (95 % 1.2")
    assert "faster: 1,000.2 -> 1,250.2 output tok/s at 32 in flight" in section.summary
    assert "CV" in section.noise
    assert section.outcome is Outcome.PASS


def test_one_request_in_flight_is_a_row_of_its_own_and_never_fails() -> None:
    def both(alone: float) -> ThroughputMeasurement:
        single = tuple(
            point(
                1,
                block,
                alone,
                load="single",
                requests=6,
                completed=6,
                input_tokens=6000,
                output_tokens=1536,
                energy_joules=96.0,
            )
            for block in range(5)
        )
        return ThroughputMeasurement(points=(*arm({32: STEADY}).points, *single))

    comparison = compared(both(200.0), both(100.0))
    assert judge(comparison, SETTINGS) == ()
    assert at(comparison).claim == "n.s."
    alone = SpeedContrast.model_validate(comparison.candidate).at(1, "single")
    assert alone is not None
    assert alone.claim == "slower"
    assert alone.ceilings_reason == "the plan is not known"
    section = shown(both(200.0), both(100.0))
    row = tables(section)["throughput-single"].rows[1]
    assert row[:2] == ("1, alone", "candidate")
    assert row[4] == pytest.approx(100.0)
    machine = {(line[0], line[1]): line[2:] for line in tables(section)["throughput-machine"].rows}
    assert machine["1, alone", "J per 1,000 output tokens"] == (pytest.approx(62.5), pytest.approx(62.5))


@pytest.mark.usefixtures("known_card")
@pytest.mark.parametrize(
    ("by", "weights", "begins"),
    [(1.3, 8.0, "Faster."), (0.8, 8.0, "Slower."), (1.0, 8.0, "Same speed, but smaller: 15.00 -> 8.00 GiB"), (1.0, 15.0, None)],
)
def test_the_three_readings_name_a_cause_and_how_to_confirm_it(by: float, weights: float, begins: str | None) -> None:
    kernel = Kernel(kernel="CutlassFP8ScaledMMLinearKernel", layers="x", count=1, line=1)
    facts = (
        engine_facts("baseline", device="cuda", weights_gib=15.0),
        engine_facts("candidate", device="cuda", weights_gib=weights, kernels=(kernel,)),
    )
    arms = evidence(arm({32: STEADY}), faster(by), facts)
    comparison = compare(arms, SETTINGS)
    assert isinstance(comparison, Comparison)
    texts = [block.text for block in present(comparison, arms, SETTINGS, ()).blocks if isinstance(block, Text)]
    said = [text for text in texts if "To confirm" in text]
    assert bool(said) is (begins is not None)
    if begins is not None:
        assert said[0].startswith(f"32 in flight: {begins}")
        assert "the candidate's log names CutlassFP8ScaledMMLinearKernel" in said[0]


def test_goodput_counts_requests_that_keep_every_limit() -> None:
    columns = {
        "ttft_ms": np.array([10, 10, 90, 10], dtype="<f4"),
        "tpot_ms": np.array([5, np.nan, 5, 50], dtype="<f4"),
        "e2e_ms": np.array([100, 100, 100, 100], dtype="<f4"),
    }
    one = point(32, 0, 1000.0, requests=5, completed=4, failed=1, duration_s=2.0, first_row=0, rows=4)
    settings = ThroughputSettings(slo=Slo(ttft_ms=50, tpot_ms=20))
    arms = evidence(*[ThroughputMeasurement(points=(one,), columns=columns)] * 2)
    comparison = compare(arms, settings)
    assert isinstance(comparison, Comparison)
    row = tables(present(comparison, arms, settings, ()))["throughput-goodput"].rows[0]
    assert row == (32, pytest.approx(2 / 5), pytest.approx(1.0), pytest.approx(2 / 5), pytest.approx(1.0))


def test_a_sweep_draws_the_gain_with_its_interval_and_nothing_where_it_is_not_judged() -> None:
    sweep = [arm({at: [speed * by for speed in STEADY] for at in (1, 8, 32)}) for by in (1.0, 1.2)]
    figures = {block.name: block for block in shown(*sweep).blocks if isinstance(block, Figure)}
    (series,) = figures["throughput-gain"].series
    assert [(p.x, p.low is not None and p.low < p.y) for p in series.points] == [(1.0, True), (8.0, True), (32.0, True)]
    facts = engine_facts("baseline", device="cpu"), engine_facts("candidate", device="cpu")
    arms = evidence(*sweep, facts)
    comparison = compare(arms, SETTINGS)
    assert isinstance(comparison, Comparison)
    names = [block.name for block in present(comparison, arms, SETTINGS, ()).blocks if isinstance(block, Figure)]
    assert names == ["throughput-curve"]


def test_percentiles_are_shown_only_with_the_requests_they_need() -> None:
    rows = tables(shown(recorded("bf16"), recorded("fp8_per_channel")))["throughput-latency"].rows
    ttft = {line[0]: line[2:] for line in rows if line[1] == "ttft_ms"}
    assert [value != "n too small" for value in ttft[8]] == [True, True, False, False, False, False]
    assert [value != "n too small" for value in ttft[64]] == [True, True, True, True, False, False]
    assert ttft[1][0] == pytest.approx(23.91, abs=0.01)


def card(**changes: object) -> dict[str, object]:
    return {"telemetry": {**TELEMETRY, "cards": [{**CARD, **changes}]}}


CAPPED = {"SW power cap": 1.0}
SLOW = {**CARD, "uuid": "GPU-00000007", "sm_clock_mhz": 1300.0}


@pytest.mark.usefixtures("known_card")
@pytest.mark.parametrize(
    ("baseline", "candidate", "ratio"),
    [
        (card(throttled={"SW power cap": 0.06}), card(sm_clock_mhz=990.0), 0.5),
        (card(), card(sm_clock_mhz=1200.0, power_w=300.0, throttled=CAPPED), 0.8),
        (card(sm_clock_mhz=1200.0, power_w=300.0, throttled=CAPPED), card(), 1.25),
        ({"telemetry": {**TELEMETRY, "cards": [CARD] * 8}}, {"telemetry": {**TELEMETRY, "cards": [*[CARD] * 7, SLOW]}}, 0.8),
    ],
    ids=["the faster arm was capped", "a lower limit", "a lower limit before", "one of eight cards"],
)
def test_a_power_limit_explains_lower_clocks_of_its_own_arm_only(
    baseline: dict[str, object], candidate: dict[str, object], ratio: float
) -> None:
    comparison = compared(arm({32: STEADY}, **baseline), arm({32: [ratio * speed for speed in STEADY]}, **candidate))
    assert at(comparison).claim == "INVALID"
    assert "throughput/clocks-differ" in {item.code for item in judge(comparison, SETTINGS)}


@pytest.mark.usefixtures("known_card")
@pytest.mark.parametrize(("ratio", "claim"), [(0.951, "unclear"), (0.9, "slower")])
def test_clocks_that_may_differ_are_no_claim_about_the_change(ratio: float, claim: str) -> None:
    """Clocks that differ by 4.9 % are comparable, and their 4.9 % of speed is not the change's."""
    slow = arm({32: [ratio * speed for speed in STEADY]}, **card(sm_clock_mhz=0.951 * 1980.0))
    for arms, said in (
        ((arm({32: STEADY}), slow), claim),
        ((slow, arm({32: STEADY})), claim if claim == "unclear" else "faster"),
    ):
        comparison = compared(*arms)
        assert at(comparison).claim == said
        doubted = any(item.code == "throughput/clocks-explain" for item in judge(comparison, SETTINGS))
        assert doubted is (claim == "unclear")


def test_a_start_that_still_warms_up_is_no_speed() -> None:
    """Its last window is as fast as the other arm; its mean made that arm 1.10 times as fast, significantly."""
    climbing = arm({32: [900.0, 950.0, 1000.0, 1050.0, 1100.0]})
    for arms in ((climbing, arm({32: [1100.0] * 5})), (arm({32: [1100.0] * 5}), climbing)):
        (fault,) = at(compared(*arms)).invalid
        assert fault.startswith("unsteady: the speed of the")
        assert "from 900.0 to 1,100.0 tokens/s" in fault


@pytest.mark.usefixtures("known_card")
def test_a_drift_that_both_arms_meet_in_turn_voids_nothing() -> None:
    drift = [900.0, 950.0, 1000.0, 1050.0, 1100.0]
    comparison = compared(arm({32: drift}), arm({32: [0.9 * each for each in drift]}), ThroughputSettings(interleave=True))
    assert at(comparison).claim == "slower"


def test_prompts_are_as_long_in_both_arms_by_the_engines_own_count() -> None:
    """The tool counts with one tokenizer for both arms, and so sees no engine that reads only half of a prompt."""
    comparison = compared(
        arm({32: STEADY}, prompt_tokens_per_request=512.0), arm({32: STEADY}, prompt_tokens_per_request=256.0)
    )
    assert [fault.partition(": ")[0] for fault in at(comparison).invalid] == ["input-lengths"]


@pytest.mark.usefixtures("known_card")
def test_requests_that_were_never_in_flight_are_the_tools_speed() -> None:
    slow_tool = arm({32: STEADY}, e2e_latency_s={"mean": 0.5})
    comparison = compared(slow_tool, faster(1.2))
    assert at(comparison).claim == "unclear"
    (row,) = [each for each in figures(comparison, evidence(slow_tool, faster(1.2)), SETTINGS) if each.key == "throughput"]
    assert row.difference.endswith(", unclear)")
    (found,) = [item for item in judge(comparison, SETTINGS) if item.severity is Severity.REVIEW]
    assert found.code == "throughput/not-in-flight"
    assert "of the baseline were in flight on average, and 32 were asked for" in found.message


def test_every_card_of_an_arm_has_to_be_seen() -> None:
    (found,) = findings(
        arm({32: STEADY}), arm({32: STEADY}, telemetry={**TELEMETRY, "cards": [CARD, {"uuid": "1", "samples": 0}]})
    )
    assert (found.code, "clocks of the card" in found.message) == ("throughput/unobserved", True)
    (found,) = findings(arm({32: STEADY}), arm({32: STEADY}, **card(throttled_reason="the card cannot say")))
    assert (found.code, "whether the card was slowed down" in found.message) == ("throughput/unobserved", True)


def test_a_window_that_is_held_twice_is_not_paired_by_chance() -> None:
    """Nothing says which of the two holds, so such a record is none."""
    with pytest.raises(ValueError, match="there are two windows 32/0"):
        ThroughputMeasurement(points=(*arm({32: STEADY}).points, *faster(2.0).points))


@pytest.mark.usefixtures("known_card")
@pytest.mark.parametrize(
    ("arms", "weights", "begins"),
    [
        ((arm({32: STEADY}, queue_time_s=5.0), faster(2.0)), 8.0, "Faster. Likely cause: requests of the baseline spent 50%"),
        ((arm({32: STEADY}), faster(1.3)), 16.0, "Faster, and the weights are no smaller."),
        ((arm({32: STEADY}), arm({32: [500.0] * 5}, preemptions=7)), 8.0, "Slower. Likely cause: the candidate set 7 running"),
        ((arm({32: STEADY}), arm({32: [500.0] * 5}, queue_time_s=5.0)), 8.0, "Slower. Likely cause: requests of the candidate"),
        (
            (arm({32: [1000.0, 1080.0, 930.0, 1050.0, 960.0]}), arm({32: [950.0, 860.0, 1000.0, 900.0, 880.0]})),
            8.0,
            "Smaller (16.00 -> 8.00 GiB of weights), and whether as fast is not known",
        ),
    ],
    ids=["baseline queued", "no smaller", "preempted", "candidate queued", "too wide to be the same"],
)
def test_a_reading_names_no_cause_that_the_data_speak_against(
    arms: tuple[ThroughputMeasurement, ThroughputMeasurement], weights: float, begins: str
) -> None:
    facts = (
        engine_facts("baseline", device="cuda", weights_gib=16.0),
        engine_facts("candidate", device="cuda", weights_gib=weights),
    )
    seen = evidence(*arms, facts)
    comparison = compare(seen, SETTINGS)
    assert isinstance(comparison, Comparison)
    texts = [block.text for block in present(comparison, seen, SETTINGS, ()).blocks if isinstance(block, Text)]
    assert [text for text in texts if text.startswith(f"32 in flight: {begins}")]


@pytest.mark.usefixtures("known_card")
@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"restart_sd": 0.0}, "restart_sd 0 (default 0.01)"),
        ({"host_restart_sd": 0.0, "host_share": 0.0}, "host_restart_sd 0 (default 0.2), host_share 0 (default 0.1)"),
        ({"restart_sd": 0.05}, None),
    ],
)
def test_a_lower_bar_for_a_claim_is_told(limits: dict[str, float], said: str | None) -> None:
    """With no spread between starts, 1.01 times as fast is a claim; the report names who lowered the bar."""
    settings = ThroughputSettings(limits=Limits.model_validate(limits))
    arms = arm({32: STEADY}), faster(1.01)
    assert at(compared(*arms, settings=settings)).claim == ("faster" if "restart_sd" in limits and said else "n.s.")
    told = [item.message for item in findings(*arms, settings=settings) if item.code == "throughput/narrow-interval"]
    assert bool(told) is (said is not None)
    assert said is None or said in told[0]


def test_a_load_that_proves_nothing_is_said_above_its_latencies() -> None:
    texts = [
        block.text
        for block in shown(arm({32: STEADY}), arm({32: STEADY}, prefix_cache_hit_rate=0.9)).blocks
        if isinstance(block, Text)
    ]
    assert [text for text in texts if text.startswith("INVALID, so nothing below") and text.endswith("In flight: 32.")]
    texts = [block.text for block in shown(arm({32: STEADY}), arm({32: STEADY})).blocks if isinstance(block, Text)]
    assert not [text for text in texts if text.startswith("INVALID")]


@pytest.mark.usefixtures("known_card")
def test_what_the_table_calls_no_difference_is_not_called_slower_beside_it() -> None:
    """The bound of a FAIL is one-sided: by it twice as many unchanged servers are "slower" as by the interval."""
    comparison = compared(arm({32: STEADY}), faster(0.9744))
    assert at(comparison).claim == "n.s."
    assert comparison.estimates["judged_ratio"].high == pytest.approx(0.9979, abs=0.001)
    assert not judge(comparison, SETTINGS)
