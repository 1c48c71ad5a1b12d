"""The wheel that users install: built here, tried in a fresh environment with what it pulls in, and no more."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from email import message_from_string
from pathlib import Path
from zipfile import ZipFile

import pytest
from artefacts.dockerfile import ROOT, copy_context
from harness.sidecar import Sidecar

# Slow: it compiles all once more. Whether that works, every installation in a clone finds out.
pytestmark = [pytest.mark.program, pytest.mark.slow]

BIN = Path(sys.executable).parent
MAX_WHEEL_BYTES, MAX_INSTALLED_BYTES = 3 << 20, 110 << 20
URL = "https://example.org/kafka-sidecar"
POLICY = "topics: [{name: orders, policy: '%s'}]\nbootstrap_servers: 127.0.0.1:9092\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once for all processes of a run: to compile takes minutes, and all cores."""
    folder = tmp_path_factory.mktemp("wheel", numbered=False)
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = tmp_path_factory.getbasetemp().parent / "wheel"  # of the run, whose processes have folders in it
        folder.mkdir(exist_ok=True)
    with (folder / ".building").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not [*folder.glob("*.whl")]:
            build(folder)
    (built,) = folder.glob("*.whl")
    return built


def build(folder: Path) -> None:
    pip = [BIN / "python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    built_with = os.environ | {"KAFKA_SIDECAR_COMPILE": "yes", "KAFKA_SIDECAR_URL": f"{URL}/"}
    subprocess.run([*map(str, pip), copy_context(folder / "context")], check=True, env=built_with)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel and the locked versions of what it depends on."""
    venv = tmp_path_factory.mktemp("venv")
    subprocess.run([BIN / "uv", "venv", "--quiet", "--allow-existing", "--python", sys.executable, venv], check=True)
    locked = ["--constraint", ROOT / "requirements-run.lock", "--only-binary", ":all:"]
    install = [BIN / "uv", "pip", "install", "--quiet", "--compile-bytecode", "--python", venv / "bin" / "python"]
    subprocess.run([*map(str, [*install, *locked]), wheel], check=True)
    return venv


def test_a_wheel_is_compiled_and_small(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    modules = json.loads(subprocess.check_output([BIN / "python", "-c", PRINT_MODULES]))
    compiled = {name.split(".")[0].replace("/", ".") for name in names if name.endswith(".so")}
    assert compiled == set(modules)
    assert not [name for name in names if name.startswith("tests") or name.endswith(".c")]
    assert wheel.stat().st_size < MAX_WHEEL_BYTES


PRINT_MODULES = "import json; from kafka_sidecar.codec.compiled import MODULES; print(json.dumps(MODULES))"


def test_the_metadata_has_urls_and_a_readme_whose_links_work_elsewhere(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
        metadata = message_from_string(archive.read(name).decode())
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
    assert urls["Homepage"] == URL
    for page in urls.values():
        assert page == URL or (ROOT / page.removeprefix(f"{URL}/blob/main/")).exists()
    readme = str(metadata.get_payload())
    assert "](docs/" not in readme
    assert f"]({URL}/blob/main/docs/tutorial.md)" in readme
    assert f"]({URL}/raw/main/docs/images/demo.svg)" in readme


def test_what_is_installed_runs_compiled_and_fits_a_small_disk(installed: Path, tmp_path: Path) -> None:
    version = subprocess.check_output([installed / "bin" / "kafka-sidecar", "version"], text=True)
    assert version.endswith("(compiled)\n")
    files = (path for path in installed.rglob("*") if path.is_file() and not path.is_symlink())
    assert sum(path.stat().st_size for path in files) < MAX_INSTALLED_BYTES
    with Sidecar("127.0.0.1:1", tmp_path / "log", command=installed / "bin" / "kafka-sidecar") as it:
        it.program.wait_for(lambda: '"build": "compiled"' in it.program.output(), "serving")
        assert it.stop() == 0


@pytest.mark.parametrize(
    ("policy", "code", "message"),
    [("json", 0, "valid"), ('cel:"key != null"', 2, "CEL is not installed; in a clone, pip install '.[cel]'")],
)
def test_policies_work_without_extras_except_for_the_one_that_names_its_extra(
    policy: str, code: int, message: str, installed: Path, tmp_path: Path
) -> None:
    (path := tmp_path / "sidecar.yaml").write_text(POLICY % policy)
    validated = subprocess.run(
        [installed / "bin" / "kafka-sidecar", "validate", path], capture_output=True, text=True, timeout=60
    )
    assert (validated.returncode, message in validated.stdout + validated.stderr) == (code, True)
