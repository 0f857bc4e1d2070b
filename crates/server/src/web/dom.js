// Elements are made here, and text is only ever text: nothing in this page parses HTML.
const $ = (id) => document.getElementById(id);

/** An element with properties, `on…` listeners, `data` and `aria`, and children, of which strings are text. */
function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "class") node.className = value;
    else if (key === "data") Object.assign(node.dataset, value);
    else if (key.includes("-") || key === "role" || key === "for") node.setAttribute(key, value);
    else node[key] = value;
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const button = (text, onclick, props = {}) => el("button", { type: "button", onclick, ...props }, text);

let noteTimer;
/** Tells of something that went wrong, or is done. */
function note(text) {
  $("note").textContent = text;
  $("note").hidden = false;
  clearTimeout(noteTimer);
  noteTimer = setTimeout(() => { $("note").hidden = true; }, 7000);
}

/** Tells those who listen to the page rather than see it. */
const announce = (text) => { $("status").textContent = text; };

async function copy(text, from) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without a secure origin there is no clipboard but the old one.
    const area = el("textarea", { value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const before = from.textContent;
  from.textContent = "Copied";
  setTimeout(() => { from.textContent = before; }, 1500);
}

/** Asks for a text, or with no `value` for yes or no; null if it was given up. */
function prompted(question, value, yes = "Save") {
  return new Promise((resolve) => {
    const input = value === undefined ? null : el("input", { value, "aria-label": question });
    const dialog = el("dialog", { "aria-label": question }, el("form", { method: "dialog", onsubmit: (event) => { event.preventDefault(); done(true); } },
      el("p", {}, question), input,
      el("div", { class: "row" }, button("Cancel", () => done(false), { class: "plain" }),
        el("button", { class: "main" }, yes))));
    const done = (good) => {
      dialog.close();
      dialog.remove();
      resolve(good ? (input ? input.value : true) : null);
    };
    dialog.addEventListener("cancel", () => done(false));
    document.body.append(dialog);
    dialog.showModal();
    if (input) input.select();
  });
}

function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Puts other children in a node's place; the one of the same key that had the focus has it again. */
function redraw(node, children) {
  const key = node.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  node.replaceChildren(...children);
  if (key) [...node.querySelectorAll("[data-key]")].find((child) => child.dataset.key === key)?.focus();
}

/** Of memory. */
const size = (bytes) => bytes >= 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : bytes >= 2 ** 20 ? `${Math.round(bytes / 2 ** 20)} MiB` : `${Math.ceil(bytes / 1024)} KiB`;

const counted = (number) => number.toLocaleString("en");

/** Of files, as disks and the hub count them. */
const decimal = (bytes) => {
  const [unit, by] = [["GB", 1e9], ["MB", 1e6], ["kB", 1e3], ["B", 1]].find(([, by]) => bytes >= by) || ["B", 1];
  const count = bytes / by;
  return `${unit === "B" || count >= 10 ? Math.round(count) : count.toFixed(1)} ${unit}`;
};
