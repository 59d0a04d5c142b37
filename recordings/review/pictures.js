// The pictures of one camera: packs of JPEGs are fetched around the time that is shown, decoded just ahead.

const AHEAD = 8; // pictures that wait decoded
const MOST_BYTES = 160e6; // of JPEGs kept; the packs farthest from the cursor go first
const BROKEN = Symbol("cannot be decoded");

export class Pictures {
  // times: seconds in the sound file, rising, one per picture.
  constructor(episode, camera, pack) {
    this.times = camera.t;
    this._from = beginnings(camera.t);
    this.size = camera.size;
    this.late = 0; // seconds that are added to every time
    this._url = (number) => `/pictures/${episode}/${number}?camera=${encodeURIComponent(camera.name)}`;
    this._pack = pack;
    this._packs = new Map(); // number -> {bytes, jpegs} or a promise of it
    this._decoded = new Map(); // index -> ImageBitmap, BROKEN or a promise
    this._stop = new AbortController();
    this.onready = () => {};
    this.trouble = "";
    this._ahead = false; // a pack is on its way that is not due yet
  }

  // The picture that is seen at t: the nearest one (its stamp is the middle of what it saw), though none is
  // seen earlier than half a usual step before its time; before the first one the first.
  index(t) {
    const list = this._from;
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] + this.late <= t + 1e-6) low = middle + 1; else high = middle;
    }
    return list.length ? Math.max(low - 1, 0) : -1;
  }

  time(index) { return this.times[index] + this.late; }

  // The picture with this index if it is decoded, else null; it and those after it are being fetched then.
  get(index) {
    for (let i = index; i < Math.min(index + AHEAD, this.times.length); i += 1) this._decode(i);
    for (const [old, picture] of this._decoded) {
      if (old < index - 3 || old > index + AHEAD) {
        if (picture.close) picture.close();
        this._decoded.delete(old);
      }
    }
    const found = this._decoded.get(index);
    return found instanceof ImageBitmap ? found : null;
  }

  broken(index) { return this._decoded.get(index) === BROKEN; }

  // Fetch ahead without decoding, as far as `seconds` reach: one pack after the other, in the order in which
  // the server decodes them.
  fetchAhead(t, seconds) {
    const last = this.index(t + seconds);
    if (last < 0 || this._ahead) return;
    for (let number = Math.floor(this.index(t) / this._pack); number <= Math.floor(last / this._pack); number += 1) {
      if (this._packs.has(number)) continue;
      this._ahead = true;
      this._fetch(number).catch(() => {}).then(() => { this._ahead = false; });
      return;
    }
  }

  _decode(index) {
    if (this._decoded.has(index)) return;
    const working = this._fetch(Math.floor(index / this._pack))
      .then((pack) => pack.jpegs[index % this._pack])
      .then((jpeg) => (jpeg.size ? createImageBitmap(jpeg) : BROKEN))
      .catch((error) => (error.name === "AbortError" ? null : BROKEN))
      .then((picture) => {
        if (this._decoded.get(index) !== working) { // it is not wanted any more
          if (picture && picture.close) picture.close();
          return;
        }
        if (picture === null) this._decoded.delete(index); else this._decoded.set(index, picture);
        this.onready(index);
      });
    this._decoded.set(index, working);
  }

  _fetch(number) {
    const known = this._packs.get(number);
    if (known) return Promise.resolve(known);
    const coming = fetch(this._url(number), { signal: this._stop.signal })
      .then(async (answer) => {
        if (!answer.ok) throw new Error((await answer.json()).error);
        return answer.arrayBuffer();
      })
      .then((buffer) => {
        const pack = unpack(buffer);
        this._packs.set(number, pack);
        this._forget(number);
        return pack;
      })
      .catch((error) => {
        this._packs.delete(number);
        if (error.name !== "AbortError") { this.trouble = error.message; this.onready(-1); }
        throw error;
      });
    coming.catch(() => {});
    this._packs.set(number, coming);
    return coming;
  }

  _forget(near) {
    const whole = [...this._packs].filter(([, pack]) => pack.jpegs);
    let bytes = whole.reduce((sum, [, pack]) => sum + pack.bytes, 0);
    whole.sort((a, b) => Math.abs(b[0] - near) - Math.abs(a[0] - near));
    for (const [number, pack] of whole) {
      if (bytes <= MOST_BYTES || number === near) return;
      this._packs.delete(number);
      bytes -= pack.bytes;
    }
  }

  close() {
    this._stop.abort();
    for (const picture of this._decoded.values()) if (picture.close) picture.close();
    this._decoded.clear();
    this._packs.clear();
  }
}

// From when on each picture is seen.
function beginnings(times) {
  const steps = times.slice(1).map((t, i) => t - times[i]), usual = [...steps].sort((a, b) => a - b)[steps.length >> 1] || 0;
  return times.map((t, i) => t - (i ? Math.min(steps[i - 1], usual) : usual) / 2);
}

function unpack(buffer) {
  const view = new DataView(buffer), count = view.getUint32(0, true), jpegs = [];
  let at = 4 * (count + 1);
  for (let i = 0; i < count; i += 1) {
    const size = view.getUint32(4 * (i + 1), true);
    jpegs.push(new Blob([new Uint8Array(buffer, at, size)], { type: "image/jpeg" }));
    at += size;
  }
  return { bytes: buffer.byteLength, jpegs };
}
