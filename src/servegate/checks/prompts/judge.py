"""Judging: what the comparison means under the limits.

A confirmed contract break, or an increase of degenerate answers that is beyond doubt, fails. Missing evidence (answers
that failed, could not be paired, were cut, or are too few) asks for review. Changed wording informs and never blocks.
Every finding names its rule and the prompts behind it.
"""

from __future__ import annotations

from collections.abc import Callable

from servegate.checks.answers import UNANSWERED
from servegate.checks.contract import Evidence
from servegate.checks.prompts import asking, sampled
from servegate.checks.prompts import contract_rules as contracts
from servegate.checks.prompts import defect_rules as defects
from servegate.checks.prompts.classes import EMPTY_REASONS
from servegate.checks.prompts.compare import compare
from servegate.checks.prompts.findings import (
    CHECK,
    MOST_EVIDENCE,
    NAMED,
    any_status,
    counted_as,
    found,
    listed,
    named,
    refs,
)
from servegate.checks.prompts.records import PromptsMeasurement
from servegate.checks.prompts.settings import Limits, PromptsSettings
from servegate.domain.evidence import NotMeasured
from servegate.domain.judgement import Comparison, EvidenceRef, Finding, Severity

FAILURES = tuple(sorted(UNANSWERED))

Rule = Callable[[Comparison, Limits], Finding | None]


def judge(comparison: Comparison, settings: PromptsSettings) -> tuple[Finding, ...]:
    """Return the findings, validity first."""
    limits = settings.limits
    for rule in (_nothing_paired, _no_answers):
        if (void := rule(comparison, limits)) is not None:
            return (void,)
    results = (rule(comparison, limits) for rule in RULES)
    return tuple(one for one in results if one is not None)


def stop(evidence: Evidence[PromptsMeasurement], settings: PromptsSettings) -> Finding | None:
    """Return the failure when the candidate's answers have degenerated beyond doubt.

    A broken contract never ends a run: the other checks still have something to say about a candidate that talks.
    """
    comparison = compare(evidence, settings)
    if isinstance(comparison, NotMeasured):
        return None
    return next(
        (
            one
            for one in judge(comparison, settings)
            if one.severity is Severity.FAIL and one.code == f"{CHECK}/{defects.DEGENERATE}-increase"
        ),
        None,
    )


def _nothing_paired(comparison: Comparison, _limits: Limits) -> Finding | None:
    if comparison.n:
        return None
    lost = comparison.unpaired
    if lost.hash_differs and lost.hash_differs == lost.total:
        message = f"the arms were not asked the same: {lost.hash_differs} of {lost.total} requests differ"
        return found("other-requests", Severity.NOT_COMPARABLE, message)
    return found("nothing-compared", Severity.ERROR, f"no prompt was answered by both arms ({lost.total} could not be paired)")


def _no_answers(comparison: Comparison, _limits: Limits) -> Finding | None:
    silent = [arm for arm, counted in comparison.candidate["arms"].items() if not counted["answered"]]
    if not silent:
        return None
    counted = comparison.candidate["arms"][silent[0]]
    who = "both arms" if len(silent) > 1 else f"the {silent[0]}"
    statuses = listed(counted["statuses"])
    message = f"{who} answered none of the {counted['answers']} requests ({statuses}): nothing was measured"
    return found("all-failed", Severity.ERROR, message, rule="answered", value=0.0, operator=">", limit=0.0)


def _unpaired(comparison: Comparison, _limits: Limits) -> Finding | None:
    lost, missing = comparison.unpaired, comparison.candidate["missing"]
    if not lost.total + missing:
        return None
    parts = {
        "in the baseline only": lost.baseline_only,
        "in the candidate only": lost.candidate_only,
        "asked differently": lost.hash_differs,
        "in neither arm": missing,
    }
    message = f"{lost.total + missing} answers could not be compared ({listed(parts)})"
    lost_refs = tuple(EvidenceRef(check=CHECK, id=str(key[0]), step=key[1]) for key in comparison.candidate["unpaired_ids"])
    return found("unpaired", Severity.REVIEW, message, lost_refs[:MOST_EVIDENCE])


def _failed(comparison: Comparison, _limits: Limits) -> Finding | None:
    by_arm = {
        arm: sum(counted["statuses"].get(status, 0) for status in FAILURES)
        for arm, counted in comparison.candidate["arms"].items()
    }
    if not any(by_arm.values()):
        return None
    items = [item for item in comparison.items if any_status(item, FAILURES)]
    return found("failed", Severity.REVIEW, f"requests failed ({listed(by_arm)}): {named(items)}", refs(items))


def _reasoning_only(comparison: Comparison, _limits: Limits) -> Finding | None:
    items = [item for item in comparison.items if any_status(item, ("reasoning_only",))]
    if not items:
        return None
    message = f"{len(items)} prompts got reasoning and no answer, which cannot be compared: {named(items)}"
    return found("reasoning-only", Severity.REVIEW, message, refs(items))


def _empty(comparison: Comparison, _limits: Limits) -> Finding | None:
    """Empty answers are never equal, and what the baseline left empty or broken cannot be seen to get worse."""
    items = [item for item in comparison.items if any(one["reason"] in EMPTY_REASONS for one in item["by_round"])]
    if not items:
        return None
    message = f"{len(items)} prompts got no text and leave nothing to compare: {named(items)}"
    return found("empty-answers", Severity.REVIEW, message, refs(items))


def _baseline_unsound(comparison: Comparison, limits: Limits) -> Finding | None:
    """A baseline that keeps few of its contracts, or mostly hits the limit, would hide what the candidate breaks."""
    tallies = [item["contract"]["baseline"] for item in comparison.items if item["contract"]]
    kept, judged = sum(tally["kept"] for tally in tallies), sum(tally["kept"] + tally["broken"] for tally in tallies)
    arm = comparison.candidate["arms"]["baseline"]
    defective = sum(arm["degenerate"].values())
    shares = {
        f"it kept its contract in {kept} of {judged} answers": kept / judged if judged else 1.0,
        f"{arm['cap_hits']} of {arm['answered']} answers hit max_tokens": 1 - arm["cap_hits"] / arm["answered"],
        f"{defective} of {arm['answered']} answers are degenerate": 1 - defective / arm["answered"],
    }
    low = {said: value for said, value in shares.items() if value < limits.baseline_sound_share}
    if not low:
        return None
    return found(
        "baseline-unsound",
        Severity.REVIEW,
        f"the baseline proves little: {'; '.join(low)}",
        rule="share of the baseline's answers that are sound",
        value=min(low.values()),
        operator="<",
        limit=limits.baseline_sound_share,
    )


def _few_prompts(comparison: Comparison, limits: Limits) -> Finding | None:
    distinct: int = comparison.candidate.get("distinct", comparison.n)
    if distinct >= limits.fewest_prompts:
        return None
    copies = f" ({comparison.n} with copies)" if comparison.n > distinct else ""
    return found(
        "few-prompts",
        Severity.REVIEW,
        f"{distinct} prompts were compared{copies}, fewer than {limits.fewest_prompts}: too few for a PASS",
        rule="compared prompts",
        value=float(distinct),
        operator="<",
        limit=float(limits.fewest_prompts),
    )


def _no_noise(comparison: Comparison, _limits: Limits) -> Finding | None:
    """Without a second round in both arms, a difference may be either arm's own noise."""
    noise = comparison.noise
    if not comparison.candidate["differing"] or (noise is not None and noise.baseline and noise.candidate):
        return None
    message = f"{comparison.candidate['differing']} answers differ, and how far each arm differs from itself was not measured"
    return found("no-noise-floor", Severity.REVIEW, message)


def _length_ratio(comparison: Comparison, limits: Limits) -> Finding | None:
    """Answers that became much shorter or longer changed in what they say, whatever their words."""
    ratio = comparison.candidate["lengths"]["ratio"]
    if ratio is None or limits.length_ratio_low <= ratio <= limits.length_ratio_high:
        return None
    low = ratio < limits.length_ratio_low
    own = comparison.noise.baseline["lengths"]["ratio"] if comparison.noise and comparison.noise.baseline else None
    beside = f"; the baseline against itself {own:.1%}" if own is not None else ""
    items = sorted(comparison.items, key=lambda item: -abs(item["tokens"]["candidate"] - item["tokens"]["baseline"]))
    return found(
        "length-ratio",
        Severity.REVIEW,
        f"the candidate's answers have {ratio:.1%} of the baseline's tokens{beside}; longest changes: {named(items[:NAMED])}",
        refs(items[:NAMED]),
        rule="ratio of generated tokens, candidate over baseline",
        value=ratio,
        operator="<" if low else ">",
        limit=limits.length_ratio_low if low else limits.length_ratio_high,
    )


def _length_unknown(comparison: Comparison, _limits: Limits) -> Finding | None:
    """An engine that does not count its tokens leaves open whether answers became shorter; that is no "as long as before"."""
    lengths, answered = comparison.candidate["lengths"], comparison.candidate["answered"]
    unknown = answered - lengths["pairs"]
    if not unknown:
        return None
    message = f"how long answers are is not known of {unknown} of {answered} pairs: the engine did not count its tokens"
    return found("length-unknown", Severity.REVIEW, message)


def _unread(comparison: Comparison, limits: Limits) -> Finding | None:
    """Facts that change in every round, and in neither arm's own rounds; a known right answer settles which side is right."""
    items = [item for item in comparison.items if item["unread"]]
    if not items:
        return None
    severity = Severity.REVIEW if limits.fact_changes == "review" else Severity.INFO
    return found("unread-fact-changes", severity, f"{counted_as(items, 'unread fact change')}: {named(items)}", refs(items))


def _accepted(comparison: Comparison, _limits: Limits) -> Finding | None:
    items = [item for item in comparison.items if item.get("accepted")]
    if not items:
        return None
    message = f"{counted_as(items, 'fact change')} read and accepted before: {named(items)}"
    return found("accepted-fact-changes", Severity.INFO, message, refs(items))


RULES: tuple[Rule, ...] = (
    _unpaired, _failed, _reasoning_only, _empty, _few_prompts, _no_noise, _baseline_unsound, contracts.broken,
    contracts.unstable, contracts.lost, contracts.not_judged, defects.degenerate, defects.cap_hits, defects.unseen,
    _length_ratio, _length_unknown, _unread, _accepted, sampled.lost_evidence, sampled.worse, sampled.not_judged,
    asking.template_differs, asking.parser_past, asking.reasoning_moved, asking.toggles, asking.cached_tokens, asking.stop_ids,
)  # fmt: skip
