// The WebSocket to the rig's console: comes back by itself, and knows the rig's clock.
"use strict";

const PAUSES_S = [0.3, 0.7, 1.5, 3, 5];
const SILENT_MS = 4500; // the console says something every second
const PING_MS = 2000;

export class Link {
  // heard(object), pictured(ArrayBuffer), turned(state): "up", "lost" (it is tried again), "token" (another is needed)
  constructor(heard, pictured, turned) {
    this.heard = heard;
    this.pictured = pictured;
    this.turned = turned;
    this.tries = 0;
    this.clock = []; // of the last pings: {way: ms there and back, offset: ms}
    this.offset = null;
    this.waiting = new Map(); // commands without an answer
    this.number = 0;
    this.lastHeard = 0;
    setInterval(() => this.look(), 500);
    setInterval(() => this.send({ ping: performance.now() }), PING_MS);
    this.connect();
  }

  connect() {
    const socket = new WebSocket(`ws://${location.host}/data`);
    this.socket = socket;
    this.lastHeard = performance.now();
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.tries = 0;
      this.clock = [];
      this.turned("up");
      this.send({ ping: performance.now() });
    };
    socket.onmessage = (event) => {
      this.lastHeard = performance.now();
      if (typeof event.data !== "string") return this.pictured(event.data);
      const said = JSON.parse(event.data);
      if ("pong" in said) return this.compare(said);
      if (said.reply) return this.answered(said.reply);
      if (said.hello && this.offset === null) this.offset = said.hello.now_ms - performance.now();
      return this.heard(said);
    };
    socket.onclose = () => this.lost(socket);
    socket.onerror = () => socket.close();
  }

  lost(socket) {
    if (socket !== this.socket) return;
    this.socket = null;
    for (const answer of this.waiting.values()) answer({ ok: false, error: "the connection was lost" });
    this.waiting.clear();
    this.turned("lost");
    this.later();
  }

  later() {
    setTimeout(() => this.again(), 1000 * PAUSES_S[Math.min(this.tries++, PAUSES_S.length - 1)]);
  }

  // A refused WebSocket does not say why: a request does.
  async again() {
    try {
      const found = await fetch("/icon.svg", { cache: "no-store" });
      if (found.status === 401) this.turned("token");
      if (found.ok) return this.connect();
    } catch (error) {
      // nobody is there
    }
    return this.later();
  }

  look() {
    const socket = this.socket;
    if (socket && performance.now() - this.lastHeard > SILENT_MS) {
      socket.onclose = null;
      socket.close();
      this.lost(socket);
    }
  }

  send(what) {
    if (this.socket && this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(what));
  }

  command(op, args) {
    const id = String(++this.number);
    return new Promise((resolve) => {
      if (!this.socket || this.socket.readyState !== WebSocket.OPEN) {
        resolve({ ok: false, error: "there is no connection to the rig" });
        return;
      }
      this.waiting.set(id, resolve);
      this.send({ op, args, id });
    });
  }

  answered(reply) {
    const resolve = this.waiting.get(reply.id);
    this.waiting.delete(reply.id);
    if (resolve) resolve(reply);
  }

  // The quickest of the last eight pings tells the clocks apart best.
  compare(pong) {
    const now = performance.now();
    const way = now - pong.pong;
    this.clock.push({ way, offset: pong.now_ms - (pong.pong + now) / 2 });
    if (this.clock.length > 8) this.clock.shift();
    const best = this.clock.reduce((a, b) => (b.way < a.way ? b : a));
    this.offset = best.offset;
    this.way = best.way;
  }

  // The rig's clock, ms.
  now() {
    return performance.now() + (this.offset ?? 0);
  }
}
