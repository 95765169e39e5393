"""What a pull request changes, made ready to be measured without git: one folder a pair, and an index of everything else.

The rules (gate config, prompts, tasks, accepted differences, whatever the config names) are taken from the base branch, so
that a pull request can not lower its own bar; when it changes them, the plan says so and no PASS comes of it. Of the head
nothing is taken but the watched serving configs.

    TARGET/index.json                       commits, pairs, and what was not measured with its reason
    TARGET/<gate>/tree/...                  the rules, at the paths that they have in the repository
    TARGET/<gate>/serving/baseline.yaml     as the engine reads them; candidate.yaml beside it
    TARGET/<gate>/origin.json
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from servegate.artifacts import dump
from servegate.artifacts import load as load_json
from servegate.changes import Change, ChangesError, NotMeasured, Pair, Repository, Taken, Watched, pairs_of, take
from servegate.config import Loaded, Overrides, Resolved, load, resolve
from servegate.config.schema import ACCEPTED_FILE, BUNDLED, GATE_NAME, MAX_INPUT_BYTES
from servegate.domain.plan import TEMPLATES, Origin
from servegate.domain.records import Json
from servegate.engines.options import known_options
from servegate.errors import RunDirectoryError, ServegateError, UsageError
from servegate.text import strict_yaml
from servegate.text.globs import matches
from servegate.text.utf8 import decoded

INDEX = "index.json"
AGAIN = "Run `servegate pairs` again."
MOST_PAIRS = 100
"""The most that `changes.max_pairs` allows; each is published by requests of its own."""
WORKFLOWS = (".github/workflows/**", ".github/actions/**")
"""A workflow decides which gate runs and what fails it, and on a pull request GitHub takes it from the head."""
Judge = Literal["base", "head", "protected_head"]


@dataclass(frozen=True)
class Index:
    """What there is to measure of a pull request, and what there is not."""

    base: str
    merge_base: str
    head: str
    judged_by: Judge
    rules_changed: tuple[str, ...]
    pairs: tuple[Pair, ...]
    also: dict[str, tuple[str, ...]]
    not_measured: tuple[NotMeasured, ...]

    def to_json(self) -> dict[str, Json]:
        """Return it as plain JSON."""
        data: dict[str, Json] = json.loads(json.dumps(asdict(self)))
        return {"kind": "pairs", "schema_version": 1, **data}


def prepare(repository: Repository, config: str, base: str, head: str, target: Path, judged_by: Judge = "base") -> Index:
    """Write a folder for each pair and the index; starts nothing.

    `config` is the gate config's path in the repository.

    Raises:
        ChangesError: a commit is not in the clone, there is no gate config to judge by, or it watches nothing that exists.
        UsageError: the gate config is wrong, which is the base branch's fault.
    """
    base_id, head_id = repository.commit(base), repository.commit(head)
    merge_base = repository.merge_base(base_id, head_id)
    changes = repository.changed(merge_base, head_id)
    rules = _Rules(repository, base_id if judged_by == "base" else head_id, posixpath.normpath(config))
    changed = () if judged_by == "protected_head" else rules.changed_by(changes)
    target.mkdir(parents=True, exist_ok=True)
    settings = rules.load(target / "rules").config.changes
    watched = tuple(Watched(**each.to_json()) for each in settings.configs)
    if not watched:
        raise ChangesError(
            f"{config} watches no serving config", advice="Name them: `changes: {configs: [{files: serving/*.yaml}]}`."
        )
    if not any(
        matches(path, each.files) for each in watched for side in (merge_base, head_id) for path in repository.files(side)
    ):
        globs = ", ".join(each.files for each in watched)
        raise ChangesError(f"no file matches `changes.configs` ({globs})", advice="A glob that matches nothing gates nothing.")
    pairs, others = pairs_of(changes, watched, rules.gate, settings.new_against)
    origin = Origin(
        base=base_id,
        merge_base=merge_base,
        head=head_id,
        baseline_path="",
        candidate_path="",
        config_path=rules.path,
        judged_by=judged_by,
        changed=changed,
    )
    sorting = _Sorting(settings.max_pairs, list(others))
    for pair in pairs:
        sorting.add(pair, lambda pair=pair: _ready(repository, rules, pair, origin, target))
    for gate, also in sorting.also.items():
        path = target / gate / "origin.json"
        path.write_bytes(dump({**_object(load_json(path)), "also": list(also)}))
    index = Index(base_id, merge_base, head_id, judged_by, changed, tuple(sorting.pairs), sorting.also, tuple(sorting.others))
    (target / INDEX).write_bytes(dump(index.to_json()))
    return index


def read_index(target: Path) -> Index:
    """Read what `prepare` wrote. Raises RunDirectoryError when it is not there or damaged.

    It may have come from another workflow: a gate is the name of a folder and begins a comment, so it is a gate id or nothing.
    """
    try:
        index = TypeAdapter(Index).validate_python(load_json(target / INDEX))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"]) or "the whole"
        raise RunDirectoryError(f"{target / INDEX} is damaged: {where}: {first['msg']}", advice=AGAIN) from None
    gates = [pair.gate for pair in index.pairs]
    if len(gates) > MOST_PAIRS:
        raise RunDirectoryError(f"{target / INDEX} is damaged: it has more than {MOST_PAIRS} pairs", advice=AGAIN)
    odd = next((gate for gate in gates if not re.fullmatch(GATE_NAME, gate) or gates.count(gate) > 1), None)
    if odd is not None:
        raise RunDirectoryError(f"{target / INDEX} is damaged: {odd[:80]!r} is no gate id, or is there twice", advice=AGAIN)
    return index


def resolved_pair(target: Path, gate: str, config: str, overrides: Overrides = Overrides()) -> Resolved:  # noqa: B008 - frozen
    """Return the plan of a prepared pair; the same checks as in `prepare` are made again.

    Raises:
        UsageError: a config is wrong, or the candidate says what a pull request may not say.
    """
    folder = target / gate
    origin = Origin.model_validate(_tuples(_object(load_json(folder / "origin.json"))))
    serving = folder / "serving"
    before, after = str(serving / "baseline.yaml"), str(serving / "candidate.yaml")
    wanted = replace(overrides, gate=gate, baseline=before, candidate=after)
    return resolve(load(folder / "tree" / config, wanted, origin.config_path), origin)


class _Rules:
    """The gate config at one commit, and every file of that commit that it names."""

    def __init__(self, repository: Repository, commit: str, path: str) -> None:
        self.repository, self.commit, self.path = repository, commit, path
        blob = repository.blob(commit, path)
        if blob is None:
            raise ChangesError(
                f"there is no {path} at {commit[:12]}, whose rules judge",
                advice="Merge the gate config first; or judge by the pull request's own once: --judge-by head.",
            )
        self.text = _utf8(blob.content, f"{path} at {commit[:12]}")
        data = strict_yaml.load(self.text, path).data
        self.gate = str(data.get("gate", ""))
        here = posixpath.dirname(path)
        folder = data.get("templates")
        templates = [posixpath.join(folder, name) for name in TEMPLATES] if isinstance(folder, str) else []
        names = {ACCEPTED_FILE, *templates, *(text for text in _texts(data) if not text.startswith(BUNDLED))}
        paths = (posixpath.normpath(posixpath.join(here, name)) for name in names if name and "\0" not in name)
        self.files = tuple(sorted(each for each in paths if not each.startswith(("../", "/")) and each not in ("..", ".")))

    def changed_by(self, changes: tuple[Change, ...]) -> tuple[str, ...]:
        touched = {path for change in changes for path in (change.before, change.after)}
        workflows = {path for path in touched if any(matches(path, glob) for glob in WORKFLOWS)}
        # A serving config that the gate config names as an arm is what is judged, not a rule.
        return tuple(sorted((touched & {self.path, *self._judging()}) | workflows))

    def _judging(self) -> tuple[str, ...]:
        data = strict_yaml.load(self.text, self.path).data
        arms = {posixpath.normpath(posixpath.join(posixpath.dirname(self.path), text)) for text in _texts(data.get("arms", {}))}
        return tuple(each for each in self.files if each not in arms)

    def write(self, folder: Path) -> Path:
        config = folder / self.path
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(self.text, encoding="utf-8")
        for name in self.files:
            blob = self.repository.blob(self.commit, name, MAX_INPUT_BYTES)
            if blob is not None and blob.mode in ("100644", "100755"):
                place = folder / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(blob.content)
        return config

    def load(self, folder: Path) -> Loaded:
        return load(self.write(folder), Overrides(baseline="-", candidate="-"), self.path)


class _Sorting:
    """Pairs that are measured, those whose arguments another pair has, and those that are not measured."""

    def __init__(self, most: int, others: list[NotMeasured]) -> None:
        self.most, self.others = most, others
        self.pairs: list[Pair] = []
        self.also: dict[str, tuple[str, ...]] = {}
        self.seen: dict[str, str] = {}
        self.taken: set[str] = set()

    def add(self, pair: Pair, ready: Any) -> None:
        if pair.gate in self.taken:
            self.others.append(NotMeasured(pair.after, "refused", "has the gate id of another changed file", "refused"))
            return
        self.taken.add(pair.gate)
        try:
            found: Resolved = ready()
        except ServegateError as error:
            self.others.append(NotMeasured(pair.after, "refused", error.what, "refused"))
            return
        if not found.plan.knobs:
            reason = "changes nothing that the engine is given: both sides have the same arguments and environment"
            self.others.append(NotMeasured(pair.after, "equal", reason))
            return
        arms = found.plan.arms.values()
        key = json.dumps([[arm.argv, sorted(arm.environment.items())] for arm in arms])
        if key in self.seen:
            first = self.seen[key]
            self.also[first] = (*self.also.get(first, ()), pair.after)
        elif len(self.pairs) >= self.most:
            self.others.append(NotMeasured(pair.after, "max-pairs", f"is beyond `changes.max_pairs: {self.most}`"))
        else:
            self.seen[key] = pair.gate
            self.pairs.append(pair)


def _ready(repository: Repository, rules: _Rules, pair: Pair, origin: Origin, target: Path) -> Resolved:
    folder = target / pair.gate
    rules.write(folder / "tree")
    (folder / "serving").mkdir(parents=True, exist_ok=True)
    taken: dict[str, Taken] = {}
    for role, commit, path in (("baseline", origin.merge_base, pair.before), ("candidate", origin.head, pair.after)):
        blob = repository.blob(commit, path)
        if blob is None or blob.mode == "120000" or (role == "candidate" and blob.mode != "100644"):
            raise ChangesError(f"{path} at {commit[:12]} is not there as a plain file")
        text = _utf8(blob.content, f"{path} at {commit[:12]}")
        taken[role] = _engine_yaml(text, path, pair.watched)
        (folder / "serving" / f"{role}.yaml").write_text(taken[role].text, encoding="utf-8")
    if taken["baseline"].elsewhere != taken["candidate"].elsewhere:
        raise UsageError(
            f"{pair.after} changes a variable whose value stands elsewhere (`valueFrom`), so it can not be served here"
        )
    where = f" ({pair.watched.arguments})" if pair.watched.arguments else ""
    full = origin.model_copy(
        update={
            "baseline_path": pair.before + where,
            "candidate_path": pair.after + where,
            "baseline_environment": dict(taken["baseline"].environment),
            "candidate_environment": dict(taken["candidate"].environment),
        }
    )
    (folder / "origin.json").write_bytes(dump(full.to_json()))
    return resolved_pair(target, pair.gate, rules.path)


def _engine_yaml(text: str, path: str, watched: Watched) -> Taken:
    if watched.arguments is None:
        return Taken(text, {})
    booleans = frozenset(name for name, option in known_options().items() if option.is_boolean)
    return take(text, path, watched.arguments, watched.environment, watched.document, booleans)


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _utf8(content: bytes, what: str) -> str:
    try:
        return decoded(content)
    except UnicodeDecodeError:
        raise UsageError(f"{what} is not UTF-8 text") from None


def _object(value: Json) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError("the index of pairs is damaged", advice=AGAIN)
    return value


def _tuples(value: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(item) if isinstance(item, list) else item for key, item in value.items()}
