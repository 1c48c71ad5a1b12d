"""The page in a real browser: live data of a real broker in each view, filters, keyboard, narrow windows, contrasts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from browser.chromium import AXE
from browser.scene import send
from harness.sidecar import Sidecar
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser
Open = Callable[..., Page]

# A view, and what it shows of the clients of the scene.
SHOWN = {
    "now": [
        "Produce",
        "Fetch",
        "127.0.0.1",
        "records/s of orders rejected by json",
        "a guard refuses CreateTopics",
        "clients are over the rate limit clickstream",
        "reachable",
        "are not sent as required: compression",
    ],
    "topics": [
        "orders",
        "json, require_header:trace-id, small",
        "shadow",
        "25 %",
        "add_header, mask_fields",
        "in slices",
        "orders.dlq",
        "entry 2: acks (enforce)",
        "clickstream",
        "entry 1: naming, partitions (enforce)",
        "hide",
    ],
    "rejections": [
        "importer-1",
        "no_header",
        "allowed (shadow)",
        "User:ANONYMOUS",
        "(rules)",
        "denied",
        "(topic guards)",
        "(producers)",
    ],
    "connections": ["checkout-7", "shipping-2", "confluent-kafka-python", "Produce v", "client_closed", "shipping"],
    "dead-letters": ["orders.dlq", "usable", "waiting letters", "spooled"],
    "plug-ins": ["add_header", "on_consume", "require_header", "called"],
    "audit": [
        "EventAuditor",
        "audit_events_sent",
        "sent events",
        "waiting events",
        "oldest waits for",
        "0 events, 0 B",
    ],
    "metrics": ["rejected_records", "client_to_proxy_request", "interceptor_call_seconds"],
}
VIEWS = list(SHOWN)
FOCUSED = "document.activeElement"
HIDE = """hidden => {
    Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
}"""


def rows(page: Page, title: str) -> list[str]:
    """The text of the rows of a table."""
    found = page.locator(f'[role=region][aria-label="{title}"] tbody tr').all_inner_texts()
    return list(map(str, found))


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_has_live_data(open_view: Open, view: str) -> None:
    page = open_view(view)
    for text in SHOWN[view]:
        expect(page.locator("#view")).to_contain_text(text)
    before = page.inner_text("#view")
    page.wait_for_function("before => document.getElementById('view').innerText !== before", arg=before, timeout=5000)
    expect(page.locator(f'nav a[href="#{view}"]')).to_have_attribute("aria-current", "page")


def test_rates_and_charts_are_those_of_the_clients(open_view: Open) -> None:
    page = open_view("now")
    produce = page.locator('[aria-label="By API"] tbody tr', has_text="Produce").locator("td")
    expect(produce.nth(0)).not_to_have_text("0")
    expect(produce.nth(1)).not_to_have_text("0")  # records
    for column in (4, 6):  # the latency, and the sidecar's own share of it
        expect(produce.nth(column)).to_contain_text("ms")
    expect(page.locator('[aria-label="By API"] tbody tr', has_text="Metadata").locator("td").nth(7)).to_contain_text(
        "ms"
    )
    expect(page.locator("figure canvas")).to_have_count(3)
    expect(page.locator("figure").first).to_contain_text("Produce")


def cells(page: Page, title: str, row: str) -> list[str]:
    """The texts of the only row of a table that begins with this."""
    found = page.locator(f'[role=region][aria-label="{title}"] tbody tr').filter(
        has=page.locator("th", has_text=re.compile(f"^{re.escape(row)}$"))
    )
    expect(found).to_have_count(1)
    return list(map(str, found.locator("td:visible").all_inner_texts()))


def test_records_and_bytes_are_counted_by_topic_in_both_directions(open_view: Open) -> None:
    page = open_view("now")
    for topic in ("customers", "clicks"):
        row = page.locator('[aria-label="By topic"] tbody tr', has_text=topic).locator("td")
        for column in range(4):
            expect(row.nth(column)).to_have_text(re.compile("^[1-9]"))
    expect(page.locator('[aria-label="By topic"] tbody tr').first).to_contain_text("orders")  # which is rejected
    assert cells(page, "By topic", "orders")[4] != "0"


def test_a_rate_limit_shows_how_much_of_it_is_used_and_whom_it_throttles(open_view: Open) -> None:
    page = open_view("now")
    row = page.locator('[aria-label="By limit"] tbody tr', has_text="produce bytes")
    expect(row).to_contain_text("throttles")
    expect(row.locator("td").nth(2)).to_have_text("123 kB")
    expect(row.locator("td").nth(4)).to_have_text(re.compile(r"^\d[\d.,]* %$"))
    expect(row.locator("td").nth(5)).to_have_text(re.compile(r"^\d+ kB$"))
    expect(page.locator('[aria-label="By limit"] tbody tr').first).to_contain_text("clickstream")
    assert cells(page, "By limit", "tools")[3:5] == ["client_id", "\u2013"]
    page = open_view("connections")
    page.get_by_label("Filter").fill("tracker-4")
    expect(page.locator("#view")).to_contain_text("rate limit clickstream")


def test_connections_have_the_group_of_their_consumer_and_are_filtered_by_it(open_view: Open) -> None:
    page = open_view("connections")
    page.get_by_label("group", exact=True).select_option("shipping", timeout=15_000)
    found = rows(page, "Open connections")
    assert all("shipping-2" in row for row in found)
    assert any("Fetch v" in row for row in found)
    assert any("Heartbeat v" in row for row in found)


def test_dead_letters_are_shown_with_their_topic_and_where_they_come_from(open_view: Open, sidecar: Sidecar) -> None:
    page = open_view("dead-letters")
    sent = page.locator('[aria-label="By dead letter topic"] tbody tr', has_text="orders.dlq").locator("td").nth(3)
    expect(sent).to_have_text(re.compile("^[1-9]"))
    before = int(sent.inner_text().replace(",", ""))
    assert send(sidecar.bootstrap, "letter-writer", "orders", [b"no json"] * 3) != []
    page.wait_for_function(
        """before => Number(document.querySelector('[aria-label="By dead letter topic"] tbody td:nth-child(5)')
            .innerText.replaceAll(',', '')) >= before + 3""",
        arg=before,
    )
    page = open_view("topics")
    row = page.locator("#view tbody tr", has_text="require_header:trace-id")
    expect(row).to_contain_text(re.compile(r"orders\.dlq\s+[\d,]+ sent"))


def test_topics_that_are_rejected_come_first_then_those_that_shadow_or_habits_report(open_view: Open) -> None:
    page = open_view("topics")
    expect(page.locator("#view tbody tr").first).to_contain_text("orders")
    clicks = page.locator("#view tbody tr", has=page.get_by_role("button", name="clicks", exact=True))
    expect(clicks).to_contain_text("not as required")
    payments = page.locator("#view tbody tr", has=page.get_by_role("button", name="payments", exact=True))
    expect(payments.locator("td").nth(6)).to_have_text(re.compile("^[1-9]"))  # what enforcing would have rejected
    expect(page.locator("#view thead th", has_text="Subjects")).to_be_hidden()  # no registry is configured


def test_a_rejection_appears_within_a_second(open_view: Open, sidecar: Sidecar) -> None:
    page = open_view("rejections")
    page.get_by_label("Filter").fill("late-one")
    assert "late-one" not in page.inner_text("#view")
    assert send(sidecar.bootstrap, "late-one", "orders", [b"no json"]) != []
    at = time.monotonic()
    expect(page.locator("#view")).to_contain_text("late-one", timeout=5000)
    assert time.monotonic() - at < 1.0


def test_rejections_are_filtered_by_text_and_by_choice(open_view: Open) -> None:
    page = open_view("rejections")
    title = "Rejections and denials"
    page.get_by_label("Filter").fill("importer")
    page.wait_for_function(
        "() => [...document.querySelectorAll('#view tbody tr')].every(row => row.innerText.includes('importer-1'))"
    )
    assert rows(page, title)
    page.get_by_label("Filter").fill("")
    for choice, value in (
        ("reason", "no_header"),
        ("client id", "web-3"),
        ("policy", "require_header"),
        ("topic", "orders"),
    ):
        page.get_by_label(choice, exact=True).select_option(value)
    found = rows(page, title)
    assert found
    assert all("no_header" in row and "web-3" in row for row in found)
    page.get_by_label("client id", exact=True).select_option("intern")
    expect(page.locator("#view tbody")).to_contain_text("nothing passes the filter")


def test_one_click_explains_a_rejection(open_view: Open) -> None:
    page = open_view("rejections")
    page.get_by_label("reason", exact=True).select_option("not_json")
    explain = page.locator("#view tbody button").first
    rejection = explain.inner_text()
    explain.click()
    detail = page.locator("section.detail")
    expect(detail).to_contain_text(f"kafka-sidecar explain {rejection}")
    expect(detail).to_contain_text("remedy")
    expect(detail).to_contain_text("Correct what the application sends")
    detail.get_by_role("button", name="Close").click()
    expect(detail).to_be_hidden()


def test_a_topic_and_a_connection_are_explained(open_view: Open) -> None:
    page = open_view("topics")
    page.get_by_role("button", name="payments").click()
    expect(page.locator("section.detail")).to_contain_text("shadow")
    page.get_by_label("Filter").fill("a.name.that.is.not.listed")
    page.get_by_role("button", name="Explain this name").click()
    expect(page.locator("section.detail")).to_contain_text("no entry of topics: matches its name")
    page = open_view("connections")
    page.get_by_label("Filter").fill("checkout-7")
    page.locator("#view tbody button").first.click()
    expect(page.locator("section.detail")).to_contain_text("last requests")


def test_the_page_goes_on_after_a_restart_of_the_sidecar(open_view: Open, sidecar: Sidecar) -> None:
    page = open_view("now")
    sidecar.program.kill()
    expect(page.locator("#state")).to_have_attribute("data-state", "lost", timeout=8000)
    expect(page.locator("#state")).to_have_text("not live: trying again")
    sidecar.start_again()
    expect(page.locator("#state")).to_have_attribute("data-state", "live", timeout=10_000)
    expect(page.locator("#view")).to_contain_text("Produce")


def test_a_page_that_is_not_seen_has_no_stream(open_view: Open) -> None:
    page = open_view("now")
    page.evaluate(HIDE, True)
    at = page.evaluate("document.querySelector('.tiles .note').textContent")
    page.wait_for_timeout(2500)
    assert page.evaluate("document.querySelector('.tiles .note').textContent") == at
    page.evaluate(HIDE, False)
    page.wait_for_function("at => document.querySelector('.tiles .note').textContent !== at", arg=at)


@pytest.mark.parametrize("view", VIEWS)
def test_a_phone_shows_each_view_without_scrolling_aside(open_view: Open, view: str) -> None:
    page = open_view(view, width=390)
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator('nav a[href="#metrics"]').click()
    expect(page.locator("#view h2").first).to_have_text("Metrics")


def test_the_keyboard_alone_is_enough(open_view: Open) -> None:
    page = open_view("now")
    press = page.keyboard.press
    press("Tab")
    assert page.evaluate(f"{FOCUSED}.textContent") == "Skip to the view"
    for _ in range(3):
        press("Tab")
    assert page.evaluate(f"{FOCUSED}.hash") == "#rejections"
    assert page.evaluate(f"getComputedStyle({FOCUSED}).outlineStyle") == "solid"
    press("Enter")
    expect(page.locator("#view h2").first).to_have_text("Rejections and denials")
    page.wait_for_selector("#view tbody button")
    for _ in range(6):
        press("Tab")
    assert page.evaluate(f"{FOCUSED}.type") == "search"
    page.keyboard.type("importer")
    page.wait_for_timeout(1500)  # snapshots come meanwhile
    assert page.evaluate(f"{FOCUSED}.value") == "importer"
    while page.evaluate(f"{FOCUSED}.className") != "link":
        press("Tab")
    name = page.evaluate(f"{FOCUSED}.textContent")
    page.wait_for_timeout(1500)
    assert page.evaluate(f"{FOCUSED}.textContent") == name
    press("Enter")
    expect(page.locator("section.detail")).to_contain_text(f"Rejection {name}")
    assert page.evaluate(f"{FOCUSED}.className") == "detail"
    press("Escape")
    expect(page.locator("section.detail")).to_be_hidden()
    assert page.evaluate(f"{FOCUSED}.textContent") == name


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_no_serious_fault(open_view: Open, view: str, scheme: str) -> None:
    page = open_view(view, scheme=scheme)
    for text in SHOWN[view][:2]:
        expect(page.locator("#view")).to_contain_text(text)
    page.evaluate(AXE.read_text())  # not as an element: the page's policy forbids it
    found = page.evaluate("axe.run()")
    serious = [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []
    assert len(found["passes"]) > 15
