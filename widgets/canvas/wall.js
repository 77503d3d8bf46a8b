// The brick wall: one canvas. Outlined is planned, filled is measured, outlined and pale is modelled on other units.
import { h, clamp, duration, fit, textWidth, percent } from "./dom.js";
import { decodeWall, brickAt, gapAt, eachBlock } from "./wall_data.js";

const LEFT = 84, RIGHT = 14, NAMES = 20, PLAN = 11, GAP = 3, MEASURE = 26, BETWEEN = 4, AXIS = 20, SUMMARY = 24, UNIT = 12, FOOT = 18;
const ORDER = ["wall_planned", "wall_measured", "wall_more"];

/** The wall's canvas. `ctx`: host, state, colours, select(ops), hover(ops), say(text). */
export function wallView(ctx) {
  const canvas = h("canvas", { tabindex: "-1", role: "img", "aria-label": "Brick wall" }), tip = h("div", { class: "tip", hidden: true });
  const box = h("div", { class: "fill" }, canvas, tip);
  const walls = {};
  let view = null, width = 0, height = 0, asked = 0, drag = null;
  let planned = null, measured = null, more = null, calls = [];
  const stats = { draws: [], blocks: 0 }; // for those who watch the cost

  const total = () => Math.max(planned?.total_us ?? 0, measured?.total_us ?? 0) || 1;
  const shows = kind => ctx.state.wall === "both" || ctx.state.wall === kind;

  function load() {
    const heads = ctx.host.get("walls") ?? {};
    calls = ctx.host.get("calls") ?? [];
    for (const name of ORDER) {
      const bytes = ctx.host.bytes(name), head = heads[name];
      walls[name] = head && bytes?.byteLength ? decodeWall(head, bytes) : null;
    }
    [planned, measured, more] = ORDER.map(name => walls[name]);
    if (view && view[1] > total() * 1.001) view = null;
    describe();
    ask();
  }

  function describe() {
    if (!planned) { canvas.setAttribute("aria-label", "Brick wall: nothing is scheduled"); return; }
    const said = [`Brick wall of ${planned.units} workers: planned ${duration(planned.total_us)}, ${planned.n} bricks`];
    if (measured) said.push(`measured ${duration(measured.total_us)}, ${Object.entries(measured.shares).map(([k, v]) => `${k} ${percent(v)}`).join(", ")}`);
    canvas.setAttribute("aria-label", `${said.join("; ")}. Press T for the table.`);
  }

  const ask = () => { asked ||= requestAnimationFrame(draw); };

  /** Rows of the picture: where each worker's lanes lie, and the units below. */
  function layout() {
    const wide = width - LEFT - RIGHT, units = planned.units, room = height - NAMES - FOOT - AXIS - SUMMARY;
    // Units below may be thinner before workers lose height.
    const unit = more ? clamp(Math.floor((room - 44 - units * 46) / more.units), 8, UNIT) : 0;
    const others = more ? Math.min(more.units * unit + 44, Math.max(0, room - units * 24)) : 0;
    const row = clamp((room - others) / units - BETWEEN, 3, PLAN + GAP + MEASURE + 2);
    const two = shows("planned") && shows("measured") && measured && row >= 18;
    const plan = two ? Math.round(row * 0.26) : row, rest = two ? row - plan - GAP : row;
    return { wide, row, two, plan, rest, bottom: NAMES + units * (row + BETWEEN) };
  }

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
    if (!planned) { text(pen, "Nothing is scheduled yet: compile through Rammer.", 12, 24, "ink2"); return; }
    const [from, to] = view ?? [0, total()], at = layout(), scale = at.wide / (to - from), lit = ctx.litCalls();
    workers(pen, at, from, to, scale, lit);
    names(pen, at, from, to, scale, lit);
    axis(pen, at.bottom + FOOT - 2, from, to, scale, at.wide, `${duration((measured ?? planned).total_us)} ${measured ? "measured" : "planned"}`);
    programs(pen, at, from, scale);
    if (more) others(pen, at.bottom + FOOT + AXIS + 18, lit);
    summary(pen);
    stats.draws.push(performance.now() - began);
  }

  function workers(pen, at, from, to, scale, lit) {
    const { colours } = ctx;
    for (let u = 0; u < planned.units; u++) {
      const y = NAMES + u * (at.row + BETWEEN);
      pen.fillStyle = colours.colour("app");
      pen.fillRect(LEFT, y, at.wide, at.row);
      if (at.row >= 12) text(pen, `w${u}`, 12, y + Math.min(17, at.row - 2), "ink", colours.font(11, "mono"));
      if (at.row >= 34 && measured) text(pen, `${percent(measured.busy[u])} busy`, 12, y + 33, "ink2");
      pen.save();
      pen.beginPath(); pen.rect(LEFT, y - 2, at.wide, at.row + 4); pen.clip();
      if (shows("planned") || !measured) outlined(pen, planned, u, y + 1.5, (at.two ? at.plan : at.row) - 2, from, to, scale, lit);
      if (measured && (shows("measured") && (at.two || !shows("planned")))) {
        const top = at.two ? y + at.plan + GAP : y;
        gaps(pen, measured, u, top, at.rest, from, to, scale);
        filled(pen, measured, u, top, at.rest, from, to, scale, lit);
      }
      pen.restore();
    }
    pen.fillStyle = colours.colour("ink");
    for (const cut of (measured ?? planned).cuts_us) {
      const x = LEFT + (cut - from) * scale;
      if (x > LEFT && x < LEFT + at.wide) pen.fillRect(x - 1, NAMES - 2, 2, at.bottom - NAMES + 2);
    }
  }

  /** Planned bricks: edges only; below 4 px a hairline, below 1 px a run is one box. */
  function outlined(pen, wall, u, y, high, from, to, scale, lit) {
    const { colours } = ctx;
    const quiet = new Path2D(), thin = new Path2D(), loud = new Path2D();
    eachBlock(wall, u, from, to, scale, (x0, x1, call, i) => {
      stats.blocks++;
      const x = LEFT + Math.max(x0, -4) + 0.5, w = Math.max(0.6, Math.min(x1, to * scale) - Math.max(x0, -4) - 1);
      const into = lit.has(call) ? loud : x1 - x0 < 5 || i < 0 ? thin : quiet;
      into.rect(x, y, w, high);
    });
    pen.strokeStyle = colours.colour("ink3");
    pen.lineWidth = 0.5; pen.stroke(thin);
    pen.lineWidth = 1; pen.stroke(quiet);
    pen.fillStyle = colours.colour("soft"); pen.fill(loud);
    pen.strokeStyle = colours.colour("accent"); pen.lineWidth = 1.6; pen.stroke(loud);
  }

  /** Measured bricks: a fill per family, collected so that each colour is set once. */
  function filled(pen, wall, u, y, high, from, to, scale, lit, pale = false) {
    const { colours } = ctx;
    const shapes = new Map(), seams = new Path2D(), borders = new Path2D(), numbers = [];
    let before = -1;
    eachBlock(wall, u, from, to, scale, (x0, x1, call, i) => {
      stats.blocks++;
      const key = lit.has(call) ? "lit" : calls[call]?.[1] ?? "layout";
      if (!shapes.has(key)) shapes.set(key, new Path2D());
      const left = Math.max(x0, -4), wide = Math.max(0.8, Math.min(x1, (to - from) * scale + 4) - left);
      shapes.get(key).rect(LEFT + left, y, wide, high);
      if (i >= 0 && x1 - x0 >= 4) seams.rect(LEFT + x1 - 0.6, y, 0.6, high);
      if (call !== before && x1 - x0 >= 3) borders.rect(LEFT + x0 - 0.4, y, 0.9, high);
      if (i >= 0 && x1 - x0 >= 40 && high >= 14) numbers.push([LEFT + (Math.max(x0, 0) + Math.min(x1, (to - from) * scale)) / 2, call, i]);
      before = call;
    });
    const shift = LEFT - from * scale % 60;
    for (const [key, shape] of shapes) {
      pen.globalAlpha = pale && key !== "lit" ? 0.5 : 1;
      pen.fillStyle = key === "lit" ? colours.colour("accent") : colours.pattern(pen, `f-${key.replace(/ /g, "-")}`, shift);
      pen.fill(shape);
    }
    pen.globalAlpha = 1;
    pen.fillStyle = colours.colour("pane"); pen.fill(seams);
    pen.fillStyle = colours.colour("ink"); pen.fill(borders);
    for (const [x, call, i] of numbers) label(pen, wall, x, y + high / 2 + 4, lit.has(call), i);
  }

  function label(pen, wall, x, y, on, i) {
    const said = wall.first[i] === wall.last[i] ? `${wall.first[i]}` : `${wall.first[i]}–${wall.last[i]}`;
    const wide = textWidth(said, ctx.colours.font(11)) + 6;
    pen.fillStyle = ctx.colours.colour(on ? "accent" : "pane");
    pen.fillRect(x - wide / 2, y - 10, wide, 13);
    text(pen, said, x, y, on ? "pane" : "ink", ctx.colours.font(11), "center");
  }

  function gaps(pen, wall, u, y, high, from, to, scale) {
    const { colours } = ctx, causes = ctx.host.get("causes");
    let i = wall.gapRows[u], edge = -1;
    for (; i < wall.gapRows[u + 1]; i++) {
      const x0 = (wall.gapStart[i] - from) * scale, x1 = (wall.gapEnd[i] - from) * scale;
      if (x1 < 0 || x1 - x0 < 0.7 || x1 < edge + 0.7) continue;
      if (x0 > (to - from) * scale) break;
      edge = x1;
      const [cause, name] = causes[wall.cause[i]];
      pen.fillStyle = colours.pattern(pen, `g-${cause}`);
      pen.fillRect(LEFT + x0, y, x1 - x0, high);
      const wide = textWidth(name, colours.font(11)) + 6;
      if (x1 - x0 > wide && high >= 14) {
        const middle = LEFT + (Math.max(x0, 0) + Math.min(x1, (to - from) * scale)) / 2;
        pen.fillStyle = colours.colour("app"); pen.fillRect(middle - wide / 2, y + high / 2 - 7, wide, 14);
        text(pen, name, middle, y + high / 2 + 4, "ink2", colours.font(11), "center");
      }
    }
  }

  /** Names over the wall where they fit; the selected one always, with a bracket. */
  function names(pen, at, from, to, scale, lit) {
    const { colours } = ctx;
    text(pen, fit(planned.device, LEFT - 16, colours.font(11, "ui", 600)), 12, 13, "ink", colours.font(11, "ui", 600));
    const wall = shows("planned") ? planned : measured ?? planned;
    const spans = [...wall.spans].map(([call, span]) => ({ call, x0: (span.start - from) * scale, x1: (span.end - from) * scale }))
      .filter(span => span.x1 > 0 && span.x0 < at.wide).sort((a, b) => a.x0 - b.x0);
    const taken = [];
    const place = (span, on) => {
      const room = on ? 220 : span.x1 - Math.max(span.x0, 0) - 4, name = on ? ctx.selected() : ctx.callLabel(span.call);
      const font = colours.font(11, "ui", on ? 600 : 400), wide = textWidth(name, font);
      if (!on && wide > room) return;
      const said = on ? fit(name, room, font) : name;
      const x = clamp(Math.max(span.x0, 0), 0, at.wide - Math.min(wide, room));
      if (!on && taken.some(([a, b]) => x < b + 6 && x + wide > a - 6)) return;
      taken.push([x, x + Math.min(wide, room)]);
      text(pen, said, LEFT + x + 1, 13, on ? "accent" : "ink2", font);
    };
    for (const span of spans.filter(s => lit.has(s.call)).slice(0, 1)) place(span, true);
    for (const span of spans) if (!lit.has(span.call)) place(span, false);
    pen.strokeStyle = colours.colour("accent"); pen.lineWidth = 1.5;
    for (const span of spans.filter(s => lit.has(s.call))) {
      const a = LEFT + Math.max(span.x0, 0), b = LEFT + Math.min(span.x1, at.wide);
      pen.beginPath(); pen.moveTo(a, 20); pen.lineTo(a, 17); pen.lineTo(b, 17); pen.lineTo(b, 20); pen.stroke();
    }
  }

  /** Under the wall: where each launch begins. */
  function programs(pen, at, from, scale) {
    text(pen, "launch", 12, at.bottom + 11, "ink2");
    let edge = LEFT;
    [0, ...(measured ?? planned).cuts_us].forEach((cut, i) => {
      const x = LEFT + (cut - from) * scale + 4, said = `P${i}`;
      if (x >= edge && x < LEFT + at.wide - 20) { text(pen, said, x, at.bottom + 11, "ink"); edge = x + textWidth(said, ctx.colours.font(11)) + 8; }
    });
  }

  function axis(pen, y, from, to, scale, wide, said) {
    const { colours } = ctx, font = colours.font(11, "ui", 600), end = LEFT + wide, stop = end - textWidth(said, font) - 12;
    pen.fillStyle = colours.colour("line2"); pen.fillRect(LEFT, y, wide, 1);
    text(pen, "µs", 12, y + 14, "ink3");
    const step = niceStep(to - from, wide);
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const x = LEFT + (t - from) * scale, number = Number(t.toPrecision(10)).toLocaleString("en");
      const from0 = t === 0;
      if (x + textWidth(number, colours.font(11)) / 2 > stop) break;
      pen.fillStyle = colours.colour("ink3"); pen.fillRect(x, y, 1, 4);
      text(pen, number, x, y + 14, "ink3", colours.font(11), from0 ? "left" : "center");
    }
    text(pen, said, end, y + 14, "ink", font, "right");
  }

  /** The same program on another number of units: modelled, with an axis of its own. */
  function others(pen, y, lit) {
    const { colours } = ctx, wide = width - LEFT - RIGHT, room = height - SUMMARY - y - 18;
    const high = Math.min(UNIT, Math.floor(room / more.units));
    if (high < 4) return;
    pen.fillStyle = colours.colour("line"); pen.fillRect(0, y - 18, width, 1);
    text(pen, `${more.units} units`, 12, y - 4, "ink", colours.font(11, "ui", 600));
    const idle = Object.entries(more.shares).filter(([name]) => name !== "busy").sort((a, b) => b[1] - a[1])[0];
    const named = Object.fromEntries(ctx.host.get("causes"));
    text(pen, `modelled (outlined and pale): ${duration(more.total_us)} on ${more.units} units, ${percent(more.shares.busy)} busy${idle ? `, most lost to ${named[idle[0]] ?? idle[0]}` : ""}`, LEFT, y - 4, "ink2");
    const scale = wide / more.total_us;
    for (let u = 0; u < more.units; u++) {
      const top = y + u * high;
      if (high > 9 || u % 2 === 0) text(pen, `u${u}`, 12, top + 9, "ink", colours.font(11, "mono"));
      pen.fillStyle = colours.colour("tint"); pen.fillRect(34, top + high / 2 - 3, 40, 5);
      pen.fillStyle = colours.colour("t2"); pen.fillRect(34, top + high / 2 - 3, 40 * more.busy[u], 5);
      pen.fillStyle = colours.colour("app"); pen.fillRect(LEFT, top, wide, high - 1);
      gaps(pen, more, u, top, high - 1, 0, more.total_us, scale);
      filled(pen, more, u, top, high - 1, 0, more.total_us, scale, lit, true);
      outlined(pen, more, u, top + 0.5, high - 2, 0, more.total_us, scale, new Set());
    }
    axis(pen, y + more.units * high + 1, 0, more.total_us, scale, wide, `${duration(more.total_us)} modelled`);
  }

  /** Busy and idle shares, adding up to all. */
  function summary(pen) {
    const { colours } = ctx, wall = measured ?? planned, y = height - SUMMARY + 5;
    const names = Object.fromEntries(ctx.host.get("causes")), bar = 130;
    pen.fillStyle = colours.colour("line"); pen.fillRect(0, y - 5, width, 1);
    text(pen, measured ? "measured" : "planned", 12, y + 11, "ink", colours.font(11, "ui", 600));
    let x = LEFT, said = LEFT + bar + 12;
    Object.entries(wall.shares).forEach(([name, share], i) => {
      pen.fillStyle = i ? names[name] ? colours.pattern(pen, `g-${name}`) : colours.colour("tint") : colours.colour("t2");
      pen.fillRect(x, y + 2, Math.max(0.5, share * bar - 0.5), 10);
      x += share * bar;
      const label = `${i === 1 ? "idle: " : ""}${names[name] ?? name} ${percent(share)}`, font = colours.font(11, "ui", i ? 400 : 600);
      const wide = textWidth(label, font);
      if (said + wide < width - RIGHT) { text(pen, label, said, y + 11, i ? "ink2" : "ink", font); said += wide + (i ? 12 : 18); }
    });
    pen.strokeStyle = colours.colour("ink3"); pen.lineWidth = 0.8; pen.strokeRect(LEFT - 0.5, y + 1.5, bar + 1, 11);
  }

  function text(pen, said, x, y, token, font = ctx.colours.font(11), align = "left") {
    pen.font = font; pen.fillStyle = ctx.colours.colour(token); pen.textAlign = align;
    pen.fillText(said, x, y);
  }

  // Pointing
  const time = x => { const [from, to] = view ?? [0, total()]; return from + (x - LEFT) / (width - LEFT - RIGHT) * (to - from); };
  function hit(x, y) {
    if (!planned || x < LEFT || x > width - RIGHT) return null;
    const at = layout(), u = Math.floor((y - NAMES) / (at.row + BETWEEN));
    if (u < 0 || u >= planned.units || y < NAMES) return otherHit(x, y, at);
    const within = y - NAMES - u * (at.row + BETWEEN), top = !measured || (shows("planned") && (!at.two || within < at.plan + 1));
    const wall = top && shows("planned") ? planned : measured ?? planned, [from, to] = view ?? [0, total()];
    const t = time(x), i = brickAt(wall, u, t, (to - from) / at.wide / 2);
    return i >= 0 ? { wall, u, brick: i } : { wall, u, gap: gapAt(wall, u, t) };
  }
  function otherHit(x, y, at) {
    if (!more) return null;
    const top = at.bottom + FOOT + AXIS + 18, high = Math.min(UNIT, Math.floor((height - SUMMARY - top - 18) / more.units));
    const u = Math.floor((y - top) / high), t = (x - LEFT) / (width - LEFT - RIGHT) * more.total_us;
    if (u < 0 || u >= more.units || high < 4) return null;
    const i = brickAt(more, u, t);
    return i >= 0 ? { wall: more, u, brick: i } : null;
  }
  function said(found) {
    const { wall, u } = found;
    if (found.brick >= 0) {
      const i = found.brick, tasks = wall.first[i] === wall.last[i] ? `task ${wall.first[i]}` : `tasks ${wall.first[i]} to ${wall.last[i]}`;
      return `${calls[wall.call[i]]?.[0] ?? "?"} (${calls[wall.call[i]]?.[1] ?? "?"}), ${tasks}\nw${u}, ${wall.kind}: ${wall.start[i].toFixed(1)} to ${wall.end[i].toFixed(1)} µs, ${duration(wall.end[i] - wall.start[i])}`;
    }
    if (found.gap >= 0) return `w${u} idle, ${ctx.host.get("causes")[wall.cause[found.gap]][1]}: ${duration(wall.gapEnd[found.gap] - wall.gapStart[found.gap])}`;
    return "";
  }
  function look(from, to) {
    const span = Math.min(to - from, total()), start = clamp(from, 0, total() - span);
    view = span >= total() * 0.999 ? null : [start, start + Math.max(span, 0.05)];
    ask();
  }
  const zoom = (factor, x = LEFT + (width - LEFT - RIGHT) / 2) => {
    const [from, to] = view ?? [0, total()], t = time(x);
    look(t - (t - from) * factor, t + (to - t) * factor);
  };
  const pan = share => { const [from, to] = view ?? [0, total()], by = (to - from) * share; look(from + by, to + by); };

  canvas.addEventListener("pointerdown", e => {
    drag = { x: e.offsetX, view: view ?? [0, total()], moved: false };
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", e => {
    if (drag) {
      drag.moved ||= Math.abs(e.offsetX - drag.x) > 3;
      const [from, to] = drag.view, by = (drag.x - e.offsetX) / (width - LEFT - RIGHT) * (to - from);
      if (drag.moved) look(from + by, to + by);
      return;
    }
    const found = hit(e.offsetX, e.offsetY), words = found ? said(found) : "";
    tip.hidden = !words;
    canvas.style.cursor = found?.brick >= 0 ? "pointer" : "default";
    if (!words) return;
    tip.textContent = words;
    tip.style.left = `${Math.max(4, Math.min(e.offsetX + 14, width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${e.offsetY + 44 > height ? e.offsetY - 44 : e.offsetY + 14}px`;
  });
  canvas.addEventListener("pointerup", e => {
    const found = drag && !drag.moved ? hit(e.offsetX, e.offsetY) : null;
    drag = null;
    if (found?.brick >= 0) ctx.pickCall(found.wall.call[found.brick]);
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("wheel", e => {
    if (!e.ctrlKey && !e.shiftKey && Math.abs(e.deltaX) < Math.abs(e.deltaY) && !view && e.deltaY > 0) return; // the page scrolls on
    e.preventDefault();
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan(e.deltaX / width); else zoom(Math.exp(e.deltaY * 0.0015), e.offsetX);
  }, { passive: false });
  const observer = new ResizeObserver(ask);
  observer.observe(box);

  return {
    box, load, draw: ask, zoom, pan, stats,
    whole() { view = null; ask(); },
    get view() { return view; },
    set view(next) { view = next; ask(); },
    /** Bricks of the selection: planned, measured, modelled. */
    counts(lit) { return [planned, measured, more].map(wall => wall ? [...lit].reduce((sum, call) => sum + (wall.spans.get(call)?.bricks ?? 0), 0) : 0); },
    bricks: () => planned?.n ?? 0,
    /** The time from first start to last end of these calls: planned and measured. */
    times(lit) { return [planned, measured].map(wall => wall && spanOf(wall, lit)); },
    /** Where a call's first brick is drawn, for those who drive the page. */
    spot(call) {
      const wall = measured ?? planned, i = wall.call.indexOf(call), at = layout(), [from, to] = view ?? [0, total()];
      const x = LEFT + ((wall.start[i] + wall.end[i]) / 2 - from) / (to - from) * at.wide;
      return i < 0 ? null : [x, NAMES + wall.unit[i] * (at.row + BETWEEN) + (at.two ? at.plan + GAP + at.rest / 2 : at.row / 2)];
    },
    close() { observer.disconnect(); cancelAnimationFrame(asked); },
  };
}

function spanOf(wall, lit) {
  let start = Infinity, end = -Infinity;
  for (const call of lit) { const span = wall.spans.get(call); if (span) { start = Math.min(start, span.start); end = Math.max(end, span.end); } }
  return end > start ? end - start : null;
}

function niceStep(span, wide) {
  const rough = span / Math.max(2, wide / 110), power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map(m => m * power).find(step => step >= rough);
}
