"""The gate config (`servegate.yaml`) and how it becomes a plan.

`load` reads and validates; `resolve` reads the serving configs and input files that it names and works out every
argument, setting and step. Neither starts anything, and neither writes anything: whatever is wrong is found here,
before a card is touched, and is a `UsageError` that names file, line and key.
"""

from servegate.config.files import read_calibration, read_ledger, read_templates
from servegate.config.loading import Loaded, Overrides, against_itself, load
from servegate.config.recorded import checks_of, settings_of
from servegate.config.resolving import Resolved, resolve
from servegate.config.schema import ACCEPTED_FILE, CALIBRATION_FILE, GateConfig

__all__ = [
    "ACCEPTED_FILE", "CALIBRATION_FILE", "GateConfig", "Loaded", "Overrides", "Resolved",
    "against_itself", "checks_of", "load", "read_calibration", "read_ledger", "read_templates", "resolve", "settings_of",
]  # fmt: skip
