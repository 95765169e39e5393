"""Renders every product of a run: the same records give the same bytes.

| file | for | size |
|---|---|---|
| `comment.md` | the pull request | aims at 6,000 bytes, never above 60,000 (GitHub takes 65,536 characters) |
| `summary.md` | the job's step summary | at most 900 KB (GitHub takes 1 MiB a step) |
| `report.md` | reading without a browser | everything, long texts cut |
| `report.html` | people | everything, with figures; complete in itself |
| `environment.json`, `tables/*.csv`, `reproduce.sh` | further work | everything, in full precision |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from servegate.domain.records import Json
from servegate.report.deciding import DECIDING_CSV, deciding_table
from servegate.report.overriding import MOST_BYTES
from servegate.report.page import Medium, Source
from servegate.report.reproduce import as_served, script
from servegate.report.shown import Limits
from servegate.report.tables import csv_bytes, finding_table, outcome_table
from servegate.report.templating import Templates
from servegate.report.view import page

COMMENT_AIM = 6_000
COMMENT_MOST = 60_000
SUMMARY_MOST = 900_000

PAGE = Medium(Limits(drawings=True))
DOCUMENT = Medium(Limits(cell=600, pair=4_000))
SUMMARIES = (
    Medium(Limits(text=4_000, cell=300, pair=1_500, rows=50)),
    Medium(
        Limits(text=1_000, cell=120, pair=400, rows=20, facts=40, blocks=40), findings=60, notes=20, sentence=500, value=200
    ),
    Medium(
        Limits(text=400, cell=60, pair=0, rows=5, facts=10, blocks=6),
        findings=20,
        notes=5,
        knobs=20,
        checks=20,
        sentence=200,
        value=80,
    ),
)
"""The step summary, from rich to bare; the first one that fits is taken."""
COMMENTS = (
    Medium(Limits(cell=400), findings=8, notes=4, evidence=4, knobs=10, checks=12, sentence=400, value=120, knob=80),
    Medium(Limits(cell=300), findings=5, notes=0, evidence=3, knobs=8, checks=12, sentence=240, value=80, knob=60, arms=4),
    Medium(Limits(cell=200), findings=3, notes=0, evidence=1, knobs=5, checks=10, sentence=140, value=60, knob=40, arms=2),
    Medium(
        Limits(cell=100, text=400), findings=2, notes=0, evidence=0, knobs=3, checks=6, sentence=80, value=40, knob=24, arms=2
    ),
    Medium(
        Limits(cell=40, text=400), findings=1, notes=0, evidence=0, knobs=1, checks=3, sentence=40, value=20, knob=10, arms=1
    ),
)
"""The comment, from rich to bare. The last two are bounded by what they show, even when every character is an escape."""


def render(source: Source, templates: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """Return every product of a run by its name relative to the report directory.

    `templates`: a team's own templates by name, in place of ours; by default those of the plan.

    Raises:
        UsageError: a template holds what none may hold.
        ValueError: a table row holds more cells than its table has columns.
    """
    plan, figures = source.plan, source.figures
    source = replace(source, plan=as_served(plan, source.engines))
    shown, tables = page(source, PAGE)
    own = Templates(plan.templates if templates is None else templates)
    products = {
        "report.html": own.html_document(shown).encode(),
        "report.md": own.markdown_document("report.md.j2", page(source, DOCUMENT)[0], MOST_BYTES).encode(),
        "summary.md": summary(source, own),
        "comment.md": comment(source, own),
        "environment.json": environment(source, plan.fingerprint()),
        "reproduce.sh": script(source.plan),
    }
    tables.update({"tables/checks.csv": outcome_table(source), "tables/findings.csv": finding_table(source)})
    if figures:
        tables[DECIDING_CSV] = deciding_table(figures)
    encoding = plan.settings.get("output.csv_encoding")
    mark = encoding is not None and encoding.value == "utf-8-sig"
    products.update({name: csv_bytes(table, mark=mark) for name, table in tables.items()})
    return dict(sorted(products.items()))


def _fitting(template: str, source: Source, media: tuple[Medium, ...], aim: int, most: int, own: Templates) -> bytes | None:
    """Return the richest document within the aim, else the barest; `None` when that is above the most, too."""
    content = b""
    for medium in media:
        content = own.markdown_document(template, page(source, medium)[0], most).encode()
        if len(content) <= aim:
            return content
    return content if len(content) <= most else None


def comment(source: Source, own: Templates | None = None) -> bytes:
    """Return the comment of the pull request."""
    content = _fitting("comment.md.j2", source, COMMENTS, COMMENT_AIM, COMMENT_MOST, own or Templates())
    if content is None:
        raise ValueError("the barest comment is above its bound")
    return content


def summary(source: Source, own: Templates | None = None) -> bytes:
    """Return the step summary; where even the barest is too long, the comment stands in for it."""
    given = own or Templates()
    return _fitting("report.md.j2", source, SUMMARIES, SUMMARY_MOST, SUMMARY_MOST, given) or comment(source, given)


def environment(source: Source, plan_sha256: str) -> bytes:
    """Return environment.json: each arm's manifest and start-up facts, and the names of what differs between arms."""
    arms: dict[str, Json] = {}
    for name in source.plan.arms:
        manifest, engine = source.manifests.get(name), source.engines.get(name)
        arms[name] = {
            "manifest": manifest.to_json() if manifest else None,
            "manifest_reason": None if manifest else "the environment was not collected",
            "engine": {**engine.to_json(), "status": engine.status.value} if engine else None,
            "engine_reason": None if engine else "no start was attempted",
        }
    flat = [dict(_leaves("", arm["manifest"] or {})) for arm in arms.values()]
    names = sorted({name for values in flat for name in values})
    differs = [name for name in names if len({json.dumps(values.get(name), sort_keys=True) for values in flat}) > 1]
    document = {"gate": source.plan.gate, "plan": plan_sha256, "arms": arms, "manifest_differs": differs}
    return (json.dumps(document, ensure_ascii=True, sort_keys=True, allow_nan=False, indent=1) + "\n").encode("ascii")


def _leaves(path: str, value: Json) -> list[tuple[str, Json]]:
    if isinstance(value, dict):
        return [leaf for name, item in value.items() for leaf in _leaves(f"{path}.{name}" if path else str(name), item)]
    return [(path, value)]
