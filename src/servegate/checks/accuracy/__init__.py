"""Does the candidate still get the same questions right?

Accuracy alone hides what happened: 45 answers may turn wrong while 43 turn right. So the same questions are asked of
both arms in the same words, joined one by one, and counted in both directions; each arm is asked more than once, which
shows how often answers change although nothing changed.

Read in this order: `settings`, `record` (what is stored), `questions` (local files), `fitting` (what fits into the context),
`measuring`, `looking` and `retrying` (ask), `noise` (asks for more rounds), `pairing` (joins), `kinds` and `readings` (what a
pair means), `contrast` (counts), `estimates`, `comparing`, then the policy: `faults`, `claims`, `lateness`, `judging`;
`presenting`, `tables` and `figures` show it. `absent` speaks where the check is off.
"""

from __future__ import annotations

from servegate.checks.accuracy.absent import absent
from servegate.checks.accuracy.best import amount, best
from servegate.checks.accuracy.comparing import compare
from servegate.checks.accuracy.faults import CHECK_NAME
from servegate.checks.accuracy.figures import figures
from servegate.checks.accuracy.fitting import fit
from servegate.checks.accuracy.judging import judge, stop
from servegate.checks.accuracy.measuring import finish, items, measure
from servegate.checks.accuracy.noise import more
from servegate.checks.accuracy.presenting import present
from servegate.checks.accuracy.questions import load
from servegate.checks.accuracy.record import AccuracyInputs, AccuracyMeasurement
from servegate.checks.accuracy.scope import scope
from servegate.checks.accuracy.settings import LAXER, AccuracySettings
from servegate.checks.contract import Check

CHECK = Check(
    name=CHECK_NAME,
    settings=AccuracySettings,
    laxer=LAXER,
    absent=absent,
    best=best,
    amount=amount,
    measurement=AccuracyMeasurement,
    measure=measure,
    fit=fit,
    compare=compare,
    judge=judge,
    present=present,
    figures=figures,
    scope=scope,
    inputs=AccuracyInputs,
    load=load,
    items=items,
    stop=stop,
    finish=finish,
    more=more,
    most_more=lambda settings: settings.more_rounds,
)
