"""The page in a real browser, under an accessibility checker and an HTML validator."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cmarkgfm import github_flavored_markdown_to_html
from cmarkgfm.cmark import Options

from servegate import pipeline
from servegate.artifacts import RunDirectory
from tests.conftest import Need, missing
from tests.unit.report.report_samples import SAMPLES, hostile

pytestmark = pytest.mark.service
PAGES = [*SAMPLES, "hostile"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pages")
    for name, make in {**SAMPLES, "hostile": hostile}.items():
        (root / f"{name}.html").write_bytes(make().render()["report.html"])
    return root


@pytest.fixture
def browser(need: Need) -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=need("chromium", "chromium-browser", "google-chrome"),
            chromium_sandbox=False,
            args=["--disable-background-networking", "--disable-sync", "--no-first-run"],
        )
        yield browser
        browser.close()


@pytest.mark.parametrize("name", PAGES)
def test_no_request_no_error_and_no_sideways_scrolling(browser: Any, folder: Path, name: str) -> None:
    for width in (320, 375, 1280):
        context = browser.new_context(offline=True, viewport={"width": width, "height": 812})
        page = context.new_page()
        messages: list[str] = []
        requests: list[str] = []
        page.on("console", lambda message, kept=messages: kept.append(message.text))
        page.on("request", lambda request, kept=requests: kept.append(request.url))
        page.goto((folder / f"{name}.html").as_uri())
        assert messages == []
        assert len(requests) == 1
        page.evaluate("document.querySelectorAll('details').forEach(item => { item.open = true })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        context.close()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible(browser: Any, folder: Path, name: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    # The checker injects a script, which the page's own policy forbids; the policy is tested above.
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900}, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto((folder / f"{name}.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(item => { item.open = true })")
    found = axe.Axe().run(page).response["violations"]
    context.close()
    if name == "hostile":  # some of its names are empty texts
        found = [item for item in found if item["id"] != "empty-table-header"]
    assert [(item["id"], item["nodes"][0]["html"][:200]) for item in found] == []


def test_the_verdict_is_on_the_first_screen_of_a_phone(browser: Any, folder: Path) -> None:
    context = browser.new_context(offline=True, viewport={"width": 375, "height": 812})
    page = context.new_page()
    page.goto((folder / "fail.html").as_uri())
    for place in (".outcome", ".headline", ".knobs", ".scope-fold"):  # there the scope is one line that opens
        box = page.locator(place).first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 812, place
    context.close()


@pytest.mark.parametrize("name", [*SAMPLES, "hostile"])
def test_nothing_of_the_comment_lies_off_a_phones_screen(browser: Any, name: str) -> None:
    """GitHub lets a wide table scroll within the comment, so that its last column is not seen; everything else wraps."""
    text = {**SAMPLES, "hostile": hostile}[name]().render()["comment.md"].decode()
    style = "body { overflow-wrap: break-word; font: 14px/1.5 sans-serif } "
    style += "table { display: block; max-width: 100%; overflow: auto }"
    context = browser.new_context(offline=True, viewport={"width": 390, "height": 900})
    page = context.new_page()
    page.set_content(f"<!doctype html><style>{style}</style>{github_flavored_markdown_to_html(text, Options.CMARK_OPT_UNSAFE)}")
    wider = "[...document.querySelectorAll('table, pre')].filter(item => item.scrollWidth > item.clientWidth).length"
    assert page.evaluate(wider) == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


def test_what_there_is_to_decide_on_lies_within_a_summarys_column(browser: Any, tmp_path: Path) -> None:
    """Of a recorded gate: a key of the config, one word of 38 characters in two cells, moved the differences off the screen."""
    root = tmp_path / "run"
    shutil.copytree(Path(__file__).resolve().parents[3] / "examples/recorded-h200", root)
    run = RunDirectory.open(root)
    pipeline.compare(run)
    text = pipeline.report(run)["summary.md"].decode()
    assert "price_per_gpu_hour_usd" in text
    style = "body { font: 14px/1.5 sans-serif } table { display: block; width: max-content; max-width: 100%; overflow: auto } "
    style += "table { border-collapse: collapse } td, th { padding: 6px 13px; border: 1px solid }"
    context = browser.new_context(offline=True, viewport={"width": 800, "height": 900})
    page = context.new_page()
    page.set_content(f"<!doctype html><style>{style}</style>{github_flavored_markdown_to_html(text, Options.CMARK_OPT_UNSAFE)}")
    for heading in ("Checks", "What there is to decide on"):
        table = page.locator(f"h2:text-is('{heading}') + table")
        assert table.evaluate("item => item.scrollWidth - item.clientWidth") <= 0, heading
    context.close()


def test_folds_open_by_keyboard(browser: Any, folder: Path) -> None:
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto((folder / "fail.html").as_uri())
    fold = page.locator("details.fold").first
    fold.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert fold.evaluate("item => item.open") is True
    context.close()


def test_valid_html(need: Need, folder: Path) -> None:
    java = need("java")
    jar = os.environ.get("SERVEGATE_TEST_VNU") or missing("SERVEGATE_TEST_VNU (vnu.jar of the npm package vnu-jar)")
    pages = [str(folder / f"{name}.html") for name in PAGES]
    done = subprocess.run([java, "-jar", jar, "--errors-only", "--stdout", *pages], capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0
