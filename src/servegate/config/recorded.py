"""What a recorded plan says of its checks, read back for judging; nothing of it is ever left out in silence."""

from __future__ import annotations

from pydantic import ValidationError

from servegate import __version__
from servegate.checks import discovered
from servegate.checks.contract import AnyCheck
from servegate.config.faults import fault, tuples
from servegate.domain.plan import Plan
from servegate.domain.records import Settings
from servegate.errors import RunDirectoryError


def settings_of(plan: Plan) -> dict[str, Settings]:
    """Return the settings of every check of a recorded plan. Raises RunDirectoryError when this version can not read them."""
    settings = {}
    for name, check in checks_of(plan).items():
        try:
            settings[name] = check.settings.model_validate(tuples(plan.checks[name]))
        except ValidationError as error:
            message = fault(check.settings, error.errors(include_url=False)[0], "plan.json", {}, ("checks", name))
            raise RunDirectoryError(message, advice="Judge the run with the servegate that measured it.") from None
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
