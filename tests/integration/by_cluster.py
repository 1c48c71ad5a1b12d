"""Which tests run in the same process, one after the other: those that would else start a cluster each."""

from __future__ import annotations

from pathlib import PurePosixPath

from xdist.scheduler import LoadFileScheduling

# Folders whose files share a cluster.
SHARED = ("dead_letters", "interception", "large_messages", "replays", "together", "validation")
# More than one cluster of three nodes is too much for two cores.
THREE_NODES = ("test_matrix.py", "test_no_leak.py", "test_failures.py")


class ByCluster(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """As `--dist loadfile`, but for files that share clusters."""

    def _split_scope(self, nodeid: str) -> str:
        file = PurePosixPath(nodeid.partition("::")[0])
        if file.parent.name in SHARED:
            return file.parent.name
        return "three nodes" if file.name in THREE_NODES else str(file)
