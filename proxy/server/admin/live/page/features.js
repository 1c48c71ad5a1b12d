// Views of plug-ins, of the audit, and of every feature with its state and its metrics.

import { badge, bytes, clock, duration, make, NONE, number, rate, show } from "./dom.js";
import { described, table } from "./tables.js";
import { labelled, series, sum } from "./series.js";

const shown = (kind, row) => (kind === "histogram" ? `${number(row.value)} (p50 ${duration(row.p50_s)}, p99 ${duration(row.p99_s)})` : number(row.value));

/** All metrics of some groups: {group, name, ...}. */
function metrics() {
  return table("Metrics", [
    { title: "Metric", isHeader: true, value: (row) => row.name },
    { title: "Of", value: (row) => row.of },
    { title: "A second", kind: "number", value: (row) => rate(row.rate) },
    { title: "Value", kind: "number", value: (row) => row.value },
    { title: "What it is", value: (row) => row.about },
  ], { key: (row) => `${row.group} ${row.name} ${row.of}`, empty: "Nothing is counted." });
}

function rowsOf(group, families, withZero = false) {
  return families.flatMap((family) => labelled(family)
    .filter((row) => withZero || row.value)
    .map((row) => ({
      group, name: family.name, about: family.about, rate: row.rate, value: shown(family.kind, row),
      of: Object.entries(row.of).map(([label, one]) => `${label}: ${one}`).join(", "),
    })));
}

export function plugIns() {
  const interceptors = table("Interceptors, by hook", [
    { title: "Interceptor", isHeader: true, value: (row) => row.name },
    { title: "State", kind: "short", value: (row) => state(row) },
    { title: "Hook", kind: "short", value: (row) => row.hook },
    { title: "Calls/s", kind: "number", value: (row) => rate(row.rate) },
    { title: "p50", kind: "number", value: (row) => duration(row.p50_s) },
    { title: "p99", kind: "number", value: (row) => duration(row.p99_s) },
    { title: "Calls", kind: "number", value: (row) => number(row.value) },
    { title: "Failures", kind: "number", value: (row) => number(row.failures) },
    { title: "Over budget", kind: "number", value: (row) => number(row.slow) },
    { title: "Topics", value: (row) => row.topics },
    { title: "Class", value: (row) => row.class },
  ], { key: (row) => `${row.name} ${row.hook} ${row.worker}`, mark: (row) => (row.disabled_until || row.disabled_for_clients ? "troubled" : row.failures ? "warned" : ""), empty: "No interceptor is configured." });
  const policies = table("By policy", [
    { title: "Policy", isHeader: true, value: (row) => row.policy },
    { title: "Batches/s", kind: "number", value: (row) => rate(row.rate) },
    { title: "p50", kind: "number", value: (row) => duration(row.p50_s) },
    { title: "p99", kind: "number", value: (row) => duration(row.p99_s) },
    { title: "Batches", kind: "number", value: (row) => number(row.value) },
    { title: "Rejected records", kind: "number", value: (row) => number(row.rejected) },
    { title: "Failures", kind: "number", value: (row) => number(row.failures) },
  ], { key: (row) => row.policy, mark: (row) => (row.failures ? "troubled" : ""), empty: "No policy was called yet." });
  const registries = table("By registry", [
    { title: "Registry", isHeader: true, value: (row) => row.name },
    { title: "State", kind: "short", value: (row) => badge(row.state === "failing" ? "bad" : row.state === "ok" ? "good" : "dim", row.state) },
    { title: "Failure", value: (row) => row.failure ?? NONE },
    { title: "Schemas", kind: "number", value: (row) => number(row.cached_schemas) },
    { title: "Stale answers", kind: "number", value: (row) => number(row.stale_answers) },
    { title: "Addresses", value: (row) => (row.urls || []).join(", ") },
  ], { key: (row) => `${row.name} ${row.worker}`, mark: (row) => (row.failure ? "troubled" : ""), empty: "No schema registry is configured." });

  function update(snapshot) {
    const states = snapshot.features.interception?.interceptors || [];
    const calls = series(snapshot, "interceptor_call_seconds"), of = (name, row, hook) => sum(series(snapshot, name).filter((one) => one.of.interceptor === row.name && one.of.hook === hook), "value");
    const rows = states.flatMap((one) => {
      const own = calls.filter((row) => row.of.interceptor === one.name);
      return (own.length ? own : [{ of: { hook: NONE } }]).map((row) => ({
        ...row, ...one, topics: (one.topics || []).join(", "), hook: row.of.hook,
        failures: of("interceptor_failures", one, row.of.hook), slow: of("interceptor_over_budget", one, row.of.hook),
      }));
    });
    const worst = (row) => (row.disabled_until || row.disabled_for_clients ? 2 : 0) + (row.failures ? 1 : 0);
    interceptors.update(rows.sort((a, b) => worst(b) - worst(a)));
    const total = (name, policy) => sum(series(snapshot, name).filter((row) => row.of.policy === policy), "value");
    policies.update(series(snapshot, "policy_call_seconds").map((row) => ({
      ...row, policy: row.of.policy, failures: total("policy_failures", row.of.policy), rejected: total("rejected_records", row.of.policy),
    })).sort((a, b) => b.failures - a.failures || b.rejected - a.rejected));
    registries.update([...(snapshot.features.schema_registries?.registries || [])].sort((a, b) => Boolean(b.failure) - Boolean(a.failure)));
  }

  return { title: "Plug-ins", parts: "", update, element: make("div", {}, make("h2", {}, "Interceptors"), interceptors.element, make("h2", {}, "Policies"), policies.element, make("h2", {}, "Schema registries"), registries.element) };
}

function state(row) {
  if (row.disabled_until) return badge("bad", `disabled until ${clock(row.disabled_until)}`);
  if (row.disabled_for_clients) return badge("warn", `disabled for ${number(row.disabled_for_clients)} clients`);
  return badge("good", "called");
}

export function deadLetters() {
  const facts = make("div"), rest = make("section"), dropped = table("Not kept, by reason", [
    { title: "Reason", isHeader: true, kind: "short", value: (row) => row.of.reason },
    { title: "Records/s", kind: "number", value: (row) => rate(row.rate) },
    { title: "Records", kind: "number", value: (row) => number(row.value) },
  ], { key: (row) => row.of.reason, mark: (row) => (row.of.reason === "replayed" ? "" : row.rate ? "troubled" : "warned"), empty: "No letter was dropped." });
  const topics = table("By dead letter topic", [
    { title: "Dead letter topic", isHeader: true, value: (row) => row.topic },
    { title: "State", kind: "short", value: (row) => (row.unusable ? badge("bad", "unusable") : badge("good", "usable")) },
    { title: "Letters/s", kind: "number", value: (row) => rate(row.rate) },
    { title: "To be sent", kind: "number", value: (row) => number(row.queued) },
    { title: "Sent", kind: "number", value: (row) => number(row.sent) },
    { title: "Why", value: (row) => row.unusable ?? NONE },
  ], { key: (row) => row.topic, mark: (row) => (row.unusable ? "troubled" : ""), empty: "No letter was written yet." });

  function update(snapshot) {
    const state = snapshot.features.dead_letters;
    rest.hidden = !state;
    if (!state) return show(facts, make("p", {}, "Nothing goes to dead letter topics: see the setting topics.dead_letters."));
    const { unusable_topics: unusable, dropped: _, buffered_bytes: buffered, spooled_bytes: spooled, oldest_seconds: oldest, failure, ...others } = state;
    show(facts, described({
      failure: failure ?? "none", ...others, buffered: bytes(buffered), spooled: spooled === null ? "no spool" : bytes(spooled), "oldest waits for": duration(oldest),
    }));
    const names = new Set(Object.keys(unusable || {})), of = (name, topic) => series(snapshot, name).filter((row) => row.of.topic === topic);
    for (const name of ["dead_letters_queued", "dead_letters_sent"]) for (const row of series(snapshot, name)) names.add(row.of.topic);
    topics.update([...names].map((topic) => {
      const queued = sum(of("dead_letters_queued", topic), "value"), sent = sum(of("dead_letters_sent", topic), "value");
      return { topic, unusable: Object.hasOwn(unusable || {}, topic) ? String(unusable[topic]) : null, sent, queued: Math.max(0, queued - sent), rate: sum(of("dead_letters_sent", topic), "rate") };
    }).sort((a, b) => Boolean(b.unusable) - Boolean(a.unusable) || b.queued - a.queued || b.sent - a.sent));
    dropped.update(series(snapshot, "dead_letters_dropped").filter((row) => row.value).sort((a, b) => (b.rate || 0) - (a.rate || 0) || b.value - a.value));
  }

  rest.append(topics.element, make("h2", {}, "Dropped"), dropped.element);
  return { title: "Dead letters", parts: "", update, element: make("div", {}, facts, rest) };
}

/** The state of an audit, with sizes and times as people read them; an auditor of one's own has none. */
function waiting(state) {
  if (state.buffered_bytes === undefined) return state;
  const { buffered_events: events, buffered_bytes: size, oldest_seconds: oldest, spooled_events: spooled, spooled_bytes: onDisk, discarded_events: lost, failure, ...others } = state;
  return {
    failure: failure ?? "none", ...others, "waiting events": events, waiting: bytes(size),
    ...(oldest === undefined ? {} : { "oldest waits for": duration(oldest) }),
    ...(spooled === undefined ? {} : { spool: spooled === null ? "no spool" : `${number(spooled)} events, ${bytes(onDisk)}` }),
    "lost events": lost,
  };
}

export function audit() {
  const facts = make("div"), counts = metrics();
  const groups = ["auditing", "access"];

  function update(snapshot) {
    const found = groups.filter((group) => snapshot.features[group]);
    show(facts, found.length
      ? found.flatMap((group) => [make("h2", {}, group === "access" ? "Access" : "Batches"), described(waiting(snapshot.features[group]))])
      : make("p", {}, "Nothing is audited: see the setting audit.type."));
    counts.update(groups.flatMap((group) => rowsOf(group, snapshot.metrics[group] || [], true)));
  }

  return { title: "Audit", parts: "", update, element: make("div", {}, facts, counts.element) };
}

export function all() {
  let last = null;
  const text = make("input", { type: "search", spellcheck: "false", autocomplete: "off", oninput: () => last && update(last) });
  const states = make("div"), counts = metrics();

  function update(snapshot) {
    last = snapshot;
    const made = Object.entries(snapshot.features).filter(([, one]) => Object.keys(one).length);
    show(states, made.flatMap(([name, one]) => [make("h2", {}, name.replaceAll("_", " ")), described(one)]));
    const word = text.value.toLowerCase();
    const rows = Object.entries(snapshot.metrics).flatMap(([group, families]) => rowsOf(group, families))
      .filter((row) => [row.group, row.name, row.of, row.about].some((one) => one.toLowerCase().includes(word)));
    rows.sort((a, b) => (b.rate || 0) - (a.rate || 0) || a.name.localeCompare(b.name));
    counts.update(rows, `${number(rows.length)} that are not zero`);
  }

  return { title: "Metrics", parts: "", update, element: make("div", {}, make("form", { class: "bar", role: "search", onsubmit: (event) => event.preventDefault() }, make("label", {}, make("span", {}, "Filter"), text)), counts.element, states) };
}
