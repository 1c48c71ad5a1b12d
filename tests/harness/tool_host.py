"""Kafka's own Java tools and clients, run inside one JVM per version (tests/jvm/java)."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from harness.jvm import OPTIONS, shared_classes
from harness.processes import spawn
from harness.versions import CACHE, ROOT, as_numbers, jars

SOURCES = ROOT / "tests" / "jvm" / "java"
_MEMORY = "-Xmx768m"
# For the shutdown hooks that tools register: see ToolHost.java.
_OPENS = ("--add-opens", "java.base/java.lang=ALL-UNNAMED")
_LOGGING = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
# Compiled classes of other sources are kept that long: another checkout may share the folder.
UNUSED_S = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one call; the code is None if it did not end within its limit."""

    code: int | None
    out: str
    err: str


class ToolError(Exception):
    """A tool ended with another code than 0, or not in time; the message carries its output."""


class ToolHost:
    """One JVM that runs main classes, several at a time if several threads call."""

    def __init__(self, version: str) -> None:
        self.version = version
        # The jars come first, as in the archive of classes.
        path = f"{jars(version)}:{compiled(version)}"
        command = ["java", *OPTIONS, _MEMORY, *shared_classes(version), *_OPENS, _LOGGING, "-cp", path, "ToolHost"]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop
        self._process = spawn(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log)
        self._ids = itertools.count(1)
        self._waiting: dict[int, Future[Answer]] = {}
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, name=f"java-{version}", daemon=True)
        self._reader.start()

    def start(self, main: str, *args: object, stdin: str = "", limit_s: float = 40) -> Future[Answer]:
        """Begins a call of ``main`` with these arguments."""
        answer: Future[Answer] = Future()
        with self._lock:
            number = next(self._ids)
            self._waiting[number] = answer
            call = {"id": number, "main": main, "args": list(map(str, args)), "stdin": stdin, "limit_s": limit_s}
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(call).encode() + b"\n")
            self._process.stdin.flush()
        return answer

    def run(self, main: str, *args: object, stdin: str = "", limit_s: float = 40) -> str:
        """What the tool printed; raises ToolError unless it ends with 0 within ``limit_s`` seconds."""
        answer = self.start(main, *args, stdin=stdin, limit_s=limit_s).result(limit_s + 20)
        if answer.code == 0:
            return answer.out
        how = f"was not done in {limit_s:g} s" if answer.code is None else f"ended with {answer.code}"
        raise ToolError(f"{main} {' '.join(map(str, args))} {how}\n{answer.err[-3000:]}\n{answer.out[-1500:]}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            reply = json.loads(line)
            self._waiting.pop(reply["id"]).set_result(Answer(reply["code"], reply["out"], reply["err"]))
        self._log.seek(0)
        end = self._log.read()[-3000:].decode(errors="replace")
        for waiting in self._waiting.values():
            waiting.set_exception(ToolError(f"the JVM of {self.version} ended\n{end}"))

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(5)
        for file in (self._process.stdin, self._process.stdout, self._log):
            assert file is not None
            file.close()

    def __enter__(self) -> ToolHost:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class ToolHosts(dict[str, ToolHost]):
    """By version; a JVM starts when it is first asked for."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def __missing__(self, version: str) -> ToolHost:
        with self._lock:
            if version not in self:
                self[version] = ToolHost(version)
            return self[version]

    def stop(self) -> None:
        for host in self.values():
            host.stop()


def compiled(version: str) -> Path:
    """The folder of our compiled classes, made on first use and whenever a source has changed."""
    is_old = as_numbers(version) < (4,)
    sources = [file for file in sorted(SOURCES.glob("*.java")) if not (is_old and file.stem.startswith("Kafka4"))]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()[:12]
    folder = CACHE / f"host-{version}-{digest}"
    with (CACHE / f".compiling-{version}").open("w") as lock:  # the first of several processes does it for all
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _compile(sources, version, folder)
    os.utime(folder)
    for other in CACHE.glob(f"host-{version}-*"):
        with contextlib.suppress(FileNotFoundError):  # another run removes it, too
            if time.time() - other.stat().st_mtime > UNUSED_S:
                shutil.rmtree(other)
    return folder


def _compile(sources: Sequence[Path], version: str, folder: Path) -> None:
    """The folder appears under its name only when it is whole."""
    part = Path(tempfile.mkdtemp(dir=CACHE, prefix=".part."))
    try:
        compiler = ["javac", "-nowarn", "-Xlint:none", "-d", str(part), "-cp", jars(version), *map(str, sources)]
        done = subprocess.run(compiler, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise ToolError(f"javac: {done.stderr}")
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
