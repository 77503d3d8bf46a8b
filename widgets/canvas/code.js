// Lines of text, many of them: only those in view are in the page. Program and kernel are both made of it.
import { h, put, clamp } from "./dom.js";
import { litAgain } from "./see.js";

const HIGH = 20, SPARE = 8;
const WORDS = {
  program: /(#.*$)|("[^"]*")|\b(def|return|over|of|tile|view|library|loop|while|if|else|call|match_cast|shape|run|on|sum|max|min|prod)\b|\b(\d[\d.e+-]*)\b|([A-Za-z_]\w*)(?=\()/g,
  numba: /(#.*$)|("[^"]*"|'[^']*')|\b(def|return|for|in|while|if|elif|else|from|import|and|or|not|range|None|True|False)\b|\b(\d[\d.e]*)\b|([A-Za-z_]\w*)(?=\()/g,
  llvm: /(;.*$)|("[^"]*")|\b(define|declare|call|tail|ret|br|label|phi|load|store|getelementptr|inbounds|icmp|fcmp|fadd|fmul|fsub|fdiv|add|mul|sub|select|void|ptr|i64|i32|i8|i1|float|double|align|to|nuw|nsw)\b|\b(\d[\d.e+-]*)\b|(@[\w.$"]+)/g,
  assembly: /([#;].*$|\/\/.*$)|("[^"]*")|((?<=^\s+(?:@!?%\w+\s+)?)v?[a-z][\w.]*|(?<=^\s+\/\*[0-9a-f]+\*\/\s+(?:@!?U?P\w+\s+)?)[A-Z][\w.]*)\b|(\$-?\w+)|(%[a-z]+\w*|(?<=^\s+\/\*.*)\bU?[RP]\d+\b)/g,
};
const CLASS = ["", "cm", "str", "k", "str", "fn"];

/** A line with its words coloured, those that `changed` says, as [from, to], marked; `help(word)` says what an instruction does. */
function coloured(text, language, help, changed) {
  if (changed?.length) return marked(coloured(text, language, help), changed);
  const parts = [];
  let last = 0;
  for (const match of text.matchAll(WORDS[language])) {
    if (match.index > last) parts.push(text.slice(last, match.index));
    const group = match.findIndex((g, i) => i > 0 && g !== undefined);
    parts.push(h("span", { class: CLASS[group], title: language === "assembly" && group === 3 ? help(match[0]) : null }, match[0]));
    last = match.index + match[0].length;
  }
  parts.push(text.slice(last));
  return parts;
}

/** Parts of a line, cut where a changed word begins or ends. */
function marked(parts, changed) {
  const found = [];
  let at = 0;
  for (const part of parts) {
    const text = part.textContent ?? part, kind = part.className;
    for (let from = 0; from < text.length;) {
      const in_ = changed.find(([a, b]) => at + from >= a && at + from < b), next = in_ ? in_[1] : Math.min(...changed.map(([a]) => a).filter(a => a > at + from), Infinity);
      const to = Math.min(text.length, next - at), piece = text.slice(from, to);
      found.push(in_ ? h("mark", { class: kind }, piece) : kind ? h("span", { class: kind }, piece) : piece);
      from = to;
    }
    at += text.length;
  }
  return found;
}

/** A scrolling list of lines: {number, mark, text, family, ops, words}, and `k`, what a sentence lights it by. `lit(line)` says whether a line is of the selection, `at(line)` whether it was itself selected; `step(by)` goes to a line near it; `help(word)` says what an instruction does. */
export function codeView({ label, lit, pick, hover, at = () => false, step = null, help = () => null }) {
  const rows = h("div", { class: "rows" }), mini = h("div", { class: "mini", "aria-hidden": "true" });
  const box = h("div", { class: "code", role: "group", tabindex: "0", "aria-label": label }, rows);
  let lines = [], language = "program", wide = 0;
  const draw = () => {
    const from = clamp(Math.floor(box.scrollTop / HIGH) - SPARE, 0, lines.length);
    const to = Math.min(lines.length, from + Math.ceil((box.clientHeight || 200) / HIGH) + 2 * SPARE);
    const shown = [];
    for (let i = from; i < to; i++) shown.push(row(lines[i], i));
    put(rows, shown);
    litAgain(rows);
    const all = Math.max(lines.length * HIGH, 1), window_ = mini.querySelector("u");
    if (window_) { window_.style.top = `${box.scrollTop / all * 100}%`; window_.style.height = `${Math.min(1, box.clientHeight / all) * 100}%`; }
  };
  const row = (line, i) => {
    const kind = { "+": " add", "-": " del", gap: " gap" }[line.mark] ?? "", on = lit(line) ? " lit" : "", own = at(line);
    return h("div", {
      class: `ln${kind}${on}${own ? " at" : ""}`, style: `top:${i * HIGH}px`, "data-line": i, "data-k": line.k ?? null, "aria-current": own ? "true" : null, onclick: () => (line.ops.length || step) && pick(line.ops, line),
      onpointerenter: () => hover(line.ops), onpointerleave: () => hover([]),
    }, h("span", { class: "no" }, String(line.number)), h("span", { class: "df" }, { "-": "−", gap: "" }[line.mark] ?? line.mark),
      h("span", { class: "or", style: line.family ? `background:var(--f-${line.family.replace(/ /g, "-")})` : "" }),
      h("span", {}, coloured(line.text, language, help, line.words)));
  };
  const marks = () => {
    const found = [];
    let open = -1;
    for (let i = 0; i <= lines.length; i++) {
      const on = i < lines.length && lit(lines[i]);
      if (on && open < 0) open = i;
      if (!on && open >= 0) { found.push([open, i]); open = -1; }
    }
    put(mini, h("u"), found.slice(0, 200).map(([a, b]) => h("i", { style: `top:${a / lines.length * 100}%;height:${(b - a) / lines.length * 100}%` })));
    return found;
  };
  box.addEventListener("scroll", draw, { passive: true });
  new ResizeObserver(() => draw()).observe(box); // a page may hide it for a while
  box.addEventListener("keydown", event => {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!by || !step || event.shiftKey || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault(); event.stopPropagation();
    step(by);
  });
  return {
    box, mini, high: HIGH,
    /** Show other lines; the place is kept where `keep` says so. */
    show(next, nextLanguage, keep = false) {
      lines = next; language = nextLanguage;
      wide = lines.reduce((most, l) => Math.max(most, l.text.length), 0);
      rows.style.height = `${lines.length * HIGH}px`;
      rows.style.width = `calc(${wide}ch + 88px)`;
      if (!keep) box.scrollTop = 0;
      this.light();
    },
    /** Mark the selection's lines, and scroll to the first one if none is in view. */
    light() {
      const found = marks(), own = lines.findIndex(at), wanted = own >= 0 ? [[own, own + 1]] : found, top = box.scrollTop / HIGH, bottom = top + box.clientHeight / HIGH;
      if (wanted.length && !wanted.some(([a, b]) => b > top + (own >= 0) && a < bottom - 1)) box.scrollTop = Math.max(0, (wanted[0][0] - 3) * HIGH);
      draw();
      return found.reduce((sum, [a, b]) => sum + b - a, 0);
    },
    draw,
  };
}
