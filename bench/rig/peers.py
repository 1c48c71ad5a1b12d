"""The compared proxies, and how each is started."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rig.frames import Address

PORTS_PER_PEER: Final = 10
FIRST_PORT, LAST_PORT = 21_000, 31_000  # below the ports that Linux gives to outgoing connections


@dataclass(frozen=True, slots=True)
class Setting:
    """The parameters of a peer. It may use ten ports from ``listen.port`` on."""

    listen: Address
    broker: Address
    folder: Path  # for configuration files


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    command: Callable[[Setting], list[str]]
    program: str  # must be installed
    remedy: str = "no such program"  # how to install it
    reads_kafka: bool = False  # must rewrite addresses
    is_yardstick: bool = False  # has no targets to meet
    twin_of: str = ""  # the name of the peer of which it is another version


HAPROXY_CONFIG: Final = """global
    nbthread 1
    nosplice
    maxconn 1000
defaults
    mode tcp
    timeout connect 5s
    timeout client 10m
    timeout server 10m
listen kafka
    bind {listen}
    server broker {broker}
"""


def haproxy(setting: Setting) -> list[str]:
    config = setting.folder / "haproxy.cfg"
    config.write_text(HAPROXY_CONFIG.format(listen=setting.listen, broker=setting.broker))
    return [found("haproxy") or "haproxy", "-db", "-f", str(config)]


def socat(setting: Setting) -> list[str]:
    listen = f"TCP-LISTEN:{setting.listen.port},bind={setting.listen.host},reuseaddr,backlog=128,fork,nodelay"
    return [found("socat") or "socat", "-b", "65536", listen, f"TCP:{setting.broker},nodelay"]


def kafka_sidecar(setting: Setting) -> list[str]:
    admin = setting.listen._replace(port=setting.listen.port + PORTS_PER_PEER - 1)
    return [
        sidecar_program(), "run",
        "--bootstrap-servers", str(setting.broker), "--listen", str(setting.listen), "--admin", str(admin),
    ]  # fmt: skip


def kafka_sidecar_with(settings: str) -> Callable[[Setting], list[str]]:
    """kafka-sidecar with a configuration file of these settings, beside its flags."""

    def command(setting: Setting) -> list[str]:
        config = setting.folder / f"{setting.listen.port}.yaml"
        config.write_text(settings)
        return [*kafka_sidecar(setting), "--config", str(config)]

    return command


def sidecar_program() -> str:
    """The command installed with the Python that runs the bench."""
    return str(Path(sys.executable).parent / "kafka-sidecar")


def profiled(output: Path) -> Peer:
    """kafka-sidecar under cProfile, which writes ``output`` when the sidecar ends."""

    def command(setting: Setting) -> list[str]:
        return [sys.executable, "-m", "cProfile", "-o", str(output), *kafka_sidecar(setting)]

    return Peer("kafka-sidecar", command, sidecar_program(), "make install", reads_kafka=True)


def from_command_line(name: str, command: str) -> Peer:
    """``command`` may use {listen}, {port} and {broker}."""
    words = shlex.split(command)

    def fill(setting: Setting) -> list[str]:
        values = {"listen": setting.listen, "port": setting.listen.port, "broker": setting.broker}
        return [word.format(**values) for word in words]

    return Peer(name, fill, program=words[0])


PEERS: Final = (
    Peer("haproxy", haproxy, "haproxy", "apt-get install haproxy socat", is_yardstick=True),
    Peer("socat", socat, "socat", "apt-get install haproxy socat", is_yardstick=True),
    Peer("kafka-sidecar", kafka_sidecar, sidecar_program(), "make install", reads_kafka=True),
)


def found(program: str) -> str | None:
    """The path of a program; Debian installs haproxy in a folder that is not on every user's PATH."""
    return shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))


def free_ports() -> Address:
    """The first of ten adjacent free ports."""
    start = FIRST_PORT + os.getpid() % 500 * PORTS_PER_PEER
    for first in [*range(start, LAST_PORT, PORTS_PER_PEER), *range(FIRST_PORT, start, PORTS_PER_PEER)]:
        if first not in _given and all(_is_free(port) for port in range(first, first + PORTS_PER_PEER)):
            _given.add(first)
            return Address("127.0.0.1", first)
    raise OSError(f"no {PORTS_PER_PEER} free ports in a row between {FIRST_PORT} and {LAST_PORT}")


_given: set[int] = set()


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
