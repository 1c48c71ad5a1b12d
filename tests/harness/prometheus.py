"""A real Prometheus: those programs of it that are installed, or that `make prometheus` has unpacked."""

from __future__ import annotations

import json
import shutil
import urllib.parse
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from harness import admin_pages
from harness.ports import free_ports
from harness.processes import Program

UNPACKED = Path(__file__).parents[2] / ".cache" / "tools" / "prometheus" / "usr" / "bin"


def promtool() -> Path:
    return _find("promtool")


def _find(name: str) -> Path:
    path = shutil.which(name) or UNPACKED / name
    assert Path(path).is_file(), f"{name} is not installed: `make prometheus` unpacks Debian's package"
    return Path(path)


class Prometheus:
    """A server that scrapes some URLs each second, and evaluates a file of rules."""

    def __init__(self, urls: list[str], rules: Path, folder: Path) -> None:
        folder.mkdir(parents=True)
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        targets = [url.removeprefix("http://") for url in urls]
        configuration = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": "kafka-sidecar", "static_configs": [{"targets": targets}]}],
        }
        file = folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(configuration))
        self.program = Program(
            [
                _find("prometheus"), f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            folder / "prometheus.log",
        )  # fmt: skip
        self.program.wait_for(self._is_ready, "ready", 30)

    def _is_ready(self) -> bool:
        try:
            return admin_pages.get(f"{self.url}/-/ready", 2).status == 200
        except OSError:
            return False

    def get(self, path: str, **parameters: object) -> Any:
        """The data of a response of the HTTP API."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        return json.loads(admin_pages.get(url, 30).text)["data"]

    def __enter__(self) -> Prometheus:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.program.stop()
