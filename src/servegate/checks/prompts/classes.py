"""The ladder of classes: what became of one answer between two passes over the same prompt.

From harmless to serious: identical, encoding, whitespace, wording (no protected token changed), changed fact, contract
broken, degenerate; and beside the ladder `not comparable`, for pairs in which one side is no whole answer. A class says
what happened to one pair; whether it happens every time, and what follows, is judged over all rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache

from servegate.checks.prompts.calls import calls_of, changed_calls
from servegate.checks.prompts.records import Answer, Prompt
from servegate.domain.evidence import ItemStatus
from servegate.domain.records import Json
from servegate.domain.workload import calls_as_text
from servegate.text.contracts import Ruling, State, judge
from servegate.text.degenerate import Degeneration, Kind, degeneration
from servegate.text.equality import Sameness, sameness
from servegate.text.fact_changes import Change, changes
from servegate.text.facts import PLAIN, Context, FactKind, Facts, facts_of
from servegate.text.options import named_options


class AnswerClass(StrEnum):
    """Class of a pair of answers, in the order of the ladder."""

    IDENTICAL = "identical"
    ENCODING = "encoding"
    WHITESPACE = "whitespace"
    WORDING = "wording"
    CHANGED_FACT = "changed_fact"
    CONTRACT_BROKEN = "contract_broken"
    DEGENERATE = "degenerate"
    NOT_COMPARABLE = "not_comparable"


SAME = frozenset({AnswerClass.IDENTICAL, AnswerClass.ENCODING, AnswerClass.WHITESPACE})
"""Classes in which no letter, digit or sign differs."""
CLASS_OF = {
    Sameness.BYTES: AnswerClass.IDENTICAL,
    Sameness.ENCODING: AnswerClass.ENCODING,
    Sameness.WHITESPACE: AnswerClass.WHITESPACE,
}
WITHOUT_ANSWER = {
    ItemStatus.FAILED: "failed",
    ItemStatus.TIMEOUT: "timeout",
    ItemStatus.SKIPPED: "skipped",
    ItemStatus.REASONING_ONLY: "reasoning only",
}
EMPTY_REASONS = (BOTH_EMPTY, BASELINE_EMPTY, CANDIDATE_EMPTY) = ("both empty", "baseline empty", "candidate empty")
_facts = lru_cache(maxsize=1_024)(facts_of)
_degeneration = lru_cache(maxsize=1_024)(degeneration)
"""Rounds of one arm mostly say the same, and they are read one after the other."""
THOUGHT, THOUGHT_END = "<think>", "</think>"
INDENTED = frozenset({"code", "yaml"})


@dataclass(frozen=True)
class Reading:
    """One answer, read by itself: whether it is broken, and whether it keeps its prompt's contract (None: it has none)."""

    answer: Answer
    degeneration: Degeneration | None
    contract: Ruling | None
    context: Context = PLAIN

    @cached_property
    def facts(self) -> Facts:
        """The protected tokens of the answer (not of its thoughts), read when they are first needed."""
        text = _after_thinking(self.answer.text)
        return _facts(self.answer.text if text is None else text, self.context)

    @property
    def answered(self) -> bool:
        """The engine brought an answer, be it cut or empty."""
        return self.answer.status not in WITHOUT_ANSWER

    @property
    def cut(self) -> bool:
        """The answer hit its token limit."""
        return self.answer.status is ItemStatus.TRUNCATED

    @property
    def empty(self) -> bool:
        """There is no text at all; two of these are never "equal"."""
        return self.degeneration is not None and self.degeneration.kind is Kind.EMPTY

    def kept(self) -> bool | None:
        """Whether the contract is kept; None without a contract or when the answer is no evidence."""
        if self.contract is None or self.contract.state is State.OPEN:
            return None
        return self.contract.state is State.KEPT


@dataclass(frozen=True)
class Judged:
    """Class of a pair and, in a few words, why; `cut` counts pairs compared only as far as both were cut.

    `changes` are the facts that changed, when the class is that.
    """

    answer_class: AnswerClass
    reason: str = ""
    cut: bool = False
    changes: tuple[Change, ...] = ()


def context_of(prompt: Prompt) -> Context:
    """Return what a prompt makes protected in its answers."""
    return Context(named_options(prompt.question, prompt.expect), code="code" in (prompt.expect or ()))


def read(answer: Answer, prompt: Prompt, context: Context = PLAIN) -> Reading:
    """Return an answer read by itself."""
    if answer.status in WITHOUT_ANSWER:
        open_ruling = Ruling(State.OPEN, WITHOUT_ANSWER[answer.status]) if prompt.expect else None
        return Reading(answer, None, open_ruling, context)
    if answer.status is ItemStatus.EMPTY:
        ruling = judge(prompt.expect, "", cut=False, tool_calls=()) if prompt.expect else None
        return Reading(answer, _degeneration(""), ruling, context)
    visible, cut = _after_thinking(answer.text), answer.status is ItemStatus.TRUNCATED
    if visible is None:  # a thought that did not end before the limit holds no answer, right or wrong
        unended = Ruling(State.OPEN, "cut while it was thinking") if prompt.expect else None
        return Reading(answer, _degeneration(answer.text), unended, context)
    calls = calls_of(answer) if prompt.route == "chat" else None
    spoken = visible.removesuffix(calls_as_text(calls or ()))
    ruling = _ruled(prompt.expect, spoken, cut, calls) if prompt.expect else None
    return Reading(answer, _degeneration(visible), ruling, context)


def _ruled(expect: dict[str, Json], text: str, cut: bool, calls: tuple[Mapping[str, Json], ...] | None) -> Ruling:
    """Judge a contract of a whole text, and where a thought ends within it of what follows, too: a thought is no answer."""
    ruling = judge(expect, text, cut=cut, tool_calls=calls)
    if ruling.state is State.BROKEN or THOUGHT_END not in text:
        return ruling
    after = judge(expect, text.rpartition(THOUGHT_END)[2], cut=cut, tool_calls=calls)
    return ruling if after.state is State.KEPT else after


def _after_thinking(text: str) -> str | None:
    """Return the part that a contract speaks about: all of it, or what follows a think block; None when it has no end."""
    if not text.lstrip().startswith(THOUGHT):
        return text
    _, closed, visible = text.partition(THOUGHT_END)
    return visible if closed else None


def classify(left: Reading, right: Reading, prompt: Prompt, *, directed: bool) -> Judged:
    """Return the class of a pair.

    `directed`: left is the baseline and right the candidate, so only what the candidate lost counts as broken. Two
    rounds of one arm have no direction: there, either side may be the broken one.
    """
    if (void := _without_answer(left, right, directed=directed)) is not None:
        return Judged(AnswerClass.NOT_COMPARABLE, void)
    both_cut = left.cut and right.cut
    same_calls = len(left.answer.tool_calls) == len(right.answer.tool_calls)  # text may look like a call and be none
    if left.answer.text == right.answer.text and left.cut == right.cut and same_calls:
        return Judged(AnswerClass.IDENTICAL, cut=both_cut)
    if (defect := _new_defect(left, right, directed=directed)) is not None:
        return Judged(AnswerClass.DEGENERATE, f"{defect.kind.value}: {defect.evidence}")
    if (why := _new_break(left, right, directed=directed)) is not None:
        return Judged(AnswerClass.CONTRACT_BROKEN, why)
    if left.cut != right.cut:
        first, second = ("baseline", "candidate") if directed else ("first round", "second round")
        return Judged(AnswerClass.NOT_COMPARABLE, f"cap hit in the {first if left.cut else second} only")
    if left.empty or right.empty:
        return Judged(AnswerClass.NOT_COMPARABLE, BASELINE_EMPTY if left.empty else CANDIDATE_EMPTY)
    return _compared(left, right, prompt, both_cut=both_cut)


def _without_answer(left: Reading, right: Reading, *, directed: bool) -> str | None:
    names = ("baseline", "candidate") if directed else ("first round", "second round")
    for side, name in zip((left, right), names, strict=True):
        if not side.answered:
            return f"{name}: {WITHOUT_ANSWER[side.answer.status]}"
    return BOTH_EMPTY if left.empty and right.empty else None


def _compared(left: Reading, right: Reading, prompt: Prompt, *, both_cut: bool) -> Judged:
    """Return the class of two sound answers whose bytes differ."""
    called = changed_calls(left.answer, right.answer)
    equal = sameness(left.answer.text, right.answer.text, indentation=_indented(prompt))
    if equal in CLASS_OF and not called:
        return Judged(CLASS_OF[equal], cut=both_cut)
    changed = (*called, *(() if called else changes(left.facts, right.facts)))
    if not changed and _indented(prompt) and sameness(left.answer.text, right.answer.text) is not Sameness.NONE:
        changed = (Change(FactKind.INDENTATION, "", ""),)
    if not changed:
        return Judged(AnswerClass.WORDING, cut=both_cut)
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return Judged(AnswerClass.CHANGED_FACT, f"{changed[0]}{more}", cut=both_cut, changes=changed)


def _indented(prompt: Prompt) -> bool:
    return prompt.category.casefold() in INDENTED or not INDENTED.isdisjoint(prompt.expect or ())


def _new_defect(left: Reading, right: Reading, *, directed: bool) -> Degeneration | None:
    if right.degeneration is not None and left.degeneration is None:
        return right.degeneration
    return left.degeneration if not directed and right.degeneration is None else None


def _new_break(left: Reading, right: Reading, *, directed: bool) -> str | None:
    if left.kept() is True and right.kept() is False and right.contract is not None:
        return right.contract.why
    if not directed and right.kept() is True and left.kept() is False and left.contract is not None:
        return left.contract.why
    return None
