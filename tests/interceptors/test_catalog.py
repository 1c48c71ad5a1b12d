"""Interceptors from the configuration: order, topics, reload and error messages."""

from __future__ import annotations

import gc
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_sidecar.interceptors import catalog as catalog_module
from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.contract import (
    ConsumerInterceptor,
    Hints,
    Interceptor,
    Offsets,
    ProducerInterceptor,
    RecordBatch,
    RecordMetadata,
)
from kafka_sidecar.interceptors.guard import Limits
from kafka_sidecar.interceptors.records import ConsumerRecords, ProducerRecord

HERE = f"{__name__}:"
opened: list[Any] = []


class Remembering:
    """Records its settings and calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        opened.append(self.calls)

    def configure(self, configs: Mapping[str, Any]) -> None:
        if "wrong" in configs:
            raise ValueError("wrong: is not a setting")
        self.calls.append(f"configure {dict(configs)}")
        self.own = Hints(**configs.get("hints", {}))

    def hints(self) -> Hints:
        self.calls.append("hints")
        return self.own

    def close(self) -> None:
        self.calls.append("close")


class Sends(Remembering, ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record


class Hears(Remembering, ProducerInterceptor):
    def on_acknowledgement(self, metadata: RecordMetadata, exception: Exception | None) -> None:
        """Hear."""


class Consumes(Remembering, ConsumerInterceptor):
    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        return records


class Commits(Remembering, ConsumerInterceptor):
    def on_commit(self, offsets: Offsets) -> None:
        """Hear."""


class Both(Sends, Consumes):
    pass


class Idle(Remembering, ProducerInterceptor, ConsumerInterceptor):
    pass


class FailsToStart(Sends):
    def configure(self, configs: Mapping[str, Any]) -> None:
        raise KeyError("license")


class LeavesAtStart(Sends):
    def hints(self) -> Hints:
        raise SystemExit("no license")


class PanicsAtStart(Sends):
    def configure(self, configs: Mapping[str, Any]) -> None:
        raise BaseException("unwrap")


class HintsAtNothing(Sends):
    def hints(self) -> Any:
        return None


class HintsAtText(Sends):
    def hints(self) -> Any:
        return Hints(topics="orders")  # type: ignore[arg-type]


class HintsAtNoTopics(Sends):
    def hints(self) -> Any:
        return Hints(topics=None)  # type: ignore[arg-type]


class FailsToEnd(Sends):
    def close(self) -> None:
        raise BaseException("lock")


class Neither(Remembering, Interceptor):
    pass


class Waits(Sends):
    async def on_send(self, record: ProducerRecord) -> ProducerRecord:  # type: ignore[override]
        return record


class WaitsForBatches(Sends):
    async def on_send_batch(self, batch: RecordBatch) -> Any:
        return batch.records


class Misspells(Sends):
    def on_sent(self, record: ProducerRecord) -> ProducerRecord:
        return record


class SetsMisspelt(Sends):
    def configure(self, configs: Mapping[str, Any]) -> None:
        super().configure(configs)
        self.on_sent_batch = lambda batch: batch.records


class ConsumesOnly(Remembering, ConsumerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record


class NoInterceptor:
    pass


@pytest.fixture(autouse=True)
def _this_module_can_be_named(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or SimpleNamespace(**globals()))
    opened.clear()
    yield
    gc.collect()
    opened.clear()


def one(kind: str, name: str = "it", *topics: str, **settings: Any) -> InterceptorSettings:
    return InterceptorSettings(f"{HERE}{kind}", name, topics or ("*",), settings=settings)


@pytest.fixture
def catalog(report: Any) -> Callable[..., InterceptorCatalog]:
    return lambda *settings, **options: InterceptorCatalog(list(settings), report, **options)


def names(found: Any) -> list[str]:
    return [guard.name for guard in found.guards] if found else []


def test_an_interceptor_is_configured_once_before_anything_else_and_closed_once(catalog: Any) -> None:
    made = catalog(one("Sends", level=3))
    assert opened == [["configure {'level': 3}", "hints"]]
    del made
    gc.collect()
    assert opened == [["configure {'level': 3}", "hints", "close"]]


def test_an_interceptor_is_not_closed_during_a_request(catalog: Any) -> None:
    made = catalog(one("Sends"))
    serving = made.producers("orders")
    del made
    gc.collect()
    assert "close" not in opened[0]
    del serving
    gc.collect()
    assert opened[0][-1] == "close"


def test_an_exception_in_close_is_reported(catalog: Any, report: Any) -> None:
    made = catalog(one("FailsToEnd"), one("Sends", "other"))
    del made
    gc.collect()
    assert report.failures == [("it", "close", "BaseException: lock")]
    assert opened[1][-1] == "close"


def test_interceptors_are_in_configured_order(catalog: Any) -> None:
    made = catalog(one("Both", "a"), one("Sends", "b"), one("Consumes", "c"), one("Both", "d"))
    assert names(made.producers("orders")) == ["a", "b", "d"]
    assert names(made.consumers("orders")) == ["a", "c", "d"]
    assert names(made) == ["a", "b", "c", "d"]


def test_an_interceptor_applies_to_topics_in_both_its_configuration_and_its_hints(catalog: Any) -> None:
    made = catalog(
        one("Sends", "all"), one("Sends", "orders", "orders", "p*"), one("Sends", "hinted", hints={"topics": ("pay*",)})
    )
    assert names(made.producers("orders")) == ["all", "orders"]
    assert names(made.producers("payments")) == ["all", "orders", "hinted"]
    assert names(made.producers("other")) == ["all"]


def test_a_topic_without_interceptors_has_no_chain(catalog: Any) -> None:
    made = catalog(one("Both", "a", "orders"), one("Idle", "b"))
    assert made.producers("other") is None
    assert made.consumers("other") is None
    assert catalog().producers("orders") is None


def test_the_chains_of_topics_are_cached_up_to_a_limit(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_module, "MAX_CACHED_TOPICS", 3)
    made = catalog(one("Sends", "a", "t*"))
    first = made.producers("t1")
    assert made.producers("t1") is first
    for number in range(10):
        assert names(made.producers(f"t{number}")) == ["a"]
        assert made.producers(f"x{number}") is None
    assert len(made._producers._found) <= 3


@pytest.mark.parametrize(
    ("kind", "producers", "consumers", "commits"),
    [
        ("Sends", True, False, False),
        ("Hears", True, False, False),
        ("Consumes", False, True, False),
        ("Commits", False, False, True),
        ("Both", True, True, False),
        ("Idle", True, False, False),  # there is one for producers; no topic has it
    ],
)
def test_the_catalog_knows_which_apis_need_interception(
    kind: str, producers: bool, consumers: bool, commits: bool, catalog: Any
) -> None:
    made = catalog(one(kind))
    assert (made.intercept_producers, made.intercept_consumers, made.intercept_commits) == (
        producers,
        consumers,
        commits,
    )
    if kind == "Idle":
        assert made.producers("orders") is None


def test_an_interceptor_without_wants_records_is_not_called_for_fetches(catalog: Any) -> None:
    made = catalog(one("Consumes", hints={"wants_records": False}))
    assert not made.intercept_consumers
    assert made.consumers("orders") is None


def test_limits_come_from_the_configuration(catalog: Any) -> None:
    limits = Limits(budget_s=1, failures=2, pause_s=3)
    (guard,) = catalog(InterceptorSettings(f"{HERE}Sends", "it", limits=limits)).guards
    assert guard.limits == limits


def test_the_limit_of_commit_metadata_is_configurable(catalog: Any) -> None:
    assert catalog(max_metadata=7).committers.max_metadata == 7


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (one("Sends", wrong=1), "interceptor it: wrong: is not a setting"),
        (one("FailsToStart"), r"interceptor it: .*:FailsToStart failed to start: KeyError: 'license'"),
        (one("LeavesAtStart"), r"interceptor it: .*:LeavesAtStart failed to start: SystemExit: no license"),
        (one("PanicsAtStart"), r"interceptor it: .*:PanicsAtStart failed to start: BaseException: unwrap"),
        (one("HintsAtNothing"), r"interceptor it: .*:HintsAtNothing: hints\(\) did not return Hints"),
        (one("HintsAtText"), r"it: .*:HintsAtText: hints\(\): topics must be a tuple of names"),
        (one("HintsAtNoTopics"), r"it: .*:HintsAtNoTopics: hints\(\): topics must be a tuple of names"),
        (one("Neither"), "is neither a ProducerInterceptor nor a ConsumerInterceptor"),
        (one("Waits"), r"Waits .*: on_send\(\) is async: hooks are not awaited"),
        (one("WaitsForBatches"), r"on_send_batch\(\) is async: hooks are not awaited"),
        (one("Misspells"), r"Misspells .*: on_sent\(\) is not a hook: did you mean on_send\(\)\?"),
        (one("SetsMisspelt"), r"SetsMisspelt: on_sent_batch\(\) is not a hook: did you mean on_send_batch\(\)\?"),
        (one("ConsumesOnly"), r"ConsumesOnly .*: on_send\(\) is never called: extend ProducerInterceptor"),
        (one("NoInterceptor"), r"is not a subclass of .*\.Interceptor"),
        (one("Missing"), "the module has no such class"),
        (InterceptorSettings("missing", "it"), "interceptor it: unknown interceptor 'missing'"),
    ],
    ids=str,
)
def test_an_invalid_interceptor_is_rejected_with_the_remedy(
    setting: InterceptorSettings, message: str, catalog: Any
) -> None:
    with pytest.raises(ValueError, match=message):
        catalog(one("Sends", "good"), setting)
    gc.collect()
    assert opened[0][-1] == "close"  # the good one, which is not used


def test_an_interceptor_with_unchanged_settings_keeps_its_state_after_a_reload(catalog: Any) -> None:
    before = catalog(one("Sends", "same", level=1), one("Sends", "other", level=1), one("Sends", "gone"))
    after = catalog(one("Sends", "new"), one("Sends", "other", level=2), one("Sends", "same", level=1), previous=before)
    assert names(after) == ["new", "other", "same"]
    assert after.guards[2] is before.guards[0]
    assert after.guards[1] is not before.guards[1]
    assert len(opened) == 5
    del before
    gc.collect()
    assert [calls[-1] for calls in opened] == ["hints", "close", "close", "hints", "hints"]


def test_an_interceptor_whose_code_on_the_class_path_has_changed_is_loaded_again(catalog: Any, tmp_path: Path) -> None:
    source = "from kafka_sidecar.interceptors.contract import ConsumerInterceptor\n"
    source += "class Mine(ConsumerInterceptor):\n    version = {0}\n    def on_commit(self, offsets): ...\n"
    for name in ("changed", "same"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(source.format(1))
    settings = [InterceptorSettings("mine:Mine", name, class_path=str(tmp_path / name)) for name in ("changed", "same")]
    before = catalog(*settings)
    (tmp_path / "changed" / "mine.py").write_text(source.format(10))
    after = catalog(*settings, previous=before)
    assert [guard.interceptor.version for guard in after.guards] == [10, 1]
    assert after.guards[1] is before.guards[1]


def test_an_interceptor_whose_class_path_is_gone_is_an_error_at_a_reload(catalog: Any, tmp_path: Path) -> None:
    place = tmp_path / "code"
    place.mkdir()
    (place / "mine.py").write_text(
        "from kafka_sidecar.interceptors.contract import ConsumerInterceptor\nclass Mine(ConsumerInterceptor): ...\n"
    )
    settings = InterceptorSettings("mine:Mine", "mine", class_path=str(place))
    before = catalog(settings)
    shutil.rmtree(place)
    with pytest.raises(ValueError, match=r"interceptor mine: class path: .* is not a folder"):
        catalog(settings, previous=before)


def test_two_interceptors_with_equal_settings_stay_two_after_a_reload(catalog: Any) -> None:
    twice = [one("Sends"), one("Sends")]
    before = catalog(*twice)
    after = catalog(*twice, previous=before)
    assert [*map(id, after.guards)] == [*map(id, before.guards)]
    assert after.guards[0] is not after.guards[1]
