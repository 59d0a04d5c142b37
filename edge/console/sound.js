// Levels of the four channels, the spectrogram of W, and the directions over the same 20 seconds.
"use strict";

import { sideways } from "./picture.js";

const SPAN_MS = 20000;
const ROW_MS = 40;
const COLUMNS = SPAN_MS / ROW_MS + 25;
const FLOOR_DB = -60; // of the meters
const HOLD_MS = 1500;
const FALL_DB_S = 20;
const CLIP_MS = 3000;
const DRAW_MS = 50;
const NAMES = {
  ambix: ["W", "Y", "Z", "X"], n3d: ["W", "Y", "Z", "X"], fuma: ["W", "X", "Y", "Z"],
  a: ["FLU", "FRD", "BLD", "BRU"], a2: ["FLU", "FRD", "BLD", "BRU"],
};
// As in the page of an episode, evenly rising in lightness.
const RAMPS = {
  light: ["#ffffff", "#fdeebf", "#fdbf57", "#e8731a", "#9a3a08", "#2e1004"],
  dark: ["#201f1c", "#4a1f0e", "#a23c08", "#ee7f1a", "#ffd07a", "#fff8e2"],
};
const FREQUENCIES = [[500, "500 Hz"], [2000, "2 kHz"], [6000, "6 kHz"]];
const mel = (hertz) => 2595 * Math.log10(1 + hertz / 700);

const part = (value) => Math.max(0, Math.min(1, (value - FLOOR_DB) / -FLOOR_DB));

class Meters {
  constructor() {
    this.box = document.getElementById("meters");
    this.rows = [];
    this.last = performance.now();
  }

  begin(count, format) {
    const names = NAMES[format] ?? Array.from({ length: count }, (_, i) => String(i + 1));
    this.format = format;
    this.box.replaceChildren();
    this.rows = Array.from({ length: count }, (_, i) => {
      const row = document.createElement("div");
      row.className = "meter";
      row.innerHTML = '<b></b><div class="level" role="meter" aria-valuemin="-60" aria-valuemax="0"><i class="rms"></i><i class="hold"></i></div><output></output><button type="button" class="clip">clip</button>';
      const [name, level, figure, clip] = row.children;
      name.textContent = names[i];
      level.setAttribute("aria-label", `Level of ${names[i]} in dBFS`);
      clip.title = "Lights when a sample was at full scale; press to put it out";
      clip.setAttribute("aria-label", `${names[i]} was clipped`);
      const made = { row, level, rms: level.children[0], held: level.children[1], figure, clip, hold: -200, at: 0, clipped: 0, spoken: 0 };
      clip.addEventListener("click", () => { made.clipped = 0; this.lamp(made); });
      this.box.append(row);
      return made;
    });
  }

  lamp(row) {
    const on = row.clipped > 0;
    row.clip.classList.toggle("on", on);
    row.clip.disabled = !on;
  }

  show(levels) {
    const count = levels.peak_dbfs.length;
    if (this.rows.length !== count || this.format !== levels.format) this.begin(count, levels.format);
    const now = performance.now();
    const passed = (now - this.last) / 1000;
    this.last = now;
    this.rows.forEach((row, i) => {
      const peak = levels.peak_dbfs[i] ?? -200;
      const rms = levels.rms_dbfs[i] ?? -200;
      if (peak >= row.hold) {
        row.hold = peak;
        row.at = now;
      } else if (now - row.at > HOLD_MS) row.hold = Math.max(peak, row.hold - FALL_DB_S * passed);
      row.rms.style.clipPath = `inset(0 ${(100 - 100 * part(rms)).toFixed(1)}% 0 0)`;
      row.held.style.left = `${(100 * part(row.hold)).toFixed(1)}%`;
      row.held.classList.toggle("hot", row.hold > -3);
      const text = row.hold > -120 ? row.hold.toFixed(0).replace("-", "−") : "−∞";
      if (row.figure.value !== text) row.figure.value = text;
      if (levels.clipped_frames[i] > 0) row.clipped = now;
      if (row.clipped && now - row.clipped > CLIP_MS) row.clipped = 0;
      this.lamp(row);
      row.row.classList.toggle("dead", Boolean(levels.dead?.[i]));
      if (now - row.spoken > 1000) {
        row.spoken = now;
        row.level.setAttribute("aria-valuenow", Math.max(FLOOR_DB, rms).toFixed(0));
      }
    });
  }

  blank() {
    for (const row of this.rows) {
      row.rms.style.clipPath = "inset(0 100% 0 0)";
      row.held.style.left = "0";
      row.figure.value = "";
      row.hold = -200;
    }
  }
}

export class Sound {
  constructor(link) {
    this.link = link;
    this.meters = new Meters();
    this.spectrum = document.getElementById("spectrum");
    this.strip = document.getElementById("strip");
    this.talking = document.getElementById("now-talking");
    this.bands = 64;
    this.raw = new Uint8Array(COLUMNS * this.bands);
    this.ring = document.createElement("canvas");
    this.newest = null; // number of the newest column, in ROW_MS of the rig's clock
    this.dots = [];
    this.paths = new Map();
    this.words = [];
    this.visible = true;
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", () => this.paint());
    this.paint();
    new IntersectionObserver((seen) => { this.visible = seen.some((s) => s.isIntersecting); }).observe(this.spectrum.closest("section"));
    this.drawn = 0;
    const loop = (now) => {
      if (this.visible && now - this.drawn >= DRAW_MS) {
        this.drawn = now;
        this.draw();
      }
      requestAnimationFrame(loop);
    };
    requestAnimationFrame(loop);
  }

  // Colours of the theme; the past is coloured anew.
  paint() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const style = getComputedStyle(document.documentElement);
    this.colours = Object.fromEntries(["measured", "talker", "soft", "faint", "ink", "card", "fault"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    const ramp = RAMPS[dark ? "dark" : "light"].map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
    this.ramp = new Uint8ClampedArray(256 * 4);
    for (let i = 0; i < 256; i += 1) {
      const at = (i / 255) * (ramp.length - 1);
      const low = Math.min(ramp.length - 2, Math.floor(at));
      for (let c = 0; c < 3; c += 1) this.ramp[4 * i + c] = ramp[low][c] + (ramp[low + 1][c] - ramp[low][c]) * (at - low);
      this.ramp[4 * i + 3] = 255;
    }
    this.ring.width = COLUMNS;
    this.ring.height = this.bands;
    this.ink = this.ring.getContext("2d", { alpha: false });
    for (let column = 0; column < COLUMNS; column += 1) this.column(column);
  }

  column(slot) {
    const image = this.ink.createImageData(1, this.bands);
    for (let band = 0; band < this.bands; band += 1) {
      const value = this.raw[slot * this.bands + band];
      image.data.set(this.ramp.subarray(4 * value, 4 * value + 4), 4 * (this.bands - 1 - band));
    }
    this.ink.putImageData(image, slot, 0);
  }

  rows(rows) {
    for (const [t_ms, coded] of rows) {
      const number = Math.round(t_ms / ROW_MS);
      if (this.newest === null || number > this.newest + COLUMNS || number < this.newest - COLUMNS) this.newest = number - COLUMNS;
      for (; this.newest < number; this.newest += 1) {
        const slot = (this.newest + 1) % COLUMNS;
        this.raw.fill(0, slot * this.bands, (slot + 1) * this.bands);
        this.column(slot);
      }
      const slot = number % COLUMNS;
      const bytes = atob(coded);
      for (let band = 0; band < this.bands; band += 1) this.raw[slot * this.bands + band] = bytes.charCodeAt(band);
      this.column(slot);
    }
  }

  heard(doa) {
    if (doa.known && doa.active) this.dots.push({ t: doa.t_ms + 50, azimuth: doa.azimuth_deg, confidence: doa.confidence });
    while (this.dots.length && this.dots[0].t < this.link.now() - SPAN_MS) this.dots.shift();
  }

  follow({ t_ms, tracks }) {
    for (const track of tracks) {
      if (!this.paths.has(track.id)) this.paths.set(track.id, []);
      this.paths.get(track.id).push({ t: t_ms + 100, azimuth: track.azimuth_deg, coasting: track.coasting });
    }
    const old = this.link.now() - SPAN_MS;
    for (const [id, path] of this.paths) {
      while (path.length && path[0].t < old) path.shift();
      if (!path.length) this.paths.delete(id);
    }
    const now = tracks.filter((track) => !track.coasting).map((track) => `${track.id}: ${sideways(track.azimuth_deg)}`);
    this.talking.textContent = now.length ? `talking now: ${now.join(" · ")}` : "";
  }

  word(t_ms, text) {
    this.words.push({ t: t_ms, text });
    if (this.words.length > 12) this.words.shift();
  }

  blank() {
    this.meters.blank();
    this.talking.textContent = "";
  }

  fit(canvas) {
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const width = Math.round(canvas.clientWidth * ratio);
    const height = Math.round(canvas.clientHeight * ratio);
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return [context, canvas.clientWidth, canvas.clientHeight];
  }

  draw() {
    const now = this.link.now();
    this.drawSpectrum(now);
    this.drawStrip(now);
  }

  drawSpectrum(now) {
    const [context, width, height] = this.fit(this.spectrum);
    context.fillStyle = this.colours.card;
    context.fillRect(0, 0, width, height);
    if (this.newest !== null) {
      const perColumn = (width * ROW_MS) / SPAN_MS;
      const last = (this.newest + 1) * ROW_MS;
      const right = width - ((now - last) / SPAN_MS) * width;
      const count = COLUMNS - 1;
      const slot = this.newest % COLUMNS;
      // The ring in two pieces: up to the newest column, and before it what stands behind.
      context.drawImage(this.ring, 0, 0, slot + 1, this.bands, right - (slot + 1) * perColumn, 0, (slot + 1) * perColumn, height);
      const rest = count - slot - 1;
      if (rest > 0) context.drawImage(this.ring, slot + 2, 0, rest, this.bands, right - (count) * perColumn, 0, rest * perColumn, height);
    }
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    for (const [hertz, name] of FREQUENCIES) {
      const y = height * (1 - mel(hertz) / mel(12000));
      context.fillStyle = this.colours.faint;
      context.fillRect(0, Math.round(y), 5, 1);
      this.label(context, name, width - 6, y + 4);
    }
  }

  label(context, text, x, y, colour) {
    context.lineWidth = 3;
    context.lineJoin = "round";
    context.strokeStyle = this.colours.card;
    context.strokeText(text, x, y);
    context.fillStyle = colour ?? this.colours.soft;
    context.fillText(text, x, y);
  }

  drawStrip(now) {
    const [context, width, height] = this.fit(this.strip);
    const x = (t) => width * (1 - (now - t) / SPAN_MS);
    const y = (azimuth) => height * (0.5 - azimuth / 360);
    context.fillStyle = this.colours.card;
    context.fillRect(0, 0, width, height);
    context.fillStyle = this.colours.faint;
    for (const azimuth of [90, 0, -90]) context.fillRect(0, Math.round(y(azimuth)), width, 1);
    for (const dot of this.dots) {
      context.globalAlpha = Math.max(0.15, Math.min(0.9, dot.confidence));
      context.fillStyle = this.colours.measured;
      context.beginPath();
      context.arc(x(dot.t), y(dot.azimuth), 2.4, 0, 7);
      context.fill();
    }
    context.globalAlpha = 1;
    context.lineCap = "round";
    context.font = "600 11px system-ui, sans-serif";
    for (const [id, path] of this.paths) {
      context.strokeStyle = this.colours.talker;
      for (let i = 1; i < path.length; i += 1) {
        const [a, b] = [path[i - 1], path[i]];
        if (b.t - a.t > 400 || Math.abs(b.azimuth - a.azimuth) > 180) continue;
        context.globalAlpha = b.coasting ? 0.35 : 0.9;
        context.lineWidth = b.coasting ? 1.5 : 3;
        context.beginPath();
        context.moveTo(x(a.t), y(a.azimuth));
        context.lineTo(x(b.t), y(b.azimuth));
        context.stroke();
      }
      context.globalAlpha = 1;
      const end = path[path.length - 1];
      context.textAlign = "right";
      this.label(context, String(id), Math.min(x(end.t), width - 44) - 6, y(end.azimuth) - 7, this.colours.talker);
    }
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    for (const [azimuth, name] of [[90, "left"], [0, "front"], [-90, "right"]]) this.label(context, name, width - 6, y(azimuth) - 4);
    context.textAlign = "left";
    context.font = "12px system-ui, sans-serif";
    for (const word of this.words) {
      const at = x(word.t);
      if (at < -width) continue;
      context.fillStyle = this.colours.ink;
      context.fillRect(at, 0, 1.5, height);
      this.label(context, `“${word.text}”`, Math.max(4, Math.min(at + 6, width - 240)), height - 7, this.colours.ink);
    }
  }
}
