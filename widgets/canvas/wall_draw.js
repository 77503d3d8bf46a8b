// What is painted of a wall: lanes of bricks and gaps, waits, cuts, the axis, and the shares of time.
import { clamp, duration, fit, textWidth, percent } from "./dom.js";
import { eachBlock, parts } from "./wall_data.js";

export const LEFT = 84;
export const RIGHT = 14;
export const NAMES = 20;
export const AXIS = 20;
export const SUMMARY = 24;
export const FOOT = 18;
const UNIT = 12, FEW_WAITS = 40, MOST_ARROWS = 400;

/** The painter of a canvas. `ctx`: host, colours, litCalls, callLabel, selected. `stats.blocks` counts what was painted. */
export function wallPainter(ctx, stats) {
  const colour = token => ctx.colours.colour(token);
  const causes = () => ctx.host.get("causes");
  const family = call => ctx.host.get("calls")?.[call]?.[1] ?? "layout";

  function text(pen, said, x, y, token, font = ctx.colours.font(11), align = "left") {
    pen.font = font; pen.fillStyle = colour(token); pen.textAlign = align;
    pen.fillText(said, x, y);
  }

  /** Planned bricks of lanes, `rows` as [lane, y]: edges only; below 4 px a hairline, below 1 px a run is one box. */
  function outlined(pen, wall, rows, high, view, lit) {
    const { from, to, scale } = view, quiet = new Path2D(), thin = new Path2D(), loud = new Path2D(), strips = new Map(), numbers = [];
    for (const [slice, a, b] of parts(wall, from, to)) for (const [lane, y] of rows)
      eachBlock(slice, lane, a, b, from, scale, (x0, x1, call, i) => {
        stats.blocks++;
        const left = Math.max(x0, (a - from) * scale, -4), wide = Math.max(0.6, Math.min(x1, (b - from) * scale + 4) - left - 1);
        (lit.has(call) ? loud : x1 - x0 < 5 || i < 0 || slice.alone[i] < 0 ? thin : quiet).rect(LEFT + left + 0.5, y, wide, high);
        if (high < 20 || x1 - x0 < 3) return; // where there is room: the family along the foot, the tasks above
        if (!strips.has(family(call))) strips.set(family(call), new Path2D());
        strips.get(family(call)).rect(LEFT + left + 1.5, y + high - 6, Math.max(0.5, wide - 2), 5);
        if (i >= 0 && slice.alone[i] >= 0 && x1 - x0 >= 40) numbers.push([LEFT + left + wide / 2, y, call, slice.single, slice.alone[i], wide]);
      });
    pen.strokeStyle = colour("ink3");
    pen.lineWidth = 0.5; pen.stroke(thin);
    pen.lineWidth = 1; pen.stroke(quiet);
    pen.fillStyle = colour("soft"); pen.fill(loud);
    pen.strokeStyle = colour("accent"); pen.lineWidth = 1.6; pen.stroke(loud);
    for (const [name, shape] of strips) { pen.fillStyle = ctx.colours.pattern(pen, `f-${name.replace(/ /g, "-")}`); pen.fill(shape); }
    for (const [x, y, call, single, j, room] of numbers) label(pen, single, j, x, y + high / 2 + 2, lit.has(call), room);
  }

  /** Measured bricks of lanes: a fill per family and fullness, collected so that each colour is set once. */
  function filled(pen, wall, rows, high, view, lit, pale = false) {
    const { from, to, scale } = view, shapes = new Map(), seams = new Path2D(), borders = new Path2D(), numbers = [], faint = wall.group > 1;
    let before = -1;
    for (const [slice, a, b] of parts(wall, from, to)) for (const [lane, y] of rows)
      eachBlock(slice, lane, a, b, from, scale, (x0, x1, call, i) => {
        stats.blocks++;
        const full = faint && i >= 0 && slice.share[i] < 255 ? Math.ceil(slice.share[i] / 32) : 8, key = `${full}${lit.has(call) ? "lit" : family(call)}`;
        if (!shapes.has(key)) shapes.set(key, new Path2D());
        const left = Math.max(x0, (a - from) * scale, -4), right = Math.min(x1, (b - from) * scale + 4), wide = Math.max(0.8, right - left);
        shapes.get(key).rect(LEFT + left, y, wide, high);
        if (i < 0 || high < 6 || slice.alone[i] < 0) { before = call; return; }
        if (x1 - x0 >= 4) seams.rect(LEFT + x1 - 0.6, y, 0.6, high);
        if (call !== before && x1 - x0 >= 3) borders.rect(LEFT + x0 - 0.4, y, 0.9, high);
        if (x1 - x0 >= 40 && high >= 14) numbers.push([LEFT + (left + right) / 2, y, call, slice, slice.alone[i], right - left]);
        before = call;
      });
    const shift = LEFT - from * scale % 60;
    for (const [key, shape] of shapes) {
      const name = key.slice(1), loud = name === "lit";
      pen.globalAlpha = (pale && !loud ? 0.5 : 1) * Number(key[0]) / 8;
      pen.fillStyle = loud ? colour("accent") : high < 4 ? colour(`f-${name.replace(/ /g, "-")}`) : ctx.colours.pattern(pen, `f-${name.replace(/ /g, "-")}`, shift);
      pen.fill(shape);
    }
    pen.globalAlpha = 1;
    pen.fillStyle = colour("pane"); pen.fill(seams);
    pen.fillStyle = colour("ink"); pen.fill(borders);
    for (const [x, y, call, slice, j, room] of numbers) label(pen, slice.single, j, x, y + high / 2 + 4, lit.has(call), room);
  }

  function label(pen, single, j, x, y, on, room) {
    const font = ctx.colours.font(11), said = single.first[j] === single.last[j] ? `${single.first[j]}` : `${single.first[j]}–${single.last[j]}`, wide = textWidth(said, font) + 6;
    if (wide > room) return;
    pen.fillStyle = colour(on ? "accent" : "pane");
    pen.fillRect(x - wide / 2, y - 10, wide, 13);
    text(pen, said, x, y, on ? "pane" : "ink", font, "center");
  }

  /** Gaps of lanes by cause, named where the words fit. */
  function gaps(pen, wall, rows, high, view) {
    const { from, to, scale } = view, font = ctx.colours.font(11), shapes = new Map(), named = [];
    for (const [slice, a, b] of parts(wall, from, to)) for (const [lane, y] of rows) {
      let edge = -1;
      for (let i = slice.gapRows[lane]; i < slice.gapRows[lane + 1]; i++) {
        const x0 = (Math.max(slice.gapStart[i], a) - from) * scale, x1 = (Math.min(slice.gapEnd[i], b) - from) * scale;
        if (x1 < 0 || x1 - x0 < 0.7 || x1 < edge + 0.7) continue;
        if (x0 > (to - from) * scale) break;
        edge = x1;
        const cause = slice.cause[i];
        if (!shapes.has(cause)) shapes.set(cause, new Path2D());
        shapes.get(cause).rect(LEFT + x0, y, x1 - x0, high);
        if (x1 - x0 > 24 && high >= 14) named.push([cause, y, Math.max(x0, 0), Math.min(x1, (to - from) * scale)]);
      }
    }
    for (const [cause, shape] of shapes) { pen.fillStyle = ctx.colours.pattern(pen, `g-${causes()[cause][0]}`); pen.fill(shape); }
    for (const [cause, y, x0, x1] of named) {
      const name = causes()[cause][1], wide = textWidth(name, font) + 6, middle = LEFT + (x0 + x1) / 2;
      if (x1 - x0 <= wide) continue;
      pen.fillStyle = colour("app"); pen.fillRect(middle - wide / 2, y + high / 2 - 7, wide, 14);
      text(pen, name, middle, y + high / 2 + 4, "ink2", font, "center");
    }
  }

  /** Barriers: a hatched bar before the brick that waits, and an arrow from the last one that it waits for; of many those of the selection. */
  function waits(pen, wall, spot, view, lit) {
    if (wall.group > 1) return 0;
    const { from, to, scale } = view, slice = wall.near && !(wall.base.exact && wall.base.all_waits) && wall.near.from <= from && wall.near.to >= Math.min(to, wall.total_us) ? wall.near : wall.base, w = slice.waits;
    const seen = [];
    for (let i = 0; i < w.n; i++) if (w.toStart[i] >= from && w.fromEnd[i] <= to) seen.push(i);
    const few = slice.all_waits && seen.length <= FEW_WAITS, all = (to - from) * scale;
    const drawn = seen.filter(i => few || lit.has(w.toCall[i]) || lit.has(w.fromCall[i])).slice(0, MOST_ARROWS);
    for (const i of drawn) {
      const on = lit.has(w.toCall[i]) || lit.has(w.fromCall[i]), x0 = (w.fromEnd[i] - from) * scale, x1 = (w.toStart[i] - from) * scale;
      const a = spot(w.fromUnit[i]), b = spot(w.toUnit[i]);
      if (x1 >= 0 && x1 <= all && b.high >= 8) { pen.fillStyle = ctx.colours.pattern(pen, "g-barrier"); pen.fillRect(LEFT + x1 - 3, b.y, 3, b.high); pen.fillStyle = colour(on ? "accent" : "ink2"); pen.fillRect(LEFT + x1 - 0.8, b.y, 1.2, b.high); }
      arrow(pen, LEFT + clamp(x0, 0, all), a.y + a.high / 2, LEFT + clamp(x1, 0, all), b.y + b.high / 2, on ? "accent" : "ink2", on ? 1.6 : 1);
    }
    return drawn.length;
  }

  /** The dependency that a move would break, in the planned lanes. */
  function broken(pen, { fromUnit, fromEnd, toUnit, toStart }, spot, { from, to, scale }) {
    const x = t => LEFT + clamp((t - from) * scale, 0, (to - from) * scale), a = spot(fromUnit), b = spot(toUnit);
    arrow(pen, x(fromEnd), a.y + a.high / 2, x(toStart), b.y + b.high / 2, "bad", 2.4);
  }

  function arrow(pen, x0, y0, x1, y1, token, wide) {
    pen.strokeStyle = pen.fillStyle = colour(token); pen.lineWidth = wide;
    const bow = Math.max(10, Math.abs(x1 - x0) / 2), turn = Math.atan2((y1 - y0) * 0.6, Math.max(bow, 1));
    pen.beginPath(); pen.arc(x0, y0, 1.6 + wide / 3, 0, 7); pen.fill();
    pen.beginPath(); pen.moveTo(x0, y0); pen.bezierCurveTo(x0 + bow, y0, x1 - bow, y1, x1 - 4, y1); pen.stroke();
    pen.save(); pen.translate(x1, y1); pen.rotate(turn * 0.25);
    pen.beginPath(); pen.moveTo(0, 0); pen.lineTo(-7, -3.4); pen.lineTo(-7, 3.4); pen.fill(); pen.restore();
  }

  /** Names over the wall where they fit; the selected one always, with a bracket. */
  function names(pen, wall, wide, view, lit) {
    const { from, scale } = view, { colours } = ctx, taken = [];
    text(pen, fit(wall.device, LEFT - 16, colours.font(11, "ui", 600)), 12, 13, "ink", colours.font(11, "ui", 600));
    const spans = [...wall.spans].map(([call, span]) => ({ call, x0: (span.start - from) * scale, x1: (span.end - from) * scale }))
      .filter(span => span.x1 > 0 && span.x0 < wide && (span.x1 - span.x0 > 24 || lit.has(span.call))).sort((a, b) => a.x0 - b.x0).slice(0, 400);
    const place = (span, on) => {
      const room = on ? 220 : span.x1 - Math.max(span.x0, 0) - 4, name = on ? ctx.selected() : ctx.callLabel(span.call);
      const font = colours.font(11, "ui", on ? 600 : 400), said = on ? fit(name, room, font) : name, size = textWidth(said, font);
      if (!on && size > room) return;
      const x = clamp(Math.max(span.x0, 0), 0, wide - Math.min(size, room));
      if (!on && taken.some(([a, b]) => x < b + 6 && x + size > a - 6)) return;
      taken.push([x, x + Math.min(size, room)]);
      text(pen, said, LEFT + x + 1, 13, on ? "accent" : "ink2", font);
    };
    for (const span of spans.filter(s => lit.has(s.call)).slice(0, 1)) place(span, true);
    for (const span of spans) if (!lit.has(span.call)) place(span, false);
    pen.strokeStyle = colour("accent"); pen.lineWidth = 1.5;
    for (const span of spans.filter(s => lit.has(s.call))) {
      const a = LEFT + Math.max(span.x0, 0), b = LEFT + Math.min(span.x1, wide);
      pen.beginPath(); pen.moveTo(a, 20); pen.lineTo(a, 17); pen.lineTo(b, 17); pen.lineTo(b, 20); pen.stroke();
    }
  }

  /** Where one launch ends: a line, and what the next one takes to begin as a hatched band; its name below. */
  function cuts(pen, wall, bottom, wide, view) {
    const { from, to, scale } = view, each = wall.cuts_us.length ? wall.launch_us / (wall.cuts_us.length + 1) : wall.launch_us;
    text(pen, "launch", 12, bottom + 11, "ink2");
    let edge = LEFT, shown = 0;
    [0, ...wall.cuts_us].forEach((cut, i) => {
      if (cut < from - each || cut > to) return;
      const x = LEFT + (cut - from) * scale, band = each * scale;
      if (i && x > LEFT && ++shown < 600) { pen.fillStyle = colour("ink"); pen.fillRect(x - 1, NAMES - 2, wide / wall.cuts_us.length > 6 ? 2 : 0.6, bottom - NAMES + 2); }
      if (band > 1.5) { pen.fillStyle = ctx.colours.pattern(pen, "g-launch"); pen.fillRect(Math.max(LEFT, x), bottom + 1, Math.min(band, LEFT + wide - x), 3); }
      const said = `P${i}${band > 40 ? ` ${duration(each)}` : ""}`;
      if (x + 4 >= edge && x < LEFT + wide - 20) { text(pen, said, Math.max(x, LEFT) + 4, bottom + 13, "ink"); edge = x + textWidth(said, ctx.colours.font(11)) + 12; }
    });
  }

  /** The first of these texts that has room, else the last. */
  const fitting = (texts, room, font) => texts.find(words => textWidth(words, font) <= room) ?? texts.at(-1);

  /** The axis of time, with what the wall takes at its end: `texts` in words that get shorter. */
  function axis(pen, y, wide, view, texts) {
    const { from, to, scale } = view, font = ctx.colours.font(11, "ui", 600), said = fitting(texts, wide - 60, font), end = LEFT + wide, stop = end - textWidth(said, font) - 12;
    pen.fillStyle = colour("line2"); pen.fillRect(LEFT, y, wide, 1);
    text(pen, "µs", 12, y + 14, "ink3");
    const step = niceStep(to - from, wide);
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const x = LEFT + (t - from) * scale, number = Number(t.toPrecision(10)).toLocaleString("en");
      if (x + textWidth(number, ctx.colours.font(11)) / 2 > stop) break;
      pen.fillStyle = colour("ink3"); pen.fillRect(x, y, 1, 4);
      text(pen, number, x, y + 14, "ink3", ctx.colours.font(11), t === 0 ? "left" : "center");
    }
    text(pen, said, end, y + 14, "ink", font, "right");
  }

  /** The same program on another number of units: modelled, with an axis of its own. */
  function others(pen, more, y, width, height, lit) {
    const wide = width - LEFT - RIGHT, high = Math.min(2 * UNIT, Math.floor((height - SUMMARY - y - 18) / more.lanes)), view = { from: 0, to: more.total_us, scale: wide / more.total_us };
    if (high < 4) return;
    pen.fillStyle = colour("line"); pen.fillRect(0, y - 18, width, 1);
    text(pen, `${more.units} units`, 12, y - 4, "ink", ctx.colours.font(11, "ui", 600));
    const idle = Object.entries(more.shares).filter(([name]) => name !== "busy").sort((a, b) => b[1] - a[1])[0], named = Object.fromEntries(causes());
    const time = duration(more.total_us), busy = `${percent(more.shares.busy)} busy`, lost = idle ? `, most lost to ${named[idle[0]] ?? idle[0]}` : "";
    text(pen, fitting([`modelled (outlined and pale): ${time} on ${more.units} units, ${busy}${lost}`, `modelled: ${time}, ${busy}${lost}`, `modelled: ${time}, ${busy}`, `modelled, ${busy}`], wide, ctx.colours.font(11)), LEFT, y - 4, "ink2");
    for (let u = 0; u < more.lanes; u++) {
      const top = y + u * high;
      if (high > 9 || u % 2 === 0) text(pen, u < more.units ? `u${u}` : "host", 12, top + 9, "ink", ctx.colours.font(11, "mono"));
      pen.fillStyle = colour("tint"); pen.fillRect(44, top + high / 2 - 3, 30, 5);
      pen.fillStyle = colour("t2"); pen.fillRect(44, top + high / 2 - 3, 30 * more.busy[u], 5);
      pen.fillStyle = colour("app"); pen.fillRect(LEFT, top, wide, high - 1);
      gaps(pen, more, [[u, top]], high - 1, view);
      filled(pen, more, [[u, top]], high - 1, view, lit, true);
      outlined(pen, more, [[u, top + 0.5]], high - 2, view, new Set());
    }
    axis(pen, y + more.lanes * high + 1, wide, view, [`${time} modelled`, time]);
  }

  /** Busy and idle shares with their areas, adding up to all; where room is short without areas, then by short names. */
  function summary(pen, wall, width, height) {
    const y = height - SUMMARY + 5, named = Object.fromEntries(causes()), bar = width < 820 ? 72 : 130, plain = ctx.colours.font(11), bold = ctx.colours.font(11, "ui", 600);
    pen.fillStyle = colour("line"); pen.fillRect(0, y - 5, width, 1);
    text(pen, wall.kind, 12, y + 11, "ink", bold);
    const shares = Object.entries(wall.shares), idle = 1 - (wall.shares.busy ?? 1), left = LEFT + bar + 12;
    const lost = `idle ${percent(idle)}:`, first = textWidth(lost, plain) + 6;
    const words = short => shares.map(([name, share]) => `${(short ? SHORT[name] : named[name]) ?? name} ${percent(share)}`);
    const areas = shares.map(([name], i) => i ? ` ${duration(wall.areas_us[name])}` : "");
    const size = (said, i) => textWidth(said, i ? plain : bold) + (i ? 26 : 18) + (i === 1 ? first : 0), all = list => list.reduce((sum, said, i) => sum + size(said, i), left);
    const fits = [[words(false), areas], [words(true), areas], [words(false), []], [words(true), []]].find(([a, b]) => all(a.map((w, i) => w + (b[i] ?? ""))) < width - RIGHT) ?? [words(true), []];
    let x = LEFT, said = left, cut = false;
    shares.forEach(([name, share], i) => {
      pen.fillStyle = i ? named[name] ? ctx.colours.pattern(pen, `g-${name}`) : colour("tint") : colour("t2");
      pen.fillRect(x, y + 2, Math.max(0.5, share * bar - 0.5), 10);
      x += share * bar;
      if (i && said + size(fits[0][i], i) > width - (i < shares.length - 1 ? 20 : 0)) { if (!cut) text(pen, "…", said, y + 11, "ink2", plain); cut = true; return; } // a tip has them all
      if (i === 1) { text(pen, lost, said, y + 11, "ink2", plain); said += first; }
      if (i && named[name]) { // what the hatches of the wall mean
        pen.fillStyle = ctx.colours.pattern(pen, `g-${name}`, said); pen.fillRect(said, y + 2, 10, 10);
        pen.strokeStyle = colour("ink3"); pen.lineWidth = 0.6; pen.strokeRect(said, y + 2, 10, 10);
        said += 14;
      }
      text(pen, fits[0][i], said, y + 11, i ? "ink2" : "ink", i ? plain : bold);
      if (fits[1][i]) text(pen, fits[1][i], said + textWidth(fits[0][i], plain), y + 11, "ink3", plain);
      said += size(fits[0][i] + (fits[1][i] ?? ""), i) - (i ? 14 : 0) - (i === 1 ? first : 0);
    });
    pen.strokeStyle = colour("ink3"); pen.lineWidth = 0.8; pen.strokeRect(LEFT - 0.5, y + 1.5, bar + 1, 11);
  }

  /** All shares of a wall in words, for those that the summary has no room for. */
  function shares(wall) {
    const named = Object.fromEntries(causes());
    return Object.entries(wall.shares).map(([name, share]) => `${named[name] ?? name} ${percent(share)}${wall.areas_us[name] === undefined ? "" : `, ${duration(wall.areas_us[name])}`}`).join("\n");
  }

  return { text, shares, outlined, filled, gaps, waits, broken, names, cuts, axis, others, summary };
}

const SHORT = { dependency: "waiting", launch: "cut" }; // of causes, where room is short

function niceStep(span, wide) {
  const rough = span / Math.max(2, wide / 110), power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map(m => m * power).find(step => step >= rough);
}
