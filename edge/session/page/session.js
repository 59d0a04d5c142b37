// The page of `hearth session`: shows the engine's state, sends what is pressed.
"use strict";

import { Link } from "./link.js";
import { drawRoom } from "./room.js";

const KEYS = {
  go: ["G", "Go"], keep: ["K", "Keep"], retake: ["R", "Retake"], note: ["N", "Note"], skip: ["S", "Skip"], back: ["B", "Back"],
  next: ["X", "Next"], drop: ["D", "Drop"], cancel: ["C", "Cancel"], stop: ["E", "End the take"], quit: ["Q", "Quit"],
};
const HEADINGS = {
  preparing: "One moment", room: "Change of room", ready: "Ready", countdown: "Get ready", recording: "Recording", finishing: "Finishing",
  decide: "Keep it?", kept: "Kept", done: "Done", over: "The session is over",
};
const VERDICTS = { ok: "ok", warning: "warning", bad: "fault", "not checked": "unknown" };

const by = (id) => document.getElementById(id);
const root = document.documentElement;
const element = (kind, className, text) => {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};

let state = null;
let link = null;
let complaint = ""; // of the last command; goes with the next turn
let drawn = 0;

function show(next) {
  const fresh = !state || state.turn !== next.turn;
  if (fresh) complaint = "";
  state = next;
  root.dataset.phase = state.phase;
  root.dataset.light = state.phase === "recording" ? "recording" : "ready";
  by("phase").textContent = HEADINGS[state.phase] ?? state.phase;
  by("where").textContent = state.item ? `${state.item.id} · take ${state.take ?? "-"} · ${state.item.room.name}` : state.session;
  by("time").textContent = state.phase === "recording" && state.meter ? `${state.meter.seconds.toFixed(1)} s` : "";
  progress(state.progress);
  trouble();
  by("message").textContent = state.phase === "recording" ? "" : state.message;
  by("count").hidden = state.count === null;
  by("count").textContent = state.count ?? "";
  level();
  if (state.version !== drawn && (fresh || state.item)) item(state.item);
  drawn = state.version;
  checks();
  if (fresh) keys();
}

function progress(told) {
  by("kept").textContent = `${told.kept} of ${told.total}`;
  const left = told.minutes_left !== null && told.open ? `, about ${Math.round(told.minutes_left)} min left` : "";
  const takes = `${told.takes_today} ${told.takes_today === 1 ? "take" : "takes"}`;
  by("today").textContent = `kept; today ${told.kept_today} of ${takes}${told.skipped ? `, ${told.skipped} skipped` : ""}${left}`;
  by("bar").style.width = `${(100 * told.kept) / Math.max(1, told.total)}%`;
}

function trouble() {
  const text = [state?.refused && `Must not be recorded: ${state.refused}`, state?.trouble, complaint].filter(Boolean).join(" — ");
  by("trouble").hidden = !text;
  by("trouble").textContent = text;
}

function level() {
  const meter = state.phase === "recording" ? state.meter : null;
  by("level").hidden = !meter;
  if (!meter) return;
  const share = Math.min(1, Math.max(0, (Math.max(...meter.peak_dbfs) + 60) / 60));
  by("level-rms").style.clipPath = `inset(0 ${(100 * (1 - share)).toFixed(1)}% 0 0)`;
  if (meter.clipped) by("where").textContent = "CLIPPED: turn the gain down";
}

function item(one) {
  by("who").textContent = one ? `${one.speaker_name} says` : "\u00a0";
  by("request").textContent = one ? one.request : "";
  by("room-name").textContent = one ? one.room.name : "Room";
  by("kind").textContent = one ? [one.grounding, one.query, one.feasibility.replaceAll("_", " "), one.difficulty].filter(Boolean).join(" · ") : "";
  drawRoom(by("room"), one);
  by("people").replaceChildren(
    ...(one?.people ?? []).map((person) => {
      const row = element("li", person.speaks ? "speaks" : "");
      row.append(element("b", "", person.name), `: ${[person.where, person.facing, person.points_at && `points at the ${person.points_at}`].filter(Boolean).join(", ")}`);
      return row;
    }),
  );
  const lines = [...(one?.do ?? []), ...(one?.loudspeaker ? [`The loudspeaker stands at the ${one.loudspeaker}.`] : [])];
  by("do").replaceChildren(...lines.map((line) => element("li", "", line)));
  by("devices").replaceChildren(
    ...(one?.devices ?? []).map((device) => {
      const row = element("li", device.sounds ? "sounds" : "");
      row.append(`${device.name} `, element("span", "state", device.sounds ? `${device.state}, sounds` : device.state));
      return row;
    }),
  );
  by("notes").replaceChildren(...(one?.notes ?? []).map((text) => element("li", "", text)));
}

function checks() {
  by("checks").hidden = state.checks.length === 0;
  by("checks").replaceChildren(
    ...state.checks.map((check) => {
      const row = element("li");
      row.append(element("span", `chip ${VERDICTS[check.verdict]}`, check.verdict), element("b", "", check.name), element("span", "", check.text));
      return row;
    }),
  );
}

function keys() {
  closeNote();
  by("keys").replaceChildren(
    ...state.can.map((op) => {
      const [key, words] = KEYS[op];
      const button = element("button", op === state.enter ? "first" : "");
      button.type = "button";
      button.dataset.op = op;
      button.setAttribute("aria-keyshortcuts", key);
      button.append(element("kbd", "", op === state.enter ? `Enter · Space · ${key}` : key), words);
      button.addEventListener("click", () => press(op));
      return button;
    }),
  );
}

async function press(op, text = "") {
  if (op === "note" && !text) return openNote();
  const reply = await link.command(op, { text, turn: state.turn });
  complaint = reply.ok ? "" : reply.error;
  return trouble();
}

function openNote() {
  by("note-form").hidden = false;
  by("note").value = "";
  by("note").focus();
}

function closeNote() {
  by("note-form").hidden = true;
  if (document.activeElement === by("note")) by("note").blur();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || !state) return;
  if (!by("note-form").hidden) {
    if (event.key === "Escape") closeNote();
    return;
  }
  if (event.target instanceof HTMLButtonElement && (event.key === "Enter" || event.key === " ")) return; // its own click
  const op = event.key === "Enter" || event.key === " " ? state.enter : state.can.find((one) => KEYS[one][0].toLowerCase() === event.key.toLowerCase());
  if (!op) return;
  event.preventDefault();
  press(op);
});

by("note-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = by("note").value.trim();
  closeNote();
  if (text) press("note", text);
});

link = new Link(
  (said) => {
    if (said.state) show(said.state);
  },
  () => {},
  (turn) => {
    if (turn === "up") {
      root.dataset.link = "up";
      return;
    }
    root.dataset.link = "down";
    root.dataset.light = state?.phase === "over" ? "ready" : "lost";
    by("phase").textContent = state?.phase === "over" ? HEADINGS.over : "Not connected";
    by("where").textContent = turn === "token" ? "This page needs a new token: open the address that the session printed" : state?.phase === "over" ? "It has ended" : "Waiting for the session";
    by("keys").replaceChildren();
  },
);
