"""The parser on real logs of vLLM 0.25.1 (H200) and 0.32.0 (CPU): start-up parts of recorded runs."""

from pathlib import Path

import pytest

from servegate.domain.evidence import EngineFacts, EngineStatus
from servegate.engines.log_lines import lines_of
from servegate.engines.vllm_log import read_log
from servegate.engines.vllm_phases import PHASES, phase_begun

LOGS = Path(__file__).parents[2] / "recorded" / "logs"
NAMES = sorted(path.name for path in LOGS.glob("*.log"))


def facts_of(text: str, **known: object) -> EngineFacts:
    base = EngineFacts(role="baseline", session=0, status=EngineStatus.READY, **{"version": None, **known})
    return read_log(text, base)


def recorded(name: str) -> EngineFacts:
    return facts_of((LOGS / name).read_text("utf-8"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cpu-0.32.0-bf16-eager.log", ("0.32.0", 2048, (None, "none", "BF16"), (None, "auto"), "cpu", None, 2.0, 93_184)),
        (
            "cpu-0.32.0-fp8-compiled.log",
            (
                "0.32.0",
                2048,
                ("fp8_per_channel", "fp8_per_channel", "W8A8 (torch fallback)"),
                (None, "auto"),
                "cpu",
                None,
                2.0,
                93_184,
            ),
        ),
        ("cpu-0.32.0-fp8-kv-eager.log", ("0.32.0", 2048, (None, "none", "BF16"), ("fp8", "fp8"), "cpu", None, 2.0, 186_368)),
        (
            "h200-0.25.1-qwen3-8b-fp8-fp8-kv.log",
            ("0.25.1", 4096, ("fp8_per_channel", "fp8_per_channel", "W8A8"), ("fp8", "fp8"), "cuda", 8.8, 118.27, 1_722_432),
        ),
        (
            "h200-0.25.1-smollm2-fp8-eager.log",
            ("0.25.1", 4096, ("fp8", "fp8", "W8A8"), (None, "auto"), "cuda", 0.15, 127.92, 5_961_312),
        ),
        (
            "cpu-0.32.0-fp8-eager.log",
            (
                "0.32.0",
                2048,
                ("fp8_per_channel", "fp8_per_channel", "W8A8 (torch fallback)"),
                (None, "auto"),
                "cpu",
                None,
                2.0,
                93_184,
            ),
        ),
        (
            "h200-0.25.1-qwen3-8b-bf16.log",
            ("0.25.1", 4096, (None, "none", "BF16"), (None, "auto"), "cuda", 15.27, 111.84, 814_368),
        ),
        (
            "h200-0.25.1-qwen3-8b-fp8.log",
            ("0.25.1", 4096, ("fp8_per_channel", "fp8_per_channel", "W8A8"), (None, "auto"), "cuda", 8.8, 118.27, 861_216),
        ),
        *(
            (
                f"h200-0.25.1-smollm2-bf16{name}.log",
                ("0.25.1", 4096, (None, "none", "BF16"), (None, "auto"), "cuda", 0.26, gib, tokens),
            )
            for name, gib, tokens in (("", 127.81, 5_956_560), ("-eager", 127.81, 5_956_560), ("-sleep", 127.87, 5_959_008))
        ),
        *(
            (
                f"h200-0.25.1-smollm2-fp8-per-channel{name}.log",
                (
                    "0.25.1",
                    4096,
                    ("fp8_per_channel", "fp8_per_channel", "W8A8"),
                    (None, "auto"),
                    "cuda",
                    0.15,
                    127.92,
                    5_961_280,
                ),
            )
            for name in ("", "-eager")
        ),
        (
            "h200-0.25.1-gpu-memory-held.log",
            ("0.25.1", 4096, ("fp8_per_channel", "fp8_per_channel", None), (None, "auto"), "cuda", None, None, None),
        ),
    ],
)
def test_facts_of_a_recorded_log(name, expected):
    facts = recorded(name)
    quantization = facts.quantization
    assert (
        facts.version,
        facts.max_model_len,
        (quantization.requested, quantization.resolved, quantization.effective_precision),
        (facts.kv_cache_dtype.requested, facts.kv_cache_dtype.resolved),
        facts.device,
        facts.weights_gib,
        facts.kv_cache_gib,
        facts.kv_cache_tokens,
    ) == expected


@pytest.mark.parametrize("name", NAMES)
def test_every_missing_fact_has_its_reason_and_no_other_has_one(name):
    data = recorded(name).to_json()
    reasons = {key.removesuffix("_reason"): value for key, value in data.items() if key.endswith("_reason")}
    # the checkpoint's own quantization is read from its config.json, not from the log
    assert reasons.pop("checkpoint_quantization") is None
    assert reasons.pop("checkpoint_recipe") is None
    assert len(reasons) == 8
    assert {key for key, value in reasons.items() if value} == {key for key in reasons if data[key] is None}


@pytest.mark.parametrize("name", NAMES)
def test_line_numbers_point_at_what_they_name(name):
    lines = (LOGS / name).read_text("utf-8").split("\n")
    facts = recorded(name)
    assert all(kernel.kernel in lines[kernel.line - 1] for kernel in facts.kernels)
    limit = next(warning for warning in facts.warnings if warning.code == "file_limit")
    assert "Found ulimit" in lines[limit.line - 1]
    assert facts.lines["quantization"] == facts.lines["version"]
    if facts.weights_gib is not None:
        assert f"took {facts.weights_gib:g} GiB" in lines[facts.lines["weights_gib"] - 1]
    if facts.kv_cache_tokens is not None:
        assert f"{facts.kv_cache_tokens:,} tokens" in lines[facts.lines["kv_cache_tokens"] - 1]


def test_every_recorded_log_has_its_facts() -> None:
    mark = next(each for each in test_facts_of_a_recorded_log.pytestmark if each.name == "parametrize")
    assert sorted(name for name, _expected in mark.args[1]) == NAMES


def test_kernels_layers_and_attention():
    gpu, cpu = recorded("h200-0.25.1-qwen3-8b-fp8-fp8-kv.log"), recorded("cpu-0.32.0-fp8-compiled.log")
    assert [(kernel.kernel, kernel.layers, kernel.count) for kernel in (*gpu.kernels, *cpu.kernels)] == [
        ("CutlassFP8ScaledMMLinearKernel", "Fp8PtpcOnlineLinearMethod", 1),
        ("ChannelWiseTorchFP8ScaledMMLinearKernel", "Fp8PtpcOnlineLinearMethod", 1),
    ]
    assert gpu.attention_backend == "FLASH_ATTN, FlashAttention 3"
    assert (gpu.quantized_layers, cpu.quantized_layers) == (None, 120)
    assert recorded("cpu-0.32.0-bf16-eager.log").quantized_layers_reason == "nothing was quantized while loading"


def test_phases_are_those_of_the_log():
    assert recorded("h200-0.25.1-qwen3-8b-fp8-fp8-kv.log").phases_s == pytest.approx(
        {"load": 3.337927, "compile": 64.22, "warm_up": 87.81 - 64.22}
    )
    assert recorded("cpu-0.32.0-fp8-compiled.log").phases_s == pytest.approx({"load": 0.248210 + 1.05 + 0.87, "warm_up": 98.04})
    assert recorded("h200-0.25.1-gpu-memory-held.log").phases_s == {}


@pytest.mark.parametrize("name", NAMES)
def test_phases_begin_in_their_order(name):
    seen = [phase for line in (LOGS / name).read_text("utf-8").split("\n") if (phase := phase_begun(line))]
    order = [list(PHASES).index(phase) for phase in dict.fromkeys(seen)]
    assert order == sorted(order)
    assert order[0] == list(PHASES).index("load")


def test_warnings_are_counted():
    codes = {warning.code: warning.count for warning in recorded("cpu-0.32.0-fp8-kv-eager.log").warnings}
    assert codes["kv_scales_missing"] == 1
    assert codes["eager_mode"] == 2
    assert codes["old_model_runner"] == 3


@pytest.mark.parametrize(
    ("lines", "precision"),
    [
        (["Selected MarlinFP8ScaledMMLinearKernel for Fp8LinearMethod"], "W8A16 (Marlin, weights only)"),
        (
            ["Your GPU does not have native support for FP8 computation but FP8 quantization is being used."],
            "W8A16 (Marlin, weights only)",
        ),
        (["Selected FlashInferFP8ScaledMMLinearKernel for ModelOptFp8LinearMethod"], "W8A8"),
        (["Using MarlinNvFp4LinearKernel for NVFP4 GEMM"], "W4A16 (Marlin, weights only)"),
        (["Using MarlinLinearKernel for AutoAWQMarlinLinearMethod"], "W4A16 (Marlin, weights only)"),
        (["Using SomethingNew for NVFP4 GEMM"], None),
        ([], None),
    ],
)
def test_effective_precision_is_what_was_done(lines, precision):
    config = "Initializing a V1 LLM engine (v0.32.0) with config: model='m', dtype=torch.bfloat16, quantization=fp8, seed=0"
    assert facts_of("\n".join([config, *lines])).quantization.effective_precision == precision


def test_what_is_known_from_the_api_is_kept():
    facts = facts_of((LOGS / NAMES[0]).read_text("utf-8"), version="0.99", max_model_len=7)
    assert (facts.version, facts.max_model_len) == ("0.99", 7)
    assert (facts.version_reason, facts.max_model_len_reason) == (None, None)


def test_sampling_defaults_of_the_checkpoint():
    line = "WARNING 11-29 18:15:10 [model.py:1] Default vLLM sampling parameters have been overridden by the model's "
    line += "`generation_config.json`: `{'temperature': 0.6, 'top_p': 0.95}`. If this is not intended, please relaunch"
    assert facts_of(line).sampling_defaults == {"temperature": 0.6, "top_p": 0.95}
    assert facts_of(line.replace("0.6,", "open('x'),")).sampling_defaults is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\x00\ufffd\ud800\u2028\r\n" * 50,
        "Initializing a V1 LLM engine (v",
        "Initializing a V1 LLM engine (v1) with config: " + "quantization=" * 5000,
        "KV cache size: ,,, tokens\nModel loading took ... GiB and . seconds",
        "(" * 100_000,
        "Quantizing " + "9" * 100_000 + " layers of types",
    ],
)
def test_a_hostile_or_cut_log_gives_reasons_and_no_exception(text):
    facts = facts_of(text)
    assert facts.kv_cache_tokens is None
    assert facts.quantized_layers is None
    assert facts.quantized_layers_reason


def test_lines_are_undressed_and_numbered():
    lines = lines_of("plain\n(Worker pid=1) \x1b[32mINFO\x1b[0m 11-29 18:15:10 [a.py:1] hello\r\n(EngineCore_DP0 pid=2) raw")
    assert [(line.number, line.writer, line.level, line.text) for line in lines] == [
        (1, "", "", "plain"),
        (2, "Worker pid=1", "INFO", "hello"),
        (3, "EngineCore_DP0 pid=2", "", "raw"),
    ]
    assert [line.is_worker for line in lines] == [False, True, True]
