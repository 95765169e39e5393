"""How the accuracy check speaks: one sentence for a phone, then flips beside noise, the interval, and the answers."""

from __future__ import annotations

from servegate.checks.accuracy.contrast import Contrast, Validity, summed
from servegate.checks.accuracy.kinds import RIGHT_TO_WRONG
from servegate.checks.accuracy.record import AccuracyMeasurement
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.accuracy.tables import changed_answers, filters_table, flips_table
from servegate.checks.contract import Evidence, measured, not_measured, remarks
from servegate.domain.blocks import Block, Fact, Facts, Figure, Fold, Pair, Point, Section, Series, Text
from servegate.domain.judgement import Comparison, Estimate, Finding, outcome_of

SHOWN_PAIRS = 8
SHOWN_CHARACTERS = 4000
"""An answer longer than this shows its end, where the result stands."""


def present(
    comparison: Comparison,
    evidence: Evidence[AccuracyMeasurement],
    settings: AccuracySettings,
    findings: tuple[Finding, ...],
) -> Section:
    """Return the section; values keep full precision, the report rounds them."""
    between = Contrast.model_validate(comparison.candidate)
    validity = between.validity or Validity()
    blocks: list[Block] = [*remarks(findings)]
    if comparison.n:
        blocks += [_facts(comparison, between, validity, settings), _interval(comparison, settings)]
    blocks += [flips_table(comparison, between), filters_table(between)]
    if comparison.items:
        blocks += [changed_answers(comparison), *_answers(comparison, evidence)]
    blocks += [*_warnings(evidence), _how(settings)]
    return Section(
        check="accuracy",
        title="Accuracy",
        outcome=outcome_of(findings, comparison.n),
        question="Does the candidate still get the same questions right?",
        summary=_summary(comparison, between, settings),
        noise=_noise(comparison),
        n=f"{comparison.n:,} questions x {validity.rounds} {'round' if validity.rounds == 1 else 'rounds'}",
        blocks=tuple(blocks),
    )


def _summary(comparison: Comparison, between: Contrast, settings: AccuracySettings) -> str:
    drop = comparison.estimates.get("drop")
    if drop is None:
        return "No question was answered by both arms, so accuracy was not compared."
    validity = between.validity or Validity()
    baseline, candidate = comparison.estimates["accuracy_baseline"], comparison.estimates["accuracy_candidate"]
    return (
        f"{baseline.value:.1f} % -> {candidate.value:.1f} %: {_change(drop.value)}, accuracy drop at most {drop.high:.2f} "
        f"(PASS < {settings.limits.pass_drop_points:g}). "
        f"{validity.worse_questions} questions got worse, {validity.better_questions} better."
    )


def _change(drop: float) -> str:
    if drop == 0:
        return "no change"
    return f"{abs(drop):.2f} points {'lost' if drop > 0 else 'gained'}"


def _noise(comparison: Comparison) -> str:
    if comparison.noise is None:
        return f"Noise unknown: {comparison.noise_reason}."
    sides = (("Baseline", comparison.noise.baseline), ("candidate", comparison.noise.candidate))
    said = [_noise_of(name, Contrast.model_validate(side)) for name, side in sides if side is not None]
    return "; ".join(said) + "." + (f" ({comparison.noise.reason})" if comparison.noise.reason else "")


def _noise_of(name: str, own: Contrast) -> str:
    lost, won = summed(own.rounds, "right_to_wrong"), summed(own.rounds, "wrong_to_right")
    share = own.discordance
    return f"{name} against itself: {lost} and {won} flips" + (f" ({share:.1%} of answers)" if share is not None else "")


def _facts(comparison: Comparison, between: Contrast, validity: Validity, settings: AccuracySettings) -> Facts:
    estimates = comparison.estimates
    lines = [
        Fact(name="Baseline accuracy", value=_with_interval(estimates["accuracy_baseline"], "%"), note="95 % interval"),
        Fact(name="Candidate accuracy", value=_with_interval(estimates["accuracy_candidate"], "%"), note="95 % interval"),
        Fact(
            name="Drop, at most",
            value=f"{estimates['drop'].high:.2f} points",
            note=f"95 %, one-sided; PASS below {settings.limits.pass_drop_points:g}",
        ),
        Fact(
            name="Drop, at least",
            value=f"{estimates['drop_99'].low:.2f} points",
            note=f"99 %, one-sided; FAIL above {settings.limits.fail_drop_points:g}",
        ),
        Fact(
            name="Drop, at most, no-answers against the candidate",
            value=f"{estimates['drop_against_candidate'].high:.2f} points",
            note=f"never came: baseline {validity.no_answers_baseline} of {validity.answers_baseline}, "
            f"candidate {validity.no_answers_candidate} of {validity.answers_candidate}",
        ),
        Fact(
            name="Smallest drop this run could see",
            value=f"{estimates['smallest_detectable_drop'].value:.2f} points",
            note=estimates["smallest_detectable_drop"].method,
        ),
        Fact(
            name="Judged filter",
            value=", ".join(sorted(set(validity.judged_filter.values()))),
            note="the others are information",
        ),
        Fact(name="Distinct questions", value=validity.distinct_questions, note=f"PASS needs {settings.limits.smallest_n:,}"),
    ]
    tango = estimates.get("drop_tango")
    if tango is not None:
        lines.append(Fact(name="Drop, Tango's interval", value=_with_interval(tango, "points"), note="90 %; one round"))
        lines.append(Fact(name="McNemar, exact, two-sided p", value=between.rounds[0].mcnemar_p, note="one round; information"))
    return Facts(facts=tuple(lines))


def _with_interval(estimate: Estimate, unit: str) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f} {unit}"
    return f"{estimate.value:.2f} {unit} ({estimate.low:.2f} to {estimate.high:.2f})"


def _interval(comparison: Comparison, settings: AccuracySettings) -> Figure:
    drop = comparison.estimates["drop"]
    points = [
        ("judged: no-answers left out", drop),
        ("no-answers against candidate", comparison.estimates["drop_against_candidate"]),
    ]
    return Figure(
        name="accuracy-drop",
        title="Drop in accuracy with its 90 % interval",
        style="intervals",
        x_label="",
        y_label="drop, percentage points (more is worse)",
        series=(
            Series(
                name="drop",
                role="difference",
                points=tuple(Point(x=name, y=point.value, low=point.low, high=point.high) for name, point in points),
            ),
        ),
        description=(
            f"The drop is {drop.value:.2f} points, interval {drop.low:.2f} to {drop.high:.2f}; "
            f"PASS needs its upper end below {settings.limits.pass_drop_points:g}."
        ),
        reference=settings.limits.pass_drop_points,
    )


def _answers(comparison: Comparison, evidence: Evidence[AccuracyMeasurement]) -> list[Block]:
    """Show the first right-to-wrong answers in full, those first that the baseline itself gives steadily."""
    if not_measured(evidence) is not None:
        return []
    arms = measured(evidence)
    lost = [item for item in comparison.items if item["kind"] == RIGHT_TO_WRONG]
    chosen = sorted(lost, key=lambda item: item["baseline_flips_itself"])[:SHOWN_PAIRS]
    texts = [{(one.task, one.round, one.doc_id): one.text for one in arm.responses} for arm in arms]
    asked = {(one.task, one.doc_id): one for arm in reversed(arms) for one in arm.documents}
    pairs: list[Block] = []
    for item in chosen:
        key = item["task"], item["round"], item["doc_id"]
        document = asked.get((item["task"], item["doc_id"]))
        pairs.append(
            Pair(
                title=f"{item['id']}, round {item['round']}",
                left_title="baseline (right)",
                right_title="candidate (wrong)",
                left=_end(texts[0].get(key, "")),
                right=_end(texts[1].get(key, "")),
                note=f"Asked: {_end(document.question)}\nReference: {_end(document.target)}" if document else "",
            )
        )
    title = f"Answers that went from right to wrong ({len(pairs)} of {len(lost)})"
    return [Fold(title=title, blocks=tuple(pairs))] if pairs else []


def _warnings(evidence: Evidence[AccuracyMeasurement]) -> list[Block]:
    """Show what lm-eval warned about, each warning once per arm."""
    if not_measured(evidence) is not None:
        return []
    baseline, candidate = measured(evidence)
    said = dict.fromkeys(
        f"{name}: {warning}"
        for name, arm in (("baseline", baseline), ("candidate", candidate))
        for one in arm.passes
        for warning in one.warnings
    )
    return [Fold(title=f"lm-eval's own warnings ({len(said)})", blocks=tuple(Text(text=text) for text in said))] if said else []


def _end(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else "..." + text[-SHOWN_CHARACTERS:]


def _how(settings: AccuracySettings) -> Fold:
    limits = settings.limits
    text = (
        "Each question counts once: its mean score over the baseline's rounds less its mean score over the candidate's. "
        "The interval is that of the mean over questions. PASS needs the drop to be below "
        f"{limits.pass_drop_points:g} points with 95 % confidence (the upper end of a 90 % interval) on at least "
        f"{limits.smallest_n:,} questions; FAIL needs it above {limits.fail_drop_points:g} with 99 % confidence. A drop can be "
        "both: real and inside the margin. Then PASS takes precedence, since the margin says what loss is acceptable, and "
        "the report names the drop. Answers that never came (empty or failed) are neither right nor wrong: they are left "
        "out, and PASS must also hold with those of the candidate counted as wrong."
    )
    return Fold(title="How accuracy is judged", blocks=(Text(text=text),))
