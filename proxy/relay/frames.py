"""Cut one direction's bytes into frames; relay them as they arrive, unless one is edited.

    frame:  length int32 (of what follows) | header | body

A frame that is not edited is never collected: its bytes leave in the chunks in which they came, one write per read
(design D1). Only the first bytes of each frame are looked at, and buffered while they are incomplete.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Protocol

from kafka_sidecar.codec.errors import CodecError, bare
from kafka_sidecar.codec.large_bytes import MIN_LARGE_BYTES, Gathered, join
from kafka_sidecar.codec.pieces import Pieces, whole
from kafka_sidecar.proxy.relay.memory_budget import Account

LENGTH = Struct(">i")
FRAMES_A_CHECK = 32  # frames that are cut between two looks at the clock: a client may pack thousands into one read

# Looks at the frame that begins at data[at] and returns its size in bytes, length prefix included,
# or 0 while data does not hold enough of it. May call `edit`, `collect` or `swallow` for this frame. Raises CodecError.
Begin = Callable[[bytes, int], int]


class Edit(Protocol):
    """Sees one frame pass, piece by piece."""

    buffers: bool  # whether pieces for which nothing leaves are kept
    skip: int  # bytes that come next and pass without being shown, as long as the frame continues after them

    def feed(self, data: bytes, start: int, end: int, last: bool) -> bytes | None:
        """What leaves in place of data[start:end]; None: these very bytes. ``last``: the frame ends at ``end``."""


class Collected:
    """Buffer a frame until it is whole; what ``rewrite`` returns leaves in its place.

    A large one that is not gathered is given in the pieces in which it came: one copy of 90 MB takes 70 ms.
    """

    __slots__ = ("_gathers", "_parts", "_rewrite", "skip")
    buffers = True

    def __init__(self, rewrite: Callable[[Any], bytes], gathers: bool) -> None:
        """``gathers``: memory for all of a large frame is taken when it begins."""
        self.skip = 0
        self._rewrite = rewrite
        self._gathers = gathers
        self._parts: list[bytes] | Gathered | None = None

    @property
    def gathered(self) -> Gathered | None:
        """What is written to one object as it comes."""
        return self._parts if isinstance(self._parts, Gathered) else None

    def feed(self, data: bytes, start: int, end: int, last: bool) -> bytes | None:
        piece = data[start:end]
        if self._parts is None:
            if last:
                new = self._rewrite(piece)
                return None if new is piece else new
            size = LENGTH.size + LENGTH.unpack_from(piece)[0]
            self._parts = Gathered(size) if self._gathers and size >= MIN_LARGE_BYTES else []
        if isinstance(self._parts, Gathered):
            self._parts.add(piece)
        else:
            self._parts.append(piece)
        if not last:
            return b""
        parts, self._parts = self._parts, None
        if isinstance(parts, Gathered):
            return self._rewrite(parts.whole())
        frame = Pieces(tuple(parts))
        return self._rewrite(whole(frame) if len(frame) < MIN_LARGE_BYTES else frame)


class Swallowed:
    """Let nothing of a frame pass."""

    buffers = False
    skip = 0

    def feed(self, data: bytes, start: int, end: int, last: bool) -> bytes:
        return b""


def _begin_none(data: bytes, at: int) -> int:
    return 0


def _go_on() -> bool:
    return False


class Frames:
    """One direction of a session: bytes in, the bytes to pass on out.

    ``begin`` is asked at the start of every frame, with at least ``header_size`` bytes of it. After each frame that is
    edited, and every few others of one read, ``pauses`` is asked whether others must have a turn; then what follows is
    kept until `release`.
    """

    __slots__ = (
        "_account", "_begin", "_buffered", "_carry", "_edit", "_header_size", "_held", "_inserted", "_is_held", "_left",
        "_pauses", "error",
    )  # fmt: skip

    def __init__(
        self, begin: Begin, header_size: int, account: Account, pauses: Callable[[], bool] = lambda: False
    ) -> None:
        self._begin = begin
        self._pauses = pauses
        self._account = account
        self._buffered = 0  # bytes of the current frame that the account has
        self._header_size = header_size
        self._left = 0  # bytes of the current frame that are still to come
        self._carry = b""  # the start of a frame, buffered until its header is whole
        self._held: list[bytes] = []  # what has come after that while a frame is held
        self._inserted: list[bytes] = []
        self._edit: Edit | None = None
        self._is_held = False
        self.error: CodecError | None = None  # set once: nothing is read on

    @property
    def carry(self) -> bytes:
        """What has come and is not looked at yet: the start of a frame, or all that follows one that is held."""
        return join((self._carry, *self._held))

    @property
    def is_held(self) -> bool:
        """Whether what follows waits for `release`."""
        return self._is_held

    @property
    def is_mid_frame(self) -> bool:
        """Whether a frame has begun and its end has not come."""
        return bool(self._left or (self._carry and not self._is_held))

    @property
    def between_frames(self) -> bool:
        return not self._left and not self._carry and not self._is_held

    # Called from ``begin`` about the frame that begins now

    def edit(self, edit: Edit) -> Edit | None:
        """Show the frame to ``edit``, piece by piece. Returns the one before, which it can be put around."""
        before, self._edit = self._edit, edit
        return before

    def collect(self, rewrite: Callable[[bytes], bytes]) -> None:
        """Buffer a broker's frame until it is whole; what ``rewrite`` returns leaves in its place."""
        self._edit = Collected(rewrite, gathers=True)

    def collect_pieces(self, rewrite: Callable[[bytes | Pieces], bytes]) -> None:
        """The same of a client's. Clients may begin large ones that never end: memory for these is not taken at once,
        and large pages for them would delay everybody.
        """
        self._edit = Collected(rewrite, gathers=False)

    def swallow(self) -> None:
        """Let nothing of the frame pass."""
        self._edit = Swallowed()

    def insert(self, frame: bytes) -> None:
        """Let ``frame`` leave before the one that begins now."""
        self._inserted.append(frame)

    # Called from an edit at the end of its frame

    def hold(self, size: int) -> None:
        """Look at nothing after this frame of ``size`` bytes until `release`."""
        self._is_held = True
        self._buffer(size - self._buffered)  # the piece that came last

    def stop(self, error: CodecError) -> None:
        """Read nothing after this frame."""
        self.error = error

    def release(self, decided: bytes) -> bytes:
        """What leaves now that it is decided what becomes of the frame that was held."""
        self._is_held = False
        self.forget()
        data = self.take_carry()
        return decided + self._cut(data) if data and self.error is None else decided

    def forget(self) -> None:
        """The frame is no longer buffered: it has left, or its connection has ended."""
        if self._buffered:
            self._account.release(self._buffered)
            self._buffered = 0

    def drop(self) -> Edit | None:
        """The connection has ended: what is buffered goes at once, not when the garbage of the session is collected.

        The edit whose frame did not end.
        """
        self.forget()
        self._begin, self._pauses = _begin_none, _go_on  # they are in circles with the session
        edit, self._edit, self._carry = self._edit, None, b""
        self._held.clear()
        return edit

    def _buffer(self, size: int) -> None:
        self._buffered += size
        self._account.add(size)

    def take_carry(self) -> bytes:
        """What has come after the frame that is held; put back what is left of it with `put_back`."""
        data = self.carry if self._held else self._carry
        self._carry = b""
        self._held.clear()
        return data

    def put_back(self, data: bytes) -> None:
        self._carry = data

    def feed(self, chunk: bytes) -> bytes:
        """What leaves now. The chunk itself where nothing is edited or buffered."""
        if self.error is not None:
            return b""
        left, size = self._left, len(chunk)
        if left >= size:
            edit = self._edit
            if edit is None:
                self._left = left - size
                return chunk
            if size < left:
                if edit.skip < size:
                    return self._pass(edit, chunk)
                edit.skip -= size
                self._left = left - size
                return chunk
        if self._is_held:
            self._held.append(chunk)  # added up once: copying all with each chunk would take seconds for megabytes
            self._buffer(size)
            return b""
        data = self._carry + chunk if self._carry else chunk
        self._carry = b""
        return self._cut(data)

    @property
    def gathered(self) -> Gathered | None:
        """The memory of the frame that is coming in, if it is large; `fill` says how much was read into its room."""
        return self._edit.gathered if isinstance(self._edit, Collected) else None

    def fill(self, size: int) -> None:
        """So many bytes have been read into the room of `gathered`."""
        if (gathered := self.gathered) is not None:
            gathered.fill(size)
            self._left -= size
            self._buffer(size)

    def _pass(self, edit: Edit, chunk: bytes) -> bytes:
        """What leaves in place of a chunk in which nothing begins or ends."""
        size = len(chunk)
        try:
            new = edit.feed(chunk, 0, size, False)
        except CodecError as error:
            self.error = bare(error)
            return b""
        if new == b"" and edit.buffers:
            self._buffer(size)
        self._left -= size
        return chunk if new is None else new

    def _cut(self, data: bytes) -> bytes:  # noqa: C901 - each frame pays for a call
        size, at, kept = len(data), 0, 0  # data[kept:at] passes as it is
        cut = 0  # frames since the last look at the clock
        out: list[bytes] = []
        try:
            while True:
                if self._left:
                    end = min(at + self._left, size)
                    if self._edit is not None:
                        cut = FRAMES_A_CHECK  # to look into a frame takes as long as to pass on many
                        if (new := self._edited(data, at, end)) is not None:
                            out += (data[kept:at], new)
                            kept = end
                    self._left -= end - at
                    at = end
                if size - at < self._header_size or self._is_held or self.error is not None:
                    break
                cut += 1
                if cut >= FRAMES_A_CHECK:
                    cut = 0
                    self._is_held = self._pauses()
                    if self._is_held:
                        break
                self._left = self._begin(data, at)
                if self._inserted:
                    out += (data[kept:at], *self._inserted)
                    kept = at
                    self._inserted.clear()
                if not self._left:
                    break
            self._carry = data[at:]
        except CodecError as error:
            self.error = bare(error)
        if not out and at == size:
            return data
        out.append(data[kept:at])
        found = [piece for piece in out if piece]
        return found[0] if len(found) == 1 else b"".join(found)  # one object: it may be large

    def _edited(self, data: bytes, start: int, end: int) -> bytes | None:
        edit, last = self._edit, end - start == self._left
        assert edit is not None
        if not last:
            new = edit.feed(data, start, end, last)
            if new == b"" and edit.buffers:
                self._buffer(end - start)
            return new
        self._edit = None
        new = edit.feed(data, start, end, last)
        if self._buffered and not self._is_held:
            self.forget()
        return new
