// The live part of a page: the panel, the wall that was measured over the plan for browsers, the variants in words, and what is not in the page.
import { duration, h, put } from "../canvas/dom.js";
import { palette, watchTheme } from "../canvas/paint.js";
import { wallView } from "../canvas/wall.js";
import { startLive } from "./live.js";
import { openPacked } from "./packed.js";

const NOT_ISOLATED = "One thread runs: browsers let threads share memory only where a server isolates the page, as ironworks serve does with this file.";
const NOT_HERE = { sentence: "This page holds all of its wall." };

/** A canvas of a program's planned wall; `measured` takes the wall of a run of a variant, as `packWall` makes it, and shows it over the variant's plan. */
function liveWall(/** @type {HTMLElement} */ root, { variants, parts }) {
  const rows = known => known.map(([, family, label, nodes]) => [label, family, [], nodes]);
  const colours = palette(root, parts.hatches), all = { causes: parts.causes }, bytes = {};
  let lit = new Set(), predicted = "";
  const plan = ({ program, wall, calls }) => {
    const unit = "shaders" in program ? "GPU" : "thread";
    Object.assign(all, { walls: { wall_planned: wall.head }, calls: rows(calls), bar: { unit } });
    Object.assign(bytes, { wall_planned: wall.bytes });
    predicted = `Wall of one ${unit}, predicted ${duration(wall.head.total_us)}`;
    lit = new Set();
  };
  plan(variants[0]);
  const host = { get: name => all[name], bytes: name => bytes[name] ?? null, alive: false, ask: () => Promise.reject(NOT_HERE) };
  const view = wallView({
    host, colours, state: { wall: "" }, litCalls: () => lit, selected: () => [...lit].map(call => all.calls[call]?.[0]).join(", "), say() {}, move: () => Promise.reject(NOT_HERE),
    pickCall(call) { lit = new Set(lit.has(call) ? [] : [call]); view.draw(); },
  });
  const load = said => { view.load(); view.canvas.setAttribute("aria-label", said); };
  root.append(view.box);
  load(`${predicted}.`);
  watchTheme(() => { colours.fresh(); view.draw(); });
  return {
    measured({ head, bytes: ran }, variant) {
      const own = variants[variant], planned = own.wall.head.total_us, share = Math.abs(planned / head.total_us - 1);
      plan(own);
      all.walls.wall_measured = { ...head, calls: head.calls && rows(head.calls), compared: `predicted ${(100 * share).toFixed(0)}% too ${planned < head.total_us ? "short" : "long"}` };
      bytes.wall_measured = ran;
      root.classList.add("ran");
      load(`${predicted}, measured ${duration(head.total_us)} in this browser; the table has the time of each call.`);
    },
  };
}

/** Sentences under a title that opens them. */
const folded = (title, rows) => h("details", {}, h("summary", {}, title), rows);

/** Fill `root` with the programs of a packed text; `worker` is the Worker's script. In each of `near` a button runs them, too. @returns {Promise<object | null>} what `startLive` returns, null where the page cannot be opened */
export const showLive = async (/** @type {HTMLElement} */ root, /** @type {string} */ text, { worker, near = [] }) => {
  const panel = h("div"), state = h("p", { class: "s", role: "status" }, "Opening the programs of this page…");
  put(root, state);
  let data;
  try { data = await openPacked(text); } catch (problem) {
    state.textContent = typeof DecompressionStream === "function" ? `The programs of this page are damaged (${problem.message}), so nothing runs here; the pictures are as they were.` : "This browser cannot unpack the programs of this page; a version from 2023 or later can. The pictures are as they were.";
    return null;
  }
  const picture = h("div", { class: "live-wall" }), others = data.variants.slice(1);
  put(root, panel, picture, [...data.words, ...others.some(({ program }) => program.units > 1) && !globalThis.crossOriginIsolated ? [NOT_ISOLATED] : []].map(sentence => h("p", { class: "s" }, sentence)),
    others.length > 0 && folded("What it can be compared with", h("dl", { class: "live-variants" }, others.map(({ name, sentence }) => [h("dt", {}, name), h("dd", {}, sentence)]).flat())),
    data.left_out.length > 0 && folded("Not in this page", h("ul", {}, data.left_out.map(sentence => h("li", {}, sentence)))));
  const wall = liveWall(picture, data), live = startLive(panel, { ...data, worker }, { onWall: wall.measured });
  picture.after(panel.querySelector(".live-calls")); // below the wall
  for (const place of near) place.append(h("button", { type: "button", class: "btn", onclick: () => { root.scrollIntoView(); panel.querySelector("button").focus({ preventScroll: true }); live.run(); } }, "Run in this browser"));
  return live;
};
