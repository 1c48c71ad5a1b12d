// Views that are lists with a filter: rejections, connections; and what such a view is made of.

import { badge, bytes, clock, duration, make, NONE, number, visible } from "./dom.js";
import { json } from "./stream.js";
import { described, table } from "./tables.js";

/** A bar with a field for text, and a list for each choice. `changed` is called when one is changed. */
export function filters(names, changed) {
  const text = make("input", { type: "search", oninput: changed, spellcheck: "false", autocomplete: "off" });
  const choices = names.map((name) => make("select", { "data-of": name, "aria-label": name.replaceAll("_", " "), onchange: changed }, make("option", { value: "" }, "all")));
  const element = make("form", { class: "bar", role: "search", onsubmit: (event) => event.preventDefault() },
    make("label", {}, make("span", {}, "Filter"), text),
    names.map((name, index) => make("label", {}, make("span", {}, name.replaceAll("_", " ")), choices[index])));
  return {
    element, text,
    offer(rows) {
      for (const choice of choices) {
        const known = new Set([...choice.options].map((one) => one.value));
        for (const value of new Set(rows.map((row) => row[choice.dataset.of]).filter((one) => one))) {
          if (known.has(value) || choice.options.length > 200) continue;
          choice.append(make("option", { value }, visible(value)));
        }
      }
    },
    passes: (row, words) => choices.every((choice) => !choice.value || row[choice.dataset.of] === choice.value)
      && words.some((one) => one !== null && one !== undefined && String(one).toLowerCase().includes(text.value.toLowerCase())),
  };
}

/** A panel for all that is known of one thing. */
export function details() {
  const element = make("section", { class: "detail", hidden: true, tabindex: "-1" });
  let opener = null;
  const close = () => { element.hidden = true; element.replaceChildren(); opener?.isConnected && opener.focus(); };
  element.addEventListener("keydown", (event) => event.key === "Escape" && close());
  return {
    element,
    async open(title, path, command) {
      opener = document.activeElement;
      const body = make("div", {}, make("p", { class: "dim" }, "loading"));
      element.setAttribute("aria-label", title);
      element.replaceChildren(make("header", {}, make("h2", {}, title), make("button", { type: "button", onclick: close }, "Close")),
        ...(command ? [line(command)] : []), body);
      element.hidden = false;
      element.focus();
      try {
        body.replaceChildren(described(await json(path)));
      } catch (error) {
        body.replaceChildren(make("p", { role: "alert" }, error.message || "the token is needed again"));
      }
      element.scrollIntoView({ block: "nearest" });
    },
  };
}

/** A command to be typed in a terminal, with a button that copies it. */
function line(command) {
  const copy = make("button", { type: "button", onclick: async () => {
    try { await navigator.clipboard.writeText(command); copy.textContent = "Copied"; } catch { getSelection().selectAllChildren(code); }
  } }, "Copy");
  const code = make("code", {}, command);
  return make("p", { class: "command" }, code, copy);
}

export const choose = (text, onclick) => make("button", { type: "button", class: "link" , onclick }, text);
export const shownOf = (shown, all) => (shown === all ? number(all) : `${number(shown)} of ${number(all)}`);

/** A name as a part of a path; halves of surrogate pairs have no encoding. */
export const encode = (name) => encodeURIComponent(name.replace(/\p{Cs}/gu, "\ufffd"));

export function rejections() {
  const panel = details();
  let last = null;
  const bar = filters(["topic", "policy", "reason", "principal", "client_id"], () => last && update(last));
  const list = table("Rejections and denials", [
    { title: "Time", kind: "short", value: (row) => clock(row.timestamp) },
    { title: "Explain", kind: "short", isHeader: true, value: (row) => choose(row.id, () => panel.open(`Rejection ${row.id}`, `/rejections/${encode(row.id)}`, `kafka-sidecar explain ${row.id}`)) },
    { title: "Outcome", kind: "short", value: (row) => badge(row.outcome === "allowed" ? "warn" : "bad", row.outcome === "allowed" ? "allowed (shadow)" : row.outcome) },
    { title: "Topic", value: (row) => (row.topic === null ? row.denial?.resource ?? NONE : row.partition === null || row.partition < 0 ? row.topic : `${row.topic}-${row.partition}`) },
    { title: "Policy", kind: "short", value: (row) => row.policy },
    { title: "Reason", value: (row) => row.reason },
    { title: "Message", kind: "wide", value: (row) => row.message },
    { title: "Record", kind: "number", value: (row) => (row.index < 0 ? "batch" : `${row.index}${row.rejected_records > 1 ? ` and ${row.rejected_records - 1} more` : ""}`) },
    { title: "Client", value: (row) => [make("span", {}, row.client_id ?? NONE), make("span", { class: "dim" }, row.client)] },
    { title: "Principal", value: (row) => row.principal ?? NONE },
  ], { key: (row) => row.id, mark: (row) => (row.outcome === "allowed" ? "warned" : "troubled"), empty: "Nothing was rejected or denied, or nothing passes the filter." });
  const note = make("p", { class: "dim" }, "The last hundred, newest first. No key, value or header of a record is kept or shown.");

  function update(snapshot) {
    last = snapshot;
    if (!snapshot.rejections) return;
    const rows = snapshot.rejections.map((row) => ({ ...row, principal: row.principal ?? row.denial?.principal ?? null }));
    bar.offer(rows);
    const found = rows.filter((row) => bar.passes(row, [row.id, row.topic, row.policy, row.reason, row.message, row.client_id, row.principal, row.client, row.client_software, row.denial?.resource]));
    list.update(found, shownOf(found.length, rows.length));
  }

  return { title: "Rejections and denials", parts: "rejections", element: make("div", {}, bar.element, note, panel.element, list.element), update };
}

export function connections() {
  const panel = details();
  let last = null;
  const bar = filters(["listener", "principal", "group"], () => last && update(last));
  const list = table("Open connections", [
    { title: "Number", isHeader: true, kind: "number", value: (row) => choose(String(row.session), () => panel.open(`Connection ${row.session}`, `/connections/${row.session}`)) },
    { title: "Client id", value: (row) => row.client_id ?? NONE },
    { title: "Software", kind: "wide", value: (row) => (row.removed_apis.length ? [row.client_software ?? NONE, badge("warn", "old: Kafka 4 has removed its versions")] : row.client_software ?? NONE) },
    { title: "Principal", value: (row) => row.principal ?? NONE },
    { title: "Group", value: (row) => row.group ?? NONE },
    { title: "Waits", kind: "wide", value: (row) => row.pauses.map((one) => `${one.side} not read for ${duration(one.for_s)}: ${one.reason}`).join("; ") || NONE },
    { title: "In flight", kind: "number", value: (row) => number(row.in_flight) },
    { title: "Oldest request", kind: "number", value: (row) => duration(row.oldest_s) },
    { title: "Requests", kind: "number", value: (row) => number(row.requests) },
    { title: "In", kind: "number", value: (row) => bytes(row.bytes_from_client) },
    { title: "Out", kind: "number", value: (row) => bytes(row.bytes_from_broker) },
    { title: "Age", kind: "number", value: (row) => duration(row.duration_s) },
    { title: "Address", kind: "short", value: (row) => row.client ?? NONE },
    { title: "Listener", kind: "short", value: (row) => row.listener },
    { title: "Broker", kind: "short", value: (row) => row.broker ?? NONE },
    { title: "Last APIs", kind: "wide", value: (row) => row.apis.join(", ") || NONE },
  ], { key: (row) => row.session, mark: (row) => (row.pauses.length ? "troubled" : row.removed_apis.length ? "warned" : ""), empty: "No connection is open, or none passes the filter." });
  const closed = table("Closed connections", [
    { title: "Ended", kind: "short", value: (row) => clock(row.ended) },
    { title: "Number", kind: "number", isHeader: true, value: (row) => row.session },
    { title: "Client id", value: (row) => row.client_id ?? NONE },
    { title: "Cause", kind: "short", value: (row) => badge(NORMAL.has(row.cause) ? "dim" : "bad", row.cause) },
    { title: "Detail", kind: "wide", value: (row) => [row.reason, row.detail].filter((one) => one).join(": ") },
    { title: "Principal", value: (row) => row.principal ?? NONE },
    { title: "Group", value: (row) => row.group ?? NONE },
    { title: "Address", kind: "short", value: (row) => row.client ?? NONE },
    { title: "Listener", kind: "short", value: (row) => row.listener },
    { title: "Requests", kind: "number", value: (row) => number(row.requests) },
    { title: "Without response", kind: "number", value: (row) => number(row.in_flight) },
    { title: "Age", kind: "number", value: (row) => duration(row.duration_s) },
  ], { key: (row) => row.session, mark: (row) => (NORMAL.has(row.cause) ? "" : "troubled"), empty: "None has ended yet, or none passes the filter." });

  function update(snapshot) {
    last = snapshot;
    if (!snapshot.connections) return;
    const { open, rows, closed: ended } = snapshot.connections;
    const passes = (row) => bar.passes(row, [row.client_id, row.client, row.client_software, row.principal, row.group, row.broker, row.cause, row.detail, String(row.session), ...(row.apis || [])]);
    bar.offer(rows);
    const found = rows.filter(passes);
    list.update(found, shownOf(found.length, open));
    closed.update(ended.filter(passes).sort((a, b) => NORMAL.has(a.cause) - NORMAL.has(b.cause)));
  }

  return { title: "Connections", parts: "connections", element: make("div", {}, bar.element, panel.element, list.element, make("h2", {}, "Ended"), closed.element), update };
}

const NORMAL = new Set(["client_closed", "broker_closed", "drain", "idle", "max_age"]);
