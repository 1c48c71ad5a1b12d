"""When each alert is and is not expected: the file for `promtool test rules`, written by `make dashboards`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from support.monitoring.alerts import ALERTS, RUNBOOK

POD = {"namespace": "shop", "pod": "orders-0", "instance": "10.0.0.1:9190", "job": "kafka-sidecar"}
HOST = {"instance": "gateway:9190", "job": "kafka-sidecar"}  # without Kubernetes
MINUTES = 90


@dataclass(frozen=True, slots=True)
class Case:
    alert: str
    series: dict[str, str]
    """Metric and its own labels -> a value for each minute, as promtool writes them."""
    quiet: str
    fires: str
    """After how long it is, and is not yet, expected."""
    summary: str
    labels: dict[str, str]
    target: dict[str, str]
    keeps_job: bool = False
    """Whether the alert has all labels of the target: those of gauges, which are not summed."""


def case(
    alert: str, series: dict[str, str], quiet: str, fires: str, summary: str, *,
    target: dict[str, str] = POD, job: bool = False, **labels: str,
) -> Case:  # fmt: skip
    return Case(alert, series, quiet, fires, summary, labels, target, job)


RISES, RESTS = f"0+60x{MINUTES}", f"7x{MINUTES}"
LATE = f"0x30 0+10x{MINUTES}"  # nothing at first, then ten a minute
FIRST = f"_x30 1x{MINUTES}"  # a series that begins with its first event

CASES = (
    case("CannotReachBrokers", {"broker_connect_failures_total{cause='connect_timeout'}": RISES}, "9m", "15m",
        "orders-0 cannot connect to brokers"),
    case("CannotReachBrokers", {"broker_connect_failures_total{cause='connect_timeout'}": RISES}, "9m", "15m",
        "gateway:9190 cannot connect to brokers", target=HOST),
    case("HasNoCluster", {"cluster_reached": f"0x10 1x{MINUTES}"}, "4m", "8m",
        "orders-0 has not reached any broker since it was started", job=True),
    case("ClosesConnections",
        {"disconnects_total{cause='not_kafka'}": RISES, "disconnects_total{cause='client_closed'}": RISES}, "9m", "15m",
        "orders-0 closes connections of clients: not_kafka", cause="not_kafka"),
    case("LacksCpu",
        {"event_loop_delay_seconds_bucket{le='0.065536'}": f"0+1x{MINUTES}",
         "event_loop_delay_seconds_bucket{le='+Inf'}": f"0+60x{MINUTES}"}, "9m", "15m",
        "The event loop of orders-0 is late by more than 50 ms"),
    case("BuffersAreFull", {"buffering_pauses_total": LATE}, "39m", "45m",
        "Connections of orders-0 wait for memory: connections.max_buffered is reached"),
    case("RunsOutOfFiles",
        {"=process_open_fds": f"10x10 980x{MINUTES}", "=process_max_fds": f"1000x{MINUTES}",
         "build_info{build='compiled'}": f"1x{MINUTES}"}, "14m", "20m",
        "orders-0 has opened 98% of the files that it may open", job=True),
    case("RejectsRecords",
        {"rejected_records_total{topic='orders',policy='json',reason='not_json',mode='enforce'}": RISES,
         "rejected_records_total{topic='carts',policy='json',reason='not_json',mode='shadow'}": RISES}, "9m", "15m",
        "Records for orders are rejected by json: not_json",
        target={}, topic="orders", policy="json", reason="not_json"),
    case("HidesRecords",
        {"rejected_fetched_records_total{topic='orders',policy='json',reason='not_json',action='hide'}": RISES,
         "rejected_fetched_records_total{topic='carts',policy='json',reason='not_json',action='mark'}": RISES},
        "9m", "15m", "Records of orders are hidden from consumers by json: not_json",
        target={}, topic="orders", policy="json", reason="not_json"),
    case("WithholdsRecords",
        {"validated_fetched_batches_total{api_key='Fetch',result='withheld'}": RISES,
         "validated_fetched_batches_total{api_key='Fetch',result='unchanged'}": RISES},
        "4m", "10m", "Consumers of orders-0 stand still: a policy cannot decide (withheld)", result="withheld"),
    case("LosesDeadLetters", {"dead_letters_dropped_total{reason='rate'}": FIRST,
        "dead_letters_dropped_total{reason='replayed'}": FIRST}, "29m", "32m",
        "Rejected records of orders-0 did not become dead letters: rate", reason="rate"),
    case("DeadLettersWait", {"dead_letters_oldest_seconds": f"0x10 400x{MINUTES}"}, "14m", "20m",
        "orders-0 cannot send dead letters; it keeps them", job=True),
    case("LacksDeadLetterTopic", {"dead_letters_missing_topics": f"0x10 1x{MINUTES}"}, "14m", "20m",
        "orders-0 drops rejected records: a dead letter topic cannot be used", job=True),
    case("PolicyFails", {"policy_failures_total{policy='geo',mode='enforce'}": FIRST}, "29m", "32m",
        "Policy geo of orders-0 fails", policy="geo"),
    case("PolicyFails", {"policy_failures_total{policy='geo',mode='enforce'}": LATE}, "29m", "32m",
        "Policy geo of orders-0 fails", policy="geo"),
    case("SchemaRegistryFails", {"schema_registry_reachable{registry='main'}": f"1x10 0x{MINUTES}"}, "14m", "20m",
        "orders-0 gets no answer from the schema registry main; it uses the schemas that it knows", job=True,
        registry="main"),
    case("RecordsLackSchemas", {"schema_registry_failures_total{registry='main'}": RISES}, "4m", "10m",
        "orders-0 cannot tell whether records are valid: main does not answer", registry="main"),
    case("InterceptorFails", {"interceptor_failures_total{interceptor='tenant',hook='on_send'}": RISES}, "9m", "15m",
        "Interceptor tenant of orders-0 fails", interceptor="tenant"),
    case("InterceptorDisabled", {"interceptor_disabled{interceptor='tenant'}": f"0x10 1x{MINUTES}"}, "9m", "12m",
        "Interceptor tenant of orders-0 is disabled", job=True, interceptor="tenant"),
    case("LargeMessagesRejected",
        {"large_messages_split_total{result='too_large'}": RISES, "large_messages_split_total{result='split'}": RISES},
        "9m", "15m", "orders-0 rejects batches with large messages: too_large", result="too_large"),
    case("LargeMessagesLost", {"large_messages_dropped_total{reason='missing'}": FIRST}, "29m", "32m",
        "Consumers of orders-0 do not get a large message: missing", reason="missing"),
    case("ThreadsBusy",
        {"thread_wait_seconds_bucket{le='1.048576'}": RESTS, "thread_wait_seconds_bucket{le='2.097152'}": RISES,
         "thread_wait_seconds_bucket{le='+Inf'}": RISES}, "9m", "15m",
        "Batches wait for a thread of orders-0 for more than a second"),
    case("TimeLimitReached", {"time_limits_total{stage='validation',waited_for='fetch'}": FIRST}, "29m", "32m",
        "A time limit of validation was reached in orders-0: fetch", stage="validation", waited_for="fetch"),
    case("ThreadStuck", {"threads_stuck": f"0x10 1x{MINUTES}"}, "11m", "15m",
        "A policy or an interceptor of orders-0 does not return", job=True),
    case("EventLoopBlocked", {"event_loop_stops_total{plug_in='policy own'}": FIRST}, "29m", "32m",
        "All connections of orders-0 have waited for a second or more: policy own", plug_in="policy own"),
    case("BrokerLoginFails", {"broker_logins_total{result='failure'}": FIRST}, "29m", "32m",
        "The brokers reject logins of orders-0", result="failure"),
    case("TopicConfigsLost", {"topic_configs_trouble{reason='lost'}": f"0x10 1x{MINUTES}"}, "9m", "12m",
        "orders-0 has lost the topic that stores topic configs; the last known ones apply", job=True, reason="lost"),
    case("TopicConfigsUnreadable", {"topic_configs_trouble{reason='unreadable'}": f"1x{MINUTES}"}, "9m", "15m",
        "orders-0 cannot read the topic that stores topic configs", job=True, reason="unreadable"),
    case("Denials", {"denials_total{api_key='Produce',operation='write',resource_type='topic'}": FIRST}, "29m", "32m",
        "orders-0 denies clients to write a topic (Produce): its log lines `denied` say who and which",
        api_key="Produce", operation="write", resource_type="topic"),
    case("TopicGuards", {"topic_guard_violations_total{api_key='CreateTopics',rule='naming',mode='enforce'}": FIRST},
        "29m", "32m",
        "orders-0 rejects requests about topics (CreateTopics, naming): its log lines `topic guard` say which",
        api_key="CreateTopics", rule="naming"),
    case("ThrottlesClients", {"rate_limit_throttled_seconds_total{limit='shop'}": RISES}, "29m", "36m",
        "orders-0 makes clients wait, together more than half of the time: rate limit shop", limit="shop"),
    case("RateLimitRejects", {"rate_limit_rejected_batches_total{limit='hard'}": RISES}, "9m", "15m",
        "orders-0 rejects batches over the rate limit hard", limit="hard"),
    case("ProducersRejected", {"producer_violations_total{topic='orders',habit='acks',mode='enforce'}": RISES},
        "9m", "15m", "orders-0 rejects producers that do not send as required: acks", habit="acks"),
    case("TapStaysOpen", {"taps_open": f"0x10 1x{MINUTES}"}, "69m", "72m",
        "A tap of orders-0 has been open for an hour: it may have been forgotten", job=True),
    case("TapLosesLines",
        {"tap_lost_lines_total{reason='slow_reader'}": RISES, "tap_lost_lines_total{reason='rate'}": RESTS},
        "29m", "36m", "Taps of orders-0 have lost lines for half an hour: slow_reader", reason="slow_reader"),
    case("AuditIncomplete", {"audit_events_discarded_total{reason='buffer_full'}": LATE}, "29m", "35m",
        "What orders-0 has counted is partly lost: the audit of the last hour is unknown"),
    case("AuditIncomplete", {"audit_uncounted_total{api_key='Fetch',reason='unreadable'}": FIRST}, "29m", "35m",
        "What orders-0 has counted is partly lost: the audit of the last hour is unknown"),
    case("AuditNotSent", {"audit_send_failures_total": RISES, "audit_events_sent_total": RESTS}, "9m", "15m",
        "orders-0 cannot send audit events; it buffers them", job=True),
    case("CertificateExpires",
        {"tls_certificate_expiry_seconds{side='client',setting='certificate'}": f"605400-60x{MINUTES}"}, "14m", "31m",
        "A certificate of orders-0 expires in 6d 23h 39m 0s: client, certificate",
        job=True, side="client", setting="certificate"),
    case("CertificatesRejected", {"tls_last_reload_successful{side='broker'}": f"1x10 0x{MINUTES}"}, "11m", "15m",
        "orders-0 has rejected renewed files of TLS (broker)", job=True, side="broker"),
    case("UsersRejected", {"client_logins_last_reload_successful{source='users'}": f"1x10 0x{MINUTES}"}, "11m", "15m",
        "orders-0 has rejected changed users: the previous ones stay valid", job=True, source="users"),
    case("ConfigRejected", {"config_last_reload_successful": f"1x10 0x{MINUTES}"}, "11m", "15m",
        "orders-0 has rejected its configuration file", job=True),
    case("RestartRequired", {"config_restart_required": f"0x10 1x{MINUTES}"}, "25m", "30m",
        "orders-0 needs a restart to apply its configuration file", job=True),
    case("WorkerDies", {"worker_restarts_total{worker='1'}": LATE}, "29m", "32m",
        "Worker 1 of orders-0 has died and was started again", worker="1"),
    case("NotCompiled", {"build_info{build='python'}": f"1x{MINUTES}"}, "9m", "15m",
        "orders-0 runs the python build, which needs ten to thirty times the CPU", job=True, build="python"),
    case("HasABug", {"disconnects_total{cause='internal_error'}": FIRST}, "29m", "32m",
        "orders-0 closed a connection because of a bug"),
)  # fmt: skip


def rule_tests(rule_file: str) -> dict[str, Any]:
    """What promtool reads."""
    return {"rule_files": [rule_file], "evaluation_interval": "1m", "tests": [_test(one) for one in CASES]}


def _test(one: Case) -> dict[str, Any]:
    name = f"KafkaSidecar{one.alert}"
    alert = next(alert for alert in ALERTS if alert.name == one.alert)
    target = one.target if one.keeps_job else {key: value for key, value in one.target.items() if key != "job"}
    expected = {
        "exp_labels": {"severity": alert.severity, **target, **one.labels},
        "exp_annotations": {"summary": one.summary, "runbook_url": f"{RUNBOOK}#{name.lower()}"},
    }
    return {
        "interval": "1m",
        "input_series": [
            {"series": _series(series, one.target or POD), "values": values} for series, values in one.series.items()
        ],
        "alert_rule_test": [
            {"alertname": name, "eval_time": one.quiet, "exp_alerts": []},
            {"alertname": name, "eval_time": one.fires, "exp_alerts": [expected]},
        ],
    }


def _series(name: str, target: dict[str, str]) -> str:
    """`metric{label='value'}` with the prefix and the target's labels; `=metric` has no prefix."""
    metric, _, labels = name.rstrip("}").partition("{")
    own = labels.replace("'", '"')
    metric = metric.removeprefix("=") if metric.startswith("=") else f"kafka_sidecar_{metric}"
    pairs = [own, *(f'{key}="{value}"' for key, value in target.items())]
    return f"{metric}{{{','.join(filter(None, pairs))}}}"
