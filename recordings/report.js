"use strict";
(() => {
  const root = document.documentElement;
  root.classList.replace("no-js", "js");
  root.classList.add("js");
  const episode = JSON.parse(document.getElementById("episode").textContent);
  const byId = (id) => document.getElementById(id);
  const audio = byId("sound"), button = byId("play"), clock = byId("clock"), reading = byId("reading");
  const cursor = byId("cursor"), image = byId("frame"), marks = byId("frame-marks"), caption = byId("frame-now");
  const ray = byId("live-ray"), thumbs = [...document.querySelectorAll(".thumb")];
  const duration = episode.duration_s, heard = episode.heard_s;
  let now = 0, shown = -1, ticking = false;

  const time = (t) => {
    if (duration < 120) return t.toFixed(1) + " s";
    const s = Math.floor(t), two = (n) => String(n).padStart(2, "0");
    return (s >= 3600 ? Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) : Math.floor(s / 60)) + ":" + two(s % 60);
  };
  // Index of the entry of a rising list that is nearest to t; -1 for an empty list.
  const nearest = (list, t) => {
    if (!list.length) return -1;
    let low = 0, high = list.length - 1;
    while (high - low > 1) { const mid = (low + high) >> 1; if (list[mid] <= t) low = mid; else high = mid; }
    return Math.abs(list[high] - t) < Math.abs(list[low] - t) ? high : low;
  };
  // The most confident active row within 0.2 s (or the spacing of the rows), as for the marks on the pictures.
  const sounding = (t) => {
    const d = episode.directions;
    let best = -1;
    const middle = nearest(d.t, t);
    for (let i = Math.max(middle - 4, 0); middle >= 0 && i <= Math.min(middle + 4, d.t.length - 1); i++) {
      if (d.active[i] && Math.abs(d.t[i] - t) <= episode.window_s && (best < 0 || d.conf[i] > d.conf[best])) best = i;
    }
    return best;
  };
  const degrees = (value, plus, minus) => Math.abs(value) < 0.5 ? "0°" : Math.abs(value).toFixed(0) + "° " + (value > 0 ? plus : minus);

  const show = (t) => {
    now = Math.min(Math.max(t, 0), duration);
    if (cursor) cursor.style.left = (100 * now / duration) + "%";
    if (clock) clock.textContent = time(now) + " / " + time(duration);
    const d = episode.directions, row = sounding(now), near = row >= 0;
    if (reading) {
      reading.textContent = near
        ? "Sound from " + degrees(d.az[row], "left", "right") + ", " + degrees(d.el[row], "up", "down") +
          " · ±" + d.unc[row].toFixed(0) + "° · confidence " + d.conf[row].toFixed(2)
        : (d.t.length ? "No sound direction at this time" : "");
    }
    if (ray && d.ray.length) {
      ray.style.visibility = near ? "visible" : "hidden";
      if (near) { ray.setAttribute("x2", d.ray[row][0]); ray.setAttribute("y2", d.ray[row][1]); }
    }
    const f = nearest(episode.frames.t, now);
    if (f >= 0 && f !== shown && image) {
      shown = f;
      image.src = episode.frames.src[f];
      marks.innerHTML = episode.frames.marks[f];
      caption.textContent = time(episode.frames.t[f]) + " · " + episode.frames.words[f];
    }
    let best = -1, gap = Infinity;
    thumbs.forEach((thumb, i) => { const g = Math.abs(thumb.dataset.t - now); if (g < gap) { gap = g; best = i; } });
    thumbs.forEach((thumb, i) => thumb.classList.toggle("current", i === best));
  };
  const seek = (t) => {
    if (audio) audio.currentTime = Math.min(t, Math.max(heard - 0.01, 0));
    show(t);
  };
  const tick = () => {
    if (!audio || audio.paused) { ticking = false; return; }
    show(audio.currentTime);
    requestAnimationFrame(tick);
  };
  if (audio && button) {
    button.addEventListener("click", () => { if (audio.paused) audio.play(); else audio.pause(); });
    audio.addEventListener("play", () => { button.textContent = "❚❚ Pause"; if (!ticking) { ticking = true; requestAnimationFrame(tick); } });
    audio.addEventListener("pause", () => { button.textContent = "▶ Play"; });
    audio.addEventListener("ended", () => show(heard));
  }
  document.querySelectorAll(".timeline .plot").forEach((plot) => {
    const at = (event) => {
      const box = plot.getBoundingClientRect();
      return duration * Math.min(Math.max((event.clientX - box.left - plot.clientLeft) / plot.clientWidth, 0), 1);
    };
    let held = false;
    plot.addEventListener("pointerdown", (event) => { held = true; if (event.pointerType === "mouse") plot.setPointerCapture(event.pointerId); seek(at(event)); });
    plot.addEventListener("pointermove", (event) => { if (held && event.pointerType === "mouse") seek(at(event)); });
    ["pointerup", "pointercancel"].forEach((name) => plot.addEventListener(name, () => { held = false; }));
  });
  thumbs.forEach((thumb) => thumb.addEventListener("click", () => seek(Number(thumb.dataset.t))));
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("button, summary, a, input")) return;
    if (event.key === " " && audio) { event.preventDefault(); if (audio.paused) audio.play(); else audio.pause(); }
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) { event.preventDefault(); seek(Math.min(Math.max(now + step * (event.shiftKey ? 5 : 0.5), 0), duration)); }
  });
  const asked = /[#&]t=([0-9.]+)/.exec(location.hash);
  show(asked ? Number(asked[1]) : episode.start_s);
  if (asked) seek(Number(asked[1]));
})();
