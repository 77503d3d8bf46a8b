// Edges moved by hand: a value is dragged to another memory level, or moved by the arrow keys; what that would change is told at once.
import { h, put, duration, clamp } from "./dom.js";

const POLL_MS = 120;

/** What may be done with a group's connections. `ctx`: host, device(), say(text), take(kind, args) -> promise, changed(focus): draw again. */
export function weldView(ctx) {
  const box = h("div", { class: "weld", role: "group", "aria-label": "Connections" });
  let state = null, asked = 0, job = 0, on = "", note = { text: "", kind: "" };

  /** The moves so far and what they change. */
  async function load() {
    const number = ++asked;
    try {
      const { data } = await ctx.host.ask("hand", { device: ctx.device() });
      if (number === asked) { state = data; draw(); }
    } catch (error) { if (number === asked) { state = null; put(box, h("p", { class: "s" }, error.sentence ?? String(error))); } }
  }

  function draw() {
    const held = box.contains(box.getRootNode().activeElement) ? box.getRootNode().activeElement.textContent : null;
    const moved = state.moves.length > 0, idle = !job;
    const button = (words, hint, act, off) => h("button", { class: "btn", type: "button", title: hint, disabled: off, onclick: act }, words);
    put(box,
      h("div", { class: "acts" },
        button("Split", on ? `Keep ${on} in memory: two kernels` : "Choose a value first", () => move(on, state.last), !idle || !on),
        button("Join", on ? `Hand ${on} over nearer: one kernel` : "Choose a value first", () => ask("join", { value: on }), !idle || !on),
        button("Undo", moved ? `Undo ${said(state.moves.at(-1))}` : "Nothing was moved", () => ask("unmove", {}), !idle || !moved),
        button("Reset", "All values where the compiler put them", () => ask("unmove", { everything: true }), !idle || !moved),
        button("Measure", state.sheet ? `${state.device} is a data sheet: predictions only` : "Compile it and time it against what is in use, in turns", measure, !idle || !moved || Boolean(state.sheet)),
        button("Cancel", "End the timing", cancel, idle),
        button("Take it", "Compile it and go on with it", take, !idle || !moved || Boolean(state.sheet)),
        h("label", { class: "s" }, "policy ", h("select", { "aria-label": "Policy", disabled: !idle, onchange: e => turn(e.target.selectedIndex) }, state.policies.map((p, i) => h("option", { selected: i === state.policy }, p)))),
        h("span", { class: "s" }, moved ? `${state.moves.length} moved: ${state.moves.map(said).join(", ")}` : "Drag a value to another level, or focus it and press ↑ or ↓.")),
      h("progress", { max: 1, value: 0, hidden: idle, "aria-label": "Timing" }),
      moved ? table() : null,
      h("div", { class: `note ${note.kind}`, role: "status", "aria-live": "polite" }, note.text));
    if (held) [...box.querySelectorAll("button")].find(b => b.textContent === held && !b.disabled)?.focus();
  }

  const said = ([value, level]) => `${value} → ${level}`;

  /** Measures beside each other: before, after, and the change. */
  function table() {
    const cells = (name, pick) => h("tr", {}, h("td", {}, name), state.rows.map(row => h("td", { class: `r${row[4] && pick === 2 ? " bad" : ""}` }, pick === 2 && row[3] !== "same" ? `${row[2]}, ${row[3]}` : row[pick])));
    return h("table", { class: "tbl", "aria-label": "Before and after, predicted" },
      h("tr", {}, h("th", {}, "predicted"), state.rows.map(([name]) => h("th", { class: "r" }, name))), cells("before", 1), cells("after", 2));
  }

  function tell(text, kind) { note = { text, kind }; if (state) draw(); ctx.say(text); }

  /** Ask for a change; a refused one bounces with the reason and what would flip it. */
  async function ask(kind, args) {
    if (job) return;
    const number = ++asked;
    try {
      const { data } = await ctx.host.ask(kind, { ...args, device: ctx.device() });
      if (number !== asked) return;
      if (data.refused) { tell(data.flip ? `Not legal: ${data.refused}. The smallest change that would flip it: ${data.flip}.` : `Not legal: ${data.refused}.`, "bad"); return; }
      state = data;
      tell(data.said, "");
      await ctx.changed(on);
    } catch (error) { if (number === asked) tell(error.sentence ?? String(error), "bad"); }
  }
  const move = (value, level) => ask("move", { value, level });

  async function measure() {
    try {
      const { data } = await ctx.host.ask("time_hand", {});
      job = data.job;
      tell("Compiling", "busy");
      const answer = await over();
      job = 0;
      if (answer.error) tell(answer.error.sentence, "bad");
      else tell(`${answer.data.big}: ${answer.data.small}; ${answer.data.predicted}`, "");
    } catch (error) { job = 0; tell(error.sentence ?? String(error), "bad"); }
    draw();
  }
  /** Ask how far the timing is until it is over. */
  async function over() {
    for (;;) {
      const { data } = await ctx.host.ask("job", { job });
      if (data.over) return data;
      const line = box.querySelector(".note"), meter = box.querySelector("progress");
      if (line) line.textContent = data.n ? `Measuring: n = ${data.n} of ${data.of}` : data.what || "Compiling";
      if (meter) meter.value = data.of ? data.n / data.of : 0;
      await new Promise(done => setTimeout(done, POLL_MS));
    }
  }
  function cancel() { if (job) ctx.host.ask("cancel", { job }).catch(() => {}); }
  async function take() {
    try { await ctx.take("take_hand", {}); on = ""; note = { text: "", kind: "" }; await ctx.changed(""); } catch (error) { tell(error.sentence ?? String(error), "bad"); }
  }

  /** Weld by another policy. */
  async function turn(index) {
    const label = state.policies[index];
    tell(`Welding by ${label}`, "busy");
    try { await ctx.take("turn", { knob: "fusion", index, label }); note = { text: `Welded by ${label}.`, kind: "" }; await ctx.changed(""); } catch (error) { tell(error.sentence ?? String(error), "bad"); }
  }

  /** Make the values of a drawing movable. */
  function attach(drawn) {
    const lanes = [...drawn.querySelectorAll("[data-lane]")];
    drawn.querySelectorAll("[data-value]").forEach(node => {
      const { value, level } = node.dataset;
      node.addEventListener("focus", () => { on = value; if (state) draw(); });
      node.addEventListener("keydown", event => keys(event, value, level));
      node.addEventListener("click", event => event.stopPropagation());
      node.addEventListener("pointerdown", event => drag(event, node, lanes));
    });
  }
  function keys(event, value, level) {
    const levels = state?.levels ?? [], by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!by || !levels.length) return;
    event.preventDefault(); event.stopPropagation();
    const at = levels.indexOf(level), to = event.shiftKey ? (by < 0 ? 0 : levels.length - 1) : clamp(at + by, 0, levels.length - 1);
    if (to !== at) move(value, levels[to]);
  }
  /** Follow the pointer; the lane that it is let go over is where the value goes. */
  function drag(event, node, lanes) {
    if (event.button || job) return;
    event.preventDefault();
    node.focus({ preventScroll: true });
    node.setPointerCapture(event.pointerId);
    const from = event.clientY, scale = node.ownerSVGElement.getBoundingClientRect().height / node.ownerSVGElement.viewBox.baseVal.height;
    const under = e => lanes.find(lane => { const r = lane.getBoundingClientRect(); return e.clientY >= r.top && e.clientY < r.bottom && e.clientX >= r.left && e.clientX < r.right; });
    let moved = false;
    const follow = e => {
      moved ||= Math.abs(e.clientY - from) > 4;
      if (!moved) return;
      node.setAttribute("transform", `translate(0 ${(e.clientY - from) / scale})`);
      lanes.forEach(lane => lane.classList.toggle("over", lane === under(e)));
    };
    const end = e => {
      node.removeEventListener("pointermove", follow); node.removeEventListener("pointerup", end); node.removeEventListener("pointercancel", end);
      node.removeAttribute("transform");
      lanes.forEach(lane => lane.classList.remove("over"));
      const lane = e.type === "pointerup" && moved ? under(e)?.dataset.lane : null;
      if (lane && lane !== node.dataset.level) move(node.dataset.value, lane);
    };
    node.addEventListener("pointermove", follow); node.addEventListener("pointerup", end); node.addEventListener("pointercancel", end);
  }
  return { box, load, attach };
}
