"""The life of a sidecar beside that of its clients: start, SIGTERM, a Job's end, a gateway that is upgraded."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer
from harness import admin_pages, json_lines
from harness.cluster import Cluster
from harness.ports import free_ports
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.balancer import Balancer
from integration.scenarios.target import SILENT, create_topic
from integration.senders import JavaSenders, LibrdkafkaSenders, Outcome, written

pytestmark = pytest.mark.integration

Config = Mapping[str, Mapping[str, str | int]]

PARTITIONS = 3
BEFORE_S = 2.0  # and after a restart
PREFIXES = {"java": "java-", "librdkafka": "rdkafka-"}  # of the values that are sent
IDEMPOTENT: Config = {
    "java": {"enable.idempotence": "true"},
    "librdkafka": {"enable.idempotence": "true"},
}
AT_LEAST_ONCE: Config = {
    "java": {"enable.idempotence": "false", "acks": "all"},
    "librdkafka": {"enable.idempotence": "false", "acks": "all"},
}
WITHOUT_RETRIES: Config = {
    "java": {"enable.idempotence": "false", "retries": 0},
    "librdkafka": {"enable.idempotence": "false", "retries": 0},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One node that is restarted."""
    with Cluster.start(NEWEST) as running:
        yield running


class Both:
    """As many producers of each library."""

    def __init__(
        self, host: ToolHost, bootstrap: str, topic: str, clients: int, per_second: int,
        config: Config, work: Path,
    ) -> None:  # fmt: skip
        self._java = JavaSenders(host, bootstrap, topic, clients, per_second, config["java"], work / topic)
        self._librdkafka = LibrdkafkaSenders(bootstrap, topic, clients, per_second, config["librdkafka"])

    def stop(self) -> dict[str, Outcome]:
        return {"java": self._java.stop(), "librdkafka": self._librdkafka.stop()}


def configured(path: Path, text: str) -> list[str]:
    path.write_text(text)
    return ["--config", str(path)]


def restart_sidecar(sidecar: Sidecar) -> None:
    """What the kubelet does to a container that is updated: SIGTERM, and the next one once it has ended."""
    assert sidecar.stop() == 0
    sidecar.start_again()


def restart_broker(cluster: Cluster) -> None:
    """A controlled restart."""
    cluster.node(1).shut_down()
    cluster.node(1).start()


def outcomes_of(restart: Callable[[], None], senders: Both) -> dict[str, Outcome]:
    """What became of the records that were sent before, during and after a restart."""
    time.sleep(BEFORE_S)
    restart()
    time.sleep(BEFORE_S)
    return senders.stop()


@pytest.mark.parametrize(
    ("name", "config", "is_compared"),
    [
        pytest.param("idempotent", IDEMPOTENT, False, id="idempotent"),
        pytest.param("compared", IDEMPOTENT, True, marks=pytest.mark.matrix, id="idempotent, compared"),
        pytest.param("at-least-once", AT_LEAST_ONCE, True, marks=pytest.mark.matrix, id="at least once, compared"),
        pytest.param("no-retries", WITHOUT_RETRIES, True, marks=pytest.mark.matrix, id="without retries, compared"),
    ],
)
def test_a_sigterm_under_load_fails_no_send_that_a_restart_of_the_broker_would_not(
    name: str, config: Config, is_compared: bool, cluster: Cluster, java: Mapping[str, ToolHost], tmp_path: Path
) -> None:
    host, load = java[NEWEST], (3, 500)
    create_topic(cluster.direct, topic := f"{name}-sidecar", PARTITIONS)
    flags = configured(tmp_path / "sidecar.yaml", "connections: {drain_timeout: 10s}\n")
    with Sidecar.start(cluster.bootstrap, tmp_path / "sidecar.log", flags) as sidecar:
        senders = Both(host, sidecar.bootstrap, topic, *load, config, tmp_path)
        of_sidecar = outcomes_of(lambda: restart_sidecar(sidecar), senders)
        ends = [line for line in json_lines.read(sidecar.log) if line.get("cause") == "drain"]
        assert {end["in_flight"] for end in ends} == {0}
    counts = report(f"{name}, sidecar restarted", of_sidecar, written(cluster, topic, PARTITIONS))
    for outcome in of_sidecar.values():
        assert outcome.acked + outcome.failed.total() == outcome.sent
    acked = sum(outcome.acked for outcome in of_sidecar.values())
    assert len(counts) >= acked
    if config is IDEMPOTENT:
        assert counts.total() == acked == sum(outcome.sent for outcome in of_sidecar.values())
    if is_compared:
        create_topic(cluster.direct, direct := f"{name}-broker", PARTITIONS)
        senders = Both(host, cluster.direct, direct, *load, config, tmp_path)
        of_broker = outcomes_of(lambda: restart_broker(cluster), senders)
        counts_of_broker = report(f"{name}, broker restarted", of_broker, written(cluster, direct, PARTITIONS))
        assert failures(of_sidecar) <= failures(of_broker)
        assert twice(counts) <= twice(counts_of_broker)


def failures(outcomes: Mapping[str, Outcome]) -> int:
    return sum(outcome.failed.total() for outcome in outcomes.values())


def twice(counts: Mapping[str, int]) -> int:
    return sum(count - 1 for count in counts.values())


def report(what: str, outcomes: Mapping[str, Outcome], counts: Counter[str]) -> Counter[str]:
    """Print a row for each library, for the tables of the documentation (``pytest -s``)."""
    for library, it in outcomes.items():
        doubled = twice({value: count for value, count in counts.items() if value.startswith(PREFIXES[library])})
        fate = f"sent {it.sent} | failed {dict(it.failed)} | twice {doubled} | slowest {it.slowest_ms:.0f} ms"
        print(f"{what} | {library} | {fate}")
    return counts


def produce(bootstrap: str, topic: str, values: range, at_the_end: threading.Event | None = None) -> list[str]:
    """An application: it sends, waits for its own SIGTERM, sends what it still has, and flushes. What failed."""
    failed: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap, "logger": SILENT, "enable.idempotence": True})
    half = len(values) // 2
    for number in values[:half]:
        producer.produce(
            topic, b"%d" % number, on_delivery=lambda error, _: failed.append(str(error)) if error else None
        )
    producer.flush(60)
    if at_the_end is not None:
        assert at_the_end.wait(60)
    for number in values[half:]:
        producer.produce(
            topic, b"%d" % number, on_delivery=lambda error, _: failed.append(str(error)) if error else None
        )
    assert producer.flush(60) == 0
    return failed


def is_live(sidecar: Sidecar) -> bool:
    try:
        return admin_pages.get(f"{sidecar.admin}/livez", 2).status == 200
    except OSError:
        return False


def test_a_native_sidecar_starts_before_the_application_and_ends_at_once_after_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    create_topic(cluster.direct, "native", 1)
    flags = configured(tmp_path / "sidecar.yaml", "connections: {drain_timeout: 1h}\n")
    with Sidecar(cluster.bootstrap, tmp_path / "sidecar.log", flags) as sidecar:
        sidecar.program.wait_for(lambda: is_live(sidecar), "live")  # the startup probe, which delays the application
        deleted = threading.Event()
        failed: list[str] = []
        application = threading.Thread(
            target=lambda: failed.extend(produce(sidecar.bootstrap, "native", range(2000), deleted))
        )
        application.start()
        deleted.set()  # SIGTERM to the application; the sidecar gets its own once all other containers have ended
        application.join(90)
        assert sidecar.stop() == 0, "not killed, which is what follows a drain of more than some seconds"
    assert failed == []
    assert set(written(cluster, "native", 1)) == set(map(str, range(2000)))


def test_an_application_that_starts_before_its_sidecar_loses_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """Ordinary containers start in no order."""
    create_topic(cluster.direct, "early", 1)
    with Sidecar.start(cluster.bootstrap, tmp_path / "sidecar.log") as sidecar:
        assert sidecar.stop() == 0  # it has chosen its ports
        failed: list[str] = []
        application = threading.Thread(target=lambda: failed.extend(produce(sidecar.bootstrap, "early", range(500))))
        application.start()
        time.sleep(0.5)
        sidecar.start_again()
        application.join(90)
    assert failed == []
    assert written(cluster, "early", 1).total() == 500


def test_the_sidecar_of_a_job_ends_with_success_after_its_only_client(cluster: Cluster, tmp_path: Path) -> None:
    """An ordinary container gets no signal when the Job's own has ended, and the pod waits for it."""
    create_topic(cluster.direct, "job", 1)
    flags = configured(tmp_path / "sidecar.yaml", "connections: {exit_when_unused: 500ms}\n")
    with Sidecar.start(cluster.bootstrap, tmp_path / "sidecar.log", flags) as sidecar:
        assert produce(sidecar.bootstrap, "job", range(1000)) == []
        assert sidecar.program.popen.wait(20) == 0
        assert "connections.exit_when_unused" in sidecar.program.output()
    assert written(cluster, "job", 1).total() == 1000


GATEWAYS = ("127.1.0.1", "127.1.0.2", "127.1.0.3")
BALANCER = "127.1.0.9"


@pytest.fixture
def gateways(cluster: Cluster, tmp_path: Path) -> Iterator[tuple[dict[str, Sidecar], str]]:
    """Three of them with the same ports, which name the balancer to clients; and its bootstrap address."""
    listen = free_ports(1 + 8, keep=True)[0]
    (tmp_path / "gateway.yaml").write_text("connections: {drain_timeout: 2s}\nnodes: {ports: 8}\n")
    running: dict[str, Sidecar] = {}
    for host in GATEWAYS:
        flags = [
            "--config",
            str(tmp_path / "gateway.yaml"),
            "--listen",
            f"{host}:{listen}",
            "--advertised-host",
            BALANCER,
        ]
        running[host] = Sidecar(cluster.bootstrap, tmp_path / f"{host}.log", flags)
    for sidecar in running.values():
        sidecar.wait()
    with Balancer(BALANCER, [listen, listen + 2], GATEWAYS, lambda host: running[host].is_ready()):  # node 1
        yield running, f"{BALANCER}:{listen}"
    for sidecar in running.values():
        sidecar.program.kill()


@pytest.mark.parametrize("clients", [5, pytest.param(25, marks=pytest.mark.matrix)])
def test_clients_of_three_gateways_lose_and_double_nothing_while_these_are_upgraded_one_by_one(
    clients: int,
    gateways: tuple[dict[str, Sidecar], str],
    cluster: Cluster,
    java: Mapping[str, ToolHost],
    tmp_path: Path,
) -> None:
    """As many clients of each library, through a TCP load balancer that asks ``/readyz``."""
    running, bootstrap = gateways
    create_topic(cluster.direct, topic := f"upgrade-{clients}", PARTITIONS)
    senders = Both(java[NEWEST], bootstrap, topic, clients, 20, IDEMPOTENT, tmp_path)
    time.sleep(3)
    for sidecar in running.values():
        restart_sidecar(sidecar)
    time.sleep(2)
    outcomes = senders.stop()
    counts = report(f"{2 * clients} clients, gateways restarted", outcomes, written(cluster, topic, PARTITIONS))
    assert [dict(outcome.failed) for outcome in outcomes.values()] == [{}, {}]
    assert counts.total() == len(counts) == sum(outcome.sent for outcome in outcomes.values())
    served = [sidecar.log.read_text().count('"connection ended"') for sidecar in running.values()]
    assert min(served) > 0, "every gateway had clients"
