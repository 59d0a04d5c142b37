// The console: puts what the rig says onto the page, and what is pressed here to the rig.
"use strict";

import { Health } from "./health.js";
import { Link } from "./link.js";
import { Picture } from "./picture.js";
import { Plan } from "./plan.js";
import { Sound } from "./sound.js";
import { Talk } from "./talk.js";

const byId = (id) => document.getElementById(id);
const page = document.documentElement;
const state = { light: "off", link: "down", rigLink: "waiting", told: null, rig: null, health: null, console: null };
let utcOffset = 0; // the rig's wall clock minus its monotonic clock, ms

const link = new Link(heard, (bytes) => picture.show(bytes), turned);
const picture = new Picture(link);
const plan = new Plan();
const sound = new Sound(link);
const health = new Health();
const talk = new Talk({
  clock: (t_ms) => new Date(t_ms + utcOffset).toLocaleTimeString([], { hour12: false }),
  declared: (device, why) => plan.declared(device, why),
  words: (t_ms, text) => sound.word(t_ms, text),
});

const WORDS = {
  off: ["Not running", "The rig is not running"],
  ready: ["Live", "Heard and seen, nothing is kept"],
  recording: ["Recording", ""],
  muted: ["Muted", "Nothing is heard, seen or kept"],
  lost: ["Not connected", "What is shown is not current"],
};

function heard(said) {
  if (said.hello) {
    const hello = said.hello;
    utcOffset = hello.utc_ms - hello.now_ms;
    if (JSON.stringify(state.rig) !== JSON.stringify(hello.rig)) {
      state.rig = hello.rig;
      byId("rig-name").textContent = hello.rig.name;
      byId("room-name").textContent = hello.rig.room.name;
      picture.begin(hello.rig);
      plan.begin(hello.rig);
    }
    talk.begin(hello.rig, hello.events);
    said = hello;
  }
  if (said.link) state.rigLink = said.link;
  if (said.state) light(said.state);
  if (said.home) plan.home(said.home);
  if (said.events) talk.add(said.events);
  if (said.console) state.console = said.console;
  if (said.levels) sound.meters.show(said.levels);
  if (said.rows) sound.rows(said.rows);
  if (said.doa) {
    picture.heard(said.doa);
    plan.heard(said.doa);
    sound.heard(said.doa);
  }
  if (said.tracks) {
    picture.follow(said.tracks);
    plan.follow(said.tracks);
    sound.follow(said.tracks);
  }
  if (said.health) {
    state.health = said.health;
    health.show(said.health, { pictureAge: picture.median(), doaAge: picture.doaAge, console: state.console });
  }
  if (said.link || said.state) show();
}

function light(told) {
  const before = state.told;
  state.told = told;
  if (before && state.link === "up" && before.t_ms !== told.t_ms) changes(before, told);
  if (told.muted && !before?.muted) {
    picture.blank("Muted");
    plan.blank();
    sound.blank();
  } else if (!told.muted) picture.look();
}

// The state has no events of its own: what changed is told among them.
function changes(before, told) {
  if (told.muted !== before.muted) talk.note(told.t_ms, told.muted ? "muted" : "unmuted", told.muted ? "warning" : "ok");
  if (told.recording && told.episode !== before.episode) talk.note(told.t_ms, `take began: ${told.episode}`, "fault");
  if (before.recording && told.episode !== before.episode) talk.note(told.t_ms, `take ended: ${before.episode}, being finished`, "");
}

function turned(how) {
  const was = state.link;
  state.link = how;
  if (how === "up" && was !== "up" && was !== "down") talk.note(link.now(), "connected again", "ok");
  if (how === "lost" && was === "up") talk.note(link.now(), "connection lost", "warning");
  show();
}

// The light, the words and the buttons, from everything that is known.
function show() {
  const told = state.told;
  const connected = state.link === "up" && state.rigLink !== "silent" && state.rigLink !== "ended" && told;
  const lamp = connected ? told.light : "lost";
  page.dataset.light = lamp;
  page.dataset.link = connected ? "up" : "down";
  const [word, detail] = WORDS[lamp];
  set("light-word", word);
  const finishing = told?.finishing?.length ? ` · finishing ${told.finishing.join(", ")}` : "";
  set("light-detail", lamp === "recording" ? told.episode : lamp === "muted" && told.recording ? `${detail}; the take has a gap` : detail + (lamp === "ready" ? finishing : ""));
  document.title = `${{ recording: "● ", muted: "⊘ " }[lamp] ?? ""}${word} · ${state.rig?.name ?? "Hearth"}`;
  const record = byId("record");
  record.disabled = !connected || !["ready", "recording", "muted"].includes(told.light) || (told.muted && !told.recording);
  record.classList.toggle("running", Boolean(connected && told.recording));
  record.lastElementChild.textContent = connected && told.recording ? "Stop" : "Record";
  byId("take-name").disabled = !connected || told.recording || told.muted;
  const mute = byId("mute");
  mute.disabled = !connected || told.light === "off";
  mute.setAttribute("aria-pressed", String(Boolean(connected && told.muted)));
  mute.lastElementChild.textContent = connected && told.muted ? "Unmute" : "Mute";
  trouble(
    state.link === "token" ? "This console was started anew and has another token. Open the address that hearth live printed."
      : state.link === "lost" ? "The connection to the console is lost. Trying again …"
        : state.rigLink === "silent" ? "The rig does not answer: it is stopped or hangs. Waiting for it …"
          : state.rigLink === "ended" ? "The rig has ended." : refusal,
  );
  set("link-state", connected ? `connected, ${Number.isFinite(link.way) ? `${link.way.toFixed(0)} ms there and back` : "measuring"}` : "not connected");
  tick();
}

function set(id, text) {
  const found = byId(id);
  if (found.textContent !== text) found.textContent = text;
}

let refusal = "";
let refusalTimer = 0;

function trouble(text) {
  const box = byId("trouble");
  box.hidden = !text;
  if (box.textContent !== text) box.textContent = text;
}

function refused(text) {
  refusal = text;
  clearTimeout(refusalTimer);
  refusalTimer = setTimeout(() => { refusal = ""; show(); }, 8000);
  show();
}

function tick() {
  const since = state.told?.recording ? state.told.recording_since_ns : null;
  const seconds = since ? Math.max(0, (link.now() - since / 1e6) / 1000) : null;
  const shown = seconds === null || page.dataset.light === "lost" ? ""
    : `${seconds >= 3600 ? `${Math.floor(seconds / 3600)}:` : ""}${String(Math.floor(seconds / 60) % 60).padStart(2, "0")}:${String(Math.floor(seconds) % 60).padStart(2, "0")}`;
  set("light-time", shown);
}

async function command(op, args) {
  page.classList.add("busy");
  const reply = await link.command(op, args);
  page.classList.remove("busy");
  if (!reply.ok) refused(reply.error);
  return reply.ok;
}

async function record() {
  if (byId("record").disabled) return;
  const on = !state.told.recording;
  const name = byId("take-name").value.trim();
  if ((await command("live.record", { on, ...(on && name ? { name } : {}) })) && on) byId("take-name").value = "";
}

function mute() {
  if (!byId("mute").disabled) command("live.mute", { muted: !state.told.muted });
}

byId("controls").addEventListener("submit", (event) => {
  event.preventDefault();
  record();
});
byId("mute").addEventListener("click", mute);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.target.closest("input, textarea, select")) return;
  if (event.key === "m" || event.key === "M") mute();
  else if (event.key === "r" || event.key === "R") record();
});
setInterval(tick, 250);
setInterval(show, 2000);
