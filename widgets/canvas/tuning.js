// A tile by hand: edit it, see which rule it breaks or what the model says, time it against the one in use, pin it.
import { h, put, duration, plural, wrong } from "./dom.js";

const POLL_MS = 120;
const NAMES = { rows: "register rows", vectors: "vectors", pack: "pack right operand", pack_rows: "pack left operand", depth_block: "depth block, 0: all" };

/** The form over a host. `ctx`: host, say(text), take(args) -> promise, timed(): something was measured. */
export function tuningView(ctx) {
  const box = h("div", { class: "tune", role: "group", "aria-label": "Try a tile" });
  let form = null, fields = null, op = -1, asked = 0, job = 0, stopped = false, note = { text: "", kind: "" };

  /** The form of an operator; where it has none, why. */
  async function load(operator) {
    const number = ++asked;
    if (operator !== op) { fields = null; note = { text: "", kind: "" }; }
    op = operator;
    try {
      const { data } = await ctx.host.ask("tuning", { op });
      if (number !== asked) return;
      form = data; fields ??= structuredClone(data.fields);
      draw();
    } catch (error) { if (number === asked) { form = null; put(box, h("p", { class: "s" }, `${error.sentence ?? error}${error.try ? `: ${error.try}` : ""}`)); } }
  }

  function draw() {
    const on = box.contains(box.getRootNode().activeElement) ? box.getRootNode().activeElement.dataset.field : null;
    put(box, form.refusal ? h("p", { class: "s" }, `Tile of ${form.kernel}: ${form.refusal}. Choose this-cpu as the target, or look at the staircase.`) : [edit(), list()]);
    if (on) box.querySelector(`[data-field="${on}"]`)?.focus();
  }

  function edit() {
    const sizes = form.axes.map(([axis, extent]) => number(axis, `of ${extent.toLocaleString("en")}`, fields.tile[axis], v => ({ ...fields, tile: { ...fields.tile, [axis]: v } })));
    const rest = Object.entries(fields).filter(([name]) => name !== "tile" && (form.contracts || !["rows", "vectors"].includes(name)));
    const inside = rest.map(([name, value]) => typeof value === "boolean" ? yesNo(name, value) : number(name, name === "vectors" ? `of ${form.lanes} lanes` : "", value, v => ({ ...fields, [name]: v })));
    const idle = !job;
    const timing = h("button", { class: "btn pri", type: "button", disabled: !idle, title: "Time it against the tile in use, in turns", onclick: () => time([fields]) }, "Time it");
    const all = h("button", { class: "btn", type: "button", disabled: !idle, title: "Time every candidate against the tile in use", onclick: () => time(open_()) }, "Time all");
    const stop = h("button", { class: "btn", type: "button", disabled: idle, onclick: cancel }, "Cancel");
    const pin = h("button", { class: "btn", type: "button", disabled: !idle || same(fields, form.fields), title: "Take this tile: compile through", onclick: take }, "Use it");
    const back = h("button", { class: "btn", type: "button", disabled: !idle || same(fields, form.fields), onclick: () => { fields = structuredClone(form.fields); tell("The tile in use.", ""); } }, "Back");
    return h("div", { class: "edit" }, h("div", {}, h("b", {}, `Tile of ${form.kernel}`), h("span", { class: "s" }, ` on ${form.device}, ${plural(form.threads, "thread")}`)),
      h("div", { class: "fields" }, sizes, inside), h("div", { class: "acts" }, timing, all, stop, pin, back),
      h("progress", { max: 1, value: 0, hidden: idle, "aria-label": "Timing" }), h("div", { class: `note ${note.kind}`, role: "status", "aria-live": "polite" }, note.text || "Change a number, or choose a candidate."));
  }

  const named = name => NAMES[name] ?? name.replace(/_/g, " ");
  function number(name, about, value, changed) {
    const input = h("input", { type: "number", min: name === "depth_block" ? 0 : 1, value, "data-field": name, "aria-label": `${named(name)} ${about}`, disabled: job > 0, oninput: () => wrong(input, ""), onchange: () => change(input, changed(Number(input.value))) });
    return h("label", {}, h("span", { class: NAMES[name] ? "" : "mono" }, named(name)), input, h("span", { class: "q" }, about));
  }
  function yesNo(name, value) {
    const input = h("input", { type: "checkbox", checked: value, "data-field": name, disabled: job > 0, onchange: () => change(input, { ...fields, [name]: input.checked }) });
    return h("label", {}, h("span", {}, named(name)), input, h("span"));
  }

  /** A changed field: at the field the rule that it breaks, or what the model says. */
  async function change(input, next) {
    const number = ++asked, refuse = why => { wrong(input, why); ctx.say(why); };
    try {
      const { data } = await ctx.host.ask("judge", { op, fields: next });
      if (number !== asked) return;
      if (data.refused) { refuse(`Not legal: ${data.refused}`); return; }
      fields = next;
      tell(data.said, "");
    } catch (error) { if (number === asked) refuse(error.sentence ?? String(error)); }
  }

  function tell(text, kind) { note = { text, kind }; draw(); ctx.say(text); }

  function list() {
    const most = Math.max(...form.candidates.map(c => c.us), 1e-9);
    return h("table", { class: "tbl cands", "aria-label": "Candidates" }, h("tr", {}, ["tile, registers", "predicted", "", "measured"].map((c, i) => h("th", { class: i === 1 ? "r" : null }, c))),
      form.candidates.map(c => h("tr", { class: `pick${same(c.fields, fields) ? " on" : ""}`, tabindex: 0, title: c.refused || "Choose this tile", onclick: () => choose(c), onkeydown: e => { if (e.key === "Enter") { e.stopPropagation(); choose(c); } } },
        h("td", { class: "mono" }, `${c.on ? "• " : ""}${c.label}`), h("td", { class: "r" }, c.refused ? "" : duration(c.us)), h("td", {}, c.refused ? h("span", { class: "cross", role: "img", "aria-label": "refused" }, "✕") : h("span", { class: "bar1", style: `width:${Math.max(1, c.us / most * 64)}px` })),
        h("td", { class: c.refused ? "s wrap" : "" }, c.refused || (c.said ? `${c.said.big}, ${duration(c.said.us)} (${c.said.low.toFixed(2)} to ${c.said.high.toFixed(2)}, n = ${c.said.n})` : c.on ? "in use" : "")))));
  }

  function choose(c) {
    if (job) return;
    if (c.refused) { tell(`Not legal: ${c.refused}`, "bad"); return; }
    fields = structuredClone(c.fields);
    tell(`${c.label}: predicted ${duration(c.us)}${c.on ? ", in use" : ""}`, "");
  }

  const open_ = () => form.candidates.filter(c => !c.refused && !c.said).map(c => c.fields);

  /** Time tiles one after another; the last verdict stays. */
  async function time(every) {
    stopped = false;
    for (const [i, one] of every.entries()) {
      if (stopped) break;
      const head = every.length > 1 ? `${i + 1} of ${every.length}: ` : "";
      try {
        const { data } = await ctx.host.ask("time_tile", { op, fields: one });
        job = data.job;
        if (i === 0 || every.length > 1) { fields = structuredClone(one); tell(`${head}compiling`, "busy"); }
        const answer = await over(head);
        job = 0;
        if (answer.error) { tell(answer.error.sentence, "bad"); break; }
        note = { text: `${head}${answer.data.big}: ${answer.data.small}`, kind: "" };
      } catch (error) { job = 0; tell(error.sentence ?? String(error), "bad"); break; }
    }
    ctx.say(note.text);
    ctx.timed();
    await load(op);
  }

  /** Ask how far the timing is until it is over. */
  async function over(head) {
    for (;;) {
      const { data } = await ctx.host.ask("job", { job });
      if (data.over) return data;
      const line = box.querySelector(".note"), meter = box.querySelector("progress");
      if (line) line.textContent = data.n ? `${head}n = ${data.n} of ${data.of}` : `${head}compiling`;
      if (meter) meter.value = data.n / data.of;
      await new Promise(done => setTimeout(done, POLL_MS));
    }
  }
  function cancel() { stopped = true; if (job) ctx.host.ask("cancel", { job }).catch(() => {}); }

  async function take() {
    try { await ctx.take({ op, fields }); fields = null; await load(op); } catch (error) { tell(error.sentence ?? String(error), "bad"); }
  }
  return { box, load };
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
