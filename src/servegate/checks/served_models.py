"""Did both arms serve one model in one way, apart from what is under test?

Prompts are rendered once, on the baseline, and every sampling parameter is pinned, so another chat template or another
`repetition_penalty` in the candidate's checkpoint moves no measured answer: the gate would pass what no user gets. Each
such difference is a finding here, and REVIEW at best. What makes the measured answers themselves incomparable (ids that
mean other text, a model that moved between the arms) voids the comparison.
"""

from __future__ import annotations

from collections.abc import Callable

from servegate.checks.contract import finding
from servegate.domain.judgement import Finding, Severity
from servegate.domain.manifest import Manifest, ServedFiles
from servegate.domain.records import Json

ARMS = "arms"
NOT_KNOWN = "not known"

Rule = Callable[[ServedFiles, ServedFiles], Finding | None]


def model_findings(baseline: Manifest, candidate: Manifest, *, same_revision: bool) -> list[Finding]:
    """Return the findings; `same_revision`: no option of the plan asks for another revision or tokenizer revision.

    Records that are older than the collection of these files give none, as they always did.
    """
    before, after = baseline.model, candidate.model
    if before is None and after is None:
        return []
    if before is None or after is None:
        arm = "baseline" if before is None else "candidate"
        return [_found("model-unknown", Severity.REVIEW, f"it was not recorded which model files the {arm} served")]
    if (moved := _moved(before, after)) is not None and same_revision:
        return [moved]
    rules: tuple[Rule, ...] = (_unresolved, _vocabulary, _tokenizer, _template, _sampling, _stop_ids)
    return [one for rule in rules if (one := rule(before, after)) is not None]


def _moved(before: ServedFiles, after: ServedFiles) -> Finding | None:
    """One name, two contents: `main` moved, or a directory was filled anew between the starts."""
    if before.source != after.source:
        return None
    pairs = (("commit", before.commit, after.commit), ("weight files", before.weights_sha256, after.weights_sha256))
    for what, mine, theirs in pairs:
        if mine is not None and theirs is not None and mine != theirs:
            message = f"the model {before.source!r} changed between the arms: {what} {mine[:12]} and {theirs[:12]}"
            return _found("model-moved", Severity.NOT_COMPARABLE, message)
    return None


def _unresolved(before: ServedFiles, after: ServedFiles) -> Finding | None:
    """A hub id without a commit, or a model whose files nobody could read, may be anything."""
    open_ = {
        arm: files.reasons["files"] if "files" in files.reasons else files.reasons.get("commit", NOT_KNOWN)
        for arm, files in (("baseline", before), ("candidate", after))
        if "files" in files.reasons
    }
    if not open_:
        return None
    pinned = before.source == after.source and before.commit is not None and before.commit == after.commit
    if pinned:  # one commit of one repository: what could not be read is equal
        return None
    said = "; ".join(dict.fromkeys(f"{arm}: {why}" for arm, why in open_.items()))
    if before.source == after.source:  # one name, minutes apart: said beside the verdict, and rarely wrong
        message = f"it is not known which commit of {before.source!r} the arms served ({said}); pin `revision` to be sure"
        return _found("model-unresolved", Severity.INFO, message)
    message = f"tokenizer, chat template and stop ids of the two models could not be compared ({said})"
    return _found("models-not-compared", Severity.REVIEW, message)


def _vocabulary(before: ServedFiles, after: ServedFiles) -> Finding | None:
    if not _differ(before.vocabulary_sha256, after.vocabulary_sha256, before, after):
        return None
    message = "the arms have different vocabularies: the token ids that both were sent mean different texts"
    return _found("vocabulary-differs", Severity.NOT_COMPARABLE, message)


def _tokenizer(before: ServedFiles, after: ServedFiles) -> Finding | None:
    if not _differ(before.tokenizer_sha256, after.tokenizer_sha256, before, after):
        return None
    message = "the tokenizers differ in how text becomes token ids; both arms were sent the baseline's ids, users send text"
    return _found("tokenizer-differs", Severity.REVIEW, message)


def _template(before: ServedFiles, after: ServedFiles) -> Finding | None:
    if not _differ(before.chat_template_sha256, after.chat_template_sha256, before, after):
        return None
    message = (
        "the chat templates differ; both arms answered prompts rendered with the baseline's, so what users of the "
        "candidate's template get was not measured"
    )
    return _found("chat-template-differs", Severity.REVIEW, message)


def _sampling(before: ServedFiles, after: ServedFiles) -> Finding | None:
    """Two checkpoints, one of which says `repetition_penalty: 1.1`: only requests that pin it are equal."""
    if before.sampling_defaults == after.sampling_defaults or _unread(before, after):
        return None
    names = sorted({*before.sampling_defaults, *after.sampling_defaults})
    changed = [
        f"{name} {_said(before.sampling_defaults.get(name))} -> {_said(after.sampling_defaults.get(name))}"
        for name in names
        if before.sampling_defaults.get(name) != after.sampling_defaults.get(name)
    ]
    message = (
        f"the generation configs differ ({', '.join(changed)}); it was measured with every sampling parameter pinned, so "
        "what users get who state none was not measured"
    )
    return _found("generation-config-differs", Severity.REVIEW, message)


def _stop_ids(before: ServedFiles, after: ServedFiles) -> Finding | None:
    if before.stop_ids == after.stop_ids or _unread(before, after):
        return None
    sides = " and ".join(", ".join(map(str, files.stop_ids)) or "none" for files in (before, after))
    message = f"the arms stop at different token ids ({sides}): answers that differ in length or end may be due to that alone"
    return _found("stop-ids-differ", Severity.REVIEW, message)


def _differ(mine: str | None, theirs: str | None, before: ServedFiles, after: ServedFiles) -> bool:
    """Whether two parts differ; one that is there on one side only differs, unless a side's files were not read at all."""
    return mine != theirs and not _unread(before, after)


def _unread(before: ServedFiles, after: ServedFiles) -> bool:
    return "files" in before.reasons or "files" in after.reasons


def _said(value: Json) -> str:
    return "not set" if value is None else str(value)[:40]


def _found(code: str, severity: Severity, message: str) -> Finding:
    return finding(ARMS, code, severity, message)
