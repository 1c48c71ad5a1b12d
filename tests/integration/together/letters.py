"""What is in the dead letter topic, compared with what policies have rejected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from integration.front import logged
from integration.scenarios.target import LIMIT_S, eventually
from integration.together.broker_admin import topics
from integration.together.features import Place
from integration.together.model import Letter

from kafka_sidecar.codec.records import Header
from kafka_sidecar.dead_letters.letter import read_headers


def differences(direct: str, place: Place, expected: Counter[Letter]) -> Iterator[str]:
    """What is missing in the topic, and what is there besides."""
    found: Counter[Letter] = Counter()
    try:
        found = eventually(
            lambda: _letters(direct, place.letters), lambda found: found.total() >= expected.total(), "letters", LIMIT_S
        )
    except AssertionError as error:
        yield f"dead letters: {error}"
        found = _letters(direct, place.letters)
    for name, some in (("missing", expected - found), ("not expected", found - expected)):
        if some:
            shown = [(partition, dict(headers).get("id")) for partition, _, _, headers in some]
            yield f"dead letters: {some.total()} are {name}: {shown[:5]}"


def _letters(direct: str, topic: str) -> Counter[Letter]:
    if topic not in topics(direct):
        return Counter()
    found: Counter[Letter] = Counter()
    for message in logged(direct, topic):
        headers_of: Any = message.headers() or ()
        own, reasons = read_headers([Header(name, value) for name, value in headers_of])
        headers = tuple((header.key, header.value) for header in own)
        found[reasons.partition, message.key(), message.value(), headers] += 1
    return found
