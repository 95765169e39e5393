"""Our canonical arguments mean to vLLM's own parser what its own reading of the YAML means.

Needs an engine: set SERVEGATE_TEST_ENGINE to a `vllm` executable of the version whose options ship with servegate.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from servegate.engines.options import VLLM_VERSION, known_options
from servegate.engines.serving_config import argv, read_serving_config
from tests.conftest import missing

ENGINE = os.environ.get("SERVEGATE_TEST_ENGINE", "")
pytestmark = pytest.mark.end_to_end


@pytest.fixture(autouse=True)
def _engine() -> None:
    """Without an engine these are skipped, and fail where everything is required."""
    if not ENGINE:
        missing("SERVEGATE_TEST_ENGINE (a vllm executable)")


CONFIGS = [
    "model: /m\n",
    "model: /m\ndtype: bfloat16\nmax_model_len: 2048\nenforce-eager: true\n",
    "model: /m\nmax-model-len: 2k\ngpu-memory-utilization: 0.85\nseed: -1\n",
    "model: /m\nmax-model-len: 010\nmax-num-seqs: 1_000\nkv-cache-memory-bytes: 1G\n",
    "model: /m\nenable-prefix-caching: false\nenforce-eager: false\nasync-scheduling: off\n",
    "model: /m\nno-enable-prefix-caching: true\nno_async_scheduling: yes\n",
    "model: /m\nquantization: null\nrevision: ~\nattention-backend:\n",
    "model: /m\nquantization: fp8_per_channel\nkv-cache-dtype: fp8\n",
    "model: /m\ncompilation-config: {mode: 0, cudagraph_mode: NONE, pass_config: {fuse_norm_quant: true}}\n",
    'model: /m\nhf-overrides: {rope_scaling: {factor: 2.5, note: "ü \\" \' ="}}\n',
    "model: /m\noverride-generation-config: {temperature: 0.5}\n",
    "model: /m\ncudagraph-capture-sizes: [1, 2, 4]\nallowed-media-domains: [a.example, b.example]\nmax-num-seqs: 4\n",
    "model: /m\ncudagraph-capture-sizes: [1]\nlogits-processors: []\nignore-patterns: 'original/*'\n",
    'model: /m\nlora-modules: [\'a=/x\', \'{"name": "b", "path": "/y"}\']\nenable-lora: true\n',
    "model: /m\nlora-modules: {name: b, path: /y}\n",
    "model: /m\nmiddleware: [a.b]\nresponse-role: ''\n",
    "model: org/name\ntokenizer: 'two words'\nchat-template: 'a=b --c {{ x }}'\n",
    "model: /m\nspeculative-config: {method: ngram, num_speculative_tokens: 3, prompt_lookup_max: 2}\n",
    "model: /m\nlimit-mm-per-prompt: {image: 2}\nenable-log-requests: true\ndisable-log-stats: true\n",
]

PARSE = """
import json, sys
sys.argv = ["vllm", "serve"]
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.entrypoints.cli.serve import cmd_init
parser = FlexibleArgumentParser(description="vLLM CLI")
serve = cmd_init()[0].subparser_init(parser.add_subparsers(required=False, dest="subparser"))
answers = []
for arguments in json.load(sys.stdin):
    try:
        values = vars(parser.parse_args(arguments))
        values["model"] = values.pop("model_tag") or values["model"]
        answers.append({name: repr(value) for name, value in values.items() if name != "config"})
    except SystemExit:
        answers.append(None)
names = sorted(option[2:] for action in serve._actions for option in action.option_strings if option.startswith("--"))
print("ANSWER" + json.dumps([answers, names]))
"""


def parsed(arguments: list[list[str]]) -> tuple[list[dict[str, str] | None], list[str]]:
    done = subprocess.run(
        [Path(ENGINE).parent / "python", "-c", PARSE],
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    answer = next((line for line in done.stdout.splitlines() if line.startswith("ANSWER")), None)
    assert answer, done.stderr[-3000:]
    return tuple(json.loads(answer.removeprefix("ANSWER")))


def test_canonical_arguments_mean_what_the_file_means(tmp_path):
    arguments = []
    for index, text in enumerate(CONFIGS):
        path = tmp_path / f"{index}.yaml"
        path.write_text(text, encoding="utf-8")
        arguments += [["serve", "--config", str(path)], list(argv(read_serving_config(text, str(path)), "vllm"))[1:]]
    answers, names = parsed(arguments)
    for index, text in enumerate(CONFIGS):
        theirs, ours = answers[2 * index], answers[2 * index + 1]
        assert theirs is not None, text
        assert ours == theirs, text
    # The shipped list of names is the list of the version that it says it is.
    assert set(known_options()) == set(names) - {"help"}, VLLM_VERSION
