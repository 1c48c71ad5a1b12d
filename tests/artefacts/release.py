"""What a release must be, from one version: `kafka_sidecar.__version__`.

python -m artefacts.release            check everything, build wheel and sdist into build/release and try the wheel
python -m artefacts.release --write    write the version into each file that has it
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

from artefacts.dockerfile import ROOT

from kafka_sidecar import __version__
from kafka_sidecar.codec.compiled import MODULES

BIN = Path(sys.executable).parent
TARGET = ROOT / "build" / "release"
IMAGE = r"(?<=kafka-sidecar:)\d+\.\d+\.\d+"
# Files, as globs, and where in them the version is.
PLACES = (
    ("helm/kafka-sidecar/Chart.yaml", r"(?<=\nversion: )\S+|(?<=\nappVersion: )\S+"),
    ("examples/orders-chart/Chart.yaml", r"(?<=name: kafka-sidecar\n    version: )\S+"),
    ("compose.yaml", IMAGE),
    ("proxy/cli/inject.py", IMAGE),
    ("docs/**/*.md", IMAGE),
    ("tests/**/test_*.py", IMAGE),
    (
        "tests/chart/golden/*.yaml",
        rf'{IMAGE}|(?<=io/version: ")[^"]+|(?<=io/version: )[\d.]+|(?<=chart: kafka-sidecar-)\S+',
    ),
)
HEADING = re.compile(r"^## \[([^\]]+)\](?: - (.+))?$", re.MULTILINE)
OF_A_WHEEL = re.compile(r"kafka_sidecar/|kafka_sidecar-[^/]+\.dist-info/")
NEEDED_IN_SDIST = ("pyproject.toml", "setup.py", "README.md", "CHANGELOG.md", "LICENSE", "NOTICE", "PKG-INFO")


@dataclass(frozen=True, slots=True)
class Place:
    path: Path
    pattern: re.Pattern[str]

    def versions(self) -> set[str]:
        return set(self.pattern.findall(self.path.read_text(encoding="utf-8")))


def places(root: Path = ROOT) -> Iterator[Place]:
    """Every file that has the version."""
    for glob, pattern in PLACES:
        for path in sorted(root.glob(glob)):
            place = Place(path, re.compile(pattern))
            if place.versions():
                yield place


def write_version(version: str, root: Path = ROOT) -> list[str]:
    """Writes it everywhere; returns the names of the files that have changed."""
    changed = []
    for place in places(root):
        before = place.path.read_text(encoding="utf-8")
        after = place.pattern.sub(version, before)
        if after != before:
            place.path.write_text(after, encoding="utf-8")
            changed.append(str(place.path.relative_to(root)))
    return changed


def other_versions(version: str, root: Path = ROOT) -> Iterator[str]:
    """A line for each file that has another version."""
    for place in places(root):
        for other in sorted(place.versions() - {version}):
            yield f"{place.path.relative_to(root)} has {other}, not {version}: `make versions` writes it"


def changelog_mistakes(version: str, text: str, today: date) -> Iterator[str]:
    """What is wrong with the entry of this version, which must be the first, dated and with content."""
    headings = [found for found in HEADING.finditer(text) if found[1] != "Unreleased"]
    if not headings or headings[0][1] != version:
        yield f"CHANGELOG.md: the newest version is not {version}"
        return
    first = headings[0]
    try:
        if date.fromisoformat(first[2] or "") > today:
            yield f"CHANGELOG.md: {first[2]} is in the future"
    except ValueError:
        yield f"CHANGELOG.md: '## [{version}] - YYYY-MM-DD' is the form, not {first[0]!r}"
    end = headings[1].start() if len(headings) > 1 else len(text)
    if "\n* " not in text[first.end() : end]:
        yield f"CHANGELOG.md: {version} has no entries"
    before = text[text.find("## [Unreleased]") : first.start()] if "## [Unreleased]" in text else ""
    if "\n* " in before:
        yield f"CHANGELOG.md: entries under Unreleased belong to {version} or to no release"


def tree_mistakes(root: Path = ROOT) -> Iterator[str]:
    changed = subprocess.check_output(["git", "status", "--porcelain"], cwd=root, text=True)
    for line in changed.splitlines():
        yield f"the tree is not clean: {line}"


def metadata_mistakes(metadata: Message, version: str) -> Iterator[str]:
    expected = {
        "Name": "kafka-sidecar",
        "Version": version,
        "License-Expression": "Apache-2.0",
        "Description-Content-Type": "text/markdown",
        "Requires-Python": ">=3.11",
    }
    for name, value in expected.items():
        if metadata[name] != value:
            yield f"the metadata has {name}: {metadata[name]}, not {value}"
    if "# kafka-sidecar" not in str(metadata.get_payload()):
        yield "the metadata does not have the README"
    if os.environ.get("KAFKA_SIDECAR_URL") and not metadata.get_all("Project-URL"):
        yield "the metadata does not have the URLs"


def wheel_mistakes(wheel: Path, version: str) -> Iterator[str]:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        (info,) = {name.partition("/")[0] for name in names if ".dist-info/" in name}
        yield from metadata_mistakes(message_from_bytes(archive.read(f"{info}/METADATA")), version)
        if b"kafka-sidecar = kafka_sidecar.proxy.cli.entry:main" not in archive.read(f"{info}/entry_points.txt"):
            yield "the wheel does not have the command"
    for name in names:
        if not OF_A_WHEEL.match(name) or name.endswith((".c", ".cpp")) or "/tests/" in name:
            yield f"the wheel has {name}"
    compiled = {name.split(".")[0].replace("/", ".") for name in names if name.endswith(".so")}
    for module in sorted(set(MODULES) ^ compiled):
        yield f"{module} is {'not ' if module in MODULES else ''}compiled in the wheel"
    for name in ("LICENSE", "NOTICE"):
        if not any(one.endswith(f"/{name}") for one in names):
            yield f"the wheel does not have {name}"


def sdist_mistakes(sdist: Path, version: str) -> Iterator[str]:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        metadata = archive.extractfile(f"kafka_sidecar-{version}/PKG-INFO")
        assert metadata is not None
        yield from metadata_mistakes(message_from_bytes(metadata.read()), version)
    for name in NEEDED_IN_SDIST:
        if name not in names:
            yield f"the sdist does not have {name}"
    for name in sorted(names):
        if name.endswith((".so", ".c", ".pyc")) or name.startswith(("tests", "bench", "docs")):
            yield f"the sdist has {name}"


def built() -> tuple[Path, Path]:
    """The sdist, and the wheel that is built from it: what the sdist lacks, no wheel has."""
    command = [
        BIN / "uv",
        "build",
        "--quiet",
        "--python",
        sys.executable,
        "--build-constraints",
        ROOT / "requirements.lock",
    ]
    shutil.rmtree(TARGET, ignore_errors=True)
    environment = os.environ | {"KAFKA_SIDECAR_COMPILE": "yes"}
    subprocess.run([*map(str, command), "--out-dir", str(TARGET), str(ROOT)], check=True, env=environment)
    (sdist,), (wheel,) = TARGET.glob("*.tar.gz"), TARGET.glob("*.whl")
    return sdist, wheel


def installed_mistakes(wheel: Path, version: str) -> Iterator[str]:
    """The command of the wheel in an empty environment, with the locked versions of what it needs."""
    with tempfile.TemporaryDirectory(prefix="kafka-sidecar-release-") as folder:
        venv = Path(folder, "venv")
        subprocess.run([BIN / "uv", "venv", "--quiet", "--python", sys.executable, venv], check=True)
        locked = ["--constraint", ROOT / "requirements-run.lock", "--only-binary", ":all:"]
        install = [BIN / "uv", "pip", "install", "--quiet", "--python", venv / "bin" / "python", *locked, wheel]
        subprocess.run([*map(str, install)], check=True, cwd=folder)
        printed = subprocess.check_output([venv / "bin" / "kafka-sidecar", "version"], cwd=folder, text=True)
        if printed.split()[:2] != ["kafka-sidecar", version] or "(compiled)" not in printed:
            yield f"`kafka-sidecar version` prints {json.dumps(printed)}"


def mistakes() -> Iterator[str]:
    today = datetime.now(UTC).date()
    yield from other_versions(__version__)
    yield from changelog_mistakes(__version__, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), today)
    yield from tree_mistakes()
    sdist, wheel = built()
    yield from sdist_mistakes(sdist, __version__)
    yield from wheel_mistakes(wheel, __version__)
    yield from installed_mistakes(wheel, __version__)


def main() -> int:
    if "--write" in sys.argv:
        sys.stdout.write("".join(f"{name}\n" for name in write_version(__version__)))
        return 0
    found = 0
    for found, line in enumerate(mistakes(), 1):  # noqa: B007 - the number of the last one
        sys.stdout.write(f"{line}\n")
    names = ", ".join(path.name for path in sorted(TARGET.glob("kafka_sidecar-*")))
    sys.stdout.write(
        f"{__version__}: {found} mistakes\n" if found else f"{__version__}: ready; {names} in build/release\n"
    )
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
