"""Per-prompt regression: the same prompts to both arms, every answer compared, contracts judged, noise beside it.

`inputs` reads the prompt file, `fitting` says what may be too long, `passes` what each step asks, `measure` asks (and, where
the gate names an embedding model, `nearness` asks that one), `pairing` finds what may be compared, `classes` and `divergence`
say what happened to one pair, `tally` and `items` what happened to one prompt over all rounds, `sampled` and `batching` what
the passes beside the rounds say; `judge` says what it means, with the rules of contracts and of broken answers in
`contract_rules` and `defect_rules`; `present`, `reading` and `figures` show it.
"""

from __future__ import annotations

from servegate.checks.contract import Check
from servegate.checks.prompts.best import amount, best
from servegate.checks.prompts.compare import compare
from servegate.checks.prompts.figures import figures
from servegate.checks.prompts.fitting import fit
from servegate.checks.prompts.inputs import load
from servegate.checks.prompts.judge import judge, stop
from servegate.checks.prompts.measure import prepare
from servegate.checks.prompts.passes import items, measure, part, steps
from servegate.checks.prompts.present import present
from servegate.checks.prompts.records import PromptsInputs, PromptsMeasurement
from servegate.checks.prompts.scope import scope
from servegate.checks.prompts.settings import LAXER, PromptsSettings

CHECK = Check(
    name="prompts",
    settings=PromptsSettings,
    laxer=LAXER,
    best=best,
    amount=amount,
    measurement=PromptsMeasurement,
    inputs=PromptsInputs,
    load=load,
    prepare=prepare,
    measure=measure,
    fit=fit,
    compare=compare,
    judge=judge,
    present=present,
    figures=figures,
    scope=scope,
    stop=stop,
    steps=steps,
    part=part,
    items=items,
)
