"""Files that only this user may read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafka_sidecar.proxy.security.private_files import replace_file


@pytest.mark.parametrize("is_synced", [False, True])
def test_a_file_is_replaced_by_one_that_only_its_user_may_read(tmp_path: Path, is_synced: bool) -> None:
    path, before = tmp_path / "state", os.umask(0)
    path.write_text("old")
    path.chmod(0o644)
    try:
        replace_file(path, [b"a", b"b"], is_synced=is_synced)
    finally:
        os.umask(before)
    assert path.read_bytes() == b"ab"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_beside_the_file_is_not_followed(tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "state"
    other.write_text("of another program")
    (tmp_path / "state.part").symlink_to(other)
    replace_file(path, [b"a"], is_synced=False)
    assert (path.read_text(), other.read_text()) == ("a", "of another program")
    assert not path.is_symlink()


def test_what_a_killed_process_has_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "state.part").write_text("half")
    replace_file(tmp_path / "state", [b"whole"], is_synced=False)
    assert (tmp_path / "state").read_text() == "whole"


def test_a_file_that_cannot_be_written_is_as_before(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("old")
    (tmp_path / "state.part").mkdir()
    with pytest.raises(OSError):
        replace_file(tmp_path / "state", [b"a"], is_synced=False)
    assert (tmp_path / "state").read_text() == "old"
