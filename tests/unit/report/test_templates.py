"""A team's own templates: a layout of theirs, and nothing else; what is hostile in one is refused or ends at a count."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path

import html5lib
import pytest
from cmarkgfm import github_flavored_markdown_to_html
from cmarkgfm.cmark import Options

from servegate import pipeline
from servegate.artifacts import RunDirectory
from servegate.cli import _code
from servegate.config import read_templates
from servegate.domain.plan import fingerprint_of
from servegate.errors import UsageError
from servegate.report.balance import markdown_fault
from servegate.report.overriding import byte_count
from servegate.report.page import Source
from servegate.report.products import comment
from servegate.report.templating import HEAD, Templates
from tests.unit.report.report_samples import SAMPLES, hostile

OURS = Path(__file__).resolve().parents[3] / "templates"
MINE = """{% import "_blocks.md.j2" as b %}
## {{ page.verdict.word }} of {{ page.gate|code }}, by our own layout

{{ page.headline }}

{% for row in page.checks %}
{{ loop.index }}. {{ row.title|upper }}: {{ row.summary }}
{% endfor %}
{{ b.findings(page.findings, page.more_findings, "in the report") }}"""


def commented(own: str, sample: str = "fail") -> str:
    made = SAMPLES[sample]()
    source = Source(made.plan, made.engines, made.manifests, made.verdict, made.sections, made.run_status, made.stages or ())
    return comment(source, Templates({"comment.md.j2": own})).decode()


def rendered(own: dict[str, str], sample: str = "fail") -> dict[str, str]:
    made = hostile() if sample == "hostile" else SAMPLES[sample]()
    return {name: content.decode() for name, content in made.render(templates=own).items() if name.endswith((".md", ".html"))}


def test_a_template_takes_the_place_of_ours_and_the_others_stay() -> None:
    plain, found = rendered({}), rendered({"comment.md.j2": MINE})
    assert "## FAIL of <code>" in found["comment.md"]
    assert "by our own layout" in found["comment.md"]
    assert {name for name in plain if plain[name] != found[name]} == {"comment.md"}


def test_our_own_templates_without_their_first_lines_give_the_same_documents() -> None:
    """So that what people copy to start from works."""
    own = {name: (OURS / name).read_text() for name in ("comment.md.j2", "report.md.j2")}
    own["comment.md.j2"] = own["comment.md.j2"].replace("<!-- {{ page.marker|safe }} -->\n", "")
    page = (OURS / "page.html.j2").read_text()
    start = page.index("<!doctype")
    own["page.html.j2"] = page[:start] + "{{ head }}\n" + page[page.index('<meta name="viewport"') :]
    own["report.css"] = (OURS / "report.css").read_text()
    plain, found = rendered({}, "hostile"), rendered(own, "hostile")
    # Elements take more bytes than backticks, so that of a hostile run a barer comment may fit.
    plain["comment.md"], found["comment.md"] = rendered({})["comment.md"], rendered(own)["comment.md"]
    for name, text in plain.items():
        assert "could not be used" not in found[name], name
        assert _read(name, found[name]) == _read(name, text), name


def _read(name: str, document: str) -> list[str]:
    """Return a document's words as a reader gets them: code may be written between backticks or as elements."""
    if name.endswith(".html"):
        return document.split()
    html = github_flavored_markdown_to_html(document, Options.CMARK_OPT_UNSAFE)
    root = html5lib.parseFragment(html, namespaceHTMLElements=False)
    return "".join(root.itertext()).replace("\u200b", "").replace(r"<!\x2d-", "<!--").split()


def test_what_a_model_said_is_as_inert_as_in_ours() -> None:
    found = rendered(
        {"comment.md.j2": MINE, "page.html.j2": "{{ head }}</head><body>{{ page.verdict.word }} {{ page.headline }}</body>"},
        "hostile",
    )
    outside = re.sub(r"(`+)[^`].*?(?<!`)\1(?!`)", "", found["comment.md"])
    assert "<script" not in outside
    assert "@" not in re.sub(r"@\u200b", "", outside)
    assert "<script" not in found["report.html"]
    assert found["report.html"].startswith(HEAD[:60])


REFUSED = {
    "escaping off": "{% autoescape false %}{{ page.headline }}{% endautoescape %}",
    "safe": "{{ page.headline|safe }}",
    "safe over a block": "{% filter safe %}{{ page.headline }}{% endfilter %}",
    "class": "{{ page.__class__ }}",
    "builtins": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "attr": "{{ page|attr('__init__') }}",
    "map": "{{ page.checks|map(attribute='__class__') }}",
    "another file": "{% include 'report.md.j2' %}",
    "a file by its path": "{% import '/etc/passwd' as p %}",
    "a chosen file": "{% import page.gate as p %}",
    "inheritance": "{% extends 'comment.md.j2' %}",
    "our counter": "{% set _step = range %}",
    "a macro of that name": "{% macro _step(n) %}{% endmacro %}",
    "repeat": "{{ 'x' * 1000000000 }}",
    "power": "{{ 9 ** 9 ** 9 }}",
    "format": "{{ '%1000000000s' % 'x' }}",
    "concatenation": "{% set a = page.gate ~ page.gate %}",
    "a list of lists": "{% set a = [1] %}{% set a = [a, a] %}",
    "a list of lists in a tuple": "{% set a = [1] %}{% set a = ((a, a), 1) %}",
    "pad": "{{ 'x'|center(1000000000) }}",
    "debug": "{% debug %}",
    "no end": "{% if page %}",
    "caller": "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}x{% endcall %}",
    "an endless list of arguments": "{% macro m() %}{% endmacro %}{{ m(*range(999999999)) }}",
    "an endless list for the loop's cycle": "{% for a in range(1) %}{{ loop.cycle(*range(999999999)) }}{% endfor %}",
    "more loops in loops than Python takes": "{% for a in range(1) %}" * 21 + "{% endfor %}" * 21,
    "more branches in branches than Python takes": "{% if 1 %}" * 110 + "{% endif %}" * 110,
    "deep brackets": "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "a number that Python does not read": "{{ " + "9" * 4400 + " }}",
    "half of a character": r"{{ '\ud800' }}",
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_allowed_is_refused_when_it_is_read(body: str) -> None:
    with pytest.raises(UsageError, match=r"^comment.md.j2"):
        Templates({"comment.md.j2": "{{ page.verdict.word }}\n" + body})


ENDLESS = {
    "a class by an item": "{{ page['__class__'] }}",
    "a class by a name that was built": "{% set n = '__cl' + 'ass__' %}{{ page[n] }}",
    "a loop in a loop": "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
    "a range kept": "{% set r = range(100000) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}",
    "the page's own rows": "{% for a in range(9999999999) %}{% endfor %}",
    "a macro that calls itself": "{% macro a() %}{{ a() }}{{ a() }}{% endmacro %}{{ a() }}",
    "macros that double": "{% macro m0() %}x{% endmacro %}"
    + "".join(f"{{% macro m{n + 1}() %}}{{{{ m{n}() }}}}{{{{ m{n}() }}}}{{% endmacro %}}" for n in range(30))
    + "{{ m30() }}",
    "a text that doubles": "{% set a = page.verdict.meaning %}" + "{% set a %}{{ a }}{{ a }}{% endset %}" * 40,
    "a sum that doubles": "{% set a = page.verdict.meaning %}" + "{% set a = a + a %}" * 40 + "{{ a }}",
    "text in a loop": "{% for a in range(100000) %}" + "x" * 5000 + "{% endfor %}",
    "text in a loop in a set": "{% set a %}{% for a in range(100000) %}" + "x" * 5000 + "{% endfor %}{% endset %}",
    "a whole record": "{{ page }}",
    "a field that is not there": "{{ page.password }}",
    "a text's method": "{{ page.gate.join }}",
    "a call of a text": "{{ page.gate('x') }}",
    "a range walked by a comparison": "{{ 'a' in range(99999999999) }}",
    "a range walked by the condition of a loop": "{% for a in range(250000) if a < 0 %}{% endfor %}" * 2,
    "a long text read again and again": "{% set a = 'a' %}"
    + "{% set a = a + a %}" * 20
    + "{% for i in range(290000) %}{% if (a|upper) == '' %}{% endif %}{% endfor %}",
    "a long text searched again and again": "{% set a %}{% for i in range(100000) %}"
    + "a" * 300
    + "{% endfor %}{% endset %}{% for i in range(90000) %}{% if 'b' in a %}{% endif %}{% endfor %}",
    "an escaped text cut open": "{{ (page.gate|code)[1:] }}",
    "nothing of the verdict": "looks good to me",
}


@pytest.mark.parametrize(
    "printed",
    [
        "{{ 'HOSTILE'|e }}",
        "{{ 'HOSTILE'|escape }}",
        "{% set m %}{% endset %}{{ m + 'HOSTILE' }}",
        "{% macro m() %}{% endmacro %}{{ 'HOSTILE' + m() }}",
        "{% set t = 'HOSTILE' %}{% set m %}{{ t }}{% endset %}{{ m }}",
    ],
)
def test_escaping_and_joining_in_markdown_is_markdowns(printed: str) -> None:
    """HTML's escaping leaves mentions, references and links as they are."""
    found = commented("{{ page.verdict.word }}\n" + printed.replace("HOSTILE", "@acme/all fixes #1 [x](http://evil) **b** <i>"))
    assert "could not be used" not in found
    for live in ("@acme", "#1", "[x](", "http://", "**b", "<i"):
        assert live not in found


UNBALANCED = {
    "a fence": ("```\n{{ page.headline }}", "leaves the code fence of line 2 open"),
    "a fence of tildes in a list": ("- ~~~text\n  x", "leaves the code fence of line 2 open"),
    "a fence that a shorter one does not end": ("````\nx\n```", "leaves the code fence of line 2 open"),
    "a fence around a fence of ours in elements is none": ("```\n{{ page.headline|fence }}", "leaves the code fence"),
    "a fold": ("<details><summary>more</summary>\n\n{{ page.headline }}", "leaves the details element of line 2 open"),
    "a fold that is closed twice": ("<details>x</details>\n</details>", "closes a details element in line 3"),
    "a fold around half of another element": ("<details><b></details></b>", "closes a details element in line 2"),
    "a comment": ("<!-- {{ page.headline }}", "leaves the comment of line 2 open"),
    "small print": ("<sub>{{ page.headline }}", "leaves the sub element of line 2 open"),
    "a backtick": ("`{{ page.headline }}", "leaves a backtick without its pair in line 2"),
    "a branch that closes nothing": ("<details>{% if page.gate == '' %}</details>{% endif %}", "leaves the details element"),
}


@pytest.mark.parametrize(("body", "said"), UNBALANCED.values(), ids=UNBALANCED.keys())
def test_what_is_begun_has_to_be_ended(body: str, said: str) -> None:
    found = commented("{{ page.verdict.word }}\n" + body)
    assert "could not be used" in found
    assert said in found
    assert "## ❌ FAIL" in found


@pytest.mark.parametrize(
    "body",
    [
        "<details><summary>The verdict</summary>\n\n{{ page.verdict.word }}\n\n</details>",
        "<!-- {{ page.verdict.word }} -->\nlooks good",
        "<details><summary>a <b>b</b></summary>\n<details open>{{ page.verdict.word }}</details></details>",
    ],
)
def test_a_verdict_that_is_folded_away_costs_the_layout(body: str) -> None:
    found = commented(body)
    assert "says FAIL only where it is folded away or hidden" in found
    assert "## ❌ FAIL" in found


@pytest.mark.parametrize(
    "body",
    [
        "<details open><summary>The verdict</summary>\n\n{{ page.verdict.word }}\n\n</details>",
        "<details><summary>{{ page.verdict.word }}</summary>\n\nmore\n\n</details>",
        "`{{ page.verdict.word }}` <br> <p>a <img src=x> `<details>` and ``a ` b``\n\n```\n<details> ` <!--\n```",
        "> ```text\n> {{ page.verdict.word }}\n> ```\n\n1. ~~~\n   ```\n   ~~~\n\n<!-- a --> <!-- <details> -->",
    ],
)
def test_what_is_in_order_is_used(body: str) -> None:
    assert "could not be used" not in commented(body)


LIVE = "<details>@acme/all <b>x</b> [y](http://evil)\n~~~\n```\n<script>\n~~~\n`"


@pytest.mark.parametrize(
    "around",
    [
        "` {{ said|code }} `",
        "{{ said|code }} ` {{ said|code }} `",
        "~~~\n{{ said|fence }}\n~~~",
        "```\n{{ said|fence }}\n```",
        "- {{ said|fence }}",
        "x {{ said|fence }} y",
        "` {{ said|told }} `",
    ],
)
def test_what_stands_around_a_hostile_text_does_not_open_it(around: str) -> None:
    """A template's own stray backtick or fence paired with those around a model's text, which then was live Markdown."""
    own = Templates({"comment.md.j2": "{{ page.verdict.word }}\n\n" + around.replace("said", "page.headline")})
    made = SAMPLES["fail"]()
    verdict = made.verdict.model_copy(update={"headline": LIVE})
    source = Source(made.plan, made.engines, made.manifests, verdict, made.sections, made.run_status, made.stages or ())
    found = comment(source, own).decode()
    assert "could not be used" not in found, "it is the template's layout that is shown"
    html = github_flavored_markdown_to_html(found, Options.CMARK_OPT_UNSAFE)
    root = html5lib.parseFragment(html, namespaceHTMLElements=False)
    names = {str(each.tag) for each in root.iter() if isinstance(each.tag, str)}
    assert not names & {"details", "b", "a", "script"}, html


def test_balance_is_read_in_one_pass() -> None:
    began = time.monotonic()
    for text in (
        "<b>" * 200_000,
        "<!-- -->" * 200_000 + "<b>",
        "`" * 9 + "` `` " * 200_000,
        "<a " * 500_000 + "<b>",
        "<title>" * 200_000,
    ):
        assert markdown_fault("FAIL\n" + text, "FAIL") != ""
    assert time.monotonic() - began < 20


def test_bytes_are_counted_and_not_characters() -> None:
    """32 Mi characters of three bytes each were 96 MiB."""
    found = rendered({"report.md.j2": "{{ page.verdict.word }}{% for i in range(100000) %}" + "\u20ac" * 150 + "{% endfor %}"})
    assert "writes more than 32 MiB" in found["report.md"]
    assert byte_count("a\u20ac\U0001f600\ud800") == 1 + 3 + 4 + 1


@pytest.mark.parametrize("body", ENDLESS.values(), ids=ENDLESS.keys())
def test_what_fails_when_it_is_run_costs_the_layout_and_not_the_verdict(body: str) -> None:
    began = time.monotonic()
    word = "" if body.startswith("looks") else "{{ page.verdict.word }}\n"
    found = commented(word + body)
    assert "The template comment.md.j2 of this repository could not be used" in found
    assert "## ❌ FAIL" in found
    assert len(found.encode()) <= 60_000
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    "page",
    [
        "<!doctype html><html><head></head><body>{{ page.verdict.word }}</body></html>",
        "<script>1</script>{{ head }}{{ page.verdict.word }}",
        "{{ head|upper }}{{ page.verdict.word }}",
    ],
)
def test_a_page_without_our_content_policy_is_not_used(page: str) -> None:
    found = rendered({"page.html.j2": page})["report.html"]
    assert "does not begin with {{ head }}" in found
    assert found.startswith(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy"'
    )


def test_a_style_sheet_is_allowed_by_its_own_hash_and_ends_nothing() -> None:
    plain, found = rendered({})["report.html"], rendered({"report.css": "body { color: teal }"})["report.html"]
    assert "<style>body { color: teal }</style>" in found
    policies = [text.split('content="')[1].split('"')[0] for text in (plain, found)]
    assert policies[0] != policies[1]
    with pytest.raises(UsageError, match=r"report.css:2: a style sheet has no '<'"):
        Templates({"report.css": "a {}\n</style><script>"})


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("comment.md.js", "x", "Did you mean comment.md.j2"),
        ("comment.md.j2", "{{ page.\n", r"comment.md.j2:1: "),
        ("comment.md.j2", "x" * 200_000, "larger than 128 KiB"),
        ("comment.md.j2", "a\n{{ page|tojson }}", r"comment.md.j2:2: the filter 'tojson' is not allowed here"),
    ],
)
def test_one_clear_error_before_anything_is_measured(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError) as caught:
        read_templates(tmp_path)
    assert said in f"{caught.value.what} {caught.value.advice}"


def test_a_folder_that_is_none_or_empty_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder"):
        read_templates(tmp_path / "x")
    with pytest.raises(UsageError, match="holds no template"):
        read_templates(tmp_path)


def test_a_record_is_drawn_with_the_templates_of_its_plan_and_with_others_on_demand(tmp_path: Path) -> None:
    root = tmp_path / "run"
    shutil.copytree(OURS.parent / "examples/recorded-run", root)
    document = json.loads((root / "plan.json").read_text())
    before = fingerprint_of(document["data"])
    document["data"]["templates"] = {"comment.md.j2": "{{ page.verdict.word }} by the plan's layout"}
    assert fingerprint_of(document["data"]) == before
    (root / "plan.json").write_text(json.dumps(document))
    (root / "checksums.sha256").unlink()
    pipeline.compare(RunDirectory.open(root))
    assert b"by the plan's layout" in pipeline.report(RunDirectory.open(root))["comment.md"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/comment.md.j2").write_text("{{ page.verdict.word }} on demand")
    assert _code(["report", str(root), "--templates", str(tmp_path / "mine")]) == 0
    assert "on demand" in (root / "report/comment.md").read_text()
    (tmp_path / "mine/comment.md.j2").write_text("{{ page.verdict.word|tojson }}")
    assert _code(["report", str(root), "--templates", str(tmp_path / "mine")]) == 2
