"""Makes a picture of each view of the page, from a real run: `make page-pictures`."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from browser.chromium import chromium
from browser.scene import Traffic, scene

IMAGES = Path(__file__).parents[2] / "docs" / "images"
BELOW = {"passing": "What passes", "running": "Where it runs"}  # tables of the first view, from a heading on
VIEWS = ("now", *BELOW, "topics", "rejections", "connections", "plug-ins", "dead-letters", "audit", "metrics")
SIZE = {"width": 1180, "height": 700}
WARM_UP_S, HISTORY_S, VIEW_S = 8, 40, 3
MAX_BYTES = 150_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, scene(Path(folder)) as (_, sidecar), chromium() as browser:
        traffic = Traffic(sidecar.bootstrap)
        time.sleep(WARM_UP_S)
        pages = {scheme: browser.new_page(viewport=SIZE, color_scheme=scheme) for scheme in ("light", "dark")}
        for page in pages.values():
            page.goto(f"{sidecar.admin}/#now")
        time.sleep(HISTORY_S)
        for view in VIEWS:
            for scheme, page in pages.items():
                page.goto(f"{sidecar.admin}/#{'now' if view in BELOW else view}")
                page.wait_for_timeout(VIEW_S * 1000)
                file = IMAGES / f"page-{view}-{scheme}.png"
                if heading := BELOW.get(view):
                    page.locator("h2", has_text=heading).evaluate("heading => heading.scrollIntoView()")
                page.screenshot(path=file)
                size = file.stat().st_size
                print(f"{file.name}: {size:,} bytes")
                assert size < MAX_BYTES, f"{file} is too large for the documentation"
        traffic.stop()


if __name__ == "__main__":
    main()
