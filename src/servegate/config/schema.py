"""What `servegate.yaml` may hold: one strict model a level, with the default and the meaning of every key."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from servegate.domain.plan import MOST_ROUNDS
from servegate.domain.policies import PolicyName
from servegate.domain.records import Settings, VersionOne

GATE_NAME = r"[a-z0-9-]{1,40}"
BUNDLED = "bundled:"
"""Prefix of input files that ship with servegate, such as `bundled:prompts.jsonl`."""
ACCEPTED_FILE = "servegate.accepted.yaml"
CALIBRATION_FILE = "calibration.json"
POLICY_SOURCE = "policy"
"""Where a setting comes from that the policy gave."""
MAX_INPUT_BYTES = 64 << 20
MOST_S = 7 * 86_400
"""A week: no start, answer, wait or budget is longer, and a longer one is a slip in the unit."""


class FallbackSettings(Settings):
    """A declared way to start an arm whose start failed; it changes what is measured, so the verdict names it."""

    name: str = Field(pattern="^[a-z0-9_-]{1,40}$")
    """How the verdict names it."""
    environment: dict[str, str] = {}
    """Variables laid over the arm's own."""
    options: dict[str, Any] = {}
    """Serving options laid over the arm's own, by their names in a serving config."""


class EngineSettings(Settings):
    """How both arms are served, unless an arm says otherwise."""

    kind: Literal["vllm"] = "vllm"
    """Which engine; one module under `servegate.engines` each."""
    executable: str = "vllm"
    """Name on the PATH, or a path."""
    start_timeout_s: float = Field(default=900, gt=0, le=MOST_S)
    """From spawn to the first generated token."""
    request_timeout_s: float = Field(default=120, gt=0, le=MOST_S)
    """Longest wait for one answer."""
    model_config_file: str | None = Field(default=None, alias="model_config")
    """The model's `config.json`, for predictions when the model itself is not on this machine."""
    environment: dict[str, str] = {}
    """Variables that both arms are served with."""
    also_known: tuple[str, ...] = ()
    """Serving options that this engine has and the list that ships with servegate has not, such as a newer vLLM's."""
    wait_minutes: float = Field(default=10, ge=0, le=MOST_S / 60)
    """Longest wait for a card that another gate holds or another process uses; then the run is refused (exit 5)."""
    fallbacks: tuple[FallbackSettings, ...] = ()
    """Tried in order after an arm's own start failed, such as a variable that picks another kernel. The one that was used
    is named in the verdict's scope, and is a REVIEW where only one arm needed it."""


class ArmEngine(Settings):
    """What one arm overrides of `engine`."""

    executable: str | None = None
    """The engine of this arm alone, such as the next version's."""
    image: str | None = None
    """Container image that this arm is measured in; the action says it (`candidate-image`), and servegate starts none."""
    model_config_file: str | None = Field(default=None, alias="model_config")


class ArmSettings(Settings):
    """One arm: the engine's own YAML, and what differs in its engine or environment."""

    config: str
    """The engine's own YAML, as for `vllm serve --config`."""
    engine: ArmEngine = ArmEngine()
    environment: dict[str, str] = {}
    """Variables that this arm alone is served with; secrets are refused, since they would be recorded."""


class ArmsSettings(Settings):
    """The serving config before and after the change."""

    baseline: ArmSettings
    candidate: ArmSettings


class WatchedSettings(Settings):
    """Serving configs in git, by glob; or a place inside of other files where an engine's arguments stand."""

    files: str = Field(min_length=1)
    """Glob of paths in the repository: `serving/**/*.yaml`; `*` stays within a folder."""
    arguments: str | None = None
    """Where the arguments stand in Helm values, a Kubernetes manifest or a Compose file, such as
    `spec.template.spec.containers[name=vllm].args`; null: the file is the engine's own YAML."""
    environment: str | None = None
    """Where its environment stands there."""
    document: str | None = None
    """Which of several YAML documents: `Deployment` or `Deployment/name`."""


class AllowedSettings(Settings):
    """What pull requests may change beyond servegate's own list; exact names, and globs for models."""

    options: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    """Hub ids or absolute directories: `org/*`."""


class ChangesSettings(Settings):
    """What `servegate pairs` and `servegate ci` look for in git. Read from the base branch, like this whole file."""

    configs: tuple[WatchedSettings, ...] = ()
    """The serving configs that are gated; each one that a pull request changes is compared with itself before the change."""
    new_against: str | None = None
    """Path of the serving config that a new one is compared with; without it a new one is a REVIEW."""
    allow: AllowedSettings = AllowedSettings()
    """Exceptions from the list of what a pull request's serving config may say."""
    max_pairs: int = Field(default=4, ge=1, le=100)
    """Pairs that are measured of one pull request; what is over it is a REVIEW."""
    budget_minutes: float = Field(default=240, gt=0, le=MOST_S / 60)
    """No further pair is started when the longest so far would not fit; what is left is a REVIEW."""


class PublishSettings(Settings):
    """What `servegate publish` does with a verdict; which outcome fails a job is the Action's input `fail-on`."""

    comment: bool = True
    """Comment the verdict on the pull request."""
    check_run: bool = True
    """Put a check run `servegate/<gate>` on the tested commit (needs `checks: write`; without it the log has the notes)."""


class OutputSettings(Settings):
    """Where run directories go."""

    directory: str = "servegate-runs"
    """Unlike the files above it starts from the working directory, where a run belongs."""
    csv_encoding: Literal["utf-8", "utf-8-sig"] = "utf-8"
    """`utf-8-sig` for people who open the tables by a double click in Excel; pandas reads either."""


class GateConfig(Settings):
    """One gate: two arms, the checks that are on, and how they are judged."""

    version: VersionOne
    """Version of this file's format: 1."""
    gate: str = Field(pattern=f"^{GATE_NAME}$")
    """Name of the run directory and of the pull request's comment: 1 to 40 of a-z, 0-9 and dashes."""
    policy: PolicyName = "standard"
    """How much evidence is wanted and how much loss accepted; single numbers under `checks` override it."""
    description: str = Field(default="", max_length=4_000)
    """A few lines of Markdown about the change, shown at the top of the report."""
    arms: ArmsSettings
    """The serving configs before and after the change."""
    rounds: int = Field(default=2, ge=1, le=MOST_ROUNDS)
    """Passes of every check over an arm on one start; two are the least that show an arm's own noise."""
    engine: EngineSettings = EngineSettings()
    checks: dict[str, dict[str, Any]]
    """A check that is not named is off; `{}` means its defaults."""
    accepted: str = ACCEPTED_FILE
    """Differences that were read and accepted (`servegate accept` writes them); a file that is absent accepts nothing."""
    changes: ChangesSettings = ChangesSettings()
    """Which serving configs a pull request is gated for."""
    calibration: str | None = CALIBRATION_FILE
    """This gate's own false-alarm record, which `servegate calibrate` writes; shown, never judged; null shows none."""
    templates: str | None = None
    """Folder with templates of yours in place of servegate's ([templates](templates.md)); read from the base branch."""
    publish: PublishSettings = PublishSettings()
    output: OutputSettings = OutputSettings()
