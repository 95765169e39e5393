"""The prompt file: what is read, and the one clear error for everything that could be misread."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from servegate.checks.prompts.inputs import load
from servegate.checks.prompts.records import PromptsInputs
from servegate.checks.prompts.settings import PromptsSettings
from servegate.errors import UsageError

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
DEMO = Path(__file__).parents[3] / "examples" / "demo-cpu" / "prompts.jsonl"


def loaded(content: bytes | str, **settings: object) -> PromptsInputs:
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return load(PromptsSettings(**settings), lambda _name: raw)  # type: ignore[arg-type]


def refused(content: bytes | str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        loaded(content)
    return caught.value


def line(**values: object) -> str:
    return json.dumps({"id": "a", "prompt": "Hello", **values})


def test_reads_prompts_and_messages_with_their_own_limits() -> None:
    text = (
        '{"id": "one", "category": "math", "prompt": "What is 20 + 22?", "expect": {"number": 42}, "max_tokens": 16}\n'
        '{"id": "two", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]}\n'
    )
    one, two = loaded(text, max_tokens=99).prompts
    assert (one.id, one.category, one.max_tokens, one.expect) == ("one", "math", 16, {"number": 42})
    assert one.messages == ({"role": "user", "content": "What is 20 + 22?"},)
    assert (two.category, two.max_tokens, two.expect, two.question) == ("general", 99, None, "Hello")
    assert one.prompt_sha256 != two.prompt_sha256
    assert one.token_ids_sha256 is None
    assert one.token_ids_sha256_reason


def test_the_same_messages_hash_equal_however_they_are_written() -> None:
    plain = loaded('{"id": "a", "prompt": "Hi"}').prompts[0]
    listed = loaded('{"messages": [{"content": "Hi", "role": "user"}], "id": "b"}').prompts[0]
    assert plain.prompt_sha256 == listed.prompt_sha256


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + line().encode(),
        line().encode() + b"\r\n",
        b"\n\n  \n" + line().encode() + b"\n\n",
        line().encode(),
    ],
)
def test_byte_order_mark_crlf_blank_lines_and_no_final_newline_are_accepted(content: bytes) -> None:
    assert [prompt.id for prompt in loaded(content).prompts] == ["a"]


def test_unicode_line_separators_inside_a_string_end_no_line() -> None:
    text = '{"id": "a", "prompt": "one\u2028two\u2029three\u0085four"}\n{"id": "b", "prompt": "x"}'
    assert [prompt.id for prompt in loaded(text).prompts] == ["a", "b"]


def test_an_error_names_the_line_counting_blank_ones() -> None:
    assert refused("\n" + line() + "\n\n" + line(id="a")).what == "prompts.jsonl:4: the id 'a' is used on line 2 already"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "the file holds no prompts"),
        (" \n\n", "the file holds no prompts"),
        (line(propmt="x"), "unknown key 'propmt'; did you mean 'prompt'?"),
        (line(tools=[]), "'tools' must be a list of 1 to 128 tools"),
        (line(tools=[{"type": "function", "function": {}}]), "tools[0] is no function with a name"),
        (line(tools=[{"function": {"name": "f"}}]), "tools[0] is no function with a name"),
        (line(tools=[TOOL, TOOL]), "tools[1]: the name 'weather' is used before"),
        (
            line(tools=[{"type": "function", "function": {"name": "f", "parameters": {"type": 1}}}]),
            "tools[0].function.parameters",
        ),
        (line(tool_choice="auto"), "'tool_choice' needs 'tools'"),
        (line(tools=[TOOL], tool_choice="always"), "'tool_choice' is 'always'"),
        (line(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "g"}}), "'tool_choice' is"),
        (line(chat_template_kwargs={"enable_thinking": "false"}), "is the text 'false', which a template takes for true"),
        (line(chat_template_kwargs={}), "must be an object with at least one argument"),
        (line(expect={"tool_call": True}), "the prompt has no 'tools' that could be called"),
        (line(tools=[TOOL], expect={"tool_call": {"name": "g"}}), "'g' is none of its tools"),
        (line(tools=[TOOL], expect={"tool_call": {"nam": "g"}}), "unknown key 'nam'"),
        (line(temperature=1), "'temperature' is not supported yet"),
        ('{"id": "a"}', "'prompt' (or 'messages') is missing"),
        (line(messages=[{"role": "user", "content": "x"}]), "exclude each other"),
        ('{"prompt": "x"}', "the key 'id' is missing"),
        (line(id=7), "'id' must be a text, not a number"),
        (line(id=""), "'id' is empty"),
        (line(id="a\nb"), "'id' is too long or holds control characters"),
        (line(id="x" * 101), "'id' is too long"),
        (line(prompt=None), "'prompt' must be a text, not null"),
        (line(prompt="  "), "'prompt' is empty"),
        (line(prompt=["x"]), "'prompt' must be a text, not a list"),
        (line(category=True), "'category' must be a text, not true or false"),
        (line(max_tokens=0), "'max_tokens' must be a whole number from 1 to"),
        (line(max_tokens=True), "'max_tokens' must be a whole number"),
        (line(max_tokens="9"), "'max_tokens' must be a whole number"),
        ('{"id": "a", "prompt": "half \\ud83d"}', "holds half of a character (\\ud83d alone)"),
        ('{"id": "a", "prompt": "x", "prompt": "y"}', "not JSON: the key 'prompt' is repeated"),
        ('{"id": "a", "prompt": "x"', "not JSON: "),
        ('{"id": "a", "prompt": "x"} {}', "not JSON: Extra data"),
        ('{"id": "a", "prompt": NaN}', "not JSON: NaN"),
        ("[1]", "expected a JSON object, found a list"),
        (b'{"id": "a", "prompt": "\xff"}', "byte 24 of the line is not UTF-8"),
        ('{"id": "a", "messages": []}', "'messages' must be a list with at least one message"),
        ('{"id": "a", "messages": [{"role": "usr", "content": "x"}]}', "messages[0].role is 'usr'"),
        ('{"id": "a", "messages": [{"role": ["user"], "content": "x"}]}', "messages[0].role is ['user']"),
        ('{"id": "a", "messages": [{"role": "user", "contnet": "x"}]}', "did you mean 'content'?"),
        (
            '{"id": "a", "messages": [{"role": "user", "content": [{"type": "text"}]}]}',
            "a list of parts, which is not supported yet",
        ),
        ('{"id": "a", "messages": [{"role": "assistant", "content": "x"}]}', "the last message is of the role 'assistant'"),
        ('{"id": "a", "messages": ["x"]}', "messages[0] must be an object"),
        (line(expect={"jsn": True}), "'expect': the kind 'jsn' is not supported yet; did you mean 'json'?"),
        (line(expect={"code": "rs"}), "'expect': code: 'rs' is not supported yet; did you mean 'rust'?"),
        (line(expect={"code": "cobol"}), "'expect': code: 'cobol' is not supported yet"),
        (line(expect={}), "'expect': must be an object"),
        (line(expect=True), "'expect': must be an object"),
        (line(expect={"regex": "("}), "'expect': regex: not a pattern"),
    ],
)
def test_bad_lines_get_one_clear_error(content: bytes | str, said: str) -> None:
    error = refused(content)
    assert said in error.what
    assert error.what.startswith("prompts.jsonl")
    assert "\n" not in error.what


def test_hostile_sizes_are_refused_and_not_read() -> None:
    assert "nested too deeply" in refused('{"id": "a", "prompt": ' + "[" * 200_000).what
    assert "too many digits" in refused('{"id": "a", "prompt": "x", "max_tokens": ' + "1" * 5_000 + "}").what
    assert "allowed are" in refused(b" " * (64 * 1024 * 1024 + 1)).what


def test_a_long_context_prompt_is_read() -> None:
    assert len(loaded(line(prompt="word " * 200_000)).prompts[0].question) == 1_000_000


@pytest.mark.skipif(not DEMO.is_file(), reason="the demo's prompts are not here")
def test_the_demo_prompts_are_read_and_enough_of_them_carry_a_contract() -> None:
    prompts = loaded(DEMO.read_bytes()).prompts
    assert len(prompts) >= 20
    assert sum(prompt.expect is not None for prompt in prompts) >= 16


def test_tools_are_part_of_what_is_asked_and_of_its_hash() -> None:
    contract = {"tool_call": {"name": "weather", "arguments": {"type": "object", "required": ["city"]}}}
    (one,) = loaded(line(tools=[TOOL], tool_choice="required", expect=contract)).prompts
    assert (one.tools, one.tool_choice, one.expect, one.route) == ((TOOL,), "required", contract, "completions")
    (plain,) = loaded(line()).prompts
    (thinking,) = loaded(line(chat_template_kwargs={"enable_thinking": False})).prompts
    assert thinking.chat_template_kwargs == {"enable_thinking": False}
    assert len({one.prompt_sha256, plain.prompt_sha256, thinking.prompt_sha256}) == 3
