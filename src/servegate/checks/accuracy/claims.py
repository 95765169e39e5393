"""What may be claimed of the drop: pooled over all questions, for each task by itself, and whether PASS can mean anything.

The pooled drop decides. A task of its own may FAIL beside it, so that a large task never hides the collapse of a small one:
those claims are corrected for their number (Holm), at 1 % for all tasks together, beside the 1 % of the pooled drop. A task
that lost more than the margin, and more than by chance, but not surely enough, is for a person.
"""

from __future__ import annotations

from servegate.checks.accuracy.contrast import Contrast, TaskDrop, Validity
from servegate.checks.accuracy.estimates import FAIL_ALPHA, PASS_ALPHA
from servegate.checks.accuracy.faults import CHECK_NAME, made
from servegate.checks.accuracy.kinds import RIGHT_TO_WRONG, cut_kind
from servegate.checks.accuracy.settings import AccuracySettings, Limits
from servegate.domain.judgement import Comparison, Estimate, EvidenceRef, Finding, Severity
from servegate.stats.intervals import never_seen_bound, questions_needed
from servegate.stats.multiple import holm
from servegate.stats.paired import mcnemar_one_sided

MOST_REFS = 100
"""A finding names so many questions; the comparison holds them all."""
HARNESS_FLOOR = 5.0
"""Percent beyond guessing below which right answers may be luck: always answering 5 gets 3.0 % of GSM8K's 1,319 questions
right, and another question's answer 1.1 % (counted on its test set)."""


def pooled(comparison: Comparison, validity: Validity, limits: Limits) -> tuple[Finding, ...]:
    """Judge the drop over all questions."""
    held = comparison.estimates.get("drop_for_candidate_99")
    drop = comparison.estimates.get("drop")
    inside = drop is not None and _high(drop) < limits.pass_drop_points
    # Where only whole answers are inside the margin, many of the others must have been lost to say FAIL: more than the margin.
    limit = limits.pass_drop_points if inside else limits.fail_drop_points
    if held is not None and _low(held) > limit and not _too_few(validity, limits):
        return (
            made(
                "drop",
                Severity.FAIL,
                f"accuracy fell by {held.value:.2f} points, with 99 % confidence by more than {_low(held):.2f}"
                f"{', with the answers that were cut as they were scored' if inside or drop is None else ''}; "
                f"{validity.worse_questions} questions got worse, {validity.better_questions} better",
                rule="lower 99 % of the drop, points, every doubt for the candidate", value=_low(held), operator=">",
                limit=limit, evidence=_flipped(comparison),
            ),
        )  # fmt: skip
    if drop is None:
        return ()
    if inside:
        return _inside(comparison, drop, limits)
    return (
        made(
            "drop-open",
            Severity.REVIEW,
            f"the accuracy drop is {drop.value:.2f} points and may be as much as {_high(drop):.2f} (PASS needs less than "
            f"{limits.pass_drop_points:g}); {_what_would_settle(comparison, limits)}",
            rule="upper 95 % of the drop, points", value=_high(drop), operator=">=", limit=limits.pass_drop_points,
            evidence=_flipped(comparison),
        ),
    )  # fmt: skip


def _inside(comparison: Comparison, drop: Estimate, limits: Limits) -> tuple[Finding, ...]:
    """The drop is inside the margin: say when it is real, and when it is inside only while doubtful answers are left out."""
    found = []
    if _low(comparison.estimates["drop_99"]) > limits.fail_drop_points:
        found.append(made("small-drop", Severity.INFO,
                          f"a drop of {drop.value:.2f} points is real (99 %: above {limits.fail_drop_points:g}) "
                          f"and inside the margin of {limits.pass_drop_points:g}, so it does not block"))  # fmt: skip
    against = _high(comparison.estimates["drop_against_candidate"])
    if against >= limits.pass_drop_points:
        found.append(
            made(
                "no-answer-decides",
                Severity.REVIEW,
                f"without the answers in doubt (never came, cut at the limit, or a gain that another filter denies) the drop "
                f"is at most {_high(drop):.2f} points, with them counted against the candidate at most {against:.2f}: "
                "PASS must hold both ways",
                rule="upper 95 % of the drop, doubtful answers counted against the candidate",
                value=against, operator=">=", limit=limits.pass_drop_points,
            )
        )  # fmt: skip
    return tuple(found)


def task_claims(comparison: Comparison, between: Contrast, limits: Limits) -> tuple[Finding, ...]:
    """Judge each of several tasks by itself; one task alone is the pooled drop."""
    if len(between.tasks) < 2:
        return ()
    adjusted = holm({task.task: _p_of(task, limits) for task in between.tasks})
    found = []
    for task in between.tasks:
        own, doubted = task.held or task.against, task.against
        if own is None or doubted is None:
            continue
        inside = task.left_out is not None and 100 * task.left_out.mean.upper(PASS_ALPHA) < limits.pass_drop_points
        p = adjusted[task.task]
        if p <= FAIL_ALPHA and not inside:
            found.append(
                made(
                    "task-drop",
                    Severity.FAIL,
                    f"{task.task}: accuracy fell by {100 * own.value:.2f} points on {own.n:,} questions "
                    f"({task.worse} got worse, {task.better} better), which the pooled drop may hide",
                    rule=f"p of a drop above {limits.fail_drop_points:g} points in {task.task}, Holm over "
                    f"{len(between.tasks)} tasks",
                    value=p, operator="<=", limit=FAIL_ALPHA, evidence=_flipped(comparison, task.task),
                )
            )  # fmt: skip
        elif 100 * doubted.value >= limits.pass_drop_points and doubted.mean.lower(PASS_ALPHA) > 0:
            found.append(
                made(
                    "task-drop-open",
                    Severity.REVIEW,
                    f"{task.task}: accuracy fell by {100 * doubted.value:.2f} points on {doubted.n:,} questions, doubtful "
                    f"answers counted against the candidate ({task.worse} got worse, {task.better} better): more than chance, "
                    "though not surely enough to FAIL",
                    rule=f"drop of {task.task}, points", value=100 * doubted.value, operator=">=",
                    limit=limits.pass_drop_points, evidence=_flipped(comparison, task.task),
                )
            )  # fmt: skip
    return tuple(found)


def _p_of(task: TaskDrop, limits: Limits) -> float:
    """Return the p of "the task's drop is at most `fail_drop_points`", every doubt for the candidate; 1 without answers."""
    if task.held is None:
        return 1.0
    p = task.held.mean.p_above(limits.fail_drop_points / 100)
    # A normal interval of few questions promises too much; the exact sign test does not.
    return max(p, mcnemar_one_sided(task.worse, task.better)) if task.held.n < limits.smallest_n else p


def floor_of(chance: float, limits: Limits) -> float:
    """Return the accuracy in percent that a baseline must surely have, where guessing gets the share `chance` right."""
    return 100 * chance + max(limits.pass_drop_points / limits.margin_share, HARNESS_FLOOR)


def soundness(comparison: Comparison, between: Contrast, settings: AccuracySettings) -> tuple[Finding, ...]:
    """Say when a margin in points means nothing for this baseline: it can hardly do a task, or it does nearly all.

    Each task must be one that the baseline can do: a task that it cannot do only adds questions that nobody can lose.
    """
    limits, baseline, drop = settings.limits, comparison.estimates["accuracy_baseline"], comparison.estimates["drop"]
    chances = {task.name: task.chance for task in settings.tasks}
    found = []
    for task in between.tasks:
        floor = floor_of(chances.get(task.task, 0.0), limits)
        if task.baseline is None or task.baseline_low is None or 100 * task.baseline_low >= floor:
            continue
        found.append(
            made(
                "weak-baseline",
                Severity.REVIEW,
                f"{task.task}: the baseline gets {task.baseline:.1%} right (95 %: at least {task.baseline_low:.1%}): a margin "
                f"of {limits.pass_drop_points:g} points would be more than {limits.margin_share:.0%} of what it can do beyond "
                f"guessing, or its right answers may be luck; PASS needs {floor:.1f} %. Choose a task that the model can do",
                rule=f"baseline accuracy in {task.task}, lower 95 %, percent", value=100 * task.baseline_low, operator="<",
                limit=floor,
            )
        )  # fmt: skip
    wrong = 100 - baseline.value
    allowed = max(wrong, limits.ceiling_points)
    worst = max(_high(drop), _high(comparison.estimates["drop_against_candidate"]))
    if allowed <= worst < limits.pass_drop_points:
        found.append(
            made(
                "ceiling",
                Severity.REVIEW,
                f"the baseline gets all but {wrong:.2f} % right, and the drop may be as much as {worst:.2f} points: the "
                "candidate's wrong answers may be more than twice as many, and the task is too easy to say. Choose a harder "
                "task, or more questions",
                rule="upper 95 % of the drop near the ceiling, points", value=worst, operator=">=", limit=allowed,
            )
        )  # fmt: skip
    return tuple(found)


def smoke(comparison: Comparison, between: Contrast, validity: Validity, limits: Limits) -> tuple[Finding, ...]:
    """Too few questions are a smoke test."""
    n = validity.distinct_questions
    if n >= limits.smallest_n:
        return ()
    detail = ""
    if not any(flips.flipped for flips in between.rounds):
        detail = f"; no flip seen, but up to {never_seen_bound(comparison.n, PASS_ALPHA):.1%} of questions may flip (95 %)"
    return (
        made(
            "smoke-test",
            Severity.REVIEW,
            f"smoke test: n={n:,}, cannot PASS (PASS needs {limits.smallest_n:,} distinct questions){detail}",
            rule="distinct questions", value=float(n), operator="<", limit=float(limits.smallest_n),
        ),
    )  # fmt: skip


def _too_few(validity: Validity, limits: Limits) -> bool:
    """Whether a smoke test is not overwhelming: few questions FAIL only when the exact sign test agrees."""
    exact = mcnemar_one_sided(validity.worse_questions, validity.better_questions)
    return validity.distinct_questions < limits.smallest_n and exact > FAIL_ALPHA


def _what_would_settle(comparison: Comparison, limits: Limits) -> str:
    """Say how many more questions like these would decide, whichever way is nearer."""
    drop, sd = comparison.estimates["drop"].value / 100, comparison.estimates["drop_sd"].value / 100
    passing = questions_needed(limits.pass_drop_points / 100 - drop, sd, PASS_ALPHA)
    needed = [
        None if passing is None else max(passing, limits.smallest_n),
        questions_needed(drop - limits.fail_drop_points / 100, sd, FAIL_ALPHA),
    ]
    total = min(count for count in needed if count is not None)
    more = total - comparison.n
    if more > 0:
        return f"about {more:,} more questions would settle it"
    return "as many questions again would likely settle it"


def _flipped(comparison: Comparison, task: str | None = None) -> tuple[EvidenceRef, ...]:
    kinds = (RIGHT_TO_WRONG, cut_kind(RIGHT_TO_WRONG))
    lost = [item for item in comparison.items if item["kind"] in kinds and task in (None, item["task"])]
    steady = sorted(lost, key=lambda item: item["extraction_suspect"])
    return tuple(EvidenceRef(check=CHECK_NAME, id=item["id"], step=item["round"]) for item in steady[:MOST_REFS])


def _low(estimate: Estimate) -> float:
    if estimate.low is None:
        raise ValueError("the estimates of a drop carry bounds")
    return estimate.low


def _high(estimate: Estimate) -> float:
    if estimate.high is None:
        raise ValueError("the estimates of a drop carry bounds")
    return estimate.high
