// How the rig is: what was lost, how long things take, what the computer has left.
"use strict";

const WORDS = {
  levels: "levels", resample: "48 → 24 kHz", capture: "microphone → chain", doa: "direction and tracks", publish: "onto the sockets",
  captured_to_published: "end of a block → on the stream", jpeg: "picture to JPEG", picture_to_published: "picture taken → on the stream",
  receive: "on the stream → in the slowest client",
};

export class Health {
  constructor() {
    this.list = document.getElementById("health");
    this.verdict = document.getElementById("verdict");
    this.stages = document.getElementById("stages");
    this.tiles = new Map();
  }

  tile(name, value, note, level) {
    let tile = this.tiles.get(name);
    if (!tile) {
      const box = document.createElement("div");
      const [term, figure, small] = [document.createElement("dt"), document.createElement("dd"), document.createElement("dd")];
      term.textContent = name;
      small.className = "note";
      box.append(term, figure, small);
      this.list.append(box);
      tile = { box, figure, small };
      this.tiles.set(name, tile);
    }
    tile.box.className = level ?? "";
    if (tile.figure.textContent !== value) tile.figure.textContent = value;
    if (tile.small.textContent !== note) tile.small.textContent = note;
    return level;
  }

  // health: the rig's, once a second; page: {way, pictureAge, doaAge, console, temperature...} of this page.
  show(health, page) {
    const ms = (value) => (Number.isFinite(value) ? `${value.toFixed(0)} ms` : "–");
    const times = health.stages?.captured_to_published;
    const free = health.disk_free_mib;
    const hot = health.temperature_c;
    const clock = health.drift_ppm;
    const found = [
      this.tile("Sound", health.blocks_dropped || health.lost_frames ? `${health.lost_frames} lost` : "nothing lost",
        `${health.gaps} gaps, ${health.blocks_dropped} blocks too late`, health.blocks_dropped || health.lost_frames ? "warning" : "ok"),
      this.tile("Pictures", `${health.pictures_dropped} dropped`, `of ${health.pictures + health.pictures_dropped}`,
        health.pictures_dropped > 0.02 * health.pictures ? "warning" : "ok"),
      this.tile("Sound to stream", times ? `${times.p50_ms.toFixed(1)} ms` : "–", times ? `99 %: ${times.p99_ms.toFixed(1)} ms` : "no sound comes",
        times && times.p99_ms > 40 ? "warning" : ""),
      this.tile("On this screen", ms(page.pictureAge), `picture; direction ${ms(page.doaAge)} after its window`, page.pictureAge > 400 ? "warning" : ""),
      this.tile("Microphone clock", clock === null || clock === undefined ? "–" : `${clock >= 0 ? "+" : "−"}${Math.abs(clock).toFixed(1)} ppm`,
        clock === null || clock === undefined ? "not known yet" : `± ${health.drift_sigma_ppm.toFixed(1)} against this computer`, ""),
      this.tile("Processor", `${health.cpu_percent.toFixed(0)} %`, `of a core; this console ${(page.console?.cpu_percent ?? 0).toFixed(0)} %`, ""),
      this.tile("Memory", health.rss_mib === null ? "–" : `${health.rss_mib.toFixed(0)} MiB`, "of the live service", health.rss_mib > 1000 ? "warning" : ""),
      this.tile("Temperature", hot === null || hot === undefined ? "–" : `${hot.toFixed(0)} °C`, hot === null || hot === undefined ? "no sensor to read" : health.temperature_of,
        hot > 95 ? "fault" : hot > 85 ? "warning" : ""),
      this.tile("Disk", free === null || free === undefined ? "–" : free > 10240 ? `${(free / 1024).toFixed(0)} GiB` : `${free} MiB`, "left for takes",
        free < 500 ? "fault" : free < 2048 ? "warning" : ""),
    ];
    const worst = found.includes("fault") ? "fault" : found.includes("warning") ? "warning" : "ok";
    this.say(worst, { ok: "all well", warning: "look here", fault: "trouble" }[worst]);
    this.table(health.stages ?? {});
  }

  say(level, text) {
    this.verdict.className = `chip ${level}`;
    if (this.verdict.textContent !== text) this.verdict.textContent = text;
  }

  table(stages) {
    if (!this.stages.closest("details").open) return;
    const rows = [["stage", "p50", "p99"], ...Object.entries(stages).map(([name, s]) => [WORDS[name] ?? name, `${s.p50_ms.toFixed(2)} ms`, `${s.p99_ms.toFixed(2)} ms`])];
    this.stages.replaceChildren(...rows.map((cells, i) => {
      const row = document.createElement("tr");
      row.append(...cells.map((text) => Object.assign(document.createElement(i ? "td" : "th"), { textContent: text })));
      return row;
    }));
  }
}
