"""Parcels on disk: files that are appended to and sent from their beginning, and a note of how far they are sent.

Each parcel is one frame. What a process that was killed has written is whole or the end of a file, which is cut off. A
note of what is sent is written after each time that something was: only that may be sent twice after a kill.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import BinaryIO

from crc32c import crc32c

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.dead_letters.parcels import LETTER_BYTES, Parcel, build, read_batch

FILE_BYTES = 8 << 20  # after which the next file begins
MODE = 0o600
SUFFIX = ".letters"
HEAD = Struct(">IIdiiH")  # checksum of all that follows, its size, time, partition, letters, size of the topic's name
CHECKED_FROM = 4
NOTE = Struct(">QQ")  # a position
COUNTS = Struct(">QQ")  # letters that were taken, and that are sent, on disk or counted as lost


Position = tuple[int, int]  # number of a file, position in it


class SpoolError(OSError):
    """The folder is used by another process."""


@dataclass(slots=True)
class _File:
    number: int
    size: int  # of whole frames
    letters: int  # that are not sent


@dataclass(frozen=True, slots=True)
class _Frame:
    parcel_at: float
    partition: int
    letters: int
    topic: str
    batch: memoryview
    end: int


class Spool:
    """One folder, of one process. All methods but `bytes` and `letters` read and write files: call them in a thread."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        """Nothing is read before `open`."""
        self.folder = folder
        self.max_bytes = max_bytes
        self.reserved = 0  # bytes of these that something else has
        self.bytes = self.letters = 0  # not sent
        self.damaged = 0  # files with an end that is no parcel
        self.oldest_at: float | None = None
        self._files: deque[_File] = deque()
        self._read: Position = (0, 0)
        self._sent: Position = (0, 0)
        self._read_letters = 0  # since what is sent
        self._opened = _Opened(ExitStack())
        self._lock: int | None = None
        self._counts: mmap.mmap | None = None

    def open(self, adopted: Sequence[Path] = ()) -> int:
        """Find what an earlier process has left, also in the folders of workers that there are no more.

        Returns how many letters it had in memory, which are lost. Raises OSError.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = _lock(self.folder)
        self._sent = _read_note(self.folder / "sent")
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            if path.stem.isdecimal():
                self._add_file(path)
        for folder in adopted:
            self._adopt(folder)
        self._read = self._sent
        self._find_oldest()
        return self._open_counts()

    def close(self) -> None:
        """Let another process have the folder."""
        if self._counts is not None:
            self._counts.close()
            self._counts = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def note_counts(self, taken: int, settled: int) -> None:
        """Remember, also if this process is killed: letters that came, and those that are sent, on disk or lost."""
        if self._counts is not None:
            COUNTS.pack_into(self._counts, 0, taken, settled)

    @property
    def has_more(self) -> bool:
        """Whether there is something that was not read yet."""
        return bool(self._files) and self._read < (self._files[-1].number, self._files[-1].size)

    @property
    def end(self) -> Position:
        """After what was written last."""
        return (self._files[-1].number, self._files[-1].size) if self._files else self._read

    @property
    def room(self) -> int:
        """Bytes."""
        return self.max_bytes - self.reserved - self.bytes

    def write(self, parcels: Sequence[Parcel], is_forced: bool = False) -> int:
        """Append; how many there was room for: all, if it is forced. Raises OSError: none is written."""
        frames: list[bytes] = []
        size = 0
        for parcel in parcels:
            frame = _frame(parcel)
            if size + len(frame) > self.room and not is_forced:
                break
            frames.append(frame)
            size += len(frame)
        if frames:
            file = self._file_to_write()
            _append(self._path(file.number), frames, file.size)
            letters = sum(len(parcel.letters) for parcel in parcels[: len(frames)])
            file.size += size
            file.letters += letters
            self.bytes += size
            self.letters += letters
            if self.oldest_at is None:
                self.oldest_at = parcels[0].at
        return len(frames)

    def skip(self, parcels: Sequence[Parcel]) -> None:
        """What was written last is being sent already: it is not read, unless this process is killed."""
        with self._reading():
            for _ in parcels:
                if (frame := self._next()) is None:
                    return
                self._pass(frame)

    def read(self, max_bytes: int, until: Position | None = None) -> list[Parcel]:
        """The next parcels, up to a position: at least one if there is any."""
        parcels: list[Parcel] = []
        size = 0
        with self._reading():
            while size < max_bytes and (until is None or self._read < until) and (frame := self._next()) is not None:
                self._pass(frame)
                try:
                    letters = read_batch(frame.batch)
                except CodecError:
                    self.damaged += 1
                    continue
                held = sum(letter.size + LETTER_BYTES for letter in letters)
                parcels.append(Parcel(frame.topic, frame.partition, letters, frame.parcel_at, held))
                size += held
        return parcels

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """The file that is read stays open meanwhile."""
        with ExitStack() as stack:
            self._opened = _Opened(stack)
            yield

    def rewind(self) -> None:
        """What was read and is not sent is read again."""
        self._read, self._read_letters = self._sent, 0

    def sent(self) -> None:
        """All that was read is sent. Raises OSError."""
        self._sent = number, at = self._read
        self.letters = max(0, self.letters - self._read_letters)
        self._read_letters = 0
        while self._files and (self._files[0].number < number or self._is_done(self._files[0])):
            self._path(self._files.popleft().number).unlink(missing_ok=True)
        first = self._files[0] if self._files else None
        at = at if first is not None and first.number == number else 0
        self.bytes = sum(file.size for file in self._files) - at
        if first is None:
            self.letters = 0
        _write_note(self.folder / "sent", self._sent)
        self._find_oldest()

    def _is_done(self, file: _File) -> bool:
        return (file.number, file.size) <= self._sent

    def _pass(self, frame: _Frame) -> None:
        self._read = self._read[0], frame.end
        self._read_letters += frame.letters

    def _next(self) -> _Frame | None:
        """The frame at the position of reading."""
        for file in self._files:
            if (file.number, file.size) <= self._read:
                continue
            at = self._read[1] if file.number == self._read[0] else 0
            self._read = file.number, at
            if (frame := _read_frame(self._opened.file(self._path(file.number)), at, file.size)) is not None:
                return frame
            self.damaged += 1
            self._read = file.number, file.size
        return None

    def _find_oldest(self) -> None:
        for file in self._files:
            at = self._sent[1] if file.number == self._sent[0] else 0
            if at < file.size:
                with self._path(file.number).open("rb") as opened:
                    frame = _read_frame(opened, at, file.size)
                self.oldest_at = frame.parcel_at if frame is not None else None
                return
        self.oldest_at = None

    def _file_to_write(self) -> _File:
        if not self._files or self._files[-1].size >= FILE_BYTES:
            number = max(self._files[-1].number if self._files else 0, self._read[0], self._sent[0]) + 1
            self._files.append(_File(number, 0, 0))
        return self._files[-1]

    def _add_file(self, path: Path) -> None:
        number = int(path.stem)
        start = self._sent[1] if number == self._sent[0] else 0
        if number < self._sent[0]:
            path.unlink(missing_ok=True)  # all of it is sent
            return
        size = letters = 0
        for frame in _frames(path):
            size = frame.end
            letters += frame.letters if frame.end > start else 0
        if size < path.stat().st_size:
            self.damaged += 1
            os.truncate(path, size)
        if size <= start:
            path.unlink(missing_ok=True)
            return
        self._files.append(_File(number, size, letters))
        self.letters += letters
        self.bytes += size - start

    def _adopt(self, folder: Path) -> None:
        try:
            lock = _lock(folder)
        except OSError:
            return  # it is in use
        try:
            sent = _read_note(folder / "sent")
            for path in sorted(folder.glob(f"*{SUFFIX}")):
                start = sent[1] if path.stem.isdecimal() and int(path.stem) == sent[0] else 0
                with path.open("rb") as file:
                    file.seek(start)
                    rest = file.read()
                number = max(self._files[-1].number if self._files else 0, self._sent[0]) + 1
                _append(self._path(number), [rest], 0)
                path.unlink()
                self._add_file(self._path(number))
            (folder / "sent").unlink(missing_ok=True)
        finally:
            os.close(lock)

    def _open_counts(self) -> int:
        path = self.folder / "counts"
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE), "r+b") as file:
            file.truncate(COUNTS.size)
            self._counts = mmap.mmap(file.fileno(), COUNTS.size)
        taken, settled = COUNTS.unpack_from(self._counts)
        self.note_counts(0, 0)
        return max(0, int(taken) - int(settled))

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:012}{SUFFIX}"


def _lock(folder: Path) -> int:
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise SpoolError(f"the folder {folder} is used by another process") from None
    return lock


def _frame(parcel: Parcel) -> bytes:
    name, batch = parcel.topic.encode(), build(parcel.letters)
    rest = HEAD.pack(0, len(name) + len(batch), parcel.at, parcel.partition, len(parcel.letters), len(name))
    body = b"".join((rest[CHECKED_FROM:], name, batch))
    return crc32c(body).to_bytes(4, "big") + body


def _frames(path: Path) -> Iterator[_Frame]:
    """The whole frames from the beginning."""
    at, size = 0, path.stat().st_size
    with path.open("rb") as file:
        while (frame := _read_frame(file, at, size)) is not None:
            yield frame
            at = frame.end


class _Opened:
    """One file at a time."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._path: Path | None = None
        self._file: BinaryIO | None = None

    def file(self, path: Path) -> BinaryIO:
        if self._file is None or self._path != path:
            self._file, self._path = self._stack.enter_context(path.open("rb")), path
        return self._file


def _read_frame(file: BinaryIO, at: int, end: int) -> _Frame | None:
    file.seek(at)
    head = file.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    checksum, size, parcel_at, partition, letters, name_size = HEAD.unpack(head)
    if at + HEAD.size + size > end or name_size > size:
        return None
    body = file.read(size)
    if crc32c(body, crc32c(head[CHECKED_FROM:])) != checksum:
        return None
    topic = body[:name_size].decode("utf-8", "replace")
    return _Frame(parcel_at, partition, letters, topic, memoryview(body)[name_size:], at + HEAD.size + size)


def _append(path: Path, frames: Sequence[bytes], at: int) -> None:
    """Write at a position, which is the file's end unless an attempt before has failed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, MODE), "wb") as file:
        file.truncate(at)
        file.seek(at)
        file.writelines(frames)
        file.flush()
        os.fsync(file.fileno())


def _read_note(path: Path) -> tuple[int, int]:
    try:
        number, at = NOTE.unpack(path.read_bytes())
    except (OSError, StructError):
        return 0, 0
    return number, at


def _write_note(path: Path, note: tuple[int, int]) -> None:
    """One write of sixteen bytes, which a kill cannot divide."""
    note_file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, MODE)
    try:
        os.pwrite(note_file, NOTE.pack(*note), 0)
    finally:
        os.close(note_file)
