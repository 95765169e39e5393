"""The wheel has everything that a report is drawn with: installed elsewhere, run elsewhere, from no checkout.

Opt in, since a wheel is built by hatchling, which is no tool of the tests: SERVEGATE_TEST_WHEEL=dist/servegate-*.whl. The
tests of the image show the same of what the image installs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.project.action_file import ROOT

PROGRAM = """
import pathlib, servegate
from servegate.cli import _code
assert pathlib.Path(servegate.__file__).is_relative_to(pathlib.Path({installed!r})), servegate.__file__
raise SystemExit(_code(["report", {run!r}]))
"""


def test_a_report_is_drawn_by_an_installed_wheel_outside_of_the_checkout(tmp_path: Path) -> None:
    wheel = os.environ.get("SERVEGATE_TEST_WHEEL")
    if not wheel:
        pytest.skip("SERVEGATE_TEST_WHEEL is not set: no built wheel is tried")
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
