"""The run directory, version 1: layout, envelopes, seals.

Everything that a gate knows lies in one directory, and this module is the only one that knows its layout. Columns are
written before the JSON that names them, and run.json after both.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from servegate.artifacts.durable import dump, load, read_columns, replacing, sha256_of_file, stored, write_columns
from servegate.artifacts.envelopes import UNBOUND, Envelope, RunData, opened, validated
from servegate.artifacts.intake import ensure_regular, irregular, regular_files
from servegate.artifacts.liveness import is_running
from servegate.domain.arms import ARM_NAME, Arm
from servegate.domain.evidence import EngineFacts, Measurement, NotMeasured, Reason
from servegate.domain.judgement import Comparison, Verdict
from servegate.domain.manifest import Manifest
from servegate.domain.plan import Plan, fingerprint_of
from servegate.domain.records import Json, Record
from servegate.errors import RunDirectoryError, StorageError

EVIDENCE = ("arms/", "inputs/", "plan.json", "run.json")
"""What is judged; everything else in a run directory is made from it."""
CHECKSUMS = "checksums.sha256"
SETTLED_NS = 2_000_000_000
"""Clocks of file systems tick in steps of up to two seconds."""

R = TypeVar("R", bound=Record)
M = TypeVar("M", bound=Measurement)


class RunDirectory:
    """One gate run on disk."""

    def __init__(self, root: Path) -> None:
        """Point at a directory; nothing is read or written yet."""
        self.root = root
        self._plan: str | None = None
        """Fingerprint that every file must carry, once the plan has been read."""
        self._known_digests: dict[tuple[int, ...], str] = {}

    @classmethod
    def create(cls, root: Path) -> RunDirectory:
        """Make an empty run directory. Raises RunDirectoryError when something is already there."""
        if root.exists() and any(root.iterdir()):
            raise RunDirectoryError(
                f"{root} already holds files",
                advice="Give another --output or --gate, or pass --force to replace the earlier run.",
            )
        with stored(root):
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
        ensure_regular(root)
        return cls(root)

    # -- records ---------------------------------------------------------------------------------------------

    def write_run(self, status: str, data: dict[str, Json], *, gate: str, plan: str | None) -> None:
        """Write run.json: first when a run starts, then after every stage, last when it is complete."""
        self._write("run.json", Envelope("run", gate, plan, None, status, None, None, None, data))

    def read_run(self) -> Envelope:
        """Read run.json; `running` with a dead process reads as `interrupted`."""
        envelope = self._read("run.json", "run")
        validated(RunData, envelope.data, "run.json")
        pid = envelope.data.get("pid")
        if envelope.status == "running" and not (isinstance(pid, int) and is_running(pid, envelope.data)):
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
        envelope = self._read("plan.json", "plan")
        if envelope.plan != fingerprint_of(envelope.data):
            raise RunDirectoryError(
                "plan.json was changed after it was written: its fingerprint is another one",
                advice="Restore the file, or measure again.",
            )
        plan = validated(Plan, envelope.data, "plan.json")
        self._plan = envelope.plan
        return plan.model_copy(update={"arms": {name: self._with_config(arm) for name, arm in plan.arms.items()}})

    def _with_config(self, arm: Arm) -> Arm:
        """Put the serving config's text back, which lies beside the arm's evidence."""
        path = self.root / "arms" / _arm(arm.name) / "serving.yaml"
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        return arm.model_copy(update={"config": arm.config.model_copy(update={"text": text})})

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
        return validated(EngineFacts, {**envelope.data, "status": envelope.status}, path)

    def write_manifest(self, plan: Plan, arm: str, manifest: Manifest) -> None:
        """Write an arm's environment."""
        self._write_record(f"arms/{_arm(arm)}/manifest.json", "manifest", plan, arm, manifest)

    def read_manifest(self, arm: str) -> Manifest | None:
        """Read an arm's environment; None when it was not collected."""
        path = f"arms/{_arm(arm)}/manifest.json"
        return self._record(path, "manifest", Manifest) if (self.root / path).is_file() else None

    def forget_arm(self, arm: str) -> None:
        """Remove what was measured of an arm before it is measured anew, so that old answers never meet a new engine."""
        for path in (self.root / "arms" / _arm(arm)).glob("*"):
            if path.is_file() and path.name != "serving.yaml":
                path.unlink()

    def forget_products(self) -> None:
        """Remove verdict, comparisons and report before anything is measured anew: they are about other evidence."""
        with stored(self.root):
            (self.root / "verdict.json").unlink(missing_ok=True)
            for folder in ("comparisons", "report"):
                if (self.root / folder).is_dir():
                    shutil.rmtree(self.root / folder)

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
            columns = write_columns(self._target(f"{path}.npz"), measurement.columns) if measurement.columns else None
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
        unstated = Reason(code="unknown", message="no reason was recorded")
        if envelope.arm != arm:
            raise RunDirectoryError(
                f"{path} was measured on the arm {envelope.arm!r}", advice="Restore the file or measure again."
            )
        if envelope.status == "not_measured":
            return NotMeasured(reason=envelope.reason or unstated)
        if envelope.status not in {"measured", "partial"}:
            raise RunDirectoryError(f"{path} has the unknown status {envelope.status!r}", advice="Measure again.")
        partial = (envelope.reason or unstated) if envelope.status == "partial" else None
        columns = read_columns(envelope.columns, self.root / path) if envelope.columns else {}
        return validated(kind, {**envelope.data, "columns": columns, "partial": partial}, path)

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
        return validated(Comparison, envelope.data, path)

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

    def ensure_untouched(self) -> None:
        """Raise RunDirectoryError when evidence is not what it was when its checksums were written.

        Products (comparisons, verdict, report) are made anew anyway and may differ. A run that was never completed has
        no checksums and is judged as it is.
        """
        if not (self.root / CHECKSUMS).is_file():
            return
        touched = [line for line in self.verify() if line.startswith(EVIDENCE)]
        if touched:
            raise RunDirectoryError(
                f"{self.root}: {len(touched)} files of evidence are not what was measured",
                why="\n".join(touched[:20]),
                advice=f"Restore them. If you merged runs on purpose, delete {CHECKSUMS} to judge the files as they are.",
            )

    def verify(self) -> tuple[str, ...]:
        """Return one line per file that is missing, changed or added since the checksums were written."""
        path = self.root / CHECKSUMS
        if not path.is_file():
            raise RunDirectoryError(f"{self.root} has no {CHECKSUMS}", advice="The run was not completed.")
        stated = {name: digest for digest, _, name in (line.partition("  ") for line in path.read_text().split("\n")) if name}
        actual = self._digests()
        return irregular(self.root) + tuple(
            f"{name}: {'missing' if name not in actual else 'added' if name not in stated else 'changed'}"
            for name in sorted({*stated, *actual})
            if stated.get(name) != actual.get(name)
        )

    def evidence_digests(self) -> dict[str, str]:
        """Return the sha256 of every file of evidence by its path; what tools wrote for people is none."""
        return {name: digest for name, digest in self._digests().items() if name.startswith(EVIDENCE) and "/raw/" not in name}

    # -- bytes -----------------------------------------------------------------------------------------------

    def _digests(self) -> dict[str, str]:
        return {name: self._digest(path) for name, path in regular_files(self.root) if name != CHECKSUMS}

    def _digest(self, path: Path) -> str:
        """Return a file's sha256, computed once as long as the file is the same one with the same times and size.

        A file that was written just now may be written again without another time, so its digest is not kept.
        """
        seen = path.stat()
        key = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
        digest = self._known_digests.get(key) or sha256_of_file(path)
        if time.time_ns() - max(seen.st_mtime_ns, seen.st_ctime_ns) > SETTLED_NS:
            self._known_digests[key] = digest
        return digest

    def _write_record(self, path: str, kind: str, plan: Plan, arm: str | None, record: Record) -> None:
        self._write(path, Envelope(kind, plan.gate, plan.fingerprint(), arm, "complete", None, None, None, record.to_json()))

    def _write(self, path: str, envelope: Envelope) -> None:
        if envelope.kind not in UNBOUND:
            envelope = replace(envelope, plan=self._plan or envelope.plan)
        self._write_bytes(path, dump(envelope.to_json()))

    def _write_bytes(self, path: str, content: bytes) -> None:
        with replacing(self._target(path)) as stream:
            stream.write(content)

    def _target(self, path: str) -> Path:
        """Return where a file goes, its directory made; a link in a run directory must not lead out of it."""
        target = self.root / path
        with stored(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.parent.resolve().is_relative_to(self.root.resolve()):
                raise StorageError(f"{target.parent} leads out of the run directory", advice="Remove the link.")
        return target

    def _record(self, path: str, kind: str, record: type[R]) -> R:
        return validated(record, self._read(path, kind).data, path)

    def _read(self, path: str, kind: str) -> Envelope:
        return opened(load(self.root / path), path, kind, self._plan)


def _arm(name: str) -> str:
    if not ARM_NAME.fullmatch(name):
        raise ValueError(f"not the name of an arm: {name!r}")
    return name
