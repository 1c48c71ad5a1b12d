"""Names that clients choose are text on the page, whatever they consist of."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from browser.scene import send
from harness.sidecar import Sidecar
from playwright.sync_api import Browser, Page, Route, expect

pytestmark = pytest.mark.browser
Open = Callable[..., Page]

HOSTILE = {
    '<img src=x onerror="window.hacked=1">': '<img src=x onerror="window.hacked=1">',
    "</td></table><script>window.hacked=1</script>": "</td></table><script>window.hacked=1</script>",
    "\u202egnp.exe": "\\u202egnp.exe",
    "a\u200bb\u00adc": "a\\u200bb\\u00adc",
    "\x1b[31mred\x00\n": "\\u001b[31mred\\u0000\\n",
    "not UTF-8: \udcff": "not UTF-8: \\udcff",
    "x" * 249: "x" * 249,
    "\u05d0\u05d1\u2066\u05d2": "\u05d0\u05d1\\u2066\u05d2",
    "javascript:window.hacked=1": "javascript:window.hacked=1",
    "__proto__": "__proto__",
}
VIEWS = ("now", "topics", "rejections", "connections", "plug-ins", "dead-letters", "audit", "metrics")
KEPT = {"timestamp", "applied_at", "mode", "kind", "name", "ended", "disabled_until", "outcome"}


def poisoned(value: Any, name: str, key: str = "") -> Any:
    """The value with this name wherever there is a text, but for the keys that the page reads for their meaning."""
    if isinstance(value, dict):
        return {one: poisoned(inner, name, one) for one, inner in value.items()}
    if isinstance(value, list):
        return [poisoned(one, name, key) for one in value]
    return name if isinstance(value, str) and key not in KEPT else value


def busy(sidecar: Sidecar) -> Any:
    """A snapshot in which each view has something to show."""
    for _ in range(30):
        with urllib.request.urlopen(f"{sidecar.admin}/snapshot?with=topics,connections,rejections,traffic") as response:
            snapshot = json.load(response)
        letters = [family["rows"] for family in snapshot["metrics"]["dead_letters"] if family["labels"] == ["topic"]]
        if snapshot["rejections"] and all(letters) and snapshot["connections"]["rows"]:
            return snapshot
        time.sleep(0.5)
    raise AssertionError("no rejection, letter or connection")


@pytest.mark.parametrize(("name", "shown"), HOSTILE.items(), ids=range(len(HOSTILE)))
def test_hostile_text_is_text_in_every_view(browser: Browser, sidecar: Sidecar, name: str, shown: str) -> None:
    snapshot = busy(sidecar)
    for families in snapshot["metrics"].values():
        for family in families:
            family["rows"] = [{**row, "of": [name] * len(row["of"]), "rate": 1, "value": 1} for row in family["rows"]]
    for part in ("topics", "connections", "rejections", "features", "sidecar"):
        snapshot[part] = poisoned(snapshot[part], name)
    body = f"event: snapshot\ndata: {json.dumps(snapshot)}\n\n"

    def answer(route: Route) -> None:
        route.fulfill(status=200, content_type="text/event-stream", body=body)

    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.route("**/live*", answer)
    for view in VIEWS:
        page.goto(f"{sidecar.admin}/#{view}")
        expect(page.locator("#view")).to_contain_text(shown)
        assert page.locator("#view img, #view script, #view iframe, #view a[href^=javascript]").count() == 0
        assert page.evaluate("window.hacked") is None
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()
    assert errors == []


def test_a_hostile_client_id_of_a_real_client_is_text(open_view: Open, sidecar: Sidecar) -> None:
    name = "<b onclick=alert(1)>\u202eid</b>"
    send(sidecar.bootstrap, name, "orders", [b"no json"])
    page = open_view("rejections")
    expect(page.locator("#view")).to_contain_text("<b onclick=alert(1)>\\u202eid</b>")
    assert page.locator("#view b").count() == 0
    page = open_view("connections")
    expect(page.locator("#view")).to_contain_text("<b onclick=alert(1)>\\u202eid</b>")
