// The page: its lists and tabs, its keys, and what it begins with.
function tab(name) {
  const chatting = name === "chat";
  $("view-chat").hidden = !chatting;
  $("view-models").hidden = chatting;
  $("tab-chat").setAttribute("aria-selected", String(chatting));
  $("tab-models").setAttribute("aria-selected", String(!chatting));
  aside(false);
  if (chatting) $("text").focus();
  else models.load();
}

function aside(open) {
  document.body.classList.toggle("sided", open);
  $("menu").setAttribute("aria-expanded", String(open));
  if (open) $("new").focus();
}

function list() {
  const talks = store.sorted();
  $("list").replaceChildren(...talks.map((talk) => el("li", { data: talk === store.here ? { here: "" } : {} },
    button(talk.title, () => open(talk), { class: "open", title: talk.title, "aria-current": talk === store.here ? "true" : null }),
    button("✎", async () => {
      const title = await prompted("Name of this conversation", talk.title);
      if (title && title.trim()) {
        talk.title = title.trim();
        store.save(talk);
        list();
      }
    }, { class: "more", "aria-label": `Rename ${talk.title}` }),
    button("✕", async () => {
      if (!await prompted(`Delete '${talk.title}'? It can't be brought back.`, undefined, "Delete")) return;
      store.remove(talk);
      if (store.here === talk) open(null);
      else list();
    }, { class: "more", "aria-label": `Delete ${talk.title}` }))));
}

function open(talk) {
  chat.stop();
  store.here = talk;
  store.settings({ here: talk ? talk.id : null });
  tab("chat");
  chat.draw();
}

/** The field for a message is as high as its text. */
function grow() {
  $("text").style.height = "auto";
  $("text").style.height = `${Math.min($("text").scrollHeight, innerHeight * 0.4)}px`;
}

function pictures() {
  $("images").replaceChildren(...chat.images.map((src, i) => el("span", {}, el("img", { src, alt: `Image ${i + 1}` }),
    button("✕", () => { chat.images.splice(i, 1); pictures(); $("attach").focus(); }, { "aria-label": `Leave out image ${i + 1}` }))));
}

/** Images are for models that see. */
function seen() {
  $("attach").hidden = !(models.chosen() && models.chosen().sees);
  if (!$("attach").hidden) return;
  chat.images = [];
  pictures();
}

function attach(files) {
  // A browser keeps some MB of all conversations.
  const most = 2 * 2 ** 20;
  for (const file of files) {
    if (!file.type.startsWith("image/")) note(`${file.name} is no image.`);
    else if (file.size > most) note(`${file.name} has ${decimal(file.size)}, and ${decimal(most)} is the most: make it smaller.`);
    else {
      const reader = new FileReader();
      reader.onload = () => { chat.images.push(reader.result); pictures(); };
      reader.readAsDataURL(file);
    }
  }
}

function pick() {
  store.settings({ model: $("model").value });
  seen();
  if (!$("panel").hidden) settings.draw();
}

function theme(next) {
  const order = ["system", "light", "dark"];
  const now = store.settings().theme || "system";
  const name = next ? order[(order.indexOf(now) + 1) % 3] : now;
  store.settings({ theme: name });
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  $("theme").textContent = `Theme: ${name}`;
}

async function imported(file) {
  try {
    const { conversations } = JSON.parse(await file.text());
    if (!Array.isArray(conversations)) throw new Error("it has no conversations");
    const all = conversations.map(checked);
    for (const talk of all) {
      // One that is here already stays, and the other comes beside it.
      if (store.all.has(talk.id)) talk.id = fresh();
      store.save(talk);
    }
    note(all.length === 1 ? "1 conversation was imported." : `${all.length} conversations were imported.`);
    list();
  } catch (error) {
    note(`${file.name} was not imported: ${error.message}`);
  }
}

const exported = () => download("rinfer-conversations.json", JSON.stringify({ format: 1, conversations: store.sorted() }, null, 1));

function keys(event) {
  if (event.altKey && event.code === "KeyN") {
    event.preventDefault();
    open(null);
  } else if (event.key === "Escape" && !document.querySelector("dialog")) {
    if (chat.stopping) chat.stop();
    else if (!$("panel").hidden) settings.close();
    else if (document.body.classList.contains("sided")) {
      aside(false);
      $("menu").focus();
    }
  } else if (event.target.role === "tab" && /^Arrow(Left|Right)$/.test(event.key)) {
    // There are two: either arrow leads to the other.
    const other = event.target === $("tab-chat") ? "models" : "chat";
    tab(other);
    $(`tab-${other}`).focus();
  } else if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) {
    event.preventDefault();
    $("text").focus();
  }
}

$("to-get").addEventListener("click", () => { $("words").focus(); $("title-get").scrollIntoView(); });
$("search").addEventListener("submit", (event) => { event.preventDefault(); hub.search(); });
$("ask").addEventListener("submit", (event) => { event.preventDefault(); chat.send(); });
$("text").addEventListener("input", grow);
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    chat.send();
  }
});
$("stop").addEventListener("click", () => chat.stop());
$("new").addEventListener("click", () => open(null));
$("menu").addEventListener("click", () => aside(!document.body.classList.contains("sided")));
$("settings").addEventListener("click", () => settings.open($("panel").hidden));
$("tab-chat").addEventListener("click", () => tab("chat"));
$("tab-models").addEventListener("click", () => tab("models"));
$("model").addEventListener("change", pick);
$("theme").addEventListener("click", () => theme(true));
$("export").addEventListener("click", exported);
$("import").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", (event) => { [...event.target.files].forEach(imported); event.target.value = ""; });
$("attach").addEventListener("click", () => $("picture").click());
$("picture").addEventListener("change", (event) => {
  attach([...event.target.files]);
  event.target.value = "";
});
document.addEventListener("keydown", keys);
// Over a small window the conversations lie until they are left.
document.querySelector("main").addEventListener("click", (event) => { if (!event.target.closest("#menu")) aside(false); });

theme(false);
settings.mark();
store.load();
store.here = store.all.get(store.settings().here) || null;
models.watch();
models.load().then(() => {
  chat.draw();
  tab("chat");
});
