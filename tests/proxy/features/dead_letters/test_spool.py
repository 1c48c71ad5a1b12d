"""Letters on disk: what is whole is read after a kill, once it was not sent; what is damaged costs nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafka_sidecar.codec.records import encode_varint
from kafka_sidecar.dead_letters.parcels import Letter, Parcel
from kafka_sidecar.proxy.features.dead_letters import spool as module
from kafka_sidecar.proxy.features.dead_letters.spool import Spool

BIG = 1 << 30


def parcel(name: str, letters: int = 2) -> Parcel:
    """Letters without keys and headers; the value of each has the name."""
    value = encode_varint(len(name)) + name.encode()
    return Parcel("dlq", 3, tuple(Letter(number, (b"\1", value, b"\0")) for number in range(letters)), 7.5, 0)


def opened(folder: Path, max_bytes: int = BIG) -> Spool:
    spool = Spool(folder, max_bytes)
    spool.open()
    return spool


def names(parcels: list[Parcel]) -> list[str]:
    return [b"".join(one.letters[0].parts)[2:-1].decode() for one in parcels]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "letters"


def kill(spool: Spool) -> None:
    """As the end of its process does: nothing is written, and the lock is gone."""
    spool.close()


def test_what_was_written_is_read_in_order_and_gone_when_it_is_sent(folder: Path) -> None:
    spool = opened(folder)
    assert spool.write([parcel("a"), parcel("b")]) == 2
    assert spool.write([parcel("c")]) == 1
    assert (spool.letters, spool.oldest_at) == (6, 7.5)
    found = spool.read(1)
    assert names(found) == ["a"]
    assert (found[0].topic, found[0].partition, found[0].at) == ("dlq", 3, 7.5)
    assert [letter.timestamp for letter in found[0].letters] == [0, 1]
    spool.sent()
    assert names(spool.read(BIG)) == ["b", "c"]
    spool.sent()
    assert (spool.has_more, spool.bytes, spool.letters, spool.oldest_at) == (False, 0, 0, None)
    assert list(folder.glob("*.letters")) == []


def test_after_a_kill_only_what_was_not_sent_is_read_again(folder: Path) -> None:
    spool = opened(folder)
    spool.write([parcel("a"), parcel("b"), parcel("c")])
    spool.read(1)
    spool.sent()
    spool.read(1)
    kill(spool)
    again = opened(folder)
    assert again.letters == 4
    assert names(again.read(BIG)) == ["b", "c"]
    again.sent()
    kill(again)
    assert not opened(folder).has_more


@pytest.mark.parametrize("cut", [1, 5, 40, 100])
def test_an_end_that_was_being_written_is_cut_off_and_written_over(folder: Path, cut: int) -> None:
    spool = opened(folder)
    spool.write([parcel("a"), parcel("b")])
    kill(spool)
    [file] = folder.glob("*.letters")
    os.truncate(file, file.stat().st_size - cut)
    again = opened(folder)
    assert again.damaged == 1
    assert again.letters == 2
    again.write([parcel("c")])
    assert names(again.read(BIG)) == ["a", "c"]


def test_damage_in_the_middle_costs_the_rest_of_its_file_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_BYTES", 1)
    spool = opened(folder)
    for name in "abc":
        spool.write([parcel(name)])
    first, second, _ = sorted(folder.glob("*.letters"))
    data = bytearray(second.read_bytes())
    data[-5] ^= 1
    second.write_bytes(data)
    assert names(spool.read(BIG)) == ["a", "c"]
    assert spool.damaged == 1
    spool.sent()
    assert (spool.bytes, spool.has_more, first.exists()) == (0, False, False)


def test_it_never_takes_more_than_it_may(folder: Path) -> None:
    spool = opened(folder, 500)
    many = [parcel(str(number)) for number in range(9)]
    written = spool.write(many)
    assert 0 < written < 9
    assert spool.write(many) == 0
    assert sum(file.stat().st_size for file in folder.glob("*.letters")) == spool.bytes <= 500
    spool.read(1)
    spool.read(BIG)
    spool.sent()
    assert spool.write(many) == written


def test_what_is_being_sent_is_read_after_a_kill_alone(folder: Path) -> None:
    spool = opened(folder)
    spool.write([parcel("a")])
    spool.skip([parcel("a")])
    spool.write([parcel("b")])
    kill(spool)
    again = opened(folder)
    assert names(again.read(BIG)) == ["a", "b"]
    again.rewind()
    again.skip([parcel("a")])
    again.sent()
    assert names(again.read(BIG)) == ["b"]


def test_what_was_read_in_vain_is_read_again(folder: Path) -> None:
    spool = opened(folder)
    spool.write([parcel("a"), parcel("b")])
    assert names(spool.read(1)) == ["a"]
    spool.rewind()
    assert names(spool.read(BIG)) == ["a", "b"]


def test_a_folder_has_one_process(folder: Path) -> None:
    first = opened(folder)
    with pytest.raises(OSError, match="used by another process"):
        opened(folder)
    first.close()
    opened(folder)


def test_letters_that_a_killed_process_had_in_memory_are_counted(folder: Path) -> None:
    spool = opened(folder)
    spool.note_counts(10, 7)
    kill(spool)
    again = Spool(folder, BIG)
    assert again.open() == 3
    kill(again)
    assert Spool(folder, BIG).open() == 0


def test_the_folders_of_workers_that_are_gone_are_sent_by_the_first(tmp_path: Path) -> None:
    other = opened(tmp_path / "letters.worker-2")
    other.write([parcel("x"), parcel("y")])
    other.read(1)
    other.sent()
    kill(other)
    used = opened(tmp_path / "letters.worker-3")
    used.write([parcel("z")])
    spool = Spool(tmp_path / "letters", BIG)
    spool.open([tmp_path / "letters.worker-2", tmp_path / "letters.worker-3"])
    assert names(spool.read(BIG)) == ["y"]
    assert list((tmp_path / "letters.worker-2").glob("*.letters")) == []


def test_files_are_for_this_user_alone(folder: Path) -> None:
    spool = opened(folder)
    spool.write([parcel("a")])
    assert folder.stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in folder.iterdir())


def test_a_note_that_cannot_be_read_sends_all_again(folder: Path) -> None:
    spool = opened(folder)
    spool.write([parcel("a"), parcel("b")])
    spool.read(1)
    spool.sent()
    kill(spool)
    (folder / "sent").write_bytes(b"short")
    assert names(opened(folder).read(BIG)) == ["a", "b"]


def test_no_letter_goes_elsewhere_because_of_damage(folder: Path) -> None:
    spool = opened(folder)
    spool.write([parcel("a")])
    kill(spool)
    [file] = folder.glob("*.letters")
    data = bytearray(file.read_bytes())
    data[module.HEAD.size] ^= 1  # the first letter of the topic's name
    file.write_bytes(data)
    again = opened(folder)
    assert (again.read(BIG), again.damaged) == ([], 1)
