"""Messages of 1 KB to 20 MB through two sidecars on three brokers while all of them fail, read by groups of three kinds.

Of 5,000 messages of five codecs, in transactions and without, groups of each kind get each that was to be kept: whole,
in order, once where Kafka says once, with nothing that the sidecar stores for itself; and the audit says the same.
EVERYTHING_COUNT in the environment makes it another number.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.front import logged
from integration.large_messages.audit_table import Table, read_table
from integration.large_messages.failing_site import AUDIT, Site, failing, failing_site
from integration.large_messages.mixed_readers import KINDS, MEMBERS, Got, Members, Place
from integration.large_messages.mixed_senders import SENDERS, MixedSending
from integration.large_messages.mixed_values import Mixed
from integration.large_messages.stored import LM
from integration.scenarios.target import LIMIT_S, SILENT, admin_client, headers_of, latest

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

COUNT = int(os.environ.get("EVERYTHING_COUNT", "5000"))
PARTITIONS, AUDIT_PARTITIONS = 3, 3
FIRST, SECOND = "first", "second"
OUTAGES = (
    FIRST, "cut", "leaders", "broker 1", "cut 2", SECOND, "hung 3", "leaders", FIRST, "broker 2", "cut", SECOND,
    "cut 3", "broker 3", "leaders", "cut",
)  # fmt: skip
LAST = "last"  # the sender of the values with which the partitions end
TO_END_S = 240.0
COUNTED_LATE_S = 0.5  # what passes is counted a little later, and an interval ends a little after it was made
IN_CLIENT_S = 15.0  # how long a message may have been in a reader's queue before the application got it
GROUP_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SHARE_TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


@dataclass(frozen=True, slots=True)
class Log:
    """The records of clients in the log, as the broker has them: by place, of how many segments."""

    all: Mapping[Place, int]
    kept: frozenset[Place]  # not those of aborted transactions


@dataclass(frozen=True, slots=True)
class Run:
    """All that was sent and read while everything failed."""

    site: Site
    topic: str
    senders: Sequence[MixedSending]
    groups: Mapping[str, Members]
    log: Log
    ends: Mapping[int, int]

    @property
    def told(self) -> Mapping[Place, float]:
        """When a producer was told of what is at a place."""
        found: dict[Place, float] = {}
        for sender in self.senders:
            found.update({(one.partition, one.offset): one.at for one in sender.acked if one.offset >= 0})
        return found


@pytest.fixture(scope="module", name="run")
def _run(java: Mapping[str, ToolHost], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with failing_site(tmp_path_factory.mktemp("everything"), java[NEWEST], [FIRST, SECOND]) as site:
        topic = site.topic("out-everything", PARTITIONS, max_message_bytes="262144")
        yield while_everything_fails(site, topic)


def while_everything_fails(site: Site, topic: str) -> Run:
    each = COUNT // len(SENDERS)
    senders = [MixedSending(site.bootstrap, topic, name, each, PARTITIONS) for name in SENDERS]
    known = dict[int, int]()
    groups = {
        kind: Members(kind, site.bootstrap, topic, lambda: known or None, max(COUNT // 10, 30)) for kind in KINDS
    }
    site.of_group(groups["share"].name, "share.auto.offset.reset", "earliest")
    site.of_group(groups["share"].name, "share.isolation.level", "read_committed")

    def progress() -> float:
        done = sum(sender.stored for sender in senders) + sum(len(group.got) for group in groups.values())
        return done / (COUNT * (1 + len(groups)) * 0.95)  # without what is aborted

    for one in (*senders, *groups.values()):
        one.start()
    with ThreadPoolExecutor(1) as other:
        outages = other.submit(failing(site, topic, OUTAGES, progress))
        for sender in senders:
            sender.join()
        end_partitions(site, topic)
        admin = admin_client(site.cluster.direct)
        ends = {
            one.partition: answer.result(LIMIT_S).offset
            for one, answer in admin.list_offsets(latest(topic, PARTITIONS)).items()
        }
        known.update(ends)
        for group in groups.values():
            group.join(TO_END_S)
        outages.result()
    for sidecar in site.sidecars.values():
        assert sidecar.stop() == 0
    for sidecar in site.sidecars.values():
        sidecar.start_again()  # tools ask them
    return Run(site, topic, senders, groups, read_log(site, topic), ends)


def end_partitions(site: Site, topic: str) -> None:
    """With a record, not with the marker of a transaction: what was read and committed is all there is then."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": site.bootstrap, "logger": SILENT, "enable.idempotence": True})
    for partition in range(PARTITIONS):
        producer.produce(
            topic, Mixed(LAST, partition).build(), b"key", partition, on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(LIMIT_S) == 0
    assert errors == [None] * PARTITIONS


def read_log(site: Site, topic: str) -> Log:
    found, kept = dict[Place, int](), set[Place]()
    for partition in range(PARTITIONS):
        for isolation in ("read_uncommitted", "read_committed"):
            for message in logged(site.cluster.direct, topic, partition, isolation):
                place = partition, int(message.offset() or 0)
                if (segments := segments_of(message)) is None:
                    continue
                if isolation == "read_committed":
                    kept.add(place)
                else:
                    found[place] = segments
    return Log(found, frozenset(kept))


def segments_of(message: Message) -> int | None:
    """Of a large message, by its carrier's header; 0: it is none; None: it is a slice."""
    headers = dict(headers_of(message))
    if "_lmr" in headers:
        return int(LM.unpack(headers["_lm"] or b"")[4 - 1])
    return None if "_lm" in headers else 0


def test_all_that_was_to_happen_has_happened(run: Run) -> None:
    assert tuple(outage.what for outage in run.site.happened) == OUTAGES
    assert sum(sender.stored for sender in run.senders) == COUNT // len(SENDERS) * len(SENDERS)
    assert [kind for kind, group in run.groups.items() if group.commits < 10] == []
    assert sum(1 for segments in run.log.all.values() if segments) > COUNT / 30


@pytest.mark.parametrize("kind", KINDS)
def test_no_group_gets_anything_damaged_or_stored_for_the_sidecar_or_again_after_its_commit(
    run: Run, kind: str
) -> None:
    group = run.groups[kind]
    assert group.faults == []
    ours = [one for one in group.got if any(name.startswith("_") for name in one.headers)]
    assert ours == []
    unseen = [one for one in group.got if one.headers != {"seen": b"%d" % one.value.size}]
    assert unseen == []


@pytest.mark.parametrize("kind", KINDS)
def test_each_group_gets_what_the_log_has_at_the_same_offsets(run: Run, kind: str) -> None:
    got = {one.place for one in run.groups[kind].got}
    assert (sorted(run.log.kept - got), sorted(got - run.log.kept)) == ([], [])


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_and_nothing_there_twice_but_what_a_plain_producer_has_sent_again(run: Run, kind: str) -> None:
    values = at_places(run.groups[kind].got)
    copies = Counter(values.values())
    for sender in run.senders:
        assert [value for value in sender.kept if not copies[value]] == []
        assert len({value for value in copies if value.sender == sender.name}) == len(sender.kept)
        if sender.kind != "plain":
            assert [value for value in sender.kept if copies[value] != 1] == []
        kept = set(sender.kept)
        told = [one for one in sender.acked if one.offset >= 0 and (one.partition, one.offset) in run.log.kept]
        assert [one for one in told if one.value in kept and values[one.partition, one.offset] != one.value] == []


def at_places(got: Sequence[Got]) -> Mapping[Place, Mixed]:
    values: dict[Place, Mixed] = {}
    for one in got:
        assert values.setdefault(one.place, one.value) == one.value
    return values


@pytest.mark.parametrize("kind", KINDS)
def test_the_values_of_a_sender_are_in_order_in_each_partition(run: Run, kind: str) -> None:
    numbers = defaultdict[tuple[str, int], list[int]](list)
    for (partition, _), value in sorted(at_places(run.groups[kind].got).items()):
        of_sender = numbers[value.sender, partition]
        if value.number not in of_sender:
            of_sender.append(value.number)
    assert [key for key, found in numbers.items() if found != sorted(found)] == []


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_a_member_gets_what_it_is_assigned_in_order(run: Run, kind: str) -> None:
    last: dict[tuple[str, int, int], int] = {}
    for one in run.groups[kind].got:
        key = one.member, one.session, one.place[0]
        assert one.place[1] > last.get(key, -1), one
        last[key] = one.place[1]


def test_what_a_share_group_gets_again_the_broker_counts_as_a_further_delivery(run: Run) -> None:
    seen = Counter[Place]()
    for one in run.groups["share"].got:
        seen[one.place] += 1
        assert one.delivery >= seen[one.place], one


@pytest.mark.parametrize("through", ["the broker", "a sidecar"])
def test_the_lag_of_each_group_is_0_in_kafkas_own_tools(run: Run, through: str) -> None:
    address = run.site.cluster.direct if through == "the broker" else run.site.sidecars[FIRST].bootstrap
    lags = dict[tuple[str, int], int]()
    for kind, group in run.groups.items():
        tool = SHARE_TOOL if kind == "share" else GROUP_TOOL
        out = run.site.java.run(tool, "--bootstrap-server", address, "--describe", "--group", group.name)
        columns = r"\d+" if kind == "share" else r"\d+\s+\d+"
        for partition, lag in re.findall(
            rf"^{group.name}\s+{run.topic}\s+(\d+)\s+{columns}\s+(\d+|-)", out, re.MULTILINE
        ):
            lags[kind, int(partition)] = int(lag.replace("-", "-1"))
    assert lags == {(kind, partition): 0 for kind in KINDS for partition in range(PARTITIONS)}


@pytest.fixture(scope="module")
def table(run: Run) -> Table:
    killed = {
        name: [outage.begin for outage in run.site.happened if outage.what == name] for name in run.site.sidecars
    }
    return read_table(run.site.cluster.direct, AUDIT, AUDIT_PARTITIONS, run.topic, killed)


def is_unknown(table: Table, at: float, late_s: float) -> bool:
    """Whether what a client was told then may have been counted by a process that was killed before it said so."""
    return any(begin - COUNTED_LATE_S <= at <= end + late_s for begin, end in table.unknown)


def test_the_audit_has_all_intervals_but_the_last_ones_of_processes_that_were_killed(run: Run, table: Table) -> None:
    assert table.incomplete == []
    assert len(table.unknown) <= sum(outage.what in run.site.sidecars for outage in run.site.happened)


def test_what_the_audit_says_was_sent_is_what_the_log_has(run: Run, table: Table) -> None:
    said, told = table.of("produce_ack", [*SENDERS, "rdkafka"]), run.told
    assert sorted(said - run.log.all.keys()) == []
    missing = [(place, told[place]) for place in run.log.kept - said if place in told]
    assert [one for one in missing if not is_unknown(table, one[1], COUNTED_LATE_S)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_audit_says_a_group_has_read_is_what_was_sent_and_not_aborted(
    run: Run, table: Table, kind: str
) -> None:
    tier = "share_delivered" if kind == "share" else "fetch_delivered"
    read = table.of(tier, [f"{kind}-{number}" for number in range(MEMBERS)])
    aborted = run.log.all.keys() - run.log.kept
    assert sorted(read & run.log.all.keys() - run.log.kept - aborted) == []
    first: dict[Place, float] = {}
    for one in run.groups[kind].got:
        first.setdefault(one.place, one.at)
    missing = [(place, first[place]) for place in run.log.kept - read]
    assert [one for one in missing if not is_unknown(table, one[1], IN_CLIENT_S)] == []


def test_its_sums_are_those_of_the_offsets_that_it_names(run: Run, table: Table) -> None:
    differing = []
    for key, sums in table.sums.items():
        if key[1] != "produce_ack":
            continue
        places = table.places[key]
        large = [run.log.all[place] for place in places if run.log.all[place]]
        expected = len(places), len(large), sum(large)
        if (found := (sums["count"], sums["large_count"], sums["segment_count"])) != expected:
            differing.append((key, found, expected))
    assert differing == []


def test_the_run_is_told(run: Run, table: Table) -> None:
    """For whoever reads the output of the run: nothing is judged here."""
    for outage in run.site.happened:
        print(f"{outage.what}: {time.strftime('%H:%M:%S', time.localtime(outage.begin))}, {outage.end - outage.begin:.1f} s")
    for kind, group in run.groups.items():
        print(kind, len(group.got), "deliveries of", len(run.log.kept), "with", group.commits, "commits")
    print("log", len(run.log.all), "large", sum(map(bool, run.log.all.values())), "unknown", table.unknown)
