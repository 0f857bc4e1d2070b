// Markdown as models write it, into elements. Whatever is not understood stays text; nothing is fetched.

/** Renders `text` into `node`, of which blocks that did not change stay as they are. */
function markdown(node, text) {
  const made = blocks(text.replace(/\r\n?/g, "\n").split("\n"));
  made.forEach((block, i) => {
    const old = node.children[i];
    if (old && old.source === block.source) return;
    const fresh = block.make();
    fresh.source = block.source;
    if (old) old.replaceWith(fresh);
    else node.append(fresh);
  });
  while (node.children.length > made.length) node.lastElementChild.remove();
}

const FENCE = /^(\s{0,3})(`{3,}|~{3,})\s*([^\s`]*)/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const ROW = /^\s*\|?.*\|.*$/;
const RULE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

function blocks(lines) {
  const out = [];
  const add = (taken, make) => out.push({ source: taken.join("\n"), make });
  let i = 0;
  while (i < lines.length) {
    const line = lines[i];
    const start = i;
    const fence = FENCE.exec(line);
    const head = /^\s{0,3}(#{1,6})\s+(.*?)\s*#*$/.exec(line);
    if (!line.trim()) {
      i += 1;
    } else if (fence) {
      const body = [];
      const closes = new RegExp(`^\\s{0,3}${fence[2][0]}{${fence[2].length},}\\s*$`);
      for (i += 1; i < lines.length && !closes.test(lines[i]); i += 1) body.push(lines[i].slice(Math.min(fence[1].length, lines[i].search(/\S|$/))));
      i += 1;
      add(lines.slice(start, i), () => codeBlock(body.join("\n"), fence[3]));
    } else if (head) {
      i += 1;
      add([line], () => el(`h${Math.min(6, head[1].length + 1)}`, {}, inline(head[2])));
    } else if (/^\s{0,3}([-*_])(\s*\1){2,}\s*$/.test(line)) {
      i += 1;
      add([line], () => el("hr"));
    } else if (/^\s{0,3}>/.test(line)) {
      while (i < lines.length && /^\s{0,3}>/.test(lines[i])) i += 1;
      const body = lines.slice(start, i).map((l) => l.replace(/^\s{0,3}>\s?/, ""));
      add(lines.slice(start, i), () => filled(el("blockquote"), body));
    } else if (ROW.test(line) && i + 1 < lines.length && lines[i + 1].includes("-") && RULE.test(lines[i + 1]) && line.includes("|")) {
      for (i += 2; i < lines.length && lines[i].includes("|"); i += 1);
      const rows = lines.slice(start, i);
      add(rows, () => table(rows));
    } else if (ITEM.test(line)) {
      while (i < lines.length && (ITEM.test(lines[i]) || /^\s+\S/.test(lines[i]) || (!lines[i].trim() && i + 1 < lines.length && (ITEM.test(lines[i + 1]) || /^\s+\S/.test(lines[i + 1]))))) i += 1;
      const items = lines.slice(start, i);
      add(items, () => itemised(items));
    } else {
      while (i < lines.length && lines[i].trim() && !FENCE.test(lines[i]) && !/^\s{0,3}(#{1,6}\s|>)/.test(lines[i]) && !(i > start && ITEM.test(lines[i]))) i += 1;
      const body = lines.slice(start, i);
      add(body, () => el("p", {}, inline(body.join("\n"))));
    }
  }
  return out;
}

/** How deep what is written lies in other parts. Beyond some depth, which no text needs, it stays as it is. */
let depth = 0;
const DEEPEST = 24;

function deeper(text, make) {
  if (depth >= DEEPEST) return [text];
  depth += 1;
  try {
    return make();
  } finally {
    depth -= 1;
  }
}

function filled(node, lines) {
  node.append(...deeper(lines.join("\n"), () => blocks(lines).map((block) => block.make())));
  return node;
}

function codeBlock(code, language) {
  const take = button("Copy", () => copy(code, take), { "aria-label": `Copy ${language || "code"}` });
  return el("div", { class: "code" }, el("div", { class: "top" }, el("span", {}, language || "code"), take),
    el("pre", { tabIndex: 0 }, el("code", {}, highlighted(code, language.toLowerCase()))));
}

function cells(row) {
  return row.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function table([head, , ...rows]) {
  const line = (row, tag) => el("tr", {}, cells(row).map((cell) => el(tag, {}, inline(cell))));
  return el("table", {}, el("thead", {}, line(head, "th")), el("tbody", {}, rows.map((row) => line(row, "td"))));
}

/** Items of the first one's indent, each with what is indented below it. */
function itemised(lines) {
  const first = ITEM.exec(lines[0]);
  const numbered = /\d/.test(first[2]);
  const node = el(numbered ? "ol" : "ul", numbered ? { start: parseInt(first[2], 10) } : {});
  let body = [];
  const close = () => {
    if (!body.length) return;
    const item = el("li");
    const parts = deeper(body.join("\n"), () => blocks(body).map((block) => block.make()));
    // A first paragraph is the item itself.
    if (parts.length && parts[0].tagName === "P") parts.splice(0, 1, ...parts[0].childNodes);
    item.append(...parts);
    node.append(item);
  };
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && item[1].length <= first[1].length + 1 && item[1].length < first[1].length + first[2].length) {
      close();
      body = [item[3]];
    } else {
      const indent = Math.min(line.search(/\S|$/), first[1].length + first[2].length + 1);
      body.push(line.slice(indent));
    }
  }
  close();
  return node;
}

const INLINE = /(`+)([^]*?[^`])\1(?!`)|\*\*(?=\S)([^]*?\S)\*\*|__(?=\S)([^]*?\S)__(?!\w)|~~(?=\S)([^]*?\S)~~|\*(?=[^\s*])([^*]*?[^\s*])\*|(?<!\w)_(?=[^\s_])([^_]*?[^\s_])_(?!\w)|!?\[([^\]\n]*)\]\(\s*<?([^\s)>]*)>?(?:\s+"[^"]*")?\s*\)|<?(https?:\/\/[^\s<>()"]*[^\s<>()".,;:!?'])>?|\\([\\`*_{}[\]()#+.!|~>-])|( {2,}|\\)\n/;

const within = (text) => deeper(text, () => inline(text));

/** The elements and texts of a line or more. */
function inline(text) {
  const out = [];
  for (let rest = text; rest;) {
    const found = INLINE.exec(rest);
    if (!found) {
      out.push(rest);
      break;
    }
    out.push(rest.slice(0, found.index));
    rest = rest.slice(found.index + found[0].length);
    const [all, ticks, code, strong, strong2, gone, em, em2, label, address, bare, escaped, wrap] = found;
    if (ticks) out.push(el("code", {}, code.replace(/^ (.*) $/, "$1")));
    else if (strong || strong2) out.push(el("strong", {}, within(strong || strong2)));
    else if (gone) out.push(el("del", {}, within(gone)));
    else if (em || em2) out.push(el("em", {}, within(em || em2)));
    else if (label !== undefined) out.push(link(address, label, all));
    else if (bare) out.push(link(bare, null, all));
    else if (escaped) out.push(escaped);
    else if (wrap) out.push(el("br"));
  }
  return out;
}

/** A link to the web or to mail; any other stays the text that it was. An image is a link to it. */
function link(address, label, all) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return all;
  }
  if (!["https:", "http:", "mailto:"].includes(url.protocol)) return all;
  return el("a", { href: url.href, target: "_blank", rel: "noopener noreferrer nofollow" }, label ? within(label) : address);
}
