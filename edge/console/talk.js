// What the agent perceived, declared and did, and everything else that happened.
"use strict";

import { sideways } from "./picture.js";

const TURNS = 10;
const LINES = 60;
const OUTCOMES = { done: "done", already: "was so already", refused: "refused", asked: "asks back", failed: "failed" };

const element = (kind, className, text) => {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};

// "1.OnOff.On": the command alone says enough beside the device's name.
const short = (command) => String(command).split(".").pop();

export class Talk {
  // clock(t_ms): time of day as text. declared(device or null, why), words(t_ms, text): for plan and chart.
  constructor({ clock, declared, words }) {
    this.clock = clock;
    this.declaredOn = declared;
    this.words = words;
    this.turns = document.getElementById("turns");
    this.empty = document.getElementById("no-turns");
    this.events = document.getElementById("events");
    this.noEvents = document.getElementById("no-events");
    this.agent = document.getElementById("agent-name");
    this.names = new Map();
    this.last = 0;
    this.turn = null;
  }

  begin(rig, events) {
    this.names = new Map(rig.room.devices.map((device) => [device.id, device.name]));
    this.yaw = rig.microphone.yaw_deg;
    // Numbers begin anew when the console's process was started again.
    const newest = events.length ? events[events.length - 1].n : 0;
    if (newest < this.last) this.last = 0;
  }

  name(id) {
    return id === null || id === undefined ? "no such device" : this.names.get(id) ?? id;
  }

  add(events) {
    for (const event of events) {
      if (event.n <= this.last) continue;
      this.last = event.n;
      this.one(event);
    }
  }

  one(event) {
    const kind = event.kind;
    if (kind === "ready") this.agent.textContent = `${event.agent || "an agent"} listens`;
    else if (kind === "heard") this.begins(event);
    else if (kind === "declared") this.declares(event);
    else if (kind === "said") this.says(event.text);
    else if (kind === "finished") this.finishes(event);
    else if (kind === "command" && this.turn) this.does(event);
    this.line(event);
  }

  begins(event) {
    const item = element("li", "turn");
    const head = element("p", "asked");
    head.append(element("q", "", event.text || "…"), element("time", "", this.clock(event.t_ms)));
    item.append(head);
    this.turns.prepend(item);
    while (this.turns.children.length > TURNS) this.turns.lastElementChild.remove();
    this.empty.hidden = true;
    this.turn = { item };
    this.declaredOn(null);
    this.words(event.t_ms, event.text || "…");
  }

  declares(event) {
    if (!this.turn) this.begins({ ...event, text: "" });
    const box = element("div", "means");
    const line = element("p", "declared");
    line.append("takes it to be the ", element("b", "", this.name(event.device_id)));
    if (event.talker) line.append(element("small", "", ` asked from ${sideways(this.ofMicrophone(event.talker.azimuth_deg))}`));
    box.append(line);
    const candidates = (event.candidates ?? []).filter((c, place) => place < 3 || c.probability > 0.005);
    if (candidates.length > 1 || event.none > 0.005 || (candidates.length === 1 && candidates[0].device_id !== event.device_id)) {
      const odds = element("ul", "odds");
      for (const candidate of candidates) {
        const row = this.odd(candidate.name ?? this.name(candidate.device_id), candidate.probability, candidate.device_id === event.device_id);
        odds.append(row);
      }
      if (event.none > 0.005) odds.append(this.odd("none of them", event.none, event.device_id === null));
      box.append(odds);
    }
    if (event.tools?.length) box.append(this.found(event));
    this.turn.item.append(box);
    this.declaredOn(event.device_id, event);
  }

  odd(name, probability, chosen) {
    const row = element("li", chosen ? "chosen" : "");
    const bar = element("span", "bar");
    bar.append(element("i"));
    bar.firstChild.style.width = `${(100 * probability).toFixed(0)}%`;
    row.append(element("span", "who", name), bar, element("span", "share", `${(100 * probability).toFixed(0)} %`));
    return row;
  }

  // What each tool of perception found, and how long it took.
  found(event) {
    const list = element("ul", "found");
    for (const one of event.tools) {
      const row = element("li", one.confidence > 0 ? "" : "nothing");
      row.append(element("span", "tool", one.tool.replace("_", " ")), element("span", "", one.text));
      if (one.ms !== null) row.append(element("small", "", `${one.ms} ms`));
      list.append(row);
    }
    return list;
  }

  // Directions of the agent's evidence are in the room's frame.
  ofMicrophone(azimuth) {
    return ((((azimuth - this.yaw + 180) % 360) + 360) % 360) - 180;
  }

  does(event) {
    const line = element("p", event.ok ? "did" : "did failed", `${short(event.command)} → ${this.name(event.device_id)}`);
    if (!event.ok) line.append(element("small", "", ` refused: ${event.error ?? ""}`));
    this.turn.item.append(line);
  }

  says(text) {
    if (this.turn) this.turn.item.append(element("p", "said", text));
  }

  finishes(event) {
    if (!this.turn) return;
    const chip = element("span", `chip ${event.outcome === "failed" ? "fault" : event.outcome === "done" || event.outcome === "already" ? "ok" : "warning"}`, OUTCOMES[event.outcome] ?? event.outcome);
    this.turn.item.firstElementChild.append(chip);
    this.turn = null;
  }

  line(event) {
    const row = this.losses;
    if (event.kind === "gap" && row && row.item === this.events.firstElementChild && !(event.flags ?? []).includes("muted")) {
      row.count += 1; // one after the other: they would push out everything else
      row.frames += event.lost_frames;
      row.item.lastElementChild.textContent = `${row.frames} samples of sound lost in ${row.count} gaps`;
      return;
    }
    const [text, level] = this.inWords(event);
    const item = element("li", level);
    item.append(element("time", "", this.clock(event.t_ms)), element("span", "", text));
    this.put(item);
    this.losses = event.kind === "gap" && level === "fault" ? { item, count: 1, frames: event.lost_frames } : null;
  }

  put(item) {
    this.events.prepend(item);
    this.noEvents.hidden = true;
    while (this.events.children.length > LINES) this.events.lastElementChild.remove();
  }

  // A note of this page itself.
  note(t_ms, text, level = "") {
    const item = element("li", level);
    item.append(element("time", "", this.clock(t_ms)), element("span", "", text));
    this.put(item);
  }

  inWords(event) {
    const detail = event.detail ? `: ${event.detail}` : "";
    const source = event.source ?? "";
    switch (event.kind) {
      case "heard": return [`agent heard “${event.text}”`, "agent"];
      case "declared": return [`agent declares: ${this.name(event.device_id)}`, "agent"];
      case "said": return [`agent says “${event.text}”`, "agent"];
      case "finished": return [`agent is done: ${OUTCOMES[event.outcome] ?? event.outcome}`, "agent"];
      case "ready": return [`${event.agent || "an agent"} is ready`, "agent"];
      case "command": return [`${event.ok ? "" : "refused: "}${short(event.command)} → ${this.name(event.device_id)}`, event.ok ? "home" : "warning"];
      case "speech": return [event.on ? "somebody begins to speak" : "the speech is over", ""];
      case "alarm": return [`an alarm tone is heard${detail}`, "warning"];
      case "stop": case "mute": return [`heard “${event.text ?? event.kind}” and obeyed at once`, "agent"];
      case "safety": return [`against a rule of the house: ${event.rule ?? event.text ?? event.detail ?? ""}`, "warning"];
      case "recorded": return [`take finished: ${event.path}`, "ok"];
      case "recording_failed": return [`the take failed${detail}`, "fault"];
      case "gap": return (event.flags ?? []).includes("muted") ? ["heard again after the mute", "ok"] : [`${event.lost_frames} samples of sound lost`, "fault"];
      case "lost": return [`${source} lost${detail}`, "fault"];
      case "returned": return [`${source} is back${detail}`, "ok"];
      case "ended": return [`${source} is over${detail}`, ""];
      case "failed": return [`${event.part} failed${detail}`, "fault"];
      case "channels": return [event.detail ?? "fault of the channels", event.severity === "fault" ? "fault" : "warning"];
      case "stalled": case "overflow": case "error": case "frozen": case "warning": case "rate":
        return [`${source} ${event.kind}${detail}`, "warning"];
      default: return [`${source ? `${source} ` : ""}${event.kind}${detail}`, ""];
    }
  }
}
