"""A broker, and a sidecar whose topics ask that consumers do not see what their policy rejects."""

from __future__ import annotations

from pathlib import Path

PLUGGED = Path(__file__).with_name("plugged")
# Topics are named after what consumers get of records that are not JSON.
RULES = """
policies:
  few: {type: limits, max_records: 2}
  outage: {type: "outage_policy:Outage", class_path: "PLUGGED", file: "FILE"}
topics:
  - {name: "hidden-*", policy: json, consume: hide}
  - {name: "marked-*", policy: json, consume: mark}
  - {name: "named-*", policy: "require_header:h", consume: {action: mark, policy: json, header: bad}}
  - {name: "shadow-*", policy: json, mode: shadow, consume: hide}
  - {name: "few-*", policy: few, consume: hide}
  - {name: "down-hidden-*", policy: outage, consume: hide}
  - {name: "down-marked-*", policy: outage, consume: mark}
  - {name: "large-*", policy: json, consume: hide}
large_messages: {topics: [{name: "large-*"}]}
"""


def rules(down: Path) -> str:
    """The configuration; the policy `outage` cannot decide while this file is there."""
    return RULES.replace("PLUGGED", str(PLUGGED)).replace("FILE", str(down))
