"""Chromium for the tests: the installed one, or Debian's packages, which `make browser` unpacks into `.cache`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

CACHE = Path(__file__).parents[2] / ".cache" / "browser"
ROOT = CACHE / "root"
AXE = CACHE / "axe.min.js"
LIBRARIES = "usr/lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/pulseaudio", "lib/x86_64-linux-gnu"


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser."""
    installed = shutil.which("chromium")
    unpacked = ROOT / "usr/lib/chromium/chromium-headless-shell"
    assert installed or unpacked.exists(), "there is no Chromium: run `make browser`"
    libraries = ":".join(str(ROOT / folder) for folder in LIBRARIES)
    environment = os.environ if installed else {**os.environ, "LD_LIBRARY_PATH": libraries}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=installed or unpacked,
            env={**environment},
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        yield browser
        browser.close()
