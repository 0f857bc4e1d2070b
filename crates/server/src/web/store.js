// Conversations, in this browser: trees of messages, of which one path is shown. Each is an entry of its own,
// so that saving one writes one.
const PREFIX = "rinfer.conversation.";
const store = {
  all: new Map(),
  /** The one that is shown. */
  here: null,

  load() {
    for (let i = 0; i < localStorage.length; i += 1) {
      const key = localStorage.key(i);
      if (!key.startsWith(PREFIX)) continue;
      try {
        const talk = checked(JSON.parse(localStorage.getItem(key)));
        this.all.set(talk.id, talk);
      } catch (error) {
        note(`A conversation can't be read, and stays as it is: ${error.message}`);
      }
    }
  },
  /** The latest first. */
  sorted() {
    return [...this.all.values()].sort((a, b) => b.updated - a.updated);
  },
  save(talk) {
    talk.updated = Date.now();
    this.all.set(talk.id, talk);
    try {
      localStorage.setItem(PREFIX + talk.id, JSON.stringify(talk));
    } catch {
      note("The browser has no room left: export conversations, and delete some.");
    }
  },
  remove(talk) {
    this.all.delete(talk.id);
    localStorage.removeItem(PREFIX + talk.id);
  },
  settings(change) {
    const kept = JSON.parse(localStorage.getItem("rinfer.settings") || "{}");
    if (change) localStorage.setItem("rinfer.settings", JSON.stringify(Object.assign(kept, change)));
    return kept;
  },
};

const fresh = () => `${Date.now().toString(36)}${crypto.getRandomValues(new Uint32Array(2)).join("")}`;

function newTalk() {
  return { id: fresh(), title: "New chat", created: Date.now(), updated: Date.now(), head: null, messages: {} };
}

/** A conversation of a file or of the browser, or an error that says what is wrong. */
function checked(talk) {
  const wrong = (what) => { throw new Error(what); };
  if (!talk || typeof talk !== "object") wrong("it is no conversation");
  if (typeof talk.id !== "string" || typeof talk.title !== "string") wrong("it has no id or title");
  if (!talk.messages || typeof talk.messages !== "object") wrong(`'${talk.title}' has no messages`);
  for (const [id, message] of Object.entries(talk.messages)) {
    if (!message || message.id !== id || !["user", "assistant"].includes(message.role) || typeof message.content !== "string") wrong(`a message of '${talk.title}' is none`);
    const image = (src) => typeof src === "string" && src.startsWith("data:image/");
    if (message.images && !(Array.isArray(message.images) && message.images.every(image))) wrong(`an image of '${talk.title}' is none`);
    if (["thoughts", "stats", "error", "model", "form"].some((key) => message[key] && typeof message[key] !== "string")) wrong(`a message of '${talk.title}' is none`);
    const above = new Set([id]);
    for (let up = message.parent; up; up = talk.messages[up].parent) {
      if (!Object.hasOwn(talk.messages, up) || above.has(up)) wrong(`a message of '${talk.title}' answers none that is there`);
      above.add(up);
    }
  }
  if (talk.head && !Object.hasOwn(talk.messages, talk.head)) wrong(`'${talk.title}' ends in a message that is not there`);
  return talk;
}

/** From the first message to the one that is shown last. */
function path(talk) {
  const out = [];
  for (let at = talk.head; at; at = talk.messages[at].parent) out.unshift(talk.messages[at]);
  return out;
}

/** Messages that answer the same one, by age. */
function siblings(talk, message) {
  return Object.values(talk.messages).filter((m) => m.parent === message.parent).sort((a, b) => a.made - b.made);
}

/** Shows a message and the newest of what came after it. */
function show(talk, message) {
  let at = message;
  for (;;) {
    const after = Object.values(talk.messages).filter((m) => m.parent === at.id).sort((a, b) => b.made - a.made);
    if (!after.length) break;
    at = after[0];
  }
  talk.head = at.id;
}

function append(talk, parent, role, content, more = {}) {
  const message = { id: fresh(), parent, role, content, made: Date.now(), ...more };
  talk.messages[message.id] = message;
  talk.head = message.id;
  return message;
}
