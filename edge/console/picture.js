// The live picture with the direction of the sound and the tracks on it.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const GONE_MS = 600; // a direction that is older is not shown
const TRAIL = 14;

const make = (parent, kind, attributes) => {
  const made = document.createElementNS(SVG, kind);
  for (const [key, value] of Object.entries(attributes ?? {})) made.setAttribute(key, value);
  parent.append(made);
  return made;
};

export const sideways = (azimuth) => {
  const rounded = Math.round(azimuth);
  if (rounded === 0) return "straight ahead";
  return `${Math.abs(rounded)}° ${rounded > 0 ? "left" : "right"}`;
};

export class Picture {
  constructor(link) {
    this.link = link;
    this.canvas = document.getElementById("picture");
    this.context = this.canvas.getContext("2d", { alpha: false });
    this.overlay = document.getElementById("overlay");
    this.plate = document.getElementById("plate");
    this.reading = document.getElementById("reading");
    this.age = document.getElementById("picture-age");
    this.height = 562;
    this.shown = 0;
    this.owed = 0; // pictures that came while nobody looked
    this.hasCamera = true;
    this.ages = [];
    this.marks = new Map();
    this.trails = make(this.overlay, "g", {});
    this.doa = this.mark("doa", "measured");
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.settle();
    });
    setInterval(() => this.tidy(), 200);
  }

  begin(rig) {
    this.hasCamera = Boolean(rig.camera);
    if (rig.camera) this.shape(rig.camera.width_px, rig.camera.height_px);
    else this.say("This rig has no camera");
  }

  shape(width, height) {
    if (this.canvas.width === width && this.canvas.height === height) return;
    this.canvas.width = width;
    this.canvas.height = height;
    this.height = (1000 * height) / width;
    this.overlay.setAttribute("viewBox", `0 0 1000 ${this.height}`);
    document.getElementById("eye").style.aspectRatio = `${width} / ${height}`;
  }

  say(text) {
    this.plate.firstElementChild.textContent = text;
    this.plate.hidden = false;
  }

  // Header length, header, JPEG; see app.py. The next one is asked for when this one is drawn.
  async show(bytes) {
    const length = new DataView(bytes).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
    if (document.hidden) {
      this.owed += 1;
      return;
    }
    try {
      const image = await createImageBitmap(new Blob([new Uint8Array(bytes, 4 + length)], { type: "image/jpeg" }));
      if (!this.blind) {
        this.shape(header.width, header.height);
        this.context.drawImage(image, 0, 0);
        this.plate.hidden = true;
        this.shown += 1;
        this.canvas.dataset.shown = this.shown;
        this.lastMs = header.t_ms;
        this.ages.push(this.link.now() - header.t_ms);
        if (this.ages.length > 60) this.ages.shift();
      }
      image.close();
    } catch (error) {
      // not a readable JPEG; the next one may be
    }
    this.link.send({ ack: header.n });
  }

  settle() {
    for (; this.owed > 0; this.owed -= 1) this.link.send({ ack: -1 });
  }

  // Muted or disconnected: what was seen before is not left standing.
  blank(text) {
    this.blind = true;
    this.context.fillStyle = "#000";
    this.context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    this.ages = [];
    this.lastMs = undefined;
    this.say(text);
    this.hide(this.doa);
    for (const [id, mark] of this.marks) this.drop(id, mark);
    this.reading.textContent = text;
    this.age.textContent = "";
  }

  look() {
    if (!this.blind) return;
    this.blind = false;
    this.say(this.hasCamera ? "Waiting for a picture" : "This rig has no camera");
    this.reading.textContent = "No sound yet";
  }

  mark(name, kind) {
    const group = make(this.overlay, "g", { id: `${name}-mark`, class: `mark ${kind}`, visibility: "hidden" });
    make(group, "circle", { class: "halo", r: 10 });
    make(group, kind === "measured" ? "circle" : "path", { class: "ring", r: 10, d: "M0-17L15 0 0 17-15 0Z" });
    make(group, "circle", { class: "core", r: kind === "measured" ? 6 : 0 });
    make(group, "path", { class: "arrow", d: "M8 0L-24-17-24 17Z" });
    make(group, "text", { class: "number", "text-anchor": "middle" });
    return group;
  }

  hide(group) {
    group.setAttribute("visibility", "hidden");
  }

  place(group, what, label) {
    const x = what.x * 1000;
    const y = what.y * this.height;
    const [halo, ring, core, arrow, text] = group.children;
    group.setAttribute("visibility", "visible");
    group.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
    group.dataset.x = what.x;
    group.dataset.y = what.y;
    group.dataset.inside = what.inside;
    group.dataset.tMs = what.t_ms ?? "";
    const round = Math.max(16, Math.min(160, what.radius * 1000));
    const measured = group === this.doa;
    halo.setAttribute("r", measured ? round : 18);
    if (measured) ring.setAttribute("r", round);
    for (const part of [halo, ring, core]) part.style.display = what.inside ? "" : "none";
    arrow.style.display = what.inside ? "none" : "";
    arrow.setAttribute("transform", `rotate(${what.turn_deg})`);
    if (label) {
      text.textContent = label;
      // At the edge the number stands on the inner side of its arrow.
      const turn = (what.turn_deg * Math.PI) / 180;
      text.setAttribute("x", what.inside ? 0 : -46 * Math.cos(turn));
      text.setAttribute("y", (what.inside ? 0 : -46 * Math.sin(turn)) + 8);
    }
  }

  heard(doa) {
    if (this.blind) return;
    if (!doa.known || !doa.active) return;
    this.doaAt = performance.now();
    this.doaAge = this.link.now() - doa.end_ms;
    if ("x" in doa) {
      this.place(this.doa, doa);
      this.doa.style.opacity = Math.max(0.35, Math.min(1, 0.3 + 1.4 * doa.confidence));
    }
    this.said = `Sound from ${sideways(doa.azimuth_deg)}, ${Math.abs(Math.round(doa.elevation_deg))}° ${doa.elevation_deg >= 0 ? "up" : "down"}, ±${Math.round(doa.uncertainty_deg)}° · ${doa.level_dbfs.toFixed(0).replace("-", "−")}\u00a0dBFS`;
  }

  follow({ t_ms, tracks }) {
    if (this.blind) return;
    const seen = new Set();
    for (const track of tracks) {
      seen.add(track.id);
      if (!("x" in track)) continue;
      let mark = this.marks.get(track.id);
      if (!mark) {
        mark = { group: this.mark(`track-${track.id}`, "talker"), trail: make(this.trails, "polyline", { class: "trail" }), past: [] };
        this.marks.set(track.id, mark);
      }
      this.place(mark.group, { ...track, t_ms }, String(track.id));
      mark.group.classList.toggle("coasting", track.coasting);
      mark.past = track.inside ? [...mark.past, `${(track.x * 1000).toFixed(0)},${(track.y * this.height).toFixed(0)}`].slice(-TRAIL) : [];
      mark.trail.setAttribute("points", mark.past.join(" "));
    }
    for (const [id, mark] of this.marks) if (!seen.has(id)) this.drop(id, mark);
  }

  drop(id, mark) {
    mark.group.remove();
    mark.trail.remove();
    this.marks.delete(id);
  }

  tidy() {
    if (this.blind) return;
    const quiet = performance.now() - (this.doaAt ?? -1e9);
    if (quiet > GONE_MS) this.hide(this.doa);
    const text = quiet > 1500 ? "Quiet" : this.said;
    if (text && this.reading.textContent !== text) this.reading.textContent = text;
    const late = this.lastMs === undefined ? null : this.link.now() - this.lastMs;
    if (late !== null && late > 2000) {
      this.say(`No new picture for ${(late / 1000).toFixed(0)} s`);
      this.age.textContent = "";
    } else if (this.ages.length) this.age.textContent = `${this.median().toFixed(0)} ms old`;
  }

  median() {
    const sorted = [...this.ages].sort((a, b) => a - b);
    return sorted.length ? sorted[sorted.length >> 1] : NaN;
  }
}
