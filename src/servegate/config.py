"""The gate config (`servegate.yaml`) and how it becomes a plan.

`load` reads and validates; `resolve` reads the serving configs and input files that it names and works out every
argument, setting and step. Neither starts anything, and neither writes anything: whatever is wrong is found here,
before a card is touched, and is a `UsageError` that names file, line and key.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field, ValidationError

from servegate import __version__
from servegate.checks import discovered
from servegate.checks.contract import AnyCheck, Inputs
from servegate.checks.engagement.variables import meant
from servegate.domain.arms import Arm, Role, ServingConfig
from servegate.domain.plan import Fingerprints, ModelSource, Plan, Setting, Step, sha256_of
from servegate.domain.policies import ROUNDS, PolicyName, with_policy
from servegate.domain.records import Json, Settings
from servegate.engines.model_files import local_config, read_config
from servegate.engines.serving_config import argv, differing_options, notes, read_serving_config
from servegate.errors import RunDirectoryError, UsageError
from servegate.ledger import Ledger
from servegate.ledger import parse as parse_ledger
from servegate.text import strict_yaml
from servegate.text.secret_names import is_secret

GATE_NAME = r"[a-z0-9-]{1,40}"
BUNDLED = "bundled:"
"""Prefix of input files that ship with servegate, such as `bundled:prompts.jsonl`."""
ACCEPTED_FILE = "servegate.accepted.yaml"
POLICY_SOURCE = "policy"
"""Where a setting comes from that the policy gave."""
MAX_INPUT_BYTES = 64 << 20


class EngineSettings(Settings):
    """How both arms are served, unless an arm says otherwise."""

    kind: Literal["vllm"] = "vllm"
    """Which engine; one module under `servegate.engines` each."""
    executable: str = "vllm"
    """Name on the PATH, or a path."""
    start_timeout_s: float = Field(default=900, gt=0)
    """From spawn to the first generated token."""
    request_timeout_s: float = Field(default=120, gt=0)
    """Longest wait for one answer."""
    model_config_file: str | None = Field(default=None, alias="model_config")
    """The model's `config.json`, for predictions when the model itself is not on this machine."""
    environment: dict[str, str] = {}
    """Variables that both arms are served with."""


class ArmEngine(Settings):
    """What one arm overrides of `engine`."""

    executable: str | None = None
    """The engine of this arm alone, such as the next version's."""
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


class PublishSettings(Settings):
    """What `servegate publish` does with a verdict; which outcome fails a job is the Action's input `fail-on`."""

    comment: bool = True
    """Comment the verdict on the pull request."""


class OutputSettings(Settings):
    """Where run directories go."""

    directory: str = "servegate-runs"
    """Unlike the files above it starts from the working directory, where a run belongs."""


class GateConfig(Settings):
    """One gate: two arms, the checks that are on, and how they are judged."""

    version: Literal[1]
    """Version of this file's format: 1."""
    gate: str = Field(pattern=f"^{GATE_NAME}$")
    """Name of the run directory and of the pull request's comment: 1 to 40 of a-z, 0-9 and dashes."""
    policy: PolicyName = "standard"
    """How much evidence is wanted and how much loss accepted; single numbers under `checks` override it."""
    description: str = Field(default="", max_length=4_000)
    """A few lines of Markdown about the change, shown at the top of the report."""
    arms: ArmsSettings
    """The serving configs before and after the change."""
    rounds: int = Field(default=2, ge=1, le=16)
    """Passes of every check over an arm on one start; two are the least that show an arm's own noise."""
    engine: EngineSettings = EngineSettings()
    checks: dict[str, dict[str, Any]]
    """A check that is not named is off; `{}` means its defaults."""
    accepted: str = ACCEPTED_FILE
    """Differences that were read and accepted (`servegate accept` writes them); a file that is absent accepts nothing."""
    publish: PublishSettings = PublishSettings()
    output: OutputSettings = OutputSettings()


@dataclass(frozen=True)
class Overrides:
    """What the command line says over the config file; each remembers the option it came from."""

    baseline: str | None = None
    candidate: str | None = None
    gate: str | None = None
    engine: str | None = None
    output: str | None = None
    rounds: int | None = None


@dataclass(frozen=True)
class Loaded:
    """A valid gate config, the directory its paths start from, and where each value came from."""

    config: GateConfig
    directory: Path
    sources: Mapping[str, str]
    checks: Mapping[str, Settings]


@dataclass(frozen=True)
class Resolved:
    """A plan with everything `measure` needs beside it."""

    plan: Plan
    settings: Mapping[str, Settings]
    inputs: Mapping[str, Inputs]
    engine: EngineSettings
    run_root: Path
    warnings: tuple[str, ...] = field(default=())


def load(path: Path | None, overrides: Overrides) -> Loaded:
    """Read a gate config, or make one from two serving configs alone.

    Raises:
        UsageError: no config was given and none is here; or it is not valid (file, line, key, value, what is allowed).
    """
    if path is None and not (overrides.baseline and overrides.candidate) and os.path.exists("servegate.yaml"):  # noqa: PTH110
        # os.path answers "no" for a directory that may not be looked into, where pathlib raises.
        path = Path("servegate.yaml")
    if path is None:
        data, lines, name, directory = _without_file(overrides), {}, "the command line", Path()
    else:
        document = strict_yaml.load(_read_text(path), str(path))
        data, lines, name, directory = document.data, document.lines, str(path), path.parent
    sources = {".".join(map(str, key)): f"{name}:{line}" for key, line in lines.items()}
    data = _overridden(data, overrides, sources, directory)
    config = _validated(GateConfig, data, name, sources, ())
    if isinstance(data, dict) and "rounds" not in data:
        config = config.model_copy(update={"rounds": ROUNDS[config.policy]})
        sources["rounds"] = POLICY_SOURCE
    known = discovered()
    checks: dict[str, Settings] = {}
    for check, values in config.checks.items():
        if check not in known:
            raise UsageError(
                f"{_place(name, sources, ('checks', check))}: no check is called {check!r}{_did_you_mean(check, known)}",
                advice=f"Checks: {', '.join(known)}.",
            )
        filled, added = with_policy(config.policy, check, values)
        sources.update({f"checks.{check}.{dotted}": POLICY_SOURCE for dotted in added})
        checks[check] = _validated(known[check].settings, filled, name, sources, ("checks", check))
    if not checks:
        raise UsageError(
            f"{name}: `checks` names no check, so nothing would be measured", advice=f"Checks: {', '.join(known)}."
        )
    return Loaded(config=config, directory=directory, sources=sources, checks=checks)


def resolve(loaded: Loaded) -> Resolved:
    """Work out the plan: serving configs read, arguments made, input files read and checked, steps listed.

    Raises:
        UsageError: a serving config or an input file is missing or wrong.
    """
    config, known = loaded.config, discovered()
    arms = {role.value: _arm(loaded, role, session) for session, role in enumerate(Role)}
    baseline, candidate = arms[Role.BASELINE], arms[Role.CANDIDATE]
    hashes: dict[str, str] = {}
    inputs: dict[str, Inputs] = {}
    for name, settings in loaded.checks.items():
        read = _reader(loaded.directory, hashes)
        check_load = known[name].load
        if check_load is not None:
            inputs[name] = check_load(settings, read)
    accepted = read_ledger(loaded.directory / config.accepted, required="accepted" in loaded.sources)
    knobs = differing_options(baseline, candidate)
    checks = {name: settings.to_json() for name, settings in loaded.checks.items()}
    schedule = tuple(
        Step(session=arm.session, arm=arm.name, check=name, step=step)
        for arm in arms.values()
        for name, settings in sorted(loaded.checks.items(), key=lambda item: known[item[0]].last)
        if known[name].measure is not None
        for step in range(known[name].steps(settings, inputs.get(name), config.rounds))
    )
    models = {name: _model(loaded, arm) for name, arm in arms.items()}
    plan = Plan(
        gate=config.gate,
        description=config.description,
        policy=config.policy,
        arms=arms,
        knobs=knobs,
        settings=_settings(loaded),
        checks=checks,
        inputs=hashes,
        schedule=schedule,
        model=models[baseline.name],
        fingerprints=_fingerprints(config, checks, hashes, arms, accepted),
        rounds=config.rounds,
        other_models={name: model for name, model in models.items() if model != models[baseline.name]},
        accepted_file=config.accepted if accepted.accepted else None,
        accepted=tuple(entry.to_yaml() for entry in accepted.accepted),
    )
    warnings = [f"{arm.name}: {note}" for arm in arms.values() for note in notes(arm.config)]
    warnings += [
        f"{arm.name}: unknown variable {name}, did you mean {better}? vLLM reads no variable of that name"
        for arm in arms.values()
        for name in arm.environment
        if (better := meant(name)) is not None
    ]
    if not knobs:
        warnings.append("the arms are equal: there is no change to judge, so this run shows noise only")
    return Resolved(
        plan=plan,
        settings=loaded.checks,
        inputs=inputs,
        engine=config.engine,
        run_root=Path(config.output.directory) / config.gate,
        warnings=tuple(warnings),
    )


def settings_of(plan: Plan) -> dict[str, Settings]:
    """Return the settings of every check of a recorded plan. Raises RunDirectoryError when this version can not read them."""
    settings = {}
    for name, check in checks_of(plan).items():
        try:
            settings[name] = check.settings.model_validate(_tuples(plan.checks[name]))
        except ValidationError as error:
            fault = _fault(check.settings, error.errors(include_url=False)[0], "plan.json", {}, ("checks", name))
            raise RunDirectoryError(fault, advice="Judge the run with the servegate that measured it.") from None
    return settings


def checks_of(plan: Plan) -> dict[str, AnyCheck]:
    """Return the checks of a recorded plan, in its order.

    Raises:
        RunDirectoryError: the plan asks for a check that this version lacks; leaving it out could turn a FAIL into a PASS.
    """
    known = discovered()
    unknown = [name for name in plan.checks if name not in known]
    if unknown:
        raise RunDirectoryError(
            f"plan.json asks for checks that this servegate {__version__} does not have: {', '.join(unknown)}",
            advice="Judge the run with the servegate that measured it, or a newer one.",
        )
    return {name: known[name] for name in plan.checks}


def read_ledger(path: Path, *, required: bool = False) -> Ledger:
    """Read a file of accepted differences; one that is absent is empty, unless it is required. Raises UsageError."""
    if not required and not path.is_file():
        return Ledger()
    return parse_ledger(strict_yaml.load(_read_text(path), str(path)).data, str(path))


# -- reading ---------------------------------------------------------------------------------------------------


def _without_file(overrides: Overrides) -> dict[str, Any]:
    if not (overrides.baseline and overrides.candidate):
        absent = [f"--{role.value}" for role in Role if not getattr(overrides, role.value)]
        raise UsageError(
            f"there is no servegate.yaml here, and without one {' and '.join(absent)} must be given",
            advice="Run `servegate run --baseline old.yaml --candidate new.yaml`, or give --config.",
        )
    gate = re.sub(r"[^a-z0-9]+", "-", Path(overrides.candidate).stem.lower()).strip("-")[:40].strip("-")
    return {
        "version": 1,
        "gate": gate or "gate",
        "arms": {"baseline": {"config": overrides.baseline}, "candidate": {"config": overrides.candidate}},
        "checks": {"engagement": {}, "prompts": {"file": f"{BUNDLED}prompts.jsonl"}, "accuracy": {}, "throughput": {}},
    }


def _overridden(data: Any, overrides: Overrides, sources: dict[str, str], directory: Path) -> Any:
    """Lay the command line's values over the file's; a serving config given there starts from the working directory."""
    if not isinstance(data, dict):
        return data
    merged: dict[str, Any] = _copied(data)
    values: tuple[tuple[tuple[str, ...], Any, str], ...] = (
        (("arms", "baseline", "config"), _from_here(overrides.baseline, directory), "--baseline"),
        (("arms", "candidate", "config"), _from_here(overrides.candidate, directory), "--candidate"),
        (("gate",), overrides.gate, "--gate"),
        (("engine", "executable"), overrides.engine, "--engine"),
        (("output", "directory"), overrides.output, "--output"),
        (("rounds",), overrides.rounds, "--rounds"),
    )
    for key, value, option in values:
        if value is None:
            continue
        place = merged
        for part in key[:-1]:
            if not isinstance(place.get(part), dict):
                place[part] = {}
            place = place[part]
        place[key[-1]] = value
        sources[".".join(key)] = option
    if overrides.engine is not None:
        for role in Role:
            if isinstance(merged.get("arms"), dict) and isinstance(merged["arms"].get(role.value), dict):
                merged["arms"][role.value].pop("engine", None)
    return merged


def _from_here(path: str | None, directory: Path) -> str | None:
    return None if path is None else os.path.relpath(path, directory)


def _copied(value: Any) -> Any:
    return {key: _copied(item) for key, item in value.items()} if isinstance(value, dict) else value


def _read_text(path: Path) -> str:
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UsageError(f"{path} is no regular file", advice="Name a YAML file.")
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist", advice=_near_files(path)) from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a directory, not a file", advice="Name the YAML file in it.") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(path)!r} cannot be read as UTF-8 text: {error}") from error


def _near_files(path: Path) -> str:
    here = path.parent
    names = [item.name for item in here.iterdir()] if here.is_dir() else []
    if not here.is_dir():
        return f"The directory {here} does not exist either."
    near = get_close_matches(path.name, names, n=3)
    return f"Did you mean {' or '.join(near)}?" if near else "Paths in a gate config start from the config's own directory."


def _reader(directory: Path, hashes: dict[str, str]) -> Callable[[str], bytes]:
    def read(name: str) -> bytes:
        content = _bundled(name) if name.startswith(BUNDLED) else _file(directory / name)
        hashes[name] = hashlib.sha256(content).hexdigest()
        return content

    return read


def _bundled(name: str) -> bytes:
    item = resources.files("servegate.data") / name.removeprefix(BUNDLED)
    if "/" in name or not item.is_file():
        raise UsageError(
            f"{name} does not ship with servegate", advice="Bundled: bundled:prompts.jsonl, bundled:reference_ladder.tsv."
        )
    return item.read_bytes()


def _file(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is no regular file", advice="Name a file.")
        if path.stat().st_size > MAX_INPUT_BYTES:
            raise UsageError(f"{path} is larger than {MAX_INPUT_BYTES >> 20} MiB", advice="Split it, or sample fewer rows.")
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist", advice=_near_files(path)) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error}") from error


# -- validation ------------------------------------------------------------------------------------------------


def _validated(model: type[Any], data: Any, name: str, sources: Mapping[str, str], prefix: tuple[str, ...]) -> Any:
    """Validate; every fault becomes a line with file, line, key, value, what is allowed and a near name."""
    try:
        return model.model_validate(_tuples(data) if isinstance(data, dict) else data)
    except ValidationError as error:
        items = error.errors(include_url=False)
        # What is wrong inside of a value explains why the value itself is wrong, so only the innermost fault is told;
        # an unknown key explains a missing one (`gatee`), so it comes first.
        inner = {item["loc"][:size] for item in items for size in range(len(item["loc"]))}
        items = sorted((i for i in items if i["loc"] not in inner), key=lambda item: item["type"] != "extra_forbidden")
        faults = [_fault(model, item, name, sources, prefix) for item in items]
        raise UsageError(faults[0], why="\n".join(faults[1:6])) from None


def _fault(model: type[BaseModel], item: Any, name: str, sources: Mapping[str, str], prefix: tuple[str, ...]) -> str:
    key = (*prefix, *(part for part in item["loc"] if not (isinstance(part, str) and part.startswith("function-"))))
    place = _place(name, sources, key)
    dotted = ".".join(map(str, key)) or "the whole file"
    if item["type"] == "extra_forbidden":
        allowed = sorted(_fields_at(model, item["loc"][:-1]))
        return f"{place}: unknown key {dotted!r}{_did_you_mean(str(key[-1]), allowed)} (allowed here: {', '.join(allowed)})"
    if item["type"] == "missing":
        return f"{place}: {dotted!r} is missing"
    value = repr(item.get("input"))
    shown = value if len(value) <= 80 else f"{value[:77]}..."
    return f"{place}: {dotted!r} is {shown}: {_allowed(item)}"


def _allowed(item: Any) -> str:
    """Say what is allowed in the words of YAML, not in those of the validator."""
    kind, context = item["type"], item.get("ctx") or {}
    if kind == "tuple_type":
        return f"it must be a list, such as [{item.get('input')}]"
    if kind == "string_pattern_mismatch" and context.get("pattern") == f"^{GATE_NAME}$":
        return "a gate's name has 1 to 40 characters, lower-case letters, digits and dashes"
    if kind in {"model_type", "dict_type"}:
        return "it must be a mapping (`key: value` lines)"
    return str(item["msg"]).removeprefix("Value error, ")


def _fields_at(model: type[BaseModel], location: Iterable[int | str]) -> list[str]:
    current: Any = model
    for part in location:
        if isinstance(current, type) and issubclass(current, BaseModel) and part in current.model_fields:
            current = current.model_fields[str(part)].annotation
        while not (isinstance(current, type) and issubclass(current, BaseModel)):
            nested = [arg for arg in get_args(current) if arg is not type(None) and arg is not Ellipsis]
            if not nested:
                return []
            current = nested[-1]
    return [info.alias or name for name, info in current.model_fields.items()]


def _place(name: str, sources: Mapping[str, str], key: tuple[Any, ...]) -> str:
    """Return where a key was given (`file:line` or an option), or the nearest key above it; else the file."""
    above = (".".join(map(str, key[:size])) for size in range(len(key), 0, -1))
    return next((sources[dotted] for dotted in above if dotted in sources), name)


def _did_you_mean(word: str, allowed: Iterable[str]) -> str:
    near = get_close_matches(word, list(allowed), n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def _tuples(value: Any) -> Any:
    """YAML and JSON have lists where settings have tuples."""
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list | tuple) else value


# -- resolving -------------------------------------------------------------------------------------------------


def _arm(loaded: Loaded, role: Role, session: int) -> Arm:
    config: GateConfig = loaded.config
    settings: ArmSettings = getattr(config.arms, role.value)
    path = loaded.directory / settings.config
    serving: ServingConfig = read_serving_config(_read_text(path), os.path.normpath(path))
    executable = settings.engine.executable or config.engine.executable
    environment = {**config.engine.environment, **settings.environment}
    secret = next((name for name in environment if is_secret(name)), None)
    if secret is not None:
        where = loaded.sources.get(f"arms.{role.value}.environment.{secret}") or loaded.sources.get(
            f"engine.environment.{secret}"
        )
        raise UsageError(
            f"{where or 'the gate config'}: {secret!r} sounds like a secret, and what a gate config sets is recorded",
            advice="Export it before servegate starts instead. Only HF_TOKEN reaches the engine; it is never recorded.",
        )
    return Arm(
        name=role.value,
        role=role,
        session=session,
        engine_kind=config.engine.kind,
        executable=executable,
        config=serving,
        argv=argv(serving, executable),
        environment=environment,
    )


def _model(loaded: Loaded, arm: Arm) -> ModelSource:
    """Return what an arm serves; its config is the model's own, or the one that the gate config names."""
    options = arm.config.options
    source = str(options.get("model", ""))
    config = local_config(source)
    arms = loaded.config.arms
    settings: ArmSettings = getattr(arms, arm.role.value)
    named = settings.engine.model_config_file or loaded.config.engine.model_config_file
    if config is None and named is not None:
        config = read_config(loaded.directory / named)
        if config is None:
            key = "engine.model_config" if settings.engine.model_config_file is None else f"arms.{arm.name}.engine.model_config"
            place = _place(key, loaded.sources, tuple(key.split(".")))
            path = loaded.directory / named
            raise UsageError(f"{place}: {key!r}: {path} does not exist", advice=_near_files(path))
    return ModelSource(
        source=source,
        revision=_text_or_none(options.get("revision")),
        revision_reason="the serving config names no revision" if "revision" not in options else None,
        config=config,
        config_reason=None if config is not None else "the model is not a directory on this machine",
    )


def _settings(loaded: Loaded) -> dict[str, Setting]:
    """Return every leaf setting by dotted key with the place it came from."""
    values = loaded.config.to_json()
    values["checks"] = {name: settings.to_json() for name, settings in loaded.checks.items()}
    found: dict[str, Setting] = {}

    def walk(prefix: str, value: Json) -> None:
        if isinstance(value, dict) and value:
            for key, item in value.items():
                walk(f"{prefix}.{key}" if prefix else key, item)
        else:
            found[prefix] = Setting(value=value, source=_source(prefix, loaded.sources))

    walk("", values)
    return found


def _source(key: str, sources: Mapping[str, str]) -> str:
    """A value stands in the file itself, or inside a list or mapping that does; else it is the default."""
    return next((sources[name] for name in (key, f"{key}.0") if name in sources), "default")


def _fingerprints(
    config: GateConfig, checks: Mapping[str, Json], hashes: Mapping[str, str], arms: Mapping[str, Arm], accepted: Ledger
) -> Fingerprints:
    workload = {name: {key: value for key, value in values.items() if key != "limits"} for name, values in checks.items()}
    limits = {name: values.get("limits") for name, values in checks.items()}
    return Fingerprints(
        workload=sha256_of({"checks": workload, "inputs": dict(hashes), "rounds": config.rounds, "servegate": __version__}),
        policy=sha256_of({"policy": config.policy, "limits": limits, "accepted": accepted.to_json()}),
        arms={
            name: sha256_of({"argv": list(arm.argv), "environment": arm.environment, "config": arm.config.sha256})
            for name, arm in arms.items()
        },
    )


def _text_or_none(value: Json) -> str | None:
    return None if value is None else str(value)
