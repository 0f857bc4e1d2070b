// Models elsewhere: the server asks for them when it is told to here, and never else.
const hub = {
  /** Those that are fetched: what is shown of them, by their references. */
  rows: new Map(),
  /** Fetches that this page follows. */
  followed: new Set(),

  draw(about) {
    const { closed, place, suggested } = about.hub;
    $("closed").hidden = !closed;
    $("closed").textContent = closed || "";
    $("search").hidden = Boolean(closed);
    $("to-get").hidden = Boolean(closed);
    $("asks").hidden = Boolean(closed);
    $("asks").textContent = `Searching asks ${place}, and what you get is fetched from there. The server asks nobody for anything else.`;
    if (closed) $("found").replaceChildren();
    else if (!$("found").childElementCount) this.suggest(suggested);
    for (const pull of about.pulls) {
      this.row(pull);
      if (pull.state === "running") this.follow(pull.reference);
    }
    for (const [reference, row] of this.rows) {
      if (about.pulls.some((pull) => pull.reference === reference) || this.followed.has(reference)) continue;
      row.remove();
      this.rows.delete(reference);
    }
    if (!this.rows.size) $("pulls").setAttribute("role", "group");
    // What is fetched now, or was given up here, has a row.
    const held = (name) => [...this.rows.keys()].some((reference) => new RegExp(`^(hf:${name.replaceAll(".", "\\.")}([:@]|$)|demo:)`).test(reference));
    const parts = closed ? [] : about.unfinished.filter((part) => !held(part.name));
    redraw($("unfinished"), parts.map((part) => this.part(part)));
    $("unfinished").setAttribute("role", parts.length ? "list" : "group");
    $("pulling").hidden = this.rows.size === 0 && parts.length === 0;
  },

  /** What a server before this one did not fetch to its end: of which of its models that is, is not known. */
  part({ name, bytes }) {
    const act = button("Show models", () => { $("words").value = name; $("words").focus(); this.search(); },
      { class: "plain", "aria-label": `Show models of ${name}, unfinished`, data: { key: `part ${name}` } });
    return el("div", { class: "card", role: "listitem", data: { name } }, el("h3", {}, name), el("div", { class: "acts" }, act),
      el("p", { class: "quiet" }, `${decimal(bytes)} came before the server ended. Get the same model again: it goes on from there.`));
  },

  suggest(suggested) {
    $("found").replaceChildren(...(suggested.length ? [el("h3", {}, "To begin with"), el("div", { role: "list" }, suggested.map((model) => this.fetchable(model)))] : []));
  },

  /** What is typed is a repository's own name, or words to find some by. */
  async search() {
    const words = $("words").value.trim();
    if (!words) {
      $("found").replaceChildren();
      this.draw(models.about);
      return;
    }
    announce("Searching.");
    const own = /^(?:hf:)?([\w.-]+\/[\w.-]+)/.exec(words);
    $("found").replaceChildren(el("p", { class: "quiet" }, "Searching…"));
    try {
      if (own) {
        $("found").replaceChildren(el("div", { class: "card whole" }, el("h3", {}, own[1]), await this.contents(own[1])));
      } else {
        const { repositories } = await api.post("/ui/hub/search", { words });
        $("found").replaceChildren(repositories.length ? el("div", { role: "list" }, repositories.map((found) => this.repository(found)))
          : el("p", {}, `Nothing was found for '${words}'.`));
        announce(`${repositories.length} repositories were found.`);
      }
    } catch (error) {
      $("found").replaceChildren(el("p", { class: "bad", role: "alert" }, error.message));
    }
  },

  repository(found) {
    const files = el("div", { class: "files", hidden: true });
    const act = button("Show models", async () => {
      const open = files.hidden;
      files.hidden = !open;
      act.setAttribute("aria-expanded", String(open));
      act.textContent = open ? "Hide models" : "Show models";
      act.setAttribute("aria-label", `${act.textContent} of ${found.name}`);
      if (!open || files.childElementCount) return;
      files.append(el("p", { class: "quiet" }, "Asking what it has…"));
      try {
        files.replaceChildren(...await this.contents(found.name));
      } catch (error) {
        files.replaceChildren(el("p", { class: "bad", role: "alert" }, error.message));
      }
    }, { class: "plain", "aria-expanded": "false", "aria-label": `Show models of ${found.name}` });
    const about = [found.downloads !== null ? `${counted(found.downloads)} downloads` : "", found.gated ? "its licence has to be accepted first" : ""];
    return el("div", { class: "card", role: "listitem" }, el("h3", {}, found.name), el("div", { class: "acts" }, act),
      el("p", { class: "quiet" }, about.filter(Boolean).join(" · ")), files);
  },

  async contents(repository) {
    const { name, licence, models: all } = await api.post("/ui/hub/contents", { repository });
    const renamed = name === repository ? "" : `now called ${name} · `;
    return [el("p", { class: "quiet" }, `${renamed}licence: ${licence || "not stated"}`),
      all.length ? el("div", { role: "list" }, all.map((model) => this.fetchable(model))) : el("p", {}, "There is no model in it that rinfer reads.")];
  },

  fetchable(model) {
    const fits = model.here ? el("span", { class: "quiet" }, "on this machine") : model.fits === false ? el("span", { class: "bad" }, "too large for the memory here")
      : model.fits ? el("span", { class: "good" }, "fits") : null;
    return el("div", { class: "line", role: "listitem" }, el("span", { class: "what" }, model.what),
      el("span", { class: "quiet" }, model.bytes === null ? "" : decimal(model.bytes)), el("span", {}, fits || ""),
      button(model.here ? "Here" : "Get", () => this.pull(model.reference), { class: "plain", disabled: model.here, "aria-label": `${model.here ? "Here:" : "Get"} ${model.reference}`, data: { get: model.reference } }));
  },

  pull(reference) {
    $("pulling").hidden = false;
    if (!this.followed.has(reference)) this.row({ reference, state: "running", file: "", files: 1, done: 0, total: 0, notes: [] });
    for (const part of [...$("unfinished").children]) if (reference.startsWith(`hf:${part.dataset.name}:`)) part.remove();
    $("pulling").scrollIntoView({ block: "nearest" });
    this.rows.get(reference).querySelector("button").focus();
    this.follow(reference);
  },

  /** Has a model fetched, or goes on to watch that, until it is over. */
  async follow(reference) {
    if (this.followed.has(reference)) return;
    this.followed.add(reference);
    let last = { reference, state: "running", file: "", files: 1, done: 0, total: 0, notes: [] };
    const speed = new Speed();
    try {
      for await (const pull of api.stream("/ui/hub/pull", { reference })) {
        last = pull;
        this.row(pull, speed.of(pull));
      }
    } catch (error) {
      last = { ...last, state: "failed", problem: error.message };
      this.row(last);
    }
    this.followed.delete(reference);
    if (last.state === "done") return this.arrived(reference, last.model);
    announce(last.state === "cancelled" ? `${reference} was cancelled.` : `${reference} was not fetched: ${last.problem}`);
    await models.load();
  },

  /** It is in the list now: its row goes, and the focus with it. */
  async arrived(reference, model) {
    const focused = this.rows.get(reference).contains(document.activeElement);
    models.plans.delete(model);
    await this.drop(reference);
    note(`${model} is on this machine.`);
    for (const act of $("found").querySelectorAll("[data-get]")) {
      if (act.dataset.get === reference) Object.assign(act, { textContent: "Here", ariaLabel: `Here: ${reference}`, disabled: true });
    }
    if (focused) [...document.querySelectorAll("[data-key]")].find((node) => node.dataset.key === `chat ${model}`)?.focus();
  },

  async drop(reference) {
    try {
      await api.post("/ui/hub/cancel", { reference });
    } catch {
      // It is over, and nobody remembers it: then nothing is to be done.
    }
    if (!this.followed.has(reference)) await models.load();
  },

  row(pull, speed = "") {
    let row = this.rows.get(pull.reference);
    if (!row) {
      row = el("div", { class: "card", role: "listitem" }, el("h3", {}, pull.reference), el("div", { class: "acts" }), el("div", { class: "whole" }));
      this.rows.set(pull.reference, row);
      $("pulls").append(row);
      $("pulls").setAttribute("role", "list");
    }
    const [, acts, body] = row.children;
    if (row.dataset.state !== pull.state) {
      const held = acts.contains(document.activeElement);
      row.dataset.state = pull.state;
      acts.replaceChildren(...this.acts(pull));
      if (held) acts.firstElementChild.focus();
    }
    const running = pull.state === "running";
    const share = pull.total ? pull.done / pull.total : 0;
    const told = running ? [pull.file.split("/").pop() + (pull.files > 1 ? ` (${pull.nth} of ${pull.files})` : ""), pull.total ? `${Math.floor(100 * share)} %` : "Asking what there is…", pull.total ? `${decimal(pull.done)} of ${decimal(pull.total)}` : "", speed].filter(Boolean).join(" · ")
      : pull.state === "done" ? "It is on this machine." : pull.state === "cancelled" ? "Cancelled. What came is kept, and fetching goes on from there." : pull.problem;
    if (!body.childElementCount) body.append(el("progress", { max: 1, "aria-label": `How far ${pull.reference} is` }), el("p", {}), el("ul", { class: "quiet" }));
    const [progress, text, notes] = body.children;
    progress.hidden = !running;
    progress.value = share;
    text.textContent = told;
    text.className = pull.state === "failed" ? "bad" : "quiet";
    if (notes.childElementCount !== pull.notes.length) notes.replaceChildren(...pull.notes.map((line) => el("li", {}, line)));
    notes.hidden = pull.notes.length === 0;
  },

  acts({ reference, state }) {
    const named = (text, act, name, kind = "plain") => button(text, act, { class: kind, "aria-label": `${text} ${name}` });
    if (state === "running") {
      const cancel = named("Cancel", () => {
        Object.assign(cancel, { textContent: "Cancelling…", ariaLabel: `Cancelling… ${reference}` });
        this.drop(reference);
      }, reference);
      return [cancel];
    }
    if (state === "done") return [named("Dismiss", () => this.drop(reference), reference)];
    return [named(state === "cancelled" ? "Resume" : "Try again", () => this.pull(reference), reference, "main"), named("Dismiss", () => this.drop(reference), reference)];
  },
};

/** Bytes a second, of the last few seconds. */
class Speed {
  constructor() {
    this.past = [];
  }
  of({ done, total }) {
    const now = performance.now();
    this.past.push([now, done]);
    if (this.past.length > 25) this.past.shift();
    const [since, before] = this.past[0];
    const rate = (1000 * (done - before)) / (now - since);
    if (!(rate > 0) || now - since < 500) return "";
    const left = (total - done) / rate;
    const time = left < 100 ? `${Math.ceil(left)} s` : left < 6000 ? `${Math.round(left / 60)} min` : `${(left / 3600).toFixed(1)} h`;
    return `${decimal(rate)}/s · ${time} left`;
  }
}
