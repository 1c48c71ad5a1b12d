"""Topics that are named after what is asked of their producers, and the settings with which a producer sends."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

RULES = """
producers:
  - {topics: ["acks-all-*"], acks: all, report: false}
  - {topics: ["acks-1-*"], acks: 1, report: false}
  - {topics: ["idempotence-*"], idempotence: required}
  - {topics: ["in-transactions-*"], transactions: required}
  - {topics: ["no-transactions-*"], transactions: forbidden, report: false}
  - {topics: ["compression-*"], compression: [zstd, lz4]}
  - {topics: ["bytes-*"], max_batch_bytes: 2KiB}
  - {topics: ["records-*"], max_records: 2}
  - {topics: ["client-id-*"], client_id: "^[a-z]+-app$", report: false}
  - topics: ["software-*"]
    software:
      apache-kafka-java: ">=99"
      librdkafka: ">=99"
      kafka-python: ">=99"
      kgo: ">=99"
    unknown_software: reject
  - {topics: ["shadow-*"], mode: shadow, acks: all, idempotence: required, compression: [zstd, lz4]}
  - {topics: ["several-*"], acks: all, idempotence: required, compression: [zstd, lz4], client_id: "^[a-z]+-app$"}
"""


@dataclass(frozen=True, slots=True)
class Sends:
    """How a producer sends one batch of three records."""

    acks: str = "all"
    idempotent: bool = False
    transactional: bool = False
    codec: str = "none"
    client_id: str = "orders-app"
    value_bytes: int = 10  # of each record
    is_random: bool = False  # no codec but those with entropy coding makes it smaller

    @property
    def values(self) -> list[str]:
        if self.is_random:
            random = Random(7)
            return [b64encode(random.randbytes(self.value_bytes)).decode() for _ in range(3)]
        return [f"{number}{'x' * self.value_bytes}" for number in range(3)]


TRANSACTIONAL = Sends(idempotent=True, transactional=True)
LARGE = 1000  # bytes of a value, with which a batch is not too small to be compressed

# By the first two cells of the table's rows: how a producer sends, and what is required of it.
CASES: Mapping[tuple[str, str], tuple[str, Sends]] = {
    ("`acks=all`", "`acks: all`"): ("acks-all", Sends()),
    ("`acks=1`", "`acks: all`"): ("acks-all", Sends(acks="1")),
    ("`acks=0`", "`acks: all`"): ("acks-all", Sends(acks="0")),
    ("`acks=1`", "`acks: 1`"): ("acks-1", Sends(acks="1")),
    ("`acks=0`", "`acks: 1`"): ("acks-1", Sends(acks="0")),
    ("`enable.idempotence=true`", "`idempotence: required`"): ("idempotence", Sends(idempotent=True)),
    ("`enable.idempotence=false`", "`idempotence: required`"): ("idempotence", Sends()),
    ("in a transaction", "`transactions: required`"): ("in-transactions", TRANSACTIONAL),
    ("outside", "`transactions: required`"): ("in-transactions", Sends(idempotent=True)),
    ("in a transaction", "`transactions: forbidden`"): ("no-transactions", TRANSACTIONAL),
    ("outside", "`transactions: forbidden`"): ("no-transactions", Sends(idempotent=True)),
    **{
        (f"`compression.type={codec}`", "`compression: [zstd, lz4]`"): (
            "compression", Sends(codec=codec, value_bytes=LARGE),
        )
        for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    },
    ("`compression.type=lz4`, a batch of 100 bytes", "`compression: [zstd, lz4]`"): ("compression", Sends(codec="lz4")),
    ("`compression.type=lz4`, data that lz4 cannot compress", "`compression: [zstd, lz4]`"): (
        "compression", Sends(codec="lz4", value_bytes=LARGE, is_random=True),
    ),
    ("a batch of 3,000 bytes", "`max_batch_bytes: 2KiB`"): ("bytes", Sends(value_bytes=LARGE)),
    ("a batch of 3 records", "`max_records: 2`"): ("records", Sends()),
    ("`client.id=orders-app`", '`client_id: "^[a-z]+-app$"`'): ("client-id", Sends()),
    ("`client.id=Orders`", '`client_id: "^[a-z]+-app$"`'): ("client-id", Sends(client_id="Orders")),
    ("an older version", "`software` with a newer one, `unknown_software: reject`"): ("software", Sends()),
}  # fmt: skip
