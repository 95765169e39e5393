"""The plan: a fully resolved, hashable statement of what will be done."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Literal

from pydantic import Field

from servegate.domain.arms import Arm
from servegate.domain.records import Count, Json, Positive, Record

TEMPLATES = ("comment.md.j2", "report.md.j2", "page.html.j2", "report.css")
"""Names of the templates that a team may put in place of servegate's."""
MOST_ROUNDS = 16


class Knob(Record):
    """One serving option (or environment variable) in which the arms differ; an absent side is `None`."""

    name: str
    baseline: Json
    candidate: Json
    source: str


class Step(Record):
    """One step of the schedule: `step` numbers a round of a check (or a block of load) from 0."""

    session: Count
    arm: str
    check: str
    step: Count


class Setting(Record):
    """One effective setting and where its value came from: `default`, `policy`, the config file, or an option."""

    value: Json
    source: str


class ModelSource(Record):
    """Which model the baseline serves; `revision` is `None` for a local directory."""

    source: str
    revision: str | None
    revision_reason: str | None = None
    config: Json | None = None
    config_reason: str | None = None


class Fingerprints(Record):
    """Hashes that say whether two runs may be compared, or one run judged again.

    `workload`: settings outside `limits`, input hashes, harness versions. `policy`: limits and verdict rules.
    `arms`: model, serving config, environment and engine of each arm.
    """

    workload: str
    policy: str
    arms: dict[str, str]


class Origin(Record):
    """Where a gate on a pull request comes from: commit ids, the serving configs' paths in git, whose rules judge."""

    base: str
    """The tip of the base branch."""
    merge_base: str
    """Where the pull request's branch left it: the baseline."""
    head: str
    """The pull request's newest commit: the candidate."""
    baseline_path: str
    candidate_path: str
    config_path: str = "servegate.yaml"
    """The gate config's path in the repository."""
    judged_by: Literal["base", "head", "protected_head"] = "base"
    """Which of them the gate config and everything that it names was read from; a protected head was merged already."""
    changed: tuple[str, ...] = ()
    """Files that decide how it is judged and that the pull request changes."""
    also: tuple[str, ...] = ()
    """Other changed serving configs whose arguments are the same, so that this run holds for them, too."""
    baseline_environment: dict[str, str] = {}
    candidate_environment: dict[str, str] = {}
    """Variables that stand beside the arguments in a manifest."""


class Plan(Record):
    """What will be done, in full. Two equal plans measure the same thing."""

    gate: str
    description: str = ""
    """What a person wrote about the change, Markdown; shown, never judged."""
    policy: str
    arms: dict[str, Arm]
    knobs: tuple[Knob, ...]
    settings: dict[str, Setting]
    checks: dict[str, Json]
    """Effective settings of every check that is on, as JSON."""
    inputs: dict[str, str]
    """Path of every input file (as the config names it) -> sha256 of its bytes."""
    schedule: tuple[Step, ...]
    model: ModelSource
    fingerprints: Fingerprints
    rounds: Annotated[Positive, Field(le=MOST_ROUNDS)]
    other_models: dict[str, ModelSource] = {}
    """Models of arms that serve another one than `model`, such as a checkpoint that was quantized before."""
    accepted_file: str | None = None
    """Path of the file of accepted differences, as the config names it; None when there is none."""
    accepted: tuple[Json, ...] = ()
    """Its entries, so that the record is judged under them without the file."""
    origin: Origin | None = None
    """What git says of a gate on a pull request; None for one that was run by hand."""
    templates: dict[str, str] = {}
    """The team's own templates by name, so that the record is drawn with them without their files."""
    calibration: Json | None = None
    """The gate's own false-alarm record as it stood when the plan was made, without its rows; shown, never judged."""

    def model_of(self, arm: str) -> ModelSource:
        """Return the model that an arm serves."""
        return self.other_models.get(arm, self.model)

    def fingerprint(self) -> str:
        """Return the sha256 of the plan's canonical JSON."""
        return fingerprint_of(self.to_json())


def fingerprint_of(plan: dict[str, Json]) -> str:
    """Return the fingerprint of a plan as it stands in its file, fields that this version does not know included.

    A plan that was written before there were accepted differences, or an origin in git, keeps its fingerprint. The
    calibration and the templates are no part of it: they change nothing of what is done or how it is judged.
    """
    later = ("calibration", "templates", *(() if plan.get("accepted") else ("accepted", "accepted_file")))
    later = later if plan.get("origin") else (*later, "origin")
    return sha256_of({key: value for key, value in plan.items() if key not in later})


def sha256_of(value: Json) -> str:
    """Return sha256 (lower-case hex) of the canonical JSON of a value: ASCII, sorted keys, no NaN."""
    text = json.dumps(value, ensure_ascii=True, sort_keys=True, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def sha256_of_text(text: str) -> str:
    """Return sha256 of a text's UTF-8 bytes; lone surrogates pass, since model output may hold them."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
