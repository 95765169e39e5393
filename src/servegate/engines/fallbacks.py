"""Declared ways round a start that fails: environments or options, tried in order, and never anything undeclared.

A fallback picks another kernel or another option, so it changes what is measured. That is why a known workaround is only
suggested, as an entry that can be pasted, and why the fallback that was used stands in the engine's facts, in the
verdict's scope, and as a finding where only one arm needed it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from servegate.domain.arms import Arm, Fallback
from servegate.domain.evidence import Diagnosis, FallbackUsed
from servegate.domain.records import Json
from servegate.engines.serving_config import argv, read_serving_config
from servegate.errors import UsageError


def checked(fallback: Fallback, place: str) -> Fallback:
    """Return a fallback with its options under the engine's own names.

    Raises:
        UsageError: it changes nothing, exchanges the model, or holds an option that a serving config may not.
    """
    if not fallback.environment and not fallback.options:
        raise UsageError(f"{place}: fallback {fallback.name!r} changes nothing", advice="Give it `environment` or `options`.")
    if "model" in fallback.options:
        raise UsageError(
            f"{place}: fallback {fallback.name!r} names another `model`",
            advice="A fallback serves the same model in another way; another model is another candidate.",
        )
    text = json.dumps({"model": "any", **fallback.options})  # JSON is YAML, and the same rules hold
    options = dict(read_serving_config(text, f"{place}, fallback {fallback.name!r}").options)
    del options["model"]
    return fallback.model_copy(update={"options": options})


def applied(arm: Arm, fallback: Fallback) -> Arm:
    """Return the arm as it is served with a fallback; `no-x` and `x` replace each other."""
    opposite = {name[3:] if name.startswith("no-") else f"no-{name}" for name in fallback.options}
    options = {name: value for name, value in arm.config.options.items() if name not in opposite} | fallback.options
    config = arm.config.model_copy(update={"options": options})
    return arm.model_copy(
        update={
            "config": config,
            "argv": argv(config, arm.executable),
            "environment": {**arm.environment, **fallback.environment},
        }
    )


def used(fallback: Fallback, instead_of: Diagnosis, log: str) -> FallbackUsed:
    """Return the record of a fallback that started; `log` names the file of the start that failed."""
    return FallbackUsed(
        name=fallback.name, environment=fallback.environment, options=fallback.options, instead_of=instead_of, failed_log=log
    )


def entry(name: str, environment: Mapping[str, str], options: Mapping[str, Json]) -> str:
    """Return a fallback as a line for the gate config."""
    parts = {"name": name, **({"environment": dict(environment)} if environment else {})}
    parts |= {"options": dict(options)} if options else {}
    return f"engine: {{fallbacks: [{json.dumps(parts)}]}}"
