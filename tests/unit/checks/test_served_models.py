"""What the two checkpoints say beside their weights: a difference is told and never a silent PASS."""

from __future__ import annotations

from typing import Any

import pytest

from servegate.checks.served_models import model_findings
from servegate.domain.judgement import Outcome, Severity
from servegate.domain.manifest import Manifest, ServedFiles
from tests.unit.checks.test_verdict import result, verdict
from tests.unit.samples import manifest

SOUND: dict[str, Any] = {
    "source": "org/m",
    "commit": "a" * 40,
    "weights_sha256": "w",
    "vocabulary_sha256": "v",
    "tokenizer_sha256": "t",
    "chat_template_sha256": "c",
    "sampling_defaults": {},
    "stop_ids": (2,),
}
UNREAD: dict[str, Any] = {"source": "org/m", "reasons": {"files": "the files of 'org/m' are not on this machine"}}


def arm(**changes: Any) -> Manifest:
    return manifest(model=ServedFiles(**{**SOUND, **changes}))


def codes(baseline: Manifest, candidate: Manifest, *, same_revision: bool = True) -> dict[str, Severity]:
    return {one.code: one.severity for one in model_findings(baseline, candidate, same_revision=same_revision)}


def test_equal_files_and_records_without_any_are_no_finding() -> None:
    assert codes(arm(), arm()) == {}
    assert codes(arm(), arm(source="org/m-fp8", commit="b" * 40, weights_sha256="other")) == {}
    assert codes(manifest(), manifest()) == {}


@pytest.mark.parametrize(
    ("change", "code", "severity"),
    [
        ({"chat_template_sha256": "d"}, "arms/chat-template-differs", Severity.REVIEW),
        ({"chat_template_sha256": None}, "arms/chat-template-differs", Severity.REVIEW),
        ({"sampling_defaults": {"repetition_penalty": 1.3}}, "arms/generation-config-differs", Severity.REVIEW),
        ({"stop_ids": (0,)}, "arms/stop-ids-differ", Severity.REVIEW),
        ({"tokenizer_sha256": "u"}, "arms/tokenizer-differs", Severity.REVIEW),
        ({"vocabulary_sha256": "u"}, "arms/vocabulary-differs", Severity.NOT_COMPARABLE),
        ({"commit": "b" * 40}, "arms/model-moved", Severity.NOT_COMPARABLE),
        ({"weights_sha256": "x"}, "arms/model-moved", Severity.NOT_COMPARABLE),
    ],
)
def test_each_difference_has_its_finding(change: dict[str, Any], code: str, severity: Severity) -> None:
    assert codes(arm(), arm(**change)) == {code: severity}
    found = verdict(result(), manifests=(arm(), arm(**change)))
    assert found.outcome is Outcome(severity.value)


def test_a_revision_under_test_is_not_a_model_that_moved() -> None:
    assert codes(arm(), arm(commit="b" * 40, weights_sha256="x"), same_revision=False) == {}


def test_a_commit_that_is_not_known_stands_in_the_headline_and_two_such_models_are_review() -> None:
    unread = manifest(model=ServedFiles(**UNREAD))
    assert codes(unread, unread) == {"arms/model-unresolved": Severity.INFO}
    found = verdict(result(), manifests=(unread, unread))
    assert found.outcome is Outcome.PASS
    assert "not known which commit" in found.headline
    other = manifest(model=ServedFiles(**{**UNREAD, "source": "org/other"}))
    assert codes(unread, other) == {"arms/models-not-compared": Severity.REVIEW}
    pinned = manifest(model=ServedFiles(**{**UNREAD, "commit": "a" * 40}))
    assert codes(pinned, pinned) == {}


def test_a_record_on_one_side_only_is_missing_evidence() -> None:
    assert codes(manifest(), arm()) == {"arms/model-unknown": Severity.REVIEW}


def test_the_message_names_the_parameter_and_both_values() -> None:
    (one,) = model_findings(arm(), arm(sampling_defaults={"repetition_penalty": 1.3}), same_revision=True)
    assert "repetition_penalty not set -> 1.3" in one.message
