"""Files that only this user may read: what sidecars remember of clients and brokers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MODE = 0o600


def replace_file(path: Path, data: Iterable[bytes], *, is_synced: bool) -> None:
    """Replace a file atomically.

    Args:
        is_synced: it must be on the disk when this returns.

    Raises:
        OSError: it cannot be written; the file is as before.
    """
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)  # left by a process that was killed; of a link, the link
    with os.fdopen(os.open(part, FLAGS, MODE), "wb") as file:
        file.writelines(data)
        if is_synced:
            file.flush()
            os.fsync(file.fileno())
    part.replace(path)


def find_trouble(path: Path) -> str | None:
    """Why a file that may not exist yet could not be replaced; None: it could, as far as can be seen now."""
    folder = path.parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"the folder {folder} cannot be written to"
    return f"{path} is a folder: name a file in it" if path.is_dir() else None
