"""What so many questions can show at best: whether PASS is in their reach."""

from __future__ import annotations

from servegate.checks.accuracy.claims import floor_of
from servegate.checks.accuracy.estimates import PASS_ALPHA
from servegate.checks.accuracy.measuring import lengths
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.contract import Inputs
from servegate.checks.reach import Amount, Best, Short
from servegate.domain.plan import Plan
from servegate.stats.intervals import never_seen_bound, questions_needed


def best(settings: AccuracySettings, inputs: Inputs | None, _plan: Plan) -> Best:
    """Say when the questions are too few, or a task's chance leaves no baseline that could do it.

    How many questions a task of lm-eval's has is known once it is loaded; until then they are enough.
    """
    limits, short = settings.limits, list[Short]()
    for task in settings.tasks:
        floor = floor_of(task.chance, limits)
        if floor >= 100:  # the lower end of what so many questions show is below 100 % whatever they are
            short.append(
                Short(
                    "weak-baseline",
                    f"{task.name}: PASS needs a baseline that gets {floor:.1f} % right (chance {task.chance:.0%}, and a margin "
                    f"that is at most {limits.margin_share:.0%} of the rest)",
                )
            )
    counts = lengths(settings, inputs)
    if None in counts:
        return Best(tuple(short), leaves_points=0.0)
    n = sum(count for count in counts if count is not None)
    possible = 100 * never_seen_bound(n, PASS_ALPHA)
    if n < limits.smallest_n:
        short.append(Short("smoke-test", f"{n:,} questions, and PASS needs {limits.smallest_n:,}"))
    if possible >= limits.pass_drop_points:
        needed = max(questions_needed(limits.pass_drop_points / 100, 0.0, PASS_ALPHA) or 0, limits.smallest_n)
        short.append(
            Short(
                "drop-open",
                f"{n:,} questions leave a drop of {possible:.2f} points possible, and PASS needs less than "
                f"{limits.pass_drop_points:g}: {needed:,} would do",
            )
        )
    return Best(tuple(short), leaves_points=possible)


def amount(settings: AccuracySettings, inputs: Inputs | None, _step: int) -> Amount:
    """Return how much a round asks; nothing is known where a task of unknown length is asked in full."""
    counts = dict(zip((task.name for task in settings.tasks), lengths(settings, inputs), strict=True))
    known = {name: count for name, count in counts.items() if count is not None}
    if len(known) < len(counts):
        return Amount()
    return Amount(sum(known.values()), written=sum(known[task.name] * task.max_tokens for task in settings.tasks))
