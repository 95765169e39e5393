"""`vllm bench serve`: its command, recorded result files of 0.25.1 and 0.32.0, and results that must not be believed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from servegate.domain.load import Load, LoadSpec
from servegate.errors import MeasurementError
from servegate.http import HttpClient
from servegate.probes.bench_agreement import Request
from servegate.probes.bench_result import bench_argv, read_bench
from servegate.probes.load_generator import VllmBench
from servegate.probes.metrics import PrefixCache, hit_rate, prefix_cache
from servegate.subprocesses import Completed
from tests.fakes.completions_server import MODEL, CompletionsServer, hangs, says

SPEC = LoadSpec(input_tokens=256, output_tokens=16, concurrency=4, requests=8, warm_up_requests=3, seed=7, label="c4")


class Bench:
    """A stand-in for `subprocesses.run`: does what the tool would do to the disk, and keeps the command."""

    def __init__(self, content: bytes | None, *, returncode: int = 0, stderr: str = "", act: Callable[[], None] | None = None):
        self.content, self.returncode, self.stderr, self.act = content, returncode, stderr, act
        self.command: tuple[str, ...] = ()
        self.environment: dict[str, str] = {}
        self.timeout_s = 0.0

    def __call__(
        self, command: Sequence[str], *, timeout_s: float, environment: Mapping[str, str] | None, check: bool
    ) -> Completed:
        self.command, self.environment, self.timeout_s = tuple(command), dict(environment or {}), timeout_s
        options = dict(word[2:].partition("=")[::2] for word in command if word.startswith("--"))
        if self.act:
            self.act()
        if self.content is not None:
            Path(options["result-dir"], options["result-filename"]).write_bytes(self.content)
        return Completed(self.command, self.returncode, "said\n", self.stderr, 1.0)


def generator(server: CompletionsServer, directory: Path, bench: Bench) -> VllmBench:
    return VllmBench(server.endpoint, "/opt/vllm", directory, 60, bench, {"CUDA_VISIBLE_DEVICES": "0"})


def recording(recorded: Path, **changes: Any) -> bytes:
    return json.dumps({**json.loads((recorded / "bench" / "vllm-0.32.0.c4.json").read_bytes()), **changes}).encode()


def test_the_command(server: CompletionsServer) -> None:
    argv = bench_argv("/opt/vllm", server.endpoint, SPEC, Path("/out/c4.json"), cache_salt="s1")
    assert argv[:3] == ("/opt/vllm", "bench", "serve")
    for word in (
        f"--model={MODEL}", "--tokenizer=/models/tiny", "--dataset-name=random", "--random-input-len=256",
        "--random-output-len=16", "--ignore-eos", "--num-prompts=8", "--max-concurrency=4", "--seed=7", "--save-detailed",
        "--percentile-metrics=ttft,tpot,itl,e2el", "--metric-percentiles=50,90,95,99", "--result-dir=/out",
        "--result-filename=c4.json", f"--base-url={server.base_url}",
    ):  # fmt: skip
        assert word in argv
    body = json.loads(next(word for word in argv if word.startswith("--extra-body=")).partition("=")[2])
    assert body["cache_salt"] == "s1"
    assert (body["repetition_penalty"], body["temperature"]) == (1.0, 0.0)


def test_tokens_that_came_all_at_once_took_no_time_and_never_less() -> None:
    """A measurement with a time below 0 is refused when it is stored, and the whole load would be lost."""
    for begun_s in (81_234.567, 300_001.1, 912_345.678):
        for took_s in (0.013, 0.101, 0.7, 2.3):
            at_once = Request(begun_s, begun_s + took_s, took_s, [], prompt_tokens=16, tokens=8)
            assert 0 <= at_once.tpot_ms < 1e-6


@pytest.mark.parametrize(
    ("name", "spec", "tokens_per_second", "p99_ttft_ms", "mean_e2e_s"),
    [
        ("vllm-0.25.1.c8.json", SPEC.model_copy(update={"requests": 32, "concurrency": 8, "output_tokens": 128}),
         1239.605470064884, 153.86289268999917, 0.8245863771562512),
        ("vllm-0.32.0.c4.json", SPEC, 27.967511842267125, 1836.859969460022, 2.281033369249968),
    ],
)  # fmt: skip
def test_recorded_results(
    recorded: Path, name: str, spec: LoadSpec, tokens_per_second: float, p99_ttft_ms: float, mean_e2e_s: float
) -> None:
    """What is computed from the tool's times of single requests is what the tool itself computed from them."""
    load, (span,) = read_bench((recorded / "bench" / name).read_bytes(), spec, ("vllm",))
    (result,) = load.windows
    assert (result.requests, result.completed, result.failed, result.wrong_lengths) == (spec.requests, spec.requests, 0, 0)
    assert result.output_tokens_per_second == pytest.approx(tokens_per_second, rel=2e-3)
    assert span.ended_s - span.started_s == pytest.approx(result.duration_s)
    assert result.ttft_ms["p99"] == pytest.approx(p99_ttft_ms)
    assert result.e2e_latency_s["mean"] == pytest.approx(mean_e2e_s, rel=1e-5)
    assert set(result.itl_ms) == {"mean", "std", "p50", "p90", "p95", "p99"}
    assert result.prefix_cache_hit_rate is None
    assert len(load.columns["ttft_ms"]) == spec.requests
    own = json.loads((recorded / "bench" / name).read_bytes())
    for metric, values in (("ttft", result.ttft_ms), ("tpot", result.tpot_ms), ("itl", result.itl_ms)):
        if metric == "itl" and name.startswith("vllm-0.32"):
            continue  # this recording keeps two times between tokens a request
        for percentile in ("p50", "p90", "p95", "p99"):
            assert values[percentile] == pytest.approx(own[f"{percentile}_{metric}_ms"], rel=1e-3)


def test_one_run_is_cut_into_windows_where_its_requests_end(recorded: Path) -> None:
    spec = SPEC.model_copy(update={"requests": 8, "concurrency": 8, "output_tokens": 128, "windows": 3, "lead_in": 8})
    load, spans = read_bench((recorded / "bench" / "vllm-0.25.1.c8.json").read_bytes(), spec, ("vllm",))
    assert [window.completed for window in load.windows] == [8, 8, 8]
    assert [(window.first_row, window.rows) for window in load.windows] == [(0, 8), (8, 8), (16, 8)]
    assert all(before.ended_s == after.started_s for before, after in itertools.pairwise(spans))
    # four equal rounds of 8: each of the counted three takes about a quarter of the 3.304 s
    assert all(window.duration_s == pytest.approx(3.304 / 4, rel=0.1) for window in load.windows)
    assert all(window.output_tokens == 8 * 128 for window in load.windows)
    assert len(load.columns["tokens"]) == 24


def test_failed_and_short_answers_are_counted_and_nothing_is_estimated(recorded: Path) -> None:
    recording_ = json.loads((recorded / "bench" / "vllm-0.25.1.c8.json").read_bytes())
    recording_["output_lens"][3] = 0
    recording_["errors"][3] = "stream ended"
    recording_["output_lens"][5] = 100
    tokens = sum(recording_["output_lens"])
    recording_ |= {"completed": 31, "failed": 1, "total_output_tokens": tokens}
    spec = SPEC.model_copy(update={"requests": 16, "concurrency": 8, "output_tokens": 128, "windows": 2})
    windows = read_bench(json.dumps(recording_).encode(), spec, ("vllm",))[0].windows
    assert [(window.requests, window.completed, window.failed) for window in windows] == [(16, 16, 0), (16, 15, 1)]
    assert sum(window.wrong_lengths for window in windows) == 1
    assert sum(window.output_tokens for window in windows) == tokens


def test_a_result_of_an_older_tool_is_read_by_the_keys_it_has(recorded: Path) -> None:
    """No `failed`, and a goodput key with a colon in its name, as older copies of the tool wrote."""
    old = json.loads(recording(recorded, completed=7, total_output_tokens=112))
    del old["failed"]
    old["request_goodput:"] = None
    old["output_lens"][2], old["errors"][2] = 0, "Never received a valid chunk"
    (window,) = read_bench(json.dumps(old).encode(), SPEC, ())[0].windows
    assert (window.requests, window.completed, window.failed) == (8, 7, 1)
    del old["itls"]
    with pytest.raises(ValueError, match="itls is no list"):
        read_bench(json.dumps(old).encode(), SPEC, ())


def test_tokens_are_the_servers_count_and_not_the_number_of_chunks(recorded: Path) -> None:
    content = (recorded / "bench" / "vllm-0.32.0.c4.json").read_bytes()
    assert {len(times) + 1 for times in json.loads(content)["itls"]} == {3}
    (window,) = read_bench(content, SPEC, ())[0].windows
    assert (window.output_tokens, window.wrong_lengths) == (8 * 16, 0)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("start_times", None, "start_times is no list"),
        ("ttfts", [0.1], "ttfts is no list of 8 values"),
        ("itls", [["x"]] * 8, "hold something else than times"),
        ("start_times", [float(i) for i in range(8)], "duration is 4.577 s, but the 8 requests came within 9"),
    ],
)
def test_times_that_contradict_the_result_are_refused(recorded: Path, name: str, value: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_bench(recording(recorded, **{name: value}), SPEC, ())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"completed": 0, "failed": 8, "errors": ["", "Traceback\nOSError: gone\n"]}, "none of 8 requests.*: OSError: gone"),
        ({"completed": 5, "failed": 2}, "5 completed and 2 failed requests are not 8"),
        ({"num_prompts": 9}, "about 9 requests"),
        ({"max_concurrency": 8}, "at 8 in flight"),
        ({"output_throughput": 0.0}, "output_throughput is 0.0"),
        ({"duration": None}, "duration is None"),
        ({"p50_ttft_ms": "fast"}, "p50_ttft_ms is 'fast'"),
        ({"completed": 7, "failed": 1}, "completed is 7, but 8 requests brought tokens"),
        ({"total_output_tokens": 127}, "is 127, but output_lens add up to 128"),
        ({"completed": True}, "completed is True"),
        ({"output_throughput": 5 * 27.967511842267125}, "output_throughput is 139.838, but its requests say 27.968"),
        ({"p50_ttft_ms": 1.0}, "p50_ttft_ms is 1.000, but its requests say"),
        ({"p50_e2el_ms": 1.0}, "p50_e2el_ms is 1.000, but its requests say"),
        ({"total_input_tokens": 1}, "total_input_tokens is 1, but input_lens add up to 2048"),
        ({"latencies": [0.0] * 8}, "ended 0.0 s after it was sent, before its first token"),
        ({"ttfts": [10**400] * 8}, "hold something else than times"),
        ({"output_lens": [10**30] * 8, "total_output_tokens": 8 * 10**30}, "something else than numbers of tokens"),
    ],
)
def test_results_that_must_not_be_believed(recorded: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_bench(recording(recorded, **changes), SPEC, ())


def test_more_in_flight_than_asked_for_is_another_load(recorded: Path) -> None:
    """All eight at once, with totals to match, were read as 1.8 times the speed at four in flight."""
    result = json.loads(recording(recorded))
    result["start_times"] = [min(result["start_times"])] * 8
    result["duration"] = max(result["latencies"])
    result["output_throughput"] = result["total_output_tokens"] / result["duration"]
    with pytest.raises(ValueError, match="8 requests were in flight at once, and 4 were asked for"):
        read_bench(json.dumps(result).encode(), SPEC, ())


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"duration": NaN}', b'{"completed": 1, "completed": 2}'])
def test_what_is_not_strict_json_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_bench(content, SPEC, ())


def test_a_point_is_warmed_up_run_and_read(server: CompletionsServer, recorded: Path, tmp_path: Path) -> None:
    bench = Bench(recording(recorded))
    load = generator(server, tmp_path / "raw", bench).load(SPEC)
    assert isinstance(load, Load)
    (result,) = load.windows
    assert result.command == bench.command
    assert (result.telemetry, result.telemetry_reason) == (None, "not observed: nobody looked at the machine")
    assert [(len(body["prompt"]), body["max_tokens"], body["ignore_eos"]) for body in server.bodies] == [(256, 16, True)] * 3
    assert len({tuple(body["prompt"]) for body in server.bodies}) == 3
    assert bench.environment["CUDA_VISIBLE_DEVICES"] == "0"
    assert "127.0.0.1" in bench.environment["NO_PROXY"]
    assert "PATH" in bench.environment
    assert (tmp_path / "raw" / "c4.log").read_text().startswith("said\n")


def test_the_hit_rate_is_what_the_counters_gained_during_the_point(
    server: CompletionsServer, recorded: Path, tmp_path: Path
) -> None:
    server.queries, server.hits = 1000.0, 900.0

    def act() -> None:
        for salt in ("a", "a", "b", "b"):
            with HttpClient(server.base_url, total_s=5) as client:
                client.post("/v1/completions", {"prompt": [1, 2], "cache_salt": salt})

    (result,) = generator(server, tmp_path, Bench(recording(recorded), act=act)).load(SPEC).windows
    assert (result.prefix_cache_hit_rate, result.prefix_cache_hit_rate_reason) == (0.5, None)


def test_requests_of_somebody_else_are_counted_by_the_engine(server: CompletionsServer, recorded: Path, tmp_path: Path) -> None:
    """The engine finished 11 requests while the tool sent 8, and one ran before the tool began."""
    bench = Bench(recording(recorded), act=lambda: setattr(server, "finished", 111.0))
    server.finished, server.running = 100.0, 1.0
    (window,) = generator(server, tmp_path, bench).load(SPEC).windows
    assert window.foreign_requests == 4


def test_two_points_share_no_salt(server: CompletionsServer, recorded: Path, tmp_path: Path) -> None:
    bench = Bench(recording(recorded))
    salts = set()
    for _ in range(2):
        generator(server, tmp_path, bench).load(SPEC)
        body = next(word for word in bench.command if word.startswith("--extra-body="))
        salts.add(json.loads(body.partition("=")[2])["cache_salt"])
    assert len(salts | {body["cache_salt"] for body in server.bodies}) == 4


def test_a_hung_engine_is_not_waited_for(server: CompletionsServer, recorded: Path, tmp_path: Path) -> None:
    server.pause_s = 0.05
    bench = Bench(recording(recorded))
    VllmBench(server.endpoint, "/opt/vllm", tmp_path, 14_400, bench, {}).load(SPEC)
    assert 300 + 3 * 8 * 0.05 <= bench.timeout_s < 300 + 3 * 8 * 5
    VllmBench(server.endpoint, "/opt/vllm", tmp_path, 60, bench, {}).load(SPEC.model_copy(update={"warm_up_requests": 0}))
    assert bench.timeout_s == 60
    server.faults = {i: hangs() for i in range(100, 1000)}
    with pytest.raises(MeasurementError, match=r"the warm-up of load point c4 failed: no complete answer .* within 0\.3 s"):
        VllmBench(server.endpoint, "/opt/vllm", tmp_path, 60, bench, {}, request_timeout_s=0.3).load(SPEC)


def test_a_failed_tool_is_quoted(server: CompletionsServer, tmp_path: Path) -> None:
    bench = Bench(
        None, returncode=2, stderr=" 50%|###  | 4/8 [00:01<00:01, 4.0it/s]\nusage: vllm\nerror: \x1b[31mno such flag\n"
    )
    with pytest.raises(MeasurementError, match="ended with exit code 2") as caught:
        generator(server, tmp_path, bench).load(SPEC)
    assert caught.value.why.endswith("error:  [31mno such flag")
    assert "it/s" not in caught.value.why
    assert "c4.log" in caught.value.advice


def test_a_stale_result_is_never_read(server: CompletionsServer, recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "c4.json").write_bytes(recording(recorded))
    with pytest.raises(MeasurementError, match="left no usable result"):
        generator(server, tmp_path, Bench(None)).load(SPEC)


def test_a_failed_warm_up_is_an_error(server: CompletionsServer, tmp_path: Path) -> None:
    server.faults = {i: says('{"error": {"message": "too long"}}', 400) for i in range(100, 1000)}
    bench = Bench(b"")
    with pytest.raises(MeasurementError, match="the warm-up of load point c4 failed: HTTP 400: too long"):
        generator(server, tmp_path, bench).load(SPEC)
    assert bench.command == ()


def test_recorded_metrics(recorded: Path) -> None:
    page = (recorded / "api" / "metrics.txt").read_text()
    assert prefix_cache(page, "sg-probe") == PrefixCache(37997.0, 10368.0)
    assert prefix_cache(page, "another") is None


def test_metrics_are_summed_over_engines_and_hostile_pages_are_unknown() -> None:
    lines = [
        f'vllm:prefix_cache_{kind}_total{{engine="{e}",model_name="m}}\\"x"}} {e + 1}'
        for e in (0, 1)
        for kind in ("queries", "hits")
    ]
    assert prefix_cache("\n".join(lines), 'm}\\"x') == PrefixCache(3.0, 3.0)
    assert prefix_cache(lines[0] + "\n" + lines[1].replace(" 1", " NaN"), 'm}\\"x') is None
    assert prefix_cache("{" * 10_000, "m") is None


@pytest.mark.parametrize(
    ("before", "after", "rate"),
    [
        (PrefixCache(10, 5), PrefixCache(20, 6), 0.1),
        (PrefixCache(10, 5), PrefixCache(10, 5), None),
        (PrefixCache(10, 5), PrefixCache(2, 0), None),
        (None, PrefixCache(1, 0), None),
    ],
)
def test_hit_rates(before: PrefixCache | None, after: PrefixCache | None, rate: float | None) -> None:
    value, reason = hit_rate(before, after)
    assert value == rate
    assert (reason is None) == (rate is not None)


def test_a_request_of_somebody_else_that_outlives_the_run_is_counted(
    server: CompletionsServer, recorded: Path, tmp_path: Path
) -> None:
    """It is not finished when the tool is, so the count of finished requests does not hold it."""

    def act() -> None:
        server.finished, server.running = 108.0, 24.0

    server.finished = 100.0
    (window,) = generator(server, tmp_path, Bench(recording(recorded), act=act)).load(SPEC).windows
    assert window.foreign_requests == 24


def test_counters_that_went_back_are_no_cache_that_is_off() -> None:
    """An engine that started anew has forgotten what it answered; only a cache that is never asked may be off."""
    assert "may be off" not in str(hit_rate(PrefixCache(100, 90), PrefixCache(40, 0))[1])
    assert "may be off" in str(hit_rate(PrefixCache(100, 0), PrefixCache(100, 0))[1])
