"""Were both arms asked the same, beyond the hashes: their own chat templates, cached prefixes, where reasoning stands.

The ids that are sent are the baseline's, so a candidate whose own template differs answers prompts here that no user of it
would send. Each arm therefore renders every prompt once by its own template. A prefix that came from the cache in one arm
only is a second source of differences, and is told beside them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from servegate.checks.contract import Evidence, measured
from servegate.checks.prompts.findings import CHECK, MOST_EVIDENCE, NAMED, found
from servegate.checks.prompts.records import Answer, Prompt, PromptsMeasurement
from servegate.checks.prompts.settings import Limits
from servegate.domain.evidence import EngineFacts
from servegate.domain.judgement import Comparison, EvidenceRef, Finding, Severity
from servegate.domain.records import Json

TOGGLE = re.compile(r"/(?:no_)?think(?!\w)")
"""Obeyed, and deleted, by templates and models of the Qwen3 kind, some of them also inside a path such as `/think/a.txt`."""
MOST_IDS = 100
REASONING_PARSER = "--reasoning-parser"

Key = tuple[str, int]


def has_reasoning_parser(engine: EngineFacts | None) -> bool:
    """Whether an engine was started with a reasoning parser, which works on the chat route alone."""
    words = engine.argv if engine is not None else ()
    return any(word == REASONING_PARSER or word.startswith(f"{REASONING_PARSER}=") for word in words)


def compared(evidence: Evidence[PromptsMeasurement], prompts: Mapping[str, Prompt]) -> dict[str, Json]:
    """Return `asking`: what of the asking differs between the arms; ids are of prompts, in order, at most 100."""
    sides = [{(one.prompt_id, one.round): one for one in arm.answers} for arm in measured(evidence)]
    left, right = sides
    both = sorted(left.keys() & right.keys())
    rendered = [key for key in both if _rendered(left[key]) or _rendered(right[key])]
    other = [key for key in rendered if _other_template(left[key], right[key])]
    unknown = [key for key in rendered if _template_unknown(left[key], right[key])]
    counted = [key for key in both if left[key].cached_tokens is not None and right[key].cached_tokens is not None]
    cached = [key for key in counted if left[key].cached_tokens != right[key].cached_tokens]
    return {
        "parser_past": [one.id for one in prompts.values() if one.route == "completions"][:MOST_IDS]
        if has_reasoning_parser(evidence.candidate.engine)
        else [],
        "rendered": len(rendered),
        "other_template": _ids(other),
        "template_unknown": _ids(unknown),
        "template_unknown_reason": next((_why(left[key], right[key]) for key in unknown), None),
        "toggled": [one.id for one in prompts.values() if _toggles(one)][:MOST_IDS],
        "cached": {
            "known": len(counted),
            "differing": len(cached),
            "baseline": sum(left[key].cached_tokens or 0 for key in counted),
            "candidate": sum(right[key].cached_tokens or 0 for key in counted),
            "ids": _ids(cached),
        },
        "ended_by": {name: _ends(arm) for name, arm in zip(("baseline", "candidate"), measured(evidence), strict=True)},
        "reasoning": {
            name: dict(sorted(Counter(one.reasoning_field for one in side.values() if one.reasoning_field).items()))
            for name, side in zip(("baseline", "candidate"), sides, strict=True)
        },
    }


def _asked(comparison: Comparison) -> dict[str, Json]:
    """Return what `compared` found; nothing in a comparison of an older servegate."""
    return comparison.candidate.get("asking") or {}


def template_differs(comparison: Comparison, _limits: Limits) -> Finding | None:
    """What the candidate's own users ask was not measured, so it can be no PASS."""
    asking = _asked(comparison)
    other, unknown = asking.get("other_template") or [], asking.get("template_unknown") or []
    if other:
        what = "the candidate's own chat template makes other tokens than the baseline's of"
        message = f"{what} {len(other)} of {asking['rendered']} prompts, so its own users ask something else: {_named(other)}"
        return found("template-differs", Severity.REVIEW, message, _refs(other))
    if unknown:
        why = asking["template_unknown_reason"]
        message = f"what each arm's own chat template makes of {len(unknown)} prompts is not known: {why}"
        return found("template-unknown", Severity.REVIEW, message, _refs(unknown))
    return None


def parser_past(comparison: Comparison, _limits: Limits) -> Finding | None:
    """Ids go past a reasoning parser; when only the candidate has one, what it makes of the answers was not measured."""
    ids = _asked(comparison).get("parser_past") or []
    if not ids:
        return None
    message = (
        "only the candidate has a reasoning parser, and both arms were asked past it: what it makes of answers is not known"
    )
    return found("parser-not-measured", Severity.REVIEW, message, _refs(ids))


def reasoning_moved(comparison: Comparison, _limits: Limits) -> Finding | None:
    """A client reads one field; when the thoughts move to another, or into the text, it sees other answers."""
    reasoning = _asked(comparison).get("reasoning") or {}
    before, after = (set(reasoning.get(arm) or ()) for arm in ("baseline", "candidate"))
    if not before or not after or before == after:
        return None
    message = f"reasoning stands in {_listed(before)} in the baseline and in {_listed(after)} in the candidate"
    return found("reasoning-moved", Severity.REVIEW, message)


def toggles(comparison: Comparison, _limits: Limits) -> Finding | None:
    """Some templates obey a toggle in a user's own words and delete it."""
    ids = _asked(comparison).get("toggled") or []
    if not ids:
        return None
    message = f"{len(ids)} prompts hold `/think` or `/no_think`, which some templates and models obey: {_named(ids)}"
    return found("thinking-toggle", Severity.INFO, message, _refs(ids))


def cached_tokens(comparison: Comparison, _limits: Limits) -> Finding | None:
    """A prefix read from the cache is computed in another batch shape; answers may part at a coin-flip for it."""
    cached = _asked(comparison).get("cached") or {}
    if not cached.get("differing"):
        return None
    ids = cached["ids"]
    sums = f"{cached['baseline']} tokens in the baseline, {cached['candidate']} in the candidate"
    answers = f"{cached['differing']} answer{'' if cached['differing'] == 1 else 's'}"
    message = f"{answers} began from unequal cached prefixes ({sums}), which may part them: {_named(ids)}"
    return found("cached-tokens-differ", Severity.INFO, message, _refs(ids))


def stop_ids(comparison: Comparison, _limits: Limits) -> Finding | None:
    """No endpoint states its stop ids, but each answer that stopped ends with the one that stopped it."""
    ended = _asked(comparison).get("ended_by") or {}
    before, after = (set(ended.get(arm) or ()) for arm in ("baseline", "candidate"))
    if not before or not after or before == after:
        return None
    shown = " and ".join(
        f"token {', '.join(sorted(ids, key=int))} in the {arm}" for arm, ids in (("baseline", before), ("candidate", after))
    )
    return found("stop-ids-differ", Severity.INFO, f"answers are ended by {shown}: the arms may stop by different lists")


def _ends(arm: PromptsMeasurement) -> dict[str, int]:
    """Return how many answers each last token ended."""
    ids = arm.columns.get("token_id")
    stopped = (
        [one for one in arm.answers if one.finish_reason in ("stop", "tool_calls") and one.rows] if ids is not None else []
    )
    last = Counter(int(ids[one.first_row + one.rows - 1]) for one in stopped) if ids is not None else Counter()
    return {str(token): count for token, count in sorted(last.items())}


def _rendered(answer: Answer) -> bool:
    return answer.own_token_ids_sha256 is not None or answer.own_token_ids_sha256_reason is not None


def _other_template(left: Answer, right: Answer) -> bool:
    mine, theirs = left.own_token_ids_sha256, right.own_token_ids_sha256
    return mine is not None and theirs is not None and mine != theirs


def _template_unknown(left: Answer, right: Answer) -> bool:
    return left.own_token_ids_sha256 is None or right.own_token_ids_sha256 is None


def _why(left: Answer, right: Answer) -> str:
    return left.own_token_ids_sha256_reason or right.own_token_ids_sha256_reason or "one arm was not asked"


def _toggles(prompt: Prompt) -> bool:
    return any(TOGGLE.search(str(message.get("content", ""))) for message in prompt.messages)


def _ids(keys: Sequence[Key]) -> list[str]:
    return list(dict.fromkeys(prompt_id for prompt_id, _ in keys))[:MOST_IDS]


def _named(ids: Sequence[str]) -> str:
    return ", ".join(ids[:NAMED]) + (f" and {len(ids) - NAMED} more" if len(ids) > NAMED else "")


def _refs(ids: Sequence[str]) -> tuple[EvidenceRef, ...]:
    return tuple(EvidenceRef(check=CHECK, id=one, step=0) for one in ids[:MOST_EVIDENCE])


def _listed(fields: set[str]) -> str:
    return " and ".join(f"`{field}`" for field in sorted(fields))
