// A room's picture with what belongs to it: the choice of device and tile, the stepper, the form to try a tile; or its table.
import { h, put, clamp, scrolls, tabs } from "./dom.js";
import { chartView } from "./chart.js";
import { stepperBar } from "./stepper.js";
import { tuningView } from "./tuning.js";
import { weldView } from "./weld.js";
import { sidesView } from "./sides.js";
import { matchesView } from "./matches.js";
import { switchesView } from "./switches.js";
import { settingsView } from "./settings.js";
import { bytes, csv, kept, painted, saving, standalone } from "./keep.js";

/** Pictures shown in `picture`. `ctx`: host, pictures (as widgets/model/picture.py tells them), `bar` for their controls and `rest` for those that have no room there, `player` and `see` for their steps and sentences where the page has places for them, code (the columns of a kernel's lines, where the page has them), op(), names() of the operators, say(text), take(kind, args), pick(ops). */
export function roomsView(ctx, picture) {
  const views = {}, known = Object.fromEntries(ctx.pictures.map(p => [p.name, p])), all = known, drawn = h("div", { class: "drawn" }), bar = ctx.bar ?? h("div", { class: "rbar" });
  let asked = 0, steps = null, shown = null, scale = 1, played = null, drawnAt = [0, 0], finished = 0;
  scrolls(picture, () => `${known[shown?.room]?.title ?? "Picture"}, scrolls`);
  let running = null; // what a button began: its name, its job, and what the button says meanwhile
  const tuning = tuningView({ host: ctx.host, say: ctx.say, take: args => ctx.take("take", args), timed: () => {} });

  const weld = weldView({ host: ctx.host, device: () => viewOf(ctx.pictures.find(p => p.live === "levels").name).device, say: ctx.say, take: ctx.take, changed: async value => { if (await again()) picture.querySelector(`[data-value="${CSS.escape(value || "-")}"]`)?.focus({ preventScroll: true }); } });

  const stepping = { host: ctx.host, say: ctx.say, op: ctx.op, pick: ops => ctx.pick(ops) }, sides = sidesView(stepping), matches = matchesView(stepping), switches = switchesView({ host: ctx.host, say: ctx.say, turn: ctx.turn, toStep: at => { ctx.toStep?.(at); ctx.enter?.("changes"); } });
  const settings = settingsView({ host: ctx.host, say: ctx.say, turn: ctx.turn });

  const charted = { host: ctx.host, say: ctx.say, op: ctx.op, names: ctx.names, take: patch => choose(patch.more ? { more: { ...viewOf(shown.room).more, ...patch.more } } : patch), pick: names => ctx.pick(names.map(name => ctx.names().indexOf(name)).filter(op => op >= 0)) };
  const chart = chartView(charted);

  /** The device and tile of a room's family; another operator begins with the tile in use. */
  function viewOf(room) {
    const { family } = known[room], found = views[family] ??= { device: "", rank: -1, about: null, more: {} }, kernel = ctx.op();
    if (found.about !== kernel) { found.about = kernel; found.rank = -1; }
    return found;
  }
  /** What of the steps is on show: the one that the page is at, or what was chosen here. */
  function stepOf(more) {
    const step = ctx.step?.() ?? -1;
    return more.against === "A" || step < 0 ? more : { ...more, step };
  }
  const unfolded = new Map(); // of operators: the loops of their kernel's code that are opened
  /** Open a folded loop of the flow of code, or fold all. */
  async function unfold(loop) {
    if (!ctx.host.alive) { ctx.say("A saved page opens no loops."); return; }
    unfolded.set(ctx.op(), loop === "" ? [] : [...unfolded.get(ctx.op()) ?? [], loop]);
    await again();
    (drawn.querySelector(`[data-first="${loop}"]`) ?? drawn.querySelector(".block"))?.focus({ preventScroll: false });
    ctx.say(drawn.querySelector("svg.pic")?.getAttribute("aria-label") ?? "", true);
  }
  function question(room, table) {
    const view = viewOf(room), { family, timed } = known[room]; // a table is about all, but where what is chosen or timed is about one
    const above = known[room].live === "levels" ? weld.box.offsetHeight || 76 : known[room].live === "tile" ? (tuning.box.offsetHeight || 352) + 8 : 0, least = above > 200 ? 150 : 360; // what stands over the drawing
    const size = ctx.host.alive && ctx.player && !table ? { width: Math.max(340, picture.parentNode.clientWidth), height: Math.max(least, picture.parentNode.clientHeight - above) } : {};
    if (family === "steps") return { room, op: -1, ...stepOf(view.more), ...size };
    const mine = room === "flow" && !table && unfolded.get(ctx.op());
    if (mine?.length) return { room, op: ctx.op(), opened: mine.join(","), ...size };
    const extra = size;
    if (family) Object.assign(extra, { ...(view.device && { device: view.device }), ...(view.rank >= 0 && { rank: view.rank }), ...view.more });
    return { room, op: table && !(view.device || (family || timed) && ctx.host.alive) ? -1 : ctx.op(), ...extra };
  }
  let drawing = null; // the job that draws, where that takes long
  /** End what is being drawn: nobody waits for it. */
  function stop() {
    if (drawing) ctx.host.ask("cancel", { job: drawing.job, newer: true }).catch(() => {});
    drawing = null;
  }
  /** A picture, drawn beside: what takes long says how far it is. Null where it was ended. */
  async function ask(args) {
    if (!ctx.host.alive) return ctx.host.ask("picture", args);
    const { data } = await ctx.host.ask("begin_picture", args), mine = data.over ? null : { job: data.job };
    let now = data;
    if (mine) { stop(); drawing = mine; }
    while (!now.over) {
      ctx.progress?.(now);
      await new Promise(done => setTimeout(done, 100));
      if (drawing !== mine) return null;
      ({ data: now } = await ctx.host.ask("job", { job: mine.job }));
    }
    if (drawing === mine) drawing = null;
    if (now.error) throw now.error;
    return now;
  }

  /** Show the same picture anew, unless the page has gone on to another one. */
  const again = async () => ctx.current && ctx.current() !== shown.room ? false : show(shown.room, shown.table);
  /** Ask for a room and show it, as a table where that is wanted; false where another one was asked for meanwhile. */
  async function show(room, table) {
    const number = ++asked, view = viewOf(room), size = [picture.parentNode.clientWidth, picture.parentNode.clientHeight];
    let data;
    stop();
    try {
      const found = await ask(question(room, table));
      if (!found) return false;
      ({ data } = found);
    } catch (error) {
      if (number !== asked) return false;
      put(picture, view.device || view.rank >= 0 || Object.keys(view.more).length ? h("button", { class: "btn", type: "button", style: "margin:12px 12px 0", onclick: () => { view.device = ""; view.rank = -1; view.more = {}; show(room, table); } }, "Back to what is in use") : null, h("div", { class: "empty" }, error.sentence ?? String(error)));
      return true;
    }
    if (number !== asked) return false;
    const held = shown?.room === room && shown.op === ctx.op() && steps?.go ? steps.now : null; // drawn anew, it stays at its step
    if (shown?.room !== room) picture.scrollTop = 0;
    shown = { room, table, op: ctx.op() };
    drawnAt = size;
    picture.dataset.room = room;
    steps = null;
    controls(data.controls, ctx.op());
    if (table) put(drawn, tableOf(data.table)); else drawn.innerHTML = data.svg;
    const words = table ? [] : drawn.querySelectorAll("svg.pic text");
    if (words.length === 1 && !drawn.querySelector("svg.pic :is(rect,path,circle)")) put(drawn, h("p", { class: "words" }, ctx.see ? known[room].words : words[0].textContent)); // a sentence alone has lines; where it stands above, what will be here
    const over = !table && data.figure ? chart : null, focused = chart.box.contains(chart.box.getRootNode().activeElement) ? chart : null;
    if (!table) steps = stepperBar(drawn, undefined, n => ctx.player?.moved(n));
    if (held !== null && held !== steps?.now) steps?.go(held);
    played = table || steps ? null : playedBy(data.controls); // steps of its own come first
    const code = !table && known[room].live === "code" ? ctx.code : null, live = !table && ctx.host.alive, form = live ? { tile: tuning.box, levels: weld.box }[known[room].live] : null, both = !table && known[room].live === "sides";
    if (both) {
      const { against, step = data.controls.more[0][3] } = stepOf(view.more);
      await (against === "A" ? sides.load("versus", {}) : step >= 0 ? sides.load("program", { step }) : sides.load("imported", {}));
      if (number !== asked) return false;
      steps = sides;
    }
    const each = live && known[room].live === "matches" && await matches.load(stepOf(view.more).step ?? data.controls.more[0][3]) ? matches : null;
    if (number !== asked) return false;
    steps = each ?? steps;
    const board = live ? { switches, settings: ctx.turn ? settings : null }[known[room].live] ?? null : null;
    if (board) await board.load(room);
    if (number !== asked) return false;
    ctx.see?.show(data.see?.length ? data.see : [[[known[room].words, ""]]]); // together with the picture: while it was waited for, none stood there
    put(picture, data.controls?.devices && !ctx.bar ? bar : null, steps?.go && ctx.player ? null : steps?.bar, form, ...both ? [sides.box, over?.box] : board ? [over?.box, board.box] : [each?.box ?? code?.box, over?.box], table || data.svg && !both && !each && !board && !code ? drawn : null);
    if (focused?.box.isConnected) focused.box.focus({ preventScroll: true });
    board?.again?.();
    if (form === tuning.box) tuning.load(ctx.op());
    code?.load();
    if (form === weld.box) { weld.attach(drawn); await weld.load(); }
    picture.querySelectorAll("[data-rank]").forEach(choosing);
    ctx.drawn?.(); // what stands around it has its lines from here on
    over?.draw(data.figure, data.said, room);
    scaled();
    finished = number;
    remade();
    return true;
  }
  /** The control that a scrubber goes through: its name, its values and what they are called, and which is on show. */
  function playedBy(found) {
    if (!found?.play) return null;
    if (found.play === "rank") { // along the staircase, where that is told
      const first = found.first ?? 0, order = found.order ?? found.tiles.map((_, i) => i + first);
      return { name: "rank", values: order, texts: order.map(rank => found.tiles[rank - first]), at: order.indexOf(found.rank) };
    }
    const [name, , values, at, texts = values] = found.more.find(([name]) => name === found.play) ?? [];
    return name ? { name, values, texts, at } : null;
  }
  /** What goes through the steps of the picture on show, null where it has none. */
  function player() {
    const frame = () => drawn.querySelector("svg.pic");
    if (played?.values.length > 1) {
      const mine = { name: `${shown.room} ${played.name}`, last: played.values.length - 1, at: Math.max(0, played.at), wait: 1400, frame, text: at => String(played?.texts[at] ?? "") || "as chosen", go: async at => { mine.at = at; const value = played.values[at]; await choose(played.name === "rank" ? { rank: value } : { more: { ...viewOf(shown.room).more, [played.name]: value } }); } };
      return mine;
    }
    if (!steps?.go) return null;
    const mine = { name: `${shown.room} steps`, last: steps.last, at: steps.now, wait: Math.max(60, 900 / Math.max(1, steps.last / 12)), frame, text: at => steps?.text(at) ?? "", said: () => steps?.words() ?? "", go: async at => { mine.at = at; steps?.go(at); } };
    return mine;
  }
  /** A mark that stands for a tile, or for the `value` of a control of this name: clicked, or focused and entered, it is taken; arrows go to its neighbours. */
  function choosing(node) {
    const { more, value, rank } = node.dataset, take = () => choose(more ? { more: { ...viewOf(shown.room).more, [more]: value } } : { rank: Number(rank) }, node.tabIndex >= 0);
    node.addEventListener("click", take);
    node.addEventListener("keydown", event => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key !== "Enter" && event.key !== " " && !by) return;
      event.preventDefault(); event.stopPropagation();
      if (by) picture.querySelector(`[data-rank="${Number(node.dataset.rank) + by}"]`)?.focus(); else take();
    });
  }
  async function choose(patch, focus = false) {
    const held = shown.room;
    Object.assign(viewOf(held), patch);
    const done = await again();
    if (done && focus) picture.querySelector(`[data-rank="${patch.rank}"][tabindex]`)?.focus({ preventScroll: true });
  }
  function controls(found, op) {
    if (ctx.rest) put(ctx.rest); // of the picture before
    if (!found?.devices) { put(bar); return; }
    const { devices, device, tiles, rank, first = 0, note, more = [], action = [], actions = [] } = found, has = ctx.host.has ?? (() => true), live = ctx.host.alive;
    const move = (name, value) => name === "step" && ctx.toStep ? ctx.toStep(value) : choose({ more: { ...viewOf(shown.room).more, [name]: value } });
    const known = devices.filter(d => d === device || live || has("picture", { room: shown.room, op, device: d }));
    const named = (t, i) => i + first < 0 ? t : `${i + first + 1}: ${t}`;
    const room = shown.room, beside = ctx.enter && all[room].every ? ctx.pictures.filter(p => p.every === all[room].every) : [];
    put(bar, beside.length > 1 && !ctx.bar ? tabs(beside.map(p => [p.name, p.title, p.words]), room, ctx.enter, all[room].every) : null, known.length < (ctx.bar ? 2 : 1) ? null : h("label", {}, "device", h("select", { "aria-label": "Device", disabled: known.length < 2, onchange: e => choose({ device: e.target.value, rank: -1 }) }, known.map(d => h("option", { selected: d === device }, d)))),
      tiles.length ? h("label", {}, "tile", h("select", { "aria-label": "Tile", title: tiles[rank - first] ? named(tiles[rank - first], rank - first) : null, disabled: !live, onchange: e => choose({ rank: e.target.selectedIndex + first }) }, tiles.map((t, i) => h("option", { selected: i + first === rank }, named(t, i))))) : null,
      more.map(([name, title, options, at, texts = options]) => h("label", {}, h("span", {}, title), h("select", { "aria-label": title, title: String(texts[at]) || null, disabled: !live && name !== "step", onchange: e => move(name, options[e.target.selectedIndex]) }, options.map((o, i) => h("option", { selected: i === at }, String(texts[i]) || "as chosen"))))),
      [action, ...actions].filter(a => a.length && live).map(a => h("button", { class: "btn", type: "button", "data-action": a[0], title: a[3] ?? null, onclick: () => act(a) }, running?.name === a[0] ? running.said : a[1])),
      note ? h("span", { class: "note" }, note) : null);
  }
  /** End what a button began; false where nothing goes on. */
  function end() {
    if (!running?.job) return false;
    ctx.host.ask("cancel", { job: running.job }).catch(() => {});
    return true;
  }
  const pressed = name => [bar, ctx.rest].map(place => place?.querySelector(`[data-action="${name}"]`)).find(Boolean);
  /** What a button does takes a while: it says how far it is, and a second click ends it. The picture may be drawn anew meanwhile. */
  async function act([name, title, args = {}]) {
    if (running) { end(); return; }
    running = { name, job: 0, said: title };
    try {
      const { data } = await ctx.host.ask(`begin_${name}`, args);
      running.job = data.job;
      for (;;) {
        const { data: now } = await ctx.host.ask("job", { job: data.job });
        if (now.error) throw now.error;
        if (now.over) break;
        running.said = now.of > 1 ? `Cancel: ${now.n} of ${now.of}` : now.what ? `Cancel ${now.what}` : "Cancel";
        const button = pressed(name);
        if (button) button.textContent = running.said;
        await new Promise(done => setTimeout(done, 120));
      }
      await ctx.take(name, args);
    } catch (error) { ctx.say(error.sentence ?? String(error)); } finally { running = null; }
    const button = pressed(name);
    if (button) button.textContent = title;
    await again();
    if (chart.box.isConnected && picture.querySelector(".settings")) chart.box.scrollIntoView({ block: "nearest" }); // it stands above all settings
  }
  function tableOf({ columns, rows: cells, ops, numeric, caption }) {
    return h("table", { class: "tbl", "aria-label": caption }, h("tr", {}, columns.map((c, i) => h("th", { class: numeric[i] ? "r" : null }, c))),
      cells.slice(0, 2000).map((row, r) => h("tr", { class: ops[r]?.includes(ctx.op()) ? "on" : ops[r]?.length ? "pick" : null, onclick: () => ops[r]?.length && ctx.pick(ops[r]) }, row.map((cell, i) => h("td", { class: numeric[i] ? "r" : null }, String(cell))))),
      cells.length > 2000 ? h("tr", {}, h("td", { colspan: columns.length }, `… and ${cells.length - 2000} more`)) : null);
  }
  /** The picture larger or smaller; it then scrolls. */
  function zoom(factor) {
    if (!shown || shown.table) return false;
    scale = factor ? clamp(scale * factor, 1, 4) : 1;
    scaled();
    return true;
  }
  /** A drawing that was made for these pixels stands as it is; any other has the width of its place, or is smaller where it would be cut off below, as long as its words stay as large as they were drawn. */
  function scaled() {
    picture.classList.toggle("zoomed", scale > 1);
    const wide = picture.clientWidth, inside = getComputedStyle(picture).position === "absolute"; // a picture alone is as high as what is in it
    if (chart.box.isConnected) {
      const below = picture.contains(drawn) ? drawn.querySelector("svg.pic") : null, rest = [...picture.children].reduce((sum, node) => sum + (node === chart.box || node === drawn && below ? 0 : node.offsetHeight), 0);
      const needed = below ? drawn.offsetHeight - below.clientHeight + below.viewBox.baseVal.height * Math.min(13 / 11, wide / below.viewBox.baseVal.width) : 0; // of a drawing below it, whose type is as large as the page's
      chart.resize(Math.floor(wide * scale), Math.floor((inside ? Math.max(240, picture.clientHeight - rest - needed) : 400) * scale));
    }
    picture.querySelectorAll(".drawn svg.pic").forEach(svg => {
      const { width, height } = svg.viewBox.baseVal, rest = picture.scrollHeight - svg.clientHeight, made = svg.classList.contains("sized") && inside;
      const least = made ? Math.min(0.72, wide / width) : Math.min(inside ? 13 / 11 : 1, wide / width), fits = clamp((picture.clientHeight - rest) / height, least, made ? 1.25 : wide / width);
      if (inside) { svg.style.maxWidth = "none"; svg.style.minWidth = "0"; } // an overview does not scroll; a picture alone does
      svg.style.width = width && wide ? `${Math.floor(width * (made ? Math.min(fits, Math.max(wide / width, 0.72)) : fits) * scale)}px` : "";
    });
  }
  let resized = 0;
  /** A drawing that was made for other pixels is made anew. */
  function remade() {
    clearTimeout(resized);
    const away = [picture.parentNode.clientWidth, picture.parentNode.clientHeight].some((side, n) => Math.abs(side - drawnAt[n]) > 8);
    if (away && ctx.host.alive && ctx.player && drawn.querySelector("svg.sized")) resized = setTimeout(() => { if (finished === asked && picture.isConnected && !picture.hidden) again(); }, 120);
  }
  new ResizeObserver(() => { if (shown && !shown.table) { scaled(); remade(); } }).observe(picture);
  /** A picture as a file of its name: of a `wall`, which is painted, its points, or the drawing of it; a chart over a drawing has buttons of its own. */
  async function save(format, room, table, wall) {
    const name = `ironworks-${room}.${format}`, svg = drawn.querySelector("svg.pic");
    try {
      if (format === "csv") kept(csv((await ctx.host.ask("picture", question(room, true))).data.table), name, "text/csv");
      else if (wall && format === "png") kept(await bytes(wall.painted(2)), name);
      else if (wall) { const { data } = await ctx.host.ask("picture", question(room, false)), box = h("div", { hidden: true }); box.innerHTML = data.svg; picture.append(box); kept(standalone(box.firstChild), name, "image/svg+xml"); box.remove(); }
      else if (svg && drawn.isConnected) kept(format === "svg" ? standalone(svg) : await painted(svg), name, "image/svg+xml");
      else if (!await chart.save(format)) { ctx.say("Nothing is drawn here."); return; }
      ctx.say(`Saved ${name}.`);
    } catch (error) { ctx.say(error.sentence ?? String(error)); }
  }
  return {
    unfold,
    show, stop, end, tableOf, zoom,
    /** Whether a picture is being drawn that takes long. */
    get drawing() { return drawing !== null; },
    /** How what is shown can be saved: a table as CSV, a picture in any way. */
    saving: (room, table, wall = null) => saving([...table ? ["csv"] : ["png", "svg", "csv"], ...(!table && ctx.player?.plays ? ["webm", "zip"] : [])], format => ["webm", "zip"].includes(format) ? ctx.player.record(format) : save(format, room, table, wall)),
    savesAs: save, player,
    /** The selection has changed. */
    light: () => { chart.light(); for (const one of [sides, matches]) if (one.box.isConnected) one.light(); },
    within: root => chart.within(root),
    close: () => chart.close(),
    /** A step on or back, where the picture has steps. */
    step: by => steps ? (steps.move(by), true) : false,
    end: which => steps ? (steps.end(which), true) : false,
  };
}
