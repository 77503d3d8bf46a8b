// The explorer: bar, rail, the picture with its title, sentences and knobs, trail, drawers, result; one selection through all of them.
import { h, s, put, keepKeys, roving, icon, tabs, plural, clamp } from "./dom.js";
import { STAGES, drawStages, pictureList } from "./strip.js";
import { NAMED, thumbs } from "./mini.js";
import { sentences, lightMarks } from "./see.js";
import { playerView } from "./player.js";
import { failureOffer, errorOver } from "./ended.js";
import { keySheet, findSheet, linkSheet } from "./sheets.js";
import { kept } from "./keep.js";
import { explained, wordSheet } from "./words.js";
import { kernelHost, fileHost, lastOnly } from "./host.js";
import { shareTraits } from "./shared.js";
import { stateInAddress, stateIn, linkTo, taken, leaveBehind, leftBehind, forget, recall, storeLayout } from "./link.js";
import { palette, watchTheme } from "./paint.js";
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
const PATIENT_MS = 150; // until a picture that is not there yet is told of
const HEAVY = ["conv", "matmul", "reduction", "control flow", "library call"];
const KNOBS = { RAMMED: ["policy", "threads"], WELDED: ["fusion"], TASKED: ["control"], TYPED: ["size"], PLANNED: ["size"] }; // by the stage of a picture
const PREDICTED = ["tiles", "groups", "walls"]; // families of pictures that show what is expected
const OLD_NAMES = { rammer: "brick wall", roller: "tiles", welder: "memory levels", layers: "two layers", left_out: "left out", flow: "flow of code", lines: "lines to code" };
const AROUND = 260; // what a notebook shows around its frames: its bars, and a line of the cell
const framed = () => { try { return globalThis.self !== globalThis.top; } catch { return true; } };
const ROOMY = 1600, STRIPS = 1120, SLIM = 960; // widths from which both drawers have room, they stand beside the picture, the code does

/** Put an explorer into `el` over a host; returns what a driver of the page may use. */
export function mount(el, host) {
  const prefix = `iw${crypto.getRandomValues(new Uint32Array(1))[0].toString(36)}-`, root = keepKeys(h("div", { class: "ironworks cell" }));
  const defs = s("svg", { width: 0, height: 0, style: "position:absolute", "aria-hidden": "true" });
  defs.innerHTML = `<defs>${host.get("patterns").replaceAll('id="p-', `id="${prefix}`)}</defs>`;
  el.append(root);
  root.append(defs);
  if (framed()) root.style.setProperty("--most", `${screen.availHeight - AROUND}px`);
  const own = recall(); // drawers and theme, as this reader left them
  if (own.theme) root.classList.add(own.theme);
  const colours = palette(root, host.get("hatches"));
  const saved = host.get("state") ?? {};
  const cells = () => host.get("stages") ?? [], cellOf = stage => cells().find(c => c.stage === stage);
  const reached = name => { const ran = cells().filter(c => c.ran).map(c => c.stage); return !ran.length || ran.includes(name) ? name : ran.at(-1); };
  const state = {
    stage: host.get("verdict")?.failed?.stage ?? reached(saved.stage ?? "RAMMED"), op: -1, step: -1, diff: saved.diff ?? false, table: saved.table ?? false, wall: saved.wall ?? "",
    language: saved.language ?? "numba", tab: saved.tab ?? "p", inspector: saved.inspector ?? "tile", graph: saved.graph ?? "",
    room: saved.room ?? "",
  };
  const operators = () => host.get("operators") ?? [], calls = () => host.get("calls") ?? [], known = host.get("pictures"), absent = () => host.get("absent") ?? {};
  const pictureOf = name => known.find(p => p.name === name);
  const listed = stage => known.filter(p => p.stage === stage && !absent()[p.name]), stepPictures = known.filter(p => p.every === "Step"), asks = known.filter(p => p.every === "What if");
  /** The picture on show: the one that was chosen, where it is of this stage or of every one, else the stage's first, else of the program as it is there. */
  const onShow = () => { const mine = pictureOf(state.room); return mine && (mine.every || mine.stage === state.stage) ? mine : listed(state.stage)[0] ?? known.find(p => p.stage === state.stage) ?? stepPictures[0]; };
  let lit = new Set(), busy = 0, cleanups = [], began = false;

  const ctx = {
    host, state, colours, prefix,
    opLit: op => op === state.op, opName: op => operators()[op]?.[1] ?? "?",
    callLabel: call => calls()[call]?.[0] ?? "?", callNames: call => calls()[call]?.[3] ?? "",
    litCalls: () => lit, selected: () => ctx.opName(state.op), pattern: family => `${prefix}f-${family.replace(/ /g, "-")}`,
    familyMark: family => s("svg", { width: 16, height: 12 }, s("rect", { x: 0.5, y: 0.5, width: 15, height: 11, fill: `url(#${ctx.pattern(family)})`, stroke: "var(--edge)" })),
    pick: ops => select(ops.includes(state.op) && ops.length > 1 ? ops[(ops.indexOf(state.op) + 1) % ops.length] : headOf(ops)),
    pickCall: call => { const ops = calls()[call]?.[2] ?? []; if (ops.length) ctx.pick(ops); },
    hover: ops => { root.querySelectorAll(".ln.hover").forEach(n => n.classList.remove("hover")); if (ops.length && !ops.includes(state.op)) say(`${ops.map(ctx.opName).join(", ")}`, true); else status(); },
    move: (kind, args) => command(kind, args), say, unfold: key => unfold(key), set: patch => { Object.assign(state, patch); remember(); }, thread, turn,
  };
  const headOf = ops => [...ops].sort((a, b) => weight(a) - weight(b) || a - b)[0];
  const weight = op => { const at = HEAVY.indexOf(operators()[op]?.[3]); return at < 0 ? 9 : at; };

  // Parts
  const knobs = knobsView({ host, turn, here: () => onShow().live !== "wall" && controls.childElementCount ? [] : KNOBS[onShow().every ? "" : onShow().stage] ?? [] });
  const graph = graphView(ctx), wall = wallView(ctx), inspector = inspectorView(ctx);
  const inLit = line => state.op >= 0 && line.ops.includes(state.op);
  const program = codeView({ label: "Program text", lit: inLit, pick: ctx.pick, hover: ctx.hover });
  const linked = linkedLines(host, () => { if (linked.chosen) say(linked.words()); source.light(); columns.light(); blocks(); status(); });
  const code = { ...ctx, linked, selectedOp: () => state.op, familyOf: ops => operators()[headOf(ops)][3], callOf: () => operators()[state.op]?.[4][0] ?? -1, why: () => state.op < 0 ? "choose an operator to see its kernel" : `no kernel: ${operators()[state.op][5]}`, narrow: key => narrow(key), remember: () => remember(), counted: lines => { counted.source = lines; status(); } };
  const source = kernelPane(code), columns = kernelColumns(code);
  const bar = h("header", { class: "bar" }), gone = h("div", { class: "gone", role: "status", hidden: true }), rail = roving(h("nav", { class: "rail", "aria-label": "Stages" }), true);
  const line = h("div", { class: "trail", "aria-label": "Where the selected operator went" }), live = h("span", { class: "said", "aria-live": "polite" });
  const heads = { g: h("div", { class: "ph" }), p: h("div", { class: "ph" }), s: source.head }, head = h("div", { class: "head" }), controls = h("div", { class: "rbar" }), rest = h("div", { class: "rbar" });
  const legend = h("div", { class: "leg" }), picture = h("div", { class: "picture", hidden: true }), waiting = h("div", { class: "stt", hidden: true });
  const see = sentences(keys => { if (picture.hidden) wall.light(keys); else for (const svg of picture.querySelectorAll("svg.pic,.js-plotly-plot,.lights")) lightMarks(svg, keys); });
  const player = playerView({ say, see });
  wall.box.append(picture, waiting);
  const blocks = flowBlocks(picture, linked, say, loop => rooms.unfold(loop));
  const rooms = roomsView({ host, code: columns, pictures: known, bar: controls, rest, player, see, say, op: () => state.op, names: () => operators().map(o => o[0]), pick: ops => ctx.pick(ops), take: (kind, args) => command(kind, args), step: () => stepOn(), drawn: () => drawn(), progress: found => progress(found), current: () => { const mine = onShow(); return mine.live === "wall" && !state.table ? "" : mine.name; }, toStep, enter: go, turn: (knob, index, label) => turn(knob, index, label) }, picture);
  const list = pictureList(go), over = errorOver(), failure = () => host.get("verdict")?.failed;
  const pane = (key, label, ...content) => h("section", { class: `pane p${key}`, "aria-label": label, tabindex: "0", "data-pane": key }, heads[key], ...content);
  const drawer = (side, key, label, letter, content) => h("aside", { class: `drw ${side}`, "data-drawer": key },
    h("button", { class: "edge", type: "button", title: `Open the ${label.toLowerCase()} (${letter})`, onclick: () => open(key) }, h("span", {}, label)), content);
  const saves = h("span", { class: "saves" }), main = h("main", { class: "pane pw", tabindex: "0", "aria-label": "Picture", "data-pane": "w" }, head, see.box, wall.box, legend, h("div", { class: "row2" }, line, player.box, saves));
  const whatIf = h("div", { class: "pop", role: "dialog", "aria-label": "What if", hidden: true });
  const body = h("div", { class: "body" }, rail, list.box, drawer("l", "graph", "Graph", "G", pane("g", "Dataflow graph", graph.box)), main, drawer("r", "inspector", "Inspector", "I", inspector.box), whatIf);
  const codes = h("div", { class: "codes", "data-drawer": "code", "data-tab": state.tab }, pane("p", "Program text", over.box, program.box, program.mini), pane("s", "Generated source", source.box, source.mini));
  const result = h("div", { class: "result verdict", "aria-live": "polite" }), more = h("button", { class: "btn code-button", type: "button", title: "Program, kernel, assembly (C)", onclick: () => open("code") }, "Code");
  const foot = h("footer", { class: "foot" }, result, h("span", { class: "sp" }), live, h("span", { class: "opens" }, h("span", { class: "nw" }, ["graph", "inspector"].map(key => h("button", { class: "btn", type: "button", onclick: () => open(key) }, key === "graph" ? "Graph" : "Inspector"))), more));
  const offer = failureOffer(args => quietly(command("as_far", args).then(toFailure)), () => house.focus({ preventScroll: true }));
  const house = h("section", { class: "house", "aria-label": "Ironworks explorer", tabindex: 0 }, bar, h("div", { class: "banners" }, gone, offer.box), body, codes, foot);
  root.append(house);
  rooms.within(root);
  explained(root, host.get("glossary"));

  // Words
  function say(text, passing = false) { live.textContent = text; live.title = text; if (!passing) spoken = text; }
  let spoken = "";
  function status() {
    if (state.op < 0 || spoken) { say(spoken, true); return; }
    const [planned, measured] = wall.counts(lit), nodes = graph.graph?.nodes.filter(n => n.ops.includes(state.op)).length ?? 0;
    say(`${ctx.opName(state.op)}: ${plural(nodes, "node")}, ${plural(counted.program, "line")}, ${plural(counted.source, "source line")}, ${plural(measured || planned, "task")}`, true);
  }
  const counted = { program: 0, source: 0 };

  const WAYS = { source: ["code", "p"], kernel: ["code", "s"], fused: "welder", tile: "roller", tasks: "rammer", buffer: "memory" }; // the picture, or the code, that a station opens
  function thread(stations) {
    if (state.op < 0) { put(line, h("span", { class: "q" }, "Select an operator to follow it from the file to the wall.")); return; }
    const to = name => { const way = WAYS[name]; return Array.isArray(way) ? () => { state.tab = way[1]; codes.dataset.tab = way[1]; remember(); open("code", true); } : way ? () => go(way) : null; };
    put(line, h("span", { class: "dot" }), h("b", {}, ctx.opName(state.op)), stations ? stations.map(([name, value, quiet, more]) => [h("i", { class: quiet ? "opt" : null }), h(to(name) ? "button" : "span", { class: `st${quiet ? " opt" : ""}${name === "kernel" || name === "source" ? " long" : ""}`, type: to(name) ? "button" : null, title: more || null, onclick: to(name) }, name === "tasks" ? null : `${name} `, h("em", {}, value))]).flat() : h("span", { class: "q" }, " reading…"));
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
    rooms.light(); blocks(); if (picture.hidden) walled(); status();
  }
  const walk = by => { const order = graph.order().length ? graph.order() : operators().map((_, i) => i); if (order.length) select(order[(order.indexOf(state.op) + by + order.length) % order.length]); };
  const knobsFor = lastOnly(async () => { if (host.alive) await host.ask("focus", { op: state.op }).catch(() => {}); });

  // Stages and pictures
  const stages = () => drawStages(rail, cells(), state.stage, (name, button) => { const again = list.stage === name; stage(name); if (again) list.close(); else opened([name], button.offsetTop - rail.scrollTop); });
  /** The list of the pictures of some stages. */
  function opened(names, top) {
    const groups = names.map(name => { const mine = known.filter(p => p.stage === name); return [cellOf(name), [...mine.filter(p => !absent()[p.name]), ...(names.length === 1 && cellOf(name)?.steps.length ? stepPictures : [])], mine.filter(p => absent()[p.name]).map(p => [p.title, absent()[p.name]])]; });
    list.show(groups.filter(([cell]) => cell), onShow().name, top);
  }
  function stage(name, at = -1) {
    state.stage = name; state.step = at;
    const mine = pictureOf(state.room);
    if (mine?.every === "What if") state.room = "";
    stages(); remember(); text(); picture_();
    if (state.graph === "step") stepGraph();
  }
  const step = by => { const i = cells().findIndex(c => c.stage === state.stage); list.close(); stage(cells()[clamp(i + by, 0, cells().length - 1)].stage); };
  /** Show a picture, and its stage. */
  function go(name) {
    const mine = pictureOf(name);
    list.close(); whatIf.hidden = true; spoken = "";
    state.room = name;
    if (mine.stage && mine.stage !== state.stage) { stage(mine.stage); return; }
    remember(); picture_();
  }
  /** The stage's next picture. */
  function nextRoom() {
    const names = [...listed(state.stage), ...stepPictures].map(p => p.name);
    if (names.length < 2) return false;
    go(names[(Math.max(0, names.indexOf(onShow().name)) + 1) % names.length]);
  }

  // Program and kernel
  const reads = { text: 0, picture: 0 };
  const rows = list => list.map(([mark, number, text, family, ops, , words]) => ({ mark, number, text, words, family: family && ops.length && family !== "layout" ? operators()[headOf(ops)][3] : family, ops }));
  /** The step on show: the one chosen, else the stage's last one that did something, else the last one before the stage; -1 where there is none. */
  function stepOn() {
    const here = cells().findIndex(c => c.stage === state.stage), { steps = [], did = [] } = cells()[here] ?? {};
    return steps.includes(state.step) ? state.step : did.at(-1) ?? steps.at(-1) ?? cells().slice(0, Math.max(here, 0)).flatMap(c => c.steps).at(-1) ?? -1;
  }
  /** Go to a step, and so to its stage. */
  function toStep(at) {
    const cell = cells().find(c => c.steps.includes(at));
    if (cell) stage(cell.stage, at);
  }
  /** Go to the step that failed. */
  function toFailure() { house.focus({ preventScroll: true }); if (failure()) { open("code", true); stage(failure().stage); } }
  async function text() {
    const cell = (host.get("stages") ?? []).find(c => c.stage === state.stage), number = ++reads.text;
    const steps = cell?.steps ?? [], all = host.get("steps") ?? [], at = stepOn();
    const chooser = steps.length > 1 ? h("select", { "aria-label": "Step", onchange: e => toStep(Number(e.target.value)) }, steps.map(i => h("option", { value: i, selected: i === at }, all[i]))) : h("span", { class: "s cut" }, !cell?.ran ? "" : at < 0 ? "as it was imported" : steps.length ? `after ${all[at]}` : `unchanged, as after ${all[at]}`);
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

  // The picture
  const heading = mine => {
    const [name, system] = STAGES[mine.stage || state.stage], first = mine.short || (mine.every ? mine.every === "Step" ? name : "What if" : name);
    const narrow_ = h("button", { class: "dn", type: "button", "aria-label": "All pictures", title: "All stages and their pictures", onclick: () => list.stage ? list.close() : opened(cells().map(c => c.stage), 44) }, "▾");
    return h("h2", { title: mine.words }, first, h("small", {}, ` · ${mine.title}`), narrow_);
  };
  /** Whether what is drawn is measured or predicted; "" of what is neither. */
  const chip = mine => mine.live === "wall" ? !wall.bricks() ? "" : wall.shows() : PREDICTED.includes(mine.family) && !mine.of_run ? "predicted" : "";
  function title(mine) {
    const walls = mine.live === "wall" && !state.table && wall.kinds.length > 1 ? choice("show", wall.kinds, wall.kind, view => { state.wall = view; remember(); walled(); title(mine); wall.draw(); }) : null, tag = chip(mine);
    const over_ = mine.live === "wall" && wall.has_base ? h("button", { class: "btn", type: "button", "aria-pressed": String(wall.compare), title: "The baseline over now, on one axis (A)", onclick: compare }, "A over B") : null;
    const at = head.contains(root.getRootNode().activeElement) ? root.getRootNode().activeElement : null, held = at?.getAttribute("aria-label") ?? at?.textContent;
    put(head, heading(mine), tag ? h("span", { class: `tag${tag === "predicted" ? " p" : ""}` }, tag) : null,
      h("span", { class: "owns" }, mine.live === "wall" || state.table && !mine.family ? null : controls, walls, knobs.own, over_,
        h("button", { class: "btn", type: "button", "aria-expanded": String(!whatIf.hidden), title: "All other knobs (W)", onclick: asking }, ["What if", ...knobs.changed()].join(" · "))));
    fit();
    if (at?.closest("[data-knob]")?.isConnected) at.focus({ preventScroll: true }); else if (at && !at.isConnected) ([...head.querySelectorAll("button,select")].find(node => (node.getAttribute("aria-label") ?? node.textContent) === held) ?? house).focus({ preventScroll: true }); // drawn anew: who was there stays
    main.setAttribute("aria-label", mine.title);
    for (const button of bar.querySelectorAll(".thumb")) button.setAttribute("aria-pressed", String(button.dataset.picture === mine.name));
  }
  /** Controls of the picture that would take a second line stand under What if. */
  function fit() {
    const held = root.getRootNode().activeElement;
    controls.append(...rest.childNodes);
    while (controls.isConnected && head.offsetHeight > 46 && controls.childElementCount > 1) rest.prepend(controls.lastElementChild);
    const button = head.querySelector("[aria-expanded]:not(.dn)");
    if (button) button.dataset.more = rest.childElementCount ? ` +${rest.childElementCount}` : "";
    if (held?.isConnected && held !== root.getRootNode().activeElement && held.closest?.(".rbar")) held.focus({ preventScroll: true }); // what is moved loses it
  }
  const offerSaving = mine => put(saves, rooms.saving(mine.name, state.table, mine.live === "wall" && !state.table ? wall : null));
  const choice = (label, options, now, pick) => h("label", { class: "knob choice" }, h("span", { class: "l" }, label), h("select", { "aria-label": label, title: options.find(([value]) => value === now)?.[1] ?? null, onchange: e => pick(options[e.target.selectedIndex][0]) }, options.map(([value, text]) => h("option", { selected: value === now }, text))));
  async function picture_() {
    const mine = onShow(), number = ++reads.picture;
    tellTraits?.();
    rooms.stop();
    if (mine.live === "wall" && !state.table) {
      picture.hidden = true; waiting.hidden = true; legend.hidden = false; before = mine.name;
      knobs.place(); title(mine); walled(); wall.draw(); player.of(wall.player()); offerSaving(mine);
      return;
    }
    if (absent()[mine.name]) { nothing(mine, absent()[mine.name]); return; }
    draw(mine, number);
  }
  const draw = lastOnly(async (mine, number) => {
    if (number !== reads.picture) return;
    const late = setTimeout(() => { if (number === reads.picture) showWaiting(mine); }, picture.hidden || picture.dataset.room !== mine.name ? PATIENT_MS : 4 * PATIENT_MS);
    let done = await rooms.show(mine.name, state.table);
    if (!done && number === reads.picture) done = await rooms.show(mine.name, state.table); // another one was asked for meanwhile
    clearTimeout(late);
    if (!done || number !== reads.picture) return;
    light();
  });
  /** A picture was drawn, for the first time or anew. */
  function drawn() {
    const mine = onShow();
    if (picture.dataset.room !== mine.name || mine.live === "wall" && !state.table) return; // it is no longer wanted
    waiting.hidden = true; picture.hidden = false; legend.hidden = true; before = mine.name;
    title(mine); knobs.place();
    player.of(state.table ? null : rooms.player()); offerSaving(mine);
  }
  let before = ""; // the picture that was drawn last
  const far = h("span"); // how far a picture is that takes a while
  /** A picture that takes a while: its title, bars in its place, how far it is, and a way to end it. */
  function showWaiting(mine) {
    far.textContent = "The picture comes when its numbers are there.";
    title(mine); see.show([]); player.of(null); legend.hidden = true;
    put(waiting, h("div", { class: "gl", "aria-hidden": "true" }, [88, 72, 94, 60, 80, 66, 90, 76].map(w => h("i", { style: `width:${w}%` }))), h("div", { class: "ldc", role: "status" }, h("b", {}, `Drawing “${mine.title}”`), far, host.alive ? h("button", { class: "btn", type: "button", title: "End this (Esc)", onclick: endDrawing }, "Cancel") : null));
    waiting.hidden = false; picture.hidden = true;
  }
  const progress = ({ what, n, of }) => { if (what) far.textContent = `${what[0].toUpperCase()}${what.slice(1)}${of > 1 ? `: ${n} of ${of}` : ""}`; };
  /** Give up the picture that is being drawn. */
  function endDrawing() {
    const mine = onShow(), other = pictureOf(before);
    reads.picture++;
    rooms.stop();
    empty(mine, "Not drawn", `“${mine.title}” was cancelled.`, h("button", { class: "btn", type: "button", onclick: () => picture_() }, "Draw it"), other && other !== mine ? h("button", { class: "btn", type: "button", onclick: () => go(before) }, `Back to “${other.title}”`) : null);
    waiting.querySelector("button").focus({ preventScroll: true });
  }
  /** A picture that has nothing to show of this model. */
  const nothing = (mine, when) => empty(mine, "Nothing to show yet", when, h("button", { class: "btn", type: "button", onclick: () => go("rammer") }, "Back to the schedule"));
  function empty(mine, head, words, ...ways) {
    title(mine); see.show([]); player.of(null); legend.hidden = true; picture.hidden = true;
    put(waiting, h("div", { class: "none" }, h("h3", {}, head), h("p", {}, words), h("div", { class: "ways" }, ways)));
    waiting.hidden = false;
  }
  /** The call that takes the most time, in words, unless it is selected. */
  const busiest = top => top < 0 || lit.has(top) ? "" : `; ${ctx.callLabel(top)} takes the most, ${Math.round(wall.facts(new Set([top])).call * 100)} %`;
  /** What the wall says: its sentences, and the legend with the shares of time. */
  function walled() {
    if (onShow().live !== "wall" || state.table) return;
    const { shares, units, unit, call } = wall.facts(lit), top = wall.costliest(), causes = host.get("causes"), name = ctx.opName(state.op);
    if (!shares) { see.show([[["No kernel of this program is scheduled.", ""]]]); put(legend); return; }
    const idle = causes.filter(([key]) => shares[key] > 0.0005).sort((a, b) => shares[b[0]] - shares[a[0]]), most = idle[0], share = value => `${(value * 100).toFixed(value < 0.0095 ? 1 : 0)} %`;
    see.show([
      [[plural(units, unit), "core"], [units === 1 ? " is " : " are ", ""], [share(shares.busy), "busy"], [" busy.", ""]],
      most ? [["Most idle time is ", ""], [`${most[1]}, ${share(shares[most[0]])}`, `idle ${most[0]}`], [".", ""]] : [["No core is idle.", ""]],
      state.op >= 0 ? call ? [[name, "op"], [" takes ", ""], [share(call), "op"], [` of the busy time${busiest(top)}.`, ""]] : [[name, ""], [" is on no core.", ""]] : [[`Select an operator to see its tasks${busiest(top)}.`, ""]]]);
    const used = new Set(calls().map(c => c[1])), hatch = key => s("svg", { width: 16, height: 12 }, s("rect", { x: 0.5, y: 0.5, width: 15, height: 11, fill: `url(#${prefix}g-${key})`, stroke: "var(--edge)" }));
    const item = (lights, mark, text) => h("span", { class: "hl0", onpointerenter: () => wall.light([lights.split(" ")]), onpointerleave: () => wall.light([]) }, mark, text);
    put(legend, h("div", {}, h("b", {}, `busy ${share(shares.busy)}`), host.get("families").filter(f => used.has(f)).map(f => item(`fam:${f}`, ctx.familyMark(f), f))),
      h("div", {}, h("b", {}, `idle ${share(1 - shares.busy)}`), idle.map(([key, words]) => item(`idle ${key}`, hatch(key), `${words} ${share(shares[key])}`))));
  }
  function compare() { if (!wall.has_base) { say("There is no baseline beside this: set one (B), then turn a knob."); return; } go("rammer"); wall.compare = !wall.compare; title(onShow()); }
  /** The picked task one place on, or on another core. */
  const nudge = (along, across) => picture.hidden && wall.hand.picked ? wall.hand.nudge(along, across) || true : false;
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

  // Drawers: as this reader left them, else as there is room
  const wide = () => house.clientWidth;
  let laid = ""; // which drawer lies over the picture, where there is no room beside it
  const lies = key => wide() < (key === "code" ? SLIM : STRIPS);
  const isOpen = key => lies(key) ? laid === key : own[key] ?? false;
  function open(key, on = !isOpen(key), focus = true) {
    if (lies(key)) laid = on ? key : ""; else own[key] = on;
    if (on && !lies(key) && wide() < ROOMY) for (const other of ["graph", "inspector"]) if (key !== "code" && other !== key) own[other] = false; // one at a time
    storeLayout(own); drawers();
    if (on) { if (key === "graph") graph.light(); if (key === "code") { program.draw(); source.draw(); program.light(); source.light(); } }
    if (focus) (on ? house.querySelector(`[data-drawer="${key}"] .pane`) : house).focus({ preventScroll: true });
  }
  function drawers() {
    for (const key of ["graph", "inspector", "code"]) house.querySelector(`[data-drawer="${key}"]`).classList.toggle("open", isOpen(key));
    more.setAttribute("aria-expanded", String(isOpen("code")));
  }
  const closer = key => h("button", { class: "btn ic", type: "button", "aria-label": `Close the ${key}`, title: "Close", onclick: () => open(key, false) }, icon("cross", 14));
  inspector.closer(() => closer("inspector"));
  main.addEventListener("pointerenter", () => list.close()); // who goes on to the picture is done with the list

  // Heads, bar
  const narrow = key => h("span", { class: "narrow" }, tabs([["p", "Program"], ["s", "Kernel"]], key, tab => { state.tab = tab; codes.dataset.tab = tab; remember(); redraw(); }, "Pane"));
  let layers = null; // which repeated layers are open: keys, "flat" without any, null as it came
  function graphHead() {
    const now = state.graph === "step" && host.alive || host.get(`graph_${state.graph}`) ? state.graph : host.get("graph_first");
    state.graph = now;
    if (now === "step") stepGraph(); else if (layers) folded(); else graph.load(`graph_${now}`);
    const part = now === "step" ? null : host.get(`graph_${now}`), flat = layers ? layers === "flat" : part?.opened === null;
    put(heads.g, h("h2", {}, "Graph"), h("span", { class: "sp" }),
      part?.groups && host.alive ? h("button", { class: "btn", type: "button", "aria-pressed": String(!flat), title: `Fold ${plural(part.groups, "group")} of layers that repeat`, "aria-label": "Fold layers that repeat", onclick: () => { layers = flat ? [] : "flat"; graphHead(); } }, "×n") : null,
      tabs([["operators", "Ops"], ["kernels", "Kernels"], ...(host.alive ? [["step", "Step", "The program after the step on show; everything stays where it is from step to step"]] : [])], now, view => { state.graph = view; layers = null; remember(); graphHead(); graph.light(); }, "Nodes of the graph"), closer("graph"));
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
  const square = (name, label, hint, act) => h("button", { class: "btn ic", type: "button", title: hint, "aria-label": label, onclick: act }, icon(name));
  function top() {
    const { name, parts } = host.get("bar");
    put(bar, h("div", { class: "who" }, h("b", { class: "name" }, name), h("span", { class: "dim", title: parts.join(" · ") }, parts.join(" · "))),
      h("nav", { class: "thumbs", "aria-label": "The four pictures" }, thumbs(known, go)),
      h("div", { class: "tools", role: "toolbar", "aria-label": "Session" },
        h("button", { class: "btn finds", type: "button", title: "Find a picture, an operator, an action", "aria-label": "Find", onclick: find }, icon("find"), h("span", { class: "lg" }, "Find"), h("kbd", { class: "lg" }, "Ctrl K")),
        [["undo", "Undo", "U"], ["redo", "Redo", "Shift U"]].map(([kind, label, key], i) => host.get("undo")?.[i] && host.alive ? square(kind, label, `${host.get("undo")[i]} (${key})`, () => quietly(command(kind))) : null),
        square("theme", "Light or dark", "Light or dark", theme), square("full", "Full screen", "Full screen (F)", full), h("button", { class: "btn ic", type: "button", title: "Keys (?)", "aria-label": "Keyboard map", onclick: sheet }, "?")));
    const left = host.alive ? leftBehind(name) : null;
    gone.hidden = host.alive && !left;
    put(gone, left ? h("span", {}, "A kernel stopped while this model was looked at. ") : host.alive ? "" : host.saved ?? "Kernel stopped. What is drawn stays; run the cell again to go on: what was set here can then be brought back.",
      left ? [h("button", { class: "btn", type: "button", onclick: bringBack }, "Bring back what was set"), h("button", { class: "btn", type: "button", onclick: () => { forget(name); top(); } }, "Leave it")] : []);
    for (const button of bar.querySelectorAll(".thumb")) button.setAttribute("aria-pressed", String(button.dataset.picture === onShow().name));
  }
  /** The result: what a run takes, against the baseline, and what can be done about it. */
  function verdict() {
    const v = host.get("verdict") ?? {}, timed = Boolean(v.n), can = runs() && !v.failed;
    put(result, h("span", { class: `big${timed ? "" : " pr"}` }, v.big ?? ""), h("span", { class: v.failed ? "sm far" : "sm", title: v.small ?? "", role: v.failed ? "alert" : null }, v.small ?? ""), v.brought ? h("span", { class: "sm brought", title: v.brought }, v.brought) : null,
      working ? h("button", { class: "btn", type: "button", title: "End this; everything stays as it was (Esc)", onclick: stop }, "Cancel")
        : [can ? h("button", { class: "btn", type: "button", title: "Run this here, and time it (M)", onclick: remeasure }, timed ? "Re-measure" : "Measure") : null,
          h("button", { class: "btn base", type: "button", title: "Compare with this from now on (B)", disabled: !host.alive || Boolean(v.failed), onclick: () => command("pin") }, "Set baseline")]);
    result.setAttribute("aria-busy", String(busy > 0));
  }
  /** All knobs that are not in the title, and what asks for more. */
  function asking() {
    const inside = whatIf.contains(root.getRootNode().activeElement);
    whatIf.hidden = !whatIf.hidden;
    if (whatIf.hidden && inside) house.focus({ preventScroll: true }); // what had the focus is gone
    put(whatIf, h("div", { class: "ph" }, h("h2", {}, "What if"), h("button", { class: "btn ic", type: "button", "aria-label": "Close", onclick: asking }, icon("cross", 14))), controls.isConnected ? rest : null, knobs.rest,
      h("div", { class: "ways" }, asks.map(p => h("button", { class: "btn", type: "button", title: p.words, onclick: () => go(p.name) }, p.name === "options" ? "All options" : p.name === "hardware" ? "Other hardware" : p.title))),
      h("p", { class: "q" }, "A changed knob is predicted at once; the measurement follows."));
    head.querySelector("[aria-expanded]")?.setAttribute("aria-expanded", String(!whatIf.hidden));
    if (!whatIf.hidden) whatIf.querySelector(".knob :is(select,button,[tabindex='0'])")?.focus({ preventScroll: true });
  }
  /** Find a picture, an operator or an action. */
  function find() {
    const acts = [["Measure", "M", remeasure], ["Set the baseline", "B", () => quietly(command("pin")), "pin as a"], ["Baseline over now", "A", compare], ["Play or pause", "Space", () => player.toggle()], ["Undo", "U", () => quietly(command("undo"))], ["Redo", "Shift U", () => quietly(command("redo"))], ["Table", "T", flip], ["Diff of the program", "D", diff], ["Copy a link", "L", copy], ["Save a snapshot", "S", save],
      ["Save every step as WebM", "export", () => player.record("webm")], ["Save every step as PNG", "export", () => player.record("zip")], ["Save the picture as PNG", "export", () => rooms.savesAs("png", onShow().name, state.table, onShow().live === "wall" ? wall : null)], ["Save the picture as SVG", "export", () => rooms.savesAs("svg", onShow().name, state.table, onShow().live === "wall" ? wall : null)],
      ["Graph", "G", () => open("graph")], ["Inspector", "I", () => open("inspector")], ["Code", "C", () => open("code")], ["What if", "W", asking], ["Why not", "N", whyNot], ["Full screen", "F", full], ["Light or dark", "theme", theme], ["Keys", "?", sheet], ["Glossary", "what a word means", words]];
    findSheet(house, [
      ...known.filter(p => (p.stage ? cellOf(p.stage) : p.every) && !absent()[p.name]).map(p => [`${p.short || (p.stage ? STAGES[p.stage][0] : p.every)} · ${p.title}`, "picture", () => go(p.name), `${p.name} ${OLD_NAMES[p.name] ?? ""} ${p.words} ${p.stage}`]),
      ...acts.map(([name, key, act, also = ""]) => [name, key, act, also]),
      ...operators().map((o, i) => [o[1], `operator, ${o[3]}`, () => select(i), `${o[0]} ${o[2]}`])]);
  }

  // Commands to the kernel. While one runs the old picture stays; of several turns only the last matters.
  let working = 0, unwanted = false; // the job that compiles a turned knob; whether it was ended
  function stop() {
    unwanted = true;
    if (result.contains(house.getRootNode().activeElement)) house.focus({ preventScroll: true }); // its button goes
    host.ask("cancel", { job: working, newer: !!next }).catch(() => {});
  }
  /** Compile beside: what takes long says how far it is, and ends where nobody waits for it. */
  async function ahead(args) {
    const { data } = await host.ask("begin_turn", args).catch(() => ({ data: {} })); // what is refused, `turn` tells
    if (!data.job || data.over) return;
    working = data.job; unwanted = false;
    let failed = null;
    verdict();
    try {
      for (let now; !now?.over; await new Promise(done => setTimeout(done, now.over ? 0 : 120))) {
        ({ data: now } = await host.ask("job", { job: working }));
        failed = now.error ?? null;
        if (next && !unwanted) stop();
        const small = result.querySelector(".sm"), step = `ompiling: ${now.what || "beginning"}${now.of > 1 ? `, ${now.n} of ${now.of}` : ""}`;
        const first = host.get("verdict")?.first, said = unwanted ? "Ending…" : first ? `${first}; c${step}` : `C${step}`; // of hardware the same program is shown at once
        if (small) small.textContent = said;
        say(said, true);
      }
    } finally { working = 0; verdict(); }
    if (unwanted) throw { sentence: next ? "A newer change came first." : "Cancelled: it stays as it was." };
    if (failed) throw failed;
  }
  async function command(kind, args = {}) {
    busy++; house.setAttribute("aria-busy", "true"); say({ turn: "Compiling and measuring…", take: "Compiling and measuring…", take_hand: "Compiling and measuring…", pin: "Measuring the baseline…" }[kind] ?? "Working…", true);
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
    if (waiting) { next = null; command("turn", waiting.args).then(waiting.resolve, waiting.reject); } else if (!busy) { measureWanted(); lookAhead(); }
  }
  let wanted = false; // a program turned a knob: what it came to is timed once the page is free
  function measureWanted() {
    if (busy || !wanted) return;
    wanted = false;
    if (!host.get("verdict")?.n) remeasure();
  }
  /** While nothing is asked, the kernel compiles what the reader may turn to next. */
  let looking = 0;
  function lookAhead() {
    clearTimeout(looking);
    looking = setTimeout(() => { if (host.alive && !busy && house.isConnected) quietly(host.ask("look_ahead")); }, LOOK_AHEAD_MS);
  }
  /** Time what is on show, after any other timing; n grows while it goes on, and a turn that waits ends it. */
  async function measured(again = false) {
    const begun = () => host.ask("begin_measure", again ? { again } : {}).catch(error => host.alive && error.sentence?.includes("under way") ? null : { data: {} }); // what else is refused, `measure` tells
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
        const small = result.querySelector(".sm"), said = unwanted ? "Ending…" : now.what || `measuring: n = ${now.n} of ${now.of}`;
        if (small) small.textContent = said;
        say(said, true);
        await new Promise(done => setTimeout(done, now.what ? 100 : 250)); // seldom, for the same reason
      }
    } finally { working = 0; verdict(); }
    return host.ask("measure", again ? { again } : {});
  }
  /** The page has drawn what it has to, or half a second has passed. */
  const idle = () => new Promise(done => globalThis.requestIdleCallback ? requestAnimationFrame(() => requestIdleCallback(done, { timeout: 500 })) : setTimeout(done, 50));
  /** Time what is on show, anew where that was done. */
  async function remeasure() {
    busy++; house.setAttribute("aria-busy", "true"); say("Measuring…", true);
    await measured(Boolean(host.get("verdict")?.n)).then(answer => say(answer?.data?.said ?? ""), error => say(error.sentence ?? String(error)));
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
    try { await navigator.clipboard.writeText(url); say(["The link is on the clipboard.", data.left].filter(Boolean).join(" ")); } catch { linkSheet(house, url); }
  }
  async function save() {
    const { data } = await host.ask("save");
    kept(data.text, data.name, "application/json");
    say(`Saved ${data.name}.`);
  }
  const flip = () => { state.table = !state.table; remember(); picture_(); };
  function diff() { state.diff = !state.diff; remember(); open("code", true, false); text(); }
  function theme() {
    const dark = getComputedStyle(root).getPropertyValue("--pane").trim() === host.get("dark_pane");
    own.theme = dark ? "light" : "dark";
    root.classList.remove("light", "dark"); root.classList.add(own.theme);
    storeLayout(own); repaint();
  }
  function full() {
    const now = house.getRootNode().fullscreenElement ?? document.fullscreenElement;
    if (now) document.exitFullscreen(); else Promise.resolve(document.fullscreenEnabled ? root.requestFullscreen() : Promise.reject()).catch(() => say("This page may not fill the screen."));
  }
  function whyNot() { open("inspector", true); inspector.whyNot(); }
  const sheet = () => keySheet(house), words = () => wordSheet(house, host.get("glossary") ?? {});
  function view() {
    const { stage: s_, diff, table, wall: w, language, tab, inspector: i, graph: g, room } = state;
    return { stage: s_, op: state.op < 0 ? "" : operators()[state.op][0], diff, table, wall: w, language, tab, inspector: i, graph: g, room };
  }
  const remember = () => { host.remember(view()); tellTraits?.(); };

  // Keys act only while the explorer has the focus.
  house.addEventListener("keydown", event => {
    const control = (event.ctrlKey || event.metaKey) && !event.altKey ? event.key.toLowerCase() : "", typed = event.target.matches("input:not([type=range]),textarea");
    if (control === "k" || control === "z" && !typed) { event.preventDefault(); event.stopPropagation(); if (control === "k") find(); else quietly(command(event.shiftKey ? "redo" : "undo")); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || event.key !== "Escape" && event.target.matches("input:not([type=range]),select,textarea")) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key, shift = event.shiftKey, ranged = event.target.matches("input[type=range]"), pressed = event.target.matches("button,[role=slider],[role=button]");
    if (ranged && key.startsWith("Arrow")) return;
    const acts = {
      "[": () => step(-1), "]": () => step(1), j: () => walk(1), k: () => walk(-1), z: () => !picture.hidden ? rooms.zoom(1.25) : wall.zoom(0.6), x: () => !picture.hidden ? rooms.zoom(0.8) : wall.zoom(1 / 0.6), t: flip, d: diff,
      r: nextRoom, f: full, a: compare, m: () => runs() ? (remeasure(), true) : false, g: () => open("graph"), i: () => open("inspector"), c: () => open("code"), w: asking, n: whyNot,
      ",": () => picture.hidden ? wall.step(-1) : player.step(-1) || rooms.step(-1), ".": () => picture.hidden ? wall.step(1) : player.step(1) || rooms.step(1), "<": () => player.end(-1) || rooms.end(-1), ">": () => player.end(1) || rooms.end(1), " ": () => pressed ? false : (player.toggle(), true), b: () => quietly(command("pin")), p: () => quietly(command("pin")), u: () => quietly(command(shift ? "redo" : "undo")), l: copy, s: save, "/": find, "?": sheet,
      Escape: () => { if (house.querySelector(".sheet")) sheet(); else if (house.querySelector(".glossary")) words(); else if (list.stage) list.close(); else if (!whatIf.hidden) asking(); else if (rooms.drawing) endDrawing(); else if (rooms.end()) say("Ending…", true); else if (working) stop(); else if (linked.chosen) { spoken = ""; linked.choose("", []); } else if (wall.view || wall.hand.picked) { wall.hand.pick(null); wall.whole(); } else if (state.op >= 0) select(-1); },
      ArrowLeft: () => shift ? nudge(-1, 0) || (!picture.hidden ? false : wall.pan(-0.2)) : player.step(-1), ArrowRight: () => shift ? nudge(1, 0) || (!picture.hidden ? false : wall.pan(0.2)) : player.step(1),
      ArrowUp: () => shift && nudge(0, -1) || scroll(-1), ArrowDown: () => shift && nudge(0, 1) || scroll(1),
    };
    const act = /^[1-4]$/.test(key) ? () => go(NAMED[Number(key) - 1]) : acts[key];
    if (!act || act() === false) return;
    event.preventDefault();
    event.stopPropagation();
  });
  const scroll = by => { const at = house.getRootNode().activeElement?.closest?.(".pane"), inner = at?.querySelector(".scrolls,.code,.bd,.picture:not([hidden])"); if (inner) inner.scrollTop += by * 52; };
  // A list or a sheet closes when what is beside it is pressed.
  house.addEventListener("pointerdown", event => {
    if (!event.target.closest(".fly,.rail,.dn")) list.close();
    if (!whatIf.hidden && !event.target.closest(".pop,[aria-expanded]")) asking();
  });

  // Beginning, and every change that the kernel tells of
  function redraw() { graph.draw(); program.draw(); source.draw(); wall.draw(); }
  function repaint() { colours.fresh(); redraw(); }
  function everything() { top(); stages(); knobs.load(); verdict(); graphHead(); wall.load(); begin(); select(state.op); text(); kernel(); picture_(); }
  /** The operator that takes the most of the wall is selected at the beginning. */
  function begin() {
    if (began || !operators().length) return;
    began = true;
    const chosen = operators().findIndex(o => o[0] === (host.get("state")?.op ?? "")), call = wall.costliest();
    const ops = call >= 0 ? calls()[call]?.[2] ?? [] : [];
    if (chosen >= 0 || ops.length) select(chosen >= 0 ? chosen : headOf(ops));
  }
  const by = { bar: top, undo: top, stages, knobs: () => { knobs.load(); }, verdict, history: () => inspector.show(), absent: () => { stages(); picture_(); }, graph_operators: later, graph_kernels: later, calls: later, operators: later, walls: () => { wall.load(); light(); picture_(); inspector.load(); } };
  let pending = 0;
  function later() { cancelAnimationFrame(pending); pending = requestAnimationFrame(() => { everything(); inspector.load(); }); }
  for (const [part, act] of Object.entries(by)) host.on(part, act);
  host.on("revision", () => { text(); inspector.load(); kernel(true); if (!picture.hidden) picture_(); });
  host.onGone(() => { // where nothing was changed, nothing is lost
    if (host.get("undo")?.[0]) leaveBehind(host.get("bar").name, { ...JSON.parse(host.get("kept")), ...view() });
    top(); knobs.load(); verdict();
    say(gone.textContent);
  });
  /** The page's theme is the later choice; its style sheet may come some time after its name. */
  function follow() {
    own.theme = ""; storeLayout(own); root.classList.remove("dark", "light");
    for (const ms of [0, 100, 400, 1200]) setTimeout(() => { if (house.isConnected) repaint(); }, ms);
  }
  const sized = new ResizeObserver(() => { drawers(); fit(); });
  sized.observe(house);
  cleanups = [() => rooms.stop(), watchTheme(follow), () => sized.disconnect(), () => player.stop(), () => graph.close(), () => wall.close(), () => rooms.close(), () => host.close()];

  var tellTraits = null;
  thread([]);
  drawers();
  everything();
  inspector.show();
  tellTraits = shareTraits(host, {
    selected: () => state.op < 0 ? "" : operators()[state.op][0], select: name => select(operators().findIndex(o => o[0] === name)), view: () => onShow().name, show: go, say, measure: () => { wanted = true; measureWanted(); },
  });
  tellTraits();
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
      if (runs() && !host.get("verdict")?.n) remeasure();
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
  const driver = { get drawing() { return rooms.drawing; }, state, select, go, stage, absent, thumbs: NAMED, player, open,  selected: ctx.selected, linkTo, calls, turn, wall, graph, program, source, command, close: () => cleanups.forEach(f => f()) };
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
