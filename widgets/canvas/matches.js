// The matches of a step's rules, one after the other: that part of the program before and after, and the source of the rule beside it.
import { h, put, clamp } from "./dom.js";
import { codeView } from "./code.js";

/** Going through matches. `ctx`: host, op(), pick(ops), say(text). */
export function matchesView(ctx) {
  const lit = line => ctx.op() >= 0 && line.ops.includes(ctx.op()), hover = () => {};
  const part = codeView({ label: "The part before and after", lit, pick: ctx.pick, hover }), rule = codeView({ label: "Source of the rule", lit: () => false, pick: () => {}, hover });
  const count = h("b"), title = h("span", { class: "words", "aria-live": "polite" }), place = h("span", { class: "s place" }), says = h("p", { class: "says" });
  const chooser = h("select", { "aria-label": "Match", onchange: e => go(e.target.selectedIndex) });
  const button = (label, sign, to) => h("button", { class: "btn", type: "button", "aria-label": label, title: label, onclick: () => go(to()) }, sign);
  const bar = h("div", { class: "stepper", role: "toolbar", "aria-label": "Walk through the matches", onkeydown: keys },
    button("First match (Shift ,)", "«", () => 0), button("Match before (,)", "‹", () => now - 1), button("Next match (.)", "›", () => now + 1), button("Last match (Shift .)", "»", () => list.length - 1), count, chooser, title);
  const left = h("div", {}, part.box), right = h("div", { class: "rule" }, h("header", {}, place, says), rule.box);
  const box = h("div", { class: "sides matches" }, bar, h("div", { class: "two lights" }, left, right)), empty = h("div", { class: "empty" });
  let list = [], rules = [], step = -1, now = 0, asked = 0, told = true;

  /** The matches of a step; false where it has none. */
  async function load(number) {
    const { data } = await ctx.host.ask("matches", { step: number }), same = number === step;
    step = number; list = data.matches; rules = data.rules; told = data.told;
    put(chooser, list.slice(0, 2000).map(([, name, about], i) => h("option", { value: i }, `${i + 1} ${name}${about ? `: ${about}` : ""}`)));
    if (!list.length) return false;
    const mine = ctx.op() < 0 ? -1 : list.findIndex(([, , , ops]) => ops.includes(ctx.op()));
    await go(mine >= 0 && !(same && list[now]?.[3].includes(ctx.op())) ? mine : same ? Math.min(now, list.length - 1) : 0, true);
    return true;
  }
  async function go(to, quiet = false) {
    now = clamp(to, 0, list.length - 1);
    const number = ++asked, [which, name, about] = list[now], [, where, line, words, source] = rules[which];
    left.dataset.k = `match rule${which}`;
    count.textContent = `${told ? "match" : "part"} ${now + 1} of ${list.length}`;
    title.textContent = told ? "" : "told by what is different: this step's rule tells of no match";
    chooser.selectedIndex = now; chooser.title = chooser.selectedOptions[0]?.text ?? "";
    place.textContent = where || "its source is not here";
    says.textContent = words;
    rule.show(source.split("\n").map((text, i) => ({ mark: " ", number: line + i, text, family: "", ops: [] })), "numba");
    const { data } = await ctx.host.ask("match", { step, number: now });
    if (number !== asked) return;
    part.show(data.lines.map(([mark, n, text, family, ops, , changed]) => ({ mark, number: n, text, family, ops, words: changed })), "program");
    if (!quiet) ctx.say(`${name}${about ? `: ${about}` : ""}`);
  }
  function keys(event) {
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: list.length - 1 }[event.key];
    if (to === undefined || event.target === chooser) return;
    event.preventDefault(); event.stopPropagation();
    go(to);
  }
  return { box, empty, load, move: by => { go(now + by); }, end: which => { go(which < 0 ? 0 : list.length - 1); }, light: () => { part.light(); } };
}
