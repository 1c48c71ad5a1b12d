"""The tables of docs/reference/image.md: what was measured, and what is inside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from artefacts.dockerfile import ROOT

PAGE = ROOT / "docs" / "reference" / "image.md"
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Measured:
    unpacked_bytes: int
    packed_bytes: int
    live_s: float
    ready_s: float
    rss_kib: int

    def rows(self) -> list[str]:
        unpacked, packed = self.unpacked_bytes / MIB, self.packed_bytes / MIB
        return [
            "| | |",
            "| --- | --- |",
            f"| what the image adds to its base | {unpacked:.0f} MiB, {packed:.0f} MiB compressed |",
            f"| start until `/livez` responds | {self.live_s * 1000:.0f} ms |",
            f"| start until `/readyz` is 200 | {self.ready_s * 1000:.0f} ms |",
            f"| resident memory when ready | {self.rss_kib / 1024:.0f} MiB |",
        ]


def components(sbom: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Version and license of each component, by name."""
    return {
        each["name"]: (each["version"], _license(each.get("licenses", [])))
        for each in sorted(sbom["components"], key=lambda each: str(each["name"]).lower())
    }


def _license(licenses: list[dict[str, Any]]) -> str:
    """The SPDX identifier or expression; else the name that the package gives its license."""
    named = [entry.get("expression") or entry["license"].get("id") for entry in licenses]
    others = [entry.get("license", {}).get("name", "") for entry in licenses]
    return next(filter(None, [*named, *others]), "not declared").removeprefix("License :: OSI Approved :: ")


def write_tables(measured: Measured, sbom: Mapping[str, Any]) -> None:
    """Replace both tables of the page."""
    inside = [f"| `{name}` | {version} | {terms} |" for name, (version, terms) in components(sbom).items()]
    text = PAGE.read_text()
    tables = {
        "measured": measured.rows(),
        "inside": ["| package | version | license |", "| --- | --- | --- |", *inside],
    }
    for name, rows in tables.items():
        body = "\n".join(["", "", *rows, "", ""])
        text = re.sub(rf"(<!-- {name}: .*? -->).*?(<!-- end of {name} -->)", rf"\1{body}\2", text, flags=re.DOTALL)
    PAGE.write_text(text)
