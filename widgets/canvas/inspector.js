// Why: what was decided for the selected operator, what was weighed, what was refused and for which reason.
import { h, s, put, icon, tabs, duration } from "./dom.js";
import { lastOnly } from "./host.js";

const TABS = [["tile", "Tile"], ["fusion", "Fusion"], ["placement", "Placement"], ["shape", "Shape"], ["memory", "Memory"], ["rewrites", "Rewrites"]];
const INKS = ["var(--t1)", "url(#p-t2)", "url(#p-t3)", "var(--t4)"];

/** The inspector. `ctx`: host, state, opName, familyMark, turn(knob, value), set(patch). */
export function inspectorView(ctx) {
  const head = h("div", { class: "ph" }), body = h("div", { class: "bd" }), box = h("section", { class: "pane pi", "aria-label": "Inspector", tabindex: "0" }, head, body);
  let found = null, asked = 0, why = -1, close = () => null;

  let slow = 0;
  /** Another operator is selected: its name at once, with what it has when it comes. */
  function begin() {
    const op = ctx.state.op;
    asked++;
    clearTimeout(slow);
    if (op < 0) return;
    title(op);
    slow = setTimeout(() => { if (ctx.state.op === op && found?.op !== op) reading(op); }, 150);
  }
  const load = lastOnly(async () => {
    const op = ctx.state.op, number = ++asked;
    if (op < 0) { found = null; empty(); return; }
    try {
      const answer = (await ctx.host.ask("operator", { op })).data;
      if (number === asked) { found = { op, ...answer }; why = -1; show(); ctx.thread(found.stations); }
    } catch (error) {
      if (number === asked) { title(op); put(body, h("div", { class: "s" }, error.sentence ?? String(error))); ctx.thread([]); }
    }
    if (op === ctx.state.op) clearTimeout(slow);
  });

  function title(op) {
    const [, label, , family] = ctx.host.get("operators")[op];
    put(head, h("h2", { style: "color:var(--accent)" }, label), h("span", { class: "fam s" }, ctx.familyMark(family), family),
      h("span", { class: "sp" }), close());
  }

  function empty() {
    put(head, h("h2", {}, "Inspector"), h("span", { class: "sp" }), close());
    put(body, h("div", { class: "s" }, "Choose an operator: click a node, a line or a brick, or press J."), history());
  }

  function reading(op) {
    title(op);
    body.setAttribute("aria-busy", "true");
    put(body, h("div", { class: "s" }, "Reading candidates"), h("div", { class: "bars" }, [92, 80, 86, 64, 74].map(w => h("div", { style: `width:${w}%` }))));
  }

  function show() {
    body.removeAttribute("aria-busy");
    title(found.op);
    const pick = tab => { ctx.set({ inspector: tab }); show(); };
    const bar = tabs(TABS, ctx.state.inspector, pick, "Inspector");
    bar.style.marginLeft = "-6px";
    put(body, found.type ? h("div", { class: "s" }, found.type) : null, bar, ctx.state.inspector === "tile" ? tile() : section(found[ctx.state.inspector]), history());
  }

  function section({ sentence, columns, rows }) {
    return [
      h("div", {}, sentence),
      rows.length > 0 && h("table", {}, columns.length ? h("tr", {}, columns.map(c => h("th", {}, c))) : null,
        rows.map(row => h("tr", { class: row.on ? "on" : null }, row.cells.map((cell, i) => h("td", { class: row.cells.length < 3 ? "wrap" : null, title: cell }, cell, i === row.cells.length - 1 ? acts(row.acts ?? []) : null))))),
    ];
  }
  /** What can be done about a refusal: force it, or change as little as flips it. */
  function acts(all) {
    if (!ctx.host.alive || !all.length) return null;
    const go = a => (a.kind === "force" ? ctx.move("force", a.args) : ctx.turn(a.args.knob, 1, a.args.label)).catch(error => ctx.say(error.sentence ?? String(error)));
    return h("div", { class: "acts" }, all.map(a => h("button", { class: "btn", type: "button", title: a.says, onclick: () => go(a) }, a.title)));
  }

  function tile() {
    const { sentence, candidates, terms, axes } = found.tile;
    const most = Math.max(...candidates.map(c => c.us ?? 0), 1e-9);
    const legend = terms.length > 0 && h("div", { class: "leg" },
      terms.slice(0, 4).map((name, i) => h("span", {}, s("svg", { width: 12, height: 10 }, s("rect", { x: 0.5, y: 0.5, width: 11, height: 9, fill: ink(i), stroke: "var(--t2)" })), name)));
    return [
      h("div", {}, sentence),
      candidates.length > 0 && h("table", { "aria-label": "Candidate tiles" },
        h("colgroup", {}, h("col", { style: "width:36%" }), h("col", { style: "width:64px" }), h("col"), h("col", { style: "width:72px" })),
        h("tr", {}, h("th", {}, axes), h("th", { class: "r" }, "µs"), h("th", {}, "cost terms"), h("th")),
        candidates.map((c, i) => c.refused ? refused(c, i) : taken(c, most))),
      legend, why >= 0 && reason(candidates[why]),
    ];
  }

  const ink = i => INKS[i % 4].replace("#p-", `#${ctx.prefix}`);

  function taken(c, most) {
    let x = 0;
    const bar = s("svg", { width: 78, height: 10, role: "img", "aria-label": c.terms.map(([n, v]) => `${n} ${duration(v)}`).join(", ") },
      s("title", {}, c.terms.map(([n, v]) => `${n} ${duration(v)}`).join("\n")),
      c.terms.map(([, v], i) => { const w = v / most * 76, r = s("rect", { x: x + 0.5, y: 0.5, width: Math.max(0.6, w - 0.6), height: 9, fill: ink(i), stroke: i % 4 === 3 ? "var(--t2)" : null }); x += w; return r; }));
    const pick = !c.on && c.index >= 0 && ctx.host.alive;
    return h("tr", {
      class: `${c.on ? "on" : ""}${pick ? " pick" : ""}`, title: pick ? "Take this tile: compile and measure" : c.on ? "This tile is in use" : null,
      onclick: () => pick && ctx.turn("tile", c.index, c.label).catch(error => ctx.say(error.sentence)),
    }, h("td", { class: "tile" }, c.label), h("td", { class: "r" }, c.us >= 100 ? Math.round(c.us).toLocaleString("en") : c.us >= 0.1 ? c.us.toPrecision(3) : "< 0.1"), h("td", {}, bar), h("td", { class: "s" }, c.note));
  }

  function refused(c, i) {
    return h("tr", { class: `pick${i === why ? " asked" : ""}`, onclick: () => { why = why === i ? -1 : i; show(); } },
      h("td", { class: "tile" }, c.label),
      h("td", { class: "s", colspan: 3, title: c.refused }, h("span", { style: "display:inline-block;width:12px;color:var(--bad);vertical-align:-2px;margin-right:5px", role: "img", "aria-label": "refused" }, icon("cross", 14)), c.refused));
  }

  const reason = c => h("div", { class: "whynot" },
    h("div", { style: "display:flex;justify-content:space-between" }, h("b", {}, `Why not ${c.label}?`), h("kbd", {}, "W")),
    h("div", { class: "s", style: "margin-top:2px" }, c.refused));

  function history() {
    const steps = ctx.host.get("history") ?? [];
    if (!steps.length) return null;
    return h("div", { class: "hist" }, h("b", {}, "History"),
      h("div", { class: "steps" }, steps.map((step, at) => h("button", { type: "button", class: `hr${step.undone ? " un" : ""}${step.on ? " on" : ""}`, "aria-current": step.on ? "step" : null, disabled: !ctx.host.alive || step.on, title: step.on ? "On show" : "Go to this step", onclick: () => ctx.move("go", { step: at }).catch(() => {}) },
        h("b", {}, step.name), h("span", { class: "x" }, step.value ? [step.about, " ", step.before, " → ", h("b", {}, step.value)] : step.what), h("span", { class: "v" }, step.verdict))).reverse()));
  }

  return {
    box, begin, load, closer: make => { close = make; }, show: () => (found ? show() : empty()),
    /** The next refusal of the candidates, with its reason in full. */
    whyNot() {
      if (!found?.tile) return;
      const list = found.tile.candidates, next = list.findIndex((c, i) => c.refused && i > why);
      ctx.set({ inspector: "tile" });
      why = next >= 0 ? next : list.findIndex(c => c.refused);
      show();
      ctx.say(why >= 0 ? `Why not ${list[why].label}? ${list[why].refused}` : "No candidate was refused.");
    },
  };
}
