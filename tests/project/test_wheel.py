"""The wheel has everything that a report is drawn with: installed elsewhere, run elsewhere, from no checkout.

The wheel is SERVEGATE_TEST_WHEEL=dist/servegate-*.whl, or is built here, without a network, from the wheels in
SERVEGATE_TEST_WHEELS (scripts/ci/make-wheelhouse.sh), which hold the tool that builds it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.project.action_file import ROOT

PROGRAM = """
import pathlib, servegate
from servegate.cli import _code
assert pathlib.Path(servegate.__file__).is_relative_to(pathlib.Path({installed!r})), servegate.__file__
raise SystemExit(_code(["report", {run!r}]))
"""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    if built := os.environ.get("SERVEGATE_TEST_WHEEL"):
        return Path(built)
    folder = os.environ.get("SERVEGATE_TEST_WHEELS") or missing("SERVEGATE_TEST_WHEELS (scripts/ci/make-wheelhouse.sh)")
    source = tmp_path / "source"  # what a clone has, so that nothing of this checkout's leftovers gets in
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name, follow_symlinks=True)
        elif (ROOT / name).is_dir():  # a link to a folder
            (source / name).symlink_to((ROOT / name).readlink())
    offline = ("--no-index", "--find-links", folder, "--no-deps", "--wheel-dir", str(tmp_path / "dist"))
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *offline, str(source)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return next((tmp_path / "dist").glob("servegate-*.whl"))


@pytest.mark.service
def test_a_report_is_drawn_by_an_installed_wheel_outside_of_the_checkout(tmp_path: Path, wheel: Path) -> None:
    installed, run = tmp_path / "installed", tmp_path / "run"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(installed)
    shutil.copytree(ROOT / "examples/recorded-run", run)
    shutil.rmtree(run / "report")
    (run / "verdict.json").unlink()  # so that it is judged first, by the wheel, too
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(installed=str(installed), run=str(run))],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(installed)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    page = (run / "report/report.html").read_text()
    assert "<style>" in page
    assert (installed / "servegate/templates/report.css").read_text().strip()[:200] in page
    for name in ("comment.md", "summary.md", "report.md"):
        assert (run / "report" / name).stat().st_size > 500
