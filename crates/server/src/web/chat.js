// The conversation that is shown, and the answer that is being written.
const chat = {
  /** Ends the answer that is being written. */
  stopping: null,
  images: [],

  draw() {
    const talk = store.here;
    const shown = talk ? path(talk) : [];
    if (!shown.length) {
      this.empty();
    } else {
      $("talk").replaceChildren(...shown.map((message) => this.message(talk, message)));
    }
    this.bottom(true);
    list();
  },

  /** What there is to see before anything is said. */
  empty() {
    const some = models.all.length > 0;
    const fetched = models.here.length > 0;
    $("talk").replaceChildren(el("div", { class: "empty" },
      el("h2", {}, some ? "What is on your mind?" : fetched ? "No model is chosen yet" : "There is no model yet"),
      el("p", { class: "quiet" }, some ? "All of it stays on this machine." : fetched ? "Choose one of those on this machine to chat with it."
        : "Get one to chat with it. That is done once; what you write stays on this machine."),
      some ? null : button(fetched ? "Choose a model" : "Get a model", () => { tab("models"); $("tab-models").focus(); }, { class: "main" })));
  },

  message(talk, message) {
    const mine = message.role === "user";
    const node = el("article", { class: message.role, id: `m-${message.id}`, "aria-label": mine ? "You" : message.model || "Model" },
      el("div", { class: "who" }, mine ? "You" : message.model || "Model"));
    if (message.thoughts) node.append(this.thoughts(message.thoughts));
    if (message.images) node.append(...message.images.map((src) => el("img", { src, alt: "Attached image", width: 240 })));
    const text = el("div", { class: mine ? "text" : "text markdown" });
    if (mine) text.append(message.content);
    else markdown(text, told(message));
    node.append(text);
    if (message.error) node.append(el("p", { class: "bad" }, message.error));
    node.append(this.tools(talk, message, node));
    return node;
  },

  thoughts(text, open = false) {
    const body = el("div", { class: "markdown" });
    markdown(body, text);
    return el("details", { class: "thoughts", open }, el("summary", {}, "Thoughts"), body);
  },

  tools(talk, message, node) {
    const all = siblings(talk, message);
    const at = all.indexOf(message);
    const turn = (by) => { show(talk, all[at + by]); store.save(talk); this.draw(); };
    const take = button("Copy", () => copy(message.content, take));
    return el("div", { class: "tools" },
      all.length > 1 ? [
        button("‹", () => turn(-1), { disabled: at === 0, "aria-label": "Earlier version" }),
        el("span", {}, `${at + 1}/${all.length}`),
        button("›", () => turn(1), { disabled: at === all.length - 1, "aria-label": "Later version" })] : null,
      take,
      message.role === "user" ? button("Edit", () => this.edit(talk, message, node)) : button("Regenerate", () => this.again(talk, message)),
      message.stats ? el("span", {}, message.stats) : null);
  },

  /** Lets a message be written anew, beside the old one. */
  edit(talk, message, node) {
    if (this.stopping) return;
    const area = el("textarea", { value: message.content, "aria-label": "Message" });
    const save = () => {
      if (!area.value.trim()) return;
      append(talk, message.parent, "user", area.value, message.images ? { images: message.images } : {});
      this.answer(talk);
    };
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        save();
      }
      if (event.key === "Escape") this.draw();
    });
    node.replaceChildren(el("div", { class: "who" }, "You"), area,
      el("div", { class: "tools" }, button("Send", save), button("Cancel", () => this.draw())));
    area.style.height = `${area.scrollHeight + 4}px`;
    area.focus();
  },

  again(talk, message) {
    if (this.stopping) return;
    talk.head = message.parent;
    this.answer(talk);
  },

  send() {
    const text = $("text").value;
    if (!text.trim() || this.stopping) return;
    if (!models.chosen()) {
      tab("models");
      return;
    }
    const talk = store.here || newTalk();
    if (!Object.keys(talk.messages).length) talk.title = text.trim().split("\n")[0].slice(0, 60);
    append(talk, talk.head, "user", text, this.images.length ? { images: this.images } : {});
    store.here = talk;
    store.settings({ here: talk.id });
    $("text").value = "";
    this.images = [];
    pictures();
    grow();
    this.answer(talk);
  },

  /** What is asked: the path that is shown, after the system prompt. */
  request(talk) {
    const content = (message) => message.images ? [{ type: "text", text: message.content },
      ...message.images.map((url) => ({ type: "image_url", image_url: { url } }))] : message.content;
    const messages = path(talk).filter((m) => !m.error || m.content).map((m) => ({ role: m.role, content: content(m) }));
    if (settings.values.system) messages.unshift({ role: "system", content: settings.values.system });
    return { ...settings.fields(), model: models.chosen().id, messages, stream: true, stream_options: { include_usage: true } };
  },

  /** Writes an answer to the last message that is shown. */
  async answer(talk) {
    let request;
    try {
      request = this.request(talk);
    } catch (error) {
      note(error.message);
      this.draw();
      return;
    }
    const held = request.response_format ? { form: "json" } : {};
    const message = append(talk, talk.head, "assistant", "", { model: request.model, ...held });
    store.save(talk);
    this.draw();
    this.stopping = new AbortController();
    this.busy(true);
    const writing = new Writing(talk, message);
    try {
      for await (const event of api.stream("/v1/chat/completions", request, this.stopping.signal)) writing.take(event);
      if (message.finish === "length") writing.ended = "cut at the most tokens";
    } catch (error) {
      if (error.name !== "AbortError") message.error = error.message;
      else writing.ended = "stopped";
    }
    this.stopping = null;
    writing.end();
    store.save(talk);
    this.busy(false);
    announce(message.error ? `The answer failed: ${message.error}` : "The answer is complete.");
    if (store.here === talk) this.draw();
    else list();
    models.load();
  },

  stop() {
    if (this.stopping) this.stopping.abort();
  },

  busy(busy) {
    $("stop").hidden = !busy;
    $("send").hidden = busy;
    const loaded = models.chosen() && models.chosen().state === "loaded";
    $("stats").textContent = !busy ? "" : loaded ? "Reading what was asked…" : "Loading the model…";
    if (busy) announce(loaded ? "The model is writing." : "The model is loaded, and then writes.");
  },

  /** To the end of the conversation, unless its reader has scrolled away from it. */
  bottom(always) {
    const view = $("talk");
    if (always || view.scrollHeight - view.scrollTop - view.clientHeight < 120) view.scrollTop = view.scrollHeight;
  },
};

/** An answer as Markdown: one that is held to a form is code, of which nothing means anything else. */
const told = ({ content, form }) => form ? `~~~~~~~~ ${form}\n${content}\n~~~~~~~~` : content;

/** An answer as it comes: drawn once a frame, however fast it is. */
class Writing {
  constructor(talk, message) {
    Object.assign(this, { talk, message, start: performance.now(), first: null, tokens: 0, frame: 0 });
  }
  take(event) {
    const { message } = this;
    const choice = event.choices && event.choices[0];
    if (choice) {
      const { content, reasoning_content: thoughts } = choice.delta || {};
      if (content || thoughts) {
        this.first ??= performance.now();
        this.tokens += 1;
      }
      if (thoughts) message.thoughts = (message.thoughts || "") + thoughts;
      if (content) message.content += content;
      if (choice.finish_reason) message.finish = choice.finish_reason;
    }
    if (event.usage) this.usage = event.usage;
    this.frame ||= requestAnimationFrame(() => this.draw());
  }
  draw() {
    this.frame = 0;
    const node = $(`m-${this.message.id}`);
    if (this.tokens > 1) $("stats").textContent = this.speed(this.tokens);
    if (!node) return;
    const text = node.querySelector(".text");
    if (this.message.thoughts) {
      let details = node.querySelector("details");
      if (!details) {
        details = chat.thoughts("", true);
        text.before(details);
      }
      markdown(details.lastElementChild, this.message.thoughts);
      if (this.message.content && !this.folded) {
        this.folded = true;
        details.open = false;
      }
    }
    markdown(text, told(this.message));
    text.classList.add("caret");
    chat.bottom(false);
  }
  speed(tokens) {
    const seconds = (performance.now() - (this.first ?? performance.now())) / 1000;
    return tokens > 1 && seconds > 0 ? `${tokens} tokens · ${((tokens - 1) / seconds).toFixed(1)} tokens/s` : "";
  }
  end() {
    cancelAnimationFrame(this.frame);
    const { usage } = this;
    const made = usage ? usage.completion_tokens : this.tokens;
    const { predicted_n: n, predicted_ms: ms } = (usage && usage.timings) || {};
    const speed = n > 1 && ms > 0 ? `${((1000 * (n - 1)) / ms).toFixed(1)} tokens/s` : this.speed(made).split(" · ")[1];
    const tokens = usage ? `${usage.prompt_tokens} + ${made} tokens` : `${made} tokens`;
    this.message.stats = [tokens, speed, this.ended].filter(Boolean).join(" · ");
  }
}
