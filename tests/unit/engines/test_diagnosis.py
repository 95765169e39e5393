from pathlib import Path

import pytest

from servegate.engines.diagnosis import diagnose, died
from servegate.engines.faults import known_faults
from servegate.engines.log_lines import lines_of

LOGS = Path(__file__).parents[2] / "recorded" / "logs"


def diagnosed(text: str):
    return diagnose(lines_of(text))


def test_a_recorded_failure_names_the_workers_first_exception():
    text = (LOGS / "h200-0.25.1-gpu-memory-held.log").read_text("utf-8")
    found = diagnosed(text)
    assert found.code == "gpu_memory_held"
    assert found.exception.startswith("ValueError: Free memory on device cuda:0 (8.41/139.8 GiB)")
    assert "(EngineCore pid=5547) ERROR" in text.split("\n")[found.line - 1]
    assert "nvidia-smi" in found.workaround


def test_the_cause_stands_far_above_the_last_line():
    lines = ["ValueError: bad scale", *[f"line {number}" for number in range(40)]]
    lines.append("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}")
    assert (diagnosed("\n".join(lines)).exception, diagnosed("\n".join(lines)).line) == ("ValueError: bad scale", 1)


def test_a_worker_is_believed_before_the_api_server():
    text = """(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1)   File "x.py", line 1, in f
(APIServer pid=1) ConnectionError: first in the file
(Worker_TP0 pid=3) ERROR 11-29 18:02:11 [w.py:1] Traceback (most recent call last):
(Worker_TP1 pid=4) ERROR 11-29 18:02:11 [w.py:1] Traceback (most recent call last):
(Worker_TP0 pid=3) ERROR 11-29 18:02:11 [w.py:1]   File "y.py", line 2, in g
(Worker_TP1 pid=4) ERROR 11-29 18:02:11 [w.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB
(EngineCore pid=2) Exception: WorkerProc initialization failed due to an exception in a background process."""
    found = diagnosed(text)
    assert (found.code, found.line) == ("out_of_memory", 7)
    assert found.exception.startswith("torch.OutOfMemoryError")


@pytest.mark.parametrize(
    ("text", "code", "exception"),
    [
        (
            "(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
            "(APIServer pid=1)   Value error, Unknown quantization method: fp9 [type=value_error]\n",
            "quantization_mismatch",
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig Value error, Unknown "
            "quantization method: fp9 [type=value_error]",
        ),
        ("usage: vllm serve\nvllm serve: error: unrecognized arguments: --x\n", "bad_option", "unrecognized arguments: --x"),
        ("OSError: [Errno 98] Address already in use", "port_taken", "OSError: [Errno 98] Address already in use"),
        ("ok\nFatal Python error: Segmentation fault\n", "crashed", "Fatal Python error: Segmentation fault"),
        (
            "(EngineCore pid=1) RuntimeError: No compiled cutlass_scaled_mm for CUDA device capability: 120.",
            "no_kernel",
            "RuntimeError: No compiled cutlass_scaled_mm for CUDA device capability: 120.",
        ),
        (
            "(EngineCore pid=9) RuntimeError: Assertion error (/x/csrc/apis/layout.hpp:60): Unknown SF transformation",
            "deepgemm_sm120",
            "RuntimeError: Assertion error (/x/csrc/apis/layout.hpp:60): Unknown SF transformation",
        ),
        (
            "(EngineCore pid=9) RuntimeError: Assertion error (/elsewhere/utils/layout.hpp:7): Unknown recipe",
            "deepgemm_sm120",
            "RuntimeError: Assertion error (/elsewhere/utils/layout.hpp:7): Unknown recipe",
        ),
        ("(EngineCore pid=9) AssertionError: expected size 7==9", "compile_cache", "AssertionError: expected size 7==9"),
        ("(EngineCore pid=9) RuntimeError: dispatch_scaled_mm", "cutlass_block_fp8", "RuntimeError: dispatch_scaled_mm"),
        (
            "ValueError: Quantization method specified in the model config (compressed-tensors) does not match the "
            "quantization method specified in the `quantization` argument (fp8).",
            "quantization_mismatch",
            "ValueError: Quantization method specified in the model config (compressed-tensors) does not match the "
            "quantization method specified in the `quantization` argument (fp8).",
        ),
        (
            "AssertionError: Error in memory profiling. Initial free memory 188.29 GiB, current free memory 188.75 GiB.",
            "gpu_memory_released",
            "AssertionError: Error in memory profiling. Initial free memory 188.29 GiB, current free memory 188.75 GiB.",
        ),
        (
            "RuntimeError: Engine core initialization failed. See root cause above.",
            "exception",
            "RuntimeError: Engine core initialization failed. See root cause above.",
        ),
    ],
)
def test_known_ends(text, code, exception):
    found = diagnosed(text)
    assert (found.code, found.exception) == (code, exception)


@pytest.mark.parametrize(
    "text",
    ["", "INFO all is well\nINFO:     Application startup complete.", "INFO 11-29 18:02:11 [a.py:1] ValueError: only told"],
)
def test_a_log_without_a_cause(text):
    assert diagnosed(text) is None


def test_an_exception_is_bounded_and_printable():
    found = diagnosed("ValueError: \x1b]0;x\x07\u2028" + "y" * 5000)
    assert len(found.exception) == 1000
    assert found.exception.isprintable()


def test_a_silent_end_claims_no_cause():
    assert (died(-9).code, died(-9).exception) == ("killed", "the engine was ended by signal 9")
    assert died(137).code == "killed"
    assert "memory" not in died(137).exception + died(-9).exception
    assert (died(1).code, died(1).exception) == ("exited", "the engine ended with exit code 1 and no exception in its log")


def test_a_known_fault_says_where_it_was_met_and_what_is_suggested():
    found = diagnosed("(EngineCore pid=9) RuntimeError: Assertion error (/x/layout.hpp:60): Unknown SF transformation")
    assert "VLLM_USE_DEEP_GEMM=0" in found.workaround
    assert "compute capability 12.0" in found.workaround
    assert "https://github.com/vllm-project/vllm/issues/47436" in found.workaround


def test_every_fault_has_a_source_and_its_own_code():
    faults = known_faults()
    assert len({fault.code for fault in faults}) == len(faults) >= 10
    for fault in faults:
        assert fault.sources
        assert all(source.startswith("https://") for source in fault.sources)
        assert min(len(fault.cause), len(fault.workaround), len(fault.cards), len(fault.engines)) >= 3
        assert not fault.signature.search("INFO all is well")
