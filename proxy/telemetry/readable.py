"""Durations, sizes and numbers as people read them, and settings as they may be shown: without passwords and tokens."""

from __future__ import annotations

import re

NONE = "-"
HIDDEN = "(hidden)"
_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)|secret|token|credential|api.?key|private.?key|access.?key|account.?key|store.?key|auth|jaas|cookie|salt|pepper",
    re.IGNORECASE,
)
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def duration(seconds: float | None) -> str:
    """Seconds in the two largest units.

    >>> duration(0.0123), duration(2.5), duration(93784), duration(None)
    ('12.3 ms', '2.5 s', '1d 2h', '-')
    """
    if seconds is None:
        return NONE
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    left, parts = round(seconds), []
    for size, unit in _UNITS:
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    return " ".join(parts[:2])


def size(count: float | None) -> str:
    """Bytes.

    >>> size(0), size(1536), size(300 << 20)
    ('0 B', '1.5 KiB', '300 MiB')
    """
    if count is None:
        return NONE
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if count >= 100 or count == int(count) else f"{count:.1f} {unit}"


def number(value: float | None) -> str:
    """A number, with three digits where it is not whole.

    >>> number(1234567), number(0.5), number(12.34), number(1234.5)
    ('1,234,567', '0.5', '12.3', '1,234')
    """
    if value is None:
        return NONE
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.3g}"


def counted(value: float | None, one: str, several: str = "") -> str:
    """A number of things, with their noun.

    >>> counted(1, "topic"), counted(0, "topic"), counted(1200, "batch", "batches"), counted(None, "topic")
    ('1 topic', '0 topics', '1,200 batches', '- topics')
    """
    return f"{number(value)} {one if value == 1 else several or f'{one}s'}"


def rate(value: float | None) -> str:
    """So many a second: what is nearly a whole number is one.

    >>> rate(0.999), rate(0.04), rate(3.34), rate(12.6), rate(1234.5), rate(None)
    ('1', '0.04', '3.3', '13', '1,234', '-')
    """
    if value is None:
        return NONE
    return f"{value:.2g}" if value < 9.95 else f"{value:,.0f}"


def hide_secrets(value: object, hidden: str = HIDDEN) -> object:
    """A setting without values whose names say that they are secret, and without user and password in URLs.

    >>> hide_secrets({"url": "https://me:pw@registry:8081", "basic.auth.user.info": "me:pw", "max": 3})
    {'url': 'https://(hidden)@registry:8081', 'basic.auth.user.info': '(hidden)', 'max': 3}
    """
    match value:
        case str():
            return _USER_INFO.sub(lambda _: hidden, value)
        case dict():
            return {
                str(name): hidden if _SECRET_NAME.search(str(name)) and one is not None else hide_secrets(one, hidden)
                for name, one in value.items()
            }
        case list() | tuple() | set() | frozenset():
            return [hide_secrets(one, hidden) for one in value]
        case int() | float() | None:
            return value
        case _:
            return str(value)
