import pytest
import yaml

from servegate.errors import UsageError
from servegate.text.strict_yaml import load


def refusal(text: str, **options) -> str:
    with pytest.raises(UsageError) as caught:
        load(text, "a.yaml", **options)
    return f"{caught.value.what} | {caught.value.advice}"


@pytest.mark.parametrize(
    "text",
    [
        "a: on\nb: off\nc: yes\nd: y\n",
        "a: 010\nb: 0x10\nc: 1_000\nd: 1:30\ne: 0o10\n",
        "a: 1e3\nb: 1.0e+3\nc: .5\nd: 1.\n",
        "a: ~\nb: null\nc:\nd: ''\n",
        "a: {b: [1, {c: d}], e: []}\n",
        "base: &b [1, 2]\nagain: *b\n",
        'a: "\\ud800"\n',
        "a: |\n  two\n  lines\n",
    ],
)
def test_values_are_those_of_safe_load(text):
    assert load(text, "a.yaml").data == yaml.safe_load(text)


def test_lines_name_every_key_path():
    document = load("a: 1\nb:\n  c:\n    - x\n    - {d: 2}\n", "a.yaml")
    assert document.lines == {("a",): 1, ("b",): 2, ("b", "c"): 3, ("b", "c", 0): 4, ("b", "c", 1): 5, ("b", "c", 1, "d"): 5}
    assert document.line_of(("b", "c", 7, "z")) == 3
    assert document.line_of(("nowhere",)) is None


def test_a_repeated_key_names_both_lines():
    assert "a.yaml:3:1: 'a': is repeated" in refusal("a: 1\nb: 2\na: 3\n")
    assert "line 1 already" in refusal("a: 1\nb: 2\na: 3\n")
    assert "a.yaml:3:3: 'x.a': is repeated" in refusal("x:\n  a: 1\n  'a': 3\n")


def test_the_normaliser_counts_at_the_top_level_only():
    def dashes(key: str) -> str:
        return key.replace("_", "-")

    assert "max-model-len" in refusal("max_model_len: 1\nmax-model-len: 2\n", normalise_key=dashes)
    document = load("max_model_len: {a_b: 1, a-b: 2}\n", "a.yaml", normalise_key=dashes)
    assert document.data == {"max_model_len": {"a_b": 1, "a-b": 2}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "empty"),
        ("# nothing\n", "empty"),
        ("- a\n", "mapping"),
        ("just text\n", "mapping"),
        ("a: 1\n---\nb: 2\n", "a.yaml:2:1: a second document"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", "a.yaml:3:3: 'c.<<': merge keys"),
        ("on: 1\n", "reads it as True"),
        ("1: 1\n", "not a text key"),
        ("[a]: 1\n", "not a text key"),
        ("? {a: 1}\n: 2\n", "not a text key"),
        ("a: 2024-01-02\n", "as a date"),
        ("a: !!set {b, c}\n", "tag"),
        ("a: !!python/object/apply:os.system [id]\n", "tag"),
        ("a: !!binary aGk=\n", "as a bytes"),
        ("a: .inf\n", "no JSON value"),
        ("a: .nan\n", "no JSON value"),
        ("a: 2024-13-45\n", "unreadable"),
        ("a: 0b_\n", "unreadable"),
        ("a: " + "9" * 5000 + "\n", "unreadable"),
        ("a: =\n", "a.yaml:1:4"),
        ("a: [1\n", "not YAML"),
        ("a: b: c\n", "a.yaml:1:5: not YAML"),
        ("a: \x00\n", "a.yaml:1:4: the character U+0000"),
        ("ok: 1\na: \ud800\n", "a.yaml:2:4: the character U+D800"),
        ("a: *nobody\n", "a.yaml:1:4"),
        ("a: &a [*a]\n", "deeper than"),
        ("a: " + "[" * 5000 + "\n", "nested too deeply"),
        ("a: \u2028b: \x1b[31m\n", "U+2028"),
        ("a: \x1b[31m\n", "U+001B"),
        ("x: 1\n" * 300_000, "bytes of YAML"),
    ],
)
def test_what_is_ambiguous_or_hostile_is_refused_with_its_place(text, expected):
    assert expected in refusal(text)


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\r"])
def test_no_key_hides_behind_a_comment_in_what_an_editor_shows_as_one_line(mark: str) -> None:
    with pytest.raises(UsageError, match="ends a line for YAML and not for most editors") as caught:
        load(f"a: 1\nb: 2 # fast{mark}max-num-seqs: 1\n", "serve.yaml")
    assert caught.value.what.startswith("serve.yaml:2:12: ")
    assert load('a: 1\r\nb: "\\u2028"\r\n', "serve.yaml").data == {"a": 1, "b": "\u2028"}


@pytest.mark.parametrize("value", ["!!bool maybe", "!!timestamp x", "!!int ''", "!!float ''"])
def test_a_tag_that_its_value_belies_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="is not what its tag"):
        load(f"a: {value}", "serve.yaml")


@pytest.mark.parametrize("text", ["!foo\na: 1", "!!set {a, b}"])
def test_a_file_with_a_tag_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"serve.yaml:1:1: the tag .* is not accepted"):
        load(text, "serve.yaml")


def test_an_alias_bomb_is_refused_quickly():
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert "after aliases" in refusal("\n".join(levels) + "\n")


def test_messages_are_one_short_line_whatever_the_key():
    message = refusal("? " + '"' + "k\\n" * 400 + '"\n: 1\n"' + "k\\n" * 400 + '": 2\n')
    assert len(message) < 200
    assert "\n" not in message
