"""The local port of each broker: stable, one each, never a broker's own."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.proxy.nodes.addresses import Addresses, NoPortError, load_brokers, save_brokers

BROKERS = [(2, "broker-2.internal", 9092), (1, "lone\udcffsurrogate", 9093)]


class Ports:
    """The operating system's view: ports in use, open listeners, and the time."""

    def __init__(self, used: Iterable[int] = ()) -> None:
        self.used = set(used)
        self.listeners: dict[int, int] = {}
        self.now = 0.0

    def listen(self, node_id: int, port: int) -> None:
        if port in self.used:
            raise OSError(98, "Address already in use")
        self.used.add(port)
        self.listeners[node_id] = port

    def addresses(self, ports: int = 10) -> Addresses:
        return Addresses("sidecar", 20000, ports, self.listen, lambda: self.now)


def brokers(*node_ids: int) -> list[tuple[int, str, int]]:
    return [(node_id, f"broker-{node_id}.internal", 9092) for node_id in node_ids]


def test_a_node_in_the_range_has_the_first_port_plus_its_id() -> None:
    addresses = Ports().addresses()
    assert addresses.local_address(0, "broker-0.internal", 9092) == ("sidecar", 20000)
    assert addresses.local_address(7, "broker-7.internal", 9092) == ("sidecar", 20007)


def test_the_listener_is_opened_once_before_the_port_is_returned() -> None:
    ports = Ports()
    addresses = ports.addresses()
    first = addresses.local_address(3, "broker-3.internal", 9092)
    assert ports.listeners == {3: 20003}
    assert addresses.local_address(3, "broker-3.internal", 9092) == first


def test_a_node_outside_the_range_gets_a_port_from_its_end() -> None:
    addresses = Ports().addresses()
    assert addresses.local_address(10, "broker-10.internal", 9092) == ("sidecar", 20009)
    assert addresses.local_address(1001, "broker-1001.internal", 9092) == ("sidecar", 20008)


@given(st.sets(st.integers(0, 2**31 - 1), min_size=1, max_size=10))
def test_the_same_cluster_gets_the_same_ports_after_a_restart(node_ids: set[int]) -> None:
    before, after = Ports().addresses(), Ports().addresses()
    before.update(brokers(*node_ids))
    after.update(reversed(brokers(*sorted(node_ids))))
    ports = [addresses.nodes[node_id].local_port for node_id in node_ids for addresses in (before, after)]
    assert ports[::2] == ports[1::2]
    assert len(set(ports)) == len(node_ids)
    assert set(ports) <= set(range(20000, 20010))


def test_a_port_in_use_is_skipped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    ports = Ports(used=[20003])
    assert ports.addresses().local_address(3, "broker-3.internal", 9092) == ("sidecar", 20006)
    assert [record.message for record in caplog.records] == ["broker port in use"]


def test_a_full_range_is_an_error_with_the_remedy() -> None:
    addresses = Ports().addresses(ports=2)
    addresses.update(brokers(1, 2))
    with pytest.raises(NoPortError, match=r"no port for node 3.*raise nodes.ports or move nodes.first_port") as error:
        addresses.local_address(3, "broker-3.internal", 9092)
    assert error.value.cause == "no_port"
    assert 3 not in addresses.nodes


def test_a_broker_without_a_port_does_not_hide_the_others(caplog: pytest.LogCaptureFixture) -> None:
    ports = Ports(used=[20000, 20002])
    addresses = ports.addresses(ports=3)
    addresses.update(brokers(0, 1))
    ports.now = 100.0
    addresses.update(brokers(0, 1))
    assert addresses.expire(older_than=60) == []
    assert addresses.nodes[0].local_port == 20001
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 2


def test_replaced_brokers_free_their_ports_for_new_ones() -> None:
    ports = Ports()
    addresses = ports.addresses(ports=3)
    addresses.update(brokers(1, 2, 3))
    ports.now = 100.0
    addresses.update(brokers(4, 5, 6))
    ports.used -= {node.local_port for node in addresses.expire(older_than=60)}
    addresses.update(brokers(4, 5, 6))
    assert sorted(addresses.nodes) == [4, 5, 6]


def test_a_broker_that_moved_keeps_its_port() -> None:
    addresses = Ports().addresses()
    before = addresses.local_address(1, "broker-1.internal", 9092)
    assert addresses.local_address(1, "elsewhere.internal", 9093) == before
    assert (addresses.nodes[1].host, addresses.nodes[1].port) == ("elsewhere.internal", 9093)


def test_a_broker_not_seen_for_the_time_limit_is_forgotten() -> None:
    ports = Ports()
    addresses = ports.addresses()
    addresses.update(brokers(1, 2))
    ports.now = 59.0
    addresses.update(brokers(2))
    assert addresses.expire(older_than=60) == []
    ports.now = 61.0
    assert [node.node_id for node in addresses.expire(older_than=60)] == [1]
    assert list(addresses.nodes) == [2]


def test_a_broker_that_comes_back_gets_its_port_again() -> None:
    ports = Ports()
    addresses = ports.addresses()
    addresses.update(brokers(1))
    ports.now = 100.0
    ports.used -= {node.local_port for node in addresses.expire(older_than=60)}
    assert addresses.local_address(1, "broker-1.internal", 9092) == ("sidecar", 20001)


def test_a_broker_that_has_another_port_is_found_there() -> None:
    addresses = Ports().addresses()
    addresses.local_address(1, "broker-1.internal", 9092)
    addresses.local_address(1, "broker-1.internal", 9093)
    assert addresses.nodes[1].port == 9093


def test_a_broker_seen_exactly_at_the_time_limit_is_kept() -> None:
    ports = Ports()
    addresses = ports.addresses()
    addresses.update(brokers(1))
    ports.now = 60.0
    assert addresses.expire(older_than=60) == []


def test_saved_brokers_are_loaded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save_brokers(tmp_path / "state.json", BROKERS)
    assert load_brokers(tmp_path / "state.json") == sorted(BROKERS)
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
    assert caplog.records == []


def test_a_later_state_replaces_an_earlier_one(tmp_path: Path) -> None:
    save_brokers(tmp_path / "state.json", BROKERS)
    save_brokers(tmp_path / "state.json", BROKERS[:1])
    assert load_brokers(tmp_path / "state.json") == BROKERS[:1]


def test_a_missing_file_has_no_brokers_and_logs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert load_brokers(tmp_path / "state.json") == []
    assert caplog.records == []


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", "null", "{}", '{"brokers": 7}', '{"brokers": [[1, "a"]]}', '{"brokers": [["x", "a", 1]]}',
     '{"brokers": [[1, "a", null]]}', '{"brokers": [[Infinity, "a", 1]]}'],
)  # fmt: skip
def test_an_invalid_file_has_no_brokers_and_logs_one_warning(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state.json").write_text(text)
    assert load_brokers(tmp_path / "state.json") == []
    assert [record.message for record in caplog.records] == ["state file unreadable"]


def test_a_file_that_is_not_utf_8_has_no_brokers(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_bytes(b"\xff\xfe\x00")
    assert load_brokers(tmp_path / "state.json") == []


def test_a_failed_write_logs_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save_brokers(tmp_path / "no such folder" / "state.json", BROKERS)
    assert [record.message for record in caplog.records] == ["state file not written"]
