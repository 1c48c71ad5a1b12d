"""Topics that are named after what is asked of their producers, and the settings with which a producer sends."""

from __future__ import annotations

from dataclasses import dataclass

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
      confluent-kafka-python: ">=99"
      librdkafka: ">=99"
      kafka-python: ">=99"
      kgo: ">=99"
    unknown_software: reject
  - {topics: ["shadow-*"], mode: shadow, acks: all, idempotence: required, compression: [zstd, lz4]}
  - {topics: ["many-*"], acks: all, idempotence: required, compression: [zstd, lz4], client_id: "^[a-z]+-app$"}
  - {topics: ["small-*"], min_mean_records: 10, min_mean_batch_bytes: 4KiB}
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

    @property
    def values(self) -> list[str]:
        return [f"{number}{'x' * self.value_bytes}" for number in range(3)]
