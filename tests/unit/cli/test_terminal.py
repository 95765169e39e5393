"""What the terminal says of a verdict: a check that decides is never called one that only informs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from servegate.cli.terminal import show_verdict
from servegate.domain.judgement import CheckOutcome, Finding, Outcome, PolicyRef, Scope, Severity, Verdict


def shown(throughput: Outcome, *codes: tuple[str, Severity]) -> str:
    verdict = Verdict(
        outcome=Outcome.FAIL,
        headline="0.775x",
        scope=Scope(gpu="H200", driver="580", engine="vLLM 0.25.1", kernels="k"),
        checks={"throughput": CheckOutcome(outcome=throughput, required=False)},
        findings=tuple(
            Finding(code=f"throughput/{code}", severity=severity, check="throughput", message="m") for code, severity in codes
        ),
        policy=PolicyRef(ref="standard", sha256="0" * 64),
    )
    stream = io.StringIO()
    show_verdict(Console(file=stream, width=120), verdict)
    return stream.getvalue()


@pytest.mark.parametrize(("outcome", "informs"), [(Outcome.FAIL, False), (Outcome.PASS, True), (Outcome.REVIEW, True)])
def test_speed_informs_only_unless_it_fails(outcome: Outcome, informs: bool) -> None:
    assert ("informs only" in shown(outcome)) is informs


def test_what_measured_and_does_not_judge_is_called_so_unless_a_person_has_to_read_something() -> None:
    cpu = ("not-judged-cpu", Severity.INFO)
    assert "not judged" in shown(Outcome.REVIEW, cpu)
    assert "not judged" not in shown(Outcome.REVIEW)
    assert "not judged" not in shown(Outcome.ERROR, cpu, ("failed-requests", Severity.ERROR))
