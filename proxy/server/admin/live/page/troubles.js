// What needs attention, worst first: rows of a table, and the failures that features report of themselves.

import { duration, number, rate } from "./dom.js";

/** The families of a name, as one list of {of: {label: value}, value, rate, ...}. */
export function series(snapshot, name) {
  for (const families of Object.values(snapshot.metrics)) {
    for (const family of families) if (family.name === name) return labelled(family);
  }
  return [];
}

export function labelled(family) {
  return family.rows.map((row) => ({
    ...row, of: Object.fromEntries(family.labels.map((label, index) => [label, row.of[index]])),
  }));
}

export const sum = (rows, key) => rows.reduce((total, row) => total + (row[key] || 0), 0);

// [metric, which rows count, bad or warn, sentence, view]
const isRising = (row) => row.rate > 0;
const WEEKS_S = 14 * 86400;
const RULES = [
  ["interceptor_disabled", (row) => row.value > 0, "bad", (row) => `interceptor ${row.of.interceptor} is disabled after failures`, "plug-ins"],
  ["schema_registry_reachable", (row) => row.value === 0, "bad", (row) => `schema registry ${row.of.registry} does not answer`, "plug-ins"],
  ["audit_events_discarded", isRising, "bad", (row) => `audit events are discarded (${row.of.reason}): ${rate(row.rate)}/s`, "audit"],
  ["threads_stuck", (row) => row.value > 0, "bad", (row) => `${number(row.value)} threads are stuck in work that does not end`, "metrics"],
  ["worker_restarts", isRising, "bad", (row) => `worker ${row.of.worker} was started again`, "now"],
  ["policy_failures", isRising, "bad", (row) => `policy ${row.of.policy} fails: ${rate(row.rate)}/s`, "plug-ins"],
  ["event_loop_stops", isRising, "bad", (row) => `the event loop has stopped for over a second (plug-in: ${row.of.plug_in})`, "plug-ins"],
  ["rejected_records", (row) => isRising(row) && row.of.mode === "enforce", "warn", (row) => `${rate(row.rate)} records/s of ${row.of.topic} rejected by ${row.of.policy}: ${row.of.reason}`, "rejections"],
  ["denials", isRising, "warn", (row) => `denied: ${row.of.operation} of a ${row.of.resource_type} in ${row.of.api_key}, ${rate(row.rate)}/s`, "rejections"],
  ["rejected_records", (row) => isRising(row) && row.of.mode === "shadow", "warn", (row) => `shadow: ${rate(row.rate)} records/s of ${row.of.topic} would be rejected by ${row.of.policy}: ${row.of.reason}`, "rejections"],
  ["interceptor_failures", isRising, "warn", (row) => `interceptor ${row.of.interceptor} fails in ${row.of.hook}: ${rate(row.rate)}/s`, "plug-ins"],
  ["interceptor_over_budget", isRising, "warn", (row) => `interceptor ${row.of.interceptor} is slow in ${row.of.hook}`, "plug-ins"],
  ["time_limits", isRising, "warn", (row) => `time limits are reached in ${row.of.stage}, waiting for ${row.of.waited_for}`, "metrics"],
  ["broker_connect_failures", isRising, "warn", (row) => `connections to brokers fail: ${row.of.cause}`, "now"],
  ["client_logins", (row) => isRising(row) && row.of.result !== "success", "warn", (row) => `logins of clients fail (${row.of.result}): ${rate(row.rate)}/s`, "connections"],
  ["broker_logins", (row) => isRising(row) && row.of.result !== "success", "warn", (row) => `the sidecar's logins at brokers fail: ${row.of.result}`, "now"],
  ["tls_last_reload_successful", (row) => row.value === 0, "bad", (row) => `certificates of ${row.of.side} could not be loaded again`, "now"],
  ["tls_certificate_expiry_seconds", (row) => row.value < WEEKS_S, "bad", (row) => `a certificate of ${row.of.side} expires in ${duration(row.value)}`, "now"],
  ["event_loop_delay_seconds", (row) => row.p99_s > 0.1, "warn", (row) => `the event loop is late: ${duration(row.p99_s)} (p99)`, "now"],
  ["dead_letters_missing_topics", (row) => row.value > 0, "bad", (row) => `${number(row.value)} dead letter topics cannot be used`, "dead-letters"],
  ["dead_letters_dropped", (row) => isRising(row) && row.of.reason !== "replayed", "bad", (row) => `rejected records are not kept as dead letters (${row.of.reason}): ${rate(row.rate)}/s`, "dead-letters"],
  ["dead_letters_oldest_seconds", (row) => row.value > 60, "warn", (row) => `a dead letter waits for ${duration(row.value)}`, "dead-letters"],
  ["rate_limit_rejected_batches", isRising, "warn", (row) => `rate limit ${row.of.limit} rejects ${rate(row.rate)} batches/s`, "now"],
  ["rate_limit_throttled", isRising, "warn", (row) => `rate limit ${row.of.limit} throttles clients`, "connections"],
  ["topic_guard_violations", isRising, "warn", (row) => `${row.of.mode === "shadow" ? "shadow: a guard would refuse" : "a guard refuses"} ${row.of.api_key} (${row.of.rule})`, "rejections"],
  ["producer_violations", isRising, "warn", (row) => `${row.of.mode === "shadow" ? "shadow: " : ""}${rate(row.rate)} batches/s to ${row.of.topic} are not sent as required: ${row.of.habit}`, "rejections"],
  ["rejected_fetched_records", isRising, "warn", (row) => `${rate(row.rate)} fetched records/s of ${row.of.topic} rejected by ${row.of.policy} (${row.of.action}): ${row.of.reason}`, "topics"],
];
const MAX_OF_RULE = 5;
const ORDER = { bad: 0, warn: 1 };

/** All of it: {severity, text, view}. */
export function troubles(snapshot) {
  const { sidecar, features } = snapshot;
  const found = [];
  const add = (severity, text, view) => found.push({ severity, text, view });
  if (!snapshot.workers.length) add("bad", "no worker answers", "now");
  for (const reason of [sidecar.reasons ?? []].flat()) add("bad", `not ready: ${reason}`, "now");
  const configuration = sidecar.configuration || {};
  if (configuration.last_reload === "rejected") add("bad", "the last configuration was rejected, the one before it still applies: see the log", "now");
  if (configuration.hash && typeof configuration.hash === "object") add("bad", "workers do not have the same configuration", "now");
  if (configuration.restart_required_by?.length) add("warn", `changed settings need a restart: ${configuration.restart_required_by.join(", ")}`, "now");
  if (sidecar.brokers?.last_metadata && typeof sidecar.brokers.last_metadata === "string" && sidecar.brokers.last_metadata !== "received") {
    add("warn", `metadata request: ${sidecar.brokers.last_metadata}`, "now");
  }
  if (sidecar.memory?.waiting) add("warn", `${number(sidecar.memory.waiting)} connections wait for memory (connections.max_buffered)`, "connections");
  for (const [name, state] of Object.entries(features || {})) failures(name, state, add);
  for (const [metric, counts, severity, sentence, view] of RULES) {
    for (const row of series(snapshot, metric).filter(counts).slice(0, MAX_OF_RULE)) add(severity, sentence(row), view);
  }
  return found.sort((a, b) => ORDER[a.severity] - ORDER[b.severity]);
}

const VIEW_OF = { auditing: "audit", dead_letters: "dead-letters" };

function failures(name, state, add) {
  if (!state || typeof state !== "object") return;
  if (state.failure) add("bad", `${name}${state.name ? ` ${state.name}` : ""}: ${typeof state.failure === "string" ? state.failure : JSON.stringify(state.failure)}`, VIEW_OF[name] ?? "plug-ins");
  for (const rows of Object.values(state)) if (Array.isArray(rows)) rows.forEach((row) => failures(name, row, add));
}
