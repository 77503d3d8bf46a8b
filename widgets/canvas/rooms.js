// A room's picture with what belongs to it: the choice of device and tile, the stepper, the form to try a tile; or its table.
import { h, put } from "./dom.js";
import { stepperBar } from "./stepper.js";
import { tuningView } from "./tuning.js";

/** Rooms shown in `picture`. `ctx`: host, op(), say(text), take(args), pick(ops). */
export function roomsView(ctx, picture) {
  const view = { device: "", rank: -1 }, drawn = h("div", { class: "drawn" }), bar = h("div", { class: "rbar" });
  let asked = 0, steps = null, shown = null, about = null;
  const tuning = tuningView({ host: ctx.host, say: ctx.say, take: ctx.take, timed: () => {} });

  /** Ask for a room and show it, as a table where that is wanted; false where another one was asked for meanwhile. */
  async function show(room, table) {
    const number = ++asked, op = table ? -1 : ctx.op(), kernel = ctx.op();
    if (about !== kernel) { about = kernel; view.rank = -1; }
    const extra = { ...(view.device && { device: view.device }), ...(view.rank >= 0 && { rank: view.rank }) };
    const at = table && view.device ? kernel : op;
    let data;
    try { ({ data } = await ctx.host.ask("picture", { room, op: at, ...(ROLLER.has(room) ? extra : {}) })); } catch (error) {
      if (number !== asked) return false;
      put(picture, view.device || view.rank >= 0 ? h("button", { class: "btn", type: "button", style: "margin:12px 12px 0", onclick: () => { view.device = ""; view.rank = -1; show(room, table); } }, "Back to the tile in use") : null, h("div", { class: "empty" }, error.sentence ?? String(error)));
      return true;
    }
    if (number !== asked) return false;
    shown = { room, table };
    steps = null;
    controls(data.controls, op);
    if (table) put(drawn, tableOf(data.table)); else drawn.innerHTML = data.svg;
    if (!table) steps = stepperBar(drawn);
    const live = room === "layout" && !table && ctx.host.alive;
    put(picture, data.controls?.devices ? bar : null, steps?.bar, live ? tuning.box : null, drawn);
    if (live) tuning.load(ctx.op());
    drawn.querySelectorAll("[data-rank]").forEach(node => node.addEventListener("click", () => choose({ rank: Number(node.dataset.rank) })));
    return true;
  }
  function choose(patch) {
    const held = shown.room;
    Object.assign(view, patch);
    show(held, shown.table);
  }
  function controls(found, op) {
    if (!found?.devices) return;
    const { devices, device, tiles, rank } = found, has = ctx.host.has ?? (() => true), live = ctx.host.alive;
    const known = devices.filter(d => d === device || live || has("picture", { room: shown.room, op, device: d }));
    put(bar, h("label", {}, "device", h("select", { "aria-label": "Device", disabled: known.length < 2, onkeydown: e => e.stopPropagation(), onchange: e => choose({ device: e.target.value, rank: -1 }) }, known.map(d => h("option", { selected: d === device }, d)))),
      h("label", {}, "tile", h("select", { "aria-label": "Tile", disabled: !live, onkeydown: e => e.stopPropagation(), onchange: e => choose({ rank: e.target.selectedIndex }) }, tiles.map((t, i) => h("option", { selected: i === rank }, `${i + 1}: ${t}`)))));
  }
  function tableOf({ columns, rows: cells, ops, numeric, caption }) {
    return h("table", { class: "tbl", "aria-label": caption }, h("tr", {}, columns.map((c, i) => h("th", { class: numeric[i] ? "r" : null }, c))),
      cells.slice(0, 2000).map((row, r) => h("tr", { class: ops[r]?.includes(ctx.op()) ? "on" : null, onclick: () => ops[r]?.length && ctx.pick(ops[r]) }, row.map((cell, i) => h("td", { class: numeric[i] ? "r" : null }, String(cell))))),
      cells.length > 2000 ? h("tr", {}, h("td", { colspan: columns.length }, `… and ${cells.length - 2000} more`)) : null);
  }
  return {
    show, tableOf,
    /** A step on or back, where the picture has steps. */
    step: by => steps ? (steps.move(by), true) : false,
    end: which => steps ? (steps.end(which), true) : false,
  };
}

const ROLLER = new Set(["roller", "staircase", "waves", "roofline"]);
