"""The verdict stands beside the line that caused it."""

from __future__ import annotations

from servegate.domain.judgement import Outcome
from servegate.domain.plan import Knob, Origin
from servegate.publish.annotations import annotations_of
from tests.unit.publish.test_publish import verdict
from tests.unit.publish.test_workflow_commands import runner_commands
from tests.unit.samples import arm, plan

ORIGIN = Origin(base="a" * 40, merge_base="b" * 40, head="c" * 40, baseline_path="s/a.yaml", candidate_path="s/a.yaml")
TEXT = "model: m\n# why\nkv_cache_dtype: fp8\nno-enable-prefix-caching: true\n"
KNOBS = (
    Knob(name="kv-cache-dtype", baseline=None, candidate="fp8", source="serving config"),
    Knob(name="enable-prefix-caching", baseline=True, candidate=False, source="serving config"),
    Knob(name="seed", baseline=1, candidate=None, source="serving config"),
)


def notes(path: str = "s/a.yaml", text: str = TEXT, knobs: tuple[Knob, ...] = KNOBS, outcome: Outcome = Outcome.FAIL):
    candidate = arm("candidate")
    candidate = candidate.model_copy(update={"config": candidate.config.model_copy(update={"text": text})})
    origin = ORIGIN.model_copy(update={"candidate_path": path})
    return annotations_of(plan(arms={"baseline": arm(), "candidate": candidate}, knobs=knobs, origin=origin), verdict(outcome))


def test_every_changed_line_has_a_note():
    found = notes()
    assert [(each.path, each.line, each.level) for each in found] == [("s/a.yaml", 3, "failure"), ("s/a.yaml", 4, "failure")]
    assert found[0].message == "fail: accuracy fell (kv-cache-dtype: not set -> fp8)"


def test_a_removed_line_and_a_manifest_get_one_note_on_the_file():
    assert [(each.path, each.line) for each in notes(knobs=KNOBS[2:])] == [("s/a.yaml", 1)]
    assert [(each.path, each.line) for each in notes(path="k8s/m.yaml (spec.args)")] == [("k8s/m.yaml", 1)]


def test_a_run_by_hand_has_no_lines_in_git():
    assert annotations_of(plan(), verdict()) == ()


def test_a_hostile_path_can_not_end_the_command():
    [note, *_] = notes(path="s/a,line=1::x\n::error::y.yaml", outcome=Outcome.REVIEW)
    line = note.to_command()
    assert "\n" not in line
    assert runner_commands(line) == [line]
