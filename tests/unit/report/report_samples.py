"""Example runs for the report's tests: PASS, REVIEW, FAIL, an engine that did not start, and a hostile one.

The figures are invented but shaped like those of a gate on one GPU; the kernels, warnings and the start-up failure
are worded as vLLM words them in its logs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from servegate.domain.arms import Arm, Role, ServingConfig
from servegate.domain.blocks import (
    Block,
    Column,
    Fact,
    Facts,
    Figure,
    Fold,
    Mark,
    Pair,
    Point,
    Section,
    Series,
    Table,
    Text,
)
from servegate.domain.deciding import Figures
from servegate.domain.evidence import Diagnosis, EngineFacts, EngineStatus, Kernel, LogWarning, Quantization, Requested
from servegate.domain.judgement import (
    CheckOutcome,
    EvidenceRef,
    Finding,
    Outcome,
    PolicyRef,
    Scope,
    Severity,
    Verdict,
)
from servegate.domain.manifest import Gpu, Manifest
from servegate.domain.plan import Fingerprints, Knob, ModelSource, Plan, Setting, Step, sha256_of_text
from servegate.report import Source, render
from servegate.report.page import Stage

NASTY = (
    "@octocat @org/team see #123, GH-7, org/repo#9 and deadbeef1234567890deadbeef1234567890abcd",
    "https://evil.example/x www.evil.example mail@evil.example ftp://evil.example",
    "<script>alert(1)</script><img src=x onerror=alert(1)><style>*{display:none}</style></pre></td></table></main></body>",
    "<!-- servegate:other-gate -->",
    "--> ]]> <!-- <![CDATA[ <?php ?>",
    "[click](javascript:alert(1)) ![x](https://evil.example/x.png) [ref]: https://evil.example <https://evil.example>",
    "| a | b |\n| --- | --- |\n| \\| | `|` |",
    "```\n# out of the fence\n````\n~~~~\n`````",
    "# Heading\n\n- list\n1. one\n> quote\n---\n===\n    code\n:::",
    "$E=mc^2$ $$x$$ :tada: **bold** _it_ ~~gone~~ [^1] [x] &lt;b&gt; &#64;octocat \\@octocat",
    "{{ page.gate }} {% raw %} {# #} ${{ secrets.GITHUB_TOKEN }} ::error::x",
    "a\ud800b\udfffc \u202egnp.exe\u202c \u200bzero\ufeff width \x00\x07\x1b[31mred\x1b]0;title\x07",
    "line\r\nother\u2028sep\u2029par\x85nel\x0bvt\x0cff",
    '=HYPERLINK("https://evil.example")',
    "'; rm -rf / # $(reboot) `reboot` \" \\",
    "Z" + "\u0335\u0321" * 30 + "algo \U000e0041 \ufffe \U0001f468\u200d\U0001f469",
    "نص عربي עברית 漢字 Ωμέγα ﷽",
    "/merge now\n/accept p07 looks fine",
    "x" * 5_000,
    "`" * 50,
    "\\",
    "",
    " ",
    "\n",
)
"""Texts that try to be more than text."""


@dataclass(frozen=True)
class Sample:
    """What a report is made of, and the report."""

    plan: Plan
    engines: dict[str, EngineFacts | None]
    manifests: dict[str, Manifest | None]
    verdict: Verdict
    sections: tuple[Section, ...]
    run_status: str = "complete"
    stages: tuple[Stage, ...] = ()

    def render(self, templates: dict[str, str] | None = None) -> dict[str, bytes]:
        return render(self.source(), templates)

    def source(self, figures: tuple[Figures, ...] = ()) -> Source:
        known = (self.plan, self.engines, self.manifests, self.verdict, self.sections)
        return Source(*known, run_status=self.run_status, stages=self.stages, figures=figures)


def _arm(name: str, role: Role, options: dict[str, object], session: int) -> Arm:
    text = "model: Qwen/Qwen3-8B\n" + "".join(f"{key}: {value}\n" for key, value in options.items())
    return Arm(
        name=name,
        role=role,
        session=session,
        engine_kind="vllm",
        executable="vllm",
        config=ServingConfig(
            path=f"serving/qwen3-8b{'' if role is Role.BASELINE else '-fp8'}.yaml",
            sha256=sha256_of_text(text),
            text=text,
            options=options,
        ),
        argv=("vllm", "serve", "Qwen/Qwen3-8B", *(f"--{key}={value}" for key, value in options.items())),
        environment={"VLLM_LOGGING_LEVEL": "INFO"},
    )


def plan(gate: str = "qwen3-8b-fp8") -> Plan:
    shared = {"max-model-len": 8192, "gpu-memory-utilization": 0.85, "max-num-seqs": 256}
    baseline = _arm("baseline", Role.BASELINE, dict(shared), 0)
    candidate = _arm("candidate", Role.CANDIDATE, {**shared, "quantization": "fp8_per_channel", "kv-cache-dtype": "fp8"}, 1)
    checks = ("prompts", "accuracy", "throughput")
    return Plan(
        gate=gate,
        policy="standard",
        arms={"baseline": baseline, "candidate": candidate},
        knobs=(
            Knob(name="quantization", baseline=None, candidate="fp8_per_channel", source="serving config"),
            Knob(name="kv-cache-dtype", baseline="auto", candidate="fp8", source="serving config"),
        ),
        settings={
            "rounds": Setting(value=2, source="default"),
            "engine.start_timeout_s": Setting(value=900, source="default"),
            "checks.prompts.file": Setting(value="serving/prompts.jsonl", source="servegate.yaml:12"),
            "checks.prompts.limits.contracts_lost": Setting(value=0, source="policy standard"),
            "checks.accuracy.limits.drop": Setting(value=0.025, source="policy standard"),
        },
        checks={name: {} for name in checks},
        inputs={"serving/prompts.jsonl": sha256_of_text("prompts")},
        schedule=tuple(
            Step(session=session, arm=arm, check=check, step=step)
            for session, arm in enumerate(("baseline", "candidate"))
            for check in checks
            for step in range(2)
        ),
        model=ModelSource(source="Qwen/Qwen3-8B", revision="b968826d9c46dd6066d109eabc6255188de91218"),
        fingerprints=Fingerprints(
            workload=sha256_of_text("workload"), policy=sha256_of_text("policy"), arms={"baseline": "b", "candidate": "c"}
        ),
        rounds=2,
    )


def engine(arm: str, *, fp8: bool) -> EngineFacts:
    return EngineFacts(
        role=arm,
        session=1 if fp8 else 0,
        status=EngineStatus.READY,
        version="0.25.1",
        max_model_len=8192,
        quantization=Quantization(
            requested="fp8_per_channel" if fp8 else None,
            resolved="Fp8PtpcOnlineLinearMethod" if fp8 else None,
            effective_precision="W8A8 FP8" if fp8 else "BF16",
        ),
        kv_cache_dtype=Requested(requested="fp8" if fp8 else None, resolved="fp8_e4m3" if fp8 else "bfloat16"),
        kernels=(Kernel(kernel="CutlassFP8ScaledMMLinearKernel", layers="Fp8PtpcOnlineLinearMethod", count=1, line=20),)
        if fp8
        else (),
        quantized_layers=None,
        quantized_layers_reason="the log names the method, not the layers",
        attention_backend="FLASH_ATTN",
        device="cuda",
        weights_gib=8.21 if fp8 else 15.27,
        kv_cache_gib=94.6 if fp8 else 87.4,
        kv_cache_tokens=1_377_904 if fp8 else 636_496,
        warnings=(LogWarning(code="kv-scales-default", count=1, line=31),) if fp8 else (),
        phases_s={"spawn": 6.1, "load": 9.4, "compile": 21.8 if fp8 else 18.2, "warm_up": 14.0, "ready": 0.6},
        sampling_defaults={"temperature": 0.6, "top_k": 20, "top_p": 0.95},
    )


def manifest() -> Manifest:
    return Manifest(
        host="gpu-runner-3",
        os="Ubuntu 24.04, Linux 6.8.0",
        cpu="Intel Xeon Platinum 8480+",
        cpu_count=16,
        memory_gib=128.0,
        gpus=(Gpu(name="NVIDIA H200", uuid="GPU-5f2c", compute_capability="9.0", memory_gib=139.8, mig=False),),
        driver="580.82.07",
        cuda="13.0",
        packages={"numpy": "2.4.6", "pandas": "3.1.1", "servegate": "0.1.0"},
        servegate="0.1.0",
        lm_eval="0.4.13",
        engine={"kind": "vllm", "executable": "vllm", "version": "0.25.1"},
        environment={"CUDA_VISIBLE_DEVICES": "0", "VLLM_LOGGING_LEVEL": "INFO"},
    )


def _marks(text: str, *words: str) -> tuple[Mark, ...]:
    return tuple(Mark(start=text.index(word), end=text.index(word) + len(word)) for word in words)


def _prompts(outcome: Outcome, broken: bool) -> Section:
    left = '{"invoice": "INV-2041", "total": 1290.50, "currency": "EUR", "due": "2026-03-01"}'
    right = '{"invoice": "INV-2041", "total": 1290.50, "currency": "EUR", "due": "2026-03-01",}\nThe total is due in March.'
    prose = "The train leaves at 14:05 and takes 2 h 40 min, so it arrives at 16:45."
    drift = "The train leaves at 14:05 and takes 2 h 40 min. It therefore arrives at 16:45."
    rows = (
        ("p07", "structured output", "json", "4 of 4", "0 of 4" if broken else "4 of 4", 0.91),
        ("p12", "math", "number", "4 of 4", "4 of 4", 0.97),
        ("p19", "long form", None, None, None, 0.64),
        ("p22", "translation", "text", "3 of 4", "4 of 4", 0.88),
    )
    blocks: list[Block] = [
        Facts(
            facts=(
                Fact(name="identical answers, arm against arm", value="31 of 48"),
                Fact(name="identical answers, baseline against itself", value="44 of 48"),
                Fact(name="identical answers, candidate against itself", value="43 of 48"),
                Fact(
                    name="contracts lost", value=1 if broken else 0, note="valid in every baseline round, in no candidate round"
                ),
                Fact(name="cap hits", value=None, note="no prompt reached its token limit"),
            )
        ),
        Figure(
            name="identical",
            title="Identical answers by category",
            style="bars",
            x_label="category",
            y_label="share of prompts",
            description="In every category the arms agree less with each other than each arm with itself.",
            series=(
                Series(
                    name="arm against arm",
                    role="candidate",
                    points=tuple(
                        Point(x=x, y=y, low=max(0.0, y - 0.14), high=min(1.0, y + 0.12))
                        for x, y in (("math", 0.7), ("code", 0.6), ("json", 0.75), ("long", 0.3))
                    ),
                ),
                Series(
                    name="baseline against itself",
                    role="noise",
                    points=tuple(Point(x=x, y=y) for x, y in (("math", 0.95), ("code", 0.9), ("json", 1.0), ("long", 0.8))),
                ),
            ),
        ),
        Table(
            name="answers",
            title="Answers that differ, most different first",
            columns=(
                Column(title="prompt", code=True),
                Column(title="category"),
                Column(title="expects"),
                Column(title="baseline valid"),
                Column(title="candidate valid"),
                Column(title="similarity", digits=2),
            ),
            rows=tuple((*rows[index % 4],) for index in range(64)),
            shown_rows=8,
            note="Similarity only orders this list; it decides nothing.",
        ),
    ]
    if broken:
        blocks.append(
            Pair(
                title="p07, structured output: the contract broke",
                left_title="baseline, round 1",
                right_title="candidate, round 1",
                left=left,
                right=right,
                right_marks=_marks(right, ",}", "\nThe total is due in March."),
                note="A trailing comma and a sentence after the object: no JSON parser accepts the answer.",
            )
        )
    blocks.append(
        Fold(
            title="Reading queue: 17 answers differ in wording",
            opened=not broken,
            blocks=(
                Text(text="The numbers, units and dates of these answers are equal."),
                Pair(
                    title="p12, math",
                    left_title="baseline, round 1",
                    right_title="candidate, round 1",
                    left=prose,
                    right=drift,
                    left_marks=_marks(prose, ", so it"),
                    right_marks=_marks(drift, ". It therefore"),
                ),
            ),
        )
    )
    return Section(
        check="prompts",
        title="Answers",
        outcome=outcome,
        question="Do the answers to our prompts change?",
        summary=("p07 lost its JSON contract; " if broken else "") + "31 of 48 answers identical, 17 differ in wording",
        noise="baseline 44 of 48, candidate 43 of 48 identical with itself",
        n="48 (24 prompts, 2 rounds)",
        blocks=tuple(blocks),
    )


def _accuracy(outcome: Outcome, drop: float) -> Section:
    return Section(
        check="accuracy",
        title="Accuracy",
        outcome=outcome,
        question="Does it still solve the task?",
        summary=f"drop {drop:.1f} points [{drop - 1.0:.1f}, {drop + 1.1:.1f}], limit 2.5; "
        f"38 lost, {max(3, 38 - round(drop * 9))} gained",
        noise="2.9 % of questions change between two rounds of the baseline, 3.1 % of the candidate",
        n="1,319 questions, 2 rounds",
        blocks=(
            Table(
                name="scores",
                title="GSM8K, 5-shot",
                columns=(
                    Column(title="filter"),
                    Column(title="baseline", percent=True),
                    Column(title="candidate", percent=True),
                    Column(title="drop", unit="points", digits=2),
                    Column(title="lost"),
                    Column(title="gained"),
                    Column(title="smallest drop seen", unit="points"),
                ),
                rows=(
                    ("strict-match", 0.8832, 0.8832 - drop / 100, drop, 38, max(3, 38 - round(drop * 9)), 1.6),
                    ("flexible-extract", 0.8901, 0.8901 - drop / 100, drop, 36, max(2, 36 - round(drop * 9)), 1.6),
                ),
            ),
            Figure(
                name="drop",
                title="Drop with its interval",
                style="intervals",
                x_label="",
                y_label="drop in points",
                description="The interval of the drop, beside the noise of each arm; the dashed line is the limit.",
                reference=2.5,
                series=(
                    Series(
                        name="candidate",
                        role="candidate",
                        points=(
                            Point(x="strict-match", y=drop, low=drop - 1.0, high=drop + 1.1),
                            Point(x="flexible-extract", y=drop * 0.9, low=drop * 0.9 - 1, high=drop * 0.9 + 1),
                        ),
                    ),
                    Series(
                        name="noise",
                        role="noise",
                        points=(
                            Point(x="baseline against itself", y=0.1, low=-0.7, high=0.9),
                            Point(x="candidate against itself", y=-0.2, low=-1.0, high=0.6),
                        ),
                    ),
                ),
            ),
        ),
    )


def _throughput() -> Section:
    levels = (1, 8, 32, 64)
    base, cand = (178.0, 1_240.0, 3_905.0, 6_020.0), (241.0, 1_655.0, 5_180.0, 7_960.0)
    return Section(
        check="throughput",
        title="Speed",
        outcome=Outcome.PASS,
        question="Is it faster, and where?",
        summary="1.33 times the output tokens per second at 32 [1.30, 1.36]; time to first token 18 % shorter",
        noise="windows of one arm vary by 0.8 %",
        n="5 windows at each of 4 concurrencies",
        blocks=(
            Figure(
                name="tokens",
                title="Output tokens per second",
                style="lines",
                x_label="concurrent requests",
                y_label="tokens per second",
                description="The candidate is above the baseline at every concurrency.",
                series=(
                    Series(
                        name="baseline",
                        role="baseline",
                        points=tuple(
                            Point(x=float(x), y=y, low=y * 0.98, high=y * 1.02) for x, y in zip(levels, base, strict=True)
                        ),
                    ),
                    Series(
                        name="candidate",
                        role="candidate",
                        points=tuple(
                            Point(x=float(x), y=y, low=y * 0.98, high=y * 1.02) for x, y in zip(levels, cand, strict=True)
                        ),
                    ),
                ),
            ),
            Table(
                name="points",
                title="Load points",
                columns=(
                    Column(title="concurrency"),
                    Column(title="baseline", unit="tokens/s", digits=0),
                    Column(title="candidate", unit="tokens/s", digits=0),
                    Column(title="ratio", digits=3),
                    Column(title="TTFT p50, baseline", unit="ms", digits=1),
                    Column(title="TTFT p50, candidate", unit="ms", digits=1),
                    Column(title="TTFT p99", unit="ms"),
                ),
                rows=tuple((c, b, k, k / b, 12.4 + c, 10.1 + c, None) for c, b, k in zip(levels, base, cand, strict=True)),
                note="p99 needs 299 requests at each point; there were 160.",
            ),
            Text(text="Speed is judged at 32 concurrent requests only.", tone="plain"),
        ),
    )


STAGES: tuple[Stage, ...] = (
    ("start", "baseline", 52.1),
    ("prompts, round 1", "baseline", 9.8),
    ("prompts, round 2", "baseline", 9.6),
    ("accuracy, round 1", "baseline", 74.9),
    ("accuracy, round 2", "baseline", 75.4),
    ("throughput, round 1", "baseline", 118.0),
    ("start", "candidate", 55.7),
    ("prompts, round 1", "candidate", 7.7),
    ("prompts, round 2", "candidate", 7.6),
    ("accuracy, round 1", "candidate", 58.3),
    ("accuracy, round 2", "candidate", 58.1),
    ("throughput, round 1", "candidate", 91.2),
    ("compare", None, 1.4),
)


def _verdict(outcome: Outcome, headline: str, findings: tuple[Finding, ...], sections: tuple[Section, ...]) -> Verdict:
    return Verdict(
        outcome=outcome,
        headline=headline,
        scope=Scope(gpu="NVIDIA H200", driver="580.82.07", engine="vLLM 0.25.1", kernels="CutlassFP8ScaledMMLinearKernel"),
        checks={item.check: CheckOutcome(outcome=item.outcome, required=item.check != "throughput") for item in sections},
        findings=findings,
        policy=PolicyRef(ref="standard", sha256=sha256_of_text("policy")),
        inputs={"serving/prompts.jsonl": sha256_of_text("prompts")},
    )


_UNREAD = Finding(
    code="prompts/unread",
    severity=Severity.INFO,
    check="prompts",
    message="17 answers differ in wording and were not read by a person",
    evidence=tuple(EvidenceRef(check="prompts", id=f"p{number:02d}", step=0) for number in range(17)),
)
_FLIPS = Finding(
    code="accuracy/flips-above-noise",
    severity=Severity.INFO,
    check="accuracy",
    message="5.2 % of questions changed their answer, against 2.9 % between two rounds of the baseline",
    rule="flip share",
    value=0.052,
    operator=">",
    limit=0.029,
)


def passed() -> Sample:
    sections = (_prompts(Outcome.PASS, False), _accuracy(Outcome.PASS, 0.4), _throughput())
    verdict = _verdict(
        Outcome.PASS, "no damage found; 17 answers differ in wording and were not read by a person", (_UNREAD, _FLIPS), sections
    )
    return Sample(plan(), _engines(), _manifests(), verdict, sections, stages=STAGES)


def review() -> Sample:
    sections = (_prompts(Outcome.PASS, False), _accuracy(Outcome.REVIEW, 1.9), _throughput())
    doubt = Finding(
        code="accuracy/inconclusive",
        severity=Severity.REVIEW,
        check="accuracy",
        message="the drop may be as large as 3.0 points, which 1,319 questions cannot rule out; 2,600 would",
        rule="upper 95 % of the drop",
        value=0.0300,
        operator=">",
        limit=0.025,
    )
    verdict = _verdict(Outcome.REVIEW, doubt.message, (doubt, _UNREAD, _FLIPS), sections)
    return Sample(plan(), _engines(), _manifests(), verdict, sections, stages=STAGES)


def failed() -> Sample:
    sections = (_prompts(Outcome.FAIL, True), _accuracy(Outcome.FAIL, 4.1), _throughput())
    broken = Finding(
        code="prompts/contract-broken",
        severity=Severity.FAIL,
        check="prompts",
        message="p07 (structured output) was valid JSON in all 4 baseline rounds and in none of the candidate's",
        rule="contracts lost",
        value=1,
        operator=">",
        limit=0,
        evidence=(EvidenceRef(check="prompts", id="p07", step=0),),
    )
    drop = Finding(
        code="accuracy/drop",
        severity=Severity.FAIL,
        check="accuracy",
        message="at least 3.1 points of GSM8K are lost, with 99 % confidence",
        rule="lower 99 % of the drop",
        value=0.0312,
        operator=">",
        limit=0.005,
    )
    speed = Finding(
        code="throughput/few-requests",
        severity=Severity.REVIEW,
        check="throughput",
        message="160 requests are too few for a p99",
        value=160,
        operator="<",
        limit=299,
    )
    verdict = _verdict(Outcome.FAIL, f"{broken.message} (and 1 more finding)", (_UNREAD, speed, drop, broken, _FLIPS), sections)
    return Sample(plan(), _engines(), _manifests(), verdict, sections, stages=STAGES)


def not_started() -> Sample:
    exception = (
        "ValueError: Free memory on device cuda:0 (5.9/139.8 GiB) on startup is less than desired GPU memory utilization "
        "(0.85, 118.83 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )
    facts = EngineFacts(
        role="candidate",
        session=1,
        status=EngineStatus.FAILED,
        version="0.25.1",
        max_model_len_reason="the engine stopped before it said so",
        attention_backend_reason="the engine stopped before it said so",
        weights_gib_reason="the engine stopped before it said so",
        kv_cache_tokens_reason="the engine stopped before it said so",
        quantization=Quantization(requested="fp8_per_channel"),
        kv_cache_dtype=Requested(requested="fp8"),
        phases_s={"spawn": 6.3},
        diagnosis=Diagnosis(
            code="gpu-memory-held",
            exception=exception,
            line=57,
            workaround="Another process still holds the card. `nvidia-smi` names it; "
            "servegate starts an arm only after the other one has gone.",
        ),
    )
    sections = tuple(
        Section(
            check=name,
            title=title,
            outcome=Outcome.ERROR,
            question="Not measured",
            noise="not measured",
            n="0",
            summary="not measured: candidate: the engine did not start",
            blocks=(Text(text="Not measured: candidate: the engine did not start", tone="caution"),),
        )
        for name, title in (("prompts", "Answers"), ("accuracy", "Accuracy"), ("throughput", "Speed"))
    )
    finding = Finding(
        code="arms/candidate-engine-failed",
        severity=Severity.ERROR,
        check="arms",
        message=f"the candidate engine did not start: {exception}",
    )
    verdict = _verdict(Outcome.ERROR, finding.message, (finding,), sections)
    return Sample(
        plan(), {**_engines(), "candidate": facts}, {**_manifests(), "candidate": None}, verdict, sections, "failed", STAGES[:7]
    )


def not_comparable() -> Sample:
    other = manifest().model_copy(update={"driver": "570.133.20", "host": "gpu-runner-4"})
    sample = passed()
    finding = Finding(
        code="arms/environment-differs",
        severity=Severity.NOT_COMPARABLE,
        check="arms",
        message="the arms ran on different driver: 580.82.07 and 570.133.20",
    )
    verdict = _verdict(Outcome.NOT_COMPARABLE, finding.message, (finding, _UNREAD), sample.sections)
    return replace(sample, manifests={"baseline": manifest(), "candidate": other}, verdict=verdict)


def hostile(*texts: str) -> Sample:
    """Every string that a model, a log, a config or a branch may fill is one of the texts."""
    words = texts or NASTY

    def word(place: int) -> str:
        return words[place % len(words)]

    everything = "\n".join(words)
    blocks: tuple[Block, ...] = (
        *(Text(text=text, tone="caution") for text in words),
        Facts(facts=tuple(Fact(name=text, value=text, note=text) for text in words)),
        Table(
            name=word(0),
            title=word(1),
            note=word(2),
            columns=(Column(title=word(3), unit=word(4)), Column(title=word(5), code=True), Column(title="n")),
            rows=tuple((text, text, index) for index, text in enumerate(words)),
        ),
        Figure(
            name=word(5),
            title=word(6),
            style="bars",
            x_label=word(7),
            y_label=word(8),
            description=word(9),
            series=(
                Series(name=word(10), role="baseline", points=tuple(Point(x=text, y=1.0, low=0.5, high=1.5) for text in words)),
            ),
        ),
        Pair(
            title=word(11),
            left_title=word(12),
            right_title=word(13),
            left=everything,
            right="".join(words),
            note=word(14),
            left_marks=(Mark(start=3, end=40), Mark(start=20, end=10**9), Mark(start=9, end=2)),
            right_marks=(Mark(start=0, end=1),),
        ),
        Fold(
            title=word(15), blocks=(Pair(title=word(1), left_title=word(2), right_title=word(3), left=word(4), right=word(5)),)
        ),
    )
    sections = tuple(
        Section(
            check=word(index),
            title=word(index + 1),
            outcome=outcome,
            question=word(index + 2),
            summary=word(index + 3),
            noise=word(index + 4),
            n=word(index + 5),
            blocks=blocks,
        )
        for index, outcome in enumerate((Outcome.FAIL, Outcome.REVIEW, Outcome.PASS))
    )
    findings = tuple(
        Finding(
            code=text,
            severity=severity,
            check=text,
            message=text,
            rule=text,
            value=1.5,
            operator=">",
            limit=1.0,
            evidence=(EvidenceRef(check=text, id=text, step=0),),
        )
        for severity in (Severity.FAIL, Severity.INFO)
        for text in words
    )
    made = plan(word(0) or "gate")
    arms = {
        name: arm.model_copy(
            update={
                "argv": ("vllm", "serve", *(f"--name={text}" for text in words if "\x00" not in text)),
                "environment": {"VLLM_X": word(2)},
                "config": arm.config.model_copy(update={"path": word(3), "text": everything}),
            }
        )
        for name, arm in made.arms.items()
    }
    made = made.model_copy(
        update={
            "arms": arms,
            "knobs": tuple(Knob(name=text, baseline=text, candidate={"k": text}, source=text) for text in words),
            "settings": {text: Setting(value=text, source=text) for text in words},
            "inputs": dict.fromkeys(words, "0" * 64),
            "model": ModelSource(source=word(4), revision=word(5)),
        }
    )
    facts = engine("candidate", fp8=True).model_copy(
        update={
            "version": word(0),
            "attention_backend": word(2),
            "kernels": (Kernel(kernel=word(6), layers=word(7), count=2, line=1),),
            "sampling_defaults": {"x": word(11)},
            "status": EngineStatus.FAILED,
            "weights_gib": None,
            "weights_gib_reason": word(8),
            "diagnosis": Diagnosis(code=word(1), exception=everything, line=3, workaround=word(2)),
        }
    )
    place = manifest().model_copy(update={"host": word(2), "environment": {"VLLM_X": word(11)}, "packages": {word(2): word(3)}})
    verdict = _verdict(Outcome.FAIL, word(0), findings, sections).model_copy(
        update={
            "scope": Scope(gpu=word(1), driver=word(2), engine=word(3), kernels=word(11)),
            "policy": PolicyRef(ref=word(2), sha256=word(3), changed_in_head=True),
            "accepted": tuple(words),
            "inputs": dict.fromkeys(words, word(4)),
        }
    )
    stages = tuple((text, text, 1.0) for text in words)
    return Sample(
        made,
        {"baseline": engine("baseline", fp8=False), "candidate": facts},
        {"baseline": place, "candidate": None},
        verdict,
        sections,
        word(2) or "x",
        stages,
    )


def _engines() -> dict[str, EngineFacts | None]:
    return {"baseline": engine("baseline", fp8=False), "candidate": engine("candidate", fp8=True)}


def _manifests() -> dict[str, Manifest | None]:
    return {"baseline": manifest(), "candidate": manifest()}


SAMPLES = {"pass": passed, "review": review, "fail": failed, "not-started": not_started, "not-comparable": not_comparable}
