"""join: one run out of two, of which each was measured where the other's evidence could not be written.

The baseline's run gives the plan, the inputs and its own arm. Of the other run nothing is taken but the folder of its arm, and
from its record what it says about that arm; whatever else it holds was only a copy for it to read, and what became of that copy
does not matter. Both must have been measured from one plan, with the serving config that the plan names.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from servegate.artifacts import RunDirectory, stored
from servegate.domain.arms import Role
from servegate.domain.records import Json
from servegate.errors import RunDirectoryError, UsageError

STAGE = ("stage", "arm", "check", "step", "started_at", "seconds", "outcome")
"""What a stage of run.json consists of."""
SERVING = "serving.yaml"


def join(baseline: Path, other: Path | None, target: Path) -> RunDirectory:
    """Write the joined run into an empty `target`; without `other`, the arms that it would bring are missing.

    Raises:
        RunDirectoryError: a side is no run directory, is not made of regular files, or `target` holds files.
        UsageError: the two were measured from different plans.
        StorageError: the disk is full.
    """
    first = RunDirectory.open(baseline)
    plan, record = first.read_plan(), first.read_run()
    base, others = Role.BASELINE.value, tuple(name for name in plan.arms if name != Role.BASELINE.value)
    second = None if other is None else RunDirectory.open(other)
    if second is not None and second.read_plan().fingerprint() != plan.fingerprint():
        raise UsageError(f"{other} was measured from another plan than {baseline}", advice="Measure both arms anew.")
    theirs = None if second is None else second.read_run()
    sides = [(base, baseline), *((name, other) for name in others if other is not None)]
    for name, side in sides:
        _ensure_stated(side / "arms" / name / SERVING, plan.arms[name].config_sha256)
    joined = RunDirectory.create(target)
    with stored(target):
        _copied(baseline / "plan.json", target / "plan.json")
        _copied(baseline / "inputs", target / "inputs")
        for name, side in sides:
            _copied(side / "arms" / name, target / "arms" / name)
    status, stages = record.status, [each for each in _stages(record.data) if each.get("arm") == base]
    merged: list[Json] = []
    if theirs is not None:
        status = theirs.status if status == "complete" else status
        stages += [each for each in _stages(theirs.data) if each.get("arm") in others]
        merged = [{"arm": name, "argv": theirs.data.get("argv"), "pid": theirs.data.get("pid")} for name in others]
    if status == "complete" and not set(others) <= {each["arm"] for each in stages}:
        status = "failed"  # nothing was done for an arm: its container never started, or what it wrote can not be believed
    known = {"running", "complete", "cancelled", "failed"}
    data = {**record.data, "stages": stages, "merged_from": merged}
    joined.write_run(status if status in known else "failed", data, gate=plan.gate, plan=plan.fingerprint())
    joined.write_checksums()
    return joined


def _ensure_stated(path: Path, sha256: str) -> None:
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise RunDirectoryError(f"{path} is not the serving config of the plan", advice="Measure again.")


def _stages(data: dict[str, Json]) -> list[dict[str, Json]]:
    """Return the stages of a record, with the fields that a stage has and no others."""
    found = data.get("stages")
    listed = found if isinstance(found, list) else []
    return [{key: each.get(key) for key in STAGE} for each in listed if isinstance(each, dict)]


def _copied(source: Path, target: Path) -> None:
    """Copy a file or a folder of regular files; what is not there is left out."""
    if source.is_dir():
        shutil.copytree(source, target, copy_function=shutil.copyfile)
    elif source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
