"""What is kept of a registry's answers, when it is asked, and what holds while it does not respond."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Callable
from typing import Any

import pytest

from kafka_sidecar.plugins.effects import asker
from kafka_sidecar.schemas import registry as module
from kafka_sidecar.schemas.ids import SchemaId
from kafka_sidecar.schemas.registries import Registries, open_registry
from kafka_sidecar.schemas.registry import (
    Answer,
    CompatibleWith,
    Found,
    LatestOf,
    NotFetchedError,
    Question,
    Registry,
    RegistryError,
    RegistrySettings,
    RegistryStats,
    SchemaOf,
    VersionsOf,
)

FIRST = SchemaId("id", 1)
LATEST = LatestOf("orders-value")
SUBJECTS = [LATEST, VersionsOf(FIRST), CompatibleWith("orders-value", FIRST)]


class Source:
    """A registry's answers without HTTP, and a clock."""

    def __init__(self, **settings: Any) -> None:
        self.now = 1000.0
        self.asked: list[Question] = []
        self.answers: dict[Question, Answer] = {}
        self.bytes = 100
        self.error: Exception | None = None
        self.delay_s: Callable[[], float] = lambda: 0.0
        own = RegistrySettings("main", ("http://registry:8081",), **settings)
        self.registry = Registry(own, self.ask, RegistryStats(), open_registry, lambda: self.now)

    def ask(self, question: Question) -> Found:
        self.asked.append(question)
        time.sleep(self.delay_s())
        if self.error is not None:
            raise self.error
        return Found(self.answers.get(question), self.bytes)

    async def got(self, question: Question) -> Any:
        try:
            return self.registry.get(question)
        except NotFetchedError:
            await self.registry.fetch(question)
            return self.registry.get(question)

    async def settle(self, asked: int) -> None:
        """Until what is asked in the background is answered."""
        for _ in range(500):
            if len(self.asked) >= asked and not self.registry._running:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{len(self.asked)} questions were asked")


def schema(name: str = "Order") -> Any:
    return name


OUTAGE = RegistryError("http://registry:8081 cannot be reached: refused", is_outage=True)


async def test_200_who_wait_for_one_id_make_one_request() -> None:
    source = Source()
    source.answers[SchemaOf(FIRST)] = schema()
    source.delay_s = lambda: 0.05
    assert await asyncio.gather(*(source.got(SchemaOf(FIRST)) for _ in range(200))) == ["Order"] * 200
    assert len(source.asked) == 1


async def test_a_question_is_not_answered_before_it_was_fetched() -> None:
    source = Source()
    with pytest.raises(NotFetchedError) as error:
        source.registry.get(LATEST)
    assert error.value.question == LATEST
    assert source.asked == []


async def test_a_schema_is_kept_for_ever() -> None:
    source = Source()
    source.answers[SchemaOf(FIRST)] = schema()
    await source.got(SchemaOf(FIRST))
    source.now += 1e9
    assert str(source.registry.get(SchemaOf(FIRST))) == "Order"


async def test_an_answer_that_is_doubted_is_asked_for_again_but_not_all_the_time_and_not_in_an_outage() -> None:
    source = Source(subjects_ttl_s=300, missing_ttl_s=5)
    source.answers[LATEST] = (1, FIRST)
    assert await source.got(LATEST) == (1, FIRST)
    source.now += 0.5
    assert source.registry.get(LATEST, is_doubted=True) == (1, FIRST)
    source.now += 1
    with pytest.raises(NotFetchedError):
        source.registry.get(LATEST, is_doubted=True)
    source.answers[LATEST] = (2, FIRST)
    await source.registry.fetch(LATEST)
    assert source.registry.get(LATEST, is_doubted=True) == (2, FIRST)
    source.now += 10
    source.error = OUTAGE
    with pytest.raises(NotFetchedError):
        source.registry.get(LATEST, is_doubted=True)
    await source.registry.fetch(LATEST)
    assert source.registry.get(LATEST, is_doubted=True) == (2, FIRST)


async def test_schemas_are_kept_within_bytes_and_those_in_use_stay() -> None:
    source = Source(cache_bytes=1000)
    ids = [SchemaId("id", number) for number in range(1, 50)]
    source.answers = {SchemaOf(one): schema(str(one)) for one in ids}
    for one in ids:
        await source.got(SchemaOf(one))
        await source.got(SchemaOf(ids[0]))
    assert source.registry.cached == (10, 1000)
    assert source.asked.count(SchemaOf(ids[0])) == 1
    with pytest.raises(NotFetchedError):
        source.registry.get(SchemaOf(ids[5]))


async def test_a_schema_larger_than_the_cache_is_an_error_that_names_the_setting() -> None:
    source = Source(cache_bytes=1000)
    source.answers[SchemaOf(FIRST)], source.bytes = schema(), 1001
    with pytest.raises(RegistryError, match=r"main: id 1 has 1001 bytes.*raise cache_size"):
        await source.got(SchemaOf(FIRST))


@pytest.mark.parametrize("question", SUBJECTS, ids=str)
async def test_an_answer_about_subjects_holds_for_its_time(question: Question) -> None:
    source = Source(subjects_ttl_s=300)
    source.answers = {question: (1, FIRST) if question is LATEST else True}
    await source.got(question)
    source.now += 299
    source.registry.get(question)
    source.now += 2
    with pytest.raises(NotFetchedError):
        source.registry.get(question)


async def test_a_schema_that_is_not_there_is_asked_for_again_after_seconds() -> None:
    source = Source(missing_ttl_s=5)
    assert await source.got(SchemaOf(FIRST)) is None
    source.answers[SchemaOf(FIRST)] = schema()
    source.now += 4
    assert source.registry.get(SchemaOf(FIRST)) is None
    source.now += 2
    assert await source.got(SchemaOf(FIRST)) == "Order"


async def test_a_subject_that_was_deleted_is_gone_after_its_time() -> None:
    source = Source()
    source.answers[LATEST] = (1, FIRST)
    await source.got(LATEST)
    del source.answers[LATEST]
    source.now += 301
    assert await source.got(LATEST) is None
    source.now += 301
    source.error = OUTAGE
    with pytest.raises(RegistryError):  # nothing that was deleted is served in an outage
        await source.got(LATEST)


async def test_a_failure_is_answered_at_once_for_seconds_and_then_asked_again() -> None:
    source = Source(failure_ttl_s=5)
    source.error = RegistryError("http://registry:8081 responds with 500", is_outage=True)
    for _ in range(5):
        with pytest.raises(RegistryError, match="schema registry main: http://registry:8081 responds with 500"):
            await source.got(LATEST)
    assert len(source.asked) == 1
    source.now, source.error, source.answers[LATEST] = source.now + 6, None, (1, FIRST)
    assert await source.got(LATEST) == (1, FIRST)


async def test_who_has_just_missed_the_failure_does_not_ask_again() -> None:
    source = Source()
    source.error = OUTAGE
    for _ in range(3):
        await source.registry.fetch(LATEST)
    assert len(source.asked) == 1


async def test_a_minute_of_outage_with_a_warm_cache_is_not_noticed() -> None:
    source = Source(subjects_ttl_s=10, failure_ttl_s=5)
    source.answers = {SchemaOf(FIRST): schema(), LATEST: (1, FIRST)}
    await source.got(SchemaOf(FIRST))
    await source.got(LATEST)
    source.error = OUTAGE
    source.now += 11
    assert await source.got(LATEST) == (1, FIRST)  # the first one waits for a request
    for second in range(60):
        source.now += 1
        assert source.registry.get(LATEST) == (1, FIRST)  # and no other
        assert str(source.registry.get(SchemaOf(FIRST))) == "Order"
        await asyncio.sleep(0.002 if second % 5 else 0.02)
    assert 5 <= len(source.asked) <= 2 + 1 + 13  # it is asked again each 5 seconds
    assert source.registry.stats.stale == 61
    source.error, source.answers[LATEST], source.now = None, (2, FIRST), source.now + 6
    asked = len(source.asked)
    assert source.registry.get(LATEST) == (1, FIRST)
    await source.settle(asked + 1)
    assert source.registry.get(LATEST) == (2, FIRST)
    assert source.registry.stats.failure is None


async def test_once_it_is_down_what_is_not_known_fails_without_a_request() -> None:
    source = Source(failure_ttl_s=5)
    source.error = OUTAGE
    for number in range(100):
        with pytest.raises(RegistryError, match="main: http://registry:8081 cannot be reached: refused"):
            await source.got(SchemaOf(SchemaId("id", number)))
    assert len(source.asked) == module.OUTAGES
    assert source.registry.stats.failure is not None
    source.now, source.error = source.now + 6, None
    assert await source.got(SchemaOf(FIRST)) is None
    assert source.registry.stats.failure is None


async def test_an_answer_that_is_wrong_fails_for_that_question_alone() -> None:
    source = Source()
    source.error = RegistryError("id 1 cannot be used: it has no type")
    for number in range(10):
        with pytest.raises(RegistryError, match="cannot be used"):
            await source.got(SchemaOf(SchemaId("id", number)))
    assert len(source.asked) == 10
    assert source.registry.stats.failure is None
    source.error, source.answers[LATEST] = None, (1, FIRST)
    assert await source.got(LATEST) == (1, FIRST)


async def test_a_bug_of_the_client_is_an_error_and_no_thread_ends() -> None:
    source = Source()
    source.error = KeyError("secret")
    for number in range(10):
        with pytest.raises(RegistryError, match="KeyError in the client") as error:
            await source.got(SchemaOf(SchemaId("id", number)))
        assert "secret" not in str(error.value)


async def test_who_waits_too_long_gets_an_error_and_the_answer_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_WITHIN_S", 0.05)
    source = Source(failure_ttl_s=5)
    source.answers[LATEST], source.delay_s = (1, FIRST), lambda: 0.2
    with pytest.raises(RegistryError, match=r"main: no answer within 0\.05 s"):
        await source.got(LATEST)
    await source.settle(1)
    assert source.registry.get(LATEST) == (1, FIRST)


async def test_who_waits_may_be_cancelled_and_the_others_get_the_answer() -> None:
    source = Source()
    source.answers[LATEST], source.delay_s = (1, FIRST), lambda: 0.1
    first = asyncio.ensure_future(source.got(LATEST))
    second = asyncio.ensure_future(source.got(LATEST))
    await asyncio.sleep(0.02)
    first.cancel()
    assert await second == (1, FIRST)
    assert len(source.asked) == 1


def test_a_loop_that_has_ended_does_not_matter() -> None:
    """As of the command line, which runs one for each record."""
    source = Source()
    source.answers[LATEST], source.delay_s = (1, FIRST), lambda: 0.1

    async def ask() -> None:
        await asyncio.wait_for(source.registry.fetch(LATEST), 0.02)

    with pytest.raises(TimeoutError):
        asyncio.run(ask())
    assert asyncio.run(source.got(LATEST)) == (1, FIRST)


async def test_10_000_ids_that_do_not_exist_are_not_10_000_requests_and_others_get_their_schema() -> None:
    source = Source(unknown_ids_per_s=20)
    source.answers[SchemaOf(FIRST)] = schema()
    began = time.monotonic()
    source.registry._turns._allowance.clock = lambda: time.monotonic()  # time passes
    ids = iter(range(100, 10_100))

    async def flood() -> None:
        asker.set(7)
        while True:
            with_many = [source.registry.fetch(SchemaOf(SchemaId("id", next(ids)))) for _ in range(50)]
            await asyncio.gather(*with_many)

    flooding = asyncio.ensure_future(flood())
    await asyncio.sleep(0.5)
    asker.set(8)
    before = len(source.asked)
    assert await source.got(SchemaOf(FIRST)) == "Order"
    # Its turn is after one of the other's, and those that were under way, not after fifty.
    assert source.asked[before:].index(SchemaOf(FIRST)) < 10
    assert source.registry.held_back
    assert len(source.asked) <= 100 + 20 * (time.monotonic() - began) + 5
    flooding.cancel()


async def test_questions_about_known_ids_and_subjects_do_not_wait_for_unknown_ones() -> None:
    source = Source(unknown_ids_per_s=1)
    source.answers = {
        SchemaOf(FIRST): schema(),
        VersionsOf(FIRST): frozenset({("orders-value", 1)}),
        LATEST: (1, FIRST),
    }
    await source.got(SchemaOf(FIRST))
    flood = [asyncio.ensure_future(source.registry.fetch(SchemaOf(SchemaId("id", number)))) for number in range(9, 99)]
    await asyncio.sleep(0.05)
    async with asyncio.timeout(1):
        assert await source.got(VersionsOf(FIRST)) == {("orders-value", 1)}
        assert await source.got(LATEST) == (1, FIRST)
    for one in flood:
        one.cancel()


async def test_one_who_asks_too_much_at_once_gets_an_error() -> None:
    source = Source(unknown_ids_per_s=1)
    source.answers[SchemaOf(FIRST)] = schema()

    async def ask(number: int) -> Any:
        asker.set(7)
        return await source.got(SchemaOf(SchemaId("id", number)))

    results = [asyncio.ensure_future(ask(number)) for number in range(10, 800)]
    await asyncio.sleep(0.1)
    failed = [one.exception() for one in results if one.done() and one.exception() is not None]
    assert failed
    assert "too many questions about unknown ids" in str(failed[0])
    for one in results:
        one.cancel()


async def test_a_batch_of_a_hundred_schemas_is_not_too_much() -> None:
    """In key and value, with the subjects of each."""
    source = Source(unknown_ids_per_s=1)
    ids = [SchemaId("id", number) for number in range(1, 201)]
    source.answers.update({SchemaOf(one): schema() for one in ids})
    source.answers.update({VersionsOf(one): frozenset({("orders-value", 1)}) for one in ids})
    asker.set(7)
    assert len(await asyncio.gather(*map(source.got, source.answers))) == 400


async def test_after_an_outage_ids_that_exist_do_not_wait_for_those_that_could_not_be_asked_for() -> None:
    source = Source(unknown_ids_per_s=1, failure_ttl_s=0.01)
    ids = [SchemaId("id", number) for number in range(1, 100)]
    source.answers.update({SchemaOf(one): schema() for one in ids})
    source.error = OUTAGE
    await asyncio.gather(*(source.got(SchemaOf(one)) for one in ids), return_exceptions=True)
    source.error, source.now = None, source.now + 0.1
    async with asyncio.timeout(2):
        assert await asyncio.gather(*(source.got(SchemaOf(one)) for one in ids)) == [schema()] * len(ids)


async def test_ids_that_exist_are_not_held_back() -> None:
    source = Source(unknown_ids_per_s=1)
    ids = [SchemaId("id", number) for number in range(1, 300)]
    source.answers = {SchemaOf(one): schema(str(one)) for one in ids}
    async with asyncio.timeout(5):
        for one in ids:
            assert await source.got(SchemaOf(one)) == str(one)
    assert source.registry.held_back == 0


def test_a_registry_is_pickled_as_its_settings() -> None:
    registry = open_registry(RegistrySettings("main", ("http://registry:8081",), login=(("password", "hush"),)))
    assert pickle.loads(pickle.dumps(registry)) is registry  # here the same is open already
    assert "hush" not in f"{registry} {registry.settings}"


def test_equal_settings_share_a_registry_and_it_is_closed_with_its_last_user() -> None:
    settings = RegistrySettings("main", ("http://registry:8081",))
    first, again = open_registry(settings), Registries({"main": RegistrySettings("main", ("http://registry:8081",))})
    assert again["main"] is first
    assert open_registry(RegistrySettings("main", ("http://other:8081",))) is not first
    turns = first._turns
    del first
    assert turns._is_closed


async def test_where_too_many_wait_those_of_who_asks_most_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_sidecar.schemas.turns.MAX_WAITING", 20)
    source = Source(unknown_ids_per_s=1)

    async def ask(connection: int, number: int) -> Any:
        asker.set(connection)
        return await source.got(SchemaOf(SchemaId("id", number)))

    hostile = [asyncio.ensure_future(ask(7, number)) for number in range(100, 150)]
    await asyncio.sleep(0.05)
    honest = [asyncio.ensure_future(ask(connection, connection)) for connection in range(10, 15)]
    await asyncio.sleep(0.05)
    assert [one.done() and one.exception() is not None for one in honest] == [False] * 5
    dropped = [one for one in hostile if one.done() and one.exception() is not None]
    assert len(dropped) >= 20
    for one in [*hostile, *honest]:
        one.cancel()
