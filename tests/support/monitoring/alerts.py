"""The alerts, and the rules of Prometheus that they become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from support.monitoring.queries import PREFIX, TARGET, grown

RUNBOOK = "docs/how-to/runbook.md"
WHO = "{{ or $labels.pod $labels.instance }}"  # outside of Kubernetes there are no pods
UNEXPECTED_ENDS = 'cause!~"client_closed|broker_closed|drain|idle"'


@dataclass(frozen=True, slots=True)
class Alert:
    name: str
    """After the prefix KafkaSidecar."""
    severity: str
    expression: str
    summary: str
    after: str | None = None
    """For how long the expression has to be true."""


def rising(metric: str, by: str = "", only: str = "", above: str = "0") -> str:
    """Whether a counter goes on to rise."""
    labels = ", ".join(filter(None, (TARGET, by)))
    selector = f"{{{only}}}" if only else ""
    return f"sum by ({labels}) (rate({PREFIX}{metric}{selector}[5m])) > {above}"


def p99(metric: str, above: str) -> str:
    return f"histogram_quantile(0.99, sum by ({TARGET}, le) (rate({PREFIX}{metric}_bucket[5m]))) > {above}"


ALERTS = (
    Alert("CannotReachBrokers", "critical", rising("broker_connect_failures_total", above="0.1"),
        f"{WHO} cannot connect to brokers", "10m"),
    Alert("HasNoCluster", "critical", f"{PREFIX}cluster_reached == 0",
        f"{WHO} has not reached any broker since it was started", "5m"),
    Alert("ClosesConnections", "warning", rising("disconnects_total", "cause", UNEXPECTED_ENDS),
        f"{WHO} closes connections of clients: {{{{ $labels.cause }}}}", "10m"),
    Alert("LacksCpu", "warning", p99("event_loop_delay_seconds", "0.05"),
        f"The event loop of {WHO} is late by more than 50 ms", "10m"),
    Alert("BuffersAreFull", "warning", rising("buffering_pauses_total"),
        f"Connections of {WHO} wait for memory: connections.max_buffered is reached", "10m"),
    Alert("RunsOutOfFiles", "critical",
        f"process_open_fds / process_max_fds > 0.9 and on (job, instance) {PREFIX}build_info",
        f"{WHO} has opened {{{{ $value | humanizePercentage }}}} of the files that it may open", "5m"),
    Alert("RejectsRecords", "warning",
        f'sum by (topic, policy, reason) (rate({PREFIX}rejected_records_total{{mode="enforce"}}[5m])) > 0',
        "Records for {{ $labels.topic }} are rejected by {{ $labels.policy }}: {{ $labels.reason }}", "10m"),
    Alert("HidesRecords", "warning",
        f'sum by (topic, policy, reason) (rate({PREFIX}rejected_fetched_records_total{{action="hide"}}[5m])'
        f' > (rate({PREFIX}rejected_fetched_records_total{{action="hide"}}[5m] offset 1h)'
        f' or 0 * rate({PREFIX}rejected_fetched_records_total{{action="hide"}}[5m]))) > 0',
        "Records of {{ $labels.topic }} are hidden from consumers by {{ $labels.policy }}: {{ $labels.reason }}",
        "10m"),
    Alert("WithholdsRecords", "critical",
        rising("validated_fetched_batches_total", "result", 'result=~"withheld|timed_out"'),
        f"Consumers of {WHO} stand still: a policy cannot decide ({{{{ $labels.result }}}})", "5m"),
    Alert("LosesDeadLetters", "warning",
        grown("dead_letters_dropped_total", "10m", "reason", only='reason!="replayed"'),
        f"Rejected records of {WHO} did not become dead letters: {{{{ $labels.reason }}}}"),
    Alert("DeadLettersWait", "warning", f"{PREFIX}dead_letters_oldest_seconds > 300",
        f"{WHO} cannot send dead letters; it keeps them", "5m"),
    Alert("LacksDeadLetterTopic", "critical", f"{PREFIX}dead_letters_missing_topics > 0",
        f"{WHO} drops rejected records: a dead letter topic cannot be used", "5m"),
    Alert("PolicyFails", "critical", grown("policy_failures_total", "10m", "policy"),
        f"Policy {{{{ $labels.policy }}}} of {WHO} fails"),
    Alert("SchemaRegistryFails", "warning", f"{PREFIX}schema_registry_reachable == 0",
        f"{WHO} gets no answer from the schema registry {{{{ $labels.registry }}}}; it uses the schemas that it knows",
        "5m"),
    Alert("RecordsLackSchemas", "critical", rising("schema_registry_failures_total", "registry"),
        f"{WHO} cannot tell whether records are valid: {{{{ $labels.registry }}}} does not answer", "5m"),
    Alert("InterceptorFails", "warning", rising("interceptor_failures_total", "interceptor"),
        f"Interceptor {{{{ $labels.interceptor }}}} of {WHO} fails", "10m"),
    Alert("InterceptorDisabled", "critical", f"{PREFIX}interceptor_disabled > 0",
        f"Interceptor {{{{ $labels.interceptor }}}} of {WHO} is disabled"),
    Alert("LargeMessagesRejected", "warning",
        rising("large_messages_split_total", "result", 'result!="split"'),
        f"{WHO} rejects batches with large messages: {{{{ $labels.result }}}}", "10m"),
    Alert("LargeMessagesLost", "critical", grown("large_messages_dropped_total", "10m", "reason"),
        f"Consumers of {WHO} do not get a large message: {{{{ $labels.reason }}}}"),
    Alert("ThreadsBusy", "warning", p99("thread_wait_seconds", "1"),
        f"Batches wait for a thread of {WHO} for more than a second", "10m"),
    Alert("TimeLimitReached", "warning", grown("time_limits_total", "10m", "stage, waited_for"),
        f"A time limit of {{{{ $labels.stage }}}} was reached in {WHO}: {{{{ $labels.waited_for }}}}"),
    Alert("ThreadStuck", "critical", f"{PREFIX}threads_stuck > 0",
        f"A policy or an interceptor of {WHO} does not return", "1m"),
    Alert("EventLoopBlocked", "critical", grown("event_loop_stops_total", "10m", "plug_in"),
        f"All connections of {WHO} have waited for a second or more: {{{{ $labels.plug_in }}}}"),
    Alert("BrokerLoginFails", "critical", grown("broker_logins_total", "10m", "result", 'result="failure"'),
        f"The brokers reject logins of {WHO}"),
    Alert("TopicConfigsLost", "critical", f'{PREFIX}topic_configs_trouble{{reason="lost"}} > 0',
        f"{WHO} has lost the topic that stores topic configs; the last known ones apply"),
    Alert("TopicConfigsUnreadable", "warning", f'{PREFIX}topic_configs_trouble{{reason="unreadable"}} > 0',
        f"{WHO} cannot read the topic that stores topic configs", "10m"),
    Alert("Denials", "warning", grown("denials_total", "10m", "api_key, operation, resource_type"),
        f"{WHO} denies clients to {{{{ $labels.operation }}}} a {{{{ $labels.resource_type }}}} "
        "({{ $labels.api_key }}): its log lines `denied` say who and which"),
    Alert("TopicGuards", "warning",
        grown("topic_guard_violations_total", "10m", "api_key, rule", 'mode="enforce"'),
        f"{WHO} rejects requests about topics ({{{{ $labels.api_key }}}}, {{{{ $labels.rule }}}}): its log lines "
        "`topic guard` say which"),
    Alert("ThrottlesClients", "warning", rising("rate_limit_throttled_seconds_total", "limit", above="0.5"),
        f"{WHO} makes clients wait, together more than half of the time: rate limit {{{{ $labels.limit }}}}", "30m"),
    Alert("RateLimitRejects", "warning", rising("rate_limit_rejected_batches_total", "limit"),
        f"{WHO} rejects batches over the rate limit {{{{ $labels.limit }}}}", "10m"),
    Alert("ProducersRejected", "warning",
        rising("producer_violations_total", "habit", 'mode="enforce"'),
        f"{WHO} rejects producers that do not send as required: {{{{ $labels.habit }}}}", "10m"),
    Alert("TapStaysOpen", "warning", f"{PREFIX}taps_open > 0",
        f"A tap of {WHO} has been open for an hour: it may have been forgotten", "1h"),
    Alert("TapLosesLines", "warning", rising("tap_lost_lines_total", "reason"),
        f"Taps of {WHO} have lost lines for half an hour: {{{{ $labels.reason }}}}", "30m"),
    Alert("AuditIncomplete", "warning",
        f"{grown('audit_events_discarded_total', '1h')} or {grown('audit_uncounted_total', '1h')}",
        f"What {WHO} has counted is partly lost: the audit of the last hour is unknown"),
    Alert("AuditNotSent", "warning",
        f"increase({PREFIX}audit_send_failures_total[10m]) > 0 and increase({PREFIX}audit_events_sent_total[10m]) == 0",
        f"{WHO} cannot send audit events; it buffers them", "10m"),
    Alert("CertificateExpires", "critical", f"{PREFIX}tls_certificate_expiry_seconds < 7 * 86400",
        f"A certificate of {WHO} expires in {{{{ $value | humanizeDuration }}}}: {{{{ $labels.side }}}}, "
        "{{ $labels.setting }}", "10m"),
    Alert("CertificatesRejected", "warning", f"{PREFIX}tls_last_reload_successful == 0",
        f"{WHO} has rejected renewed files of TLS ({{{{ $labels.side }}}})", "1m"),
    Alert("UsersRejected", "warning", f"{PREFIX}client_logins_last_reload_successful == 0",
        f"{WHO} has rejected changed {{{{ $labels.source }}}}: the previous ones stay valid", "1m"),
    Alert("ConfigRejected", "warning", f"{PREFIX}config_last_reload_successful == 0",
        f"{WHO} has rejected its configuration file", "1m"),
    Alert("RestartRequired", "warning", f"{PREFIX}config_restart_required == 1",
        f"{WHO} needs a restart to apply its configuration file", "15m"),
    Alert("WorkerDies", "critical", grown("worker_restarts_total", "10m", "worker"),
        f"Worker {{{{ $labels.worker }}}} of {WHO} has died and was started again"),
    Alert("NotCompiled", "warning", f'{PREFIX}build_info{{build!="compiled"}} > 0',
        f"{WHO} runs the {{{{ $labels.build }}}} build, which needs ten to thirty times the CPU", "10m"),
    Alert("HasABug", "warning", grown("disconnects_total", "1h", only='cause="internal_error"'),
        f"{WHO} closed a connection because of a bug"),
)  # fmt: skip


def rules() -> dict[str, Any]:
    """The groups of a rule file."""
    return {"groups": [{"name": "kafka-sidecar", "rules": [_rule(alert) for alert in ALERTS]}]}


def _rule(alert: Alert) -> dict[str, Any]:
    name = f"KafkaSidecar{alert.name}"
    return {
        "alert": name,
        "expr": alert.expression,
        **({"for": alert.after} if alert.after is not None else {}),
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook_url": f"{RUNBOOK}#{name.lower()}"},
    }
