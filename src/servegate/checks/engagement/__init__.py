"""What was really served?

A serving config asks; the engine's log says what it did. FP8 that silently became 16-bit arithmetic, a KV cache whose
type changed along, a scale that was skipped while loading: each makes a clean comparison of the wrong thing. This check
sends no request. It lays what was asked beside what the log shows, for both arms, and keeps what is unknown unknown.
"""

from __future__ import annotations

from servegate.checks.contract import Check
from servegate.checks.engagement.asked import CHECK_NAME
from servegate.checks.engagement.judging import judge
from servegate.checks.engagement.presenting import present
from servegate.checks.engagement.reading import compare
from servegate.checks.engagement.settings import LAXER, EngagementSettings

CHECK = Check(
    name=CHECK_NAME,
    settings=EngagementSettings,
    laxer=LAXER,
    measurement=None,
    measure=None,
    compare=compare,
    judge=judge,
    present=present,
)
