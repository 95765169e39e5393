"""A pull request's serving config is data. Each refusal here is a way in which a value could have run or reached something."""

from __future__ import annotations

import pytest

from servegate.engines.options import known_options
from servegate.engines.serving_config import read_serving_config
from servegate.engines.trust import Grant, check_head, check_head_environment, rules
from servegate.errors import UsageError

BASE = "model: org/m\nrevision: " + "a" * 40 + "\nmax-num-seqs: 8\nchat-template: t.jinja\n"
NEW = "b" * 40

# What imports or executes code, and what reaches the host or the network.
ONLY_FROM_BASE = """
trust-remote-code code-revision worker-cls worker-extension-cls scheduler-cls logits-processors middleware
io-processor-plugin tool-parser-plugin reasoning-parser-plugin model-class-overrides kv-transfer-config ec-transfer-config
model-loader-extra-config additional-config allowed-local-media-path allowed-media-domains download-dir chat-template
generation-config hf-config-path hf-overrides lora-modules profiler-config otlp-traces-endpoint collect-detailed-traces
tool-server data-parallel-address master-addr weight-transfer-config kv-events-config default-mm-loras
""".split()  # noqa: SIM905


def check(head: str, base: str | None = BASE, grant: Grant | None = None) -> None:
    before = None if base is None else read_serving_config(base, "serving/m.yaml")
    check_head(read_serving_config(head, "serving/m.yaml"), before, grant or Grant())


def refusal(head: str, base: str | None = BASE, grant: Grant | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        check(head, base, grant)
    return f"{caught.value.what} | {caught.value.advice}"


def value_for(name: str) -> str:
    option = known_options()[name]
    return "true" if option.is_boolean else "[a]" if option.kind == "list" else "x"


def test_every_rule_is_about_an_option_that_exists():
    named = [name for name in rules() if not name.startswith("$")]
    assert len(named) > 100
    assert [name for name in named if name.partition(".")[0] not in known_options()] == []
    forms = {"flag", "number", "numbers", "word", "words", "one-of", "mapping", "source", "revision", "base"}
    assert {rule.form for rule in rules().values()} == forms
    booleans = [name for name in named if rules()[name].form == "flag" and "." not in name]
    assert [name for name in booleans if not known_options()[name].is_boolean] == []


@pytest.mark.parametrize("name", ONLY_FROM_BASE)
def test_what_imports_or_reaches_out_comes_from_the_base_branch_only(name):
    said = refusal(f"{BASE.replace('chat-template: t.jinja', '')}{name}: {value_for(name)}\n")
    assert f"serving/m.yaml:5: a pull request may not set '{name}'" in said
    assert f"changes.allow.options: [{name}]" in said


def test_every_option_is_refused_unless_it_is_on_the_list():
    refused = []
    for name, option in known_options().items():
        if option.name != name or name in ("model", "revision"):
            continue
        try:
            check(f"model: org/m\nrevision: {'a' * 40}\n{name}: {value_for(name)}\n")
        except UsageError:
            refused.append(name)
    allowed = {o.name for o in known_options().values()} - set(refused) - {"model", "revision"}
    # `x` is a plain word; everything that took it is on the list as a word or flag, and nothing else did.
    assert all(rules()[name].form in {"flag", "word", "words"} for name in allowed)
    assert len(refused) > 230


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("distributed-executor-backend: my.module.Executor", "not one of mp, uni, ray"),
        ("distributed-executor-backend: external_launcher", "not one of mp, uni, ray"),
        ("load-format: pt", "not one of auto, safetensors, dummy"),
        ("load-format: tensorizer", "not one of"),
        ("tokenizer-mode: my_plugin", "not one of"),
        ("quantization: a.b", "not a plain word"),
        ("attention-backend: /x.so", "not a plain word"),
        ("reasoning-parser: http://x", "not a plain word"),
        ("max-model-len: ../x", "not a plain number"),
        ("compilation-config: {backend: a.b}", "has the key 'backend'"),
        ("compilation-config: {cache_dir: /x}", "has the key 'cache_dir'"),
        ("compilation-config: {inductor_passes: {a: b.c}}", "has the key 'inductor_passes'"),
        ('compilation-config: \'{"debug_dump_path": "/x"}\'', "has the key 'debug_dump_path'"),
        ("compilation-config: {mode: a.b}", "has the key 'mode'"),
        ("compilation-config: x", "takes a mapping"),
        ("speculative-config: {method: custom_class, model: a.b.C}", "has the key 'method'"),
        ("speculative-config: {method: eagle, model: evil/draft}", "has the key 'model'"),
    ],
)
def test_a_value_that_names_code_a_file_or_an_address_is_refused(line, expected):
    assert expected in refusal(f"{BASE}{line}\n")


@pytest.mark.parametrize(
    "text",
    [
        "quantization: fp8_per_channel\nkv-cache-dtype: fp8\nmax-model-len: 32k\nmax-num-seqs: 256\n",
        "no-enable-prefix-caching: true\nenforce-eager: true\ngpu-memory-utilization: 0.92\nseed: -1\n",
        "compilation-config: {mode: 3, cudagraph_mode: FULL_AND_PIECEWISE, cudagraph_capture_sizes: [1, 2, 4]}\n",
        "compilation-config: '{\"mode\": 0}'\n",
        "speculative-config: {method: ngram, num_speculative_tokens: 4, prompt_lookup_max: 4}\n",
        "distributed-executor-backend: mp\ntensor-parallel-size: 2\nload-format: safetensors\n",
        "trust-remote-code: false\n",
    ],
)
def test_the_ordinary_changes_of_a_pull_request_pass(text):
    check(BASE.replace("max-num-seqs: 8\n", "") + text)


def test_what_the_base_branch_says_already_may_stay():
    base = BASE + "trust-remote-code: true\nlogits-processors: [a.b]\nspeculative-config: {method: eagle, model: org/d}\n"
    check(base + "max-model-len: 8\n", base)
    check(base.replace("model: org/d", "model: org/d, num_speculative_tokens: 3"), base)
    assert "'logits-processors'" in refusal(base.replace("a.b", "a.c"), base)
    assert "'model'" in refusal(base.replace("org/d", "org/e"), base)


def test_the_base_branch_may_allow_an_option_by_its_exact_name():
    check(BASE + "hf-overrides: {a: 1}\n", grant=Grant(options=frozenset({"hf-overrides"})))
    assert "hf-overrides" in refusal(BASE + "hf-overrides: {a: 1}\n", grant=Grant(options=frozenset({"hf-*"})))


# -- which model --------------------------------------------------------------------------------------------------


def test_a_new_model_comes_from_the_base_branchs_globs_pinned_and_as_safetensors():
    new = f"model: org/m-fp8\nrevision: {NEW}\nload-format: safetensors\n"
    grant = Grant(models=("org/*",))
    check(new, grant=grant)
    assert "the base branch has not named" in refusal(new)
    assert "the base branch has not named" in refusal(new.replace("org/", "evil/"), grant=grant)
    assert "not pinned to a commit" in refusal(new.replace(NEW, "main"), grant=grant)
    assert "not pinned to a commit" in refusal(new.replace(f"revision: {NEW}\n", ""), grant=grant)
    assert "safetensors" in refusal(new.replace("load-format: safetensors\n", ""), grant=grant)


@pytest.mark.parametrize(
    "model", ["org/../etc", "./org/m", "s3://org/m", "org/m.gguf", "/models/../etc", "org/m:Q4", "org/a/b"]
)
def test_what_only_looks_like_an_allowed_model_is_refused(model):
    text = f"model: {model}\nrevision: {NEW}\nload-format: safetensors\n"
    assert "the base branch has not named" in refusal(text, grant=Grant(models=("org/*", "/models/**", "./org/*", "s3://**")))


def test_a_directory_of_the_machine_needs_no_commit():
    check("model: /models/m-fp8\nload-format: safetensors\n", grant=Grant(models=("/models/*",)))


def test_another_revision_of_the_same_model_is_pinned_too():
    check(BASE.replace("a" * 40, NEW))
    assert "not pinned" in refusal(BASE.replace("a" * 40, "refs/pr/7"))
    assert "not pinned" in refusal(BASE.replace(f"revision: {'a' * 40}\n", ""))


def test_with_remote_code_on_nothing_that_is_loaded_may_change():
    """Anybody can push a commit to a hub repository's pull request; pinned to it, its code would run here."""
    base = BASE + "trust-remote-code: true\n"
    grant = Grant(models=("org/*",))
    for head in (base.replace("a" * 40, NEW), base + f"tokenizer: org/t\ntokenizer-revision: {NEW}\n"):
        assert "would choose the code that runs" in refusal(head, base, grant)


def test_a_new_file_is_held_to_the_list_alone():
    new = f"model: org/m\nrevision: {NEW}\nload-format: safetensors\n"
    check(new, None, Grant(models=("org/m",)))
    assert "trust-remote-code" in refusal(new + "trust-remote-code: true\n", None, Grant(models=("org/m",)))


# -- environment --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LD_PRELOAD", "/x.so"),
        ("PYTHONPATH", "/x"),
        ("VLLM_PLUGINS", "evil"),
        ("VLLM_NCCL_SO_PATH", "/x.so"),
        ("VLLM_MODEL_REDIRECT_PATH", "/x"),
        ("HF_ENDPOINT", "http://evil"),
        ("VLLM_ALLOW_INSECURE_SERIALIZATION", "1"),
        ("vllm_use_deep_gemm", "1"),
        ("VLLM_USE_DEEP_GEMM", "$(touch x)"),
        ("VLLM_USE_DEEP_GEMM ", "1"),
    ],
)
def test_a_variable_of_head_is_on_the_list_by_its_exact_name(name, value):
    with pytest.raises(UsageError, match="environment variable"):
        check_head_environment({name: value}, {}, Grant(), "k8s.yaml")


def test_variables_on_the_list_of_the_base_or_granted():
    check_head_environment({"VLLM_USE_DEEP_GEMM": "0", "NCCL_DEBUG": "INFO"}, {"NCCL_DEBUG": "INFO"}, Grant(), "k8s.yaml")
    check_head_environment({"NCCL_DEBUG": "WARN"}, {}, Grant(environment=frozenset({"NCCL_DEBUG"})), "k8s.yaml")
