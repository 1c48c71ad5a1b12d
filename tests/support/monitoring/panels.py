"""The panels of the dashboard, in their order: every metric of the sidecar is on one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from support.monitoring.queries import WINDOW, chosen, own, quantile, rate, total

PRODUCE, ENFORCE, SHADOW = 'api_key="Produce"', 'mode="enforce"', 'mode="shadow"'
CPU = f"rate(process_cpu_seconds_total[{WINDOW}])"
# Ends of connections that the sidecar decides: docs/reference/limits.md.
LIMITS = "too_many_.+|idle|frame_timeout|frame_too_large|duplicate_partition|slow_reader|unreadable_.+"


@dataclass(frozen=True, slots=True)
class Query:
    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    unit: str
    """One of Grafana's units."""
    queries: tuple[Query, ...]
    about: str = ""
    kind: str = "timeseries"
    width: int = 8
    """Of 24."""


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    panels: tuple[Panel, ...]


def lines(title: str, unit: str, *queries: tuple[str, str], about: str = "", width: int = 8) -> Panel:
    """A panel of lines: each query with its legend."""
    return Panel(title, unit, tuple(Query(*query) for query in queries), about, width=width)


def number(title: str, unit: str, expression: str, about: str = "") -> Panel:
    """A panel with one number."""
    return Panel(title, unit, (Query(expression),), about, "stat", 3)


OVERVIEW = Section("Overview", (
    number("Sidecars", "short", f"count({chosen('build_info')})"),
    number("Open connections", "short", total("active_connections")),
    number("Requests", "reqps", rate("client_to_proxy_request_total")),
    number("Bytes of requests", "Bps", rate("client_to_proxy_request_size_bytes_total")),
    number("Bytes of responses", "Bps", rate("proxy_to_client_response_size_bytes_total")),
    number("Produce, p99", "s", quantile(0.99, "request_latency_seconds", only=PRODUCE)),
    number("Rejected records", "cps", f"{rate('rejected_records_total', only=ENFORCE)} or vector(0)"),
    number("CPU", "short", f"sum({own(CPU)})", "Cores, of all chosen sidecars."),
))  # fmt: skip

TRAFFIC = Section("Traffic", (
    lines("Requests by API", "reqps", (rate("client_to_proxy_request_total", "api_key"), "{{api_key}}")),
    lines("Bytes at the four points", "Bps",
        (rate("client_to_proxy_request_size_bytes_total"), "requests, from clients"),
        (rate("proxy_to_broker_request_size_bytes_total"), "requests, to brokers"),
        (rate("broker_to_proxy_response_size_bytes_total"), "responses, from brokers"),
        (rate("proxy_to_client_response_size_bytes_total"), "responses, to clients"),
        about="The difference on one side is what the sidecar adds, removes or answers itself."),
    lines("Responses by API", "reqps", (rate("proxy_to_client_response_total", "api_key"), "{{api_key}}")),
    lines("Requests that the sidecar answers", "reqps",
        (f"{rate('client_to_proxy_request_total', 'api_key')} - {rate('proxy_to_broker_request_total', 'api_key')}",
         "{{api_key}}"),
        about="Fully rejected Produce requests, and ApiVersions of newer clients."),
    lines("Open connections", "short", (total("active_connections", "listener"), "{{listener}}")),
    lines("Connections that begin and end", "cps",
        (rate("connections_total", "listener"), "opened: {{listener}}"),
        (rate("disconnects_total", "cause"), "ended: {{cause}}")),
))  # fmt: skip

LATENCY = Section("Latency and load", (
    lines("Produce", "s",
        (quantile(0.5, "request_latency_seconds", only=PRODUCE), "p50"),
        (quantile(0.99, "request_latency_seconds", only=PRODUCE), "p99"),
        about="From a request's first bytes to its response's first bytes; the broker's time is included."),
    lines("All APIs, p99", "s", (quantile(0.99, "request_latency_seconds", "api_key"), "{{api_key}}"),
        about="Fetch waits for data and JoinGroup for the group: their latency is normal."),
    Panel("Produce, distribution", "s",
        (Query(f"sum by (le) (increase({chosen('request_latency_seconds_bucket', PRODUCE)}[{WINDOW}]))",
               "{{le}}"),), kind="heatmap"),
    lines("Time that rewriting adds", "s",
        (f"{rate('buffered_response_seconds_total', 'api_key')} / {rate('buffered_responses_total', 'api_key')}",
         "{{api_key}}, response"),
        (f"{rate('buffered_request_seconds_total', 'api_key')} / {rate('buffered_requests_total', 'api_key')}",
         "{{api_key}}, request"),
        about="Responses that name brokers, and what policies, interceptors and rules look into, are buffered whole; "
              "all else is forwarded as it arrives."),
    lines("Sidecar's own share, p99", "s", (quantile(0.99, "held_seconds", "api_key, side"), "{{api_key}}, {{side}}"),
        about="Of requests and responses that were held to be looked into; the rest of the latency is the broker's."),
    lines("Delay of the event loop, p99", "s",
        (quantile(0.99, "event_loop_delay_seconds", "instance"), "{{instance}}"),
        about="One thread serves all connections of a sidecar: this delay is every connection's."),
    lines("Stops of the event loop", "cps", (rate("event_loop_stops_total", "plug_in"), "{{plug_in}}"),
        about="Each was a second or longer; the log has the stack."),
    lines("Workers", "short",
        (total("workers", "instance"), "configured, {{instance}}"),
        (total("workers_serving", "instance"), "serving, {{instance}}"),
        (rate("worker_restarts_total", "instance, worker"), "restarts a second: {{worker}}, {{instance}}"),
        about="Only with more than one of the workers."),
    lines("CPU", "short", (own(CPU), "{{instance}}"), about="Cores."),
    lines("Resident memory", "bytes", (own("process_resident_memory_bytes"), "{{instance}}")),
))  # fmt: skip

REJECTIONS = Section("Rejections", (
    lines("Rejected records by policy and reason", "cps",
        (rate("rejected_records_total", "policy, reason", ENFORCE), "{{policy}}: {{reason}}")),
    lines("Rejected records by topic, the first ten", "cps",
        (f"topk(10, {rate('rejected_records_total', 'topic', ENFORCE)})", "{{topic}}")),
    lines("Records that mode shadow would reject", "cps",
        (rate("rejected_records_total", "policy, reason", SHADOW), "{{policy}}: {{reason}}"),
        about="They were allowed."),
    lines("Fetched records that policies reject", "cps",
        (rate("rejected_fetched_records_total", "policy, action"), "{{policy}}: {{action}}"),
        about="Each time that a consumer fetches them: hidden, marked, or in `shadow` delivered as they are."),
    lines("Fetched batches that are validated", "cps",
        (rate("validated_fetched_batches_total", "api_key, result"), "{{api_key}}: {{result}}"),
        about="`withheld`: a policy cannot decide, and the consumer asks again."),
    lines("Share of validated records that is rejected", "percentunit",
        (f"{rate('rejected_records_total', only=ENFORCE)} / {rate('validated_records_total')}", "rejected")),
    lines("Validated", "cps",
        (rate("validated_records_total"), "records"),
        (rate("validated_batches_total", "depth"), "batches: {{depth}}"),
        about="`header`: without decompression."),
    lines("Duration of a policy for a batch, p99", "s",
        (quantile(0.99, "policy_call_seconds", "policy"), "{{policy}}")),
    lines("Policies that fail", "cps",
        (rate("policy_failures_total", "policy, mode"), "{{policy}} ({{mode}})"),
        (rate("omitted_record_errors_total"), "record errors omitted from responses"),
        about="The policy itself has raised, or a fetch has failed."),
))  # fmt: skip

PRODUCERS = Section("Producers", (
    lines("Batches that are not sent as required", "cps",
        (rate("producer_violations_total", "habit, mode"), "{{habit}} ({{mode}})"),
        about="Only where producers: requires something. Mode shadow: they were allowed."),
    lines("The same by topic, the first ten", "cps",
        (f"topk(10, {rate('producer_violations_total', 'topic')})", "{{topic}}")),
    lines("Batches by compression", "cps", (rate("producer_batches_total", "compression"), "{{compression}}"),
        about="In topics of producers:."),
    lines("Batches by acks", "cps", (rate("producer_batches_total", "acks"), "acks={{acks}}"), width=12),
    lines("Clients that are no longer listed", "cps",
        (rate("forgotten_producers_total", "instance"), "{{instance}}"), width=12),
))  # fmt: skip

DEAD_LETTERS = Section("Dead letters", (
    lines("Letters", "cps",
        (rate("dead_letters_queued_total", "topic"), "queued: {{topic}}"),
        (rate("dead_letters_sent_total", "topic"), "sent: {{topic}}"),
        (rate("dead_letters_send_failures_total"), "attempts that failed")),
    lines("Rejected records that are no letters", "cps",
        (rate("dead_letters_dropped_total", "reason"), "{{reason}}"),
        (rate("dead_letters_repeated_total"), "sent again, they have their letters"),
        about="`replayed` is no loss."),
    lines("Letters that wait", "short",
        (total("dead_letters_waiting", "instance"), "{{instance}}"),
        (total("dead_letters_held", "instance"), "for a partition without a leader, {{instance}}")),
    lines("Bytes that wait", "bytes",
        (total("dead_letters_buffered_bytes", "instance"), "in memory, {{instance}}"),
        (total("dead_letters_spooled_bytes", "instance"), "on disk, {{instance}}")),
    lines("Age of the oldest letter", "s", (chosen("dead_letters_oldest_seconds"), "{{instance}}"), width=12),
    lines("Dead letter topics and partitions that cannot be used", "short",
        (chosen("dead_letters_missing_topics"), "topics, {{instance}}"),
        (chosen("dead_letters_held_partitions"), "partitions, {{instance}}"), width=12),
))  # fmt: skip

INTERCEPTORS = Section("Interceptors", (
    lines("Batches", "cps", (rate("intercepted_batches_total", "api_key, result"), "{{api_key}}: {{result}}")),
    lines("Committed offsets", "cps", (rate("intercepted_offsets_total", "result"), "{{result}}")),
    lines("Calls", "cps",
        (rate("interceptor_call_seconds_count", "interceptor, hook"), "{{interceptor}}.{{hook}}")),
    lines("Duration of a call, p99", "s",
        (quantile(0.99, "interceptor_call_seconds", "interceptor, hook"), "{{interceptor}}.{{hook}}")),
    lines("Failures and calls over budget", "cps",
        (rate("interceptor_failures_total", "interceptor, hook"), "failed: {{interceptor}}.{{hook}}"),
        (rate("interceptor_over_budget_total", "interceptor, hook"), "over budget: {{interceptor}}.{{hook}}")),
    lines("Disabled", "short",
        (total("interceptor_disabled", "interceptor, instance"), "{{interceptor}}, {{instance}}"),
        about="1 while an interceptor is disabled after too many consecutive failures."),
))  # fmt: skip

REGISTRIES = Section("Schema registries", (
    lines("Requests", "reqps",
        (rate("schema_registry_requests_total", "registry, outcome"), "{{registry}}, {{outcome}}")),
    lines("Response, p99", "s", (quantile(0.99, "schema_registry_request_seconds", "registry"), "{{registry}}")),
    lines("Reachable", "short",
        (total("schema_registry_reachable", "registry, instance"), "{{registry}}, {{instance}}"),
        about="0 while it does not answer."),
    lines("Without an answer", "cps",
        (rate("schema_registry_failures_total", "registry"), "{{registry}}: none"),
        (rate("schema_registry_stale_answers_total", "registry"), "{{registry}}: an old one"),
        (rate("schema_registry_held_back_total", "registry"), "{{registry}}: held back")),
    lines("Schemas in the cache", "short",
        (total("schema_registry_cached_schemas", "registry, instance"), "{{registry}}, {{instance}}")),
    lines("Bytes in the cache", "bytes",
        (total("schema_registry_cached_bytes", "registry, instance"), "{{registry}}, {{instance}}")),
))  # fmt: skip

BROKERS = Section("Brokers", (
    lines("Brokers with a listener", "short", (total("broker_listeners", "instance"), "{{instance}}")),
    lines("Cluster reached", "bool", (chosen("cluster_reached"), "{{instance}}"),
        about="1 once a broker has responded; it does not go back to 0."),
    lines("Failed attempts to connect", "cps", (rate("broker_connect_failures_total", "cause"), "{{cause}}")),
    lines("Requests to brokers", "reqps", (rate("proxy_to_broker_request_total", "api_key"), "{{api_key}}"), width=12),
    lines("Responses from brokers", "reqps",
        (rate("broker_to_proxy_response_total", "api_key"), "{{api_key}}"), width=12),
))  # fmt: skip

LIMIT_PANELS = Section("Limits", (
    lines("Connections ended by a limit", "cps",
        (rate("disconnects_total", "cause", f'cause=~"{LIMITS}"'), "{{cause}}")),
    lines("Bytes that are buffered", "bytes", (total("buffered_bytes", "instance"), "{{instance}}"),
        about="Requests and responses that must be whole; limited by connections.max_buffered."),
    lines("Connections paused by that limit", "cps", (rate("buffering_pauses_total", "instance"), "{{instance}}")),
    lines("Time limits reached", "cps",
        (rate("time_limits_total", "stage, waited_for"), "{{stage}}, waited for {{waited_for}}")),
    lines("Threads", "short",
        (total("threads"), "started"), (total("threads_busy"), "busy"),
        (total("threads_stuck"), "stuck"), (total("threads_queue"), "batches that wait")),
    lines("Wait for a thread, p99", "s", (quantile(0.99, "thread_wait_seconds", "instance"), "{{instance}}")),
    lines("Open files", "percentunit", (own("process_open_fds / process_max_fds"), "{{instance}}"),
        about="Share of the limit."),
    lines("Denied to clients", "cps", (rate("denials_total", "api_key, operation, resource_type"),
        "{{api_key}}: {{operation}}, {{resource_type}}")),
    lines("Topics that violate a guard", "cps", (rate("topic_guard_violations_total", "api_key, rule, mode"),
        "{{api_key}}: {{rule}}, {{mode}}")),
    lines("Bytes that rate limits count", "Bps", (rate("rate_limit_bytes_total", "limit, direction"),
        "{{limit}}: {{direction}}")),
    lines("Clients that rate limits make wait", "short",
        (rate("rate_limit_throttled_seconds_total", "limit"), "{{limit}}"),
        (total("rate_limit_muted_connections"), "connections that are not read now"),
        about="On average so many clients waited, by limit."),
    lines("Over a rate limit", "cps",
        (rate("rate_limit_throttled_total", "limit"), "{{limit}}: throttled"),
        (rate("rate_limit_rejected_batches_total", "limit"), "{{limit}}: rejected")),
    lines("Buckets of rate limits", "short", (total("rate_limit_buckets", "instance"), "{{instance}}"),
        about="Those that are not full. A limit has one for each combination of what it is per."),
    lines("Requests that the admin port refused", "cps",
        (rate("admin_requests_refused_total", "reason, instance"), "{{reason}}, {{instance}}")),
    lines("Taps", "short",
        (total("taps_open", "instance"), "{{instance}}: open"),
        (rate("taps_opened_total", "instance"), "{{instance}}: opened a second"),
        about="An operator reads what passes, with kafka-sidecar tap; the log line tap opened says from where."),
    lines("Lines of taps", "cps",
        (rate("tap_lines_total"), "sent"), (rate("tap_lost_lines_total", "reason"), "lost: {{reason}}")),
    lines("Log lines that were suppressed", "cps", (rate("suppressed_log_lines_total", "instance"), "{{instance}}")),
))  # fmt: skip

AUDIT = Section("Audit", (
    lines("Events", "cps",
        (rate("audit_events_sent_total"), "sent"),
        (rate("audit_events_discarded_total", "reason"), "discarded: {{reason}}"),
        (rate("audit_send_failures_total"), "attempts that failed")),
    lines("Events that wait", "short", (total("audit_buffered_events", "instance"), "{{instance}}")),
    lines("Bytes that wait", "bytes", (total("audit_buffered_bytes", "instance"), "{{instance}}")),
    lines("Not counted", "cps",
        (rate("audit_uncounted_total", "api_key, reason"), "{{api_key}}: {{reason}}"),
        (rate("audit_unnamed_batches_total"), "batches of unknown topic ids"), width=12),
    lines("Intervals", "cps", (rate("audit_intervals_total", "instance"), "{{instance}}"), width=12),
    lines("Access events", "cps",
        (rate("access_events_sent_total"), "sent"),
        (rate("access_events_discarded_total", "reason"), "discarded: {{reason}}"),
        (rate("access_send_failures_total"), "attempts that failed"), width=12),
    lines("Bytes of access events that wait", "bytes", (total("access_buffered_bytes", "instance"), "{{instance}}"),
        width=12),
))  # fmt: skip

CONFIGURATION = Section("Configuration", (
    lines("Last reload", "bool",
        (chosen("config_last_reload_successful"), "succeeded, {{instance}}"),
        (chosen("config_restart_required"), "restart required, {{instance}}")),
    lines("Age of the configuration", "s",
        (f"time() - {chosen('config_last_reload_success_timestamp_seconds')}", "{{instance}}")),
    lines("Topic configs", "short",
        (total("topic_configs_entries", "instance"), "topics, {{instance}}"),
        (total("topic_configs_trouble", "reason, instance"), "{{reason}}, {{instance}}"),
        (total("topic_config_changes_total", "config, instance"), "changes of {{config}}, {{instance}}"),
        (total("topic_config_refusals_total", "reason, instance"), "refused: {{reason}}, {{instance}}"),
        (total("topic_configs_unreadable_records_total", "instance"), "unreadable records, {{instance}}")),
    Panel("Versions", "short", (Query(f"sum by (version, build, python) ({chosen('build_info')})"),),
        kind="table", width=24, about="A build other than `compiled` needs ten to thirty times the CPU."),
))  # fmt: skip

SECURITY = Section("TLS and SASL", (
    lines("Handshakes", "cps", (rate("tls_handshakes_total", "side"), "with {{side}}s")),
    lines("Failed handshakes", "cps", (rate("tls_handshake_failures_total", "side, reason"), "{{side}}: {{reason}}")),
    lines("Duration of a handshake, p99", "s", (quantile(0.99, "tls_handshake_seconds", "side"), "with {{side}}s")),
    lines("Time until a certificate expires", "s",
        (chosen("tls_certificate_expiry_seconds"), "{{side}}, {{setting}}, {{instance}}"), width=12),
    lines("Last reload of certificates succeeded", "bool",
        (chosen("tls_last_reload_successful"), "{{side}}, {{instance}}"), width=12),
    lines("Last reload of users and token keys succeeded", "bool",
        (chosen("client_logins_last_reload_successful"), "{{source}}, {{instance}}"), width=12),
    lines("Logins", "cps",
        (rate("client_logins_total", "result"), "of clients: {{result}}"),
        (rate("broker_logins_total", "result"), "at brokers: {{result}}"), width=12),
))  # fmt: skip

LARGE_MESSAGES = Section("Large messages", (
    lines("Large messages that were sent", "cps",
        (rate("large_messages_split_total", "result"), "{{result}}"),
        (rate("large_messages_objects_total"), "stored as objects"),
        about="`split`: stored in slices. Every other result of that metric is a batch that was rejected."),
    lines("Slices", "cps",
        (rate("large_messages_slices_total"), "stored"),
        (rate("large_messages_reused_slices_total"), "stored before, by an attempt that was given up"),
        (rate("large_messages_orphans_total"), "of batches that were then not stored")),
    lines("Bytes of slices and objects", "Bps",
        (rate("large_messages_slice_bytes_total"), "slices"),
        (rate("large_messages_object_bytes_total"), "objects")),
    lines("Committed offsets", "cps", (rate("large_messages_offsets_total", "stored"), "{{stored}}"),
        about="`wrapped`: with what li-apache-kafka-clients need to continue there."),
    lines("Large messages that consumers came to", "cps",
        (rate("large_messages_assembled_total"), "delivered"),
        (rate("large_messages_dropped_total", "reason"), "not delivered: {{reason}}"),
        (rate("large_messages_withheld_total", "reason"), "responses that end before what may be a slice: {{reason}}")),
    lines("Bytes of large messages", "Bps",
        (rate("large_messages_assembled_bytes_total"), "delivered"),
        (rate("large_messages_read_bytes_total"), "read back for them")),
    lines("Segments", "cps",
        (rate("large_messages_hidden_total"), "hidden from consumers"),
        (rate("large_messages_cache_hits_total"), "found in the cache")),
    lines("Reads for segments", "reqps",
        (rate("large_messages_reads_total"), "requests to brokers"),
        (rate("large_messages_look_backs_total"), "searches before a message"),
        about="Segments that were neither in the consumer's own response nor in the cache."),
    lines("Offsets and deletions", "cps",
        (rate("large_messages_refused_offsets_total", "reason"), "stored offsets not taken for li's: {{reason}}"),
        (rate("large_messages_deletions_total", "result"), "partitions of DeleteRecords: {{result}}")),
    lines("Bytes in the cache", "bytes", (total("large_messages_cache_bytes", "instance"), "{{instance}}")),
))  # fmt: skip

SECTIONS = (
    OVERVIEW, TRAFFIC, LATENCY, REJECTIONS, DEAD_LETTERS, PRODUCERS, REGISTRIES, INTERCEPTORS, LARGE_MESSAGES, BROKERS,
    LIMIT_PANELS, SECURITY, AUDIT, CONFIGURATION,
)  # fmt: skip


def all_panels() -> Iterator[tuple[Section, Panel]]:
    for section in SECTIONS:
        for panel in section.panels:
            yield section, panel
