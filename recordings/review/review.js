// The page of a review: the list on the left, the episode that is open, the keys.

import { Decide } from "./decide.js";
import { List, reviewable } from "./list.js";
import { Player } from "./player.js";

const byId = (id) => document.getElementById(id);
const NAME = "hearth.reviewer";
let reviewer = "", fixed = false, opened = null, wanted = null, noteTimer = 0;
const ahead = new Map(); // number -> promise of an episode that is likely to be next

async function ask(path, options) {
  const answer = await fetch(path, options);
  const found = await answer.json().catch(() => ({ error: `the server answered ${answer.status}` }));
  if (!answer.ok) throw new Error(found.error);
  trouble("");
  return found;
}
const named = (path) => `${path}?reviewer=${encodeURIComponent(reviewer)}`;

function trouble(words) {
  byId("trouble").hidden = !words;
  byId("trouble").textContent = words;
}
const failed = (error) => trouble(error instanceof TypeError ? "The server cannot be reached: is `hearth review` still running?" : error.message);

function say(words) {
  byId("said").textContent = words;
  byId("said").classList.add("seen");
  clearTimeout(noteTimer);
  noteTimer = setTimeout(() => byId("said").classList.remove("seen"), 4000);
}

const player = new Player();
const list = new List(ask, (n) => { drawer(false); open(n); });
const decide = new Decide(
  (body) => ask("/api/review", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ ...body, reviewer }) }),
  decided,
);
player.onerror = trouble;
decide.onerror = (words) => { trouble(words); };

function progress() {
  const rows = list.rows.filter(reviewable), mine = rows.filter((row) => row.mine !== null).length;
  const left = rows.filter((row) => row.mine === null && row.shown !== "enough").length;
  const bar = byId("progress");
  bar.setAttribute("aria-valuemax", String(mine + left));
  bar.setAttribute("aria-valuenow", String(mine));
  bar.firstElementChild.style.width = `${mine + left ? 100 * mine / (mine + left) : 100}%`;
  const disputed = rows.filter((row) => row.shown === "disputed").length;
  byId("progress-words").textContent = `${mine} reviewed, ${left} to do${disputed ? `, ${disputed} disputed` : ""}`;
}

async function refresh() {
  const found = await ask(named("/api/list"));
  fixed = found.reviewer !== null;
  if (fixed) reviewer = found.reviewer;
  byId("who").textContent = reviewer || "nobody";
  byId("who").disabled = fixed;
  decide.reasons(found.reasons);
  list.set(found.episodes);
  if (found.problems.length) trouble(found.problems.join(" · "));
  progress();
  return found;
}

async function start() {
  try {
    const first = await refresh();
    byId("only").value = first.only;
    if (!fixed) {
      let kept = "";
      try { kept = localStorage.getItem(NAME) || ""; } catch { /* a browser that keeps nothing */ }
      if (kept) { reviewer = kept; await refresh(); } else { await askName(); }
    }
    const hash = Number(/^#(\d+)$/.exec(location.hash)?.[1] ?? -1);
    list.draw();
    const row = list.row(hash) || list.shown()[0];
    if (row) open(row.n); else empty();
  } catch (error) { failed(error); byId("waiting").textContent = "The list could not be loaded."; }
}

function askName() {
  const dialog = byId("name-dialog");
  byId("name").value = reviewer;
  dialog.showModal();
  return new Promise((resolve) => {
    byId("name-form").onsubmit = async (event) => {
      event.preventDefault();
      const before = reviewer;
      reviewer = byId("name").value.trim();
      try {
        await refresh();
        ahead.clear(); // what they hold is for another reviewer
        try { localStorage.setItem(NAME, reviewer); } catch { /* then it is asked again next time */ }
        dialog.close();
        resolve();
      } catch (error) { reviewer = before; failed(error); }
    };
    dialog.oncancel = (event) => { if (!reviewer) event.preventDefault(); else resolve(); };
  });
}

function empty() {
  player.unload();
  opened = null;
  byId("content").hidden = byId("decision").hidden = true;
  byId("waiting").hidden = false;
  byId("waiting").textContent = "Nothing is left to do here. Choose another filter on the left.";
}

function fetchEpisode(n) {
  if (!ahead.has(n)) {
    const coming = ask(named(`/api/episode/${n}`));
    coming.catch(() => ahead.delete(n));
    ahead.set(n, coming);
    if (ahead.size > 6) ahead.delete(ahead.keys().next().value);
  }
  return ahead.get(n);
}

async function open(n) {
  wanted = n;
  list.choose(n);
  history.replaceState(null, "", `#${n}`);
  byId("waiting").hidden = byId("content").hidden === false;
  byId("waiting").textContent = "Loading the episode …";
  byId("content").classList.add("loading");
  try {
    const episode = await fetchEpisode(n);
    if (wanted !== n) return;
    ahead.delete(n); // its reviews may have changed when it is opened again
    show(episode);
    const plots = await ask(`/api/plots/${n}`);
    if (wanted !== n) return;
    byId("plots").innerHTML = plots.html;
    byId("plots").setAttribute("aria-busy", "false");
    player.plots(byId("plots"));
    const next = list.beside(1);
    if (next && reviewable(next)) fetchEpisode(next.n).catch(() => {});
  } catch (error) { if (wanted === n) { failed(error); byId("content").classList.remove("loading"); } }
}

function show(episode) {
  opened = episode;
  byId("waiting").hidden = true;
  byId("content").hidden = byId("decision").hidden = false;
  byId("content").classList.remove("loading");
  document.title = `${episode.id} · Hearth review`;
  for (const part of ["header", "plan", "checks", "profile", "story"]) byId(part).innerHTML = episode.html[part];
  byId("plots").innerHTML = '<p class="waiting">Drawing the sound …</p>';
  byId("plots").setAttribute("aria-busy", "true");
  const notes = episode.notes.map((words) => Object.assign(document.createElement("li"), { textContent: words }));
  byId("notes").replaceChildren(...notes);
  byId("notes").hidden = !notes.length;
  byId("changed").hidden = !episode.review.row.changed;
  byId("changed").textContent = `This episode was ${episode.review.row.changed}.`;
  player.load(episode);
  decide.load(episode, reviewable(episode.review.row));
  list.replace(episode.review.row);
  scrollTo(0, 0);
  byId("episode").focus({ preventScroll: true });
}

function decided(episode, answer) {
  list.replace(answer.row);
  ahead.delete(episode.n);
  progress();
  const did = answer.mine.decision === "accept" ? "Accepted" : "Rejected";
  const outcome = { disputed: ": disputed, another reviewer decided otherwise", accepted: ": now accepted", rejected: ": now rejected" }[answer.row.shown] || "";
  say(`${did} ${episode.id}${outcome}`);
  if (opened === episode) {
    episode.review = answer;
    decide.state(answer);
    const next = list.beside(1);
    if (next) open(next.n);
    else if (byId("only").value === "todo" && !list.rows.some((row) => reviewable(row) && row.mine === null && row.shown !== "enough")) say(`${did} ${episode.id}${outcome}. Nothing is left to do.`);
  }
}

function go(step) {
  const row = list.beside(step);
  if (row) open(row.n); else say(step > 0 ? "This is the last one here" : "This is the first one here");
}

function drawer(wantedOpen) {
  document.body.classList.toggle("drawer", wantedOpen);
  byId("list-button").setAttribute("aria-expanded", String(wantedOpen));
}

async function summary() {
  const found = await ask("/api/summary"), body = byId("summary-body");
  const number = (one, unit = "") => (one.value === null ? "not defined" : `${one.value.toFixed(unit ? 1 : 2)}${unit}${one.low === null ? "" : ` (${one.low.toFixed(unit ? 0 : 2)} to ${one.high.toFixed(unit ? 0 : 2)})`}`);
  const rows = [
    ["Episodes", found.episodes], ["Accepted", found.accepted], ["Rejected", found.rejected], ["Disputed", found.disputed], ["Open", found.open],
    ...Object.entries(found.reviewers).map(([name, count]) => [`Reviewed by ${name}`, count]),
    ["With two blind reviews", found.agreement.episodes],
  ];
  if (found.agreement.episodes) {
    rows.push(["Agreement", number(found.agreement.percent, " %")], ["Gwet's AC1", number(found.agreement.ac1)], ["Cohen's kappa", number(found.agreement.kappa)]);
    for (const one of found.agreement.reasons) if (one.both + one.one) rows.push([`Reason: ${one.reason}`, `both ${one.both}, one ${one.one}`]);
  }
  const terms = document.createElement("dl");
  terms.className = "facts";
  for (const [term, text] of rows) {
    const pair = document.createElement("div");
    pair.append(Object.assign(document.createElement("dt"), { textContent: term }), Object.assign(document.createElement("dd"), { textContent: text }));
    terms.append(pair);
  }
  body.replaceChildren(terms);
  byId("summary").showModal();
}

const KEYS = {
  " ": () => player.toggle(),
  ArrowLeft: (event) => player.seek(player.now() - (event.shiftKey ? 5 : 0.5)),
  ArrowRight: (event) => player.seek(player.now() + (event.shiftKey ? 5 : 0.5)),
  ",": () => player.step(-1), ".": () => player.step(1), Home: () => player.seek(0),
  a: () => decide.accept(), r: () => decide.reject(), n: () => go(1), p: () => go(-1), s: () => decide.settle(),
  o: () => player.flip("late"), m: () => player.flip("mix"), l: () => { drawer(true); list.focus(); },
  c: () => byId("comment").focus(), "?": () => byId("help").showModal(),
  Enter: () => { if (decide.opened) decide.reject(); },
  Escape: () => { trouble(""); drawer(false); decide.open(false); },
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const target = event.target, writing = target.matches("input:not([type=checkbox]), select, textarea");
  if (writing) {
    if (event.key === "Escape") { target.blur(); event.preventDefault(); }
    return;
  }
  if ((event.key === " " || event.key === "Enter") && target.matches("button, a, summary, input")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (/^\d$/.test(key) && !event.repeat) { decide.key(key); event.preventDefault(); return; }
  const act = KEYS[key];
  if (!act || (event.repeat && !key.startsWith("Arrow") && key !== "," && key !== ".")) return;
  event.preventDefault();
  act(event);
});
addEventListener("hashchange", () => {
  const n = Number(/^#(\d+)$/.exec(location.hash)?.[1] ?? -1);
  if (n !== wanted && list.row(n)) open(n);
});
byId("next").addEventListener("click", () => go(1));
byId("previous").addEventListener("click", () => go(-1));
byId("list-button").addEventListener("click", () => drawer(!document.body.classList.contains("drawer")));
byId("help-button").addEventListener("click", () => byId("help").showModal());
byId("summary-button").addEventListener("click", () => summary().catch(failed));
byId("who").addEventListener("click", async () => { await askName(); if (opened) open(opened.n); });

start();
