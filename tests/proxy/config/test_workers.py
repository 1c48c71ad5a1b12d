"""How many workers there are, and what each of them has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kafka_sidecar.proxy.config.loading import Config, load
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.config.workers import Place, count_workers, usable_cpus
from kafka_sidecar.proxy.features.auditing.from_config import emitter_id

CPUS = len(os.sched_getaffinity(0))


def config(**settings: Any) -> Config:
    return load(None, {}, {"bootstrap_servers": "kafka-1:9092", "listen": "127.0.0.1:9092", **settings})


def mistake(**settings: Any) -> str:
    with pytest.raises(ConfigError) as raised:
        config(**settings)
    (line,) = raised.value.lines
    return line


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({}, 8),
        ({"proc/self/cgroup": "0::/pod/app\n"}, 8),
        ({"proc/self/cgroup": "0::/pod/app\n", "sys/fs/cgroup/pod/app/cpu.max": "max 100000\n"}, 8),
        ({"proc/self/cgroup": "0::/pod/app\n", "sys/fs/cgroup/pod/app/cpu.max": "300000 100000\n"}, 3),
        ({"proc/self/cgroup": "0::/pod/app\n", "sys/fs/cgroup/pod/cpu.max": "200000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "20000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/elsewhere\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
        (
            {
                "proc/self/cgroup": "5:memory:/pod\n2:cpu,cpuacct:/pod\n0::/\n",
                "sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_quota_us": "500000\n",
                "sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_period_us": "100000\n",
            },
            5,
        ),
        (
            {
                "proc/self/cgroup": "2:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            8,
        ),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "what is this\n"}, 8),
    ],
)
def test_the_usable_cpus_are_those_of_affinity_and_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], cpus: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    assert usable_cpus(written(tmp_path, files)) == cpus


def test_auto_is_as_many_as_the_usable_cpus_and_one_where_ports_are_not_shared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert count_workers("auto") == usable_cpus() <= CPUS
    monkeypatch.setattr("sys.platform", "darwin")
    assert (count_workers("auto"), count_workers(3)) == (1, 3)


def test_the_default_is_one_process() -> None:
    assert (config().workers, config().worker_count, config().worker) == (1, 1, Place(1, 1))


@pytest.mark.parametrize("wrong", [0, 257, -1, 1.5, True, "2", "many"])
def test_what_is_no_number_of_workers_is_a_mistake(wrong: object) -> None:
    assert mistake(workers=wrong).endswith("workers: write a number from 1 to 256, or auto: as many as there are CPUs")


def test_a_variable_may_set_it() -> None:
    environment = {"KAFKA_SIDECAR__BOOTSTRAP_SERVERS": "kafka-1:9092", "KAFKA_SIDECAR__WORKERS": "3"}
    assert load(None, environment, {}).worker_count == 3
    assert load(None, environment | {"KAFKA_SIDECAR__WORKERS": "auto"}, {}).workers == "auto"


def test_each_worker_has_a_range_of_ports_and_the_first_has_that_of_the_only_process() -> None:
    settings = config(workers=3, **{"nodes.ports": 50})
    assert settings.first_node_port == config().first_node_port == 9093
    assert [settings.for_worker(Place(number, 3)).first_node_port for number in (1, 2, 3)] == [9093, 9143, 9193]


def test_the_ports_of_all_workers_are_the_sidecars_own() -> None:
    settings = config(workers=2, **{"nodes.ports": 10})
    own = {9092, *range(9093, 9113)}
    assert settings.own_ports == settings.for_worker(Place(2, 2)).own_ports == own
    assert "it listens at port 9092 and, for brokers, 9093 to 9112" in mistake(
        workers=2, bootstrap_servers="127.0.0.1:9112", **{"nodes.ports": 10}
    )


def test_ranges_that_do_not_fit_are_a_mistake_with_a_remedy() -> None:
    assert mistake(workers=600 // 100, **{"nodes.first_port": 65000}).endswith(
        "node ports 65000 to 65599 of 6 workers end above 65535: lower nodes.first_port, nodes.ports or workers"
    )


@pytest.mark.parametrize("setting", ["listen", "admin.listen"])
def test_a_range_with_another_port_of_the_sidecar_is_a_mistake_with_a_remedy(setting: str) -> None:
    assert mistake(workers=2, **{"nodes.first_port": 9100, "nodes.ports": 50, setting: "127.0.0.1:9190"}).endswith(
        f"node ports 9100 to 9199 of 2 workers contain the port of {setting}: move nodes.first_port, "
        "or lower nodes.ports or workers"
    )


def test_workers_share_what_the_host_has_once() -> None:
    settings = config(workers=4)
    assert settings.for_worker(Place(1, 4)).share(256 << 20) == 64 << 20
    assert (settings.share(100), settings.for_worker(Place(1, 4)).share(3)) == (100, 1)


def test_workers_have_names_and_files_of_their_own() -> None:
    settings = config(workers=2, **{"audit.emitter_id": "gateway-1"})
    one, two = (settings.for_worker(Place(number, 2)) for number in (1, 2))
    assert [emitter_id(of) for of in (config(**{"audit.emitter_id": "gateway-1"}), one, two)] == [
        "gateway-1",
        "gateway-1/worker-1",
        "gateway-1/worker-2",
    ]
    path = Path("/var/lib/brokers.json")
    assert (one.own_file(path), two.own_file(path)) == (path, Path("/var/lib/brokers.json.worker-2"))
    assert two.own_file(None) is None


def test_a_sidecar_with_workers_does_not_exit_when_unused() -> None:
    line = mistake(workers=2, connections={"exit_when_unused": "10s"})
    assert line == "command line: connections.exit_when_unused is for the sidecar of one application: set workers to 1"
