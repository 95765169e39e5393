"""Comparing: every prompt's key in both arms over all rounds, and the share of stated keys at every depth.

The shape of the result, in `candidate` (and `pairs`, `changed` in both halves of `noise`):

    context_tokens, served_tokens (the shorter context of both engines; None: not known), silent (arms whose engine does not
    say), wanted_per_depth, pairs, changed (pairs of the first round in which one side states the key and the other does
    not), failed (answers that are no evidence), missing, depths [{depth_percent, prompts, longest_tokens, baseline,
    candidate {kept, broken, open}, states {state: prompts}}]

The unit of an estimate is the prompt: its rounds are averaged first. A drop is positive where the candidate lost keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from servegate.checks.contract import Comparison, Estimate, Evidence, measured, not_measured
from servegate.checks.points import points
from servegate.checks.prompts.tally import Counts, contract_state
from servegate.checks.retrieval.record import LongPrompt, RetrievalInputs, RetrievalMeasurement, Stated
from servegate.checks.retrieval.settings import RetrievalSettings
from servegate.checks.retrieval.texts import states
from servegate.domain.evidence import ItemStatus, NotMeasured, Reason
from servegate.domain.judgement import Noise, Unpaired
from servegate.domain.records import Json

ANSWERED = frozenset({ItemStatus.OK, ItemStatus.TRUNCATED, ItemStatus.EMPTY})
ONE_ROUND = "one round was measured, so how far an arm differs from itself is not known"

Key = tuple[str, int]
Item = dict[str, Json]


def compare(evidence: Evidence[RetrievalMeasurement], settings: RetrievalSettings) -> Comparison | NotMeasured:
    """Return the paired comparison, with one item per prompt that both arms were asked."""
    if (absent := not_measured(evidence)) is not None:
        return absent
    inputs = evidence.inputs
    if not isinstance(inputs, RetrievalInputs):
        return NotMeasured(reason=Reason(code="inputs-absent", message="the long prompts as rendered are not in this run"))
    sides = [{(one.prompt_id, one.round): one for one in side.answers} for side in measured(evidence)]
    prompts = {prompt.id: prompt for prompt in inputs.prompts}
    rounds = sorted({one.round for side in measured(evidence) for one in side.rounds})
    paired, unpaired, missing = _paired(sides[0], sides[1], prompts, rounds)
    answers: dict[str, list[tuple[Stated, Stated]]] = {}
    for key in paired:
        answers.setdefault(key[0], []).append((sides[0][key], sides[1][key]))
    items = [_item(prompt, answers[prompt.id], settings) for prompt in inputs.prompts if prompt.id in answers]
    first = [(prompts[key[0]], sides[0][key], sides[1][key]) for key in paired if key[1] == paired[0][1]]
    by_depth = {depth: [item for item in items if item["depth_percent"] == depth] for depth in _depths(inputs)}
    halves = [_against_itself(side, prompts, rounds) for side in sides] if len(rounds) > 1 else [None, None]
    return Comparison(
        candidate={
            "context_tokens": inputs.context_tokens,
            "served_tokens": _served(evidence),
            "silent": _silent(evidence),
            "wanted_per_depth": inputs.wanted_per_depth,
            **_changed(first),
            "failed": sum(item[arm]["open"] for item in items for arm in ("baseline", "candidate")),
            "missing": len(missing),
            "depths": [_depth(depth, group) for depth, group in by_depth.items()],
        },
        noise=Noise(baseline=halves[0], candidate=halves[1]) if len(rounds) > 1 else None,
        noise_reason=None if len(rounds) > 1 else ONE_ROUND,
        n=sum(_judged(item) for item in items),
        unpaired=unpaired,
        estimates={name: estimate for depth, group in by_depth.items() for name, estimate in _drops(depth, group).items()},
        items=tuple(items),
    )


def _served(evidence: Evidence[RetrievalMeasurement]) -> int | None:
    engines = (evidence.baseline.engine, evidence.candidate.engine)
    return min((one.max_model_len for one in engines if one is not None and one.max_model_len is not None), default=None)


def _silent(evidence: Evidence[RetrievalMeasurement]) -> list[str]:
    """Return the arms whose engine was started and did not say how long a context it serves."""
    engines = {"baseline": evidence.baseline.engine, "candidate": evidence.candidate.engine}
    return [arm for arm, engine in engines.items() if engine is not None and engine.max_model_len is None]


def share(counted: dict[str, int]) -> float | None:
    """Return the share of an arm's judged answers that state the key; None without any."""
    judged = counted["kept"] + counted["broken"]
    return counted["kept"] / judged if judged else None


def _paired(
    baseline: dict[Key, Stated], candidate: dict[Key, Stated], prompts: dict[str, LongPrompt], rounds: Sequence[int]
) -> tuple[list[Key], Unpaired, list[Key]]:
    counts = {"baseline_only": 0, "candidate_only": 0, "hash_differs": 0}
    paired, missing = [], []
    for key in sorted({*baseline, *candidate, *((name, number) for name in prompts for number in rounds)}):
        left, right = baseline.get(key), candidate.get(key)
        if left is None and right is None:
            missing.append(key)
        elif left is None or right is None:
            counts["candidate_only" if left is None else "baseline_only"] += 1
        elif key[0] not in prompts or not _asked_the_same(left, right, prompts[key[0]]):
            counts["hash_differs"] += 1
        else:
            paired.append(key)
    return paired, Unpaired(**counts), missing


def _asked_the_same(left: Stated, right: Stated, prompt: LongPrompt) -> bool:
    hashes = {(side.token_ids_sha256, side.sampling_sha256) for side in (left, right)}
    return hashes == {(prompt.token_ids_sha256, left.sampling_sha256)}


def _kept(prompt: LongPrompt, answer: Stated) -> bool | None:
    return states(prompt.key, answer.text) if answer.status in ANSWERED else None


def _counts(prompt: LongPrompt, answers: Sequence[Stated]) -> Counts:
    found = [_kept(prompt, answer) for answer in answers]
    return Counts(found.count(True), found.count(False), found.count(None))


def _item(prompt: LongPrompt, pairs: Sequence[tuple[Stated, Stated]], settings: RetrievalSettings) -> Item:
    baseline, candidate = _counts(prompt, [left for left, _ in pairs]), _counts(prompt, [right for _, right in pairs])
    return {
        "prompt_id": prompt.id,
        "depth_percent": prompt.depth_percent,
        "place": prompt.place,
        "prompt_tokens": len(prompt.token_ids),
        "key": prompt.key,
        "baseline": baseline.to_json(),
        "candidate": candidate.to_json(),
        "state": contract_state(baseline, candidate, settings.limits.confirm_rounds).value,
    }


def _judged(item: Item) -> bool:
    return share(item["baseline"]) is not None and share(item["candidate"]) is not None


def _depth(depth: int, items: Sequence[Item]) -> dict[str, Json]:
    total = {
        arm: {name: sum(item[arm][name] for item in items) for name in ("kept", "broken", "open")}
        for arm in ("baseline", "candidate")
    }
    return {
        "depth_percent": depth,
        "prompts": sum(_judged(item) for item in items),
        "longest_tokens": max((item["prompt_tokens"] for item in items), default=0),
        **total,
        "states": dict(sorted(Counter(item["state"] for item in items).items())),
    }


def _depths(inputs: RetrievalInputs) -> list[int]:
    return sorted({prompt.depth_percent for prompt in inputs.prompts})


def _drops(depth: int, items: Sequence[Item]) -> dict[str, Estimate]:
    drops = [(share(item["baseline"]), share(item["candidate"])) for item in items]
    known = [before - after for before, after in drops if before is not None and after is not None]
    return points(f"drop_at_{depth}", known)


def _changed(pairs: Sequence[tuple[LongPrompt, Stated, Stated]]) -> dict[str, Json]:
    kept = [(_kept(prompt, left), _kept(prompt, right)) for prompt, left, right in pairs]
    known = [pair for pair in kept if None not in pair]
    return {"pairs": len(known), "changed": sum(left != right for left, right in known)}


def _against_itself(side: dict[Key, Stated], prompts: dict[str, LongPrompt], rounds: Sequence[int]) -> dict[str, Json]:
    pairs = []
    for name, prompt in prompts.items():
        first, second = (side.get((name, number)) for number in (rounds[0], rounds[1]))
        if first is not None and second is not None:
            pairs.append((prompt, first, second))
    return {"rounds": list(rounds[:2]), **_changed(pairs)}
