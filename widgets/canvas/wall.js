// The brick wall: one canvas over slices of the walls. Outlined is planned, filled is measured or was recorded, outlined and pale is modelled on other units.
import { h, clamp, duration, percent } from "./dom.js";
import { decodeWall, decodeSlice, blockAt, gapAt, wanted, parts } from "./wall_data.js";
import { LEFT, RIGHT, NAMES, AXIS, SUMMARY, FOOT, wallPainter } from "./wall_draw.js";
import { wallHand } from "./wall_hand.js";

const PLAN = 11, GAP = 3, MEASURE = 26, UNIT = 12, TALLEST = 132, SHORTEST = 0.05, BAND = 18;
const ORDER = ["wall_planned", "wall_measured", "wall_recorded", "wall_more"];

/** The wall's canvas. `ctx`: host, state, colours, litCalls(), pickCall(call), move(kind, args), say(text). */
export function wallView(ctx) {
  const canvas = h("canvas", { tabindex: "-1", role: "img", "aria-label": "Brick wall" }), tip = h("div", { class: "tip", hidden: true }), note = h("div", { class: "bounce", role: "alert", hidden: true });
  const box = h("div", { class: "fill" }, canvas, tip, note);
  const walls = {}, stats = { draws: [], blocks: 0, bytes: [], slices: 0 }; // for those who watch the cost
  const paint = wallPainter(ctx, stats);
  let view = null, width = 0, height = 0, asked = 0, drag = null, revision = 0;
  let planned = null, measured = null, recorded = null, more = null, calls = [], dumb = false;
  const hand = wallHand(ctx, () => planned, () => ask());

  /** What stands under the plan: what was measured here, else what was recorded. */
  const ran = () => ctx.state.wall === "recorded" && recorded ? recorded : measured ?? recorded;
  const total = () => Math.max(planned?.total_us ?? 0, measured?.total_us ?? 0, recorded?.total_us ?? 0) || 1;
  const shows = wall => ctx.state.wall === "both" ? wall === planned || wall === ran() : wall && wall === single();

  function load() {
    const heads = ctx.host.get("walls") ?? {};
    calls = ctx.host.get("calls") ?? [];
    revision++; dumb = false;
    for (const name of ORDER) {
      const bytes = ctx.host.bytes(name), head = heads[name];
      walls[name] = head && bytes?.byteLength ? decodeWall(head, bytes) : null;
    }
    [planned, measured, recorded, more] = ORDER.map(name => walls[name]);
    if (view && view[1] > total() * 1.001) view = null;
    if (planned) hand.renew();
    describe();
    ask();
  }

  function describe() {
    if (!planned) { canvas.setAttribute("aria-label", "Brick wall: nothing is scheduled"); return; }
    const said = [`Brick wall of ${planned.units} workers: ${planned.kind} ${duration(planned.total_us)}, ${planned.n} bricks`];
    for (const wall of [measured, recorded].filter(Boolean)) said.push(`${wall.said} ${duration(wall.total_us)}, ${wall.compared ?? ""}, ${paint.shares(wall).replaceAll("\n", ", ")}`);
    canvas.setAttribute("aria-label", `${said.join("; ")}. Press T for the table; comma and full stop go from brick to brick, Shift and an arrow move one.`);
  }

  const ask = () => { asked ||= requestAnimationFrame(draw); };

  /** Rows of the picture: where each worker's lanes lie, and the units below. Where two lanes of a worker have no room, all of the plan stand over all that ran. */
  function layout() {
    const wide = width - LEFT - RIGHT, lanes = planned.lanes, room = height - NAMES - FOOT - AXIS - SUMMARY, between = lanes > 40 ? 0 : lanes > 12 ? 1 : 4;
    // Units below may be thinner before workers lose height.
    const tall = room > 420 ? 2 : 1; // a wall that has the whole height uses it
    const unit = more ? clamp(Math.floor((room - 44 - lanes * 46 * tall) / more.lanes), 8, UNIT * tall) : 0;
    const others = more ? Math.min(more.lanes * unit + 44, Math.max(0, room - lanes * 24)) : 0;
    const row = clamp((room - others) / lanes - between, 1, tall > 1 ? TALLEST : PLAN + GAP + MEASURE + 2);
    const both = Boolean(ctx.state.wall === "both" && ran());
    if (both && row < 18) {
      const each = (room - others - BAND) / 2 / lanes, pitch = Math.max(each, 0.5), thin = pitch - (pitch > 4 ? 1 : 0);
      return { wide, row: thin, both, plan: thin, rest: thin, pitch, below: lanes * pitch + BAND, bottom: NAMES + 2 * lanes * pitch + BAND };
    }
    const plan = both ? Math.round(row * 0.26) : row, rest = both ? row - plan - GAP : row;
    return { wide, row, both, plan, rest, pitch: row + between, below: both ? plan + GAP : 0, bottom: NAMES + lanes * (row + between) };
  }
  /** Where a lane of a wall lies. */
  const lane = (at, wall, u) => wall === planned ? { y: NAMES + u * at.pitch, high: at.plan } : { y: NAMES + u * at.pitch + at.below, high: at.rest };
  /** Which wall a lane shows where there is room for one only. */
  const single = () => ({ planned, measured, recorded, both: ran() })[ctx.state.wall] ?? planned;

  function draw() {
    asked = 0;
    const began = performance.now(); stats.blocks = 0;
    const ratio = window.devicePixelRatio || 1;
    width = box.clientWidth; height = box.clientHeight;
    if (!width || !height) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = ctx.colours.colour("pane");
    pen.fillRect(0, 0, width, height);
    pen.textBaseline = "alphabetic";
    note.hidden = !hand.broken;
    if (hand.broken) note.textContent = hand.broken.said;
    if (!planned || !planned.n) { paint.text(pen, planned ? "Nothing is scheduled: no kernel runs on a unit." : "Nothing is scheduled yet: compile through Rammer.", 12, 24, "ink2"); return; }
    canvas.style.touchAction = hand.picked ? "none" : "pan-y"; // a finger scrolls the page, unless it holds a brick
    const [from, to] = view ?? [0, total()], at = layout(), now = { from, to, scale: at.wide / (to - from) }, lit = ctx.litCalls();
    workers(pen, at, now, lit);
    paint.names(pen, shows(planned) ? planned : single(), at.wide, now, lit);
    const last = ran() ?? planned, shown = single(), took = `${duration(last.total_us)} ${last.kind}`;
    paint.axis(pen, at.bottom + FOOT - 2, at.wide, now, [last.compared ? `${last.compared}: ${took}` : took, took]);
    clipped(pen, at, () => { stats.arrows = paint.waits(pen, shown, u => lane(at, shown, Math.floor(u / planned.group)), now, lit); held(pen, at, now); });
    paint.cuts(pen, single(), at.bottom, at.wide, now);
    if (more) paint.others(pen, more, at.bottom + FOOT + AXIS + 18, width, height, lit);
    paint.summary(pen, last, width, height);
    stats.draws.push(performance.now() - began);
    fetch(at.wide);
  }

  function clipped(pen, at, act) {
    pen.save();
    pen.beginPath(); pen.rect(LEFT, NAMES - 4, at.wide, at.bottom - NAMES + 6); pen.clip();
    act();
    pen.restore();
  }
  function workers(pen, at, now, lit) {
    const { colours } = ctx, under = ran(), one = single(), apart = at.below > at.pitch, fits = wall => Math.min(wall.lanes, planned.lanes);
    const rows = (wall, by = 0) => Array.from({ length: fits(wall) }, (_, u) => [u, lane(at, wall, u).y + by]);
    ground(pen, at, at.both ? planned : one, at.both && !apart ? at.row : at.plan);
    if (apart) {
      paint.text(pen, under.said, 12, lane(at, under, 0).y - 5, "ink2");
      ground(pen, at, under, at.rest);
    }
    if (at.row >= 34 && under) for (let u = 0; u < Math.min(under.units, planned.lanes); u++) paint.text(pen, `${percent(under.busy[u])} busy`, 12, NAMES + u * at.pitch + 33, "ink2");
    clipped(pen, at, () => {
      if (at.both || one === planned) {
        if (!at.both || apart) paint.gaps(pen, planned, rows(planned), at.plan, now);
        if (at.row < 6 || planned.group > 1) paint.filled(pen, planned, rows(planned), at.plan, now, lit, true);
        else paint.outlined(pen, planned, rows(planned, 1.5), at.plan - 2, now, lit);
      }
      const filled = at.both ? under : one !== planned ? one : null;
      if (!filled) return;
      paint.gaps(pen, filled, rows(filled), at.rest, now);
      paint.filled(pen, filled, rows(filled), at.rest, now, lit);
    });
  }
  /** What the lanes of a wall stand on, and their names as far as there is room. */
  function ground(pen, at, wall, high) {
    const { colours } = ctx, every = Math.max(1, Math.ceil(12 / at.pitch)), count = Math.min(wall.lanes, planned.lanes), end = lane(at, wall, count - 1).y + high;
    for (let u = 0; u < count; u++) {
      const { y } = lane(at, wall, u), base = y + clamp(high - 2, 9, 17);
      pen.fillStyle = colours.colour("app");
      pen.fillRect(LEFT, y, at.wide, high);
      if (u % every === 0 && (!u || base <= end)) paint.text(pen, unitsOf(wall, u), 12, base, "ink", colours.font(high >= 12 ? 11 : 9, "mono"));
    }
  }
  const unitsOf = (wall, u) => wall.group > 1 ? `u${u * wall.group}–${Math.min(wall.units, (u + 1) * wall.group) - 1}` : u < wall.units ? `w${u}` : "host";

  /** The picked brick, and where a dragged one would go. */
  function held(pen, at, now) {
    const { picked, ghost } = hand, high = at.plan, top = u => NAMES + u * at.pitch;
    const x = t => LEFT + (t - now.from) * now.scale;
    pen.strokeStyle = ctx.colours.colour("ink"); pen.lineWidth = 2;
    if (picked) pen.strokeRect(x(picked.start), top(picked.unit) + 1, Math.max(2, (picked.end - picked.start) * now.scale), high - 2);
    if (hand.broken?.arrow) paint.broken(pen, hand.broken.arrow, u => ({ y: top(u), high }), now);
    if (!ghost) return;
    pen.globalAlpha = 0.85; pen.fillStyle = ctx.colours.colour("soft");
    pen.fillRect(x(ghost.start), top(ghost.unit) + 1, Math.max(2, (ghost.end - ghost.start) * now.scale), high - 2);
    pen.globalAlpha = 1; pen.setLineDash([4, 3]);
    pen.strokeRect(x(ghost.start), top(ghost.unit) + 1, Math.max(2, (ghost.end - ghost.start) * now.scale), high - 2);
    pen.setLineDash([]); pen.fillStyle = ctx.colours.colour("ink");
    pen.fillRect(x(ghost.x) - 1.5, top(ghost.unit) - 2, 3, Math.min(at.row, at.pitch) + 4);
  }

  /** Slices for what is looked at, one question a wall at a time; the picture goes on with what it has. */
  function fetch(wide) {
    if (dumb || !ctx.host.alive) return;
    const [from, to] = view ?? [0, total()], number = revision, lit = [...ctx.litCalls()].slice(0, 200);
    for (const name of ORDER.slice(0, 3)) {
      const wall = walls[name];
      if (!wall || wall.waiting || !shows(wall)) continue;
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
  const time = x => { const [from, to] = view ?? [0, total()]; return from + (x - LEFT) / (width - LEFT - RIGHT) * (to - from); };
  const laneAt = (y, at) => { const u = Math.floor((y - NAMES) / at.pitch); return y >= NAMES && u >= 0 && u < planned.lanes ? u : -1; };
  /** The wall and its lane at a height. */
  function laneHit(y, at) {
    const u = laneAt(y, at);
    if (!at.both) return [single(), u];
    if (at.below > at.pitch) return u >= 0 ? [planned, u] : [ran(), laneAt(y - at.below, at)];
    return [y - NAMES - u * at.pitch < at.plan + 1 ? planned : ran(), u];
  }
  const sliceAt = (wall, t) => (parts(wall, t, t + 1e-9)[0] ?? [wall.base])[0];
  function hit(x, y) {
    if (!planned || x < LEFT || x > width - RIGHT) return null;
    const at = layout(), [wall, u] = laneHit(y, at), [from, to] = view ?? [0, total()];
    return u < 0 ? otherHit(x, y, at) : found(wall, u, time(x), (to - from) / at.wide / 2);
  }
  function found(wall, u, t, slack = 0) {
    if (u >= wall.lanes) return null;
    const slice = sliceAt(wall, t), i = blockAt(slice, u, t, slack);
    return i >= 0 ? { wall, u, slice, block: i } : { wall, u, slice, block: -1, gap: gapAt(slice, u, t) };
  }
  function otherHit(x, y, at) {
    if (!more) return null;
    const top = at.bottom + FOOT + AXIS + 18, high = Math.min(2 * UNIT, Math.floor((height - SUMMARY - top - 18) / more.lanes)), u = Math.floor((y - top) / high);
    return u < 0 || u >= more.lanes || high < 4 ? null : found(more, u, (x - LEFT) / (width - LEFT - RIGHT) * more.total_us);
  }
  function said({ wall, u, slice, block, gap }) {
    const where = unitsOf(wall, u);
    const cause = block < 0 && gap >= 0 ? ctx.host.get("causes")[slice.cause[gap]] : null;
    if (block < 0) return cause ? `${where} idle, ${cause[1]}: ${duration(slice.gapEnd[gap] - slice.gapStart[gap])}\n${cause[2]}` : "";
    const j = slice.alone[block], [name = "?", family = "?", , others = ""] = calls[slice.call[block]] ?? [], start = slice.start[block], end = slice.end[block];
    const span = `${where}, ${wall.said}: ${start.toFixed(1)} to ${end.toFixed(1)} µs, ${duration(end - start)}`;
    if (j < 0) return `${name} (${family})${slice.bricks[block] ? `, ${slice.bricks[block].toLocaleString("en")} bricks` : ", most of these units"}\n${span}\n${others}`;
    const { first, last, twin } = slice.single, tasks = first[j] === last[j] ? `task ${first[j]}` : `tasks ${first[j]} to ${last[j]}`, error = (wall !== planned ? twin[j] / (end - start) : (end - start) / twin[j]) - 1;
    const other = Number.isFinite(error) ? `, ${wall !== planned ? "planned" : ran().kind} ${duration(twin[j])} (plan ${error < 0 ? "−" : "+"}${Math.abs(error * 100).toFixed(0)}%)` : "";
    return `${name} (${family}), ${tasks}\n${span}${other}\n${others}${hand.picked && wall === planned ? "" : wall === planned && ctx.host.alive ? "\nclick to pick, then drag to move" : ""}`;
  }
  function look(from, to) {
    const span = Math.min(to - from, total()), start = clamp(from, 0, total() - span);
    view = span >= total() * 0.999 ? null : [start, start + Math.max(span, SHORTEST)];
    ask();
  }
  const zoom = (factor, x = LEFT + (width - LEFT - RIGHT) / 2) => {
    const [from, to] = view ?? [0, total()], t = time(x);
    look(t - (t - from) * factor, t + (to - t) * factor);
  };
  const pan = share => { const [from, to] = view ?? [0, total()], by = (to - from) * share; look(from + by, to + by); };

  canvas.addEventListener("pointerdown", e => {
    const at = planned && layout(), u = at ? laneAt(e.offsetY, at) : -1, t = time(e.offsetX);
    drag = { x: e.offsetX, view: view ?? [0, total()], moved: false, held: u >= 0 && hand.holds(u, t) ? t - hand.picked.start : null };
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", e => {
    if (drag) {
      drag.moved ||= Math.abs(e.offsetX - drag.x) > 3 || drag.held !== null && e.movementY;
      const [from, to] = drag.view, by = (drag.x - e.offsetX) / (width - LEFT - RIGHT) * (to - from);
      if (!drag.moved) return;
      tip.hidden = true;
      if (drag.held === null) look(from + by, to + by);
      else { const u = laneAt(e.offsetY, layout()); if (u >= 0) hand.drag(u, time(e.offsetX) - drag.held); else hand.cancel(); }
      return;
    }
    const over = hit(e.offsetX, e.offsetY), words = over ? said(over) : planned && e.offsetY > height - SUMMARY ? paint.shares(ran() ?? planned) : "";
    tip.hidden = !words;
    canvas.style.cursor = over && hand.holds(over.u, time(e.offsetX)) ? "grab" : over?.block >= 0 ? "pointer" : "default";
    if (!words) return;
    tip.textContent = words;
    tip.style.left = `${Math.max(4, Math.min(e.offsetX + 14, width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${e.offsetY + 60 > height ? e.offsetY - 60 : e.offsetY + 14}px`;
  });
  canvas.addEventListener("pointerup", e => {
    const one = drag && !drag.moved ? hit(e.offsetX, e.offsetY) : null, moved = drag?.moved && drag.held !== null;
    drag = null;
    if (moved) { hand.drop(); return; }
    if (one?.block >= 0) { grab(one); ctx.pickCall(one.slice.call[one.block]); } else if (one) hand.pick(null);
  });
  canvas.addEventListener("pointercancel", () => { drag = null; hand.cancel(); });
  /** A brick that stands alone is picked; one that ran as the planned one that it is. */
  function grab({ wall, u, slice, block }) {
    const j = slice.alone[block];
    if (j < 0 || wall === more || wall.group > 1) return;
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

  return {
    box, canvas, load, draw: ask, zoom, pan, stats, hand,
    whole() { view = null; hand.pick(null); ask(); },
    get view() { return view; },
    set view(next) { view = next; ask(); },
    get compared() { return ran()?.compared ?? ""; },
    get measured() { return Boolean(measured); },
    /** What the wall under the plan is called, "" where there is none. */
    get said() { return ran()?.said ?? ""; },
    /** The names of the walls that may be seen alone. */
    get kinds() { return [planned, measured, recorded].filter(Boolean).map(wall => wall === planned ? "planned" : wall.kind); },
    /** The next brick of the selection, in view; its words. */
    step(by) {
      const brick = planned && planned.group === 1 ? hand.next(ctx.litCalls(), by) : null;
      if (!brick) return false;
      const [from, to] = view ?? [0, total()], span = to - from;
      if (brick.start < from || brick.end > to) look(brick.start - span / 3, brick.start + span * 2 / 3);
      const [name = "?"] = calls[brick.call] ?? [];
      ctx.say(`${name}, tasks ${brick.first} to ${brick.last}, on unit ${brick.unit}, ${planned.kind} ${brick.start.toFixed(1)} to ${brick.end.toFixed(1)} µs. Shift and an arrow move it.`);
      return true;
    },
    /** Bricks of the selection: planned, of a run, modelled. */
    counts(lit) { return [planned, ran(), more].map(wall => wall ? [...lit].reduce((sum, call) => sum + (wall.spans.get(call)?.bricks ?? 0), 0) : 0); },
    bricks: () => planned?.n ?? 0,
    /** The time from first start to last end of these calls: planned and of a run. */
    times(lit) { return [planned, ran()].map(wall => wall && spanOf(wall, lit)); },
    /** Where a call's first brick is drawn, or its planned one, for those who drive the page. */
    spot(call, plan = false) {
      const at = layout(), [from, to] = view ?? [0, total()], wall = plan ? planned : ran() ?? planned, s = sliceAt(wall, from), i = s.call.indexOf(call);
      if (i < 0) return null;
      const { y, high } = lane(at, plan || !at.both ? planned : wall, s.lane[i]), x = LEFT + ((s.start[i] + s.end[i]) / 2 - from) / (to - from) * at.wide;
      return [x, y + high / 2];
    },
    close() { observer.disconnect(); hand.close(); cancelAnimationFrame(asked); },
  };
}

function spanOf(wall, lit) {
  let start = Infinity, end = -Infinity;
  for (const call of lit) { const span = wall.spans.get(call); if (span) { start = Math.min(start, span.start); end = Math.max(end, span.end); } }
  return end > start ? end - start : null;
}
