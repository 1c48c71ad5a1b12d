"""One broker, one sidecar and busy clients for all tests, and a new page of a browser for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from browser.scene import Traffic, scene
from harness.sidecar import Sidecar
from playwright.sync_api import Browser, Page

Open = Callable[..., Page]


@pytest.fixture(scope="session")
def sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    """With clients that go on."""
    with scene(tmp_path_factory.mktemp("scene")) as (_, started):
        traffic = Traffic(started.bootstrap)
        yield started
        traffic.stop()


@pytest.fixture
def open_view(browser: Browser, sidecar: Sidecar) -> Iterator[Open]:
    """Opens a view in a window of its own, and returns once it has live data. A test fails by an error of the page."""
    contexts, errors = [], []

    def opened(view: str, width: int = 1280, scheme: str = "light") -> Page:
        context = browser.new_context(viewport={"width": width, "height": 860}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if "Security Policy" in message.text else None)
        page.on("dialog", lambda dialog: errors.append(f"a dialog: {dialog.message}"))
        page.goto(f"{sidecar.admin}/#{view}")
        page.wait_for_selector("#state[data-state=live]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert errors == []
