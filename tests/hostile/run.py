"""Attack a sidecar, with honest Java clients beside the attacker: what it costs it, and them.

usage: run.py [--only TEXT] [--seconds S] [--program FILE] [--before FILE] [--markdown FILE] [--stacks MS]

The longest turn of the event loop is printed after each row, as measured inside the sidecar: its CPU, and its time
without waits for a core, hold on a machine where other programs run.
How it measures and how to read it: docs/reference/limits.md
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from confluent_kafka.admin import AdminClient, NewTopic
from harness.certificates import authority
from harness.cluster import Cluster
from harness.sasl import MODULES
from harness.sidecar import COMMAND, Sidecar
from harness.tool_host import ToolHost
from harness.versions import NEWEST

from hostile import schemas, signatures
from hostile.apis import APIS
from hostile.attacks import ATTACKS, Attack, Place, Run, Security
from hostile.crowds import CROWDS
from hostile.guards import ON_GUARDS
from hostile.habits import HABITS
from hostile.honest import Waits
from hostile.letters import LETTERS
from hostile.letters import TOPIC as LETTER_TOPIC
from hostile.logins import LOGINS, MECHANISM, PASSWORD, USER, users_file
from hostile.pages import PAGE
from hostile.rates import RATES
from hostile.schemas import SCHEMAS
from hostile.segments import SEGMENTS
from hostile.sessions import SESSIONS
from hostile.signatures import SIGNATURES
from hostile.taps import TAPS
from hostile.turns import Longest, Turns, noted
from hostile.unknown import UNKNOWN
from hostile.watch import Watch

PER_SECOND = 100
WARM_S, ALONE_S, SETTLE_S = 3, 4, 10
MAX_LATE_S = 150  # of the honest clients
MIN_WINDOW_S = 2.0
ALONE_TO = " -> "  # between the wait of honest clients alone and with the attack
HEADINGS = (
    "attack", "loop ms", "RSS MB: before", "at most", "10 s after", "descriptors", "log KB",
    "p99 ms, honest: produce", "consume", "2 MB batch",
)  # fmt: skip
TOPICS = ("honest", "large", "orders", "celled", LETTER_TOPIC, *schemas.TOPICS, *signatures.TOPICS)
CONFIG = """
policies:
  small-numbers: {type: cel, expression: "value != null"}
%stopics:
  - {name: celled, policy: small-numbers}
%s  - {name: "*", policy: json}
interceptors:
  - {type: add_header, topics: [honest, orders], headers: {tenant: acme}}
  - {type: mask_fields, topics: [honest, orders], fields: [$.card]}
  - {type: commit_metadata}
"""

ALL = (
    *ATTACKS, *LOGINS, *APIS, *SEGMENTS, *SESSIONS, *UNKNOWN, *SCHEMAS, *LETTERS, *ON_GUARDS, *RATES, *SIGNATURES,
    *HABITS, *PAGE, *TAPS, *CROWDS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Suffered:
    """What the sidecar itself shows."""

    loop_ms: float
    resident_mb: tuple[float, float, float]  # before, at most, ten seconds after
    descriptors: int
    log_kb: float
    began: float  # seconds since 1970
    ended: float


@dataclass(frozen=True, slots=True)
class Row:
    """What one attack has done, to the sidecar and to honest clients."""

    attack: str
    sidecar: Suffered
    waits: Waits
    turn: Longest

    def cells(self) -> Iterator[str]:
        sidecar = self.sidecar
        yield self.attack
        yield f"{sidecar.loop_ms:.0f}"
        yield from (f"{each:.0f}" for each in sidecar.resident_mb)
        yield str(sidecar.descriptors)
        yield f"{sidecar.log_kb:.0f}"
        for kind in ("ack", "read", "large"):
            alone = self.waits.worst(kind, sidecar.began - ALONE_S, sidecar.began)
            yield f"{alone:.0f}{ALONE_TO}{self.waits.worst(kind, sidecar.began, sidecar.ended):.0f}"


@dataclass(frozen=True, slots=True)
class Options:
    """How attacks are run."""

    program: Path  # the sidecar that is attacked
    limit_s: float  # for one attack
    stacks_ms: float = 0  # of CPU: longer turns are logged with what ran in them

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Options:
        return cls(arguments.program, arguments.seconds, arguments.stacks)


def attack_once(attack: Attack, cluster: Cluster, java: ToolHost, options: Options, folder: Path) -> Row:
    """Start a sidecar, let the honest clients run alone for a while, then attack it."""
    limit_s = options.limit_s
    config, log = folder / "sidecar.yaml", folder / "sidecar.log"
    config.write_text(configuration(attack, folder))
    log.unlink(missing_ok=True)
    run = attack.prepare()
    with (
        noted(folder, options.stacks_ms) as turns,
        Sidecar.start(cluster.bootstrap, log, ["--config", str(config)], options.program) as sidecar,
    ):
        seconds = int(WARM_S + ALONE_S + limit_s) + 2
        arguments = (sidecar.bootstrap, "honest", "large", PER_SECOND, seconds)
        more = properties_file(folder, PROPERTIES[attack.security](folder))
        honest = java.start("HonestClient", *arguments, more, limit_s=seconds + MAX_LATE_S)
        time.sleep(WARM_S + ALONE_S)
        suffered, turn = attack_with(run, sidecar, log, limit_s, cluster.direct, turns)
        return Row(attack.name, suffered, Waits.read(honest.result(seconds + MAX_LATE_S + 20)), turn)


def configuration(attack: Attack, folder: Path) -> str:
    """Of the sidecar that is attacked."""
    policies, topics = (
        "".join(parts) for parts in zip(schemas.configured(folder), signatures.configured(folder), strict=True)
    )
    more = attack.more.replace("FOLDER", str(folder))
    return CONFIG % (policies, topics + attack.topics) + LISTENERS[attack.security](folder) + more


def tls_of_clients(folder: Path) -> str:
    """A section of the configuration."""
    return f"clients: {{tls: {{certificate: {authority().issue('sidecar').write_both(folder, 'sidecar')}}}}}\n"


def sasl_of_clients(folder: Path) -> str:
    """As above; PLAIN is for the attacker."""
    return f"clients: {{sasl: {{mechanisms: [PLAIN, {MECHANISM}], users_file: {users_file(folder)}}}}}\n"


LISTENERS: Mapping[Security, Callable[[Path], str]] = {
    "PLAINTEXT": lambda _: "", "SSL": tls_of_clients, "SASL_PLAINTEXT": sasl_of_clients,
}  # fmt: skip
JAAS = f'{MODULES[MECHANISM]} username="{USER}" password="{PASSWORD}";'
# What honest clients of Kafka's are configured with.
PROPERTIES: Mapping[Security, Callable[[Path], Mapping[str, object]]] = {
    "PLAINTEXT": lambda _: {},
    "SSL": lambda folder: {
        "security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": authority().write(folder),
    },
    "SASL_PLAINTEXT": lambda _: {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": MECHANISM, "sasl.jaas.config": JAAS,
    },
}  # fmt: skip


def properties_file(folder: Path, settings: Mapping[str, object]) -> Path:
    path = folder / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


def attack_with(
    run: Run, sidecar: Sidecar, log: Path, limit_s: float, direct: str, turns: Turns
) -> tuple[Suffered, Longest]:
    place = place_of(sidecar, limit_s, direct)
    turns.begin()
    logged = log.stat().st_size
    with Watch(sidecar.program.pid, place.admin) as watch:
        before, began = watch.resident_mb(), time.time()
        if isinstance(result := run(place), str):
            print(result, flush=True)
        ended = max(time.time(), began + MIN_WINDOW_S)
        time.sleep(max(0.0, ended - time.time()))
    turn = turns.longest()
    time.sleep(SETTLE_S)
    resident_mb = (before, watch.peak_mb(), watch.resident_mb())
    log_kb = (log.stat().st_size - logged) / 1e3
    return Suffered(watch.delay.worst_s * 1e3, resident_mb, watch.descriptors, log_kb, began, ended), turn


def place_of(sidecar: Sidecar, limit_s: float, direct: str) -> Place:
    return Place(address(sidecar.bootstrap), address(sidecar.admin.removeprefix("http://")), limit_s, direct)


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def table(rows: Iterable[Row], before: Mapping[str, Sequence[str]]) -> str:
    """In brackets: what an earlier run has found. Its waits are shown without those of honest clients alone."""
    ruler = tuple("---" if at == 0 else "---:" for at in range(len(HEADINGS)))
    lines = [HEADINGS, ruler, *(tuple(_with(row.cells(), before)) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _with(cells: Iterator[str], before: Mapping[str, Sequence[str]]) -> Iterator[str]:
    attack = next(cells)
    yield attack
    earlier = before.get(attack)
    for at, cell in enumerate(cells, 1):
        yield f"{cell} ({earlier[at].rpartition(ALONE_TO)[2]})" if earlier else cell


def read_table(path: Path) -> dict[str, Sequence[str]]:
    """The rows of a table that an earlier run has written, by attack."""
    rows = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in path.read_text().splitlines()]
    return {row[0]: row for row in rows[2:]}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="only attacks with this in their name")
    parser.add_argument("--seconds", type=float, default=8.0, help="for one attack; default: %(default)s")
    parser.add_argument("--program", type=Path, default=COMMAND, help="the kafka-sidecar that is attacked")
    parser.add_argument("--before", type=Path, metavar="FILE", help="the table of an earlier run, shown in brackets")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    parser.add_argument(
        "--stacks",
        type=float,
        default=0,
        metavar="MS",
        help="print the sidecar's log, with what ran in each longer turn of the event loop",
    )
    return parser.parse_args()


def main() -> int:
    """1 if honest clients did not get through in one of the rows."""
    options, rows = arguments(), list[Row]()
    before = read_table(options.before) if options.before else {}
    java = ToolHost(NEWEST)
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder, Cluster.start(NEWEST) as cluster:
        create_topics(cluster)
        try:
            for attack in ALL:
                if options.only in attack.name:
                    rows.append(row := attack_once(attack, cluster, java, Options.of(options), Path(folder)))
                    print("; ".join((*row.cells(), str(row.turn), *row.waits.failures)), flush=True)
                    if options.stacks:
                        print((Path(folder) / "sidecar.log").read_text(), flush=True)
        finally:
            java.stop()
    if options.markdown:
        options.markdown.write_text(table(rows, before))
    failed = [f"{row.attack}: {failure}" for row in rows for failure in row.waits.failures]
    print("".join(f"failed: {line}\n" for line in failed), end="", file=sys.stderr)
    return 1 if failed or not rows else 0


def create_topics(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.direct})
    topics = [NewTopic(name, 1, config={"max.message.bytes": str(16 << 20)}) for name in TOPICS]
    for created in admin.create_topics(topics).values():
        created.result(30)


if __name__ == "__main__":
    sys.exit(main())
