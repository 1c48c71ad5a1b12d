"""Three mock brokers until Ctrl-C: the mock inside librdkafka, which works with librdkafka's clients only.

Prints their addresses. Prefer a real broker if you have one.
"""

from __future__ import annotations

import contextlib
import signal

from confluent_kafka import Producer

BROKERS = 3


def start() -> tuple[Producer, str]:
    """A cluster that exists as long as the returned producer, and its bootstrap.servers."""
    keeper = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": BROKERS, "log_level": 0})
    brokers = keeper.list_topics(timeout=10).brokers.values()
    return keeper, ",".join(sorted(f"{broker.host}:{broker.port}" for broker in brokers))


def main() -> None:
    _keeper, bootstrap_servers = start()
    print(bootstrap_servers, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()


if __name__ == "__main__":
    main()
