"""Does the candidate give the same text the same probabilities?

Answers show a difference only where it changes a word. Scored on a given text, every token shows how far the probabilities
moved, which is the most sensitive and the cheapest test of a quantization there is; and since nothing is generated, both
arms are compared on exactly the same words.

Read in this order: `settings`, `record` (what is stored), `inputs` (the corpus), `preparing` (cuts it), `measuring` (scores
it), `pairing` (joins), `contrast` (counts), `comparing` (estimates), `judging` (the policy), `presenting` and `tables`.
"""

from __future__ import annotations

from servegate.checks.contract import Check
from servegate.checks.logprobs.best import amount, best
from servegate.checks.logprobs.comparing import compare
from servegate.checks.logprobs.fitting import fit
from servegate.checks.logprobs.inputs import load
from servegate.checks.logprobs.judging import CHECK_NAME, judge
from servegate.checks.logprobs.measuring import items, measure
from servegate.checks.logprobs.preparing import prepare
from servegate.checks.logprobs.presenting import present
from servegate.checks.logprobs.record import LogprobsInputs, LogprobsMeasurement
from servegate.checks.logprobs.scope import scope
from servegate.checks.logprobs.settings import LAXER, LogprobsSettings

CHECK = Check(
    name=CHECK_NAME,
    settings=LogprobsSettings,
    laxer=LAXER,
    best=best,
    amount=amount,
    measurement=LogprobsMeasurement,
    measure=measure,
    fit=fit,
    compare=compare,
    judge=judge,
    present=present,
    scope=scope,
    inputs=LogprobsInputs,
    load=load,
    prepare=prepare,
    items=items,
    last=True,
)
