// Tables that are updated in place: a row keeps its element, so focus, selection and scrolling stay.

import { make, write } from "./dom.js";

/**
 * A table. `columns`: {title, kind: "text" | "short" | "number", value: row => text or element, isHeader}.
 * `key`: row => what makes it this row. `mark`: row => "troubled", "warned" or "".
 */
export function table(title, columns, { key, mark = () => "", empty = "Nothing yet." }) {
  const body = make("tbody");
  const caption = make("caption", {}, title);
  const head = columns.map((one) => make("th", { scope: "col", class: one.kind || "text" }, one.title));
  const element = make("div", { class: "frame", tabindex: "0", role: "region", "aria-label": title },
    make("table", {}, caption, make("thead", {}, make("tr", {}, head)), body));
  let rows = new Map();
  let nothing = null;

  function update(values, note) {
    write(caption, note ? `${title}: ${note}` : title);
    const next = new Map();
    for (const value of values) {
      const name = key(value);
      if (next.has(name)) continue;
      next.set(name, drawn(rows.get(name) || created(), value));
    }
    const isHeld = body.contains(document.activeElement);
    for (const [name, row] of rows) if (!next.has(name)) row.remove();
    let at = body.firstChild;
    for (const row of next.values()) {
      if (row === at) at = at.nextSibling;
      else if (!isHeld || !row.parentNode) body.insertBefore(row, at); // a row that moves would lose the focus
    }
    rows = next;
    if (!next.size && !nothing) {
      nothing = make("tr", {}, make("td", { class: "empty", colspan: columns.length }, empty));
      body.append(nothing);
    } else if (next.size && nothing) {
      nothing.remove();
      nothing = null;
    }
  }

  function created() {
    return make("tr", {}, columns.map((one) => make(one.isHeader ? "th" : "td",
      { class: one.kind || "text", scope: one.isHeader ? "row" : null })));
  }

  function drawn(row, value) {
    row.className = mark(value);
    columns.forEach((column, index) => {
      row.children[index].hidden = Boolean(column.isHidden);
      if (!column.isHidden) fill(row.children[index], column.value(value));
    });
    return row;
  }

  /** Show no columns of which `isHidden` says so: those of what is not configured. */
  function hide(isHidden) {
    columns.forEach((column, index) => {
      column.isHidden = Boolean(isHidden(column));
      head[index].hidden = column.isHidden;
    });
  }

  return { element, update, hide };
}

function fill(cell, content) {
  if (content instanceof Node || Array.isArray(content)) {
    const parts = [content].flat().filter((part) => part !== null);
    const text = parts.map((part) => (part instanceof Node ? part.outerHTML : part)).join("\u0000"); // only compared
    if (cell.shown === text) return;
    cell.shown = text;
    cell.written = undefined;
    cell.replaceChildren(...parts.flatMap((part, index) => (index ? [" ", part] : [part])));
    return;
  }
  cell.shown = undefined;
  write(cell, content);
}

/** Any JSON value as a list of facts, with tables for lists of objects: for values that the page has no view of. */
export function described(value) {
  if (Array.isArray(value)) {
    if (!value.length) return make("span", { class: "dim" }, "none");
    if (value.every((one) => one && typeof one === "object" && !Array.isArray(one))) return listed(value);
    return make("span", {}, value.map((one) => (one && typeof one === "object" ? JSON.stringify(one) : String(one))).join(", "));
  }
  if (value && typeof value === "object") {
    const facts = Object.entries(value).flatMap(([key, one]) => [
      make("dt", {}, key.replaceAll("_", " ")), make("dd", {}, described(one)),
    ]);
    return facts.length ? make("dl", { class: "facts" }, facts) : make("span", { class: "dim" }, "nothing");
  }
  if (value === null || value === undefined) return make("span", { class: "dim" }, "–");
  return make("span", {}, String(value));
}

function listed(rows) {
  const keys = [...new Set(rows.flatMap(Object.keys))];
  const columns = keys.map((key) => ({
    title: key.replaceAll("_", " "),
    value: (row) => (row[key] !== null && typeof row[key] === "object" ? described(row[key]) : String(row[key] ?? "–")),
  }));
  const made = table(`${rows.length} rows`, columns, { key: (row) => JSON.stringify(row) });
  made.update(rows);
  return made.element;
}
