// The models that the server has.
const models = {
  all: [],
  about: {},

  async load() {
    try {
      this.about = await api.get("/ui/models");
      this.all = this.about.models;
    } catch (error) {
      note(`The server's models are not known: ${error.message}`);
    }
    const kept = $("model").value || store.settings().model;
    $("model").replaceChildren(...this.all.map((model) => el("option", { value: model.id, selected: model.id === kept }, model.id)));
    $("model").hidden = this.all.length === 0;
    $("attach").hidden = !(this.chosen() && this.chosen().sees);
    if (!$("view-models").hidden) this.draw();
  },
  chosen() {
    return this.all.find((model) => model.id === $("model").value);
  },

  draw() {
    $("view-models").replaceChildren(
      el("h2", {}, "On this machine"),
      ...(this.all.length ? this.all.map((model) => this.card(model)) : [el("p", { class: "quiet" }, "The server was started with no models.")]));
  },

  card(model) {
    const loaded = model.state === "loaded";
    const needs = model.bytes ? `${size(model.bytes)} of memory` : "";
    const room = this.about.memory ? `, of ${size(this.about.memory)}` : "";
    const act = button(loaded ? "Unload" : model.state === "loading" ? "Loading…" : "Load", () => this.turn(model, act),
      { class: "plain", disabled: model.state === "loading", "aria-label": `${loaded ? "Unload" : "Load"} ${model.id}` });
    return el("div", { class: "card" }, el("h3", {}, model.id),
      el("div", { class: "acts" }, act, button("Chat", () => { $("model").value = model.id; pick(); tab("chat"); }, { class: "main", "aria-label": `Chat with ${model.id}` })),
      el("p", { class: "quiet" }, [model.problem, model.state, model.context ? `${model.context} tokens of context` : "", needs && needs + room].filter(Boolean).join(" · ")));
  },

  async turn(model, act) {
    const load = model.state !== "loaded";
    act.disabled = true;
    act.textContent = load ? "Loading…" : "Unloading…";
    try {
      await api.post(load ? "/ui/models/load" : "/ui/models/unload", { model: model.id });
      announce(`${model.id} is ${load ? "loaded" : "unloaded"}.`);
    } catch (error) {
      note(error.message);
    }
    await this.load();
  },
};
