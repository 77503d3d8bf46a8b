// The dataflow graph from top to bottom. Only the rows in view are in the page, so a large model scrolls like a small one.
import { h, s, put, fit, fitEnd, scrolls, textWidth } from "./dom.js";

const PITCH = 32, HIGH = 24, WIDE = 176, NARROW = 96, TOP = 6, LANES = 5, BEND = 14;

/** The graph's pane. `ctx`: host, colours, selection (`opLit(op)`), pick(ops), hover(ops), say(text), unfold(key). A graph with `places` has a fixed place for each node: its row, its place there of how many, its part of that of how many. */
export function graphView(ctx) {
  const drawing = s("svg", { role: "img" });
  const box = scrolls(h("div", { class: "fill scrolls" }, drawing), () => "Dataflow graph, scrolls");
  let graph = null, place = [], tops = [], layerOf = [], beside = [], width = 0;

  const load = name => take(ctx.host.get(name));
  /** Show another graph, or the same one with other layers folded. */
  function take(given) {
    graph = given;
    if (!graph) return;
    if (graph.places) graph.rows = rowsOf(graph);
    layerOf = [];
    graph.rows.forEach((row, layer) => row.forEach(node => { layerOf[node] = layer; }));
    lanes();
    arrange();
  }
  /** The nodes of a graph with places, row by row. */
  function rowsOf({ places, lines }) {
    const rows = Array.from({ length: Math.max(lines, 1) }, () => []);
    places.map((_, node) => node).sort((a, b) => places[a][1] - places[b][1] || places[a][3] - places[b][3]).forEach(node => rows[places[node][0]].push(node));
    return rows;
  }

  /** Edges over many layers run at the left, each in a lane of its own as far as there are lanes. */
  function lanes() {
    beside = [];
    const busy = [];
    graph.edges.forEach(([a, b], i) => {
      if (layerOf[b] <= layerOf[a] && graph.places || layerOf[b] - layerOf[a] <= 1 || graph.routes[i]) return;
      let lane = busy.findIndex(until => until <= layerOf[a]);
      if (lane < 0) lane = busy.length < LANES ? busy.length : i % LANES;
      busy[lane] = Math.max(busy[lane] ?? 0, layerOf[b]);
      beside[i] = lane;
    });
  }

  /** Give each node its box: a layer's nodes share the width, in lines below each other where their names would have no room; bends of long edges take little of it. */
  function arrange() {
    width = box.clientWidth || 240;
    if (!graph) return;
    const left = graph.groups || graph.places ? 10 + 5 * LANES : beside.length ? 10 + 5 * Math.min(LANES, 1 + Math.max(...beside.filter(x => x !== undefined))) : 8;
    place = []; tops = [];
    let top = TOP;
    if (graph.places) {
      graph.places.forEach(([row, at, of, part, parts], node) => {
        const wide = (width - left - 8) / of, w = Math.min(WIDE, wide / parts - 6), x = left + wide * at + wide / 2 + (part - (parts - 1) / 2) * (w + 6);
        place[node] = { x, y: TOP + row * PITCH, w: Math.max(w, 14), h: HIGH };
      });
      graph.rows.forEach((_, row) => tops.push(TOP + row * PITCH));
      top += graph.rows.length * PITCH;
    } else for (const row of graph.rows) {
      const real = row.filter(v => v < graph.nodes.length), bends = row.length - real.length, room = width - left - 8 - bends * BEND;
      const line = Math.max(1, Math.min(real.length, Math.floor(room / (NARROW + 6)))), lines = Math.max(1, Math.ceil(real.length / line));
      const wide = Math.min(WIDE, room / Math.max(line, 1) - 6), used = line * (wide + 6) + bends * BEND, high = lines * PITCH - PITCH + HIGH;
      let x = left + (width - left - 8 - used) / 2, count = 0;
      const begin = x;
      for (const node of lines > 1 ? [...real, ...row.filter(v => v >= graph.nodes.length)] : row) {
        const own = node < graph.nodes.length, at = own ? count++ : 0, span = own ? wide + 6 : BEND;
        if (lines > 1) x = own ? begin + at % line * span : Math.max(x, begin + line * (wide + 6));
        place[node] = { x: x + span / 2, y: top + (own ? Math.floor(at / line) * PITCH : 0), w: span - 6, h: own ? HIGH : high };
        x += span;
      }
      tops.push(top);
      top += lines * PITCH;
    }
    drawing.setAttribute("width", width);
    drawing.setAttribute("height", top + TOP);
    drawing.setAttribute("aria-label", `Dataflow graph of ${graph.nodes.length} nodes; J and K walk along it`);
    draw();
  }

  function draw() {
    if (!graph) return;
    const above = box.scrollTop - 4 * PITCH, below = box.scrollTop + (box.clientHeight || 400) + 4 * PITCH;
    let from = 0, to = tops.length;
    while (from < tops.length - 1 && tops[from + 1] < above) from++;
    while (to > from && tops[to - 1] > below) to--;
    const near = node => layerOf[node] >= from && layerOf[node] <= to;
    const lines = graph.edges.map(([a, b], i) => layerOf[a] <= to && layerOf[b] >= from ? edge(a, b, i) : null).filter(Boolean);
    const nodes = [];
    for (let layer = Math.max(0, from); layer <= Math.min(to, graph.rows.length - 1); layer++)
      for (const node of graph.rows[layer]) if (node < graph.nodes.length && near(node)) nodes.push(box_(node));
    put(drawing, lines, nodes);
  }

  function edge(a, b, i) {
    const lit = [a, b].some(v => litCount(v) > 0), from = place[a], to = place[b];
    if (beside[i] !== undefined) {
      const x = 8 + 5 * beside[i];
      return s("path", { class: `edge${lit ? " lit" : ""}`, "stroke-dasharray": "3 2", d: `M${from.x - from.w / 2} ${from.y + HIGH / 2}H${x}V${to.y + HIGH / 2}H${to.x - to.w / 2}` });
    }
    const bends = (graph.routes[i] ?? []).map(v => place[v]), d = side(from, to, bends) ?? curved(from, to, bends);
    return s("path", { class: `edge${lit ? " lit" : ""}`, d });
  }

  /** Past other nodes at one side: out of the box, along its bends, into the other box. */
  function side(from, to, bends) {
    if (!bends.length) return null;
    const xs = bends.map(b => b.x), right = Math.min(...xs) > Math.max(from.x + from.w / 2, to.x + to.w / 2);
    const left = Math.max(...xs) < Math.min(from.x - from.w / 2, to.x - to.w / 2);
    if (!right && !left) return null;
    const x = right ? Math.max(...xs) : Math.min(...xs), d = right ? 1 : -1, y0 = from.y + HIGH / 2, y1 = to.y + HIGH / 2;
    return `M${from.x + d * from.w / 2} ${y0}H${x - 4 * d}q${4 * d} 0 ${4 * d} 4V${y1 - 4}q0 4 ${-4 * d} 4H${to.x + d * to.w / 2}`;
  }

  function curved(from, to, bends) {
    let d = `M${from.x} ${from.y + HIGH}`, x = from.x, y = from.y + HIGH;
    for (const bend of [...bends, to]) {
      d += x === bend.x ? `V${bend.y}` : `C${x} ${y + 5} ${bend.x} ${bend.y - 5} ${bend.x} ${bend.y}`;
      x = bend.x; y = bend.y;
      if (bend !== to) { d += `V${bend.y + bend.h}`; y += bend.h; }
    }
    return d;
  }

  const litCount = node => graph.nodes[node].ops.filter(ctx.opLit).length;

  /** Layers that repeat, folded, or the head of such that are open: a click opens or folds them. */
  function fold(node) {
    const { label, kind, ops, note, name } = graph.nodes[node], { x, y, w } = place[node], lit = litCount(node), font = ctx.colours.font(13, "ui", 600), open = kind === "open";
    const flip = () => ctx.unfold(name), keys = event => { if (event.key !== "Enter" && event.key !== " ") return; event.preventDefault(); event.stopPropagation(); flip(); };
    return s("g", { class: `node fold${lit ? " lit" : ""}`, "data-node": name, tabindex: 0, role: "button", "aria-expanded": String(open), "aria-label": `${label} ${note}, ${ops.length} operators`, onclick: flip, onkeydown: keys },
      s("title", {}, `${open ? "Fold" : "Open"} ${label}${note ? `: ${note.slice(1)} layers that are alike` : ""}\n${ops.length} operators`),
      open ? null : s("rect", { class: "bx", x: x - w / 2 + 3, y: y + 3, width: w, height: HIGH, rx: 3 }),
      s("rect", { class: "bx", x: x - w / 2, y, width: w, height: HIGH, rx: 3 }),
      s("text", { class: "i", x: x - w / 2 + 6, y: y + 17 }, `${open ? "▾" : "▸"} ${fit(label, w - 28 - (note ? textWidth(note, font) : 0), font)}`),
      s("text", { class: "i w", x: x + w / 2 - 6, y: y + 17, "text-anchor": "end" }, note));
  }

  function box_(node) {
    if (["group", "open"].includes(graph.nodes[node].kind)) return fold(node);
    const { label, kind, family, ops, note, name } = graph.nodes[node], { x, y, w } = place[node], lit = litCount(node);
    const font = ctx.colours.font(13, "ui", lit ? 600 : 400), start = x - w / 2 + (family ? 17 : 6);
    const said = lit && ops.length > 1 ? `${lit} of ${ops.length}` : note, whole = w - (family ? 20 : 8), beside_ = said ? textWidth(said, font) + 10 : 4;
    const noted = said && w > 70 && textWidth(label, font) <= whole - beside_; // the name comes first
    const room = whole - (noted ? beside_ : 4);
    return s("g", {
      class: `node${lit ? " lit" : ""}`, "data-node": name, onclick: () => ops.length && ctx.pick(ops),
      onpointerenter: () => ctx.hover(ops), onpointerleave: () => ctx.hover([]),
    }, s("title", {}, `${name}${family ? `, ${family}` : kind === "input" ? ", an input" : ""}${ops.length > 1 ? `\n${ops.length} operators in one: ${ops.map(ctx.opName).join(", ")}` : ""}`),
      s("rect", { class: "bx", x: x - w / 2, y, width: w, height: HIGH, rx: kind === "operator" || kind === "kernel" ? 3 : 9 }),
      family && s("rect", { x: x - w / 2 + 3, y: y + 3, width: 10, height: HIGH - 6, fill: `url(#${ctx.pattern(family)})`, stroke: "var(--line2)", "stroke-width": 0.6 }),
      s("text", { class: "i", x: start, y: y + 17 }, w > 90 ? fit(label, room, font) : kind === "input" ? fit(name.slice(6), room, font) : fitEnd(label, Math.max(room, 12), font)),
      noted && s("text", { class: "q", x: x + w / 2 - 6, y: y + 17, "text-anchor": "end" }, said));
  }

  box.addEventListener("scroll", draw, { passive: true });
  const observer = new ResizeObserver(arrange);
  observer.observe(box);
  return {
    box, load, take, draw,
    get graph() { return graph; },
    /** Mark the selection; scroll to it only if none of it is in view. */
    light() {
      if (!graph) return 0;
      const lit = graph.nodes.map((_, v) => v).filter(v => litCount(v));
      const seen = lit.some(v => place[v].y >= box.scrollTop - 4 && place[v].y + HIGH <= box.scrollTop + box.clientHeight);
      if (lit.length && !seen) box.scrollTop = Math.max(0, place[lit[0]].y - box.clientHeight / 2);
      draw();
      return lit.length;
    },
    /** The operators in the order of the picture. */
    order: () => graph ? [...new Set(graph.rows.flat().filter(v => v < graph.nodes.length).flatMap(v => graph.nodes[v].ops))] : [],
    close() { observer.disconnect(); },
  };
}
