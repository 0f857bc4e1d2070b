// The models that the server has, and what they take.
const models = {
  /** Those that are served. */
  all: [],
  /** Names of those that were fetched and are not served yet. */
  here: [],
  about: {},
  /** What each takes of memory, or why that is not known. */
  plans: new Map(),

  async load() {
    try {
      this.about = await api.get("/ui/models");
    } catch (error) {
      note(`The server's models are not known: ${error.message}`);
      return;
    }
    this.all = this.about.models;
    this.here = this.about.here;
    await this.choose();
    seen();
    if ($("talk").querySelector(".empty")) chat.empty();
    if ($("view-models").hidden) return;
    this.draw();
    hub.draw(this.about);
  },
  /** What can be chosen to chat with: not what is known to write no texts, of which the first is not taken unseen. */
  async choose() {
    const kept = $("model").value || store.settings().model;
    const all = () => this.all.filter((model) => this.writes(model.id));
    const own = all().find((model) => model.id === kept);
    for (let first = own || all()[0]; first && !this.plans.has(first.id); [first] = all()) await this.plan(first);
    const options = all().map((model) => el("option", { value: model.id, selected: model.id === kept }, model.id));
    $("model").replaceChildren(...options);
    $("model").hidden = options.length === 0;
  },
  /** Whether a model writes texts, as far as that is known. */
  writes(id) {
    const plan = this.plans.get(id);
    return !plan || !plan.makes || plan.makes === "texts";
  },
  /** Others load and unload, too: while it is looked at, the list is what there is. */
  watch() {
    setInterval(async () => {
      if (document.hidden || $("view-models").hidden || document.querySelector("dialog")) return;
      const shown = ({ models: all, here, used }) => JSON.stringify([all, here, used]);
      try {
        if (shown(await api.get("/ui/models")) !== shown(this.about)) await this.load();
      } catch {
        // Whoever does something next is told.
      }
    }, 3000);
  },
  chosen() {
    return this.all.find((model) => model.id === $("model").value);
  },

  /** What all may take, and what is free of it. */
  room() {
    const { memory } = this.about;
    const taken = this.all.reduce((sum, model) => sum + model.bytes, 0);
    return memory ? { memory, free: Math.max(0, memory - taken), most: Math.max(0, memory - this.about.used) } : null;
  },

  draw() {
    const room = this.room();
    const all = [...this.all, ...this.here.map((id) => ({ id, state: "unloaded", bytes: 0 }))];
    $("room").textContent = room ? `${size(room.free)} of ${size(room.memory)} of memory is free.` : "";
    $("here").setAttribute("role", all.length ? "list" : "group");
    redraw($("here"), all.length ? all.map((model) => this.card(model)) : [
      el("div", { class: "empty-list" }, el("p", {}, "There is no model here yet."),
        el("p", { class: "quiet" }, this.about.hub && !this.about.hub.closed ? "Get one below, or start the server with one: rinfer serve --web MODEL"
          : "Start the server with one: rinfer serve --web MODEL"))]);
    for (const model of all) this.plan(model);
  },

  card(model) {
    const loaded = model.state === "loaded";
    const busy = model.state === "loading";
    const text = loaded ? "Unload" : busy ? "Loading…" : "Load";
    const act = button(text, () => this.turn(model, act),
      { class: "plain", disabled: busy, "aria-label": `${text} ${model.id}`, data: { key: `act ${model.id}` } });
    const chatting = button("Chat", () => this.chat(model, chatting),
      { class: "main", "aria-label": `Chat with ${model.id}`, data: { key: `chat ${model.id}` } });
    chatting.hidden = !this.writes(model.id) || Boolean((this.plans.get(model.id) || {}).problem);
    return el("div", { class: "card", role: "listitem" },
      el("h3", {}, model.id, " ", el("span", { class: `state ${model.state}` }, loaded ? "loaded" : busy ? "loading" : "not loaded")),
      el("div", { class: "acts" }, act, chatting),
      el("div", { class: "plan", data: { plan: model.id } }, ...this.planned(model)));
  },

  /** Asks what a model takes, once for as long as it stays what it is. */
  async plan(model) {
    if (this.plans.has(model.id)) return;
    this.plans.set(model.id, {});
    let plan;
    try {
      plan = await api.post("/ui/models/plan", { model: model.id });
    } catch (error) {
      plan = { problem: error.message };
    }
    this.plans.set(model.id, plan);
    const shown = [...document.querySelectorAll("[data-plan]")].find((node) => node.dataset.plan === model.id);
    if (shown) shown.parentElement.replaceWith(this.card(model));
    if (this.writes(model.id)) return;
    for (const option of $("model").options) if (option.value === model.id) option.remove();
  },

  planned(model) {
    const plan = this.plans.get(model.id);
    if (!plan || (!plan.problem && plan.total === undefined)) return [el("p", { class: "quiet" }, "Reading what it takes…")];
    if (plan.problem) return [el("p", { class: "bad" }, plan.problem)];
    const makes = { vectors: "It makes vectors of texts, for /v1/embeddings.", scores: "It scores pairs of texts, for /v1/rerank." }[plan.makes];
    const more = makes ? [el("p", { class: "quiet" }, makes)] : [];
    if (!plan.total) return [el("p", {}, this.verdict(model, plan, null)), ...more];
    const parts = [["weights", plan.weights, "weights"], ["state", plan.state, this.texts(plan)], ["scratch", plan.scratch, "working memory"]];
    const room = this.room();
    const whole = Math.max(plan.total, room ? room.memory : 0);
    const bar = el("div", { class: "bar", role: "img", "aria-label": `${size(plan.total)} of ${size(whole)} of memory` },
      parts.map(([name, bytes]) => el("span", { class: name })));
    parts.forEach(([, bytes], i) => { bar.children[i].style.width = `${(100 * bytes) / whole}%`; });
    return [bar,
      el("p", { class: "quiet parts" }, parts.map(([name, bytes, text]) => el("span", {}, el("i", { class: name, "aria-hidden": "true" }), `${size(bytes)} ${text}`))),
      el("p", {}, `${size(plan.total)} of memory. `, this.verdict(model, plan, room)),
      ...more];
  },
  /** What a model's state is for. */
  texts(plan) {
    if (plan.positions <= plan.context) return `for ${counted(plan.context)} tokens`;
    return `for ${plan.answers} ${plan.makes === "texts" ? "answers" : "texts"} at once, ${counted(plan.positions)} tokens together`;
  },
  verdict(model, plan, room) {
    if (model.state === "loaded") return `Loaded, with ${counted(model.context)} tokens of context.`;
    if (!room) return "";
    if (plan.total > room.memory) return el("span", { class: "bad" }, `It does not fit: all models may take ${size(room.memory)}.`);
    if (plan.total > room.most) return el("span", { class: "bad" }, "There is no room while other models write answers.");
    if (plan.total > room.free) return "It fits, and models that nobody uses are unloaded for it.";
    return el("span", { class: "good" }, "It fits.");
  },

  async turn(model, act) {
    const load = model.state !== "loaded";
    act.disabled = true;
    act.textContent = load ? "Loading…" : "Unloading…";
    act.setAttribute("aria-label", `${act.textContent} ${model.id}`);
    announce(`${model.id} is ${load ? "loaded" : "unloaded"} now.`);
    let done = true;
    try {
      await api.post(load ? "/ui/models/load" : "/ui/models/unload", { model: model.id });
      announce(`${model.id} is ${load ? "loaded" : "unloaded"}.`);
    } catch (error) {
      done = false;
      note(error.message);
    }
    await this.load();
    return done;
  },
  /** To the conversation, on this model: what is not served yet is loaded first. */
  async chat(model, act) {
    if (!this.all.some((served) => served.id === model.id) && !await this.turn(model, act)) return;
    $("model").value = model.id;
    pick();
    tab("chat");
  },
};
