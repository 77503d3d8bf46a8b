// Two programs side by side: lines that are one stand beside each other and scroll together; the words that changed are marked.
import { h, put, plural } from "./dom.js";
import { codeView } from "./code.js";

const NEAR = 3; // equal lines that stay around a change
const GAP = { mark: "gap", number: "", text: "", family: "", ops: [] };

/** Rows of a diff, [mark, number, text, family, ops, mate, words], as pairs of lines: what went before what came, as far as neither has a mate. */
export function beside(rows) {
  const line = ([mark, number, text, family, ops, , words]) => ({ mark, number, text, family, ops, words }), pairs = [];
  let number = 0;
  for (let at = 0; at < rows.length;) {
    if (rows[at][0] === " ") { const same = line(rows[at++]); pairs.push([{ ...same, number: ++number }, same]); continue; }
    let end = at;
    while (end < rows.length && rows[end][0] !== " ") end++;
    const range = [...Array(end - at).keys()].map(n => n + at), came = range.filter(n => rows[n][0] === "+");
    for (const n of range.filter(n => rows[n][0] === "-")) {
      const mate = rows[n][5];
      number++;
      while (mate >= 0 && came[0] !== mate) pairs.push([GAP, line(rows[came.shift()])]);
      if (mate >= 0) came.shift();
      pairs.push([line(rows[n]), mate >= 0 ? line(rows[mate]) : GAP]);
    }
    for (const n of came) pairs.push([GAP, line(rows[n])]);
    at = end;
  }
  return pairs;
}

/** The two sides. `ctx`: host, op(), pick(ops), say(text). */
export function sidesView(ctx) {
  const lit = line => ctx.op() >= 0 && line.ops.includes(ctx.op()), hover = () => {};
  const [left, right] = ["Program before", "Program after"].map(label => codeView({ label, lit, pick: ctx.pick, hover }));
  const count = h("span", { class: "s", "aria-live": "polite" }), all = h("button", { class: "btn", type: "button", "aria-pressed": "false", title: "Lines far from all changes too", onclick: () => { whole = !whole; draw(); } }, "All lines");
  const jump = (label, sign, by) => h("button", { class: "btn", type: "button", "aria-label": label, title: label, onclick: () => move(by) }, sign);
  const bar = h("div", { class: "stepper", role: "toolbar", "aria-label": "Walk through the changes" }, jump("Change before (,)", "‹", -1), jump("Next change (.)", "›", 1), all, count);
  const box = h("div", { class: "sides" }, bar, h("div", { class: "two lights" }, h("div", {}, left.box), h("div", {}, right.box)));
  let pairs = [], starts = [], shown = [], whole = false, moved = null;
  for (const [one, other] of [[left, right], [right, left]]) {
    one.box.addEventListener("scroll", () => {
      if (moved === one) { moved = null; return; } // this was the other's doing
      if (other.box.scrollTop === one.box.scrollTop && other.box.scrollLeft === one.box.scrollLeft) return;
      moved = other;
      other.box.scrollTop = one.box.scrollTop; other.box.scrollLeft = one.box.scrollLeft;
    }, { passive: true });
  }
  /** A pair whose lines a sentence lights by what became of them. */
  const kinds = ([a, b]) => { const k = a === GAP ? "new" : b === GAP ? "gone" : a.mark === "-" ? "changed" : "same"; return [a === GAP ? a : { ...a, k }, b === GAP ? b : { ...b, k }]; };
  const differs = ([a, b]) => a === GAP || b === GAP || a.mark === "-";

  async function load(kind, args) {
    const { data } = await ctx.host.ask(kind, args);
    pairs = beside(data.lines).map(kinds);
    draw();
  }
  function draw() {
    const near = new Set(pairs.flatMap((pair, i) => differs(pair) ? [...Array(2 * NEAR + 1).keys()].map(n => i + n - NEAR) : []));
    shown = [];
    let skipped = 0;
    const rest = () => { if (skipped) { const note = { mark: " ", number: "", text: `# ${plural(skipped, "equal line")}`, family: "", ops: [] }; shown.push([note, note]); skipped = 0; } };
    pairs.forEach((pair, i) => { if (whole || near.has(i)) { rest(); shown.push(pair); } else skipped++; });
    rest();
    starts = shown.map((pair, i) => i).filter(i => differs(shown[i]) && !(i && differs(shown[i - 1])));
    const lines = pairs.filter(differs).length;
    count.textContent = lines ? `${plural(starts.length, "place")} with ${plural(lines, "line")} that changed` : "no line of the program changed";
    all.setAttribute("aria-pressed", String(whole));
    left.show(shown.map(([a]) => a), "program"); right.show(shown.map(([, b]) => b), "program");
  }
  /** On or back to a change; false where there is none further. */
  function move(by) {
    const line = Math.round(left.box.scrollTop / left.high), found = by > 0 ? starts.find(i => i > line + 1) : starts.findLast(i => i < line + 1);
    if (found === undefined) return false;
    left.box.scrollTop = Math.max(0, (found - 1) * left.high);
    ctx.say(`Change ${starts.indexOf(found) + 1} of ${starts.length}`);
    return true;
  }
  return { box, load, move, end: which => { left.box.scrollTop = which < 0 ? 0 : left.box.scrollHeight; }, light: () => { left.light(); right.light(); } };
}
