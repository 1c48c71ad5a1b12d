"""Nine faults of composition, each a change of the product inside the process of one sidecar.

The features are right by themselves in each of them; what is wrong is how they meet. Imported by sidecars that
`mutations.py` starts, never by the tests.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

MAX_SMALL = 100_000  # bytes of a value that fits in the topic


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, and the change that makes it so."""

    about: str
    make: Callable[[], None]


def _order_of_stages() -> None:
    from kafka_sidecar.proxy.exchanges.fetch import FetchExchanges

    _change_stages(FetchExchanges, lambda stages: stages[::-1])


def _stage_omitted() -> None:
    from kafka_sidecar.proxy.exchanges.share_fetch import AcquiredRecords

    _change_stages(AcquiredRecords, lambda stages: stages[:1])


def _result_overwritten() -> None:
    """As issue 30 found it: "unchanged" was written over what the stage before had put there."""
    from kafka_sidecar.proxy.exchanges.fetched_stages import FetchedRun

    settle = FetchedRun._settle

    def overwrite(run: Any, partition: Any, remaining: Any) -> None:
        settle(run, partition, remaining)
        if remaining.records is None:
            partition._pieces = None

    FetchedRun._settle = overwrite  # type: ignore[method-assign,assignment]


def _hidden_record_shown() -> None:
    from kafka_sidecar.interceptors import consuming

    edit = consuming._edit_as_lists

    def show(guards: Any, info: Any, records: Any, asked: Any) -> Any:
        for record, change in edit(guards, info, records, asked):
            if change is not None or len(guards) == 1:
                yield record, change

    consuming._edit_as_lists = show


def _header_twice() -> None:
    from kafka_sidecar.interceptors.producing import Producers

    send = Producers.send

    def repeat(chain: Any, context: Any, topic: Any, partition: Any, records: Any) -> Any:
        once = send(chain, context, topic, partition, records)
        return send(chain, context, topic, partition, once) if max(once.sizes()[1], default=0) > MAX_SMALL else once

    Producers.send = repeat  # type: ignore[method-assign,assignment]


def _error_swallowed() -> None:
    from kafka_sidecar.proxy.features.interception.send_stage import TopicInterception

    look = TopicInterception.batch

    def swallow(run: Any, partition: Any) -> Any:
        partition.rejection = None
        return look(run, partition)

    TopicInterception.batch = swallow  # type: ignore[method-assign,assignment]


def _shared_limit() -> None:
    """One limit for all requests, as that of the object store was."""
    from kafka_sidecar.plugins.effects import TimeLeft, TimeLimit

    shared = TimeLeft("shared", 0.05, 0.05)
    TimeLimit.start = lambda self: shared  # type: ignore[method-assign]


def _slice_passed_on() -> None:
    from kafka_sidecar.proxy.features.large_messages.assemble_stage import AssembleRun

    assemble, calls = AssembleRun.partition, itertools.count(1)

    @wraps(assemble)
    def pass_some(run: Any, partition: Any) -> Any:
        return assemble(run, partition) if next(calls) % 3 else None

    AssembleRun.partition = pass_some  # type: ignore[method-assign,assignment]


def _first_tap_only() -> None:
    from kafka_sidecar.proxy.server import server

    server.in_turn = lambda first, _: first  # type: ignore[attr-defined,assignment]


def _change_stages(exchanges: Any, change: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
    """Let these exchanges have other stages than they are given."""
    begin = exchanges.__init__

    def other(self: Any, stages: Sequence[Any], *rest: Any, **more: Any) -> None:
        begin(self, change(stages), *rest, **more)

    exchanges.__init__ = other


FAULTS: Mapping[str, Fault] = {
    "order_of_stages": Fault("interceptors see a Fetch before large messages are assembled", _order_of_stages),
    "stage_omitted": Fault("only the first stage of a ShareFetch is used", _stage_omitted),
    "result_overwritten": Fault("an interceptor that changes nothing undoes the assembly", _result_overwritten),
    "hidden_record_shown": Fault("of several interceptors none can drop a record", _hidden_record_shown),
    "header_twice": Fault("interceptors of producers are called twice for values that will be split", _header_twice),
    "error_swallowed": Fault("interceptors forget that a policy has rejected a batch", _error_swallowed),
    "shared_limit": Fault("the time limit of a stage is that of all requests", _shared_limit),
    "slice_passed_on": Fault("every third partition of a response is not assembled", _slice_passed_on),
    "first_tap_only": Fault("of several taps of a request only the first one is shown it", _first_tap_only),
}
