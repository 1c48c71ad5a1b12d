"""Plain brokers, lent to one fixture after the other: a clean one that is warm costs less than the start of another.

    with plain_cluster() as cluster: ...      # as `with Cluster.start(NEWEST) as cluster`

A borrower gets a broker without topics, which no other test uses meanwhile, and may restart it. One that wants
properties of its own, or leaves rights or users, starts a cluster itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.cluster import Cluster
from harness.versions import NEWEST
from integration.scenarios.target import LIMIT_S, admin_client, eventually

INTERNAL = ("__consumer_offsets", "__share_group_state", "__transaction_state")
_idle: list[Cluster] = []


@contextmanager
def plain_cluster() -> Iterator[Cluster]:
    """One node of the newest version."""
    cluster = _idle.pop() if _idle else Cluster.start(NEWEST)
    try:
        yield cluster
        _clean(cluster)
    except BaseException:
        cluster.stop()
        raise
    _idle.append(cluster)


def stop_all() -> None:
    """Ends those that are lent to no fixture."""
    while _idle:
        _idle.pop().stop()


def _clean(cluster: Cluster) -> None:
    admin = admin_client(cluster.direct)

    def others() -> list[str]:
        return [name for name in admin.list_topics(timeout=LIMIT_S).topics if name not in INTERNAL]

    if topics := others():
        for deleted in admin.delete_topics(topics, operation_timeout=LIMIT_S).values():
            deleted.result(LIMIT_S)
        eventually(others, lambda left: not left, "the topics are deleted")
    cluster.forget_leaks()
