"""`--before` in the benches: both versions get the same work, and are compared within a repetition."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig import versions
from rig.connection import Loop
from rig.driver import Driver, Result, Workload
from rig.frames import Address
from rig.peers import PEERS, Peer, Setting, kafka_sidecar, kafka_sidecar_with, sidecar_program
from rig.target import Target

pytestmark = pytest.mark.program

NODE = Address("127.0.0.1", 19092)
PLAIN = Peer("kafka-sidecar", kafka_sidecar, sidecar_program(), reads_kafka=True)
LIMITED = Peer(
    "limits", kafka_sidecar_with("validation: {max_batch_bytes: 1MiB}\n"), sidecar_program(), reads_kafka=True
)


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver(Loop())
    yield driver
    driver.close()


def options(*words: str) -> Namespace:
    parser = ArgumentParser()
    versions.add_arguments(parser)
    return parser.parse_args(words)


def test_every_sidecar_has_a_twin_and_nothing_else_has() -> None:
    with_before = versions.with_twins([*PEERS, LIMITED], options("--before", "/bin/true"))
    without = versions.with_twins([*PEERS, LIMITED], options())

    assert [(peer.name, peer.twin_of, peer.program == "/bin/true") for peer in with_before[len(PEERS) + 1 :]] == [
        ("kafka-sidecar, before", "kafka-sidecar", True),
        ("limits, before", "limits", True),
    ]
    assert with_before[: len(PEERS) + 1] == without == [*PEERS, LIMITED]


def test_a_program_that_does_not_exist_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options("--before", "/no/such/kafka-sidecar")

    assert "/no/such/kafka-sidecar is not a program" in capsys.readouterr().err


def test_a_twin_gets_the_same_flags_and_settings_with_its_own_names(tmp_path: Path) -> None:
    setting = Setting(NODE, Address("127.0.0.1", 9092), tmp_path)
    ours = LIMITED.command(setting)

    theirs = versions.twin(LIMITED, "/other/kafka-sidecar", [("max_batch_bytes", "max_batch")]).command(setting)

    assert theirs == ["/other/kafka-sidecar", *ours[1:]]
    assert Path(theirs[theirs.index("--config") + 1]).read_text() == "validation: {max_batch: 1MiB}\n"


def test_only_whole_words_are_renamed(tmp_path: Path) -> None:
    peer = Peer("p", kafka_sidecar_with("json: 1\nwell_json: 2\n"), sidecar_program())
    setting = Setting(NODE, Address("127.0.0.1", 9092), tmp_path)

    words = versions.twin(peer, "/other/kafka-sidecar", [("json", "well_formed_json")]).command(setting)

    assert Path(words[words.index("--config") + 1]).read_text() == "well_formed_json: 1\nwell_json: 2\n"


def test_versions_are_compared_within_a_repetition(driver: Driver) -> None:
    workload = Workload("w", connections=1, depth=1)
    peers = [PLAIN, versions.twin(PLAIN, "/other/kafka-sidecar"), PEERS[0]]
    targets = [Target(peer.name, driver, NODE, peer) for peer in peers]
    cpu_s = {PLAIN.name: [5e-6, 60e-6, 30e-6], "kafka-sidecar, before": [10e-6, 100e-6, 40e-6], "haproxy": [1e-6] * 3}
    runs = {
        ("w", name): [Result(1, 1.0, each, 0.0, 50_000_000 + len(name) * 100_000, None) for each in times]
        for name, times in cpu_s.items()
    }

    text = versions.comparison([workload], targets, runs)

    head, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert head == ["", "kafka-sidecar"]
    assert rows == [
        ["w: CPU us/request", "40 -> 30 (0.60x)"],
        ["resident memory at most, MB", "52.1 -> 51.3"],
    ]
    assert [target.name for target in versions.without_twins(targets)] == ["kafka-sidecar", "haproxy"]


def test_without_another_version_the_comparison_is_empty(driver: Driver) -> None:
    assert versions.comparison([], [Target(PLAIN.name, driver, NODE, PLAIN), Target("direct", driver, NODE)], {}) == ""
