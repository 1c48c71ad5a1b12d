"""Which tests run in the same process, one after the other: those that would else start a cluster each."""

from __future__ import annotations

from pathlib import PurePosixPath

from xdist.scheduler import LoadFileScheduling

# Folders whose files share a cluster.
SHARED = ("dead_letters", "interception", "large_messages", "replays", "together", "validation")
# More than one cluster of three nodes is too much for two cores.
THREE_NODES = ("test_matrix.py", "test_no_leak.py", "test_failures.py")
# The groups that take longest, which begin first: else one process works at the end while all others have done. It
# takes --no-loadscope-reorder.
LONGEST = (
    "large_messages", "validation", "interception", "dead_letters", "three nodes", "replays",
    "test_sasl.py", "together", "test_workers.py", "test_topic_configs.py", "test_authorization.py", "test_life.py",
    "test_many_connections.py", "test_hostile.py", "test_audit.py", "test_tls.py", "test_real_clients.py",
)  # fmt: skip


def group_of(nodeid: str) -> str:
    """What the tests that run in one process have in common: a folder, or a file."""
    file = PurePosixPath(nodeid.partition("::")[0])
    if file.parent.name in SHARED:
        return file.parent.name
    return "three nodes" if file.name in THREE_NODES else str(file)


def turn_of(nodeid: str) -> int:
    """What to sort tests by, so that the longest groups begin first."""
    group = PurePosixPath(group_of(nodeid)).name
    return LONGEST.index(group) if group in LONGEST else len(LONGEST)


class ByCluster(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """As `--dist loadfile`, but for files that share clusters."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
