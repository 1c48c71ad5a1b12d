"""Attacks on what guards of topics look into: thousands of topics that are refused, by creation and by naming."""

from __future__ import annotations

from hostile.apis import metadata, names
from hostile.attacks import Attack, sends
from hostile.wire import INT32, array, frame, string

CREATE_TOPICS = 19
# Fifty teams have guards of their own; the attacker's topics are those of everyone else.
GUARDS = (
    "topic_guards:\n"
    + "".join(
        f'  - {{topics: ["group-{at}-*"], principals: ["User:team-{at}"], partitions: {{max: 50}}}}\n'
        for at in range(50)
    )
    + """\
  - topics: ["team-*"]
    naming: "[a-z]+([.][a-z0-9-]+)+"
    partitions: {min: 3, max: 50}
    configs: {retention.ms: {max: 604800000, required: true}}
    other_configs: deny
"""
)


def create(count: int, configs: int) -> bytes:
    """Topics of which none complies."""
    own = array(string(b"no-such-config-%d" % number) + string(b"x" * 100) for number in range(configs))
    topics = (string(name) + b"\0\0\0\1\0\1" + array([]) + own for name in names(count))
    return frame(CREATE_TOPICS, 4, array(topics) + INT32.pack(1000) + b"\1")


ON_GUARDS = (
    Attack("90: CreateTopics with 10,000 topics that a guard refuses, on 4 connections",
           sends(lambda: create(9_900, 0), 4, 20), more=GUARDS),
    Attack("91: CreateTopics with 90 topics of 100 configs that a guard refuses, on 4 connections",
           sends(lambda: create(90, 100), 4, 40), more=GUARDS),
    Attack("92: Metadata that names 10,000 topics that a guard lets no broker create, on 4 connections",
           sends(lambda: metadata(9_900), 4, 20), more=GUARDS),
)  # fmt: skip
