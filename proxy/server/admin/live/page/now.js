// The first view: how much passes, how fast, and whether anything needs attention.

import { Chart } from "./charts.js";
import { badge, bytes, clock, duration, make, NONE, number, rate, share, show, write } from "./dom.js";
import { described, table } from "./tables.js";
import { limits, passing, perTopic } from "./traffic.js";
import { series, sum } from "./series.js";

const byApi = (snapshot, name) => new Map(series(snapshot, name).map((row) => [row.of.api_key, row]));

/** One row for each API. */
export function apis(snapshot) {
  const of = (name) => byApi(snapshot, name);
  const [requests, sent, received, latency] = ["client_to_proxy_request", "client_to_proxy_request_size_bytes",
    "proxy_to_client_response_size_bytes", "request_latency_seconds"].map(of);
  const held = (side) => new Map(series(snapshot, "held_seconds").filter((row) => row.of.side === side).map((row) => [row.of.api_key, row]));
  const [heldRequests, heldResponses] = ["request", "response"].map(held), records = passing(snapshot, (of) => of.api_key);
  return [...requests].map(([api, row]) => {
    const passes = records.get(api);
    return {
      api, rate: row.rate, total: row.value, in: sent.get(api)?.rate, out: received.get(api)?.rate,
      records: passes ? passes.in + passes.out : null,
      p50: latency.get(api)?.p50_s, p99: latency.get(api)?.p99_s, held: heldRequests.get(api), kept: heldResponses.get(api),
    };
  }).sort((a, b) => (b.rate || 0) - (a.rate || 0) || b.total - a.total);
}

const tile = (title) => {
  const value = make("dd"), note = make("dd", { class: "note" });
  return { element: make("div", {}, make("dt", {}, title), value, note), set: (text, more = "") => { write(value, text); write(note, more); } };
};

/** How long the sidecar held requests or responses of an API; nothing where it relays them as they come. */
const own = (row) => (row && row.p50_s !== null ? `${duration(row.p50_s)}, ${duration(row.p99_s)}` : NONE);

/** Of a broker: what became of the last connection that was tried. */
function reachable(row) {
  if (row.reachable === null) return badge("dim", "not tried");
  return row.reachable ? badge("good", "reachable") : badge("bad", "not reached");
}

export function now() {
  const list = make("ul", { class: "troubles", "aria-label": "What needs attention" });
  const tiles = Object.fromEntries([
    ["requests", "Requests"], ["in", "From clients"], ["out", "To clients"], ["sent", "Records in"], ["received", "Records out"], ["records", "Records checked"],
    ["rejected", "Records rejected"], ["denied", "Denied"], ["connections", "Connections"], ["delay", "Event-loop delay"],
    ["memory", "Buffered frames"], ["cpu", "CPU"],
  ].map(([name, title]) => [name, tile(title)]));
  const charts = {
    requests: new Chart("Requests a second, by API", rate),
    bytes: new Chart("Bytes a second", bytes),
    latency: new Chart("Latency p99, by API", duration),
  };
  const perApi = table("By API", [
    { title: "API", isHeader: true, kind: "short", value: (row) => row.api },
    { title: "Requests/s", kind: "number", value: (row) => rate(row.rate) },
    { title: "Records/s", kind: "number", value: (row) => rate(row.records) },
    { title: "In/s", kind: "number", value: (row) => bytes(row.in) },
    { title: "Out/s", kind: "number", value: (row) => bytes(row.out) },
    { title: "p50", kind: "number", value: (row) => duration(row.p50) },
    { title: "p99", kind: "number", value: (row) => duration(row.p99) },
    { title: "Own share of it, p50, p99", kind: "number", value: (row) => own(row.held) },
    { title: "Own after it, p50, p99", kind: "number", value: (row) => own(row.kept) },
    { title: "Requests", kind: "number", value: (row) => number(row.total) },
  ], { key: (row) => row.api, empty: "No request yet." });
  const workers = table("Processes", [
    { title: "Worker", isHeader: true, kind: "short", value: (row) => row.worker ?? (row.ready === null ? "supervisor" : "the only one") },
    { title: "Ready", kind: "short", value: (row) => (row.ready === null ? NONE : row.ready ? badge("good", "ready") : badge("bad", "not ready")) },
    { title: "Requests/s", kind: "number", value: (row) => rate(row.requests_per_s) },
    { title: "Bytes/s", kind: "number", value: (row) => bytes(row.bytes_per_s) },
    { title: "Connections", kind: "number", value: (row) => number(row.connections) },
    { title: "Loop delay p99", kind: "number", value: (row) => duration(row.event_loop_delay_p99_s) },
    { title: "CPU", kind: "number", value: (row) => share(row.cpu) },
    { title: "Memory", kind: "number", value: (row) => bytes(row.memory_bytes) },
    { title: "Process", kind: "number", value: (row) => row.pid },
    { title: "Version", kind: "short", value: (row) => `${row.version}, Python ${row.python}, ${row.build}` },
  ], { key: (row) => row.pid, mark: (row) => (row.ready === false ? "troubled" : "") });
  const nodes = table("Brokers and their ports here", [
    { title: "Node", isHeader: true, kind: "short", value: (row) => row.node },
    { title: "Broker", value: (row) => row.broker },
    { title: "Port", kind: "number", value: (row) => row.port },
    { title: "Connections", kind: "number", value: (row) => number(row.connections) },
    { title: "Reachable", kind: "short", value: (row) => reachable(row) },
    { title: "Last failure to connect", value: (row) => (row.last_failure ? `${clock(row.failed_at)}: ${row.last_failure}` : NONE) },
    { title: "Worker", kind: "number", value: (row) => row.worker ?? NONE },
  ], { key: (row) => `${row.node} ${row.worker}`, mark: (row) => (row.reachable === false ? "troubled" : ""), empty: "No broker is known yet." });
  const certificates = table("Certificates", [
    { title: "Side", isHeader: true, kind: "short", value: (row) => row.of.side },
    { title: "Setting", value: (row) => Object.entries(row.of).filter(([key]) => key !== "side").map(([, one]) => one).join(", ") },
    { title: "Expires in", kind: "number", value: (row) => duration(row.value) },
  ], { key: (row) => Object.values(row.of).join(" "), mark: (row) => (row.value < 14 * 86400 ? "troubled" : ""), empty: "No TLS." });
  const facts = make("div"), topics = perTopic(), rates = limits();
  const element = make("div", {},
    list, make("dl", { class: "tiles" }, Object.values(tiles).map((one) => one.element)),
    make("div", { class: "charts" }, Object.values(charts).map((one) => one.element)),
    make("h2", {}, "What passes"), perApi.element,
    make("p", { class: "dim" }, "Latency: from a request's first bytes to those of its response, of the last ten seconds. Fetch waits for data, so it is slow on purpose. The sidecar's own share: for how long requests were held to be looked into, a part of the latency whose rest is the broker's; and responses, which comes after it. What is relayed is not held. Records are counted while this view or that of topics is open."),
    make("h2", {}, "Topics"), topics.element, rates.element,
    make("h2", {}, "Where it runs"), workers.element,
    make("h2", {}, "Brokers"), nodes.element,
    make("div", { class: "columns" },
      make("section", {}, make("h2", {}, "In force"), facts),
      make("section", {}, make("h2", {}, "Certificates"), certificates.element)));

  function remember(snapshot) {
    if (snapshot.interval_s === null) return;
    const at = Date.parse(snapshot.timestamp) / 1000, rows = apis(snapshot);
    const per = (key) => Object.fromEntries(rows.map((row) => [row.api, row[key] ?? null]));
    charts.requests.add(at, per("rate"));
    charts.bytes.add(at, { "from clients": sum(rows, "in"), "to clients": sum(rows, "out") });
    charts.latency.add(at, per("p99"));
  }

  function update(snapshot) {
    const found = snapshot.troubles, rows = apis(snapshot), { sidecar } = snapshot;
    show(list, found.length
      ? found.slice(0, 12).map((one) => make("li", { class: one.severity },
        make("b", {}, one.severity === "bad" ? "Trouble" : "Look"), make("span", {}, one.text), " ",
        one.view === "now" ? null : make("a", { href: `#${one.view}` }, one.view)))
      : make("li", { class: "good" }, make("b", {}, "All well"), make("span", {}, "Nothing needs attention.")));
    const total = (name, key, filter = () => true) => sum(series(snapshot, name).filter(filter), key);
    tiles.requests.set(`${rate(sum(rows, "rate"))}/s`, `${number(sum(rows, "total"))} since the start`);
    tiles.in.set(`${bytes(sum(rows, "in"))}/s`);
    tiles.out.set(`${bytes(sum(rows, "out"))}/s`);
    const passes = [...passing(snapshot, () => "all").values()][0];
    tiles.sent.set(`${rate(passes?.in)}/s`, passes ? `${bytes(passes.bytesIn)}/s in batches` : "");
    tiles.received.set(`${rate(passes?.out)}/s`, passes ? `${bytes(passes.bytesOut)}/s in batches` : "");
    const checked = series(snapshot, "validated_records");
    tiles.records.set(checked.length ? `${rate(sum(checked, "rate"))}/s` : NONE, checked.length ? `${number(sum(checked, "value"))} since the start` : "no policies");
    const enforced = (row) => row.of.mode === "enforce", shadow = (row) => row.of.mode === "shadow";
    tiles.rejected.set(`${rate(total("rejected_records", "rate", enforced))}/s`, `${number(total("rejected_records", "value", enforced))}, in shadow ${number(total("rejected_records", "value", shadow))}`);
    const refused = (key) => total("denials", key) + total("topic_guard_violations", key, enforced);
    tiles.denied.set(`${rate(refused("rate"))}/s`, `${number(refused("value"))} by rules and guards`);
    tiles.connections.set(number(sidecar.connections?.open), `${number(total("connections", "value"))} since the start`);
    const delay = series(snapshot, "event_loop_delay_seconds")[0];
    tiles.delay.set(duration(delay?.p99_s), "p99 of ten seconds");
    const memory = sidecar.memory || {};
    tiles.memory.set(bytes(memory.buffered_bytes), `of ${bytes(memory.limit_bytes)}, ${number(memory.waiting)} wait`);
    tiles.cpu.set(share(sum(snapshot.workers, "cpu")), `memory ${bytes(sum(snapshot.workers, "memory_bytes"))}`);
    for (const chart of Object.values(charts)) chart.show();
    perApi.update(rows);
    topics.update(snapshot);
    rates.update(snapshot);
    workers.update([...snapshot.workers].sort((a, b) => (a.ready === false ? -1 : 0) - (b.ready === false ? -1 : 0)));
    nodes.update(sidecar.nodes || [], sidecar.brokers ? `metadata ${typeof sidecar.brokers.last_metadata === "string" ? sidecar.brokers.last_metadata : "differs by worker"}` : "");
    const configuration = sidecar.configuration || {};
    show(facts, described({
      "configuration since": configuration.applied_at && typeof configuration.applied_at === "string" ? `${clock(configuration.applied_at)} (${configuration.applied_at})` : configuration.applied_at,
      generation: configuration.generation, hash: configuration.hash, "last reload": configuration.last_reload,
      "needs a restart": configuration.restart_required_by?.length ? configuration.restart_required_by : "nothing",
      "bootstrap servers": (sidecar.brokers?.bootstrap_servers || []).join(", "), "login at brokers": sidecar.brokers?.login,
    }));
    certificates.update([...series(snapshot, "tls_certificate_expiry_seconds")].sort((a, b) => a.value - b.value));
  }

  return { title: "Now", parts: "traffic", element, update, remember };
}
