"""Files without a name: what they hold, and when they are gone."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kafka_sidecar.proxy.runtime.unlinked_file import UnlinkedFile, check_folder, file_of

VALUE = bytes(range(256)) * 100


def written(folder: Path, closed: list[list[int]]) -> UnlinkedFile:
    file = UnlinkedFile(folder, len(VALUE), closed.append)
    file.open()
    file.write(0, VALUE[:10_000])
    file.write(10_000, memoryview(VALUE)[10_000:])
    return file


def test_what_was_written_is_read_and_has_no_name(tmp_path: Path) -> None:
    file = written(tmp_path, [])
    assert file.read(100, 5000) == VALUE[100:5100]
    assert bytes(file.view) == VALUE
    assert list(tmp_path.iterdir()) == []


def test_fewer_bytes_than_are_wanted_are_an_error(tmp_path: Path) -> None:
    file = written(tmp_path, [])
    with pytest.raises(OSError, match="100 bytes of 101 can be read at 25500 of 25600"):
        file.read(len(VALUE) - 100, 101)


def test_it_is_closed_once_neither_it_nor_its_view_is_held(tmp_path: Path) -> None:
    closed: list[list[int]] = []
    file = written(tmp_path, closed)
    view = file.view
    del file
    assert closed == []
    assert file_of(view) is not None
    del view
    ((fd,),) = closed
    os.close(fd)


def test_one_that_was_never_opened_has_nothing_to_close(tmp_path: Path) -> None:
    closed: list[list[int]] = []
    UnlinkedFile(tmp_path, 10, closed.append)
    assert closed == [[]]


def test_only_the_view_of_all_of_a_file_leads_to_it(tmp_path: Path) -> None:
    file = written(tmp_path, [])
    assert file_of(file.view) is file
    assert [file_of(one) for one in (file.view[1:], b"bytes", memoryview(b"view"))] == [None] * 3


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.ENOSPC])
def test_a_file_system_that_cannot_reserve_room_is_used_and_a_full_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fail(*_: int) -> None:
        raise OSError(code, "")

    monkeypatch.setattr(os, "posix_fallocate", fail)
    if code == errno.ENOSPC:
        with pytest.raises(OSError):
            written(tmp_path, [])
    else:
        assert bytes(written(tmp_path, []).view) == VALUE


def test_a_folder_in_which_nothing_can_be_created_is_an_error(tmp_path: Path) -> None:
    check_folder(tmp_path)
    with pytest.raises(OSError):
        check_folder(tmp_path / "missing")
