"""A cluster, a sidecar, a producer and a consumer that use it: live figures, then the results.

Then valid and invalid records for topics with policies, a JSON Schema and an Avro schema among them: which are
stored, and the producer's errors for the others.
And a record that interceptors change: a header is added on produce, a field masked on consume.
And a record that is larger than its topic allows: stored in slices, read whole.
And a rejected record: kept as a dead letter, replayed after the policy has changed.

Started by `make demo`. Needs no JDK and no broker: the cluster is the mock inside librdkafka, with three brokers.
With `--bootstrap-servers` it is one of yours, which creates topics and has none of these yet.
With `--page` the clients go on until Ctrl-C, for the page of the sidecar whose address is printed: `make demo-page`.
DEMO_SECONDS is the time for which records are sent. Exit code 1: a result is not as expected.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import customers
import documents
import mock_cluster
import payments
import refunds
from confluent_kafka import Consumer, Producer
from customers import Customers
from documents import Documents
from ledger import Addresses, Finding, Ledger, address_findings, key_of, relay_findings
from payments import BATCHES, GOOD, KINDS, Payments, reasons_table, response_on_the_wire
from refunds import Refunds
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text
from sidecar import Sidecar, format_bytes, traffic_table

SECONDS = float(os.environ.get("DEMO_SECONDS", "12"))
RECORDS_PER_S = 2000
PATIENCE_S = 15.0  # for the last records to arrive once the last one was sent
TOPIC = "orders"
BAD_KINDS = sum(kind.name not in GOOD for kinds in KINDS.values() for kind in kinds)
REJECTED = BAD_KINDS * BATCHES + BAD_KINDS  # those of the producer, and one of each kind on the wire


def create_topic(producer: Producer) -> None:
    """A metadata request creates it; a consumer that subscribes before it is there looks again minutes later."""
    end = time.monotonic() + PATIENCE_S
    while producer.list_topics(TOPIC, timeout=10).topics[TOPIC].error is not None and time.monotonic() < end:
        time.sleep(0.1)


def send(producer: Producer, ledger: Ledger, upto: int) -> None:
    for number in range(ledger.sent, upto):
        value = f'{{"order": {number}, "article": "{number * 7919 % 100_000:05}", "note": "{"." * 120}"}}'
        producer.produce(TOPIC, key=key_of(number), value=value, on_delivery=ledger.was_delivered)
    ledger.sent = max(ledger.sent, upto)
    producer.poll(0)


def pass_records(producer: Producer, consumer: Consumer, ledger: Ledger, show: Callable[[], None]) -> None:
    """Send for SECONDS and read; return when all are read, or after PATIENCE_S."""
    consumer.subscribe([TOPIC])
    start = time.monotonic()
    end = start + SECONDS
    while (now := time.monotonic()) < end or (not ledger.is_settled and now < end + PATIENCE_S):
        send(producer, ledger, int((min(time.monotonic(), end) - start) * RECORDS_PER_S))
        for message in consumer.consume(1000, timeout=0.05):
            ledger.was_read(message)
        show()
    for message in consumer.consume(1000, timeout=0.2):  # a duplicate would be here
        ledger.was_read(message)


def addresses(client: Producer | Consumer) -> Addresses:
    """The addresses of the brokers in the metadata of this client."""
    return {f"{broker.host}:{broker.port}" for broker in client.list_topics(timeout=10).brokers.values()}


class Progress:
    """A live table on a terminal; elsewhere one line a second."""

    def __init__(self, console: Console, sidecar: Sidecar, ledger: Ledger) -> None:
        self._console, self._sidecar, self._ledger = console, sidecar, ledger
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._began = self._shown = time.monotonic()

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self) -> None:
        now = time.monotonic()
        if now - self._shown < (0.25 if self._live else 1.0):
            return
        self._shown = now
        traffic, records = self._sidecar.traffic(), self._ledger
        line = (
            f"{now - self._began:4.0f} s   sent {records.sent:,}   acknowledged {len(records.acknowledged):,}   "
            f"read {len(records.read):,}   {format_bytes(traffic.bytes)} through {traffic.opened} connections"
        )
        if self._live is None:
            self._console.print(line, soft_wrap=True, highlight=False)
        else:
            self._live.update(Group(Text(line), traffic_table(traffic)), refresh=True)


def report(console: Console, findings: list[Finding], ending: str | None) -> int:
    """Print the results; returns the exit code."""
    findings.append(Finding(ending is not None, "the sidecar logs each ended connection; the producer's busiest one:"))
    console.print("\nResults", style="bold")
    for finding in findings:
        mark = Text("  ok      ", "green") if finding.is_good else Text("  WRONG   ", "bold red")
        console.print(mark + Text(finding.sentence), soft_wrap=True, highlight=False)
    if ending:
        console.print(Text(ending), style="dim", soft_wrap=True, highlight=False)
    return 0 if all(finding.is_good for finding in findings) else 1


def brokers_of(bootstrap_servers: str) -> set[str]:
    """The addresses of a cluster's brokers. SystemExit: it has topics of this program, and records in them."""
    client = Producer({"bootstrap.servers": bootstrap_servers})
    own = {TOPIC, *payments.KINDS, customers.TOPIC, documents.TOPIC, *refunds.TOPICS}
    names = own & client.list_topics(timeout=10).topics.keys()
    if names:
        raise SystemExit(f"the cluster has topics of this program: delete {', '.join(sorted(names))}, or take another")
    return addresses(client)


def relay(console: Console, sidecar: Sidecar, ledger: Ledger) -> set[str]:
    """Pass valid records through; returns the addresses that clients get to know."""
    client = {"bootstrap.servers": sidecar.listen}
    producer = Producer({**client, "client.id": "demo-producer", "enable.idempotence": True, "linger.ms": 20})
    consumer = Consumer({**client, "client.id": "demo-consumer", "group.id": "demo", "auto.offset.reset": "earliest"})
    with contextlib.closing(consumer), contextlib.closing(producer):
        named = addresses(producer) | addresses(consumer)
        create_topic(producer)
        with Progress(console, sidecar, ledger) as progress:
            pass_records(producer, consumer, ledger, progress.show)
        return named | addresses(producer) | addresses(consumer)


def run(console: Console, folder: Path, bootstrap_servers: str | None = None) -> int:
    if bootstrap_servers is None:
        _keeper, bootstrap_servers = mock_cluster.start()
        brokers = set(bootstrap_servers.split(","))
    else:
        brokers = brokers_of(bootstrap_servers)
    ledger = Ledger()
    with Sidecar(bootstrap_servers, folder / "sidecar.log") as sidecar:
        console.print(f"$ {sidecar.command_line}\n", style="bold", soft_wrap=True, highlight=False)
        own = sidecar.wait_until_ready(len(brokers))
        named = relay(console, sidecar, ledger)
        payments = Payments(sidecar.listen)
        payments.send()
        for topic in KINDS:
            console.print(reasons_table(topic, response_on_the_wire(sidecar.listen, topic)))
        customers = Customers(sidecar.listen, bootstrap_servers)
        console.print(customers.table())
        documents = Documents(sidecar.listen, bootstrap_servers)
        console.print(documents.table())
        rejected = sidecar.rejected_records()
        traffic = sidecar.traffic()
        began = time.monotonic()
        exit_code = sidecar.stop()
        stop_s = time.monotonic() - began
        refunds = Refunds(bootstrap_servers, len(brokers), folder)
        for command in refunds.commands:
            console.print(f"$ {command.line}", style="bold", soft_wrap=True, highlight=False)
            console.print(command.output, soft_wrap=True, highlight=False, markup=False)
        console.print(refunds.table())
        passed = {api.name: api.requests for api in traffic.apis}
        findings = [
            *ledger.findings(),
            *payments.findings(),
            Finding(
                rejected == REJECTED,
                f"{rejected} records rejected, by the sidecar's own count: these, and {BAD_KINDS} of the batches above",
            ),
            *customers.findings(),
            *documents.findings(),
            *refunds.findings(),
            *relay_findings(traffic.opened, passed),
            *address_findings(brokers, own, named),
            Finding(exit_code == 0, f"the sidecar ended {stop_s:.1f} s after SIGTERM with exit code {exit_code}"),
        ]
        if not console.is_terminal:
            console.print(traffic_table(traffic))
        return report(console, findings, sidecar.busiest_ending("demo-producer"))


def keep_running(console: Console, folder: Path, bootstrap_servers: str | None = None) -> int:
    """Valid and invalid records until Ctrl-C, for who looks at the page of the sidecar."""
    ended = threading.Event()  # an exception in a callback of a client would be lost
    signal.signal(signal.SIGTERM, lambda number, _: ended.set())
    _keeper = None
    if bootstrap_servers is None:
        _keeper, bootstrap_servers = mock_cluster.start()
    with Sidecar(bootstrap_servers, folder / "sidecar.log") as sidecar:
        console.print(f"$ {sidecar.command_line}\n", style="bold", soft_wrap=True, highlight=False)
        sidecar.wait_until_ready(1)
        console.print(f"Look at {sidecar.page} in a browser. Ctrl-C ends the demo.", soft_wrap=True, highlight=False)
        client = {"bootstrap.servers": sidecar.listen}
        producer = Producer({**client, "client.id": "demo-producer", "linger.ms": 20})
        consumer = Consumer({**client, "client.id": "demo-consumer", "group.id": "demo"})
        create_topic(producer)
        consumer.subscribe([TOPIC])
        with contextlib.closing(consumer), contextlib.closing(producer):
            due = 0.0
            while not ended.is_set():
                for number in range(RECORDS_PER_S // 20):
                    producer.produce(TOPIC, f'{{"order": {number}, "note": "{"." * 120}"}}')
                producer.poll(0)
                consumer.consume(1000, timeout=0.05)
                if time.monotonic() >= due:  # clients that come and go, and send what is rejected
                    Payments(sidecar.listen).send()
                    Customers(sidecar.listen, bootstrap_servers)
                    due = time.monotonic() + 2
    return 128 + signal.SIGTERM


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--bootstrap-servers", help="a cluster of yours that creates topics, in place of the mock")
    parser.add_argument("--page", action="store_true", help="go on until Ctrl-C, and print where the page is")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    console = Console()
    with tempfile.TemporaryDirectory(prefix="kafka-sidecar-demo-") as folder:
        try:
            demo = keep_running if arguments.page else run
            return demo(console, Path(folder), arguments.bootstrap_servers)
        except KeyboardInterrupt:
            return 130


if __name__ == "__main__":
    sys.exit(main())
