"""Whatever happens to servegate or to the child, nothing of the child is left."""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from servegate.errors import EngineError
from servegate.subprocesses import carriers, supervise

# A child with: a worker in its group, a daemon in its own session, and one in its own session *without* the tag, as a
# process looks whose environment setproctitle has overwritten. All ignore SIGTERM.
STUBBORN = """
trap '' TERM
echo $$ >> "$PIDS"
bash -c 'trap "" TERM; echo $$ >> "$PIDS"; sleep 300 & wait; sleep 300' &
setsid bash -c 'trap "" TERM; echo $$ >> "$PIDS"; sleep 300; sleep 300' &
setsid env -u SERVEGATE_ARM bash -c 'trap "" TERM; echo $$ >> "$PIDS"; sleep 300; sleep 300' &
while [ "$(wc -l < "$PIDS")" -lt 4 ]; do sleep 0.01; done
echo ready
sleep 300; sleep 300
"""


@pytest.fixture
def tag() -> str:
    return secrets.token_hex(8)


def running(path: Path) -> list[int]:
    def alive(pid: int) -> bool:
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return [pid for pid in map(int, path.read_text().split()) if alive(pid)]


def until(condition, timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def stubborn(tag: str, directory: Path, **options):
    environment = {**os.environ, "PIDS": str(directory / "pids")}
    (directory / "pids").touch()
    log = (directory / "log").open("wb")
    return supervise(["bash", "-c", STUBBORN], tag=tag, stdout=log, environment=environment, **options)


def test_leaving_ends_the_group_and_whatever_left_it(tag, tmp_path):
    with stubborn(tag, tmp_path, grace_s=0.2) as child:
        until(lambda: (tmp_path / "log").read_text() == "ready\n")
        assert child.poll() is None
        assert os.getsid(child.pid) == child.pid
        assert len(running(tmp_path / "pids")) == 4
        assert child.pid in carriers(tag)
    assert running(tmp_path / "pids") == []
    assert carriers(tag) == ()
    assert child.poll() == -signal.SIGKILL


def test_a_polite_child_gets_time_to_leave(tag, tmp_path):
    log = tmp_path / "log"
    with log.open("wb") as file:
        command = ["bash", "-c", "trap 'sleep 0.3; echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done"]
        with supervise(command, tag=tag, stdout=file, grace_s=5) as child:
            until(lambda: log.read_text() == "up\n")
    assert log.read_text().endswith("bye\n")
    assert child.poll() == 7


def test_a_child_that_dies_takes_what_it_started_with_it(tag, tmp_path):
    with (tmp_path / "log").open("wb") as file:
        command = ["bash", "-c", 'setsid env -u SERVEGATE_ARM sleep 300 & echo $! > "$PIDS"; exit 3']
        pids = tmp_path / "pids"
        with supervise(command, tag=tag, stdout=file, environment={**os.environ, "PIDS": str(pids)}) as child:
            assert child.wait(5) == 3
            until(lambda: running(pids) == [])


def test_an_exception_in_the_context_ends_the_child(tag, tmp_path):
    def fails() -> None:
        with stubborn(tag, tmp_path, grace_s=0.1):
            until(lambda: (tmp_path / "log").read_text() == "ready\n")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert running(tmp_path / "pids") == []


def test_a_keeper_that_is_killed_is_replaced_by_a_sweep(tag, tmp_path):
    with stubborn(tag, tmp_path, grace_s=0.1) as child:
        until(lambda: (tmp_path / "log").read_text() == "ready\n")
        psutil.Process(child.pid).parent().kill()
        assert child.wait(5) == -signal.SIGKILL
    survivors = running(tmp_path / "pids")
    for pid in survivors:
        os.killpg(pid, signal.SIGKILL)
    # without its keeper, only the process that left the session *and* lost the tag escapes
    assert len(survivors) <= 1
    assert carriers(tag) == ()


@pytest.mark.parametrize(
    ("command", "directory", "said"),
    [("/none/vllm", None, "could not be executed: No such file"), ("true", Path("/none"), "could not be started")],
)
def test_a_command_that_cannot_be_executed(tag, command, directory, said):
    with (
        tempfile.TemporaryFile() as file,
        pytest.raises(EngineError, match=said),
        supervise([command], tag=tag, stdout=file, directory=directory),
    ):
        pass


MAIN = """
import signal, sys
from pathlib import Path
sys.path[:0] = {path!r}
from tests.unit.subprocesses.test_supervise import stubborn, until
class Stop(BaseException): pass
def handle(*_): raise Stop
signal.signal(signal.SIGTERM, handle)
with stubborn({tag!r}, Path({directory!r}), grace_s=1):
    until(lambda: (Path({directory!r}) / "log").read_text() == "ready\\n")
    print("up", flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("signals", [(signal.SIGKILL,), (signal.SIGTERM,), (signal.SIGTERM, signal.SIGTERM)])
def test_the_death_of_servegate_ends_the_child(tag, tmp_path, signals):
    code = MAIN.format(path=[str(Path.cwd()), *sys.path], tag=tag, directory=str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout.readline() == b"up\n"
    for number in signals:
        process.send_signal(number)
        time.sleep(0.2)
    process.wait(15)
    process.stdout.close()
    until(lambda: running(tmp_path / "pids") == [])
    until(lambda: carriers(tag) == ())


def test_no_descriptor_is_left_open(tag, tmp_path):
    before = {path.name for path in Path("/proc/self/fd").iterdir()}
    for _ in range(3):
        with (tmp_path / "log").open("wb") as file, supervise(["true"], tag=tag, stdout=file) as child:
            child.wait(5)
    assert {path.name for path in Path("/proc/self/fd").iterdir()} == before
