"""The run directory: the only thing that crosses from measuring to judging.

`run_directory` knows its layout, `durable` writes and reads its files, `liveness` tells a run that goes on from one
that was interrupted.
"""

from servegate.artifacts.durable import dump, load, replacing, stored
from servegate.artifacts.liveness import boot_id
from servegate.artifacts.run_directory import RunDirectory

__all__ = ["RunDirectory", "boot_id", "dump", "load", "replacing", "stored"]
