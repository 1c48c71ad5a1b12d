"""The files of the page: part of the package, read once, and served without a token, since they have no data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from kafka_sidecar.proxy.server.admin.page import FILES_FOLDER, Page

TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
# No inline code and no other host; what libraries set as styles of elements is allowed, since it is set by scripts.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    ("content-security-policy", POLICY),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)
INDEX = "index.html"


class Files(Mapping[str, Page]):
    """By path. Read with the first request."""

    def __getitem__(self, path: str) -> Page:
        return _read()[path]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(_read())

    def __len__(self) -> int:
        return len(_read())


@cache
def _read() -> Mapping[str, Page]:
    found = {}
    for file in files(__package__).joinpath("page").iterdir():
        kind = TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            path = "/" if file.name == INDEX else f"{FILES_FOLDER}{file.name}"
            found[path] = Page(200, kind, file.read_bytes(), HEADERS)
    return found


FILES = Files()
