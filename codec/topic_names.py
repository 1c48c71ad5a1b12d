"""Which names topics may have. Clients can send any other, too: it belongs to no topic, and is stored nowhere."""

from __future__ import annotations

import re

PATTERN = r"[a-zA-Z0-9._-]{1,249}"  # as in Kafka's Topic.validate, besides "." and ".."
_NAME = re.compile(rf"(?!\.\.?\Z){PATTERN}")


def is_topic_name(name: str) -> bool:
    """Whether a topic may have this name.

    >>> is_topic_name("orders.v1"), is_topic_name(".."), is_topic_name("orders/v1"), is_topic_name("o" * 250)
    (True, False, False, False)
    """
    return _NAME.fullmatch(name) is not None
