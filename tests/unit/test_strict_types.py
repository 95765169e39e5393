"""What people write in YAML is taken as it looks: `true` is no 1, 1.0 is no version, and a day has one form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from servegate import ledger
from servegate.checks import discovered
from servegate.config import Overrides, load
from servegate.config.release import read_release_policy
from servegate.domain.records import Record, Settings, VersionOne, day_of
from servegate.errors import UsageError
from servegate.text import strict_yaml

SHA = "a" * 64
ENTRY = f"""
- prompt: sum-01
  prompt_sha256: {SHA}
  class: changed_fact
  changes_sha256: {SHA}
  verdict: minor
  who: me
  why: read
  expires: EXPIRES
"""
NO_VERSION = ["true", "1.0", "'1'", "0x2", "yes", "null", "[1]"]


def accepted(version: str = "1", expires: str = "'2027-03-01'") -> ledger.Ledger:
    text = f"version: {version}\naccepted:{ENTRY.replace('EXPIRES', expires)}"
    return ledger.parse(strict_yaml.load(text, "servegate.accepted.yaml").data, "servegate.accepted.yaml")


@pytest.mark.parametrize("version", NO_VERSION)
def test_a_version_is_the_number_one_in_every_file(tmp_path: Path, version: str) -> None:
    with pytest.raises(UsageError, match="version"):
        accepted(version)
    (tmp_path / "release.yaml").write_text(f"version: {version}\ncards: [NVIDIA H200]\n")
    with pytest.raises(UsageError, match="version"):
        read_release_policy(tmp_path / "release.yaml")
    arms = "{baseline: {config: a.yaml}, candidate: {config: b.yaml}}"
    (tmp_path / "servegate.yaml").write_text(f"version: {version}\ngate: g\narms: {arms}\nchecks: {{prompts: {{}}}}\n")
    with pytest.raises(UsageError, match="version"):
        load(tmp_path / "servegate.yaml", Overrides())


def test_the_number_one_is_taken() -> None:
    assert accepted().version == 1
    assert accepted().accepted[0].expires == "2027-03-01"


OTHER_DAYS = [
    "'20270301'", "'2027-W09-1'", "'2027-03-01T00:00:00'", "'2027-3-1'", "'2027-02-30'", "'2027-03-01 '", "20270301", "true",
    "'\u0662027-03-01'",
]  # fmt: skip


@pytest.mark.parametrize("day", OTHER_DAYS)
def test_a_day_has_one_form(day: str) -> None:
    with pytest.raises(UsageError, match="expires"):
        accepted(expires=day)


def test_an_unquoted_day_is_refused_with_its_line() -> None:
    with pytest.raises(UsageError, match=r"servegate.accepted.yaml:10"):
        accepted(expires="2027-03-01")


def test_a_day_of_another_form_raises() -> None:
    assert day_of("2026-11-30").day == 30
    with pytest.raises(ValueError, match="such as 2026-11-30"):
        day_of("20261130")


@pytest.mark.parametrize("check", discovered())
def test_no_number_of_a_check_takes_true_or_text(check: str) -> None:
    model = discovered()[check].settings
    for name, value in numbers(model()):
        for wrong in (True, str(value)):
            with pytest.raises(ValidationError):
                model.model_validate(nested(name, wrong))


def numbers(settings: Settings, prefix: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], float]]:
    found: list[tuple[tuple[str, ...], float]] = []
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, Settings):
            found += numbers(value, (*prefix, name))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.append(((*prefix, name), value))
    return found


def nested(path: tuple[str, ...], value: Any) -> Any:
    for name in reversed(path):
        value = {name: value}
    return value


def test_a_record_of_version_true_is_no_record() -> None:
    class Kept(Record):
        schema_version: VersionOne = 1

    assert Kept.model_validate({}).schema_version == 1
    with pytest.raises(ValidationError):
        Kept.model_validate({"schema_version": True})
