"""The run directory, version 1: layout, atomic strict JSON, columns, completeness.

Everything that a gate knows lies in one directory, and this module is the only one that knows its layout. Files are
written beside their place, flushed to the disk and renamed over it, columns before the JSON that names them, so that
a reader at any moment sees either the old or the new file, never half of one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from servegate import __version__
from servegate.domain.arms import ARM_NAME
from servegate.domain.evidence import Columns, EngineFacts, EngineStatus, Manifest, Measurement, NotMeasured, Reason
from servegate.domain.judgement import Comparison, Verdict
from servegate.domain.plan import Plan
from servegate.domain.records import Json, Record
from servegate.domain.strict_json import parse_json
from servegate.errors import RunDirectoryError

SCHEMA_VERSION = 1
MAX_JSON_BYTES = 1 << 30
"""A file larger than this is refused, since reading it would take the reader's memory before it was judged."""
CHECKSUMS = "checksums.sha256"

R = TypeVar("R", bound=Record)
M = TypeVar("M", bound=Measurement)


@dataclass(frozen=True)
class Envelope:
    """What every JSON file of a run directory carries around its data."""

    kind: str
    gate: str
    plan: str | None
    arm: str | None
    status: str
    reason: Reason | None
    seconds: float | None
    columns: Json | None
    data: dict[str, Json]


class RunDirectory:
    """One gate run on disk."""

    def __init__(self, root: Path) -> None:
        """Point at a directory; nothing is read or written yet."""
        self.root = root

    @classmethod
    def create(cls, root: Path) -> RunDirectory:
        """Make an empty run directory. Raises RunDirectoryError when something is already there."""
        if root.exists() and any(root.iterdir()):
            raise RunDirectoryError(
                f"{root} already holds files",
                advice="Give another --output or --gate, or pass --force to replace the earlier run.",
            )
        root.mkdir(parents=True, exist_ok=True)
        return cls(root)

    @classmethod
    def open(cls, root: Path) -> RunDirectory:
        """Open an existing run directory. Raises RunDirectoryError when it is none."""
        if not (root / "run.json").is_file():
            raise RunDirectoryError(
                f"{root} is not a run directory: it has no run.json",
                advice="Give the directory that `servegate run` or `servegate measure` printed.",
            )
        return cls(root)

    # -- records ---------------------------------------------------------------------------------------------

    def write_run(self, status: str, data: dict[str, Json], *, gate: str, plan: str | None) -> None:
        """Write run.json: first when a run starts, then after every stage, last when it is complete."""
        self._write("run.json", Envelope("run", gate, plan, None, status, None, None, None, data))

    def read_run(self) -> Envelope:
        """Read run.json; `running` with a dead process reads as `interrupted`."""
        envelope = self._read("run.json", "run")
        pid = envelope.data.get("pid")
        if envelope.status == "running" and not (isinstance(pid, int) and _is_running(pid, envelope.data)):
            return Envelope(**{**envelope.__dict__, "status": "interrupted"})
        return envelope

    def write_plan(self, plan: Plan) -> None:
        """Write plan.json and the bytes of every serving config."""
        for name, arm in plan.arms.items():
            self._write_bytes(f"arms/{_arm(name)}/serving.yaml", arm.config.text.encode())
        self._write(
            "plan.json", Envelope("plan", plan.gate, plan.fingerprint(), None, "complete", None, None, None, plan.to_json())
        )

    def read_plan(self) -> Plan:
        """Read plan.json."""
        return self._record("plan.json", "plan", Plan)

    def write_inputs(self, plan: Plan, check: str, inputs: Record) -> None:
        """Write what a check was given, as rendered on the baseline."""
        self._write_record(f"inputs/{check}.json", f"inputs/{check}", plan, None, inputs)

    def read_inputs(self, check: str, kind: type[R]) -> R | None:
        """Read a check's inputs; None when there are none."""
        path = f"inputs/{check}.json"
        return self._record(path, f"inputs/{check}", kind) if (self.root / path).is_file() else None

    def write_engine(self, plan: Plan, arm: str, facts: EngineFacts) -> None:
        """Write an arm's start-up facts."""
        reason = Reason(code=facts.diagnosis.code, message=facts.diagnosis.exception) if facts.diagnosis else None
        self._write(
            f"arms/{_arm(arm)}/engine.json",
            Envelope("engine", plan.gate, plan.fingerprint(), arm, facts.status.value, reason, None, None, facts.to_json()),
        )

    def read_engine(self, arm: str) -> EngineFacts | None:
        """Read an arm's start-up facts; None when no start was attempted."""
        path = f"arms/{_arm(arm)}/engine.json"
        if not (self.root / path).is_file():
            return None
        envelope = self._read(path, "engine")
        return _validated(EngineFacts, {**envelope.data, "status": EngineStatus(envelope.status)}, path)

    def write_manifest(self, plan: Plan, arm: str, manifest: Manifest) -> None:
        """Write an arm's environment."""
        self._write_record(f"arms/{_arm(arm)}/manifest.json", "manifest", plan, arm, manifest)

    def read_manifest(self, arm: str) -> Manifest | None:
        """Read an arm's environment; None when it was not collected."""
        path = f"arms/{_arm(arm)}/manifest.json"
        return self._record(path, "manifest", Manifest) if (self.root / path).is_file() else None

    def write_measurement(
        self, plan: Plan, arm: str, check: str, measurement: Measurement | NotMeasured, seconds: float
    ) -> None:
        """Write a check's measurement of an arm: columns first, then the JSON that names them."""
        path = f"arms/{_arm(arm)}/{check}"
        columns = None
        if isinstance(measurement, NotMeasured):
            reason: Reason | None = measurement.reason
            status, data = "not_measured", {}
        else:
            reason = measurement.partial
            status, data = "partial" if reason else "measured", measurement.to_json()
            columns = self._write_columns(f"{path}.npz", measurement.columns) if measurement.columns else None
        self._write(
            f"{path}.json",
            Envelope(f"measurement/{check}", plan.gate, plan.fingerprint(), arm, status, reason, seconds, columns, data),
        )

    def read_measurement(self, arm: str, check: str, kind: type[M]) -> M | NotMeasured:
        """Read a check's measurement of an arm; `not_measured` also when the file is missing."""
        path = f"arms/{_arm(arm)}/{check}.json"
        if not (self.root / path).is_file():
            return NotMeasured(reason=Reason(code="absent", message="this run holds no measurement of it"))
        envelope = self._read(path, f"measurement/{check}")
        if envelope.status == "not_measured":
            return NotMeasured(reason=envelope.reason or Reason(code="unknown", message="no reason was recorded"))
        columns = self._read_columns(envelope.columns, path) if envelope.columns else {}
        return _validated(kind, {**envelope.data, "columns": columns, "partial": envelope.reason}, path)

    def write_comparison(self, plan: Plan, check: str, comparison: Comparison | NotMeasured) -> None:
        """Write a comparison, a product of the evidence."""
        if isinstance(comparison, NotMeasured):
            envelope = Envelope(
                f"comparison/{check}", plan.gate, plan.fingerprint(), None, "not_measured", comparison.reason, None, None, {}
            )
            self._write(f"comparisons/{check}.json", envelope)
        else:
            self._write_record(f"comparisons/{check}.json", f"comparison/{check}", plan, None, comparison)

    def read_comparison(self, check: str) -> Comparison | NotMeasured:
        """Read a comparison."""
        path = f"comparisons/{check}.json"
        envelope = self._read(path, f"comparison/{check}")
        if envelope.status == "not_measured":
            return NotMeasured(reason=envelope.reason or Reason(code="unknown", message="no reason was recorded"))
        return _validated(Comparison, envelope.data, path)

    def write_verdict(self, plan: Plan, verdict: Verdict) -> None:
        """Write the verdict."""
        self._write_record("verdict.json", "verdict", plan, None, verdict)

    def read_verdict(self) -> Verdict:
        """Read the verdict. Raises RunDirectoryError when the run was not compared yet."""
        if not (self.root / "verdict.json").is_file():
            raise RunDirectoryError(f"{self.root} holds no verdict", advice="Run `servegate compare` on it first.")
        return self._record("verdict.json", "verdict", Verdict)

    # -- files -----------------------------------------------------------------------------------------------

    def server_log(self, arm: str) -> Path:
        """Return where an arm's whole server log goes; its directory exists."""
        path = self.root / "arms" / _arm(arm) / "server.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def raw_directory(self, arm: str, check: str) -> Path:
        """Return where a tool's own output goes, for people; it exists and is never judged."""
        path = self.root / "arms" / _arm(arm) / "raw" / check
        path.mkdir(parents=True, exist_ok=True)
        return path

    def write_products(self, files: Mapping[str, bytes]) -> None:
        """Write the report's files under `report/`; names are relative and stay inside."""
        for name, content in sorted(files.items()):
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise ValueError(f"a product may not leave the report directory: {name!r}")
            self._write_bytes(f"report/{name}", content)

    def write_checksums(self) -> None:
        """Write the sha256 of every file but this one, sorted by path."""
        lines = [f"{digest}  {name}\n" for name, digest in sorted(self._digests().items())]
        self._write_bytes(CHECKSUMS, "".join(lines).encode())

    def verify(self) -> tuple[str, ...]:
        """Return one line per file that is missing, changed or added since the checksums were written."""
        path = self.root / CHECKSUMS
        if not path.is_file():
            raise RunDirectoryError(f"{self.root} has no {CHECKSUMS}", advice="The run was not completed.")
        stated = {name: digest for digest, _, name in (line.partition("  ") for line in path.read_text().split("\n")) if name}
        actual = self._digests()
        return tuple(
            f"{name}: {'missing' if name not in actual else 'added' if name not in stated else 'changed'}"
            for name in sorted({*stated, *actual})
            if stated.get(name) != actual.get(name)
        )

    # -- bytes -----------------------------------------------------------------------------------------------

    def _digests(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for path in self.root.rglob("*"):
            if path.is_file() and not path.is_symlink() and path.name != CHECKSUMS:
                with path.open("rb") as stream:
                    found[path.relative_to(self.root).as_posix()] = hashlib.file_digest(stream, "sha256").hexdigest()
        return found

    def _write_record(self, path: str, kind: str, plan: Plan, arm: str | None, record: Record) -> None:
        self._write(path, Envelope(kind, plan.gate, plan.fingerprint(), arm, "complete", None, None, None, record.to_json()))

    def _write(self, path: str, envelope: Envelope) -> None:
        document = {
            "kind": envelope.kind,
            "schema_version": SCHEMA_VERSION,
            "servegate": __version__,
            "gate": envelope.gate,
            "plan": envelope.plan,
            "arm": envelope.arm,
            "status": envelope.status,
            "reason": envelope.reason.to_json() if envelope.reason else None,
            "seconds": envelope.seconds,
            "columns": envelope.columns,
            "data": envelope.data,
        }
        self._write_bytes(path, dump(document))

    def _write_columns(self, path: str, columns: Columns) -> Json:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        for name, column in columns.items():
            if column.dtype == object:
                raise ValueError(f"column {name!r} has no fixed type")
        with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".part", delete=False) as stream:
            np.savez(stream, allow_pickle=False, **columns)
            stream.flush()
            os.fsync(stream.fileno())
        Path(stream.name).chmod(0o644)
        Path(stream.name).replace(target)
        with target.open("rb") as reader:
            digest = hashlib.file_digest(reader, "sha256").hexdigest()
        return {"file": target.name, "sha256": digest, "bytes": target.stat().st_size}

    def _read_columns(self, stated: Json, path: str) -> Columns:
        name = stated.get("file") if isinstance(stated, dict) else None
        if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9_-]+\.npz", name):
            raise RunDirectoryError(f"{path} names no readable column file: {name!r}")
        target = (self.root / path).parent / name
        if not target.is_file():
            raise RunDirectoryError(f"{target} is missing", why=f"{path} refers to it.", advice="Measure again.")
        content = target.read_bytes()
        if hashlib.sha256(content).hexdigest() != stated.get("sha256"):
            raise RunDirectoryError(f"{target} was changed after it was measured", advice="Restore the file or measure again.")
        try:
            with np.load(target, allow_pickle=False) as archive:
                return {key: archive[key] for key in archive.files}
        except (OSError, ValueError) as error:
            raise RunDirectoryError(f"{target} is not readable: {error}") from error

    def _write_bytes(self, path: str, content: bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".part", delete=False) as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(stream.name).chmod(0o644)
        Path(stream.name).replace(target)

    def _record(self, path: str, kind: str, record: type[R]) -> R:
        return _validated(record, self._read(path, kind).data, path)

    def _read(self, path: str, kind: str) -> Envelope:
        document = load(self.root / path)
        if not isinstance(document, dict) or document.get("kind") != kind:
            found = document.get("kind") if isinstance(document, dict) else type(document).__name__
            raise RunDirectoryError(f"{path} is of kind {found!r}, not {kind!r}", advice="Measure again, or restore the file.")
        version = document.get("schema_version")
        if version != SCHEMA_VERSION:
            raise RunDirectoryError(
                f"{path} has schema version {version!r}; this servegate {__version__} reads {SCHEMA_VERSION}",
                advice=f"Use the servegate that wrote it ({document.get('servegate')!r}) or a newer one.",
            )
        reason = document.get("reason")
        try:
            return Envelope(
                kind=kind,
                gate=str(document.get("gate")),
                plan=document.get("plan"),
                arm=document.get("arm"),
                status=str(document.get("status")),
                reason=Reason.model_validate(reason) if reason else None,
                seconds=document.get("seconds"),
                columns=document.get("columns"),
                data=document["data"] if isinstance(document.get("data"), dict) else {},
            )
        except ValueError as error:
            raise RunDirectoryError(f"{path} is damaged: {error}") from error


def dump(value: Json) -> bytes:
    """Return strict JSON: ASCII, sorted keys, no NaN or Infinity, one final newline."""
    return (json.dumps(value, ensure_ascii=True, sort_keys=True, allow_nan=False, indent=1) + "\n").encode("ascii")


def load(path: Path) -> Json:
    """Read strict JSON. Raises RunDirectoryError on repeated keys, NaN, wrong bytes, or a file over the size cap."""
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise RunDirectoryError(f"{path} is larger than {MAX_JSON_BYTES} bytes and was not read")
        return parse_json(path.read_bytes())
    except FileNotFoundError:
        raise RunDirectoryError(f"{path} is missing", advice="The run is incomplete: measure again.") from None
    except (OSError, ValueError) as error:
        raise RunDirectoryError(f"{path} is not strict JSON: {error}", advice="Restore the file or measure again.") from error


def _validated(record: type[R], data: dict[str, Json], path: str) -> R:
    try:
        return record.model_validate(data)
    except ValueError as error:
        raise RunDirectoryError(f"{path} does not hold what it should: {error}", advice="Measure again.") from error


def _arm(name: str) -> str:
    if not ARM_NAME.fullmatch(name):
        raise ValueError(f"not the name of an arm: {name!r}")
    return name


def _is_running(pid: int, data: dict[str, Json]) -> bool:
    """A process of that number lives on the boot that wrote the file; elsewhere nothing can be said, so: no."""
    if data.get("host_boot_id") != boot_id():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def boot_id() -> str | None:
    """Return the kernel's boot id, which tells one host's uptime from another's; None where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
