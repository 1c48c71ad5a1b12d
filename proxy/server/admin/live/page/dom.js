// Elements with text. Text is only ever set as text: names are chosen by clients, and may be hostile.

// Characters that are invisible or make other text look different: controls, formats such as bidi marks, odd spaces, halves of
// surrogate pairs, private characters and those without a meaning.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u115f\u1160\u3164\uffa0\u034f\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/gu;
const LETTERS = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function escaped(character) {
  if (LETTERS[character]) return LETTERS[character];
  const code = character.codePointAt(0);
  return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** A text with invisible characters escaped. */
export function visible(text) {
  return String(text).replace(INVISIBLE, escaped);
}

/** Show a text in an element, with what is escaped marked as such. */
export function write(element, text) {
  const shown = text === null || text === undefined ? "" : String(text);
  if (element.written === shown && element.hasChildNodes()) return;
  element.written = shown;
  const parts = [];
  let from = 0;
  for (const found of shown.matchAll(INVISIBLE)) {
    if (found.index > from) parts.push(shown.slice(from, found.index));
    const mark = document.createElement("span");
    mark.className = "esc";
    mark.textContent = escaped(found[0]);
    parts.push(mark);
    from = found.index + found[0].length;
  }
  if (from < shown.length || !parts.length) parts.push(shown.slice(from));
  element.replaceChildren(...parts);
}

/** An element: `make("td", {class: "text"}, "a text", anElement)`. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value);
  }
  for (const child of children.flat()) {
    if (child instanceof Node) element.append(child);
    else if (child !== null && child !== undefined) {
      if (children.length === 1) write(element, child);
      else {
        const part = document.createElement("span");
        write(part, child);
        element.append(part);
      }
    }
  }
  return element;
}

export function badge(kind, text) {
  return make("span", { class: `badge ${kind}` }, text);
}

/** Replace what an element has, unless it looks the same: so focus and selection stay where nothing has changed. */
export function show(element, ...children) {
  const next = document.createElement("div");
  next.append(...children.flat().filter((child) => child !== null && child !== undefined));
  if (next.innerHTML === element.innerHTML) return; // compared as text, and never parsed
  element.replaceChildren(...next.childNodes);
}

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const PART = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
export const NONE = "–";

export function number(value) {
  if (value === null || value === undefined) return NONE;
  return Math.abs(value) >= 100 || Number.isInteger(value) ? WHOLE.format(value) : PART.format(value);
}

/** So many a second: what is nearly a whole number is one. */
export function rate(value) {
  return value === null || value === undefined ? NONE : number(value < 10 ? Math.round(value * 10) / 10 : Math.round(value));
}

export function bytes(value) {
  if (value === null || value === undefined) return NONE;
  let size = value, unit = 0;
  while (size >= 1000 && unit < 4) { size /= 1000; unit += 1; }
  return `${number(unit ? Number(size.toPrecision(3)) : Math.round(size))} ${["B", "kB", "MB", "GB", "TB"][unit]}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds === 0) return "0 ms";
  if (seconds < 1) return `${PART.format(seconds * 1000)} ms`;
  if (seconds < 120) return `${PART.format(seconds)} s`;
  if (seconds < 7200) return `${WHOLE.format(seconds / 60)} min`;
  if (seconds < 172800) return `${WHOLE.format(seconds / 3600)} h`;
  return `${WHOLE.format(seconds / 86400)} d`;
}

export function share(value) {
  return value === null || value === undefined ? NONE : `${number(value * 100)} %`;
}

/** The time of day of a timestamp, in the browser's zone. */
export function clock(timestamp) {
  const date = new Date(timestamp);
  return Number.isNaN(date.getTime()) ? String(timestamp) : date.toLocaleTimeString("en-GB");
}
