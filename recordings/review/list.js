// The list of episodes: rows at once, what each is about as it comes into sight.

const byId = (id) => document.getElementById(id);
const WORDS = {
  open: "open", accepted: "✓ accepted", rejected: "✕ rejected", disputed: "⚡ disputed", enough: "reviewed by others",
  interrupted: "not finished", recording: "still recording",
};
const COLOUR = { accepted: "ok", rejected: "fault", disputed: "warning" };

export function reviewable(row) { return row.shown !== "interrupted" && row.shown !== "recording"; }

export class List {
  // ask(path) gives the answer to a GET; onchoose(row) opens an episode.
  constructor(ask, onchoose) {
    this._ask = ask;
    this._onchoose = onchoose;
    this._rows = [];
    this._nodes = new Map();
    this._about = new Map();
    this._waiting = new Set();
    this._current = null;
    byId("only").addEventListener("change", () => this.draw());
    byId("find").addEventListener("input", () => { this._all(); this.draw(); });
    this._sight = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) this._want(Number(entry.target.dataset.n));
    }, { root: byId("list"), rootMargin: "300px" });
  }

  set(rows) { this._rows = rows; this.draw(); }
  get rows() { return this._rows; }

  replace(row) {
    this._rows = this._rows.map((old) => (old.n === row.n ? row : old));
    this.draw();
  }

  row(n) { return this._rows.find((row) => row.n === n); }

  // The rows that the filter lets through; the one that is open stays, so that it can be looked at again.
  shown() {
    const only = byId("only").value, find = byId("find").value.trim().toLowerCase();
    return this._rows.filter((row) => {
      const about = this._about.get(row.n);
      const text = `${row.session} ${row.id} ${about ? `${about.request || ""} ${about.kind} ${about.speaker || ""}` : ""}`.toLowerCase();
      if (find && !text.includes(find)) return false;
      if (row.n === this._current) return true;
      if (only === "all") return true;
      if (only === "changed") return Boolean(row.changed);
      if (only === "todo") return reviewable(row) && row.mine === null && row.shown !== "enough";
      return row.shown === only;
    });
  }

  // The row after (1) or before (-1) the current one.
  beside(step) {
    const rows = this.shown(), at = rows.findIndex((row) => row.n === this._current);
    return rows[at < 0 ? 0 : at + step] || null;
  }

  choose(n) {
    this._current = n;
    this.draw();
    const node = this._nodes.get(n);
    if (node) node.scrollIntoView({ block: "nearest" });
  }

  focus() {
    const node = this._nodes.get(this._current) || this._nodes.values().next().value;
    if (node) node.querySelector("button").focus();
  }

  draw() {
    const rows = this.shown();
    const nodes = rows.map((row) => this._node(row));
    const list = byId("list"), focused = list.contains(document.activeElement) ? Number(document.activeElement.closest("li").dataset.n) : null;
    this._nodes = new Map(rows.map((row, i) => [row.n, nodes[i]]));
    list.replaceChildren(...nodes);
    this._sight.disconnect();
    for (const node of nodes) this._sight.observe(node);
    byId("list-empty").hidden = rows.length > 0;
    if (focused !== null && this._nodes.has(focused)) this._nodes.get(focused).querySelector("button").focus();
  }

  _node(row) {
    const key = JSON.stringify([row, row.n === this._current]), old = this._nodes.get(row.n);
    if (old && old.dataset.key === key) return old;
    const item = document.createElement("li"), button = document.createElement("button");
    item.dataset.n = row.n;
    item.dataset.key = key;
    button.type = "button";
    if (row.n === this._current) button.setAttribute("aria-current", "true");
    const head = document.createElement("span"), name = document.createElement("b"), chip = document.createElement("span");
    head.className = "row-head";
    name.textContent = row.id;
    chip.className = `chip ${COLOUR[row.shown] || "unknown"}`;
    chip.textContent = WORDS[row.shown] || row.shown;
    head.append(name, chip);
    const request = document.createElement("span"), foot = document.createElement("span");
    request.className = "row-request";
    foot.className = "row-foot";
    button.append(head, request, foot);
    item.append(button);
    this._fill(item, row);
    button.addEventListener("click", () => this._onchoose(row.n));
    return item;
  }

  _fill(item, row) {
    const about = this._about.get(row.n);
    item.querySelector(".row-request").textContent = about ? about.request || "no request noted" : " ";
    const mine = row.mine === null ? "" : row.mine === "accept" ? "you accepted" : "you rejected";
    const reviews = row.reviews === 1 ? "1 review" : `${row.reviews} reviews`;
    item.querySelector(".row-foot").textContent = [about ? about.kind : "", mine, reviews, row.changed ? "changed since a review" : ""].filter(Boolean).join(" · ");
  }

  _all() { for (const row of this._rows) this._want(row.n); }

  _want(n) {
    if (this._about.has(n)) return;
    if (!this._waiting.size) setTimeout(() => this._fetch(), 30);
    this._waiting.add(n);
  }

  async _fetch() {
    while (this._waiting.size) {
      const numbers = [...this._waiting].slice(0, 40);
      for (const n of numbers) this._about.set(n, null);
      try {
        const found = await this._ask(`/api/about?n=${numbers.join(",")}`);
        for (const n of numbers) {
          this._about.set(n, found[n]);
          const node = this._nodes.get(n), row = this.row(n);
          if (node && row) this._fill(node, row);
        }
      } catch { for (const n of numbers) this._about.delete(n); return; }
      finally { for (const n of numbers) this._waiting.delete(n); }
    }
    if (byId("find").value) this.draw();
  }
}
