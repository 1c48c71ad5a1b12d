"""The how-to for large messages, as it is written, but for its addresses."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.sidecar import Sidecar
from harness.versions import CACHE
from integration.lent import plain_cluster
from support.pages import page

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PAGE = page("docs/how-to/large-messages.md")
LIMIT_S = 120
JAVA = "java -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp '.cache/kafka/4.4.0/*'"


class Walk:
    """The page's files in a folder, and its commands."""

    def __init__(self, folder: Path, brokers: str, sidecar: str) -> None:
        self._folder = folder
        self._addresses = {"127.0.0.1:9092": brokers, "127.0.0.1:19092": sidecar}
        (folder / ".cache").symlink_to(CACHE.parent)
        for block in PAGE.blocks:
            if block.mark is not None:
                (folder / block.mark.removeprefix("file ")).write_text(self._adapt(block.text))
        self.commands = [line for block in PAGE.blocks if block.language == "sh" for line in block.text.splitlines()]
        self.expected = [block.text for block in PAGE.blocks if block.language == "text"]

    def _adapt(self, text: str) -> str:
        return re.sub(r"127\.0\.0\.1:1?9092", lambda found: self._addresses[found[0]], text)

    def run(self, start: str) -> str:
        """What the page's command that begins so prints."""
        (command,) = [command for command in self.commands if command.startswith(start)]
        if ">" in command:
            return self._call(["sh", "-c", command])
        words = shlex.split(self._adapt(command))
        return self._call([sys.executable if words[0] == "python" else words[0], *words[1:]])

    def _call(self, words: list[str]) -> str:
        done = subprocess.run(words, cwd=self._folder, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    folder = tmp_path_factory.mktemp("how-to")
    (config,) = [block.text for block in PAGE.blocks if block.mark == "file large.yaml"]
    large_messages = config[config.index("large_messages:") :]
    (folder / "flags.yaml").write_text(large_messages)
    with (
        plain_cluster() as cluster,
        Sidecar.start(cluster.bootstrap, folder / "log", ("--config", str(folder / "flags.yaml"))) as sidecar,
    ):
        walk = Walk(folder, cluster.direct, sidecar.bootstrap)
        walk.run(f"{JAVA} org.apache.kafka.tools.TopicCommand")
        walk.run("head")
        yield walk


def described(printed: str) -> re.Match[str] | None:
    return re.fullmatch(r"offset (\d+): (\d+) bytes, CRC-32 ([0-9a-f]{8})\n", printed)


@pytest.fixture(scope="module")
def sent(walk: Walk) -> str:
    """What the producer says of its document."""
    return walk.run("python send.py")


def test_a_document_of_20_mb_is_sent_and_read_by_java_as_the_page_prints_it(walk: Walk, sent: str) -> None:
    found = described(sent)
    assert found is not None
    assert found[2] == "20000000"
    assert found[1] == "20"
    assert walk.run(f"{JAVA} Read.java") == sent
    assert all(described(text) for text in walk.expected)


@pytest.mark.matrix
@pytest.mark.skipif(shutil.which("go") is None, reason="needs go")
def test_go_reads_the_same_document(walk: Walk, sent: str) -> None:
    for command in ("go mod init", "go mod tidy"):
        walk.run(command)
    assert walk.run("go run") == sent
