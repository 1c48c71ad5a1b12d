"""A proposal as files: the configuration, and the schemas beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from kafka_sidecar.pipeline.suggest.proposal import Proposal

MAX_COMMENT = 200  # characters


def write_files(proposal: Proposal, servers: Sequence[str], folder: Path) -> Path:
    """Write the schemas and the configuration that names them; the configuration's path."""
    for part, schema in proposal.schemas.items():
        file = folder / "schemas" / f"{proposal.topic}-{part}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", "utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{proposal.topic}.yaml"
    path.write_text(configuration(proposal, servers), "utf-8")
    return path


def configuration(proposal: Proposal, servers: Sequence[str]) -> str:
    """A configuration of a sidecar that reports what is otherwise, and rejects nothing."""
    lines = [f"# What holds for {proposal.topic}, from {proposal.records:,} records of it."]
    lines += [_comment(one) for one in proposal.limits]
    lines += _yaml({"bootstrap_servers": list(servers)}, 0)
    if not proposal.policies:
        return "\n".join([*lines, "# Nothing that a policy could validate.", ""])
    lines.append("policies:")
    for policy in proposal.policies:
        lines += [f"  {_comment(one)}" for one in policy.why]
        lines += _yaml({policy.name: {"type": policy.type, **policy.settings}}, 2)
    names = ", ".join(policy.name for policy in proposal.policies)
    topic = {"name": proposal.topic, "policy": names, "mode": "shadow"}
    return "\n".join([*lines, *_yaml({"topics": [topic]}, 0), ""])


def _yaml(content: Mapping[str, Any], indent: int) -> Iterator[str]:
    text = yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=10**6)
    return (" " * indent + line for line in text.splitlines())


def _comment(text: str) -> str:
    """One line, whatever the name of a header or a field has in it."""
    shown = "".join(one if one.isprintable() else " " for one in text)
    return f"# {shown if len(shown) <= MAX_COMMENT else shown[:MAX_COMMENT] + '...'}"
