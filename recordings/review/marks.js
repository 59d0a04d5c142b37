// What is drawn over the picture and on the plan: the measured direction, talkers, target, people.

const NS = "http://www.w3.org/2000/svg";
const BEYOND = 0.25; // seconds: a direction or a place of a track counts as long around its time

export function make(tag, attributes, words) {
  const node = document.createElementNS(NS, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (words !== undefined) node.textContent = words;
  return node;
}

// Index of the entry of a rising list that is nearest to t; -1 for an empty list.
export function nearest(list, t) {
  if (!list.length) return -1;
  let low = 0, high = list.length - 1;
  while (high - low > 1) { const middle = (low + high) >> 1; if (list[middle] <= t) low = middle; else high = middle; }
  return Math.abs(list[high] - t) < Math.abs(list[low] - t) ? high : low;
}

export function side(azimuth) {
  const whole = Math.round(Math.abs(azimuth));
  return whole === 0 ? "straight ahead" : `${whole}° ${azimuth > 0 ? "left" : "right"}`;
}

export class Marks {
  constructor(svg, planHost, episode, camera) {
    this._svg = svg;
    this._episode = episode;
    const main = camera.name === "" && camera.size && episode.has_pose;
    this._height = camera.size ? 1000 * camera.size[1] / camera.size[0] : 562;
    svg.setAttribute("viewBox", `0 0 1000 ${this._height}`);
    svg.replaceChildren();
    this._drawn = main;
    this._still = make("g", {});
    this._moving = make("g", {});
    svg.append(this._still, this._moving);
    if (main) for (const place of episode.places) if (place.x !== undefined) this._still.append(this._place(place));
    this._plan = planHost.querySelector("svg");
    this._ray = planHost.querySelector("#live-ray");
    if (this._plan) this._onPlan();
  }

  _at(place) { return [1000 * place.x, this._height * place.y]; }

  _place(place) {
    const [x, y] = this._at(place), group = make("g", { class: `place ${place.kind}` });
    if (!place.inside) { group.append(this._arrow(place.kind, x, y, place.turn)); }
    else if (place.kind === "target") {
      const d = corners(x, y, 34);
      group.append(make("path", { class: "halo", d }), make("path", { class: "target shape", d }));
    } else if (place.kind === "sounding") {
      const d = `M${x - 18} ${y}L${x} ${y - 18}L${x + 18} ${y}L${x} ${y + 18}Z`;
      group.append(make("path", { class: "halo", d }), make("path", { class: "device shape", d }));
    } else {
      const d = `M${x - 15} ${y}h30M${x} ${y - 15}v30`;
      group.append(make("path", { class: "halo", d }), make("path", { class: "talker shape", d }));
    }
    const edge = x > 850 ? "end" : x < 150 ? "start" : "middle";
    const label = make("text", { x: Math.min(Math.max(x, 12), 988), y: Math.min(y + 56, this._height - 8), "text-anchor": edge }, place.name);
    group.append(label);
    return group;
  }

  _arrow(kind, x, y, turn) {
    const shape = { target: "target", sounding: "device", measured: "measured" }[kind] || "talker";
    const inwards = kind === "measured" ? 20 : 60, angle = turn * Math.PI / 180;
    const place = `translate(${x - inwards * Math.cos(angle)} ${y - inwards * Math.sin(angle)}) rotate(${turn})`;
    return make("path", { class: `arrow ${shape}`, transform: place, d: "M-6 -17L-6 17L18 0Z" });
  }

  _onPlan() {
    const layer = make("g", { class: "set" }), written = [...this._plan.querySelectorAll("text")].map((node) => node.textContent);
    for (const place of this._episode.places) {
      if (!place.plan) continue;
      const [x, y] = place.plan;
      if (place.kind === "sounding") layer.append(make("circle", { class: "sounding", cx: x, cy: y, r: 8 }));
      if (!place.facing) continue;
      layer.append(make("path", { class: `facing ${place.kind}`, d: `M${x} ${y}L${place.facing[0]} ${place.facing[1]}` }));
      layer.append(make("circle", { class: `person ${place.kind}`, cx: x, cy: y, r: 6 }));
      if (!written.includes(place.name)) layer.append(make("text", { x: x + 9, y: y - 8 }, place.name));
    }
    this._dots = make("g", { class: "moving" });
    this._plan.append(layer, this._dots);
    const ray = this._ray;
    this._microphone = ray ? [Number(ray.getAttribute("x1")), Number(ray.getAttribute("y1"))] : null;
  }

  // Row of the measured direction at t: the most confident one near it; -1 when nothing sounded.
  row(t) {
    const d = this._episode.directions;
    const middle = nearest(d.t, t);
    let best = -1;
    for (let i = Math.max(middle - 3, 0); middle >= 0 && i <= Math.min(middle + 3, d.t.length - 1); i += 1) {
      if (Math.abs(d.t[i] - t) <= BEYOND && (best < 0 || d.conf[i] > d.conf[best])) best = i;
    }
    return best;
  }

  show(t) {
    const d = this._episode.directions, row = this.row(t), drawn = [], dots = [];
    if (this._ray && d.ray.length) {
      this._ray.style.visibility = row >= 0 ? "visible" : "hidden";
      if (row >= 0) { this._ray.setAttribute("x2", d.ray[row][0]); this._ray.setAttribute("y2", d.ray[row][1]); }
    }
    for (const track of this._episode.tracks) {
      const i = nearest(track.t, t);
      if (i < 0 || Math.abs(track.t[i] - t) > BEYOND) continue;
      const kind = track.coasting[i] ? "followed coasting" : "followed";
      if (this._drawn && track.x && track.x[i] !== null) {
        const [x, y] = [1000 * track.x[i], this._height * track.y[i]], group = make("g", { class: kind });
        if (track.inside[i]) group.append(make("path", { class: "diamond", d: `M${x} ${y - 24}L${x + 24} ${y}L${x} ${y + 24}L${x - 24} ${y}Z` }));
        else group.append(this._arrow("talker", x, y, track.turn[i]));
        group.append(make("text", { x, y: y + 8, "text-anchor": "middle" }, track.number));
        drawn.push(group);
      }
      if (this._microphone && track.ray.length) {
        const [a, b] = this._microphone, [c, e] = track.ray[i], far = Math.hypot(c - a, e - b) || 1, out = Math.min(78, far);
        const [x, y] = [a + (c - a) * out / far, b + (e - b) * out / far], group = make("g", { class: kind });
        group.append(make("circle", { cx: x, cy: y, r: 8 }), make("text", { x, y: y + 4, "text-anchor": "middle" }, track.number));
        dots.push(group);
      }
    }
    if (this._drawn && row >= 0 && d.x) {
      const [x, y] = [1000 * d.x[row], this._height * d.y[row]];
      if (d.inside[row]) {
        const r = Math.max(1000 * d.r[row], 21);
        drawn.push(make("circle", { class: "halo", cx: x, cy: y, r }), make("circle", { class: "measured ring", cx: x, cy: y, r }), make("circle", { class: "measured core", cx: x, cy: y, r: 7 }));
      } else drawn.push(this._arrow("measured", x, y, d.turn[row]));
    }
    this._moving.replaceChildren(...drawn);
    if (this._dots) this._dots.replaceChildren(...dots);
    return row;
  }

  words(row) {
    const d = this._episode.directions;
    if (row < 0) return d.t.length ? "No sound direction at this time" : "No sound direction was measured";
    const up = Math.round(d.el[row]);
    return `Sound from ${side(d.az[row])}${up ? `, ${Math.abs(up)}° ${up > 0 ? "up" : "down"}` : ""} · ±${Math.round(d.unc[row])}° · confidence ${d.conf[row].toFixed(2)}`;
  }
}

function corners(x, y, size) {
  const corner = size * 0.45, parts = [];
  for (const a of [-1, 1]) for (const b of [-1, 1]) parts.push(`M${x + a * size} ${y + b * (size - corner)}v${b * corner}h${-a * corner}`);
  return parts.join("");
}
