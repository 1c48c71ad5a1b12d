"""The pages of the site in a browser: each fits a phone and a desk, asks no host and raises no error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.pages import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

SITE = ROOT / "build" / "site" / "html"
WIDTHS = (390, 1200)
# How much wider than the window the page is, and what sticks out of it and cannot be scrolled by itself.
STICKS_OUT = """() => {
    const width = document.documentElement.clientWidth;
    const scrolls = (one) => {
        for (let above = one.parentElement; above; above = above.parentElement)
            if (getComputedStyle(above).overflowX !== "visible") return true;
        return false;
    };
    const out = [...document.querySelectorAll("article *")].filter((one) => {
        const box = one.getBoundingClientRect();
        return box.width > 0 && box.right > width + 1 && !scrolls(one);
    });
    return [document.documentElement.scrollWidth - width, out.slice(0, 3).map((one) => one.outerHTML.slice(0, 100))];
}"""


def pages() -> list[Path]:
    return sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_fits_asks_no_host_and_raises_no_error(browser: Browser, width: int) -> None:
    shown = browser.new_page(viewport={"width": width, "height": 900})
    errors: list[str] = []
    asked: list[str] = []
    shown.on("pageerror", lambda error: errors.append(str(error)))
    shown.on("request", lambda request: asked.append(request.url))
    wide = []
    for path in pages():
        shown.goto(path.as_uri(), wait_until="load")
        too_much, elements = shown.evaluate(STICKS_OUT)
        if too_much > 1 or elements:
            wide.append((str(path.relative_to(SITE)), too_much, elements))
    assert wide == []
    assert errors == []
    assert [address for address in asked if not address.startswith(("file:", "data:"))] == []
    assert len(pages()) > 80
    shown.close()


def test_a_page_that_is_too_wide_is_found(browser: Browser) -> None:
    shown = browser.new_page(viewport={"width": WIDTHS[0], "height": 900})
    shown.set_content('<article><p style="width: 600px">wide</p></article>')
    too_much, elements = shown.evaluate(STICKS_OUT)
    assert too_much > 100
    assert len(elements) == 1
    shown.set_content('<article><div style="overflow-x: auto"><p style="width: 600px">wide</p></div></article>')
    assert shown.evaluate(STICKS_OUT) == [0, []]
    shown.close()


def test_the_search_finds_a_page_and_leads_there(browser: Browser) -> None:
    shown = browser.new_page(viewport={"width": WIDTHS[1], "height": 900})
    shown.goto(f"{(SITE / 'search.html').as_uri()}?q=reconcile")
    found = shown.locator("#search-results a").first
    found.wait_for(timeout=60_000)
    found.click()
    shown.wait_for_load_state("load")
    assert "search.html" not in shown.url
    assert "reconcile" in shown.inner_text("article").lower()
    shown.close()
