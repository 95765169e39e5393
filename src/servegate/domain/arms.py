"""Arms: one role, one engine, one serving config."""

from __future__ import annotations

import re
from enum import StrEnum

from pydantic import Field, computed_field

from servegate.domain.records import Json, Record

ARM_NAME = re.compile(r"baseline|candidate(\.[a-z0-9][a-z0-9_-]{0,39})?")
"""Names of arms are never user text: `baseline`, `candidate`, or `candidate.<knob>` for an attribution arm."""


EXECUTABLE_KNOB, IMAGE_KNOB = "engine.executable", "engine.image"
"""Knobs by which the engine itself is what changes: another file, or another image around it."""


class Role(StrEnum):
    """What an arm is for."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"


class ServingConfig(Record):
    """The engine's own YAML, read and checked.

    `options` maps canonical option names (dashes, no leading `--`) to plain JSON values, in the order of the
    file; `sha256` is the hash of the file's bytes, which go unchanged into the run directory.
    """

    path: str
    sha256: str
    text: str = Field(default="", exclude=True, repr=False)
    """The file itself; it lies in the run directory as `arms/<arm>/serving.yaml` and not in the plan."""
    options: dict[str, Json]


class Fallback(Record):
    """A declared way to start an arm after its start failed: variables and options laid over the arm's own."""

    name: str
    environment: dict[str, str] = {}
    options: dict[str, Json] = {}


class Arm(Record):
    """One arm as the plan holds it. `argv` is what serves it, less host, port and served name (fresh each start)."""

    name: str
    role: Role
    session: int
    engine_kind: str
    executable: str
    config: ServingConfig
    argv: tuple[str, ...]
    environment: dict[str, str]
    image: str | None = None
    """Container image that the arm is measured in, where each arm has its own; what starts containers says so."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def config_path(self) -> str:
        """Path of the serving config, as the gate config names it."""
        return self.config.path

    @computed_field  # type: ignore[prop-decorator]
    @property
    def config_sha256(self) -> str:
        """Hash of the serving config's bytes."""
        return self.config.sha256
