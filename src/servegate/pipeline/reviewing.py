"""review and accept: what waits for a reader, and what the reader's answers accept.

The file that a reader fills in names each change by the hash of its tokens; everything else is read from the record again,
so what is accepted is what was measured, whatever became of the file in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

import yaml

from servegate.artifacts import RunDirectory
from servegate.checks.prompts import CHECK
from servegate.checks.prompts.review import review_blocks, review_row, unread_items
from servegate.domain.evidence import NotMeasured
from servegate.domain.judgement import Comparison
from servegate.errors import UsageError
from servegate.ledger import ACCEPTABLE_CLASS, Entry
from servegate.ledger import parse as parse_ledger
from servegate.pipeline.judging import arms_of, evidence_of

ACCEPTING = ("same", "wording", "minor")
REFUSING = ("ambiguous", "fact-flip")
PAGE, FORM = "review.html", "reviews.yaml"
HEAD = """\
# Read {page} beside this file. For each change write a verdict and, in a few words, why:
#   same, wording, minor         accepted by `servegate accept`, and not asked again until `expires`
#   ambiguous, fact-flip         never accepted; the change stays in the verdict
# An empty verdict leaves the change unread.
"""


def review(run: RunDirectory) -> tuple[dict[str, bytes], int]:
    """Return the files for a reader (name -> bytes) and how many changes they hold; the run was compared before."""
    from servegate.report import reading_page  # see `judging.report`

    plan, comparison = run.read_plan(), _compared(run)
    items = unread_items(comparison)
    evidence = evidence_of(run, plan, CHECK, arms_of(run, plan))
    form = {
        "version": 1,
        "gate": plan.gate,
        "who": "",
        "expires": "",
        "reviews": [{**review_row(item)} for item in items],
    }
    text = HEAD.format(page=PAGE) + yaml.safe_dump(form, sort_keys=False, allow_unicode=False, width=120)
    title = f"{plan.gate}: {len(items)} changed fact{'' if len(items) == 1 else 's'} to read"
    return {PAGE: reading_page(title, review_blocks(comparison, evidence)), FORM: text.encode("utf-8", "replace")}, len(items)


def accept(run: RunDirectory, form: Mapping[str, Any], who: str | None, expires: str | None) -> tuple[Entry, ...]:
    """Return the entries that a filled-in form accepts.

    Raises:
        UsageError: an unknown verdict, a change that the run does not hold, or no name, reason or date.
    """
    items = {(item["prompt_id"], item["changes_sha256"]): item for item in unread_items(_compared(run))}
    name = _said(who or form.get("who"), "who", "Write your name into the file, or give --who.")
    until = _said(expires or form.get("expires"), "expires", "Write a date (2027-03-01) into the file, or give --expires.")
    rows = form.get("reviews")
    if not isinstance(rows, list):
        raise UsageError(f"'reviews' must be a list, not {type(rows).__name__}", advice="`servegate review` writes the file.")
    entries = []
    for row in rows:
        verdict = row.get("verdict") if isinstance(row, dict) else None
        if verdict in ("", None, *REFUSING):
            continue
        place = f"reviews, prompt {row.get('prompt')!r}"
        if verdict not in ACCEPTING:
            raise UsageError(f"{place}: verdict {verdict!r}", advice=f"Allowed are {', '.join((*ACCEPTING, *REFUSING))}.")
        item = items.get((row.get("prompt"), row.get("changes_sha256")))
        if item is None:
            raise UsageError(
                f"{place}: this run holds no such unread change", advice="Write the file anew: `servegate review`."
            )
        entries.append(
            {
                "prompt": item["prompt_id"],
                "prompt_sha256": item["prompt_sha256"],
                "class": ACCEPTABLE_CLASS,
                "changes_sha256": item["changes_sha256"],
                "changes": tuple(review_row(item)["changes"]),
                "verdict": verdict,
                "who": name,
                "why": _said(row.get("why"), f"{place}: why", "Say in a few words why this change may stay."),
                "expires": until,
            }
        )
    return parse_ledger({"version": 1, "accepted": entries}, FORM).accepted


def _compared(run: RunDirectory) -> Comparison:
    comparison = run.read_comparison(CHECK.name)
    if isinstance(comparison, NotMeasured):
        raise UsageError(f"{run.root}: the prompts were not compared: {comparison.reason.message}")
    return comparison


def _said(value: Any, what: str, advice: str) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{what}: is missing", advice=advice)
    return value.strip()
