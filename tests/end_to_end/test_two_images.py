"""An engine upgrade as the action gates it: two images with two engines, each arm measured in its own, judged as one run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.end_to_end.conftest import command, measuring
from tests.project.action_file import STEPS

pytestmark = [pytest.mark.service, pytest.mark.timeout(900)]

VERSIONS = {"baseline": "0.32.0", "candidate": "0.33.1"}
LAYER = """\
FROM {image}
USER 0
RUN servegate fake-engine --install /opt/engine
ENV FAKE_VLLM_VERSION={version}
USER 10001:10001
"""


@pytest.fixture(scope="module")
def images(podman: str, image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Two thin layers on the image under test, each with an engine of another version inside."""
    made = {}
    for arm, version in VERSIONS.items():
        file = tmp_path_factory.mktemp(arm) / "Dockerfile"
        file.write_text(LAYER.format(image=image, version=version))
        made[arm] = f"localhost/servegate-two:{arm}"
        done = command(
            *(podman, "build", "--pull=never", "--network", "none", "--tag", made[arm]),
            *("--file", str(file), str(file.parent)),
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
    yield made
    command(podman, "rmi", "--force", *made.values())


def test_an_engine_upgrade_is_measured_in_two_images(
    tmp_path: Path, docker: dict[str, str], image: str, images: dict[str, str]
) -> None:
    step = measuring(tmp_path, docker, image, "servegate=7.1.two-images")
    config = tmp_path / "workspace/servegate.yaml"
    settings = yaml.safe_load(config.read_text())
    settings["arms"]["candidate"]["config"] = "old.yaml"  # the image is the whole change
    settings["engine"] = {"executable": "/opt/engine/vllm"}
    config.write_text(yaml.safe_dump(settings))
    step |= {"IMAGE": images["baseline"], "CANDIDATE_IMAGE": images["candidate"]}
    step |= {"RUN": "", "GITHUB_OUTPUT": str(tmp_path / "output")}
    for name in ("measure", "candidate", "judge"):
        done = command("bash", "-e", "-o", "pipefail", "-c", STEPS[name]["run"], environment=step, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    run = tmp_path / "runs/demo"

    def document(name: str) -> dict[str, object]:
        data: dict[str, object] = json.loads((run / name).read_text())["data"]
        return data

    assert {arm: document(f"arms/{arm}/engine.json")["version"] for arm in VERSIONS} == VERSIONS
    assert document("plan.json")["knobs"] == [
        {"name": "engine.image", "baseline": images["baseline"], "candidate": images["candidate"], "source": "gate config"}
    ]
    verdict = document("verdict.json")
    assert "0.32.0 -> 0.33.1" in str(verdict["scope"])
    codes = {item["code"] for item in verdict["findings"]}  # type: ignore[attr-defined]
    assert not codes & {"arms/version-differs", "arms/run-incomplete", "prompts/not-measured"}, verdict
    assert verdict["outcome"] != "not_comparable"
