"""How the accuracy check speaks: one sentence for a phone, then flips beside noise, the interval, and the answers."""

from __future__ import annotations

from servegate.checks.accuracy.contrast import Contrast, Validity, summed
from servegate.checks.accuracy.facts import facts, interval
from servegate.checks.accuracy.kinds import RIGHT_TO_WRONG
from servegate.checks.accuracy.record import AccuracyMeasurement
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.accuracy.tables import changed_answers, filters_table, flips_table, tasks_table
from servegate.checks.contract import Evidence, measured, not_measured, remarks
from servegate.domain.blocks import Block, Fold, Pair, Section, Text
from servegate.domain.judgement import Comparison, Finding, outcome_of

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
        blocks += [facts(comparison, between, validity, settings), interval(comparison, settings)]
    if len(between.tasks) > 1:
        blocks.append(tasks_table(between))
    blocks += [flips_table(comparison, between), Fold(title="Every filter", blocks=(filters_table(between),))]
    if comparison.items:
        changed = f"Changed answers ({len(comparison.items):,})"
        blocks += [*_answers(comparison, evidence), Fold(title=changed, blocks=(changed_answers(comparison),))]
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
        return f"Unknown: {comparison.noise_reason}."
    sides = (("Baseline", comparison.noise.baseline), ("candidate", comparison.noise.candidate))
    said = [_noise_of(name, Contrast.model_validate(side)) for name, side in sides if side is not None]
    return "; ".join(said) + "." + (f" ({comparison.noise.reason})" if comparison.noise.reason else "")


def _noise_of(name: str, own: Contrast) -> str:
    lost, won = summed(own.rounds, "right_to_wrong"), summed(own.rounds, "wrong_to_right")
    share = own.discordance
    if not lost + won:
        return f"{name} against itself: no flip"
    ways = f"{lost} to wrong and {won} to right"
    said = ways if share is None else f"{share:.1%} of answers, {ways}"
    return f"{name} against itself: {lost + won} flip{'' if lost + won == 1 else 's'} ({said})"


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
                title=f"{item['id']}, round {item['round'] + 1}",
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
        "the report names the drop. Answers that never came (empty or failed) or were cut at `max_tokens` are asked once more. "
        "Those that still do not come are neither right nor wrong: they are left out, and PASS must also hold with those of "
        "the candidate counted as wrong and those of the baseline as right. A flip whose wrong side is right under another "
        "filter is an extraction suspect: it is counted, but neither a PASS nor a FAIL rests on it. Where "
        "only the whole answers are inside the margin, FAIL needs a loss above the margin, cut answers as they were scored. "
        "PASS also needs a baseline "
        f"of which the margin is at most {limits.margin_share:.0%}. Where the baseline flips more than "
        f"{settings.noisy_share:.0%} of its own answers, both arms get {settings.more_rounds} more rounds. Of several tasks "
        "the pooled drop decides; each may FAIL by itself (Holm, 1 % for all of them together)."
    )
    return Fold(title="How accuracy is judged", blocks=(Text(text=text),))
