// Small charts of the last minutes. uPlot draws; colours come from the stylesheet.

import { make, write } from "./dom.js";

const POINTS = 180; // seconds that are kept
const HEIGHT = 130;

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A chart of at most five series. `format`: value => text. */
export class Chart {
  #times = [];
  #series = new Map(); // name => values
  #plot = null;
  #names = [];
  #format;
  #place;
  #key;

  constructor(title, format) {
    this.#format = format;
    this.#place = make("div", { role: "img", "aria-label": `Chart: ${title}; the table below has the same values` });
    this.#key = make("ul");
    this.element = make("figure", {}, make("figcaption", {}, title), this.#key, this.#place);
    new ResizeObserver(() => this.#plot?.setSize({ width: this.#place.clientWidth, height: HEIGHT })).observe(this.#place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw(true));
  }

  /** The values of this moment, by name: those that are largest over time get a line. */
  add(at, values) {
    this.#times.push(at);
    for (const name of Object.keys(values)) {
      if (!this.#series.has(name)) this.#series.set(name, Array(this.#times.length - 1).fill(null));
    }
    for (const [name, series] of this.#series) series.push(values[name] ?? null);
    if (this.#times.length > POINTS) {
      this.#times.shift();
      for (const series of this.#series.values()) series.shift();
    }
    for (const [name, series] of this.#series) if (series.every((one) => !one)) this.#series.delete(name);
  }

  show() {
    const largest = (name) => Math.max(...this.#series.get(name).map((one) => one || 0));
    const names = [...this.#series.keys()].sort((a, b) => largest(b) - largest(a)).slice(0, 5);
    const isNew = names.length !== this.#names.length || names.some((name) => !this.#names.includes(name));
    if (isNew) this.#names = names;
    this.#draw(isNew);
    this.#names.forEach((name, index) => {
      const series = this.#series.get(name) || [];
      write(this.#key.children[index].firstChild, `${name} ${this.#format(series.at(-1) ?? null)}`);
    });
  }

  #draw(isNew) {
    const data = [this.#times, ...this.#names.map((name) => this.#series.get(name) || this.#times.map(() => null))];
    if (this.#plot && !isNew) return this.#plot.setData(data);
    this.#plot?.destroy();
    this.#key.replaceChildren(...this.#names.map((name, index) => make("li", { class: `k${index + 1}` }, make("span"))));
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    this.#plot = new uPlot({
      width: this.#place.clientWidth || 320,
      height: HEIGHT,
      legend: { show: false },
      cursor: { show: false },
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [
        { ...axis, size: 24, space: 60, values: (_, ticks) => ticks.map((at) => new Date(at * 1000).toLocaleTimeString("en-GB")) },
        { ...axis, size: 64, values: (_, ticks) => ticks.map((one) => this.#format(one)) },
      ],
      series: [{}, ...this.#names.map((_, index) => ({ stroke: colour(`--c${index + 1}`), width: 1.5, points: { show: false } }))],
    }, data, this.#place);
  }
}
