"""Retrieval from long prompts: does an answer still know what stood thousands of tokens ago?

Short prompts hide the faults of a KV cache. So when its type, the attention backend or the maximum length differ between
the arms, this check turns itself on: it writes prompts that fill 25, 50 and 90 % of the context, each with one pass key in
it, and asks both arms for the key.

`texts` writes a prompt and reads an answer, `choosing` says when the check is on, `preparing` fits the prompts to the
context, `measuring` asks, `comparing` pairs, `judging` says what it means, `presenting` shows it.
"""

from __future__ import annotations

from servegate.checks.contract import Check
from servegate.checks.retrieval.absent import absent
from servegate.checks.retrieval.best import amount, best
from servegate.checks.retrieval.choosing import choose
from servegate.checks.retrieval.comparing import compare
from servegate.checks.retrieval.fitting import fit
from servegate.checks.retrieval.judging import judge
from servegate.checks.retrieval.measuring import measure
from servegate.checks.retrieval.preparing import load, prepare
from servegate.checks.retrieval.presenting import present
from servegate.checks.retrieval.record import RetrievalInputs, RetrievalMeasurement
from servegate.checks.retrieval.scope import scope
from servegate.checks.retrieval.settings import LAXER, RetrievalSettings

CHECK = Check(
    name="retrieval",
    settings=RetrievalSettings,
    laxer=LAXER,
    best=best,
    amount=amount,
    absent=absent,
    measurement=RetrievalMeasurement,
    inputs=RetrievalInputs,
    load=load,
    prepare=prepare,
    choose=choose,
    measure=measure,
    fit=fit,
    compare=compare,
    judge=judge,
    present=present,
    scope=scope,
    items=lambda _settings, inputs: (len(inputs.prompts) or None) if isinstance(inputs, RetrievalInputs) else None,
)
