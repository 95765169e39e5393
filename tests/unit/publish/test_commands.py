"""A comment is anybody's text: one known command on one line, or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from servegate.errors import PublishError, UsageError
from servegate.publish.commands import accept_command


def event(body: Any, **changes: Any) -> dict[str, Any]:
    comment = {"body": body, "user": {"login": "dev", "type": "User"}}
    return {"action": "created", "issue": {"number": 7, "pull_request": {"url": "x"}}, "comment": comment, **changes}


def test_one_line_names_prompt_and_reason():
    found = accept_command(event("/servegate accept json-1.a the unit is spelled out now\nthanks\n"))
    assert (found.number, found.login, found.prompt, found.reason) == (7, "dev", "json-1.a", "the unit is spelled out now")


def test_a_commit_may_be_named_and_is_no_part_of_the_prompt():
    found = accept_command(event("/servegate accept json-1.a@0123abc fine"))
    assert (found.prompt, found.commit) == ("json-1.a", "0123abc")
    assert accept_command(event("/servegate accept json-1.a fine")).commit is None
    for short in ("@012", "@", "@XYZXYZXYZ", "@0123abc@0123abc"):
        with pytest.raises(UsageError, match="no command"):
            accept_command(event(f"/servegate accept p{short} fine"))


@pytest.mark.parametrize(
    "user",
    [
        {"login": "dependabot[bot]", "type": "Bot"}, {"login": "github-actions[bot]", "type": "Bot"},
        {"login": "dependabot[bot]", "type": "User"}, {"login": "helper", "type": "Bot"},
        {"login": "acme", "type": "Organization"}, {"login": "dev"}, {"login": "dev", "type": "Mannequin"},
    ],
)  # fmt: skip
def test_no_program_accepts_anything(user):
    comment = {"body": "/servegate accept p fine", "user": user}
    with pytest.raises(UsageError, match="is no person"):
        accept_command(event("", comment=comment))


@pytest.mark.parametrize(
    "body",
    [
        "",
        None,
        "looks good\n/servegate accept p1 reason",
        "> /servegate accept p1 reason",
        "/servegate accept p1",
        "/servegate accept",
        "/servegate reject p1 reason",
        "/servegate accept ../../x;y reason",
        "/servegateaccept p1 reason",
        "/servegate accept " + "x" * 101 + " reason",
    ],
)
def test_anything_else_is_no_command(body):
    with pytest.raises(UsageError, match="no command"):
        accept_command(event(body))


def test_an_edited_comment_and_a_plain_issue_do_not_count():
    with pytest.raises(UsageError, match="new one"):
        accept_command(event("/servegate accept p r", action="edited"))
    with pytest.raises(UsageError, match="new one"):
        accept_command(event("/servegate accept p r", issue={"number": 7}))


@pytest.mark.parametrize(
    "changes", [{"issue": None}, {"comment": {"user": None}}, {"issue": {"number": True, "pull_request": {}}}]
)
def test_a_damaged_payload(changes):
    with pytest.raises(PublishError):
        accept_command(event("/servegate accept p r", **changes))


def test_controls_and_commands_in_the_reason_are_flattened():
    assert accept_command(event("/servegate accept p a\x1b[31m\u202eb ##[error]")).reason == "a\ufffd[31m\ufffdb ##[error]"
