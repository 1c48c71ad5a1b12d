// The view of topics: what applies to each, what passes, and what is rejected.

import { badge, bytes, make, NONE, number, rate, visible } from "./dom.js";
import { choose, details, encode, filters, shownOf } from "./lists.js";
import { table } from "./tables.js";
import { passing } from "./traffic.js";
import { labelled } from "./series.js";

// What features say of a topic, and its column; all else is in the last one.
const SAID = ["dead letters", "of shadow", "unusable", "habits", "rate limits", "guards", "consumers", "subjects"];
// Metrics that have a column.
const COUNTED = new Set(["rejected_records", "records", "record_bytes", "producer_violations", "rejected_fetched_records", "dead_letters_sent", "dead_letters_queued"]);
const listed = (values) => (values?.length ? values.join("; ") : NONE);

export function topics() {
  const panel = details();
  let last = null;
  const bar = filters([], () => last && update(last));
  const ask = make("button", { type: "button", onclick: () => bar.text.value && open(bar.text.value) }, "Explain this name");
  bar.element.append(ask);
  const open = (name) => panel.open(`Topic ${visible(name)}`, `/topics/${encode(name)}`, /^[\w.-]+$/.test(name) ? `kafka-sidecar topics ${name}` : null);
  const list = table("Topics", [
    { title: "Topic", isHeader: true, value: (row) => choose(row.topic, () => open(row.topic)) },
    { title: "Records in/s", kind: "number", value: (row) => rate(row.passes?.in) },
    { title: "In/s", kind: "number", value: (row) => bytes(row.passes?.bytesIn) },
    { title: "Records out/s", kind: "number", value: (row) => rate(row.passes?.out) },
    { title: "Out/s", kind: "number", value: (row) => bytes(row.passes?.bytesOut) },
    { title: "Rejected/s", kind: "number", value: (row) => rate(row.counted.rejected_rate) },
    { title: "Rejected", kind: "number", value: (row) => number(row.counted.rejected) },
    { title: "Shadow would reject", kind: "number", value: (row) => number(row.counted.shadow) },
    { title: "Mode", kind: "short", value: (row) => mode(row.validation) },
    { title: "Share", kind: "number", value: (row) => (row.validation.percent === undefined ? NONE : `${row.validation.percent} %`) },
    { title: "Policies", kind: "wide", value: (row) => row.validation["record.validation.policy"] ?? row.validation.why },
    { title: "Subjects", name: "subjects", value: (row) => listed(row.said.subjects) },
    { title: "Dead letters go to", name: "dead letters", value: letters },
    { title: "Producers must", name: "habits", kind: "wide", value: (row) => violated(row.said.habits, row.counted.habits) },
    { title: "Rate limits", name: "rate limits", kind: "wide", value: (row) => listed(row.said["rate limits"]) },
    { title: "Guards", name: "guards", kind: "wide", value: (row) => listed(row.said.guards) },
    { title: "For consumers", name: "consumers", value: (row) => violated(row.said.consumers && [row.said.consumers], row.counted.fetched) },
    { title: "Interceptors, in order", kind: "wide", value: (row) => row.interceptors.join(", ") || NONE },
    { title: "Source", value: (row) => row.validation.source ?? NONE },
    { title: "More", kind: "wide", value: (row) => row.more || NONE },
  ], { key: (row) => row.topic, mark: (row) => (row.counted.rejected_rate || row.said.unusable ? "troubled" : trouble(row) ? "warned" : ""), empty: "No topic passes the filter." });

  function update(snapshot) {
    last = snapshot;
    if (!snapshot.topics) return;
    const counted = byTopic(snapshot), passes = passing(snapshot, (of) => of.topic);
    const rows = snapshot.topics.rows.map((row) => {
      const said = Object.assign({}, ...Object.values(row.features));
      const letterTopic = said["dead letters"];
      return {
        ...row, said, counted: counted.get(row.topic)?.own || {}, passes: passes.get(row.topic), more: more(said, counted.get(row.topic)),
        letters: letterTopic ? counted.get(letterTopic)?.own.letters || 0 : null,
      };
    });
    const found = rows.filter((row) => bar.passes(row, [row.topic, row.validation["record.validation.policy"], row.validation.mode, ...[row.said.habits, row.said.guards, row.said["rate limits"], row.said["dead letters"]].flat()]));
    found.sort((a, b) => (b.counted.rejected_rate || 0) - (a.counted.rejected_rate || 0) || Boolean(b.said.unusable) - Boolean(a.said.unusable)
      || trouble(b) - trouble(a) || volume(b) - volume(a));
    list.hide((column) => column.name && !rows.some((row) => row.said[column.name]));
    list.update(found, `${shownOf(found.length, snapshot.topics.known)}${rows.length < snapshot.topics.known ? "; any other name can be explained" : ""}`);
  }

  return { title: "Topics", parts: "topics,traffic", element: make("div", {}, bar.element, panel.element, list.element), update };
}

/** How much was not as it should be, in all. */
const trouble = ({ counted }) => (counted.rejected || 0) + (counted.shadow || 0) + (counted.habits || 0) + (counted.fetched || 0);
const volume = (row) => (row.passes?.bytesIn || 0) + (row.passes?.bytesOut || 0);

function letters(row) {
  if (!row.said["dead letters"]) return NONE;
  const parts = [make("span", {}, row.said["dead letters"]), make("span", { class: "dim" }, `${number(row.letters)} sent${row.said["of shadow"] ? ", shadow too" : ""}`)];
  return row.said.unusable ? [...parts, badge("bad", row.said.unusable)] : parts;
}

function violated(texts, count) {
  if (!texts?.length) return NONE;
  return count ? [make("span", {}, texts.join("; ")), badge("warn", `${number(count)} not as required`)] : texts.join("; ");
}

function mode(validation) {
  if (!validation.mode) return badge("dim", "none");
  return badge(validation.mode === "enforce" ? "good" : "warn", validation.mode);
}

/** What metrics with the label `topic` have counted, by topic. */
function byTopic(snapshot) {
  const found = new Map();
  for (const families of Object.values(snapshot.metrics)) {
    for (const family of families.filter((one) => one.labels.includes("topic"))) {
      for (const row of labelled(family)) {
        if (!found.has(row.of.topic)) found.set(row.of.topic, { own: {}, others: new Map() });
        const { own, others } = found.get(row.of.topic);
        const add = (name, value) => { own[name] = (own[name] || 0) + value; };
        if (family.name === "rejected_records") {
          add(row.of.mode === "shadow" ? "shadow" : "rejected", row.value);
          if (row.of.mode !== "shadow") add("rejected_rate", row.rate || 0);
        } else if (family.name === "producer_violations") add("habits", row.value);
        else if (family.name === "rejected_fetched_records") add("fetched", row.value);
        else if (family.name === "dead_letters_sent") add("letters", row.value);
        if (!COUNTED.has(family.name)) others.set(family.name, (others.get(family.name) || 0) + row.value);
      }
    }
  }
  return found;
}

/** What the page has no column for: of features, and of metrics that are counted by topic. */
function more(said, counted) {
  const facts = Object.entries(said).filter(([key]) => !SAID.includes(key))
    .map(([key, value]) => (value === true ? key : value === false ? `not ${key}` : `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`));
  const received = counted?.own.letters ? [`${number(counted.own.letters)} dead letters received`] : [];
  return [...facts, ...received, ...[...(counted?.others || [])].map(([name, value]) => `${name.replaceAll("_", " ")} ${number(value)}`)].join(", ");
}
