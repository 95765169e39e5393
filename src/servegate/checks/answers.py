"""Which answer belongs to which request: by id, never by position."""

from __future__ import annotations

from collections.abc import Sequence

from servegate.domain.evidence import ItemStatus
from servegate.domain.workload import Completion, CompletionRequest
from servegate.errors import MeasurementError

UNANSWERED = frozenset({ItemStatus.FAILED, ItemStatus.TIMEOUT, ItemStatus.SKIPPED})
"""What became of a request that brought nothing: neither a wrong answer nor an equal one."""


def by_id(requests: Sequence[CompletionRequest], completions: Sequence[Completion]) -> dict[str, Completion]:
    """Return each request's answer.

    Raises:
        MeasurementError: the probe lost, invented or repeated an answer.
    """
    found = {completion.id: completion for completion in completions}
    if len(found) != len(completions) or found.keys() != {request.id for request in requests}:
        raise MeasurementError(f"{len(requests)} requests were sent, {len(completions)} answers to {len(found)} came back")
    return found
