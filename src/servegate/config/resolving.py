"""From a valid gate config to a plan: serving configs and inputs read, arguments made, steps listed, all hashed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from servegate import __version__
from servegate.checks import discovered
from servegate.checks.contract import Change, Inputs
from servegate.checks.engagement.variables import meant
from servegate.config.choosing import chosen, fitted
from servegate.config.faults import place_of
from servegate.config.files import near_files, read_calibration, read_ledger, read_templates, read_text, reader
from servegate.config.loading import Loaded
from servegate.config.schema import ArmSettings, EngineSettings, GateConfig
from servegate.domain.arms import Arm, Fallback, Role, ServingConfig
from servegate.domain.plan import Fingerprints, ModelSource, Origin, Plan, Setting, Step, sha256_of
from servegate.domain.records import Json, Settings
from servegate.engines.compile_cache import VARIABLE, shared
from servegate.engines.fallbacks import checked
from servegate.engines.model_files import local_config, read_config
from servegate.engines.preflight import check_quantization
from servegate.engines.serving_config import argv, differing_options, notes, read_serving_config
from servegate.engines.sleeping import ensure_can_sleep
from servegate.engines.trust import Grant, check_head, check_head_environment
from servegate.errors import UsageError
from servegate.ledger import Ledger
from servegate.text.secret_names import is_secret


@dataclass(frozen=True)
class Resolved:
    """A plan with everything `measure` needs beside it."""

    plan: Plan
    settings: Mapping[str, Settings]
    inputs: Mapping[str, Inputs]
    engine: EngineSettings
    run_root: Path
    fallbacks: tuple[Fallback, ...] = field(default=())
    warnings: tuple[str, ...] = field(default=())
    notes: tuple[str, ...] = field(default=())
    """What checks decided from the change itself, such as to be on."""


def resolve(loaded: Loaded, origin: Origin | None = None) -> Resolved:
    """Work out the plan: serving configs read, arguments made, input files read and checked, steps listed.

    `origin`: what git says of a pull request; its candidate is then held to what a pull request may say.

    Raises:
        UsageError: a serving config or an input file is missing or wrong.
    """
    config, known = loaded.config, discovered()
    arms = {role.value: _arm(loaded, role, session, origin) for session, role in enumerate(Role)}
    baseline, candidate = arms[Role.BASELINE], arms[Role.CANDIDATE]
    if origin is not None and origin.judged_by != "protected_head":
        _hold_to_the_list(loaded, baseline, candidate, origin)
    models = {name: _model(loaded, arm) for name, arm in arms.items()}
    for name, arm in arms.items():
        check_quantization(arm, models[name].config)
    knobs = differing_options(baseline, candidate)
    change = Change(knobs, arms, models)
    loaded, decided = chosen(loaded, change)
    hashes: dict[str, str] = {}
    inputs: dict[str, Inputs] = {}
    for name, settings in loaded.checks.items():
        read = reader(loaded.directory, hashes)
        check_load = known[name].load
        if check_load is not None:
            inputs[name] = check_load(settings, read)
    loaded, shortened = fitted(loaded, change, inputs)
    accepted = read_ledger(loaded.directory / config.accepted, required="accepted" in loaded.sources)
    calibration = (
        read_calibration(loaded.directory / config.calibration, required="calibration" in loaded.sources)
        if config.calibration is not None
        else None
    )
    checks = {name: settings.to_json() for name, settings in loaded.checks.items()}
    measuring = {
        name: range(known[name].steps(settings, inputs.get(name), config.rounds))
        for name, settings in sorted(loaded.checks.items(), key=lambda item: known[item[0]].last)
        if known[name].measure is not None
    }
    in_turn = [name for name in measuring if known[name].interleaved(loaded.checks[name])]
    schedule = tuple(
        Step(session=arm.session, arm=arm.name, check=name, step=step)
        for arm in arms.values()
        for name, steps in measuring.items()
        if name not in in_turn
        for step in steps
    ) + tuple(
        Step(session=arm.session, arm=arm.name, check=name, step=step)
        for name in in_turn
        for step in measuring[name]
        for arm in (tuple(arms.values()) if step % 2 == 0 else tuple(reversed(arms.values())))
    )
    if in_turn:
        for arm in arms.values():
            ensure_can_sleep(arm)
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
        origin=origin,
        templates={} if config.templates is None else read_templates(loaded.directory / config.templates),
        calibration=None if calibration is None else calibration.brief().to_json(),
    )
    warnings = [f"{arm.name}: {note}" for arm in arms.values() for note in notes(arm.config)]
    warnings += [
        f"{arm.name}: unknown variable {name}, did you mean {better}? vLLM reads no variable of that name"
        for arm in arms.values()
        for name in arm.environment
        if (better := meant(name)) is not None
    ]
    cache = shared([{**os.environ, **arm.environment} for arm in arms.values()])
    if cache is not None and knobs:
        warnings.append(
            f"both arms are given one {VARIABLE}, {cache}: compiled graphs of one have ended or spoiled the other; without the "
            "variable each arm has a cache of its own"
        )
    if not knobs:
        warnings.append("the arms are equal: there is no change to judge, so this run shows noise only")
    return Resolved(
        plan=plan,
        settings=loaded.checks,
        inputs=inputs,
        engine=config.engine,
        run_root=Path(config.output.directory) / config.gate,
        fallbacks=_fallbacks(loaded),
        warnings=tuple(warnings),
        notes=(*decided, *shortened),
    )


def _hold_to_the_list(loaded: Loaded, baseline: Arm, candidate: Arm, origin: Origin) -> None:
    allow = loaded.config.changes.allow
    grant = Grant(frozenset(allow.options), frozenset(allow.environment), allow.models)
    check_head(candidate.config, baseline.config, grant)
    check_head_environment(origin.candidate_environment, origin.baseline_environment, grant, origin.candidate_path)


def _arm(loaded: Loaded, role: Role, session: int, origin: Origin | None) -> Arm:
    config: GateConfig = loaded.config
    settings: ArmSettings = getattr(config.arms, role.value)
    path = loaded.directory / settings.config
    shown = os.path.normpath(path) if origin is None else getattr(origin, f"{role.value}_path")
    serving: ServingConfig = read_serving_config(read_text(path), shown, config.engine.also_known)
    executable = settings.engine.executable or config.engine.executable
    environment = {**config.engine.environment, **settings.environment}
    if origin is not None:
        environment |= getattr(origin, f"{role.value}_environment")
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
        image=settings.engine.image,
    )


def _fallbacks(loaded: Loaded) -> tuple[Fallback, ...]:
    """Return the declared fallbacks, with what they hold checked as if it stood in a serving config."""
    found = []
    for index, each in enumerate(loaded.config.engine.fallbacks):
        place = place_of("the gate config", loaded.sources, ("engine", "fallbacks", str(index)))
        secret = next((name for name in each.environment if is_secret(name)), None)
        if secret is not None:
            raise UsageError(
                f"{place}: {secret!r} sounds like a secret, and what a gate config sets is recorded",
                advice="Export it before servegate starts instead.",
            )
        found.append(checked(Fallback(name=each.name, environment=each.environment, options=each.options), place))
    return tuple(found)


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
            place = place_of(key, loaded.sources, tuple(key.split(".")))
            path = loaded.directory / named
            raise UsageError(f"{place}: {key!r}: {path} does not exist", advice=near_files(path))
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
