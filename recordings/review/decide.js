// The bar of the decision: accept, reject with reasons, comment, settle, and what others decided afterwards.

const byId = (id) => document.getElementById(id);

export class Decide {
  // send(body) posts a decision and gives the answer; ondecided(answer) goes on.
  constructor(send, ondecided) {
    this._send = send;
    this._ondecided = ondecided;
    this._episode = null;
    this._reasons = {};
    this._busy = false;
    byId("accept").addEventListener("click", () => this.accept());
    byId("reject").addEventListener("click", () => this.reject());
    byId("decision").addEventListener("submit", (event) => { event.preventDefault(); if (this.opened) this.reject(); });
    this.onerror = () => {};
  }

  reasons(words) {
    this._reasons = words;
    byId("reason-list").replaceChildren(...Object.entries(words).map(([reason, text], i) => {
      const label = document.createElement("label"), box = document.createElement("input"), key = document.createElement("kbd");
      box.type = "checkbox";
      box.value = reason;
      key.textContent = String((i + 1) % 10);
      label.append(box, key, ` ${text}`);
      return label;
    }));
  }

  get opened() { return !byId("reasons").hidden; }

  open(wanted) {
    byId("reasons").hidden = !wanted;
    byId("reject").setAttribute("aria-expanded", String(wanted));
    if (!wanted) for (const box of byId("reason-list").querySelectorAll("input")) box.checked = false;
  }

  // The key of a reason: 1 to 9, and 0 for the tenth.
  key(digit) {
    const boxes = byId("reason-list").querySelectorAll("input"), box = boxes[(Number(digit) + 9) % 10];
    if (!this._episode || !box) return;
    this.open(true);
    box.checked = !box.checked;
  }

  settle() {
    if (byId("settle-label").hidden) return;
    byId("settle").checked = !byId("settle").checked;
  }

  load(episode, possible) {
    this._episode = possible ? episode : null;
    this.open(false);
    byId("comment").value = "";
    byId("settle").checked = false;
    for (const id of ["accept", "reject", "comment"]) byId(id).disabled = !possible;
    this.state(episode.review);
  }

  // What is decided by now; others' decisions come only after the own one.
  state(review) {
    const mine = review.mine, disputed = review.row.shown === "disputed" && mine !== null;
    byId("accept").setAttribute("aria-pressed", String(mine !== null && mine.decision === "accept"));
    byId("reject").setAttribute("aria-pressed", String(mine !== null && mine.decision === "reject"));
    byId("settle-label").hidden = !disputed;
    const words = review.all.map((one) => this._words(one));
    const others = byId("others");
    others.replaceChildren(...words);
    others.hidden = !words.length;
  }

  _words(review) {
    const line = document.createElement("p"), who = document.createElement("b");
    who.textContent = review.reviewer;
    const did = `${review.settles ? "settled: " : ""}${review.decision === "accept" ? "accepted" : "rejected"}`;
    const why = review.reasons.map((reason) => this._reasons[reason] || reason).join("; ");
    line.append(who, ` ${did}${why ? `: ${why}` : ""}${review.comment ? ` “${review.comment}”` : ""}`, ` (${review.utc.slice(0, 16).replace("T", " ")} UTC)`);
    return line;
  }

  accept() { this._decide("accept", []); }

  reject() {
    if (!this._episode) return;
    if (!this.opened) { this.open(true); return; }
    const chosen = [...byId("reason-list").querySelectorAll("input:checked")].map((box) => box.value);
    if (!chosen.length) { this.onerror("Choose a reason: 1 to 9, or 0"); return; }
    if (chosen.includes("other") && !byId("comment").value.trim()) {
      this.onerror("Say in the comment what it is");
      byId("comment").focus();
      return;
    }
    this._decide("reject", chosen);
  }

  async _decide(decision, reasons) {
    if (!this._episode || this._busy) return;
    this._busy = true;
    const episode = this._episode;
    try {
      const answer = await this._send({
        n: episode.n, decision, reasons, comment: byId("comment").value.trim(),
        seen_sha256: episode.manifest_sha256, settles: byId("settle").checked && !byId("settle-label").hidden,
      });
      this.open(false);
      this._ondecided(episode, answer);
    } catch (error) { this.onerror(error.message); }
    finally { this._busy = false; }
  }
}
