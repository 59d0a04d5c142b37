// The room from above: who stands where and looks where, the devices, the rig.
"use strict";

import { make } from "./svg.js";

const SCALE = 100; // drawing units per metre
const EDGE = 12;

const turned = (degrees) => [Math.cos((degrees * Math.PI) / 180), -Math.sin((degrees * Math.PI) / 180)];

export function drawRoom(svg, item) {
  svg.replaceChildren();
  if (!item) return;
  const [length, width] = item.room.size_m;
  const at = (place) => [place[0] * SCALE, (width - place[1]) * SCALE];
  svg.setAttribute("viewBox", `${-EDGE} ${-EDGE} ${length * SCALE + 2 * EDGE} ${width * SCALE + 2 * EDGE}`);
  for (let x = 1; x < length; x += 1) make(svg, "path", { class: "grid", d: `M${x * SCALE} 0V${width * SCALE}` });
  for (let y = 1; y < width; y += 1) make(svg, "path", { class: "grid", d: `M0 ${(width - y) * SCALE}H${length * SCALE}` });
  const rig = at(item.room.microphone_m);
  const clip = make(make(svg, "defs"), "clipPath", { id: "floor" });
  make(clip, "rect", { width: length * SCALE, height: width * SCALE });
  const [left, right] = [45, -45].map((side) => turned(item.room.microphone_yaw_deg + side));
  const far = 20 * SCALE;
  make(svg, "path", { class: "look", "clip-path": "url(#floor)", d: `M${rig}L${rig[0] + left[0] * far} ${rig[1] + left[1] * far}L${rig[0] + right[0] * far} ${rig[1] + right[1] * far}Z` });
  make(svg, "rect", { class: "floor", width: length * SCALE, height: width * SCALE });
  // Names go beside their dots, where they cover least of what is there.
  const taken = item.devices.filter((device) => device.position_m).map((device) => at(device.position_m)).map(([x, y]) => [x - 10, y - 10, x + 10, y + 10]);
  for (const person of item.people) {
    const [x, y] = at(person.mouth_m);
    taken.push([x - 40, y - 18, x + 40, y + 46]);
  }
  const covered = (box) => taken.reduce((sum, other) => sum + Math.max(0, Math.min(box[2], other[2]) - Math.max(box[0], other[0])) * Math.max(0, Math.min(box[3], other[3]) - Math.max(box[1], other[1])), 0);
  const label = (group, [x, y], text) => {
    const wide = 8.4 * text.length;
    const places = [[x + 15, y + 6], [x - 15 - wide, y + 6], [x - wide / 2, y + 28], [x - wide / 2, y - 15], [x + 8, y + 26], [x - 8 - wide, y + 26]].map(([left, base]) => {
      const box = [left, base - 15, left + wide, base + 5];
      const out = Math.max(0, -box[0]) + Math.max(0, -box[1]) + Math.max(0, box[2] - length * SCALE) + Math.max(0, box[3] - width * SCALE);
      return { left, base, box, cost: covered(box) + 200 * out };
    });
    const best = places.reduce((one, other) => (other.cost < one.cost ? other : one));
    taken.push(best.box);
    make(group, "text", { x: best.left, y: best.base }, text);
  };
  for (const device of item.devices) {
    if (!device.position_m) continue;
    const place = at(device.position_m);
    const group = make(svg, "g", { class: device.sounds ? "device sounds" : "device" });
    make(group, "circle", { cx: place[0], cy: place[1], r: 8 });
    label(group, place, device.name);
  }
  for (const person of item.people) {
    const place = at(person.mouth_m);
    const [dx, dy] = turned(person.facing_deg);
    const group = make(svg, "g", { class: person.speaks ? "person speaks" : "person" });
    const target = item.devices.find((device) => device.name === person.points_at);
    if (target?.position_m) make(group, "path", { class: "points", d: `M${place}L${at(target.position_m)}` });
    make(group, "path", { d: `M${place}l${dx * 44} ${dy * 44}` });
    make(group, "circle", { cx: place[0], cy: place[1], r: 15 });
    make(group, "text", { x: place[0], y: place[1] + 40, "text-anchor": "middle" }, person.name);
  }
  const [fx, fy] = turned(item.room.microphone_yaw_deg);
  make(svg, "path", { class: "rig", d: `M${rig[0] + fx * 20} ${rig[1] + fy * 20}L${rig[0] - fx * 12 - fy * 13} ${rig[1] - fy * 12 + fx * 13}L${rig[0] - fx * 12 + fy * 13} ${rig[1] - fy * 12 - fx * 13}Z` });
}
