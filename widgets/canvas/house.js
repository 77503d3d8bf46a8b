// The house: bar, stages, knobs, thread, graph, wall, program, kernel, inspector, status; one selection through all of them.
import { h, s, put, keepKeys, roving, icon, tool, tabs, duration, plural, clamp } from "./dom.js";
import { drawStages } from "./strip.js";
import { failureOffer, errorOver } from "./ended.js";
import { HINTS, keySheet, findSheet } from "./sheets.js";
import { explained, wordSheet } from "./words.js";
import { kernelHost, fileHost, lastOnly } from "./host.js";
import { stateInAddress, stateIn, linkTo, taken, leaveBehind, leftBehind, forget } from "./link.js";
import { palette } from "./paint.js";
import { codeView } from "./code.js";
import { linkedLines } from "./linked.js";
import { kernelPane, kernelColumns } from "./kernel.js";
import { flowBlocks } from "./flow.js";
import { graphView } from "./graph.js";
import { wallView } from "./wall.js";
import { knobsView } from "./knobs.js";
import { inspectorView } from "./inspector.js";
import { roomsView } from "./rooms.js";
import { renderPicture, renderRoom } from "./room.js";

const LOOK_AHEAD_MS = 1500; // without a question
const HEAVY = ["conv", "matmul", "reduction", "control flow", "library call"];

/** Put a house into `el` over a host; returns what a driver of the page may use. */
export function mount(el, host) {
  const prefix = `iw${crypto.getRandomValues(new Uint32Array(1))[0].toString(36)}-`, root = keepKeys(h("div", { class: "ironworks scroll" }));
  const defs = s("svg", { width: 0, height: 0, style: "position:absolute", "aria-hidden": "true" });
  defs.innerHTML = `<defs>${host.get("patterns").replaceAll('id="p-', `id="${prefix}`)}</defs>`;
  el.append(root);
  root.append(defs);
  const colours = palette(root, host.get("hatches"));
  const saved = host.get("state") ?? {};
  const reached = name => { const ran = (host.get("stages") ?? []).filter(c => c.ran).map(c => c.stage); return !ran.length || ran.includes(name) ? name : ran.at(-1); };
  const state = {
    stage: host.get("verdict")?.failed?.stage ?? reached(saved.stage ?? "RAMMED"), op: -1, step: -1, diff: saved.diff ?? false, table: saved.table ?? false, wall: saved.wall ?? "both",
    language: saved.language ?? "numba", tab: saved.tab ?? "p", inspector: saved.inspector ?? "tile", graph: saved.graph ?? "",
    room: saved.room ?? "",
  };
  const operators = () => host.get("operators") ?? [], calls = () => host.get("calls") ?? [], known = host.get("pictures");
  /** The pictures of the stage, the first one first, those of every stage last; a stage that has none shows the wall, and the code's begin with it. */
  const pictures = () => { const own = known.filter(p => p.stage === state.stage), all = known.filter(p => p.every); return [...(own.length && state.stage !== "EMITTED" ? [] : known.filter(p => p.live === "wall")), ...own, ...all]; };
  let lit = new Set(), busy = 0, cleanups = [];

  const ctx = {
    host, state, colours, prefix,
    opLit: op => op === state.op, opName: op => operators()[op]?.[1] ?? "?",
    callLabel: call => calls()[call]?.[0] ?? "?", callNames: call => calls()[call]?.[3] ?? "",
    litCalls: () => lit, selected: () => ctx.opName(state.op), pattern: family => `${prefix}f-${family.replace(/ /g, "-")}`,
    familyMark: family => s("svg", { width: 12, height: 10 }, s("rect", { x: 0.5, y: 0.5, width: 11, height: 9, fill: `url(#${ctx.pattern(family)})`, stroke: "var(--line2)" })),
    pick: ops => select(ops.includes(state.op) && ops.length > 1 ? ops[(ops.indexOf(state.op) + 1) % ops.length] : headOf(ops)),
    pickCall: call => { const ops = calls()[call]?.[2] ?? []; if (ops.length) ctx.pick(ops); },
    hover: ops => { root.querySelectorAll(".ln.hover").forEach(n => n.classList.remove("hover")); if (ops.length && !ops.includes(state.op)) say(`${ops.map(ctx.opName).join(", ")}`, true); else status(); },
    move: (kind, args) => command(kind, args), say, unfold: key => unfold(key), set: patch => { Object.assign(state, patch); remember(); }, thread, turn,
  };
  const headOf = ops => [...ops].sort((a, b) => weight(a) - weight(b) || a - b)[0];
  const weight = op => { const at = HEAVY.indexOf(operators()[op]?.[3]); return at < 0 ? 9 : at; };

  // Panes
  const graph = graphView(ctx), wall = wallView(ctx), knobs = knobsView(ctx), inspector = inspectorView(ctx);
  const inLit = line => state.op >= 0 && line.ops.includes(state.op);
  const program = codeView({ label: "Program text", lit: inLit, pick: ctx.pick, hover: ctx.hover });
  const linked = linkedLines(host, () => { if (linked.chosen) say(linked.words()); source.light(); columns.light(); blocks(); status(); });
  const code = { ...ctx, linked, selectedOp: () => state.op, familyOf: ops => operators()[headOf(ops)][3], callOf: () => operators()[state.op]?.[4][0] ?? -1, why: () => state.op < 0 ? "choose an operator to see its kernel" : `no kernel: ${operators()[state.op][5]}`, narrow: key => narrow(key), remember: () => remember(), counted: lines => { counted.source = lines; status(); } };
  const source = kernelPane(code), columns = kernelColumns(code);
  const bar = h("header", { class: "bar" }), gone = h("div", { class: "gone", role: "status", hidden: true }), strip = roving(h("nav", { class: "strip", "aria-label": "Stages" }));
  const line = h("div", { class: "thread", "aria-label": "Where the selected operator went" }), live = h("span", { "aria-live": "polite" });
  const heads = { g: h("div", { class: "ph" }), w: h("div", { class: "ph" }), p: h("div", { class: "ph" }), s: source.head };
  const legend = h("div", { class: "leg" }), picture = h("div", { class: "picture", hidden: true });
  wall.box.append(picture);
  const blocks = flowBlocks(picture, linked, say, loop => rooms.unfold(loop));
  const rooms = roomsView({ host, code: columns, pictures: known, say, op: () => state.op, names: () => operators().map(o => o[0]), pick: ops => ctx.pick(ops), take: (kind, args) => command(kind, args), step: () => stepOn(), toStep, enter, turn: (knob, index, label) => turn(knob, index, label) }, picture);
  const over = errorOver(), failure = () => host.get("verdict")?.failed;
  const pane = (key, label, ...content) => h("section", { class: `pane p${key}`, "aria-label": label, tabindex: "0", "data-pane": key }, heads[key], ...content);
  const body = h("div", { class: "body", "data-tab": state.tab },
    pane("g", "Dataflow graph", graph.box), pane("w", "Picture", wall.box, legend), pane("p", "Program text", over.box, program.box, program.mini),
    pane("s", "Generated source", source.box, source.mini), inspector.box);
  const offer = failureOffer(args => quietly(command("as_far", args).then(toFailure)), () => house.focus({ preventScroll: true }));
  const house = h("section", { class: "house", "aria-label": "Ironworks explorer", tabindex: 0 }, bar, gone, strip, knobs.row, offer.box, line, body,
    h("footer", { class: "status" }, live, HINTS.map(([key, text, k]) => h("span", { class: `keyhint ${k ?? ""}` }, h("kbd", {}, key), text))));
  root.append(house);
  rooms.within(root);
  explained(root, host.get("glossary"));

  // Words
  function say(text, passing = false) { live.textContent = text; if (!passing) spoken = text; }
  let spoken = "";
  function status() {
    if (state.op < 0 || spoken) { live.textContent = spoken || "Nothing is selected: click a node, a line or a brick, or press J."; return; }
    const [planned, measured, more] = wall.counts(lit), nodes = graph.graph?.nodes.filter(n => n.ops.includes(state.op)).length ?? 0;
    const lines = counted.program, sources = counted.source;
    live.textContent = `${ctx.opName(state.op)} is lit in every pane: ${plural(nodes, "node")}, ${plural(lines, "line")}, ${plural(sources, "source line")}, ${planned} + ${measured} bricks${more ? `, ${more} modelled` : ""}`;
  }
  const counted = { program: 0, source: 0 };

  function thread(stations) {
    if (state.op < 0) { put(line, h("span", { class: "q" }, "Select an operator to follow it from the file to the wall.")); return; }
    put(line, h("span", { class: "h" }, ctx.opName(state.op)), stations ? stations.map(([name, value, quiet, more]) => h("span", { class: `st${quiet ? " opt" : ""}`, title: more || null }, name, h("b", {}, value))) : h("span", { class: "q" }, "reading…"));
  }

  // Selection
  const word = name => name.replaceAll(" ", "%20"); // as widgets/draw/svg.py writes it
  function select(op) {
    const other = op !== state.op;
    state.op = op;
    lit = new Set(calls().map((c, i) => [c, i]).filter(([c]) => op >= 0 && c[2].includes(op)).map(([, i]) => i));
    if (other) { spoken = ""; remember(); if (op >= 0) thread(null); inspector.begin(); inspector.load(); kernel(); picture_(); knobsFor(); }
    light();
    if (op < 0) thread([]);
  }
  function light() {
    graph.light(); wall.draw();
    counted.program = program.light(); counted.source = source.light(); columns.light();
    picture.querySelectorAll("[data-op]").forEach(node => node.classList.toggle("lit", state.op >= 0 && node.dataset.op.split(" ").includes(word(operators()[state.op][0]))));
    rooms.light(); blocks(); times(); status();
  }
  function times() {
    const info = heads.w.querySelector(".selinfo");
    if (!info) return;
    const [planned, ran] = state.op < 0 ? [] : wall.times(lit);
    const said = planned ? `${ctx.opName(state.op)}: planned ${duration(planned)}${ran ? `, ${wall.said} ${duration(ran)}` : ""}` : "";
    info.title = said;
    info.textContent = [planned, ran].filter(Boolean).map(duration).join(" → ");
  }
  const walk = by => { const order = graph.order(); if (order.length) select(order[(order.indexOf(state.op) + by + order.length) % order.length]); };
  const knobsFor = lastOnly(async () => { if (host.alive) await host.ask("focus", { op: state.op }).catch(() => {}); });

  // Stages
  const stages = () => { drawStages(strip, host.get("stages") ?? [], state.stage, stage); shown(); };
  /** The current stage is in view where the strip is wider than the house. */
  function shown() {
    const cell = strip.querySelector("[aria-current]");
    if (cell && strip.scrollWidth > strip.clientWidth) strip.scrollLeft = cell.offsetLeft - (strip.clientWidth - cell.offsetWidth) / 2;
  }
  function stage(name, at = -1) {
    const cells = host.get("stages") ?? [];
    state.stage = name; state.step = at;
    strip.querySelectorAll(".stage").forEach((node, i) => cells[i].stage === name ? node.setAttribute("aria-current", "step") : node.removeAttribute("aria-current"));
    strip.querySelectorAll(".stage").forEach((node, i) => { node.tabIndex = cells[i].stage === name ? 0 : -1; });
    shown(); remember(); text(); picture_();
    if (state.graph === "step") stepGraph();
  }
  const step = by => { const cells = host.get("stages") ?? [], i = cells.findIndex(c => c.stage === state.stage); stage(cells[clamp(i + by, 0, cells.length - 1)].stage); };

  // Program and kernel
  let reads = { text: 0, picture: 0 };
  const rows = list => list.map(([mark, number, text, family, ops, , words]) => ({ mark, number, text, words, family: family && ops.length && family !== "layout" ? operators()[headOf(ops)][3] : family, ops }));
  /** The step on show: the one chosen, else the stage's last one that did something, else the last one before the stage; -1 where there is none. */
  function stepOn() {
    const cells = host.get("stages") ?? [], here = cells.findIndex(c => c.stage === state.stage), { steps = [], did = [] } = cells[here] ?? {};
    return steps.includes(state.step) ? state.step : did.at(-1) ?? steps.at(-1) ?? cells.slice(0, Math.max(here, 0)).flatMap(c => c.steps).at(-1) ?? -1;
  }
  /** Go to a step, and so to its stage. */
  function toStep(at) {
    const cell = (host.get("stages") ?? []).find(c => c.steps.includes(at));
    if (cell) stage(cell.stage, at);
  }
  /** Go to the step that failed. */
  function toFailure() { house.focus({ preventScroll: true }); if (failure()) stage(failure().stage); }
  async function text() {
    const cell = (host.get("stages") ?? []).find(c => c.stage === state.stage), number = ++reads.text;
    const steps = cell?.steps ?? [], all = host.get("steps") ?? [], at = stepOn();
    const chooser = steps.length > 1 ? h("select", { "aria-label": "Step", onchange: e => toStep(Number(e.target.value)) }, steps.map(i => h("option", { value: i, selected: i === at }, all[i]))) : h("span", { class: "s cut", style: "font-size:11px" }, !cell?.ran ? "" : at < 0 ? "as it was imported" : steps.length ? `after ${all[at]}` : `unchanged, as after ${all[at]}`);
    put(heads.p, h("h2", {}, "Program"), narrow("p"), chooser, h("span", { class: "sp" }), tabs([[false, "After"], [true, "Diff"]], state.diff, diff => { state.diff = diff; remember(); text(); }, "Program"));
    const here = failure()?.stage === state.stage; // of a step that failed the program before it, with the error over it
    over.show(here ? failure() : null);
    if (cell?.ran === false && !here) { program.show([{ mark: " ", number: 0, text: "# this stage was not run", family: "", ops: [] }], "program"); counted.program = 0; status(); return; }
    try {
      const { data } = await (at < 0 ? host.ask("imported") : host.ask("program", { step: at }));
      if (number !== reads.text) return;
      const failed = (data.failed ? [data.failed] : []).map(text => ({ mark: "-", number: 0, text: `# the check failed: ${text}`, family: "", ops: [] }));
      const lines = [...failed, ...rows(data.lines)], left = lines.filter(l => l.mark !== "-");
      const plain = left.map(l => ({ ...l, words: null })), shown = !steps.length ? plain.map(l => ({ ...l, mark: " " })) : state.diff ? around(lines) : [...failed, ...plain];
      program.show(shown, "program"); counted.program = program.light(); status();
    } catch (error) { if (number === reads.text) program.show([{ mark: " ", number: 0, text: `# ${error.sentence ?? error}`, family: "", ops: [] }], "program"); }
  }
  /** A diff shows the changed lines and three on either side. */
  function around(lines) {
    const near = new Set(lines.flatMap((l, i) => l.mark === " " ? [] : [-3, -2, -1, 0, 1, 2, 3].map(d => i + d)));
    return near.size ? lines.filter((_, i) => near.has(i)) : [{ mark: " ", number: 0, text: "# no line of the program changed: what this step decided is in the pictures of its stage", family: "", ops: [] }];
  }
  const kernel = (fresh = false) => { linked.of(code.callOf(), fresh); source.load(); };

  const runs = () => host.alive && host.get("verdict")?.runs !== false; // a data sheet, or an early stage, has no code

  // The main picture follows the stage
  async function picture_() {
    const mine = pictures(), shown = mine.find(p => p.name === state.room) ?? mine[0], number = ++reads.picture, own = shown.live === "wall";
    const walled = wall.said ? `planned is outlined, ${wall.said} filled` : !wall.bricks() ? "" : runs() ? "planned; not measured yet" : "a prediction";
    const views = [["both", "Both"], ...wall.kinds.map(kind => [kind, kind[0].toUpperCase() + kind.slice(1)])];
    put(heads.w, h("h2", { title: shown.words }, shown.title), own ? h("span", { class: "s cut opt", title: walled }, walled) : h("span", { class: "s cut opt", title: shown.words }, shown.words),
      h("span", { class: "sp" }), own ? h("span", { class: "selinfo" }) : null, mine.length > 1 ? tabs(tabsOf(mine, shown), shown.name, enter, "Picture") : h("span", { class: "sp" }), own && !state.table && views.length > 2 ? tabs(views, state.wall, view => { state.wall = view; remember(); picture_(); }, "Wall") : null,
      own && runs() && !wall.measured && wall.bricks() ? h("button", { class: "btn", type: "button", title: "Run what is planned here, and time it (M)", onclick: remeasure }, "Measure") : null,
      rooms.saving(shown.name, state.table, own && !state.table ? wall.canvas : null),
      h("button", { class: "btn", type: "button", "aria-pressed": String(body.classList.contains("big")), title: "Give the picture the whole height (E)", onclick: enlarge }, body.classList.contains("big") ? "Smaller" : "Larger"));
    body.querySelector(".pw").setAttribute("aria-label", shown.title);
    tableButton?.setAttribute("aria-pressed", String(state.table));
    if (own && !state.table) { picture.hidden = true; wall.draw(); times(); return; }
    draw(shown.name, number);
  }
  /** A tab for each picture of the stage; those of every stage have one for each of their titles, and tabs of their own below it. */
  function tabsOf(mine, shown) {
    const groups = [...new Set(mine.map(p => p.every).filter(Boolean))].map(title => {
      const all = mine.filter(p => p.every === title);
      return [(shown.every === title ? shown : all[0]).name, title, all.map(p => p.title).join(", ")];
    });
    return [...mine.filter(p => !p.every).map(p => [p.name, p.title, p.words]), ...groups];
  }
  const draw = lastOnly(async (room, number) => {
    const done = number === reads.picture && await rooms.show(room, state.table);
    if (!done || number !== reads.picture) return;
    picture.hidden = false;
    picture.style.background = "var(--pane)";
    light();
  });
  function enter(room) { state.room = room; remember(); picture_(); }
  function enlarge() { body.classList.toggle("big"); picture_(); requestAnimationFrame(redraw); }
  /** The picked brick one place on, or on another unit. */
  const nudge = (along, across) => picture.hidden && wall.hand.picked ? wall.hand.nudge(along, across) || true : false;
  /** The stage's next picture. */
  function nextRoom() {
    const names = pictures().map(p => p.name);
    if (names.length < 2) return false;
    enter(names[(Math.max(0, names.indexOf(state.room)) + 1) % names.length]);
  }
  /** The focus goes to the picture's next symbol. */
  function nextSymbol() {
    const all = [...picture.querySelectorAll("[tabindex]")];
    if (picture.hidden || !all.length) return false;
    all[(all.indexOf(house.getRootNode().activeElement) + 1) % all.length].focus();
  }
  /** A symbol that is pointed at lights in the program's text as well; the picture's own rules light it there. */
  function symbols(event) {
    const words = event.target.closest?.("[data-sym]")?.dataset.sym.split(" ").map(decodeURIComponent) ?? [], ranges = [];
    if (!globalThis.Highlight) return;
    const texts = words.length ? document.createTreeWalker(program.box, NodeFilter.SHOW_TEXT) : null;
    for (let node = texts?.nextNode(); node; node = texts.nextNode())
      for (const found of node.data.matchAll(/[\w.]+/g)) if (words.includes(found[0])) ranges.push(new StaticRange({ startContainer: node, startOffset: found.index, endContainer: node, endOffset: found.index + found[0].length }));
    CSS.highlights.set("iw-symbol", new Highlight(...ranges));
  }
  for (const kind of ["pointerover", "pointerleave", "focusin", "focusout"]) picture.addEventListener(kind, symbols);
  // The wall follows a slider through time: half as much is left on both sides.
  picture.addEventListener("span", ({ detail: [from, to] }) => { const by = (to - from) / 2; wall.view = [Math.max(0, from - by), to + by]; });
  picture.addEventListener("click", e => {
    const node = e.target.closest("[data-op]"), names = node?.dataset.op.split(" ") ?? [];
    const found = operators().map((o, i) => [o[0], i]).filter(([name]) => names.includes(word(name))).map(([, i]) => i);
    if (found.length) ctx.pick(found);
  });

  // Heads, legend, bar
  const narrow = key => h("span", { class: "narrow" }, tabs([["g", "Dataflow"], ["p", "Program"], ["s", "Kernel"]], key, tab => { state.tab = tab; body.dataset.tab = tab; remember(); redraw(); }, "Pane"));
  let layers = null; // which repeated layers are open: keys, "flat" without any, null as it came
  function graphHead() {
    const now = state.graph === "step" && host.alive || host.get(`graph_${state.graph}`) ? state.graph : host.get("graph_first"), count = operators().length;
    state.graph = now;
    if (now === "step") stepGraph(); else if (layers) folded(); else graph.load(`graph_${now}`);
    const part = now === "step" ? null : host.get(`graph_${now}`), flat = layers ? layers === "flat" : part?.opened === null;
    put(heads.g, h("h2", {}, "Dataflow"), narrow("g"), h("span", { class: "sp" }), part?.groups ? null : h("span", { class: "q opt3 cut", title: `${count} operators in the source` }, `${count.toLocaleString("en")} ops`),
      part?.groups && host.alive ? h("button", { class: "btn", type: "button", "aria-pressed": String(!flat), title: `Fold ${plural(part.groups, "group")} of layers that repeat`, "aria-label": "Fold layers that repeat", onclick: () => { layers = flat ? [] : "flat"; graphHead(); } }, "×n") : null,
      tabs([["operators", "Ops"], ["kernels", "Kernels"], ...(host.alive ? [["step", "Step", "The program after the step on show; everything stays where it is from step to step"]] : [])], now, view => { state.graph = view; layers = null; remember(); graphHead(); graph.light(); }, "Nodes of the graph"));
  }
  /** The graph with the layers that are open; what is above them stays where it is. */
  const folded = lastOnly(async () => {
    const view = state.graph, { data } = await host.ask("graph", { view, opened: layers === "flat" ? "flat" : layers.join(",") });
    if (view !== state.graph) return;
    graph.take(data); graph.light();
  });
  /** The program after the step on show. */
  const stepGraph = lastOnly(async () => {
    const step = stepOn();
    if (step < 0) { graph.load("graph_operators"); return; }
    const { data } = await host.ask("step_graph", { step });
    if (state.graph === "step") { graph.take(data); graph.light(); }
  });
  /** Open repeated layers, or fold them. */
  function unfold(key) {
    if (!host.alive) { say("A saved page opens no layers."); return; }
    const now = Array.isArray(layers) ? layers : [];
    layers = now.includes(key) ? now.filter(k => k !== key && !k.startsWith(`${key}.`)) : [...now, key];
    folded().then(() => graph.box.querySelector(`[data-node="${CSS.escape(key)}"]`)?.focus({ preventScroll: true }));
  }
  function families() {
    const used = new Set(calls().map(c => c[1]));
    put(legend, host.get("families").filter(f => used.has(f)).map(f => h("span", {}, ctx.familyMark(f), f)),
      h("span", {}, s("svg", { width: 14, height: 12 }, s("rect", { width: 14, height: 12, fill: "var(--accent)" })), "selected"));
  }
  let tableButton = null;
  function top() {
    const { name, parts } = host.get("bar"), live_ = host.alive;
    tableButton = tool("table", "Table", "Show every picture as a table (T)", flip, { "aria-pressed": String(state.table) });
    put(bar, h("span", { class: "name" }, name), h("span", { class: "dim" }, parts.map(part => h("span", { title: part }, part))), h("span", { class: "sp" }),
      h("div", { class: "tools", role: "toolbar", "aria-label": "Session" },
        tool("undo", "Undo", host.get("undo")?.[0] || "Nothing to undo", () => command("undo"), { disabled: !live_ || !host.get("undo")?.[0] }),
        tool("redo", "Redo", host.get("undo")?.[1] || "Nothing to redo", () => command("redo"), { disabled: !live_ || !host.get("undo")?.[1] }), h("i"),
        tableButton, tool("link", "Copy link", "Copy a link to this state (L)", copy, { disabled: !live_ }), tool("save", "Snapshot", "Save this state as a file (S)", save, { disabled: !live_ }), h("i"),
        h("button", { class: "tb", type: "button", title: "Light or dark", "aria-label": "Light or dark", onclick: theme }, icon("theme")),
        h("button", { class: "tb", type: "button", title: "Keyboard map (?)", "aria-label": "Keyboard map", onclick: sheet }, icon("keys"))));
    const left = live_ ? leftBehind(name) : null;
    gone.hidden = live_ && !left;
    put(gone, left ? h("span", {}, "A kernel stopped while this model was looked at. ") : live_ ? "" : host.saved ?? "Kernel stopped. What is drawn stays; run the cell again to go on: what was set here can then be brought back.",
      left ? [h("button", { class: "btn", type: "button", onclick: bringBack }, "Bring back what was set"), h("button", { class: "btn", type: "button", onclick: () => { forget(name); top(); } }, "Leave it")] : []);
  }
  function verdict() {
    const v = host.get("verdict") ?? {}, x = r => 8 + (clamp(r, v.from ?? 0.8, v.to ?? 1.25) - (v.from ?? 0.8)) / ((v.to ?? 1.25) - (v.from ?? 0.8)) * 134;
    put(knobs.verdict, h("div", {}, h("div", { class: "big" }, v.big ?? ""), h("div", { class: v.failed ? "sm far" : "sm", title: v.small ?? "", role: v.failed ? "alert" : null }, v.small ?? ""), v.brought ? h("div", { class: "sm brought", title: v.brought }, v.brought) : null),
      v.ratio ? s("svg", { width: 150, height: 44, class: "opt", role: "img", "aria-label": v.small },
        s("path", { d: `M${x(1)} 4V28`, stroke: "var(--ink2)", "stroke-dasharray": "2 2" }), s("path", { d: "M8 28.5H142", stroke: "var(--line2)" }),
        s("path", { d: `M${x(v.low)} 16H${x(v.high)}M${x(v.low)} 12v8M${x(v.high)} 12v8`, stroke: "var(--ink)", "stroke-width": 1.6, fill: "none" }),
        s("circle", { cx: x(v.ratio), cy: 16, r: 4, fill: v.sure ? "var(--ink)" : "var(--pane)", stroke: "var(--ink)" }),
        s("text", { x: x(1), y: 41, "text-anchor": "middle" }, "A")) : h("span"),
      working ? h("button", { class: "btn", type: "button", title: "End this; everything stays as it was (Esc)", onclick: stop }, "Cancel") : h("button", { class: "btn", type: "button", title: "Make this the baseline (P)", disabled: !host.alive || Boolean(v.failed), onclick: () => command("pin") }, "Pin as A"));
    knobs.verdict.setAttribute("aria-busy", String(busy > 0));
  }

  // Commands to the kernel. While one runs the old picture stays; of several turns only the last matters.
  let working = 0, unwanted = false; // the job that compiles a turned knob; whether it was ended
  function stop() {
    unwanted = true;
    if (knobs.verdict.contains(house.getRootNode().activeElement)) house.focus({ preventScroll: true }); // its button goes
    host.ask("cancel", { job: working, newer: !!next }).catch(() => {});
  }
  /** Compile beside: what takes long says how far it is, and ends where nobody waits for it. */
  async function ahead(args) {
    const { data } = await host.ask("begin_turn", args).catch(() => ({ data: {} })); // what is refused, `turn` tells
    if (!data.job || data.over) return;
    working = data.job; unwanted = false;
    verdict();
    try {
      for (let now; !now?.over; await new Promise(done => setTimeout(done, now.over ? 0 : 120))) {
        ({ data: now } = await host.ask("job", { job: working }));
        if (next && !unwanted) stop();
        const small = knobs.verdict.querySelector(".sm"), step = `ompiling: ${now.what || "beginning"}${now.of > 1 ? `, ${now.n} of ${now.of}` : ""}`;
        const first = host.get("verdict")?.first, said = unwanted ? "Ending…" : first ? `${first}; c${step}` : `C${step}`; // of hardware the same program is shown at once
        if (small) small.textContent = said;
        say(said, true);
      }
    } finally { working = 0; verdict(); }
    if (unwanted) throw { sentence: next ? "A newer change came first." : "Cancelled: it stays as it was." };
  }
  async function command(kind, args = {}) {
    busy++; house.setAttribute("aria-busy", "true"); say({ turn: "Compiling and measuring…", take: "Compiling and measuring…", take_hand: "Compiling and measuring…", pin: "Measuring A…" }[kind] ?? "Working…", true);
    offer.hide();
    try {
      if (kind === "turn") await ahead(args);
      const { data } = await host.ask(kind, args);
      say(data?.said ?? "");
      if (data?.measure && !next) await measured().then(answer => say(answer?.data?.said ?? ""));
      return data;
    } catch (error) { say(error.sentence ?? String(error)); if (kind === "turn" && host.alive) offer.make(error, args); throw error; } finally { ended(); }
  }
  /** One piece of work is over; after the last one the turn that waits begins. */
  function ended() {
    if (!--busy) house.removeAttribute("aria-busy");
    verdict();
    const waiting = busy ? null : next;
    if (waiting) { next = null; command("turn", waiting.args).then(waiting.resolve, waiting.reject); } else if (!busy) lookAhead();
  }
  /** While nothing is asked, the kernel compiles what the reader may turn to next. */
  let looking = 0;
  function lookAhead() {
    clearTimeout(looking);
    looking = setTimeout(() => { if (host.alive && !busy && house.isConnected) quietly(host.ask("look_ahead")); }, LOOK_AHEAD_MS);
  }
  /** Time what is on show, after any other timing; n grows while it goes on, and a turn that waits ends it. */
  async function measured() {
    const begun = () => host.ask("begin_measure").catch(error => host.alive && error.sentence?.includes("under way") ? null : { data: {} }); // what else is refused, `measure` tells
    await idle(); // what the page draws takes a core from what is timed
    let first = await begun();
    while (!first) {
      if (next) return null;
      say("Waiting for the other timing…", true);
      await new Promise(done => setTimeout(done, 250));
      first = await begun();
    }
    const data = first.data;
    if (data?.job) { working = data.job; unwanted = false; verdict(); }
    try {
      while (data?.job) {
        const { data: now } = await host.ask("job", { job: data.job });
        if (now.over) { if (unwanted) throw { sentence: "Cancelled: planned, not measured." }; if (now.error) throw now.error; break; }
        if (next) { await host.ask("cancel", { job: data.job }); return null; }
        const small = knobs.verdict.querySelector(".sm"), said = unwanted ? "Ending…" : now.what || `measuring: n = ${now.n} of ${now.of}`;
        if (small) small.textContent = said;
        say(said, true);
        await new Promise(done => setTimeout(done, now.what ? 100 : 250)); // seldom, for the same reason
      }
    } finally { working = 0; verdict(); }
    return host.ask("measure");
  }
  /** The page has drawn what it has to, or half a second has passed. */
  const idle = () => new Promise(done => globalThis.requestIdleCallback ? requestAnimationFrame(() => requestIdleCallback(done, { timeout: 500 })) : setTimeout(done, 50));
  /** Time what was only planned so far. */
  async function remeasure() {
    busy++; house.setAttribute("aria-busy", "true"); say("Measuring…", true);
    await measured().then(answer => say(answer?.data?.said ?? ""), error => say(error.sentence ?? String(error)));
    ended();
  }
  let next = null; // the turn that waits for the one under way
  function turn(knob, index, label) {
    const args = { knob, index, label };
    if (!busy) return command("turn", args);
    next?.resolve();
    return new Promise((resolve, reject) => { next = { args, resolve, reject }; });
  }
  const quietly = promise => promise.catch(() => {});
  async function copy() {
    const { data } = await host.ask("link"), url = linkTo(data.text);
    try { await navigator.clipboard.writeText(url); say(["The link is on the clipboard.", data.left].filter(Boolean).join(" ")); } catch { window.prompt("Link to this state", url); }
  }
  async function save() {
    const { data } = await host.ask("save"), a = h("a", { href: URL.createObjectURL(new Blob([data.text], { type: "application/json" })), download: data.name });
    a.click(); URL.revokeObjectURL(a.href); say(`Saved ${data.name}.`);
  }
  const flip = () => { state.table = !state.table; remember(); picture_(); };
  function theme() {
    const dark = getComputedStyle(root).getPropertyValue("--pane").trim() === host.get("dark_pane");
    root.classList.toggle("dark", !dark); root.classList.toggle("light", dark);
    repaint();
  }
  const sheet = () => keySheet(house), words = () => wordSheet(house, host.get("glossary") ?? {}), find = () => findSheet(house, operators, select);
  function view() {
    const { stage: s_, diff, table, wall: w, language, tab, inspector: i, graph: g, room } = state;
    return { stage: s_, op: state.op < 0 ? "" : operators()[state.op][0], diff, table, wall: w, language, tab, inspector: i, graph: g, room };
  }
  const remember = () => host.remember(view());

  // Keys act only while the house has the focus.
  house.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input,select,textarea")) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key, shift = event.shiftKey;
    const acts = {
      "[": () => step(-1), "]": () => step(1), j: () => walk(1), k: () => walk(-1), z: () => !picture.hidden ? rooms.zoom(1.25) : wall.zoom(0.6), x: () => !picture.hidden ? rooms.zoom(0.8) : wall.zoom(1 / 0.6), t: flip, d: () => { state.diff = !state.diff; remember(); text(); },
      r: nextRoom, n: nextSymbol, e: enlarge, m: () => picture.hidden && runs() && !wall.measured ? (remeasure(), true) : false,
      ",": () => picture.hidden ? wall.step(-1) : rooms.step(-1), ".": () => picture.hidden ? wall.step(1) : rooms.step(1), "<": () => rooms.end(-1), ">": () => rooms.end(1), w: () => inspector.whyNot(), p: () => quietly(command("pin")), u: () => quietly(command(shift ? "redo" : "undo")), l: copy, s: save, "/": find, "?": sheet, g: words,
      Escape: () => { if (house.querySelector(".sheet")) sheet(); else if (house.querySelector(".glossary")) words(); else if (working) stop(); else if (linked.chosen) { spoken = ""; linked.choose("", []); } else if (state.op >= 0 || wall.hand.picked) { wall.hand.pick(null); select(-1); } else wall.whole(); },
      ArrowLeft: () => shift && nudge(-1, 0) || (!picture.hidden && rooms.step(-1) || wall.pan(-0.2)), ArrowRight: () => shift && nudge(1, 0) || (!picture.hidden && rooms.step(1) || wall.pan(0.2)),
      ArrowUp: () => shift && nudge(0, -1) || scroll(-1), ArrowDown: () => shift && nudge(0, 1) || scroll(1),
      Enter: () => { if (event.target.closest(".pg")) { state.graph = state.graph === "operators" ? "kernels" : "operators"; graphHead(); graph.light(); } else return false; },
    };
    const act = /^[1-8]$/.test(key) ? () => knobs.focus(Number(key) - 1) : acts[key];
    if (!act || act() === false) return;
    event.preventDefault();
    event.stopPropagation();
  });
  const scroll = by => { const at = house.getRootNode().activeElement?.closest?.(".pane"), inner = at?.querySelector(".scrolls,.code,.bd,.picture:not([hidden])"); if (inner) inner.scrollTop += by * 52; };

  // Beginning, and every change that the kernel tells of
  function redraw() { graph.draw(); program.draw(); source.draw(); wall.draw(); }
  function repaint() { colours.fresh(); redraw(); }
  function everything() { top(); stages(); knobs.load(); verdict(); graphHead(); families(); wall.load(); select(state.op); text(); kernel(); picture_(); }
  const by = { bar: top, undo: top, stages, knobs: () => knobs.load(), verdict, history: () => inspector.show(), graph_operators: later, graph_kernels: later, calls: later, operators: later, walls: () => { wall.load(); light(); picture_(); } };
  let pending = 0;
  function later() { cancelAnimationFrame(pending); pending = requestAnimationFrame(() => { everything(); inspector.load(); }); }
  for (const [part, act] of Object.entries(by)) host.on(part, act);
  host.on("revision", () => { text(); inspector.load(); kernel(true); if (!picture.hidden) picture_(); });
  host.onGone(() => { // where nothing was changed, nothing is lost
    if (host.get("undo")?.[0]) leaveBehind(host.get("bar").name, { ...JSON.parse(host.get("kept")), ...view() });
    top(); knobs.load(); verdict();
    say(gone.textContent);
  });
  const follow = () => { root.classList.remove("dark", "light"); repaint(); }; // the page's theme is the later choice
  const scheme = matchMedia("(prefers-color-scheme:dark)"), watcher = new MutationObserver(follow);
  scheme.addEventListener("change", follow);
  watcher.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name"] });
  cleanups = [() => scheme.removeEventListener("change", follow), () => watcher.disconnect(), () => graph.close(), () => wall.close(), () => rooms.close(), () => host.close()];

  thread([]);
  everything();
  inspector.show();
  const chosen = operators().findIndex(o => o[0] === saved.op);
  if (chosen >= 0) select(chosen);
  restore();
  async function restore() {
    const found = host.alive ? stateInAddress() : null;
    if (!found) { if (runs() && !host.get("verdict")?.n) remeasure(); return; } // code that is not there yet is generated beside
    if (await goTo(found)) taken(found);
  }
  /** Go to a state that was kept; false where it does not fit. */
  async function goTo(text) {
    try {
      const { data } = await host.ask("restore", { text });
      say(data.said);
      Object.assign(state, data.state, { op: -1 });
      everything();
      const at = operators().findIndex(o => o[0] === data.state.op);
      if (at >= 0) select(at);
      return true;
    } catch (error) { say(error.sentence ?? String(error)); return false; }
  }
  async function bringBack() {
    const name = host.get("bar").name, text = leftBehind(name);
    forget(name);
    top();
    if (text) await goTo(text);
  }
  // A link that is pasted over the house is gone to: where a page drops the end of its address, this is the way.
  house.addEventListener("paste", event => {
    const text = event.target.matches("input,textarea") ? null : stateIn(event.clipboardData?.getData("text") ?? "");
    if (!text || !host.alive) return;
    event.preventDefault(); event.stopPropagation();
    goTo(text);
  });
  const driver = { state, select, selected: ctx.selected, linkTo, calls, turn, wall, graph, program, source, command, close: () => cleanups.forEach(f => f()) };
  root.ironworks = driver;
  lookAhead();
  cleanups.push(() => clearTimeout(looking));
  return driver;
}

/** anywidget's entry: the house, or rooms alone. */
export function render({ model, el }) {
  if (model.get("rooms")) return renderRoom({ model, el });
  if (model.get("html")) return renderPicture({ model, el });
  const driver = mount(el, kernelHost(model));
  return () => driver.close();
}

/** A saved page's entry: `document_` as widgets/page/report.py writes it. */
export function show(el, document_) {
  const host = fileHost(document_);
  host.saved = document_.saved;
  return mount(el, host);
}

export default { render, show, mount };
