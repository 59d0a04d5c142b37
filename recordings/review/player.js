// Plays an episode: the sound is the clock, and each frame of the screen shows the picture of that moment.

import { Marks } from "./marks.js";
import { Pictures } from "./pictures.js";

const byId = (id) => document.getElementById(id);
const AHEAD_S = 4; // of pictures that are fetched before they are due

export function timeWords(t, duration) {
  if (duration < 120) return `${t.toFixed(2)} s`;
  const whole = Math.floor(t), two = (n) => String(n).padStart(2, "0");
  const minutes = Math.floor(whole / 60) % 60, rest = `${two(whole % 60)}.${Math.floor((t - whole) * 10)}`;
  return whole >= 3600 ? `${Math.floor(whole / 3600)}:${two(minutes)}:${rest}` : `${minutes}:${rest}`;
}

// A clock for episodes without sound, with what the player uses of an audio element.
class Silence {
  constructor(duration) { this.duration = duration; this.paused = true; this.playbackRate = 1; this._at = 0; this._since = 0; }
  get currentTime() { return this.paused ? this._at : Math.min(this._at + this.playbackRate * (performance.now() - this._since) / 1000, this.duration); }
  set currentTime(t) { this._at = Math.min(Math.max(t, 0), this.duration); this._since = performance.now(); }
  play() { if (this._at >= this.duration - 1e-3) this._at = 0; this._since = performance.now(); this.paused = false; return Promise.resolve(); }
  pause() { this._at = this.currentTime; this.paused = true; }
}

export class Player {
  constructor() {
    this._audio = byId("sound");
    this._canvas = byId("picture");
    this._context = this._canvas.getContext("2d", { alpha: false });
    this._cursor = null;
    this._pictures = null;
    this._episode = null;
    this._clock = this._audio;
    this._wanted = -1; // index of the picture that should be seen
    this._drawn = -1;
    this._ticking = false;
    this._hold = null; // the time that was jumped to, until the element has it
    byId("play").addEventListener("click", () => this.toggle());
    byId("speed").addEventListener("change", () => this._rate());
    byId("mix").addEventListener("change", () => this._source(true));
    byId("late").addEventListener("change", () => this._lateness());
    byId("camera").addEventListener("change", () => this._camera());
    for (const event of ["play", "pause", "ended"]) this._audio.addEventListener(event, () => this._changed());
    this._audio.addEventListener("seeked", () => { this._hold = null; this.show(this.now()); });
    this._audio.addEventListener("error", () => { if (this._audio.getAttribute("src")) this.onerror("The sound cannot be played."); });
    this.onerror = () => {};
  }

  load(episode) {
    this.unload();
    this._episode = episode;
    this.duration = episode.duration_s;
    const mixes = byId("mix");
    mixes.closest("label").hidden = !episode.sound;
    this._clock = episode.sound ? this._audio : new Silence(this.duration);
    if (episode.sound) this._source(false);
    this._rate();
    const late = episode.late;
    byId("late-label").hidden = !late || !episode.cameras.length || Math.abs(late.ms) < 0.05;
    if (late) {
      const from = late.source === "calibration" ? "the rig's calibration" : "this take's own flashes and beeps";
      byId("late-words").textContent = `pictures ${Math.abs(late.ms).toFixed(1)} ms ${late.ms < 0 ? "earlier" : "later"}, by ${from}`;
    }
    const cameras = byId("camera");
    cameras.replaceChildren(...episode.cameras.map((camera, i) => new Option(camera.name || "main", String(i))));
    byId("camera-label").hidden = episode.cameras.length < 2;
    this._camera();
    this.seek(0);
    this._changed();
  }

  unload() {
    this._clock.pause();
    this._audio.removeAttribute("src");
    this._audio.load();
    if (this._pictures) this._pictures.close();
    this._pictures = this._episode = this._cursor = this._hold = null;
    this._wanted = this._drawn = -1;
  }

  // The plots came: the cursor in them follows, and a touch of them is a jump.
  plots(host) {
    this._cursor = host.querySelector("#cursor");
    for (const plot of host.querySelectorAll(".plot")) {
      const at = (event) => {
        const box = plot.getBoundingClientRect();
        return this.duration * Math.min(Math.max((event.clientX - box.left - plot.clientLeft) / plot.clientWidth, 0), 1);
      };
      let held = false;
      plot.addEventListener("pointerdown", (event) => { held = true; if (event.pointerType === "mouse") plot.setPointerCapture(event.pointerId); this.seek(at(event)); });
      plot.addEventListener("pointermove", (event) => { if (held && event.pointerType === "mouse") this.seek(at(event)); });
      for (const name of ["pointerup", "pointercancel"]) plot.addEventListener(name, () => { held = false; });
    }
    this.show(this.now());
  }

  now() { return this._hold ?? this._clock.currentTime; }
  get playing() { return this._episode !== null && !this._clock.paused; }

  toggle() {
    if (!this._episode) return;
    if (this._clock.paused) {
      if (this.now() >= this.duration - 0.02) this.seek(0);
      this._clock.play().catch((error) => { if (error.name !== "AbortError") this.onerror(`The sound cannot be played: ${error.message}`); });
    } else this._clock.pause();
    this._changed();
  }

  seek(t) {
    if (!this._episode) return;
    const there = Math.min(Math.max(t, 0), this.duration);
    this._clock.currentTime = there;
    this._hold = this._clock === this._audio && this._audio.readyState < 1 ? there : null;
    this.show(there);
  }

  // One picture on or back.
  step(count) {
    if (!this._pictures || !this._pictures.times.length) { this.seek(this.now() + 0.04 * count); return; }
    this._clock.pause();
    const index = Math.min(Math.max(this._pictures.index(this.now()) + count, 0), this._pictures.times.length - 1);
    this.seek(this._pictures.time(index) + 1e-4);
    this._changed();
  }

  flip(id) {
    const box = byId(id);
    if (box.closest("label").hidden) return;
    if (box.type === "checkbox") box.checked = !box.checked;
    else box.selectedIndex = (box.selectedIndex + 1) % box.options.length;
    box.dispatchEvent(new Event("change"));
  }

  show(t) {
    const episode = this._episode;
    if (!episode) return;
    if (this._cursor) this._cursor.style.left = `${100 * Math.min(t / this.duration, 1)}%`;
    byId("clock").textContent = `${timeWords(t, this.duration)} / ${timeWords(this.duration, this.duration)}`;
    const row = this._marks ? this._marks.show(t) : -1;
    if (this._marks) byId("reading").textContent = this._marks.words(row);
    if (!this._pictures) return;
    const index = this._pictures.index(t);
    this._wanted = index;
    if (index < 0) return;
    const picture = this._pictures.get(index);
    if (picture && index !== this._drawn) this._draw(index, picture);
    this._pictures.fetchAhead(t, AHEAD_S);
    byId("picture-now").textContent = `${timeWords(this._pictures.time(index), this.duration)} · ${index + 1} of ${this._pictures.times.length}`;
  }

  _draw(index, picture) {
    const canvas = this._canvas;
    if (canvas.width !== picture.width || canvas.height !== picture.height) {
      canvas.width = picture.width;
      canvas.height = picture.height;
    }
    this._context.drawImage(picture, 0, 0);
    this._drawn = index;
    canvas.dataset.shown = String(index);
    this._plate("");
  }

  _plate(words) {
    byId("plate").hidden = !words;
    byId("plate").textContent = words;
  }

  _camera() {
    const episode = this._episode, camera = episode.cameras[Number(byId("camera").value) || 0];
    if (this._pictures) this._pictures.close();
    this._pictures = null;
    this._wanted = this._drawn = -1;
    delete this._canvas.dataset.shown;
    byId("picture-part").hidden = !camera;
    byId("stage").classList.toggle("one", !camera || !byId("plan").firstChild);
    this._marks = new Marks(byId("marks"), byId("plan"), episode, camera || { name: "", size: null });
    byId("picture-words").textContent = episode.has_pose ? "Marks: measured direction, followed talkers, target and people as planned." : "No marks: the rig does not say where the camera is and where it looks.";
    if (!camera) { this.show(this.now()); return; }
    this._pictures = new Pictures(episode.n, camera, episode.pack);
    if (camera.size) this._canvas.parentElement.style.setProperty("--ratio", String(camera.size[0] / camera.size[1]));
    this._plate(camera.t.length ? "Loading the pictures …" : "No picture was recorded");
    this._pictures.onready = (index) => {
      if (index < 0) this._plate(`The pictures cannot be shown: ${this._pictures.trouble}`);
      if (index !== this._wanted || index === this._drawn) return;
      if (this._pictures.broken(index)) { this._plate("This picture cannot be decoded"); return; }
      this.show(this.now());
    };
    this._lateness();
  }

  _lateness() {
    const late = this._episode && this._episode.late;
    if (this._pictures) this._pictures.late = late && byId("late").checked ? late.ms / 1000 : 0;
    this.show(this.now());
  }

  _source(keep) {
    if (!this._episode || !this._episode.sound) return;
    const t = this.now(), playing = keep && this.playing;
    this._hold = keep ? t : 0;
    this._audio.src = `/sound/${this._episode.n}/${byId("mix").value}.wav`;
    this._rate();
    this._audio.currentTime = this._hold;
    if (playing) this._audio.play().catch(() => {});
  }

  _rate() { this._clock.playbackRate = Number(byId("speed").value); }

  _changed() {
    byId("play").textContent = this.playing ? "❚❚ Pause" : "▶ Play";
    if (this.playing && !this._ticking) { this._ticking = true; requestAnimationFrame(() => this._tick()); }
    if (!this.playing && this._episode) this.show(this.now());
  }

  _tick() {
    if (!this.playing) { this._ticking = false; return; }
    if (this._clock !== this._audio && this.now() >= this.duration) this._clock.pause();
    this.show(this.now());
    requestAnimationFrame(() => this._tick());
  }
}
