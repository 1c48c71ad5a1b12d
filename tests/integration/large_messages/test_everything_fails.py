"""Messages of 1 KB to 20 MB through two sidecars on three brokers that fail, to groups of three kinds.

Of 5,000 messages of five codecs, in transactions and without, groups of each kind get each that was to be kept: whole,
in order, once where Kafka says once, with nothing that the sidecar stores for itself; and the audit says the same.
EVERYTHING_COUNT in the environment makes it another number.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import pytest
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.large_messages.audit_table import Table, read_table
from integration.large_messages.failing_site import AUDIT, failing_site
from integration.large_messages.mixed_readers import KINDS, MEMBERS, Got, Place
from integration.large_messages.mixed_senders import SENDERS
from integration.large_messages.mixed_values import Mixed
from integration.large_messages.whole_run import PARTITIONS, Run, while_everything_fails

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

COUNT = int(os.environ.get("EVERYTHING_COUNT", "5000"))
AUDIT_PARTITIONS = 3
FIRST, SECOND = "first", "second"  # sidecars
OUTAGES = (
    FIRST, "cut", "leaders", "broker 1", "cut 2", SECOND, "hung 3", "leaders", FIRST, "broker 2", "cut", SECOND,
    "cut 3", "broker 3", "leaders", "cut",
)  # fmt: skip
COUNTED_LATE_S = 0.5  # what passes is counted a little later, and an interval ends a little after it was made
IN_CLIENT_S = 15.0  # how long a message may have been in a reader's queue before the application got it


@pytest.fixture(scope="module", name="run")
def _run(java: Mapping[str, ToolHost], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with failing_site(tmp_path_factory.mktemp("everything"), java[NEWEST], [FIRST, SECOND]) as site:
        topic = site.topic("out-everything", PARTITIONS, max_message_bytes="262144")
        yield while_everything_fails(site, topic, COUNT, OUTAGES)


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
        notified = [one for one in sender.acked if one.offset >= 0 and (one.partition, one.offset) in run.log.kept]
        assert [one for one in notified if one.value in kept and values[one.partition, one.offset] != one.value] == []


def at_places(got: Sequence[Got]) -> Mapping[Place, Mixed]:
    values: dict[Place, Mixed] = {}
    for one in got:
        assert values.setdefault(one.place, one.value) == one.value
    return values


@pytest.mark.parametrize("kind", KINDS)
def test_the_values_of_a_sender_are_in_order_in_each_partition(run: Run, kind: str) -> None:
    """But a plain producer's: what it sends again comes after what it has sent to a new leader meanwhile."""
    numbers = defaultdict[tuple[str, int], list[int]](list)
    for (partition, _), value in sorted(at_places(run.groups[kind].got).items()):
        of_sender = numbers[value.sender, partition]
        if value.number not in of_sender:
            of_sender.append(value.number)
    plain = [sender.name for sender in run.senders if sender.kind == "plain"]
    late = {key: [pair for pair in pairwise(found) if pair[0] > pair[1]] for key, found in numbers.items()}
    print({key: found for key, found in late.items() if found})
    assert [key for key, found in late.items() if found and key[0] not in plain] == []


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_a_member_gets_what_it_is_assigned_in_order(run: Run, kind: str) -> None:
    last: dict[tuple[str, int, int], int] = {}
    for one in run.groups[kind].got:
        key = one.member, one.session, one.place[0]
        assert one.place[1] > last.get(key, -1), one
        last[key] = one.place[1]


@pytest.mark.parametrize("kind", KINDS)
def test_the_lag_of_each_group_is_0_in_kafkas_own_tools(run: Run, kind: str) -> None:
    """Through a sidecar at once; in the broker as soon as what a sidecar has read of given-up messages is forgotten."""
    through, at_end, later = (run.lags[kind][when] for when in ("sidecar", "broker", "restarted"))
    assert {partition: lag for partition, (_, lag) in through.items()} == dict.fromkeys(range(PARTITIONS), 0)
    assert {partition: lag for partition, (_, lag) in later.items()} == dict.fromkeys(range(PARTITIONS), 0)
    lagging = {(partition, offset) for partition, (offset, lag) in at_end.items() if lag}
    assert sorted(lagging - run.log.given_up) == []


@pytest.fixture(scope="module")
def table(run: Run) -> Table:
    killed = {name: [outage.begin for outage in run.site.happened if outage.what == name] for name in run.site.sidecars}
    return read_table(run.site.cluster.direct, AUDIT, AUDIT_PARTITIONS, run.topic, killed, run.stopped)


def is_unknown(table: Table, since: float, at: float, late_s: float) -> bool:
    """Whether a process that was killed then may have counted it, before it could say so."""
    return any(begin - COUNTED_LATE_S <= at and since <= end + late_s for begin, end in table.unknown)


def test_the_audit_has_all_intervals_but_the_last_ones_of_processes_that_were_killed(run: Run, table: Table) -> None:
    assert table.incomplete == []
    assert len(table.unknown) <= sum(outage.what in run.site.sidecars for outage in run.site.happened)


def test_what_the_audit_says_was_sent_is_what_the_log_has(run: Run, table: Table) -> None:
    said, notified = table.of("produce_ack", [*SENDERS, "rdkafka"]), run.notified
    assert sorted(said - run.log.all.keys()) == []
    missing = [notified[place] for place in sorted(run.log.kept - said) if place in notified]
    known = [one for one in missing if not is_unknown(table, one.since, one.at, COUNTED_LATE_S)]
    assert not known, f"{table.unknown}\n" + "\n".join(map(str, known))


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_audit_says_a_group_has_read_is_what_was_sent_and_not_aborted(
    run: Run, table: Table, kind: str
) -> None:
    tier = "share_delivered" if kind == "share" else "fetch_delivered"
    read = table.of(tier, [f"{kind}-{number}" for number in range(MEMBERS)])
    first: dict[Place, float] = {}
    for one in run.groups[kind].got:
        first.setdefault(one.place, one.at)
    missing = [(place, first[place]) for place in run.log.kept - read]
    assert [one for one in missing if not is_unknown(table, one[1], one[1], IN_CLIENT_S)] == []


def test_its_sums_are_those_of_the_offsets_that_it_names(run: Run, table: Table) -> None:
    """Of each process: a producer's exactly. A reader's count some again: at first its group is not known."""
    differing, groups = [], {f"{kind}-{number}": kind for kind in KINDS for number in range(MEMBERS)}
    for key, (found, named) in table.by_group(groups).items():
        is_sent = key[1] == "produce_ack"
        its = named & (run.log.all.keys() if is_sent else run.log.kept)
        large = [run.log.all[place] for place in its if run.log.all[place]]
        expected = len(its), len(large), sum(large)
        said = found["count"], found["large_count"], found["segment_count"]
        if said != expected if is_sent else said[0] + found["redelivered_count"] < len(its):
            differing.append((key, said, expected, dict(found)))
    assert not differing, "\n".join(map(str, differing))


def test_the_run_is_shown(run: Run, table: Table) -> None:
    """For whoever reads the output of the run: nothing is checked here."""
    for outage in run.site.happened:
        print(f"{outage.what}: at {outage.begin:.0f} for {outage.end - outage.begin:.1f} s")
    for kind, group in run.groups.items():
        print(kind, run.lags[kind])
        print(kind, len(group.got), "deliveries of", len(run.log.kept), "with", group.commits, "commits")
    print(
        "log",
        len(run.log.all),
        "large",
        sum(map(bool, run.log.all.values())),
        "given up",
        len(run.log.given_up),
        "unknown",
        table.unknown,
    )
