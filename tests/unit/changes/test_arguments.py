"""Arguments out of other people's files: data, with one plain meaning or a refusal."""

from __future__ import annotations

import pytest
import yaml

from servegate.changes import take
from servegate.errors import UsageError

BOOLEANS = frozenset({"enforce-eager", "enable-prefix-caching", "no-enable-prefix-caching", "trust-remote-code"})
MANIFEST = """\
apiVersion: v1
kind: Service
metadata: {name: vllm}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: vllm}
spec:
  template:
    spec:
      containers:
        - name: proxy
          args: [x]
        - name: vllm
          args: [--model=org/m, --max-model-len, "4096", --enforce-eager, --kv_cache_dtype=fp8]
          env:
            - {name: VLLM_USE_DEEP_GEMM, value: "0"}
            - {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hub, key: token}}}
"""
ARGS = "spec.template.spec.containers[name=vllm].args"
ENV = "spec.template.spec.containers[name=vllm].env"


def taken(text, arguments, environment=None, document=None):
    found = take(text, "k.yaml", arguments, environment, document, BOOLEANS)
    return yaml.safe_load(found.text), dict(found.environment)


def refusal(text, arguments="args", environment=None, document=None):
    with pytest.raises(UsageError) as caught:
        take(text, "k.yaml", arguments, environment, document, BOOLEANS)
    return caught.value.what


def test_a_kubernetes_manifest():
    options, environment = taken(MANIFEST, ARGS, ENV, "Deployment")
    assert options == {"model": "org/m", "max-model-len": "4096", "enforce-eager": True, "kv-cache-dtype": "fp8"}
    assert environment == {"VLLM_USE_DEEP_GEMM": "0"}
    assert take(MANIFEST, "k", ARGS, ENV, "Deployment/vllm", BOOLEANS).elsewhere


def test_a_compose_file_and_a_command_line():
    text = (
        "services:\n  vllm:\n    command: vllm serve org/m --seed 3 --enforce-eager --max-num-seqs=8\n    environment: [A=1]\n"
    )
    options, environment = taken(text, "services.vllm.command", "services.vllm.environment")
    assert options == {"model": "org/m", "seed": "3", "enforce-eager": True, "max-num-seqs": "8"}
    assert environment == {"A": "1"}


def test_helm_values_as_a_mapping_and_as_a_list():
    assert taken("vllm:\n  args: {model: org/m, max-num-seqs: 8}\n", "vllm.args")[0] == {"model": "org/m", "max-num-seqs": 8}
    assert taken("a: [{b: [serve, /m, --cudagraph-capture-sizes, 1, 2]}]\n", "a[0].b")[0] == {
        "model": "/m",
        "cudagraph-capture-sizes": ["1", "2"],
    }


def test_a_negative_number_is_a_value_and_a_dash_word_is_not():
    assert taken("args: [--seed, -1]\n", "args")[0] == {"seed": "-1"}
    assert "'-tp', which is no complete option" in refusal("args: [--model, m, -tp, 2]\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("args: vllm serve m; touch /x\n", "a shell would expand"),
        ("args: vllm serve $(cat /etc/passwd)\n", "a shell would expand"),
        ("args: 'vllm serve \"m'\n", "no command line"),
        ("args: [--model, $(MODEL)]\n", "filled in elsewhere"),
        ("args: ['--model=${MODEL}']\n", "filled in elsewhere"),
        ("args: [--seed=1, --seed=2]\n", "gives 'seed' twice"),
        ("args: [--enforce-eager, yes]\n", "neither a list"),
        ("args: [--enforce-eager, 'yes']\n", "no complete option"),
        ("args: [--compilation-config.mode=3]\n", "no complete option"),
        ("args: [[--seed]]\n", "neither a list"),
        ("args: 3\n", "neither a list"),
        ("other: 3\n", "nothing at 'args'"),
        ("args: [a]\n---\nargs: [b]\n", "2 YAML documents"),
        ("<<: {args: [a]}\n", "merge keys"),
        ("args: &a [*a]\n", "nested deeper"),
    ],
)
def test_what_has_no_one_plain_meaning_is_refused(text, expected):
    assert expected in refusal(text)


@pytest.mark.parametrize("path", ["", ".", "args[", "a b]", "args[x]", "[name=]]"])
def test_a_path_that_is_none(path):
    with pytest.raises(UsageError):
        take("args: [serve, m]\n", "k", path, None, None, BOOLEANS)


def test_a_selector_that_matches_two_is_as_wrong_as_none():
    twice = "c: [{name: v, args: []}, {name: v, args: []}]\n"
    assert "2 items with name=v" in refusal(twice, "c[name=v].args")
    assert "0 items with name=w" in refusal(twice, "c[name=w].args")


@pytest.mark.parametrize(
    "text", ["env: [A]\nargs: [m]\n", "env: [A=1, A=2]\nargs: [m]\n", "env: {A: }\nargs: [m]\n", "env: ['A=${B}']\nargs: [m]\n"]
)
def test_variables_that_are_not_plain(text):
    assert "k.yaml: env" in refusal(text, environment="env")
