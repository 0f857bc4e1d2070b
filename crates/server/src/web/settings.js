// What a conversation is asked with: kept in the browser; what is empty is as the model has it.
const FIELDS = [
  ["temperature", "Temperature", { min: 0, max: 2, step: 0.05 }],
  ["top_p", "Top p", { min: 0, max: 1, step: 0.01 }],
  ["top_k", "Top k", { min: 0, step: 1 }],
  ["min_p", "Min p", { min: 0, max: 1, step: 0.01 }],
  ["repeat_penalty", "Repeat penalty", { min: 0, max: 2, step: 0.01 }],
  ["presence_penalty", "Presence penalty", { min: -2, max: 2, step: 0.1 }],
  ["frequency_penalty", "Frequency penalty", { min: -2, max: 2, step: 0.1 }],
  ["max_tokens", "Most tokens", { min: 1, step: 1 }],
  ["seed", "Seed", { step: 1 }],
];

/** A number as people write it: models' files have it in few bits. */
const plain = (value) => typeof value === "number" ? String(Number(value.toPrecision(6))) : "";

const settings = {
  values: store.settings().ask || {},

  set(key, value) {
    if (value === "" || value === undefined) delete this.values[key];
    else this.values[key] = value;
    store.settings({ ask: this.values });
    this.mark();
  },
  /** Says of how many settings answers depend. */
  mark() {
    const count = Object.keys(this.values).length;
    $("settings").textContent = count ? `Settings (${count})` : "Settings";
  },
  /** The fields of a request, or an error that says what is wrong. */
  fields() {
    const { system: _, schema, stop, think, ...numbers } = this.values;
    const out = { ...numbers };
    if (stop) out.stop = stop.split("\n").filter((line) => line);
    if (think) out.chat_template_kwargs = { enable_thinking: think === "on" };
    if (schema && schema.trim()) {
      let parsed;
      try {
        parsed = JSON.parse(schema);
      } catch (error) {
        throw new Error(`The JSON schema is no JSON: ${error.message}`);
      }
      out.response_format = { type: "json_schema", json_schema: { name: "answer", schema: parsed, strict: true } };
    }
    return out;
  },
  open(open) {
    $("panel").hidden = !open;
    $("settings").setAttribute("aria-expanded", String(open));
    if (open) {
      this.draw();
      $("panel").querySelector("textarea, input").focus();
    }
  },
  close() {
    this.open(false);
    $("settings").focus();
  },
  draw() {
    const model = models.chosen();
    const usual = (model && model.defaults) || {};
    const number = ([key, name, bounds]) => el("label", {}, el("span", {}, name),
      el("input", { type: "number", id: `set-${key}`, ...bounds, value: this.values[key] ?? "", placeholder: plain(usual[key]),
        onchange: (event) => this.set(key, event.target.value === "" ? "" : event.target.valueAsNumber) }));
    const text = (key, name, more = {}) => el("label", {}, el("span", {}, name),
      el("textarea", { id: key === "schema" ? "schema" : `set-${key}`, value: this.values[key] ?? "", spellcheck: false, ...more,
        onchange: (event) => this.set(key, event.target.value) }));
    $("panel").replaceChildren(
      el("h2", {}, "Settings", button("Close", () => this.close(), { class: "plain" })),
      text("system", "System prompt", { spellcheck: true, placeholder: "How the model should answer" }),
      el("div", { class: "pair" }, FIELDS.map(number)),
      text("stop", "Stop at (a text a line)"),
      el("label", {}, el("span", {}, "Think before answering"),
        el("select", { id: "set-think", onchange: (event) => this.set("think", event.target.value) },
          [["", "as the model does"], ["on", "yes"], ["off", "no"]].map(([value, name]) => el("option", { value, selected: this.values.think === value }, name)))),
      text("schema", "JSON schema that answers are held to", { placeholder: '{"type": "object", …}' }),
      el("p", { class: "quiet" }, model && !model.defaults ? "What is empty is as the model's files have it, which is shown in grey when it is loaded."
        : "What is empty is as the model's files have it, which is shown in grey."),
      button("Reset", () => { this.values = {}; store.settings({ ask: {} }); this.mark(); this.draw(); }, { class: "plain" }),
    );
  },
};
