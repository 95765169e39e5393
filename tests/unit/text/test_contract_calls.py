"""The contract about tool calls: which function, with which arguments, judged as the text that the model wrote."""

from __future__ import annotations

from typing import Any

import pytest

from servegate.text.contracts import State, judge, problem_with

SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]}
WEATHER = {"tool_call": {"name": "weather", "arguments": SCHEMA}}


def call(arguments: str = '{"city": "Paris"}', name: str = "weather") -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


@pytest.mark.parametrize(
    ("expect", "calls", "cut", "state", "why"),
    [
        (WEATHER, [call()], False, State.KEPT, ""),
        (WEATHER, [call()], True, State.KEPT, ""),
        (WEATHER, [call('{"city": "Oslo"}')], False, State.BROKEN, "arguments: at /city"),
        (WEATHER, [call("{}")], False, State.BROKEN, "arguments: at /"),
        (WEATHER, [call('{"city": "Paris", "city": "Rome"}')], False, State.BROKEN, "arguments"),
        (WEATHER, [call('{"city": NaN}')], False, State.BROKEN, "arguments"),
        (WEATHER, [call('["Paris"]')], False, State.BROKEN, "an array, not an object"),
        (WEATHER, [call("Paris")], False, State.BROKEN, "arguments"),
        (WEATHER, [call("")], False, State.BROKEN, "arguments"),
        (WEATHER, [call('{"city": "Pa')], True, State.OPEN, "arguments"),
        (WEATHER, [call('{"city": "Pa')], False, State.BROKEN, "arguments"),
        (WEATHER, [call(name="forecast")], False, State.BROKEN, "forecast was called, expected one call of weather"),
        (WEATHER, [call(), call()], False, State.BROKEN, "weather, weather was called"),
        (WEATHER, [], False, State.BROKEN, "no tool was called"),
        (WEATHER, [], True, State.OPEN, "cut before its end"),
        ({"tool_call": {"name": "weather"}}, [call('{"any": 1}')], False, State.KEPT, ""),
        ({"tool_call": True}, [call(), call("{}", "other")], False, State.KEPT, ""),
        ({"tool_call": True}, [call(), call("[]")], False, State.BROKEN, "an array"),
        ({"tool_call": True}, [], False, State.BROKEN, "no tool was called"),
        ({"tool_call": False}, [], False, State.KEPT, ""),
        ({"tool_call": False}, [], True, State.OPEN, "cut before its end"),
        ({"tool_call": False}, [call()], False, State.BROKEN, "weather was called, and nothing should be"),
        ({"tool_call": False, "max_words": 2}, [], False, State.BROKEN, "max_words: 3 words"),
    ],
)
def test_calls(expect: dict[str, Any], calls: list[dict[str, Any]], cut: bool, state: State, why: str) -> None:
    assert problem_with(expect) is None
    ruling = judge(expect, "one two three", cut=cut, tool_calls=calls)
    assert ruling.state is state
    assert why in ruling.why


def test_an_answer_that_could_not_call_anything_is_no_evidence_either_way() -> None:
    assert judge(WEATHER, '[tool call] weather {"city": "Paris"}', cut=False).state is State.OPEN


def test_a_hostile_call_takes_no_long_time_and_stays_on_one_line() -> None:
    for arguments in ("[" * 100_000, '{"city":' * 50_000, '{"city": "' + "\ud83d\n" * 50_000):
        ruling = judge(WEATHER, "", cut=False, tool_calls=[call(arguments)])
        assert ruling.state is State.BROKEN
        assert ruling.why.isprintable()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("weather", "must be true, false or an object"),
        (None, "must be true, false or an object"),
        ({}, "the name of the function is missing"),
        ({"name": ""}, "the name of the function is missing"),
        ({"name": "f", "args": {}}, "unknown key 'args'"),
        ({"name": "f", "arguments": True}, "must be a JSON Schema"),
        ({"name": "f", "arguments": {"type": "objekt"}}, ""),
    ],
)
def test_a_contract_that_cannot_be_judged_is_refused(value: Any, said: str) -> None:
    problem = problem_with({"tool_call": value})
    assert problem is not None
    assert said in problem
