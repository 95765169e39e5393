import os
import sys
import time

import pytest

from servegate.errors import EngineError, MeasurementError
from servegate.subprocesses import run


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-c", code]


def test_output_code_and_command_come_back():
    echoed = []
    done = run(
        python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"),
        timeout_s=10,
        check=False,
        echo=echoed.append,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 3)
    assert 0 < done.seconds < 10
    assert echoed == [
        f"{sys.executable} -I -c 'import sys; print('\"'\"'out'\"'\"'); print('\"'\"'err'\"'\"', file=sys.stderr); sys.exit(3)'"
    ]


def test_environment_directory_and_empty_input(tmp_path):
    code = "import os, sys; print(os.environ['A'], 'HOME' in os.environ, os.getcwd(), repr(sys.stdin.read()), end=' ');"
    code += "print(os.getsid(0) == os.getpid())"
    done = run(python(code), timeout_s=10, environment={"A": "b"}, directory=tmp_path)
    assert done.stdout == f"b False {os.path.realpath(tmp_path)} '' True\n"


@pytest.mark.parametrize(("code", "said"), [("sys.exit(2)", "exit code 2"), ("os.kill(os.getpid(), 9)", "signal 9")])
def test_a_failure_says_how_and_what_was_said_last(code, said):
    with pytest.raises(MeasurementError, match=said) as caught:
        run(python(f"import os, sys; print('last words', flush=True); {code}"), timeout_s=10)
    assert caught.value.why == "last words"
    assert "Run it by hand:" in caught.value.advice


def test_a_command_that_is_missing_or_no_program(tmp_path):
    with pytest.raises(EngineError, match="No such file"):
        run([str(tmp_path / "none")], timeout_s=10, error=EngineError)
    with pytest.raises(MeasurementError, match="Permission denied"):
        run([str(tmp_path)], timeout_s=10)


def test_the_deadline_holds_for_a_tool_that_ignores_sigterm():
    started = time.monotonic()
    with pytest.raises(MeasurementError, match=r"within 0\.3 s"):
        run(["bash", "-c", "trap '' TERM; sleep 60 & wait; sleep 60"], timeout_s=0.3)
    assert time.monotonic() - started < 5


def test_a_flood_of_output_is_ended():
    with pytest.raises(MeasurementError, match="more than 100000 bytes"):
        run(["yes"], timeout_s=20, max_output_bytes=100_000)


def test_bytes_that_are_no_text_are_replaced():
    assert run(["printf", r"a\377b"], timeout_s=10).stdout == "a\ufffdb"
