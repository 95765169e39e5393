"""The `standard` policy for speed: a clear loss fails, nothing about speed ever earns a PASS.

Between two starts of one unchanged server speed differs by about 1 %, so "at most 3 % slower" as a requirement would
hold back an unchanged candidate every second time. Only a loss that is clear beyond that spread is a FAIL.
"""

from __future__ import annotations

from servegate.checks.contract import finding
from servegate.checks.throughput.settings import SERVING, SINGLE, Limits, ThroughputSettings
from servegate.checks.throughput.shape import DOUBTS, SpeedContrast, SpeedPair
from servegate.domain.judgement import Comparison, EvidenceRef, Finding, Severity

CHECK_NAME = "throughput"
DOUBTFUL = ("busy-cpu", *DOUBTS)
"""Remarks that a person has to weigh: an interval from a few windows does not see load that others add and take away."""
UNSTABLE = 0.05
"""Windows of one arm that vary more than this (coefficient of variation) are worth a remark."""
UNEQUAL_ARMS = ("output-lengths", "input-lengths", "clocks-differ", "other-tool", "cache-differs")
"""Faults in which the arms did different work, or worked under other conditions; all others are the harness's."""


def judge(comparison: Comparison, settings: ThroughputSettings) -> tuple[Finding, ...]:
    """Return what is void, slower, or worth knowing."""
    between = SpeedContrast.model_validate(comparison.candidate)
    found = [*_unpaired(comparison)]
    for point in between.points:
        judged = point.load == SERVING and point.concurrency == settings.judged_at
        found += _invalid(point, judged=judged)
        found += _remarks(point)
        found += _impossible(point)
    found += _unseen(between)
    if between.not_judged is not None:
        found.append(_finding(f"not-judged-{between.not_judged.code}", Severity.INFO, between.not_judged.message))
        return tuple(found)
    return (*found, *_speed(comparison, settings), *_unstable(between), *_narrow(settings.limits))


def _remarks(point: SpeedPair) -> list[Finding]:
    return [
        _finding(code, Severity.REVIEW if code in DOUBTFUL else Severity.INFO, f"{_where(point)}: {message}")
        for code, _, message in (remark.partition(": ") for remark in point.remarks)
    ]


def _impossible(point: SpeedPair) -> list[Finding]:
    """A speed beyond what the card can do was not measured right, or of another model or card than the plan says."""
    sides = zip(("baseline", "candidate"), (point.left, point.right), point.ceilings, strict=True)
    return [
        _finding(
            "above-ceiling",
            Severity.REVIEW,
            f"{_where(point)} the {name} made {side.output_tokens_per_second:,.1f} output tokens/s, and its card's bandwidth "
            f"and arithmetic allow {ceiling:,.1f} at most: it was not measured right, or the model, its format or the card is "
            "not what the plan and the log say",
            rule="output tokens/s over the ceiling of decoding",
            value=side.output_tokens_per_second, operator=">", limit=ceiling,
        )
        for name, side, ceiling in sides
        if side is not None and ceiling is not None and side.output_tokens_per_second > ceiling
    ]  # fmt: skip


def _unseen(between: SpeedContrast) -> tuple[Finding, ...]:
    """What nobody looked at may have made the difference; a person has to know that before believing it."""
    said = dict.fromkeys(what for point in between.points for what in point.unseen)
    if not said:
        return ()
    return (_finding("unobserved", Severity.REVIEW, f"not observed while speed was measured: {'; '.join(said)}"),)


def _where(point: SpeedPair) -> str:
    return "with one request in flight" if point.load == SINGLE else f"at {point.concurrency} in flight"


def _unpaired(comparison: Comparison) -> tuple[Finding, ...]:
    unpaired = comparison.unpaired
    if not unpaired.total:
        return ()
    severity = Severity.NOT_COMPARABLE if unpaired.hash_differs else Severity.REVIEW
    return (
        _finding(
            "unpaired-windows",
            severity,
            f"{unpaired.total} windows have no partner: {unpaired.baseline_only} only in the baseline, "
            f"{unpaired.candidate_only} only in the candidate, {unpaired.hash_differs} with another workload",
            rule="windows without a partner", value=float(unpaired.total), operator=">", limit=0.0,
        ),
    )  # fmt: skip


def _invalid(point: SpeedPair, *, judged: bool) -> list[Finding]:
    """A void concurrency voids the check where it is judged; elsewhere a person should look."""
    found = []
    for fault in point.invalid:
        code, _, message = fault.partition(": ")
        severity = Severity.REVIEW
        if judged:
            severity = Severity.NOT_COMPARABLE if code in UNEQUAL_ARMS else Severity.ERROR
        if code == "busy-machine":
            severity = Severity.INFO  # only said of an engine on a CPU, whose speed is not judged anyway
        found.append(_finding(code, severity, f"INVALID {_where(point)}: {message}"))
    return found


def _speed(comparison: Comparison, settings: ThroughputSettings) -> tuple[Finding, ...]:
    judged = comparison.estimates.get("judged_ratio")
    if judged is None or judged.high is None or judged.low is None:
        return ()
    at = settings.judged_at
    point = SpeedContrast.model_validate(comparison.candidate).at(at)
    if point is not None and point.doubted:
        return ()  # the doubt is a finding for a person
    if judged.high < settings.limits.fail_ratio:
        refs = tuple(
            EvidenceRef(check=CHECK_NAME, id=item["id"], step=item["block"])
            for item in comparison.items
            if item["concurrency"] == at and item.get("load", SERVING) == SERVING
        )
        return (
            _finding(
                "slower",
                Severity.FAIL,
                f"{judged.value:.3f}x the baseline's output tokens/s at {at} in flight, at most {judged.high:.3f}x (95 %)",
                evidence=refs,
                rule="upper 95 % of candidate over baseline output tokens/s",
                value=judged.high, operator="<", limit=settings.limits.fail_ratio,
            ),
        )  # fmt: skip
    if judged.high < 1 and (point is None or point.claim == "slower"):  # else the table beside it says n.s.
        message = (
            f"slower at {at} in flight: {judged.value:.3f}x, at most {judged.high:.3f}x (95 %); "
            f"FAIL only below {settings.limits.fail_ratio:g}x"
        )
        return (_finding("somewhat-slower", Severity.INFO, message),)
    return ()


def _unstable(between: SpeedContrast) -> tuple[Finding, ...]:
    shaky = [
        f"{name} {side.variation:.1%} {_where(point)}"
        for point in between.points
        for name, side in (("baseline", point.left), ("candidate", point.right))
        if side is not None and side.variation is not None and side.variation > UNSTABLE
    ]
    if not shaky:
        return ()
    return (_finding("unstable", Severity.INFO, f"windows of one arm vary a lot (CV): {', '.join(shaky)}"),)


def _narrow(limits: Limits) -> tuple[Finding, ...]:
    """Say that differences are claimed more easily than by default; `LAXER` tells what is tolerated, which is the other way."""
    usual = Limits()
    told = [
        f"{name} {getattr(limits, name):g} (default {getattr(usual, name):g})"
        for name in ("restart_sd", "host_restart_sd", "host_share")
        if getattr(limits, name) < getattr(usual, name)
    ]
    if not told:
        return ()
    message = f"the config lets the interval hold less of what two starts differ by than is assumed: {', '.join(told)}"
    return (_finding("narrow-interval", Severity.INFO, f"{message}; only a calibration of this gate can say that it may"),)


def _finding(code: str, severity: Severity, message: str, *, evidence: tuple[EvidenceRef, ...] = (), **rule: object) -> Finding:
    return finding(CHECK_NAME, code, severity, message, evidence=evidence, **rule)
