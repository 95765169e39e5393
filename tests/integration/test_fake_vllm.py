"""The fake answers in the shapes that were recorded from vLLM 0.32.0, so tests that use it mean something."""

import json
import os
import subprocess
import sys
import urllib.request

import pytest

from servegate.engines.readiness import ask
from servegate.engines.vllm import VllmEngine
from servegate.errors import UsageError
from tests.fakes import install
from tests.integration.test_engine_life import arm_of

# keys as recorded from `POST /v1/completions` (token ids as prompt, logprobs, return_token_ids) of vLLM 0.32.0 on a CPU
CHOICE = {"index", "text", "logprobs", "finish_reason", "stop_reason", "token_ids", "prompt_logprobs", "prompt_token_ids"}
BENCH = {
    "backend", "completed", "failed", "duration", "num_prompts", "max_concurrency", "total_input_tokens", "total_output_tokens",
    "output_throughput", "request_throughput", "input_lens", "output_lens", "ttfts", "itls", "errors", "mean_ttft_ms",
    "median_ttft_ms", "std_ttft_ms", "p99_ttft_ms", "p50_tpot_ms", "p99_itl_ms", "p90_e2el_ms",
}  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    directory = tmp_path_factory.mktemp("fake")
    executable = install(directory)
    with VllmEngine(gate="gate").session(arm_of(executable), directory / "server.log") as session:
        yield executable, session.endpoint


def post(endpoint, path: str, **body):
    answer = ask(f"{endpoint.base_url}{path}", 10, {"model": endpoint.model, **body}, api_key=endpoint.api_key)
    assert answer.value is not None, answer.problem
    return answer.value


def test_text_round_trips_through_tokens(served):
    _, endpoint = served
    messages = [{"role": "user", "content": "Grüße 你好 🎉 <|im_end|> {}"}]
    rendered = post(endpoint, "/tokenize", messages=messages, add_generation_prompt=True)
    assert rendered.keys() == {"count", "max_model_len", "tokens", "token_strs"}
    assert rendered["count"] == len(rendered["tokens"])
    text = post(endpoint, "/detokenize", tokens=rendered["tokens"])["prompt"]
    assert text == "<|im_start|>user\nGrüße 你好 🎉 <|im_end|> {}<|im_end|>\n<|im_start|>assistant\n"


def test_a_completion_has_the_recorded_shape_and_is_deterministic(served):
    _, endpoint = served
    options = {
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
        "logprobs": 3,
        "max_tokens": 4,
        "prompt_logprobs": 0,
    }
    first, second = (post(endpoint, "/v1/completions", prompt=[1, 9690, 198], **options) for _ in range(2))
    choice = first["choices"][0]
    assert choice.keys() == CHOICE
    assert choice == second["choices"][0]
    assert choice["prompt_token_ids"] == [1, 9690, 198]
    assert choice["finish_reason"] == "length"
    assert len(choice["token_ids"]) == 4
    assert [int(token.removeprefix("token_id:")) for token in choice["logprobs"]["tokens"]] == choice["token_ids"]
    assert all(len(top) == 3 for top in choice["logprobs"]["top_logprobs"])
    assert choice["prompt_logprobs"][0] is None
    assert list(choice["prompt_logprobs"][1]) == ["9690"]
    assert first["usage"]["completion_tokens"] == 4


def test_stops_limits_and_errors(served):
    _, endpoint = served
    prompt = "Question: 2 apples and 3 pears?\nAnswer:"
    whole = post(endpoint, "/v1/completions", prompt=prompt, max_tokens=100)["choices"][0]
    assert whole["text"].endswith("#### 5")
    assert whole["finish_reason"] == "stop"
    cut = post(endpoint, "/v1/completions", prompt=[prompt], max_tokens=100, stop=["####"])["choices"][0]
    assert whole["text"].startswith(cut["text"])
    assert "####" not in cut["text"]
    chat = post(endpoint, "/v1/chat/completions", messages=[{"role": "user", "content": "as JSON: 1, 2"}], max_tokens=200)
    assert json.loads(chat["choices"][0]["message"]["content"])["answer"] == 3
    url, key = f"{endpoint.base_url}/v1/completions", endpoint.api_key
    assert ask(url, 5, {"model": "other", "prompt": "x"}, api_key=key).status == 404
    too_long = ask(url, 5, {"model": endpoint.model, "prompt": [1] * 5000}, api_key=key)
    assert (too_long.status, "maximum context length is 4096" in too_long.problem) == (400, True)


def test_bench_serve_really_loads_the_server(served, tmp_path):
    executable, endpoint = served
    options = f"""
        --base-url={endpoint.base_url} --model={endpoint.model} --num-prompts=6 --max-concurrency=3 --random-input-len=32
        --random-output-len=8 --ignore-eos --seed=1 --save-result --save-detailed --result-filename=r.json
        --metric-percentiles=50,90,99
    """
    command = [executable, "bench", "serve", *options.split(), f"--result-dir={tmp_path}"]
    before = ask_metrics(endpoint)
    environment = {**os.environ, "OPENAI_API_KEY": endpoint.api_key}
    subprocess.run(command, check=True, capture_output=True, timeout=30, env=environment)
    result = json.loads((tmp_path / "r.json").read_text())
    assert result.keys() >= BENCH
    assert (result["completed"], result["failed"], result["total_output_tokens"], result["total_input_tokens"]) == (
        6,
        0,
        48,
        192,
    )
    assert 0 < result["mean_ttft_ms"] <= result["mean_e2el_ms"]
    assert ask_metrics(endpoint) - before == 48


def ask_metrics(endpoint) -> float:
    with urllib.request.urlopen(f"{endpoint.base_url}/metrics", timeout=5) as reply:
        page = reply.read().decode()
    assert "generation_tokens_total" in page
    return float(page.split("generation_tokens_total{")[1].split("} ")[1].split()[0])


def test_flips_change_some_answers_and_not_all(tmp_path):
    executable = install(tmp_path)
    texts = []
    for fault in ("", "flip-some-answers"):
        with VllmEngine(gate="gate").session(arm_of(executable, fault), tmp_path / "server.log") as session:
            prompts = [f"Question: {number} and 1?\nAnswer:" for number in range(40)]
            choices = post(session.endpoint, "/v1/completions", prompt=prompts, max_tokens=100)["choices"]
            texts.append([choice["text"] for choice in choices])
    different = sum(a != b for a, b in zip(*texts, strict=True))
    assert 2 <= different <= 20


def test_it_is_installed_and_run_by_the_command_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "servegate", "fake-engine", "--install", str(tmp_path / "bin")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    installed = tmp_path / "bin" / "vllm"
    assert done.stdout.startswith(str(installed))
    version = subprocess.run([installed, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert version.strip() == "0.32.0"


def test_a_real_engine_is_never_overwritten(tmp_path):
    (tmp_path / "vllm").write_text("#!/usr/bin/python\n")
    with pytest.raises(UsageError, match="is no fake engine"):
        install(tmp_path)
    assert (tmp_path / "vllm").read_text() == "#!/usr/bin/python\n"
    assert install(tmp_path / "new") == install(tmp_path / "new")
