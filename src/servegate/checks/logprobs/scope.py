"""What was scored, in a few words: how much text, in windows of which length."""

from __future__ import annotations

from servegate.checks.contract import Evidence, measured
from servegate.checks.logprobs.record import LogprobsMeasurement
from servegate.checks.logprobs.settings import LogprobsSettings


def scope(evidence: Evidence[LogprobsMeasurement], settings: LogprobsSettings) -> str:
    """Return e.g. `100 windows of up to 2,048 tokens of corpus.txt`."""
    baseline, _ = measured(evidence)
    windows = {window.window_id for window in baseline.windows}
    return f"{len(windows):,} windows of up to {settings.corpus.window_tokens:,} tokens of {settings.corpus.file}"
