import hashlib

import pytest

from servegate.domain.arms import Arm, Role
from servegate.engines.serving_config import argv, differing_options, notes, read_serving_config
from servegate.errors import UsageError


def read(text: str):
    return read_serving_config(text, "serving.yaml")


def arguments(text: str) -> tuple[str, ...]:
    return argv(read("model: /m\n" + text), "vllm")[3:]


def refusal(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        read("model: /m\n" + text)
    return f"{caught.value.what} | {caught.value.advice}"


def arm(text: str, executable: str = "vllm", **environment: str) -> Arm:
    config = read(text)
    return Arm(
        name="baseline",
        role=Role.BASELINE,
        session=0,
        engine_kind="vllm",
        executable=executable,
        config=config,
        argv=argv(config, executable),
        environment=environment,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max_model_len: 2048\n", ("--max-model-len=2048",)),
        ("max-model-len: 010\n", ("--max-model-len=8",)),
        ("max-model-len: 2k\n", ("--max-model-len=2k",)),
        ("seed: -1\n", ("--seed=-1",)),
        ("gpu-memory-utilization: .85\n", ("--gpu-memory-utilization=0.85",)),
        ("device_memory_utilization: 0.5\n", ("--gpu-memory-utilization=0.5",)),
        ("enforce-eager: yes\n", ("--enforce-eager",)),
        ("no_enable_prefix_caching: true\n", ("--no-enable-prefix-caching",)),
        ("enforce-eager: false\nenable-prefix-caching: off\n", ()),
        ("quantization:\n", ("--quantization=None",)),
        ("logits-processors: []\n", ()),
        ("cudagraph-capture-sizes: [1, 2]\n", ("--cudagraph-capture-sizes", "1", "2")),
        ("cudagraph-capture-sizes: [1]\n", ("--cudagraph-capture-sizes=1",)),
        ("middleware: [a.b]\n", ("--middleware=a.b",)),
        (
            "compilation-config: {mode: 3, pass_config: {a: true}}\n",
            ('--compilation-config={"mode": 3, "pass_config": {"a": true}}',),
        ),
        ("chat-template: 'a b=c'\nresponse-role: ''\n", ("--chat-template=a b=c", "--response-role=")),
        ("root-path: /v2\nallowed-origins: ['x']\nallow-credentials: true\nlog-config-file: /l\n", ()),
        ("host: 0.0.0.0\nport: 80\nserved-model-name: [x, y]\nuvicorn_log_level: debug\nssl-keyfile: /k\n", ()),
        ("hf-token: true\n", ("--hf-token",)),
    ],
)
def test_arguments_are_canonical(text, expected):
    assert arguments(text) == expected


def test_the_model_stands_first_and_the_bytes_are_kept():
    config = read("max-model-len: 8 # eight\nmodel: org/name\n")
    assert argv(config, "/opt/vllm") == ("/opt/vllm", "serve", "org/name", "--max-model-len=8")
    assert config.text == "max-model-len: 8 # eight\nmodel: org/name\n"
    assert config.sha256 == hashlib.sha256(config.text.encode()).hexdigest()
    assert config.options == {"max-model-len": 8, "model": "org/name"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "quantisation: fp8\n",
            "serving.yaml:2: option 'quantisation' is no option of vLLM 0.32.0; did you mean 'quantization'?",
        ),
        ("quant: fp8\n", "did you mean"),
        ("tp: 2\n", "did you mean 'tensor-parallel-size'?"),
        ("compilation-config.mode: 3\n", "dotted key"),
        ("seed=3: 1\n", "no option"),
        ("max-model-len: 1\nmax_model_len: 2\n", "repeated"),
        ("enable-prefix-caching: true\nno-enable-prefix-caching: true\n", "the same option as 'enable-prefix-caching'"),
        ("gpu-memory-utilization: 0.5\ndevice-memory-utilization: 0.6\n", "the same option"),
        ("enforce-eager: 1\n", "takes true or false, not 1"),
        ("enforce-eager: 'true'\n", "takes true or false"),
        ("quantization: true\n", "needs a value"),
        ("tokenizer:\n", "would read the text 'None'"),
        ("quantization: [fp8, x]\n", "takes one value"),
        ("quantization: []\n", "takes one value"),
        ("logits-processors: [{a: b}]\n", "holds {'a': 'b'} in its list"),
        ("logits-processors: [true]\n", "holds True"),
        ("chat-template: --trust-remote-code\n", "read as an option"),
        ("logits-processors: [a, -x]\n", "read as an option"),
        ("mm-processor-cache-gb: -1.5\n", "read as an option"),
        ('tokenizer: "a\\0b"\n', "NUL"),
        ('tokenizer: "\\ud800"\n', "lone surrogate"),
        ("api-key: [sk-1]\n", "holds a secret"),
        ("hf-token: hf_x\n", "HF_TOKEN"),
        ("model-loader-extra-config: {a: [{secret_key: x}]}\n", "secret under 'secret_key'"),
        ("config: other.yaml\n", "ignored by vLLM inside a config file"),
        ("headless: true\n", "no HTTP API"),
        ("grpc: true\n", "no HTTP API"),
    ],
)
def test_what_vllm_would_take_for_something_else_is_refused(text, expected):
    assert expected in refusal(text)


def test_a_refusal_shows_no_secret():
    assert "sk-1" not in refusal("api-key: [sk-1]\n")
    assert "hf_x" not in refusal("hf-token: hf_x\n")
    assert "xyz" not in refusal("kv-transfer-config: {password: xyz}\n")


def test_a_model_is_needed():
    for text in ("seed: 1\n", "model: 3\n", "model: ''\n"):
        with pytest.raises(UsageError, match="`model` is missing"):
            read(text)


def test_options_of_another_version_can_be_declared():
    config = read_serving_config("model: /m\nbrand_new: [1, 2]\nflag: true\n", "s", also_known=("brand-new", "flag"))
    assert argv(config, "vllm")[3:] == ("--brand-new", "1", "2", "--flag")


def test_notes_tell_what_is_replaced_and_what_vllm_drops():
    told = notes(read("model: /m\nport: 80\nenable-prefix-caching: false\nenforce-eager: false\nlogits-processors: []\n"))
    assert len(told) == 3
    assert "a free port is used" in told[0]
    assert "write `no-enable-prefix-caching: true`" in told[1]
    assert "`logits-processors: []` changes nothing" in told[2]


def test_knobs_are_the_options_that_have_an_effect():
    baseline = arm("model: /m\nport: 1\nseed: 0\nenforce-eager: false\nenable-prefix-caching: true\nmax-num-seqs: 8\n")
    candidate = arm(
        "model: /m\nport: 2\nmax_num_seqs: '8'\nno-enable-prefix-caching: true\nquantization: fp8\n"
        "speculative-config: {a: 1, b: 2}\n"
    )
    knobs = {knob.name: (knob.baseline, knob.candidate, knob.source) for knob in differing_options(baseline, candidate)}
    assert knobs == {
        "seed": (0, None, "serving config"),
        "enable-prefix-caching": (True, False, "serving config"),
        "quantization": (None, "fp8", "serving config"),
        "speculative-config": (None, {"a": 1, "b": 2}, "serving config"),
    }
    assert differing_options(baseline, baseline) == ()


def test_a_null_that_has_an_effect_is_no_absent_option():
    knobs = differing_options(arm("model: /m\n"), arm("model: /m\nquantization:\n"))
    assert [(knob.name, knob.baseline, knob.candidate) for knob in knobs] == [("quantization", None, "None")]


def test_executable_and_environment_are_knobs_and_secrets_stay_hidden():
    knobs = differing_options(
        arm("model: /m\n", A="1", HF_TOKEN="one"), arm("model: /m\n", "/opt/next/vllm", A="2", HF_TOKEN="two", B="x")
    )
    shown = {knob.name: (knob.baseline, knob.candidate) for knob in knobs}
    assert shown == {
        "engine.executable": ("vllm", "/opt/next/vllm"),
        "environment.A": ("1", "2"),
        "environment.B": (None, "x"),
        "environment.HF_TOKEN": ("(not shown)", "(not shown)"),
    }
