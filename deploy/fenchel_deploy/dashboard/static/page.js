// Shows documents. In a report they are in the file; on the page they come from its server, again whenever it says that
// something has changed, and only what has changed is drawn anew.
"use strict";

(() => {
  const { make } = Parts;
  const main = document.querySelector("main");
  const TONES = { completed: "good", running: "busy", queued: "busy", exhausted: "", stopped: "bad", failed: "bad", diverged: "bad", interrupted: "bad" };
  const HALF = new Set(["gap", "objective", "fit", "time", "bytes", "relative", "relative-time", "mean-time", "mean-bytes",
    "holdings", "participation", "latency", "total-costs", "sights", "protection", "sent", "passed", "largest-weights", "weights"]);
  const queue = [];
  let drawing = false;

  // Charts are drawn one after another, so that the page can be used while the later ones are still missing.
  function later(work) {
    queue.push(work);
    if (!drawing) { drawing = true; setTimeout(next, 0); }
  }
  async function next() {
    const work = queue.shift();
    if (!work) { drawing = false; main.dataset.drawn = String(Number(main.dataset.drawn || 0) + 1); return; }
    await work();
    setTimeout(next, 0);
  }

  class Figure {
    constructor() {
      this.heading = make("h3");
      this.caption = make("p", { class: "caption" });
      this.legend = make("ul", { class: "legend", "aria-hidden": "true" });
      this.drawing = make("div", { class: "drawing", role: "img" });
      this.foot = make("div");
      this.root = make("figure", {}, this.heading, this.drawing, this.legend, this.caption, this.foot);
    }

    update(chart, path) {
      this.chart = chart;
      this.root.dataset.chart = chart.key;
      this.heading.textContent = chart.title;
      this.caption.textContent = chart.caption;
      this.drawing.setAttribute("aria-label", `Chart: ${chart.title}, ${chart.y.name} by ${chart.x.name}. The table below has the same values.`);
      const open = this.foot.querySelector("details")?.open;
      this.foot.replaceChildren(Parts.folded("the same as a table", () => Parts.behind(this.chart, path), open));
      this.draw();
    }

    draw() {
      const swatch = ([name, colour, line]) => make("li", {}, make("span", { class: line ? "swatch line" : "swatch", style: { background: colour } }), name);
      this.legend.replaceChildren(...Charts.legend(this.chart).map(swatch));
      this.legend.hidden = !this.legend.children.length;
      later(() => Charts.draw(this.drawing, this.chart));
    }
  }

  class Part {
    constructor() { this.root = make("div"); }

    update(item, path, states) {
      const open = this.root.querySelector("details")?.open;
      this.root.replaceChildren(Parts.element(item, path, open, states));
    }

    draw() {}
  }

  class Sheet {
    constructor(place) {
      this.place = place;
      this.parts = new Map();
      this.state = make("p", { class: "state", "aria-live": "polite" });
      this.head = { kicker: make("p", { class: "kicker" }), title: make("h1"), subtitle: make("p", { class: "subtitle" }),
        warning: make("p", { class: "warning", role: "alert" }), contents: make("ul", { class: "contents" }) };
      this.root = make("article", { class: "document" }, make("header", { class: "masthead" }, this.head.kicker, this.head.title, this.head.subtitle,
        this.state, this.head.warning, make("nav", { "aria-label": "Contents" }, this.head.contents)));
    }

    update(shown) {
      this.head.kicker.textContent = shown.kind === "comparison" ? "comparison" : shown.name;
      this.head.title.textContent = shown.title;
      this.head.subtitle.textContent = shown.subtitle;
      this.head.warning.textContent = shown.warning;
      this.head.warning.hidden = !shown.warning;
      this.state.dataset.tone = TONES[shown.status] ?? "";
      this.state.hidden = !shown.status;
      const told = shown.reason ? [make("b", {}, shown.status), `: ${shown.reason}`] : [make("b", {}, shown.status)];
      if (this.state.textContent !== told.map((one) => one.textContent ?? one).join("")) this.state.replaceChildren(...told);
      this.fill(shown);
    }

    fill(shown) {
      const states = Object.fromEntries(shown.sections.flatMap((section) => section.items).filter((item) => item.type === "members")
        .flatMap((item) => item.members.map((member) => [member.name, member.state])));
      const anchor = (section) => `s${this.place}-${section.key}`;
      const contents = shown.sections.map((section) => `${anchor(section)} ${section.title}`).join("|");
      if (this.contents !== contents) {
        this.contents = contents;
        this.head.contents.replaceChildren(...shown.sections.map((section) => make("li", {}, make("a", { href: `#${anchor(section)}` }, section.title))));
      }
      const known = new Set();
      shown.sections.forEach((section, number) => {
        const items = this.part(known, section.key, () => {
          const heading = make("h2", { id: `${anchor(section)}-title` });
          const root = make("section", { class: "part", id: anchor(section), "aria-labelledby": `${anchor(section)}-title` }, heading, make("div", { class: "items" }));
          return { root, heading };
        });
        if (items.heading.textContent !== section.title) items.heading.textContent = section.title;
        const holder = items.root.lastChild;
        section.items.forEach((item, index) => {
          const part = this.part(known, `${section.key}/${item.key}`, () => (item.type === "chart" ? new Figure() : new Part()));
          const path = `${this.place}.sections.${number}.items.${index}`;
          const text = JSON.stringify([path, item, item.type === "holdings" ? states : null]);
          if (part.text !== text) { part.text = text; part.update(item, path, states); }
          part.root.classList.toggle("half", HALF.has(item.key));
          part.root.classList.toggle("wide", item.key === "protection");
          if (holder.children[index] !== part.root) holder.insertBefore(part.root, holder.children[index] || null);
        });
        if (this.root.children[number + 1] !== items.root) this.root.insertBefore(items.root, this.root.children[number + 1] || null);
      });
      for (const [key, part] of this.parts) if (!known.has(key)) { part.root.remove(); this.parts.delete(key); }
    }

    part(known, key, made) {
      known.add(key);
      if (!this.parts.has(key)) this.parts.set(key, made());
      return this.parts.get(key);
    }

    redraw() { for (const part of this.parts.values()) part.draw?.(); }
  }

  const sheets = [];
  function show(documents) {
    documents.forEach((shown, place) => {
      if (!sheets[place]) { sheets[place] = new Sheet(place); main.append(sheets[place].root); }
      sheets[place].update(shown);
    });
    for (const sheet of sheets.splice(documents.length)) sheet.root.remove();
    if (documents.length) document.title = `${documents[0].title} – Fenchel`;
  }

  // Light or dark: as the system says, until the reader chooses.
  function themes() {
    const button = document.getElementById("theme"), system = matchMedia("(prefers-color-scheme: dark)"), root = document.documentElement;
    const remembered = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
    const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
    const named = () => { button.textContent = dark() ? "Light" : "Dark"; button.setAttribute("aria-label", `Show in ${dark() ? "light" : "dark"} colours`); };
    if (remembered()) root.dataset.theme = remembered();
    named();
    const changed = () => { named(); for (const sheet of sheets) sheet.redraw(); };
    system.addEventListener("change", changed);
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      try { localStorage.setItem("theme", root.dataset.theme); } catch { /* a file from disk may have no storage */ }
      changed();
    });
  }

  const pulse = document.getElementById("pulse");
  function tell(state, text) { pulse.dataset.state = state; pulse.textContent = text; pulse.hidden = false; }

  async function fetched(address) {
    const answer = await fetch(address, { headers: { Accept: "application/json" } });
    if (answer.status === 401) { location.reload(); throw new Error("the token is asked for again"); }
    if (!answer.ok) throw new Error((await answer.json()).error);
    return answer.text();
  }

  // Follows one address: fetched again after each word of the server, at most once at a time.
  function follow(address, events, further = async () => {}) {
    let busy = false, due = false, shown = "", documents = [];
    async function look() {
      if (busy) { due = true; return; }
      busy = true;
      try {
        const found = await fetched(address);
        if (found !== shown) {
          documents = JSON.parse(found).documents;
          show(documents);
          shown = found;
        }
        await further();
        const live = documents.some((one) => one.live);
        tell(live ? "live" : "", live ? "live" : "not under way");
      } catch (error) {
        tell("lost", error.message === "Failed to fetch" ? "no connection, trying again" : error.message);
      } finally {
        busy = false;
        if (due) { due = false; look(); }
      }
    }
    const source = new EventSource(events);
    source.addEventListener("changed", look);
    source.addEventListener("error", () => tell("lost", "no connection, trying again"));
    look();
  }

  const listed = async () => JSON.parse(await fetched("/api/runs")).runs;

  // The list of runs, with what has become of each by now; a list that is in use stays as it is.
  function choices(runs, chosen) {
    const select = document.getElementById("runs");
    const option = (run) => make("option", { value: run.run, selected: run.run === chosen }, `${run.name}, ${run.algorithm}, ${run.privacy}, ${run.status}`);
    const text = JSON.stringify(runs);
    if (select.dataset.runs === text || document.activeElement === select) return;
    select.dataset.runs = text;
    select.replaceChildren(...runs.map(option));
    select.closest("label").hidden = runs.length < 2;
    document.getElementById("compare").hidden = runs.length < 2;
    select.onchange = () => { location.href = `/run/${encodeURIComponent(select.value)}`; };
  }

  function chooser(runs, chosen) {
    const box = (run) => make("label", {}, make("input", { type: "checkbox", name: "run", value: run.run, checked: chosen.includes(run.run) }), `${run.name} – ${run.algorithm}, ${run.privacy}, ${run.status}`, make("small", { class: "kicker" }, run.run));
    main.append(make("form", { action: "/compare", method: "get" }, make("h1", { class: "visually-hidden" }, "Compare runs"), make("fieldset", { class: "choice" }, make("legend", {}, "Runs to put side by side"), ...runs.map(box)), make("p", {}, make("button", {}, "Compare"))));
  }

  async function page() {
    if (document.body.dataset.view === "party") { follow("/api/party", "/api/events"); return; }
    const runs = await listed();
    const asked = new URLSearchParams(location.search).getAll("run");
    const comparing = location.pathname === "/compare";
    const run = location.pathname.startsWith("/run/") ? decodeURIComponent(location.pathname.slice(5)) : (runs.find((one) => one.status === "running") || runs[0])?.run;
    choices(runs, comparing ? null : run);
    if (comparing) {
      chooser(runs, asked);
      const query = asked.map((one) => `run=${encodeURIComponent(one)}`).join("&");
      if (asked.length) follow(`/api/compare?${query}`, "/api/events");
    } else if (run) {
      follow(`/api/run/${encodeURIComponent(run)}`, "/api/events", async () => choices(await listed(), run));
    } else {
      main.append(make("p", {}, "There is no run yet. This page shows the first one as soon as it is there."));
      new EventSource("/api/events").addEventListener("changed", async () => { if ((await listed()).length) location.reload(); });
    }
  }

  themes();
  const embedded = document.getElementById("documents");
  if (embedded) show(JSON.parse(embedded.textContent).documents);
  else page().catch((error) => tell("lost", error.message));
})();
