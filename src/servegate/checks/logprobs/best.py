"""What so much text can show at best: whether PASS is in its reach."""

from __future__ import annotations

from servegate.checks.contract import Inputs
from servegate.checks.logprobs.model_size import parameters_of
from servegate.checks.logprobs.record import LogprobsInputs
from servegate.checks.logprobs.settings import LogprobsSettings
from servegate.checks.reach import Amount, Best, Short
from servegate.domain.plan import Plan


def best(settings: LogprobsSettings, inputs: Inputs | None, plan: Plan) -> Best:
    """Say when the text is too short, or the model so small that the check only informs.

    A token has at least one byte and the first of a window is never scored, so these are upper limits.
    """
    limits, corpus, short = settings.limits, settings.corpus, list[Short]()
    size = parameters_of(plan.model.config)
    if size is not None and size < limits.smallest_parameters:
        short.append(
            Short(
                "small-model",
                f"a model of {size / 1e6:,.0f} M parameters only informs here, and PASS needs "
                f"{limits.smallest_parameters / 1e6:,.0f} M: leave the check out, or lower "
                "`limits.smallest_parameters` knowingly",
            )
        )
    tokens = corpus.windows * (corpus.window_tokens - 1)
    if isinstance(inputs, LogprobsInputs) and inputs.documents:
        tokens = min(tokens, sum(len(text.encode("utf-8", "surrogatepass")) for text in inputs.documents))
    if tokens < limits.smallest_tokens:
        short.append(Short("smoke-test", f"at most {tokens:,} tokens are scored, and PASS needs {limits.smallest_tokens:,}"))
    if corpus.windows < limits.smallest_clusters:
        short.append(Short("smoke-test", f"{corpus.windows} windows, and PASS needs {limits.smallest_clusters}"))
    return Best(tuple(short))


def amount(settings: LogprobsSettings, _inputs: Inputs | None, _step: int) -> Amount:
    """Return how much a round scores at most; one token is generated after each window."""
    corpus = settings.corpus
    return Amount(corpus.windows, read=corpus.windows * corpus.window_tokens, written=corpus.windows)
