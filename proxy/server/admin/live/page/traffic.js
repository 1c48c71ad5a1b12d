// What passes by topic, and how much of the rate limits is used: tables of the first view.

import { badge, bytes, make, NONE, number, rate, share } from "./dom.js";
import { table } from "./tables.js";
import { series } from "./series.js";

const FROM_CLIENTS = "Produce";
const MAX_TOPICS = 20;

/** Records and bytes a second, by what `of` makes of a row: {in, out, bytesIn, bytesOut}. */
export function passing(snapshot, of) {
  const found = new Map();
  const add = (name, sent, received) => {
    for (const row of series(snapshot, name)) {
      const key = of(row.of);
      if (!found.has(key)) found.set(key, { key, in: 0, out: 0, bytesIn: 0, bytesOut: 0 });
      found.get(key)[row.of.api_key === FROM_CLIENTS ? sent : received] += row.rate || 0;
    }
  };
  add("records", "in", "out");
  add("record_bytes", "bytesIn", "bytesOut");
  return found;
}

export function perTopic() {
  const made = table("By topic", [
    { title: "Topic", isHeader: true, value: (row) => row.key },
    { title: "Records in/s", kind: "number", value: (row) => rate(row.in) },
    { title: "In/s", kind: "number", value: (row) => bytes(row.bytesIn) },
    { title: "Records out/s", kind: "number", value: (row) => rate(row.out) },
    { title: "Out/s", kind: "number", value: (row) => bytes(row.bytesOut) },
    { title: "Rejected/s", kind: "number", value: (row) => rate(row.rejected) },
  ], { key: (row) => row.key, mark: (row) => (row.rejected ? "troubled" : ""), empty: "No record has passed since this view was opened." });
  return {
    element: made.element,
    update(snapshot) {
      const rejected = new Map();
      for (const row of series(snapshot, "rejected_records")) {
        if (row.of.mode === "enforce") rejected.set(row.of.topic, (rejected.get(row.of.topic) || 0) + (row.rate || 0));
      }
      const rows = [...passing(snapshot, (of) => of.topic).values()].map((row) => ({ ...row, rejected: rejected.get(row.key) || 0 }));
      rows.sort((a, b) => b.rejected - a.rejected || b.bytesIn + b.bytesOut - a.bytesIn - a.bytesOut);
      made.update(rows.slice(0, MAX_TOPICS), rows.length > MAX_TOPICS ? `${MAX_TOPICS} of ${number(rows.length)}` : "");
    },
  };
}

/** A rate limit's rate: of bytes as bytes. */
const amount = (row) => (row.rate.endsWith("bytes") ? bytes(row.a_second) : number(row.a_second));

export function limits() {
  const heading = make("h2", {}, "Rate limits");
  const made = table("By limit", [
    { title: "Limit", isHeader: true, value: (row) => row.limit },
    { title: "State", kind: "short", value: (row) => (row.rejecting ? badge("bad", "rejects") : row.throttling ? badge("warn", "throttles") : row.used > 1 ? badge("warn", "over") : badge("good", "within")) },
    { title: "Rate", kind: "short", value: (row) => row.rate.replaceAll("_", " ") },
    { title: "A second", kind: "number", value: amount },
    { title: "For each", value: (row) => row.each ?? "all together" },
    { title: "Used", kind: "number", value: (row) => (row.used === null ? NONE : share(Math.max(0, row.used))) },
    { title: "Counted/s", kind: "number", value: (row) => (row.counted === null ? NONE : bytes(row.counted)) },
    { title: "Throttled/s", kind: "number", value: (row) => rate(row.throttling) },
    { title: "Rejected/s", kind: "number", value: (row) => rate(row.rejecting) },
  ], { key: (row) => `${row.limit} ${row.rate}`, mark: (row) => (row.rejecting ? "troubled" : row.throttling || row.used > 1 ? "warned" : "") });
  const element = make("section", { hidden: true }, heading, made.element,
    make("p", { class: "dim" }, "Used: the share of what clients may take at once, the burst, that is taken now. Above 100 % clients owe something and wait."));
  return {
    element,
    update(snapshot) {
      const found = snapshot.features.rate_limits?.limits || [];
      element.hidden = !found.length;
      const per = (name, limit, direction) => series(snapshot, name)
        .filter((row) => row.of.limit === limit && (!direction || row.of.direction === direction))
        .reduce((total, row) => total + (row.rate || 0), 0);
      const rows = found.map((row) => ({
        ...row, throttling: per("rate_limit_throttled", row.limit), rejecting: per("rate_limit_rejected_batches", row.limit),
        counted: row.rate.endsWith("_bytes") ? per("rate_limit_bytes", row.limit, row.rate.replace("_bytes", "")) : null,
      }));
      rows.sort((a, b) => b.rejecting - a.rejecting || b.throttling - a.throttling || (b.used || 0) - (a.used || 0));
      const muted = series(snapshot, "rate_limit_muted_connections").reduce((total, row) => total + row.value, 0);
      made.update(rows, muted ? `connections that are not read now: ${number(muted)}` : "");
    },
  };
}
