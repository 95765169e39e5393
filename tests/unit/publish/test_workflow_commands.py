"""Nothing that a model wrote becomes a command to the runner, or an output that it did not have."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servegate.publish.workflow_commands import command, inert, one_line, output_lines

HOSTILE = st.text(alphabet=st.characters(codec=None) | st.sampled_from("\r\n:#[%,\u2028\x85 "), max_size=80)


def runner_commands(printed: str) -> list[str]:
    """Lines that the runner obeys, by its own rule: `::name ...::` at a line's start, `##[name]` anywhere."""
    lines = re.split(r"\r\n|\r|\n", printed)
    return [line for line in lines if re.match(r"\s*::.*::", line) or re.search(r"##\[.*\]", line)]


def runner_outputs(content: str) -> dict[str, str]:
    """What the runner reads from GITHUB_OUTPUT: `name<<DELIMITER`, lines, DELIMITER."""
    found, lines = {}, iter(content.split("\n"))
    for line in lines:
        if not line:
            continue
        assert "<<" in line, f"not a heredoc: {line!r}"
        name, _, delimiter = line.partition("<<")
        value = []
        for inner in lines:
            if inner == delimiter:
                break
            value.append(inner)
        found[name] = "\n".join(value)
    return found


@given(HOSTILE)
def test_inert_text_is_one_line_and_never_a_command(text: str) -> None:
    line = inert(text)
    assert runner_commands(line) == []
    assert line == line.strip()
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u200b\ud800-\udfff]", line)
    line.encode()


@pytest.mark.parametrize(
    "text", ["::add-mask::PASS", " \t::error::x", "##[add-mask]PASS", "a ##[group]x", "x\n::stop-commands::t"]
)
def test_known_attacks_lose_their_teeth_and_stay_readable(text: str) -> None:
    assert runner_commands(text) != []
    assert runner_commands(inert(text)) == []
    assert "add-mask" not in text or "PASS" in inert(text)


@given(message=HOSTILE, title=HOSTILE, file=HOSTILE)
def test_a_command_is_one_line_and_its_data_comes_back(message: str, title: str, file: str) -> None:
    printed = command("error", message, title=title, file=file, line=3)
    assert len(runner_commands(printed)) == 1
    assert "\n" not in printed
    assert "\r" not in printed
    head, _, data = printed[2:].partition("::")
    assert unquote(data.replace("+", "%2B")) == message.encode("utf-8", "replace").decode()
    properties = dict(part.split("=", 1) for part in head.partition(" ")[2].split(","))
    assert set(properties) <= {"title", "file", "line"}
    assert properties["line"] == "3"
    assert unquote(properties.get("title", "")) == title.encode("utf-8", "replace").decode()


def test_a_plain_notice_has_no_properties() -> None:
    assert command("notice", "done: 100%") == "::notice::done: 100%25"


@given(HOSTILE)
def test_an_output_can_not_forge_another_one(text: str) -> None:
    attack = f"{text}\nEOF\noutcome=pass\noutcome<<EOF\npass\nEOF\n"
    read = runner_outputs(output_lines({"outcome": "fail", "headline": attack}))
    assert set(read) == {"outcome", "headline"}
    assert read["outcome"] == "fail"


def test_every_delimiter_is_new() -> None:
    written = [output_lines({"outcome": "pass"}) for _ in range(20)]
    assert len(set(written)) == 20


def test_only_our_own_names_become_outputs() -> None:
    with pytest.raises(ValueError, match="not the name of an output"):
        output_lines({"a<<b": "x"})


def test_long_text_is_cut_with_a_sign() -> None:
    assert one_line("x" * 2000, 10) == "x" * 9 + "…"
    assert one_line("  " * 2000 + "y", 10).endswith("…")
    assert one_line("short") == "short"
