// Code in colours: words, texts, numbers and comments, which most languages write alike.
const WORDS = new Set(("abstract and as async await begin bool break case catch char class const continue def default del do "
  + "double dyn elif else elsif end enum except export extends extern false False final finally float fn for foreach from func "
  + "function global go goto if impl implements import in include instanceof int interface is lambda let local long loop match "
  + "mod module mut namespace new nil None not null or override package pass private protected pub public raise ref return self "
  + "Self short signed sizeof static string struct super switch then this throw trait true True try type typeof undefined union "
  + "unless unsafe unsigned until use using var virtual void volatile when where while with yield select insert update delete "
  + "create table from where join group order by into values set and or echo fi done esac").split(" "));
const HASH = /^(py|python|sh|bash|shell|zsh|ruby|rb|perl|yaml|yml|toml|r|make|makefile|dockerfile|ini|conf|julia|elixir|nix)$/;
const DASH = /^(sql|lua|haskell|hs|ada|elm|vhdl)$/;

/** The elements and texts of `code`. */
function highlighted(code, language) {
  const comment = HASH.test(language) ? "#[^\\n]*" : DASH.test(language) ? "--[^\\n]*" : "\\/\\/[^\\n]*|\\/\\*[^]*?(?:\\*\\/|$)";
  const parts = new RegExp(`(${comment})|("(?:\\\\.|[^"\\\\\\n])*"?|'(?:\\\\.|[^'\\\\\\n])*'?|\`(?:\\\\.|[^\`\\\\])*\`?)`
    + "|(\\b\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?\\w*|\\b0x[\\da-fA-F_]+)|([A-Za-z_]\\w*)", "g");
  const out = [];
  let at = 0;
  for (const found of code.matchAll(parts)) {
    const kind = found[1] ? "h-com" : found[2] ? "h-str" : found[3] ? "h-num" : WORDS.has(found[4]) ? "h-key" : null;
    if (!kind) continue;
    out.push(code.slice(at, found.index), el("span", { class: kind }, found[0]));
    at = found.index + found[0].length;
  }
  out.push(code.slice(at));
  return out;
}
