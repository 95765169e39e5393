"""Make a small copy of a run directory that can be shown to anybody: no raw tool output, no paths or names of the machine.

    python scripts/trim_run.py RUN OUTPUT [--replace TEXT=TEXT ...]

What is judged stays bit for bit, but for the texts that are replaced: the home directory, the working directory and the
host's name, and whatever --replace names. A server log is cut after the line that says the engine is up, since start-up
facts refer to lines before it. The verdict and the report are made anew from the copy, which proves that it still judges.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shutil
import sys
from pathlib import Path

from servegate import pipeline
from servegate.artifacts import RunDirectory
from servegate.domain.plan import fingerprint_of

UP = re.compile(rb"Application startup complete|Starting vLLM server on")
TEXTS = {".json", ".log", ".yaml"}


def main() -> int:
    """Copy, replace, judge again; return the exit code."""
    parser = argparse.ArgumentParser(description="Make a shareable copy of a run directory")
    parser.add_argument("run", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--replace", action="append", default=[], metavar="TEXT=TEXT")
    options = parser.parse_args()
    pairs = dict(pair.split("=", 1) for pair in options.replace)
    pairs |= {str(Path.home()): "/home/user", str(Path.cwd()): "/home/user/servegate", platform.node(): "runner"}
    shutil.rmtree(options.output, ignore_errors=True)
    shutil.copytree(options.run, options.output, ignore=shutil.ignore_patterns("raw", "report", "checksums.sha256"))
    for path in options.output.rglob("*"):
        if path.is_file() and path.suffix in TEXTS:
            content = path.read_bytes()
            for text, other in sorted(pairs.items(), key=lambda pair: -len(pair[0])):
                # In JSON a text stands escaped; a serving config's bytes are part of the evidence and stay as they are.
                old, new = (json.dumps(each)[1:-1] if path.suffix == ".json" else each for each in (text, other))
                content = content if path.name == "serving.yaml" or not old else content.replace(old.encode(), new.encode())
            path.write_bytes(_until_up(content) if path.name == "server.log" else content)
    _seal(options.output)
    run = RunDirectory.open(options.output)
    verdict = pipeline.compare(run)
    pipeline.report(run)
    print(f"{options.output}: {verdict.outcome.value}: {verdict.headline}")
    return 0


def _seal(run: Path) -> None:
    """Give the plan, whose texts were replaced, its new fingerprint, and every file that names it."""
    document = json.loads((run / "plan.json").read_text())
    old, new = document["plan"].encode(), fingerprint_of(document["data"]).encode()
    for path in run.rglob("*.json"):
        path.write_bytes(path.read_bytes().replace(old, new))


def _until_up(log: bytes) -> bytes:
    lines = log.split(b"\n")
    up = next((number for number, line in enumerate(lines) if UP.search(line)), len(lines))
    kept = lines[: up + 1]
    return b"\n".join([*kept, b"(the log goes on; this copy ends here)", b""]) if len(kept) < len(lines) else log


if __name__ == "__main__":
    sys.exit(main())
