// The page: shows one view, passes snapshots to it, and says whether they are live.

import { make, write } from "./dom.js";
import { all, audit, deadLetters, plugIns } from "./features.js";
import { connections, rejections } from "./lists.js";
import { now } from "./now.js";
import { Stream, token } from "./stream.js";
import { topics } from "./topics.js";

const first = now();
const MAKERS = { now: () => first, topics, rejections, connections, "plug-ins": plugIns, "dead-letters": deadLetters, audit, metrics: all };
const made = {};
const view = document.getElementById("view"), state = document.getElementById("state"), login = document.getElementById("login");
let current = null, seen = null;

const stream = new Stream({ snapshot: got, state: say, token: askForToken });

function got(snapshot) {
  if (snapshot.timestamp !== seen) first.remember(snapshot); // it may come again, with other rejections
  seen = snapshot.timestamp;
  current.update(snapshot);
  const versions = [...new Set(snapshot.workers.map((one) => one.version))].join(", ");
  const hash = snapshot.sidecar.configuration?.hash;
  write(document.getElementById("where"), `${location.host}, version ${versions || "unknown"}${typeof hash === "string" ? `, configuration ${hash}` : ""}`);
}

function say(what, why) {
  state.dataset.state = what;
  const text = { live: "live", connecting: "connecting", lost: "not live: trying again" }[what];
  if (state.textContent !== text) state.textContent = text; // read aloud when it changes
  state.title = why || "";
  view.toggleAttribute("data-stale", what === "lost");
}

function askForToken() {
  const isWrong = token.get() !== null;
  token.set(null);
  say("connecting");
  view.hidden = true;
  login.hidden = false;
  document.getElementById("login-error").textContent = isWrong ? "This is not the token." : "";
  document.getElementById("token").focus();
}

login.addEventListener("submit", (event) => {
  event.preventDefault();
  const field = document.getElementById("token");
  token.set(field.value.trim());
  field.value = "";
  login.hidden = true;
  view.hidden = false;
  stream.open(current.parts);
});

function go() {
  const name = location.hash.slice(1);
  if (name === "view" && current) return view.focus();
  const shown = MAKERS[name] ? name : "now";
  current = made[shown] ||= MAKERS[shown]();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${shown}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${current.title} - kafka-sidecar`;
  view.replaceChildren(make("h2", {}, current.title), current.element);
  say("connecting");
  stream.open(current.parts);
}

addEventListener("hashchange", go);
go();
