// The stream of snapshots: Server-Sent Events by fetch, since EventSource cannot send a token.

const FIRST_PAUSE_MS = 500, MAX_PAUSE_MS = 5000;
const SILENT_MS = 6000; // without a snapshot: the connection is lost, whatever the network says
const TOKEN = "kafka-sidecar token";

export class NeedsToken extends Error {}

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => (value ? sessionStorage.setItem(TOKEN, value) : sessionStorage.removeItem(TOKEN)),
};

/** Request a page of the admin port. */
export async function request(path, options = {}) {
  const headers = token.get() ? { Authorization: `Bearer ${token.get()}` } : {};
  const response = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  if (response.status === 401) throw new NeedsToken();
  return response;
}

/** One JSON page; an error's own text where it has one. */
export async function json(path) {
  const response = await request(path);
  const value = await response.json();
  if (!response.ok) throw new Error(value.error || `status ${response.status}`);
  return value;
}

/** Calls `on.snapshot`, `on.state` ("live", "connecting", "lost") and `on.token`; `open` names the parts that it has. */
export class Stream {
  #on;
  #parts = "";
  #controller = null;
  #pause = FIRST_PAUSE_MS;
  #timer = null;
  #watch = null;

  constructor(on) {
    this.#on = on;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open(this.#parts)));
  }

  /** Begin with these parts beside the rest, in place of the stream before. */
  open(parts) {
    this.close();
    this.#parts = parts;
    this.#pause = FIRST_PAUSE_MS;
    if (!document.hidden) this.#read();
  }

  /** End the stream: the page is hidden, or another view begins. */
  close() {
    clearTimeout(this.#timer);
    clearTimeout(this.#watch);
    this.#controller?.abort();
    this.#controller = null;
  }

  async #read() {
    const controller = (this.#controller = new AbortController());
    let why = "the stream has ended";
    try {
      const response = await request(`/live${this.#parts ? `?with=${this.#parts}` : ""}`, { signal: controller.signal });
      if (!response.ok) throw new Error((await response.json()).error);
      this.#listen(controller);
      await this.#events(response.body.getReader(), controller);
    } catch (error) {
      if (controller !== this.#controller) return; // another one has begun, or the page is hidden
      if (error instanceof NeedsToken) return this.#on.token();
      why = error.message || String(error);
    }
    if (controller !== this.#controller) return;
    clearTimeout(this.#watch);
    this.#on.state("lost", why);
    this.#timer = setTimeout(() => this.#read(), this.#pause);
    this.#pause = Math.min(this.#pause * 2, MAX_PAUSE_MS);
  }

  async #events(reader, controller) {
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
      let end;
      while ((end = text.indexOf("\n\n")) >= 0) {
        const data = text.slice(0, end).split("\n").filter((line) => line.startsWith("data: "));
        text = text.slice(end + 2);
        if (controller !== this.#controller) return;
        if (data.length) this.#got(JSON.parse(data.map((line) => line.slice(6)).join("\n")), controller);
      }
    }
  }

  #got(snapshot, controller) {
    this.#pause = FIRST_PAUSE_MS;
    this.#listen(controller);
    this.#on.state("live");
    this.#on.snapshot(snapshot);
  }

  #listen(controller) {
    clearTimeout(this.#watch);
    this.#watch = setTimeout(() => controller.abort(new Error("no snapshot for six seconds")), SILENT_MS);
  }
}
