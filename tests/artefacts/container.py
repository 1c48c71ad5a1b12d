"""Runs a command in the image as Kubernetes would: read-only root, the image's user, no capabilities; needs root.

Run as a program it is process 1 of the namespaces, and becomes the command: the image's own tools take no part in it.
The network is the host's, as containers of one pod share theirs.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

NAMESPACES = ("unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--propagation", "private")
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38


def command(
    base: Path, played: Path, arguments: Sequence[str], mounts: Mapping[str, Path], env: Mapping[str, str]
) -> list[str]:
    """The command that runs the image with arguments for its entry point; ``mounts`` are read-only folders."""
    config = json.loads((played / "config.json").read_text())
    root = played / "root"
    root.mkdir(exist_ok=True)
    # A container runtime makes the folders that volumes are mounted at, in a layer of its own.
    for target in mounts:
        (played / "mount-points" / target.lstrip("/")).mkdir(parents=True, exist_ok=True)
    lowers = [played / "mount-points"] if mounts else []
    what = {
        "lower": ":".join(str(layer) for layer in [*lowers, (played / "layer").resolve(), base]),
        "root": str(root),
        "mounts": {target: str(source) for target, source in mounts.items()},
        "command": config["entrypoint"] + list(arguments),
        "env": config["env"] | dict(env),
        "user": config["user"],
    }
    return [*NAMESPACES, sys.executable, __file__, json.dumps(what)]


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def _enter(what: Mapping[str, Any]) -> None:
    root = what["root"]
    _mount("-t", "overlay", "overlay", "-o", f"lowerdir={what['lower']}", root)  # without an upper layer: read-only
    _mount("-t", "proc", "proc", f"{root}/proc")
    _mount("-t", "tmpfs", "-o", "mode=1777,nosuid,nodev", "tmpfs", f"{root}/tmp")
    _mount("--bind", "/dev", f"{root}/dev")
    for target, source in what["mounts"].items():
        _mount("--bind", "-o", "ro", source, f"{root}{target}")
    os.chroot(root)
    os.chdir("/")
    libc = ctypes.CDLL(None, use_errno=True)
    last_capability = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    calls = [(PR_CAPBSET_DROP, number) for number in range(last_capability + 1)] + [(PR_SET_NO_NEW_PRIVS, 1)]
    for option, value in calls:
        _prctl(libc, option, value)
    user, _, group = what["user"].partition(":")
    os.setgroups([])
    os.setresgid(*[int(group)] * 3)
    os.setresuid(*[int(user)] * 3)  # the remaining capabilities end with user 0
    # With them ended what --kill-child had set: the container would outlive the test.
    _prctl(libc, PR_SET_PDEATHSIG, signal.SIGKILL)
    os.execvpe(what["command"][0], what["command"], what["env"])


def _prctl(libc: ctypes.CDLL, option: int, value: int) -> None:
    if libc.prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl {option} {value}")


if __name__ == "__main__":
    _enter(json.loads(sys.argv[1]))
