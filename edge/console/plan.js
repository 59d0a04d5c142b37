// The room from above: devices, microphone, what the camera sees, where the sound comes from.
"use strict";

import { make } from "./svg.js";

const SCALE = 100; // drawing units per metre
const EDGE = 14;
const BELOW = 46; // room for a line of text
const GONE_MS = 700;
const RING = 62; // of the compass around the microphone

export const isOn = (attributes) =>
  Object.entries(attributes ?? {}).some(
    ([key, value]) => (key.endsWith(".OnOff.OnOff") && value === true) || (key.endsWith(".OperationalState.OperationalState") && value === 1),
  );

export class Plan {
  constructor() {
    this.svg = document.getElementById("plan");
    this.devices = new Map();
    this.names = new Map();
    this.rays = new Map();
    setInterval(() => {
      if (this.fan && performance.now() - this.heardAt > GONE_MS) this.fan.setAttribute("visibility", "hidden");
    }, 200);
  }

  begin(rig) {
    const [length, width] = rig.room.size_m;
    this.length = length;
    this.width = width;
    this.mic = rig.microphone;
    this.svg.replaceChildren();
    this.devices.clear();
    this.rays.clear();
    this.svg.setAttribute("viewBox", `${-EDGE} ${-EDGE} ${length * SCALE + 2 * EDGE} ${width * SCALE + EDGE + BELOW}`);
    for (let x = 1; x < length; x += 1) make(this.svg, "path", { class: "grid", d: `M${x * SCALE} 0V${width * SCALE}` });
    for (let y = 1; y < width; y += 1) make(this.svg, "path", { class: "grid", d: `M0 ${(width - y) * SCALE}H${length * SCALE}` });
    const here = this.at(this.mic.position_m);
    const clip = make(make(this.svg, "defs"), "clipPath", { id: "floor-clip" });
    make(clip, "rect", { width: length * SCALE, height: width * SCALE });
    const inside = make(this.svg, "g", { "clip-path": "url(#floor-clip)" });
    if (rig.camera) {
      const far = 20 * SCALE;
      const [left, right] = rig.camera.sides_deg.map((azimuth) => this.towards(azimuth));
      make(inside, "path", { class: "fov", d: `M${here}l${left[0] * far} ${left[1] * far}L${here[0] + right[0] * far} ${here[1] + right[1] * far}Z` });
    }
    this.fan = make(inside, "g", { visibility: "hidden", id: "plan-direction" });
    make(this.fan, "path", { class: "fan" });
    make(this.fan, "path", { class: "ray" });
    make(this.svg, "rect", { class: "floor", width: length * SCALE, height: width * SCALE });
    this.compass(here);
    this.taken = [[here[0] - RING, here[1] - RING, here[0] + RING, here[1] + RING]];
    for (const device of rig.room.devices) {
      const [x, y] = this.at(device.position_m);
      this.taken.push([x - 10, y - 10, x + 10, y + 10]);
    }
    for (const device of rig.room.devices) this.device(device);
    this.why = make(this.svg, "g", { class: "why", "clip-path": "url(#floor-clip)" });
    this.tracks = make(this.svg, "g", {});
    make(this.svg, "text", { class: "scale", x: length * SCALE, y: width * SCALE + 28, "text-anchor": "end" }, `${length} × ${width} m`);
    make(this.svg, "text", { class: "scale", x: 0, y: width * SCALE + 28 }, "grey: seen by the camera");
  }

  at(place) {
    return [place[0] * SCALE, (this.width - place[1]) * SCALE];
  }

  // Unit vector on the page of an azimuth of the microphone.
  towards(azimuth) {
    const angle = ((azimuth + this.mic.yaw_deg) * Math.PI) / 180;
    return [Math.cos(angle), -Math.sin(angle)];
  }

  compass(here) {
    const group = make(this.svg, "g", { class: "compass", transform: `translate(${here})` });
    make(group, "circle", { r: RING });
    for (let azimuth = 0; azimuth < 360; azimuth += 30) {
      const [x, y] = this.towards(azimuth);
      const inner = azimuth % 90 ? RING - 6 : RING - 11;
      make(group, "path", { d: `M${x * inner} ${y * inner}L${x * RING} ${y * RING}` });
    }
    const [x, y] = this.towards(0);
    make(group, "path", { class: "front", d: `M${x * (RING + 14)} ${y * (RING + 14)}L${x * RING - y * 8} ${y * RING + x * 8}L${x * RING + y * 8} ${y * RING - x * 8}Z` });
    make(group, "circle", { class: "mic", r: 9 });
  }

  device(device) {
    const [x, y] = this.at(device.position_m);
    const label = this.label(x, y, device.name);
    const group = make(this.svg, "g", { class: "device", transform: `translate(${x} ${y})` });
    make(group, "circle", { class: "glow", r: 22 });
    make(group, "circle", { class: "meant", r: 17 });
    make(group, "circle", { class: "dot", r: 8 });
    make(group, "text", label, device.name);
    this.devices.set(device.id, group);
    this.names.set(device.id, device.name);
  }

  // Beside the device, above or below it: where least is covered and nothing leaves the room.
  label(x, y, name) {
    const wide = 9 * name.length;
    const ways = [["start", 15, 6, 0], ["end", -15, 6, wide], ["middle", 0, -17, wide / 2], ["middle", 0, 29, wide / 2]];
    let best;
    for (const [anchor, dx, dy, before] of ways) {
      const box = [x + dx - before, y + dy - 16, x + dx - before + wide, y + dy + 4];
      const outside = Math.max(0, -box[0], box[2] - this.length * SCALE, -EDGE - box[1] + 8) * 20;
      const covered = this.taken.reduce((sum, other) => sum + Math.max(0, Math.min(box[2], other[2]) - Math.max(box[0], other[0])) * Math.max(0, Math.min(box[3], other[3]) - Math.max(box[1], other[1])), 0);
      if (!best || outside + covered < best.cost - 1) best = { cost: outside + covered, box, place: { x: dx, y: dy, "text-anchor": anchor } };
    }
    this.taken.push(best.box);
    return best.place;
  }

  home(devices) {
    for (const [id, group] of this.devices) {
      const on = isOn(devices?.[id]);
      group.classList.toggle("on", on);
      group.setAttribute("aria-label", `${this.names.get(id)}, ${on ? "on" : "off"}`);
    }
  }

  // why: the evidence of the declaration, drawn until the next request.
  declared(id, why) {
    for (const [other, group] of this.devices) group.classList.toggle("declared", other === id);
    if (!this.why) return;
    this.why.replaceChildren();
    if (!why) return;
    const far = 20 * SCALE;
    const line = (from, way, className, opacity) => {
      const [x, y] = this.at(from);
      const to = this.reach(x, y, way) || far;
      const path = make(this.why, "path", { class: className, d: `M${x.toFixed(1)} ${y.toFixed(1)}L${(x + way[0] * to).toFixed(1)} ${(y + way[1] * to).toFixed(1)}` });
      path.style.opacity = opacity;
    };
    for (const ray of why.rays?.rays ?? []) {
      // Seen from above; an arm that points up or down leaves a shorter mark than one that lies flat.
      const flat = Math.hypot(ray.direction[0], ray.direction[1]);
      if (flat < 0.05) continue;
      line(why.rays.origin, this.turned(Math.atan2(ray.direction[1], ray.direction[0])), "pointed", Math.max(0.25, ray.share));
    }
    if (why.sound_deg !== undefined && this.mic) line(this.mic.position_m, this.turned((why.sound_deg * Math.PI) / 180), "sounded", 0.9);
    if (why.stands) {
      const [x, y] = this.at(why.stands);
      make(this.why, "circle", { class: "stands", cx: x.toFixed(1), cy: y.toFixed(1), r: 11 });
      if (why.looks_deg !== undefined) {
        const [dx, dy] = this.turned((why.looks_deg * Math.PI) / 180);
        make(this.why, "path", { class: "looks", d: `M${x} ${y}L${x + dx * 30} ${y + dy * 30}` });
      }
    }
  }

  // A direction of the room's frame (radians) on the page.
  turned(angle) {
    return [Math.cos(angle), -Math.sin(angle)];
  }

  heard(doa) {
    if (!this.fan || !doa.known || !doa.active) return;
    this.heardAt = performance.now();
    const far = 20 * SCALE;
    const [x, y] = this.at(this.mic.position_m);
    const spread = Math.max(2, Math.min(45, doa.uncertainty_deg));
    const [left, middle, right] = [doa.azimuth_deg + spread, doa.azimuth_deg, doa.azimuth_deg - spread].map((a) => this.towards(a));
    const end = (way) => `${(x + way[0] * far).toFixed(1)} ${(y + way[1] * far).toFixed(1)}`;
    this.fan.children[0].setAttribute("d", `M${x} ${y}L${end(left)}L${end(right)}Z`);
    this.fan.children[1].setAttribute("d", `M${x} ${y}L${end(middle)}`);
    this.fan.setAttribute("visibility", "visible");
    this.fan.dataset.azimuth = doa.azimuth_deg;
    this.fan.style.opacity = Math.max(0.3, Math.min(1, 0.25 + 1.5 * doa.confidence));
  }

  follow({ tracks }) {
    const seen = new Set();
    for (const track of tracks) {
      seen.add(track.id);
      let ray = this.rays.get(track.id);
      if (!ray) {
        ray = make(this.tracks, "g", { class: "followed" });
        make(ray, "path", {});
        make(ray, "circle", { r: 15 });
        make(ray, "text", { "text-anchor": "middle" }, track.id);
        this.rays.set(track.id, ray);
      }
      const [x, y] = this.at(this.mic.position_m);
      const way = this.towards(track.azimuth_deg);
      const far = this.reach(x, y, way) - 24;
      const to = [x + way[0] * far, y + way[1] * far];
      ray.children[0].setAttribute("d", `M${x + way[0] * RING} ${y + way[1] * RING}L${to}`);
      ray.children[1].setAttribute("cx", to[0]);
      ray.children[1].setAttribute("cy", to[1]);
      ray.children[2].setAttribute("x", to[0]);
      ray.children[2].setAttribute("y", to[1] + 6);
      ray.classList.toggle("coasting", track.coasting);
    }
    for (const [id, ray] of this.rays) {
      if (!seen.has(id)) {
        ray.remove();
        this.rays.delete(id);
      }
    }
  }

  // How far it is to the wall.
  reach(x, y, [dx, dy]) {
    const along = [];
    if (dx) along.push(((dx > 0 ? this.length * SCALE : 0) - x) / dx);
    if (dy) along.push(((dy > 0 ? this.width * SCALE : 0) - y) / dy);
    return Math.min(...along);
  }

  blank() {
    if (!this.fan) return;
    this.fan.setAttribute("visibility", "hidden");
    this.follow({ tracks: [] });
  }
}
