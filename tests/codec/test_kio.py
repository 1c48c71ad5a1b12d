"""kio as the reference: an independent implementation of the protocol must agree byte for byte.

Its limits (closed error codes, calendar times, no unknown tagged fields) are why `sample` has a tame mode.
"""

from __future__ import annotations

from random import Random

import pytest
from fuzz.samples import pairs, sample
from kio.index import UnknownAPIKey, UnknownEntity
from support.examples import for_each, rounds
from support.kio_messages import UNKNOWN_TO_KIO, kio_decode, kio_encode, kios_class, random_entity

from kafka_sidecar.codec.message import Struct, decode, encode, skipper

ROUNDS = rounds(12)
UNKNOWN = [(cls, version) for cls, version in pairs() if (cls.__name__, version) in UNKNOWN_TO_KIO]
PAIRS = [pair for pair in pairs() if pair not in UNKNOWN]


def name(pair: tuple[type[Struct], int]) -> str:
    return f"{pair[0].__name__}-v{pair[1]}"


@pytest.mark.bulk
@for_each(PAIRS, name)
def test_messages_of_kio_are_decoded_and_encoded_to_the_same_bytes(pair: tuple[type[Struct], int]) -> None:
    cls, version = pair
    kios = kios_class(cls, version)
    random = Random(name(pair))
    for _ in range(ROUNDS):
        data = kio_encode(random_entity(random, kios))
        value, end = decode(cls, data, version)
        assert end == len(data) == skipper(cls, version)(data, 0)
        assert encode(value, version) == data


@for_each(PAIRS, name)
def test_kio_decodes_our_messages_and_encodes_the_same_bytes(pair: tuple[type[Struct], int]) -> None:
    cls, version = pair
    kios = kios_class(cls, version)
    random = Random(name(pair))
    for _ in range(ROUNDS):
        data = encode(sample(random, cls, version, tame=True), version)
        assert kio_encode(kio_decode(kios, data)) == data


def test_kio_supports_all_other_versions() -> None:
    for cls, version in UNKNOWN:
        with pytest.raises((UnknownEntity, UnknownAPIKey)):
            kios_class(cls, version)
    assert {(cls.__name__, version) for cls, version in UNKNOWN} == UNKNOWN_TO_KIO
