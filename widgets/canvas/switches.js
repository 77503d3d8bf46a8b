// The switchboard: every step on or off, and where it stands. What may not be is refused with what it would break.
import { h, put, plural } from "./dom.js";

const COLUMNS = ["", "step", "stage", "place", "seconds", "what it did", "baseline"];

/** The switches. `ctx`: host, say(text), turn(knob, index, label), toStep(at). */
export function switchesView(ctx) {
  const rows = h("tbody"), numbers = h("dl", { class: "numbers" }), note = h("p", { class: "note", role: "alert" });
  const head = h("thead", {}, h("tr", {}, COLUMNS.map((c, i) => h("th", { class: i === 4 ? "r" : null }, c))));
  const box = h("div", { class: "switches" }, note, h("table", { class: "tbl lights", "aria-label": "Steps" }, head, rows), numbers);

  async function load() {
    const { data } = await ctx.host.ask("board"), steps = data.steps;
    put(rows, steps.map((s, i) => row(s, steps, i)));
    put(numbers, h("div", {}, h("dt"), h("dd", {}, "baseline"), h("dd", {}, "now")), data.numbers.map(([name, a, now]) => h("div", {}, h("dt", {}, name), h("dd", {}, a), h("dd", {}, now))));
  }
  function row(s, steps, i) {
    const live = ctx.host.alive && ctx.turn, did = s.changes ? plural(s.changes, "change") : s.did ? "decided" : !s.on ? "" : s.ran ? "did nothing" : "not run";
    const beside = steps.filter(o => o.stage === s.stage && o.name !== s.name), before = steps[i - 1]?.stage === s.stage ? steps[i - 1].name : "";
    const labels = ["first of its stage", ...beside.map(o => `after ${o.name}`)], now = before ? labels.indexOf(`after ${before}`) : 0;
    const flip = h("input", {
      type: "checkbox", checked: s.on, disabled: !live, "aria-label": `${s.name} is on`, title: s.needed ? `It cannot be left out: ${s.needed}` : s.on ? "Leave it out" : "Put it back",
      onchange: () => { flip.checked = s.on; turned(s.on ? s.needed && `${s.name} cannot be left out: ${s.needed}` : "", s.knob, s.on ? s.off : s.back); },
    });
    const place = h("select", { disabled: !live || !beside.length, "aria-label": `Place of ${s.name}`, onchange: () => { const at = place.selectedIndex; place.selectedIndex = now; turned("", s.place, at + 1); } }, labels.map((l, n) => h("option", { selected: n === now }, l)));
    const name = s.at >= 0 ? h("button", { class: "lk", type: "button", title: "Show what it changed", onclick: () => ctx.toStep(s.at) }, s.name) : s.name;
    return h("tr", { "data-k": `step at${i} ${!s.on ? "off" : s.did ? "did" : s.ran ? "idle" : "left"}`, class: !s.on ? "off" : s.did ? null : "idle" }, h("td", {}, flip), h("td", {}, name), h("td", {}, s.stage), h("td", {}, place), h("td", { class: "r" }, s.ran ? s.seconds.toFixed(3) : ""), h("td", {}, did), h("td", {}, s.in_a ? "on" : "off"));
  }
  /** A knob of the board at another of its values; what is refused is told here, and everything stays as it was. */
  async function turned(refused, knob, index) {
    note.textContent = refused || "";
    if (refused) { ctx.say(refused); return; }
    await ctx.turn(knob, index, "").catch(error => { note.textContent = error.sentence ?? String(error); });
  }
  return { box, load };
}
