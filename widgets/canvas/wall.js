// The brick wall: one canvas over slices of the walls. Filled is measured or was recorded, pale and dashed is predicted. A track is one wall: the
// one on show, the prediction over what ran, or the baseline over now, all on one axis.
import { h, clamp, duration } from "./dom.js";
import { decodeWall, decodeSlice, blockAt, firstAfter, gapAt, wanted, parts } from "./wall_data.js";
import { LEFT, NAMES, AXIS, TRACK, wallPainter } from "./wall_draw.js";
import { wallHand } from "./wall_hand.js";

const SHORTEST = 0.05, TALLEST = 176, FEW = 4, MOST_STEPS = 600; // µs of a view; pixels of a lane; cores that have room for two tracks; steps of a film
const OWN = ["launch", "library", "preempted"]; // causes of idle time in which no core waits for another
const ORDER = ["wall_planned", "wall_measured", "wall_recorded", "wall_more", "wall_base"];

/** The wall's canvas. `ctx`: host, state, colours, litCalls(), pickCall(call), move(kind, args), say(text). */
export function wallView(ctx) {
  const canvas = h("canvas", { tabindex: "-1", role: "img", "aria-label": "Brick wall" }), tip = h("div", { class: "tip", hidden: true }), note = h("div", { class: "bounce", role: "alert", hidden: true });
  const box = h("div", { class: "fill" }, canvas, tip, note);
  const walls = {}, stats = { draws: [], blocks: 0, bytes: [], slices: 0 }; // for those who watch the cost
  let view = null, width = 0, height = 0, asked = 0, drag = null, revision = 0, until = null, keys = [], compare = false;
  let planned = null, measured = null, recorded = null, more = null, base = null, calls = [], dumb = false;
  const now = { get keys() { return keys; }, get until() { return until?.time ?? Infinity; } }, paint = wallPainter(ctx, stats, now);
  const hand = wallHand(ctx, () => planned, () => ask());

  /** What ran: what was measured here, else what was recorded. */
  const ran = () => measured ?? recorded;
  /** Which walls are on show: those that were chosen, where they are there; else what ran, under the prediction where there is room for both. */
  function kind() {
    const known = { planned, measured, recorded, both: planned && ran(), more }, { wall } = ctx.state;
    if (wall && known[wall]) return wall;
    return !ran() ? "planned" : planned.lanes <= FEW ? "both" : measured ? "measured" : "recorded";
  }
  /** The wall that the sentences and the legend are about. */
  const single = () => ({ planned, measured, recorded, both: ran(), more })[kind()] ?? planned;
  /** The walls on show, from top to bottom. */
  const shown = () => (compare && base ? [base, single()] : kind() === "both" ? [planned, ran()] : [single()]).filter(Boolean);
  const pale = wall => wall === planned || wall === more || wall === base && base.kind === "planned";
  const total = () => Math.max(...shown().map(wall => wall.total_us), 0) || 1;

  function load() {
    const heads = ctx.host.get("walls") ?? {};
    calls = ctx.host.get("calls") ?? [];
    revision++; dumb = false; until = null;
    for (const name of ORDER) {
      const bytes = ctx.host.bytes(name), head = heads[name];
      walls[name] = head && bytes?.byteLength ? decodeWall(head, bytes) : null;
    }
    [planned, measured, recorded, more, base] = ORDER.map(name => walls[name]);
    if (!base) compare = false;
    if (view && view[1] > total() * 1.001) view = null;
    if (planned) hand.renew();
    describe();
    ask();
  }

  const unit = () => ctx.host.get("bar")?.unit ?? "core";
  const called = wall => pale(wall) ? "predicted" : wall.said;
  function describe() {
    if (!planned) { canvas.setAttribute("aria-label", "Brick wall: nothing is scheduled"); return; }
    const said = [`Brick wall of ${planned.units} ${unit()}s: predicted ${duration(planned.total_us)}, ${planned.n} tasks`];
    for (const wall of [measured, recorded].filter(Boolean)) said.push(`${wall.said} ${duration(wall.total_us)}, ${wall.compared ?? ""}, ${paint.shares(wall).replaceAll("\n", ", ")}`);
    canvas.setAttribute("aria-label", `${said.join("; ")}. Press T for the table; comma and full stop go from task to task, Shift and an arrow move one.`);
  }

  const ask = () => { asked ||= requestAnimationFrame(() => draw()); };

  /** The tracks of the picture: of each its wall, where its lanes begin, and how high they are. */
  function layout() {
    const all = shown(), wide = width - LEFT - (all.length > 1 && compare ? 52 : 8), two = all.length > 1, top = two ? TRACK : NAMES;
    const lanes = all.reduce((sum, wall) => sum + wall.lanes, 0), room = height - AXIS - top * all.length - 4;
    let pitch = clamp(room / lanes, 0.25, TALLEST);
    if (pitch >= 12) pitch = Math.floor(pitch / 4) * 4;
    const gap = pitch > 24 ? 4 : pitch > 12 ? 2 : pitch > 5 ? 1 : 0, tracks = [];
    let y = 0;
    for (const wall of all) { y += top; tracks.push({ wall, y, pitch, high: pitch - gap, pale: pale(wall), end: y + wall.lanes * pitch - gap }); y += wall.lanes * pitch; }
    return { wide, tracks, two, pitch, bottom: tracks.at(-1)?.end ?? 0 };
  }
  const trackOf = (at, wall) => at.tracks.find(track => track.wall === wall);

  /** Draw it; `scale` for a picture of so many points a pixel on another canvas. */
  function draw(on = canvas, scale = 0) {
    if (on === canvas) asked = 0;
    const began = performance.now(); stats.blocks = 0;
    const ratio = scale || window.devicePixelRatio || 1;
    width = box.clientWidth; height = box.clientHeight;
    if (!width || !height) return;
    if (on.width !== Math.round(width * ratio) || on.height !== Math.round(height * ratio)) { on.width = Math.round(width * ratio); on.height = Math.round(height * ratio); }
    const pen = on.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = ctx.colours.colour("pane");
    pen.fillRect(0, 0, width, height);
    pen.textBaseline = "alphabetic";
    note.hidden = !hand.broken;
    if (hand.broken) note.textContent = hand.broken.said;
    if (!planned || !planned.n) { paint.text(pen, planned ? `Nothing is scheduled: no kernel runs on a ${unit()}.` : "Nothing is scheduled yet: compile through Rammer.", 0, 24, "ink2"); return; }
    canvas.style.touchAction = hand.picked ? "none" : "pan-y"; // a finger scrolls the page, unless it holds a task
    const [from, to] = view ?? [0, total()], at = layout(), span = { from, to, scale: at.wide / (to - from) }, lit = ctx.litCalls();
    for (const track of at.tracks) {
      const mine = track.wall === base ? litOf(base, lit) : lit;
      paint.head(pen, track, at, span, mine, at.two ? words(track) : "");
      lanes(pen, track, at, span, mine);
    }
    if (compare && base) paint.beside(pen, at, span);
    paint.axis(pen, at.bottom + 4, at.wide, span, at.two ? "" : duration(at.tracks[0].wall.total_us));
    if (until && until.time < to) paint.head_line(pen, LEFT + (until.time - from) * span.scale, at.tracks[0].y - 6, at.bottom + 2);
    stats.draws.push(performance.now() - began);
    fetch(at.wide);
  }
  const words = ({ wall }) => compare ? `${wall === base ? "A · baseline" : "B · now"}, ${called(wall)}${pale(wall) ? "" : " in one run"}: ${duration(wall.total_us)}` : `${called(wall)}: ${duration(wall.total_us)}${wall.compared ? `, ${wall.compared}` : ""}`;
  /** The calls of another wall that are called as those that are lit. */
  const litOf = (wall, lit) => { const names = new Set([...lit].map(call => calls[call]?.[0])); return new Set((wall.calls ?? []).map(([name], i) => names.has(name) ? i : -1).filter(i => i >= 0)); };

  function lanes(pen, track, at, span, lit) {
    const { wall, y, pitch, high } = track, every = Math.max(1, Math.ceil(18 / pitch)), rows = Array.from({ length: wall.lanes }, (_, u) => [u, y + u * pitch]), end = Math.max(0, Math.min(at.wide, (wall.total_us - span.from) * span.scale));
    for (const [u, top] of rows) {
      pen.fillStyle = ctx.colours.colour("app");
      pen.fillRect(LEFT, top, end, Math.max(high, 0.5));
      if (u % every === 0) paint.text(pen, short(wall, u), 0, top + clamp(high / 2 + 5, 9, 92), "ink2");
    }
    pen.save();
    pen.beginPath(); pen.rect(LEFT, y - 6, at.wide, rows.length * pitch + 8); pen.clip();
    if (until) { pen.beginPath(); pen.rect(LEFT, y - 6, Math.max(0, (until.time - span.from) * span.scale), rows.length * pitch + 8); pen.clip(); }
    paint.gaps(pen, wall, rows, high, span);
    paint.filled(pen, wall, rows, high, span, lit, track.pale);
    paint.cuts(pen, wall, y, track.end, at.wide, span);
    if (!until) stats.arrows = paint.waits(pen, wall, u => ({ y: y + Math.floor(u / wall.group) * pitch, high }), span, lit);
    if (wall === planned) held(pen, track, span);
    pen.restore();
  }
  const unitsOf = (wall, u) => wall.group > 1 ? `${unit()}s ${u * wall.group} to ${Math.min(wall.units, (u + 1) * wall.group) - 1}` : u < wall.units ? `${unit()} ${u}` : "host";
  const short = (wall, u) => wall.group > 1 ? `${u * wall.group}–${Math.min(wall.units, (u + 1) * wall.group) - 1}` : unitsOf(wall, u);

  /** The picked task, and where a dragged one would go. */
  function held(pen, { y, pitch, high }, span) {
    const { picked, ghost } = hand, top = u => y + u * pitch, x = t => LEFT + (t - span.from) * span.scale;
    pen.strokeStyle = ctx.colours.colour("ink"); pen.lineWidth = 2;
    if (picked) pen.strokeRect(x(picked.start), top(picked.unit) + 1, Math.max(2, (picked.end - picked.start) * span.scale), high - 2);
    if (hand.broken?.arrow) paint.broken(pen, hand.broken.arrow, u => ({ y: top(u), high }), span);
    if (!ghost) return;
    pen.globalAlpha = 0.85; pen.fillStyle = ctx.colours.colour("soft");
    pen.fillRect(x(ghost.start), top(ghost.unit) + 1, Math.max(2, (ghost.end - ghost.start) * span.scale), high - 2);
    pen.globalAlpha = 1; pen.setLineDash([4, 3]);
    pen.strokeRect(x(ghost.start), top(ghost.unit) + 1, Math.max(2, (ghost.end - ghost.start) * span.scale), high - 2);
    pen.setLineDash([]); pen.fillStyle = ctx.colours.colour("ink");
    pen.fillRect(x(ghost.x) - 1.5, top(ghost.unit) - 2, 3, pitch + 4);
  }

  /** Slices for what is looked at, one question a wall at a time; the picture goes on with what it has. */
  function fetch(wide) {
    if (dumb || !ctx.host.alive) return;
    const [from, to] = view ?? [0, total()], number = revision, lit = [...ctx.litCalls()].slice(0, 200);
    for (const name of ORDER.slice(0, 3)) {
      const wall = walls[name];
      if (!wall || wall.waiting || !shown().includes(wall)) continue;
      const found = wanted(wall, from, Math.min(to, wall.total_us), wide * Math.min(1, (Math.min(to, wall.total_us) - from) / (to - from)), lit);
      if (!found) continue;
      wall.waiting = true;
      ctx.host.ask("wall", { wall: name, start_us: found.start, end_us: found.end, pixels: found.pixels, lit: found.lit }).then(({ data, buffers }) => {
        if (number !== revision) return;
        stats.slices++; stats.bytes.push(buffers[0].byteLength);
        wall.near = { ...decodeSlice(data, buffers[0]), asked: found };
        wall.waiting = false;
        ask();
      }, () => { wall.waiting = false; dumb = true; });
    }
  }

  // Pointing
  const inner = () => width - LEFT - (compare && base ? 52 : 8);
  const time = x => { const [from, to] = view ?? [0, total()]; return from + (x - LEFT) / inner() * (to - from); };
  /** The track at a height, and its lane there, -1 beside them. */
  function laneHit(y) {
    for (const track of layout().tracks) if (y >= track.y && y < track.y + track.wall.lanes * track.pitch) return [track.wall, Math.floor((y - track.y) / track.pitch)];
    return [null, -1];
  }
  const plannedLane = y => { const [wall, u] = planned ? laneHit(y) : [null, -1]; return wall === planned ? u : -1; };
  const sliceAt = (wall, t) => (parts(wall, t, t + 1e-9)[0] ?? [wall.base])[0];
  function hit(x, y) {
    if (!planned || x < LEFT || x > width) return null;
    const [wall, u] = laneHit(y), [from, to] = view ?? [0, total()];
    return u < 0 ? null : found(wall, u, time(x), (to - from) / inner() / 2);
  }
  function found(wall, u, t, slack = 0) {
    if (u >= wall.lanes) return null;
    const slice = sliceAt(wall, t), i = blockAt(slice, u, t, slack);
    return i >= 0 ? { wall, u, slice, block: i } : { wall, u, slice, block: -1, gap: gapAt(slice, u, t) };
  }
  /** Whom a lane waits for in a gap: of the tasks that end in it on others the last. */
  function awaited(wall, u, slice, gap) {
    const from = slice.gapStart[gap], to = slice.gapEnd[gap] * (1 + 1e-6);
    let last = -1, lane = -1;
    for (let other = 0; other < slice.lanes; other++) {
      const i = firstAfter(slice.end, slice.rows[other], slice.rows[other + 1], to) - 1;
      if (other !== u && i >= slice.rows[other] && slice.end[i] > from && (last < 0 || slice.end[i] > slice.end[last])) { last = i; lane = other; }
    }
    if (last < 0) return "";
    const [name = "?"] = (wall.calls ?? calls)[slice.call[last]] ?? [];
    return `\nwaits for ${name} on ${unitsOf(wall, lane)}, which ends at ${slice.end[last].toFixed(1)} µs`;
  }
  function said({ wall, u, slice, block, gap }) {
    const where = unitsOf(wall, u);
    const cause = block < 0 && gap >= 0 ? ctx.host.get("causes")[slice.cause[gap]] : null;
    if (block < 0) return cause ? `${where} idle, ${cause[1]}: ${duration(slice.gapEnd[gap] - slice.gapStart[gap])}${OWN.includes(cause[0]) ? "" : awaited(wall, u, slice, gap)}\n${cause[2]}` : "";
    const j = slice.alone[block], [name = "?", family = "?", , others = ""] = (wall.calls ?? calls)[slice.call[block]] ?? [], start = slice.start[block], end = slice.end[block];
    const span = `${where}, ${called(wall)}: ${start.toFixed(1)} to ${end.toFixed(1)} µs, ${duration(end - start)}`;
    if (j < 0) return `${name} (${family})${slice.bricks[block] ? `, ${slice.bricks[block].toLocaleString("en")} tasks` : `, most of these ${unit()}s`}\n${span}\n${others}`;
    const { first, last, twin } = slice.single, tasks = first[j] === last[j] ? `task ${first[j]}` : `tasks ${first[j]} to ${last[j]}`, error = (wall !== planned ? twin[j] / (end - start) : (end - start) / twin[j]) - 1;
    const other = Number.isFinite(error) && wall !== base ? `, ${wall !== planned ? "predicted" : ran().kind} ${duration(twin[j])} (predicted ${Math.abs(error * 100).toFixed(0)} % too ${error < 0 ? "short" : "long"})` : "";
    return `${name} (${family}), ${tasks}\n${span}${other}\n${others}${wall === planned && ctx.host.alive && !hand.picked ? "\nclick to pick, then drag to move" : ""}`;
  }
  function look(from, to) {
    const span = Math.min(to - from, total()), start = clamp(from, 0, total() - span);
    view = span >= total() * 0.999 ? null : [start, start + Math.max(span, SHORTEST)];
    ask();
  }
  const zoom = (factor, x = LEFT + inner() / 2) => {
    const [from, to] = view ?? [0, total()], t = time(x);
    look(t - (t - from) * factor, t + (to - t) * factor);
  };
  const pan = share => { const [from, to] = view ?? [0, total()], by = (to - from) * share; look(from + by, to + by); };

  canvas.addEventListener("pointerdown", e => {
    const u = plannedLane(e.offsetY), t = time(e.offsetX);
    drag = { x: e.offsetX, view: view ?? [0, total()], moved: false, held: u >= 0 && hand.holds(u, t) ? t - hand.picked.start : null };
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", e => {
    if (drag) {
      drag.moved ||= Math.abs(e.offsetX - drag.x) > 3 || drag.held !== null && e.movementY;
      const [from, to] = drag.view, by = (drag.x - e.offsetX) / inner() * (to - from);
      if (!drag.moved) return;
      tip.hidden = true;
      if (drag.held === null) look(from + by, to + by);
      else { const u = plannedLane(e.offsetY); if (u >= 0) hand.drag(u, time(e.offsetX) - drag.held); else hand.cancel(); }
      return;
    }
    const over = hit(e.offsetX, e.offsetY), text = over ? said(over) : "";
    tip.hidden = !text;
    canvas.style.cursor = over?.wall === planned && hand.holds(over.u, time(e.offsetX)) ? "grab" : over?.block >= 0 ? "pointer" : "default";
    if (!text) return;
    tip.textContent = text;
    tip.style.left = `${Math.max(4, Math.min(e.offsetX + 14, width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${e.offsetY + 96 > height ? e.offsetY - 8 - tip.offsetHeight : e.offsetY + 14}px`;
  });
  canvas.addEventListener("pointerup", e => {
    const one = drag && !drag.moved ? hit(e.offsetX, e.offsetY) : null, moved = drag?.moved && drag.held !== null;
    drag = null;
    if (moved) { hand.drop(); return; }
    if (one?.block >= 0) { grab(one); if (one.wall === base) pickName(one); else ctx.pickCall(one.slice.call[one.block]); } else if (one) hand.pick(null);
  });
  canvas.addEventListener("pointercancel", () => { drag = null; hand.cancel(); });
  const pickName = ({ slice, block }) => { const at = calls.findIndex(c => c[0] === base.calls?.[slice.call[block]]?.[0]); if (at >= 0) ctx.pickCall(at); };
  /** A task that stands alone is picked; one that ran as the planned one that it is. */
  function grab({ wall, u, slice, block }) {
    const j = slice.alone[block];
    if (j < 0 || wall === more || wall === base || wall.group > 1 || !shown().includes(planned)) return;
    const call = slice.call[block], first = slice.single.first[j];
    hand.pick(null);
    for (const s of [sliceAt(planned, slice.start[block]), planned.base])
      for (let i = s.rows[u]; i < s.rows[u + 1]; i++)
        if (s.call[i] === call && s.alone[i] >= 0 && s.single.first[s.alone[i]] === first) { hand.pick({ call, first, last: s.single.last[s.alone[i]], launch: s.single.launch[s.alone[i]], unit: u, start: s.start[i], end: s.end[i] }); return; }
  }
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("wheel", e => {
    const along = Math.abs(e.deltaX) > Math.abs(e.deltaY);
    if (e.ctrlKey || e.metaKey) zoom(Math.exp(e.deltaY * 0.0015), e.offsetX);
    else if (view && along) pan(e.deltaX / width);
    else { if (!along) ctx.say("Ctrl and the wheel zoom the wall, as Z and X do.", true); return; } // the page scrolls on
    e.preventDefault();
  }, { passive: false });
  const observer = new ResizeObserver(ask);
  observer.observe(box);

  /** The starts of the tasks of the wall on show, in order; of too many, times that stand apart. */
  function starts() {
    const wall = single();
    if (!wall) return [];
    if (wall.base.exact && wall.group === 1 && wall.n <= 20000) return Float64Array.from(wall.base.start).sort();
    return Float64Array.from({ length: MOST_STEPS }, (_, i) => wall.total_us * i / MOST_STEPS);
  }
  const sum = (wall, lit, what) => [...lit].reduce((all, call) => all + (wall.spans.get(call)?.[what] ?? 0), 0);

  return {
    box, canvas, load, draw: ask, zoom, pan, stats, hand,
    whole() { view = null; hand.pick(null); ask(); },
    get view() { return view; },
    set view(next) { view = next; ask(); },
    /** How far the lanes are apart, in pixels, for those who drive the page. */
    get pitch() { return layout().pitch; },
    get compare() { return compare; },
    set compare(on) { compare = Boolean(on && base); view = null; ask(); },
    get has_base() { return Boolean(base); },
    get measured() { return Boolean(measured); },
    /** What the wall that ran is called, "" where there is none. */
    get said() { return ran()?.said ?? ""; },
    /** The walls that may be seen: [value, what it is called]. */
    get kinds() { return [["planned", planned], ["measured", measured], ["recorded", recorded], ["both", planned && ran()], ["more", more]].filter(([, wall]) => wall).map(([name]) => [name, { planned: "predicted", more: `${more?.units} ${unit()}s, predicted` }[name] ?? name]); },
    get kind() { return kind(); },
    /** Whether the wall of the sentences was measured, recorded or is predicted. */
    shows: () => { const wall = single(); return wall && pale(wall) ? "predicted" : wall === recorded ? "recorded" : "measured"; },
    /** What the sentences tell: the shares of time, the rows, and the share of the calls that are lit of all that is busy. */
    facts(lit) {
      const wall = single();
      if (!wall?.n) return {};
      const busy = (wall.shares.busy ?? 0) * wall.total_us * wall.units;
      return { shares: wall.shares, units: wall.units, unit: unit(), call: busy ? sum(wall, lit, "busy") / busy : 0 };
    },
    /** The call whose tasks take most time in all, -1 where there is none. */
    costliest() { const wall = ran() ?? planned; return wall?.n ? [...wall.spans].reduce((best, one) => one[1].busy > best[1].busy ? one : best, [-1, { busy: 0 }])[0] : -1; },
    /** Light what has these words: "core", "busy", "idle" and its cause, "op", "fam:" and a family; [] lights all. */
    light(next) { keys = next; ask(); },
    get lit() { return keys; },
    /** What goes through the tasks in the order of their starts. */
    player() {
      if (!single()?.n) return null;
      const all = starts(), last = all.length, exact = single().base.exact && single().group === 1 && single().n <= 20000;
      const mine = { name: "wall", last, at: last, wait: Math.max(24, 6000 / last), frame: () => painted(1.5), text: at => exact ? `task ${at} of ${last}` : duration(at >= last ? single().total_us : all[at]), go: async at => { mine.at = at; until = at >= last ? null : { time: all[at] }; ask(); await new Promise(requestAnimationFrame); } };
      until = null;
      return mine;
    },
    painted,
    /** The next task of the selection, in view; its words. */
    step(by) {
      const brick = planned && planned.group === 1 ? hand.next(ctx.litCalls(), by) : null;
      if (!brick) return false;
      if (!shown().includes(planned)) ctx.state.wall = ran() ? "both" : "planned";
      const [from, to] = view ?? [0, total()], span = to - from;
      if (brick.start < from || brick.end > to) look(brick.start - span / 3, brick.start + span * 2 / 3);
      const [name = "?"] = calls[brick.call] ?? [];
      ctx.say(`${name}, tasks ${brick.first} to ${brick.last}, on ${unit()} ${brick.unit}, predicted ${brick.start.toFixed(1)} to ${brick.end.toFixed(1)} µs. Shift and an arrow move it.`);
      return true;
    },
    /** Tasks of the selection: predicted, of a run. */
    counts(lit) { return [planned, ran()].map(wall => wall ? sum(wall, lit, "bricks") : 0); },
    bricks: () => planned?.n ?? 0,
    /** Where a call's first task is drawn, or its planned one, for those who drive the page. */
    spot(call, plan = false) {
      const at = layout(), [from, to] = view ?? [0, total()], wall = plan && shown().includes(planned) ? planned : at.tracks.at(-1).wall, s = sliceAt(wall, from), i = s.call.indexOf(call), track = trackOf(at, wall);
      if (i < 0 || !track) return null;
      return [LEFT + ((s.start[i] + s.end[i]) / 2 - from) / (to - from) * at.wide, track.y + s.lane[i] * track.pitch + track.high / 2];
    },
    close() { observer.disconnect(); hand.close(); cancelAnimationFrame(asked); },
  };
  /** A canvas with what is on show, at so many points a pixel. */
  function painted(scale) { const on = h("canvas"); draw(on, scale); return on; }
}
