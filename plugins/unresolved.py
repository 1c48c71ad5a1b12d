"""How a plug-in says that it has to wait."""

from __future__ import annotations


class Unresolved(Exception):  # noqa: N818 - not an error: the plug-in cannot decide yet
    """The plug-in needs something that has to be fetched, such as a schema; its ``resolve(key)`` fetches it."""

    def __init__(self, key: object) -> None:
        super().__init__(key)
        hash(key)  # equal keys share one fetch: raises TypeError here, in the plug-in's code, if it is not hashable
        self.key = key
