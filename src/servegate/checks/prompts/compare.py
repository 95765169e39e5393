"""Comparing: every answer of the candidate with the baseline's, and each arm with itself.

The shape of the result, in `candidate` (and, as far as `summary` makes it, in both halves of `noise`):

    pairs, answered (pairs in which both sides answered), differing (of these, with other bytes), classes {class: pairs},
    reasons {reason: pairs}, cut (pairs compared as far as the limit), lengths {left, right, pairs, ratio} (generated tokens),
    curve [[token, share of answers still equal]], divergence {certainty: pairs}, median_first_token
    by_round [{round, ...the same...}]; contracts {state: prompts}; arms {arm: {statuses, answered, cap_hits,
    degenerate {kind: answers}}}; prompts, beyond_noise, unread (prompts); distinct (prompts less copies
    under other ids); missing (answers that neither arm has);
    sampled and batching, where those passes were made; asking (what differs in how the arms were asked, see there)

One round against one round is compared everywhere, so the numbers of the arms and of the noise can be set side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean, median

from servegate.checks.contract import Evidence, measured, not_measured
from servegate.checks.points import points
from servegate.checks.prompts import asking, batching, sampled
from servegate.checks.prompts.classes import AnswerClass, Reading
from servegate.checks.prompts.curve import still_equal
from servegate.checks.prompts.items import Prompted, item_of
from servegate.checks.prompts.pairing import Pair, Side, pair_arms, pair_rounds
from servegate.checks.prompts.records import PromptsInputs, PromptsMeasurement
from servegate.checks.prompts.settings import PromptsSettings
from servegate.domain.evidence import NotMeasured, Reason
from servegate.domain.judgement import Comparison, Estimate, Noise
from servegate.domain.records import Json
from servegate.stats.proportions import wilson

ONE_ROUND = "one round was measured, so how far an arm differs from itself is not known"


def compare(evidence: Evidence[PromptsMeasurement], settings: PromptsSettings) -> Comparison | NotMeasured:
    """Return the paired comparison, with one item per prompt. Texts stay in the evidence."""
    if (missing := not_measured(evidence)) is not None:
        return missing
    if not isinstance(evidence.inputs, PromptsInputs):
        return NotMeasured(reason=Reason(code="inputs-absent", message="the prompts as rendered are not in this run"))
    baseline, candidate = (Side.of(measurement) for measurement in measured(evidence))
    prompts = {prompt.id: prompt for prompt in evidence.inputs.prompts}
    paired = pair_arms(baseline, candidate, prompts)
    noise_rounds = [_two_rounds(side) for side in (baseline, candidate)]
    noise_pairs = [
        pair_rounds(side, *two, prompts) if two else {} for side, two in zip((baseline, candidate), noise_rounds, strict=True)
    ]
    rounds = sorted({number for _, number in paired.pairs})
    prompted = [
        Prompted(
            prompt=prompt,
            pairs=tuple(paired.pairs[prompt_id, number] for number in rounds if (prompt_id, number) in paired.pairs),
            noise=(noise_pairs[0].get(prompt_id), noise_pairs[1].get(prompt_id)),
        )
        for prompt_id, prompt in prompts.items()
    ]
    items = [item_of(one, settings.limits.confirm_rounds) for one in prompted if one.pairs]
    pairs = list(paired.pairs.values())
    full = {*baseline.full_rounds, *candidate.full_rounds} or set(rounds)
    by_round = {number: [pair for pair in pairs if pair.round == number] for number in rounds}
    summaries = {number: summary(group) for number, group in by_round.items()}
    first = next(iter(summaries.values()), None) or summary([])
    drawn, losses = sampled.compared(*measured(evidence), prompts)
    return Comparison(
        candidate={
            **first,
            "by_round": [{"round": number, **counted} for number, counted in summaries.items()],
            "prompts": len(items),
            "distinct": len({item["prompt_sha256"] for item in items}),
            "contracts": dict(sorted(Counter(item["contract"]["state"] for item in items if item["contract"]).items())),
            "arms": {"baseline": _arm(pair.left for pair in pairs), "candidate": _arm(pair.right for pair in pairs)},
            "beyond_noise": sum(item["beyond_noise"] for item in items),
            "stable_fact_changes": sum(item["stable_fact_change"] for item in items),
            "unread": sum(item["unread"] for item in items),
            "full_rounds": [number for number in rounds if number in full],
            **drawn,
            **batching.compared(*measured(evidence), prompts),
            "asking": asking.compared(evidence, prompts),
            "missing": len(paired.missing),
            "unpaired_ids": [list(key) for key in (*paired.unpaired_ids, *paired.missing)][:100],
        },
        noise=_noise(noise_rounds, noise_pairs),
        noise_reason=None if any(noise_rounds) else ONE_ROUND,
        n=len(items),
        unpaired=paired.unpaired,
        estimates={**_estimates(first, items), **losses},
        items=tuple(items),
    )


def summary(pairs: Sequence[Pair]) -> dict[str, Json]:
    """Return the counts of one round against another; the same shape for the arms and for the noise of each."""
    answered = [pair for pair in pairs if pair.left.answered and pair.right.answered]
    classes = Counter(pair.judged.answer_class for pair in pairs)
    parted = [pair.divergence for pair in answered if pair.divergence is not None]
    return {
        "pairs": len(pairs),
        "answered": len(answered),
        "differing": sum(pair.left.answer.text != pair.right.answer.text for pair in answered),
        "classes": {name.value: classes[name] for name in AnswerClass},
        "reasons": dict(
            sorted(
                Counter(pair.judged.reason for pair in pairs if pair.judged.answer_class is AnswerClass.NOT_COMPARABLE).items()
            )
        ),
        "cut": sum(pair.judged.cut for pair in pairs),
        "lengths": _lengths(answered),
        "curve": [list(point) for point in still_equal(pairs)],
        "divergence": dict(sorted(Counter(parting.certainty.value for parting in parted).items())),
        "median_first_token": float(median(parting.token for parting in parted)) if parted else None,
        "median_first_token_reason": None if parted else "no recorded tokens part",
    }


def _lengths(pairs: Sequence[Pair]) -> dict[str, Json]:
    """Return the generated tokens of both sides over the pairs in which the engine counted both."""
    counts = [(pair.left.answer.completion_tokens, pair.right.answer.completion_tokens) for pair in pairs]
    known = [(left, right) for left, right in counts if left is not None and right is not None]
    left, right = sum(pair[0] for pair in known), sum(pair[1] for pair in known)
    reason = None if left else "no generated tokens were counted in the first side"
    return {"left": left, "right": right, "pairs": len(known), "ratio": right / left if left else None, "ratio_reason": reason}


def _two_rounds(side: Side) -> tuple[int, int] | None:
    asked = side.full_rounds or side.rounds  # every prompt has a contract, so every round asked all
    rounds = [number for number in asked if number in side.rounds]
    return (rounds[0], rounds[1]) if len(rounds) > 1 else None


def _noise(rounds: Sequence[tuple[int, int] | None], pairs: Sequence[dict[str, Pair]]) -> Noise | None:
    if not any(rounds):
        return None
    halves = [
        {"rounds": list(two), **summary(list(group.values()))} if two else None
        for two, group in zip(rounds, pairs, strict=True)
    ]
    return Noise(baseline=halves[0], candidate=halves[1], reason=None if all(rounds) else ONE_ROUND)


def _arm(readings: Iterable[Reading]) -> dict[str, Json]:
    """Return one arm's side of all pairs, over all rounds."""
    known = list(readings)
    defects = Counter(reading.degeneration.kind.value for reading in known if reading.degeneration is not None)
    return {
        "statuses": dict(sorted(Counter(reading.answer.status.value for reading in known).items())),
        "answers": len(known),
        "answered": sum(reading.answered for reading in known),
        "cap_hits": sum(reading.cut for reading in known),
        "degenerate": dict(sorted(defects.items())),
    }


def _estimates(counted: dict[str, Json], items: Sequence[dict[str, Json]]) -> dict[str, Estimate]:
    """Return the share of differing answers, and the increases of degenerate answers and cap hits in points.

    `counted` is the summary of the first round.
    The unit is the prompt: a prompt's rounds are averaged first, and so are copies of one prompt under other ids, which know
    no more than one. So `n` is the number of distinct prompts.
    """
    estimates: dict[str, Estimate] = {}
    if counted["answered"]:
        low, high = wilson(counted["differing"], counted["answered"])
        estimates["differing"] = Estimate(
            value=counted["differing"] / counted["answered"],
            low=low,
            high=high,
            unit="share",
            n=counted["answered"],
            method="Wilson",
        )
    for name in ("degenerate", "cap_hits"):
        increases: dict[str, list[float]] = {}
        for item in items:
            before, after = item[name]["baseline"], item[name]["candidate"]
            if before is not None and after is not None:
                increases.setdefault(item["prompt_sha256"], []).append(after - before)
        estimates |= points(f"{name}_increase", [fmean(copies) for copies in increases.values()])
    return estimates
