"""The table of limits says what the program has: each default of a setting, and each number that has no setting."""

from __future__ import annotations

import re

import pytest
from support.pages import page

from kafka_sidecar.large_messages import classify as large_classify
from kafka_sidecar.large_messages import settings as large_settings
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.exchanges import limits
from kafka_sidecar.proxy.features.dead_letters import keeper
from kafka_sidecar.proxy.features.large_messages import offset_fetch
from kafka_sidecar.proxy.features.producer_habits import clients, producer_habits
from kafka_sidecar.proxy.features.rate_limits import buckets, taps
from kafka_sidecar.proxy.features.validation import rejections, stats
from kafka_sidecar.proxy.nodes import topic_names
from kafka_sidecar.proxy.relay import exchange_driver, memory_budget, routes, session
from kafka_sidecar.proxy.runtime import listener, logins, sweep, threads, tls_listener
from kafka_sidecar.proxy.security.sasl import client_login
from kafka_sidecar.proxy.server import server
from kafka_sidecar.proxy.server.admin import http, otlp, pages
from kafka_sidecar.proxy.server.admin import page as admin_page
from kafka_sidecar.proxy.server.admin.live import live
from kafka_sidecar.proxy.telemetry import log_limiter
from kafka_sidecar.schemas import registry_client, turns

ROWS = {
    cells[0]: cells
    for line in page("docs/reference/limits.md").section("Settings and fixed limits").splitlines()
    if line.startswith("| ") and not line.startswith(("| what |", "| --- |"))
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}


def number(value: float) -> str:
    return f"{value:,g}" if value < 1_000_000 else f"{value:,.0f}"


def size(value: int) -> str:
    return f"{value >> 20} MiB" if value >= 1 << 20 and value % (1 << 20) == 0 else f"{value >> 10} KiB"


def seconds(value: float) -> str:
    return f"{value:g} s" if value % 60 or value <= 60 else f"{value / 60:g} min"


# By the beginnings of rows: how the default begins, from the program.
FIXED = {
    "Stuck threads": f"{threads.MAX_REPLACED}, and {threads.MAX_LIGHT_REPLACED} with small batches",
    f"Time in which a client reads less than {size(sweep.MIN_RATE)}/s": seconds(sweep.SLOW_S),
    "Bytes that all connections together buffer in one turn": size(memory_budget.MAX_TURN_BYTES),
    "Connections that a listener accepts": (
        f"{listener.ACCEPTED_PER_TURN}; with TLS {tls_listener.TlsListener.accepted_per_turn}"
    ),
    "Connections that a sweep ends": number(sweep.ENDED_PER_TURN),
    "Sides of connections whose end": number(server.ENDS_PER_TURN),
    "Time for which reads of more than": f"{exchange_driver.MAX_TURN_S * 1000:g} ms",
    "Size of a request before a login": f"{size(client_login.MAX_FRAME_BYTES)}, {client_login.MAX_FRAMES}",
    "Size of a SASL request": size(routes.MAX_LOGIN_BYTES),
    "Time before a rejection of a login": (
        f"{seconds(logins.REJECTED_PAUSE_S)}; twice as long for every {logins.FAILURES_A_STEP} rejections"
    ),
    "Time for responses after the client": seconds(sweep.FINISH_S),
    "Responses of the sidecar's own": size(session.MAX_QUEUED_LOCAL_BYTES),
    "Topic ids whose names": (
        f"{number(topic_names.MAX_PENDING)} that wait; {number(topic_names.MAX_REQUESTED)} a request; "
        f"{1 / topic_names.MIN_INTERVAL_S:g} requests a second; an unknown one again after "
        f"{seconds(topic_names.UNKNOWN_S)}"
    ),
    "Elements of a request or response": number(limits.MAX_INLINE_ELEMENTS),
    "Segments that a large message may have": number(large_settings.MAX_SEGMENTS),
    "Segments of messages of several": number(large_classify.MAX_IN_BATCH),
    "Stored offsets that are verified": number(offset_fetch.MAX_READS),
    "Series of rejected records": number(stats.MAX_SERIES),
    "Batches of idempotent producers": number(keeper.MAX_REMEMBERED),
    "What is owed to a rate limit": f"{buckets.MAX_DEBT_S:g} seconds' worth",
    "Batches of one request that a rate limit": f"some {number(taps.MAX_BATCHES)}",
    "Clients that [`/producers`]": number(clients.MAX_CLIENTS),
    "Series of producers' habits": number(producer_habits.MAX_SERIES),
    "Readers of `/live`": number(live.MAX_VIEWERS),
    "Questions about ids": f"{number(turns.MAX_WAITING)}, {turns.MAX_WAITING_OF_ONE} of one connection",
    "References of a schema": f"{registry_client.MAX_REFERENCES}, {registry_client.MAX_REFERENCE_DEPTH}",
    "Log lines about rejected records": f"{log_limiter.MAX_LINES} in {seconds(stats.LOG_INTERVAL_S)}",
    "Rejected batches that are stored": f"{number(rejections.MAX_RECENT)}, {rejections.MAX_ERRORS}",
    "Connections that `/connections` lists": number(pages.MAX_CONNECTIONS_LISTED),
    "Spans that wait": number(otlp.MAX_SPANS),
    "Connections of the admin port": f"{http.MAX_CONNECTIONS}; {http.MAX_PER_ADDRESS} of one address",
    "Time for the first request of an admin": seconds(http.FIRST_REQUEST_S),
    "Time for a further one": f"{http.TIME_LIMIT_S:g} s",
    "Renderings of `/metrics`": f"{1 / admin_page.RENDER_INTERVAL_S:g} a second",
}


@pytest.mark.parametrize("begins", FIXED)
def test_a_limit_without_a_setting_is_the_one_of_the_program(begins: str) -> None:
    (cells,) = (cells for what, cells in ROWS.items() if what.startswith(begins))
    assert "fixed" in cells[2]
    assert re.match(rf"{re.escape(FIXED[begins])}(?![\d.,]*\d)", cells[1])


def defaults() -> dict[str, object]:
    """Of each row whose limit is one setting of the file and is a number there."""
    config = Config(bootstrap_servers=["kafka:9092"])
    found: dict[str, object] = {}
    for what, cells in ROWS.items():
        named = re.findall(r"\[`([a-z_.]+)`\]", cells[2])
        if len(named) != 1 or "." not in named[0] or cells[1].startswith("[see below]"):
            continue
        value: object = config
        for part in named[0].split("."):
            value = getattr(value, part)
        if isinstance(value, int | float) and not isinstance(value, bool):
            found[what] = value
    return found


DEFAULTS = defaults()


def test_most_settings_of_the_table_have_a_number() -> None:
    assert len(DEFAULTS) > 12


@pytest.mark.parametrize("what", DEFAULTS)
def test_a_limit_with_a_setting_has_its_default(what: str) -> None:
    value = DEFAULTS[what]
    assert isinstance(value, int | float)
    says = ROWS[what][1]
    written = {number(value), seconds(value), *([size(value)] if isinstance(value, int) else [])}
    assert any(re.match(rf"{re.escape(one)}(?!\d)", says) for one in written), (value, says)
