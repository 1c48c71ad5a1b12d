"""Settings of plug-ins as they may be shown: without passwords, tokens and the like."""

from __future__ import annotations

import re

HIDDEN = "(hidden)"
_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)|secret|token|credential|api.?key|private.?key|access.?key|account.?key|store.?key|auth|jaas|cookie|salt|pepper",
    re.IGNORECASE,
)
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")


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
