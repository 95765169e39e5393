"""An engine that goes for the other arm's evidence, in the action's own steps and real containers: it does not get there."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.end_to_end.conftest import command, measuring
from tests.project.action_file import STEPS

pytestmark = [pytest.mark.service, pytest.mark.timeout(600)]

# Whatever arm it serves, it writes over everything of the other one that it can find, says so in its log, and then serves.
ATTACKER = """\
case "$*" in
  *demo-baseline-*) other=candidate ;;
  *demo-candidate-*) other=baseline ;;
  *) exec /cache/bin/fake "$@" ;;
esac
found=$(find / -xdev -type d -path "*/arms/$other" 2> /dev/null; find /output /tmp /cache -type d -path "*/arms/$other")
for folder in $found; do
  for file in "$folder"/* "$folder/prompts.json"; do
    echo "written by the other arm's engine" > "$file"
    echo "attacked $file"
  done
done
"""


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def step(tmp_path: Path, docker: dict[str, str], image: str) -> dict[str, str]:
    values = measuring(tmp_path, docker, image, "servegate=7.1.isolated", before=ATTACKER)
    return {**values, "RUN": "", "GITHUB_OUTPUT": str(tmp_path / "output")}


def ran(step: dict[str, str], name: str) -> None:
    done = command("bash", "-e", "-o", "pipefail", "-c", STEPS[name]["run"], environment=step, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_engine_does_not_reach_the_other_arms_evidence(tmp_path: Path, step: dict[str, str]) -> None:
    ran(step, "measure")
    arms, run = tmp_path / "arms", tmp_path / "runs/demo"
    assert "attacked /output/demo/arms/candidate/prompts.json" in (arms / "baseline/demo/arms/baseline/server.log").read_text()
    measured = digests(arms / "baseline")
    ran(step, "candidate")
    assert "attacked /output/demo/arms/baseline/prompts.json" in (arms / "candidate/demo/arms/candidate/server.log").read_text()
    copy = (arms / "candidate/demo/arms/baseline/prompts.json").read_text()
    assert copy.startswith("written by the other"), "it did write over the copy that it was given to read"
    assert digests(arms / "baseline") == measured

    ran(step, "judge")
    before, after = digests(arms / "baseline/demo/arms/baseline"), digests(run / "arms/baseline")
    assert before == after, "the judge reads what the baseline's own container left"
    for arm in ("baseline", "candidate"):
        assert "written by the other" not in "".join(
            path.read_text(errors="replace") for path in (run / f"arms/{arm}").glob("*.*") if path.name != "server.log"
        )
    assert json.loads((run / "run.json").read_text())["status"] == "failed"
    assert json.loads((run / "verdict.json").read_text())["data"]["outcome"] == "review", (
        "the attacker spoilt its own measurement only"
    )
    assert command("bash", "-c", STEPS["Remove what a cancelled step left"]["run"], environment=step).returncode == 0


def test_in_one_container_it_does_get_there(tmp_path: Path, step: dict[str, str]) -> None:
    """What the other test is worth: without the two containers the same engine writes over the baseline's evidence."""
    step = {**step, "ISOLATE_ARMS": "false"}
    command("bash", "-e", "-o", "pipefail", "-c", STEPS["measure"]["run"], environment=step, timeout=200)
    assert (tmp_path / "runs/demo/arms/baseline/prompts.json").read_text().startswith("written by the other")
