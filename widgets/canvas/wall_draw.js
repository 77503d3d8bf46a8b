// What is painted of a wall: lanes of bricks and gaps, waits, cuts, the axis, and the shares of time.
import { clamp, duration, fit, textWidth, percent } from "./dom.js";
import { eachBlock, parts } from "./wall_data.js";

export const LEFT = 64;
export const NAMES = 32; // above one wall
export const TRACK = 48; // above each of two
export const AXIS = 28;
const MOST_ARROWS = 400, FAINT = 0.24;

/** The painter of a canvas. `ctx`: host, colours, litCalls, selected. `stats.blocks` counts what was painted; `now.keys`: the words that are lit. */
export function wallPainter(ctx, stats, now) {
  const colour = token => ctx.colours.colour(token);
  const causes = () => ctx.host.get("causes");
  const callsOf = wall => wall.calls ?? ctx.host.get("calls") ?? [];
  /** How strongly something is painted of which these are the words. */
  const strength = words => !now.keys.length || now.keys.some(all => all.every(word => words.includes(word))) ? 1 : FAINT;

  function text(pen, said, x, y, token, font = ctx.colours.font(13), align = "left") {
    pen.font = font; pen.fillStyle = colour(token); pen.textAlign = align;
    pen.fillText(said, x, y);
  }

  /** Tasks of lanes: a fill per family and fullness, collected so that each colour is set once; `pale` and dashed where they are predicted. */
  function filled(pen, wall, rows, high, view, lit, pale) {
    const { from, to, scale } = view, known = callsOf(wall), shapes = new Map(), seams = new Path2D(), edges = new Path2D(), labels = [], widest = new Map(), grouped = wall.group > 1;
    let before = -1;
    for (const [slice, a, b] of parts(wall, from, to)) for (const [lane, y] of rows)
      eachBlock(slice, lane, a, b, from, scale, (x0, x1, call, i) => {
        stats.blocks++;
        const family = known[call]?.[1] ?? "layout", on = lit.has(call), full = grouped && i >= 0 && slice.share[i] < 255 ? Math.ceil(slice.share[i] / 32) : 8, key = `${full}${on ? "+" : "-"}${family}`;
        if (!shapes.has(key)) shapes.set(key, new Path2D());
        const left = Math.max(x0, (a - from) * scale, -4), right = Math.min(x1, (b - from) * scale + 4), wide = Math.max(0.8, right - left);
        shapes.get(key).rect(LEFT + left, y, wide, high);
        if (pale && high >= 6 && wide >= 5) edges.rect(LEFT + left + 0.5, y + 0.5, wide - 1, high - 1);
        else if (i >= 0 && high >= 4 && slice.alone[i] >= 0) { if (x1 - x0 >= 4) seams.rect(LEFT + x1 - 1, y, 1, high); else if (call !== before && x1 - x0 >= 2) seams.rect(LEFT + x0, y, 0.6, high); }
        before = call;
        if (high < 16 || wide < 20) return;
        if (on && i >= 0 && slice.alone[i] >= 0) labels.push([numbers(slice.single, slice.alone[i]), left, wide, y, true]);
        else if (!on && (widest.get(call)?.[2] ?? 0) < wide) widest.set(call, [known[call]?.[0] ?? "", left, wide, y, false]);
      });
    const shift = LEFT - from * scale % 60;
    for (const [key, shape] of shapes) {
      const on = key[1] === "+", family = key.slice(2);
      pen.globalAlpha = (pale ? on ? 0.8 : 0.4 : 1) * Number(key[0]) / 8 * strength(["core", "busy", `fam:${family}`, ...(on ? ["op"] : [])]);
      pen.fillStyle = on ? colour("accent") : high < 4 ? colour(`f-${family.replace(/ /g, "-")}`) : ctx.colours.pattern(pen, `f-${family.replace(/ /g, "-")}`, shift);
      pen.fill(shape);
    }
    pen.globalAlpha = 1;
    pen.fillStyle = colour("pane"); pen.fill(seams);
    if (pale) { pen.strokeStyle = colour("ink2"); pen.lineWidth = 1; pen.setLineDash([3, 2]); pen.stroke(edges); pen.setLineDash([]); }
    const font = ctx.colours.font(13), bold = ctx.colours.font(13, "ui", 600);
    for (const [said, left, wide, y, on] of [...widest.values(), ...labels]) {
      if (textWidth(said, on ? bold : font) > wide - 8) continue;
      const x = LEFT + left + wide / 2, base = y + high / 2 + 5;
      pen.globalAlpha = strength(["core", "busy", ...(on ? ["op"] : [])]);
      if (on && !pale) { text(pen, said, x, base, "pane", bold, "center"); continue; }
      pen.font = on ? bold : font; pen.textAlign = "center"; pen.lineWidth = 3; pen.lineJoin = "round"; pen.strokeStyle = colour("halo"); pen.strokeText(said, x, base);
      text(pen, said, x, base, "ink", on ? bold : font, "center");
    }
    pen.globalAlpha = 1;
  }
  const numbers = (single, j) => single.first[j] === single.last[j] ? `${single.first[j]}` : `${single.first[j]}–${single.last[j]}`;

  /** Gaps of lanes, hatched by cause. */
  function gaps(pen, wall, rows, high, view) {
    const { from, to, scale } = view, shapes = new Map();
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
      }
    }
    for (const [cause, shape] of shapes) { const [name] = causes()[cause]; pen.globalAlpha = strength(["core", "idle", name]); pen.fillStyle = ctx.colours.pattern(pen, `g-${name}`); pen.fill(shape); }
    pen.globalAlpha = 1;
  }

  /** Barriers: a hatched bar before the brick that waits, and an arrow from the last one that it waits for; of many those of the selection. */
  function waits(pen, wall, spot, view, lit) {
    if (wall.group > 1) return 0;
    const { from, to, scale } = view, slice = wall.near && !(wall.base.exact && wall.base.all_waits) && wall.near.from <= from && wall.near.to >= Math.min(to, wall.total_us) ? wall.near : wall.base, w = slice.waits;
    const seen = [];
    for (let i = 0; i < w.n; i++) if (w.toStart[i] >= from && w.fromEnd[i] <= to) seen.push(i);
    const all = (to - from) * scale;
    const drawn = seen.filter(i => lit.has(w.toCall[i]) || lit.has(w.fromCall[i])).slice(0, MOST_ARROWS);
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

  function arrow(pen, x0, y0, x1, y1, token, wide, straight = false) {
    pen.strokeStyle = pen.fillStyle = colour(token); pen.lineWidth = wide;
    const bow = Math.max(10, Math.abs(x1 - x0) / 2), turn = Math.atan2((y1 - y0) * 0.6, Math.max(bow, 1));
    pen.beginPath(); pen.arc(x0, y0, 1.6 + wide / 3, 0, 7); pen.fill();
    pen.beginPath(); pen.moveTo(x0, y0); if (straight) pen.lineTo(x1 - 4 * Math.sign(x1 - x0), y1); else pen.bezierCurveTo(x0 + bow, y0, x1 - bow, y1, x1 - 4, y1);
    pen.stroke();
    pen.save(); pen.translate(x1, y1); pen.rotate(straight ? x1 < x0 ? Math.PI : 0 : turn * 0.25);
    pen.beginPath(); pen.moveTo(0, 0); pen.lineTo(-7, -3.4); pen.lineTo(-7, 3.4); pen.fill(); pen.restore();
  }

  /** Over a wall: what it is, where `words` say so, the selected operator with its bracket, and the names of others where they fit. */
  function head(pen, { wall, y, pale }, at, view, lit, words) {
    const { from, scale } = view, { colours } = ctx, wide = at.wide, font = colours.font(13), bold = colours.font(13, "ui", 600), line = y - 14, known = callsOf(wall);
    while (words.includes(", ") && textWidth(words, bold) > LEFT + wide) words = words.slice(0, words.lastIndexOf(", ")); // what matters less is left out
    if (words) text(pen, fit(words, LEFT + wide, bold), 0, y - 33, "ink", bold);
    const spans = [...wall.spans].map(([call, span]) => ({ call, bricks: span.bricks, us: span.end - span.start, x0: (span.start - from) * scale, x1: (span.end - from) * scale })).filter(span => span.x1 > 0 && span.x0 < wide), mine = spans.filter(span => lit.has(span.call));
    let taken = [-1, -1];
    pen.globalAlpha = strength(["op"]);
    pen.strokeStyle = colour("accent"); pen.lineWidth = 2;
    for (const span of mine) { const a = LEFT + Math.max(span.x0, 0), b = LEFT + Math.min(span.x1, wide); pen.beginPath(); pen.moveTo(a + 1, y - 4); pen.lineTo(a + 1, y - 8); pen.lineTo(Math.max(b - 1, a + 3), y - 8); pen.lineTo(Math.max(b - 1, a + 3), y - 4); pen.stroke(); }
    if (mine.length) {
      const tasks = mine.reduce((sum, s) => sum + s.bricks, 0), us = Math.max(...mine.map(s => s.x1)) - Math.min(...mine.map(s => s.x0)), name = ctx.selected();
      const said = [`${name} · ${tasks.toLocaleString("en")} task${tasks === 1 ? "" : "s"} · ${duration(us / scale)}`, `${name} · ${duration(us / scale)}`, name].find(s => textWidth(s, bold) <= wide) ?? fit(name, wide, bold), size = textWidth(said, bold);
      const middle = (Math.max(mine[0].x0, 0) + Math.min(mine[0].x1, wide)) / 2, x = clamp(middle - size / 2, 0, Math.max(0, wide - size));
      text(pen, said, LEFT + x, line, "accent", bold);
      taken = [x - 12, x + size + 12];
    }
    pen.globalAlpha = strength([]);
    let last = 0;
    for (const span of spans.filter(s => !lit.has(s.call) && s.x1 - s.x0 > 24).sort((a, b) => a.x0 - b.x0).slice(0, 400)) {
      const name = known[span.call]?.[0] ?? "", size = textWidth(name, font), middle = (Math.max(span.x0, 0) + Math.min(span.x1, wide)) / 2, x = middle - size / 2;
      if (span.x1 - span.x0 < size + 8 || x < last || x < taken[1] && x + size > taken[0] || x + size > wide) continue;
      text(pen, name, LEFT + x, line, "ink3", font);
      last = x + size + 12;
    }
    pen.globalAlpha = 1;
  }

  /** Where one launch ends and the next begins: a bar over all cores. */
  function cuts(pen, wall, top, bottom, wide, { from, to, scale }) {
    const thin = wide / Math.max(1, wall.cuts_us.length) < 8;
    pen.globalAlpha = strength(["core", "idle", "launch"]); pen.fillStyle = colour("bar");
    for (const cut of wall.cuts_us) if (cut > from && cut < to) pen.fillRect(LEFT + (cut - from) * scale - 1, top - 2, thin ? 0.6 : 3, bottom - top + 4);
    pen.globalAlpha = 1;
  }

  /** The head of a wall that is built. */
  function head_line(pen, x, top, bottom) { pen.fillStyle = colour("accent"); pen.fillRect(x - 1, top, 2, bottom - top); }

  /** The baseline over now: where each ends, and how far they are apart. */
  function beside(pen, at, { from, scale }) {
    const [a, b] = at.tracks, xa = LEFT + (a.wall.total_us - from) * scale, xb = LEFT + (b.wall.total_us - from) * scale, by = b.wall.total_us - a.wall.total_us, ratio = b.wall.total_us / a.wall.total_us;
    pen.strokeStyle = colour("ink"); pen.lineWidth = 2;
    pen.setLineDash([4, 4]); pen.beginPath(); pen.moveTo(xa, a.y - 4); pen.lineTo(xa, b.end); pen.stroke(); pen.setLineDash([]);
    pen.beginPath(); pen.moveTo(xb, a.y - 4); pen.lineTo(xb, b.end); pen.stroke();
    const bold = ctx.colours.font(16, "ui", 600), said = `${by > 0 ? "+" : "−"}${duration(Math.abs(by))}`, times = `${ratio.toFixed(2)}×`, wide = Math.max(textWidth(said, bold), textWidth(times, ctx.colours.font(13))), room = Math.abs(xa - xb), middle = (a.y + a.end) / 2;
    const shorter = by > 0 ? a : b, x = room > wide + 16 ? (xa + xb) / 2 : Math.min(xa, xb) - wide / 2 - 10, y = by > 0 ? middle : (b.y + b.end) / 2;
    if (room > 24) arrow(pen, xa + (by > 0 ? 3 : -3), y, xb + (by > 0 ? -3 : 3), y, "ink", 2, true);
    pen.fillStyle = colour("pane"); pen.fillRect(x - wide / 2 - 4, y - 26, wide + 8, room > wide + 16 ? 22 : 44);
    text(pen, said, x, y - 9, "ink", bold, "center");
    if (room > wide + 16) { pen.fillStyle = colour("pane"); pen.fillRect(x - wide / 2 - 4, y + 5, wide + 8, 20); text(pen, times, x, y + 20, "ink", ctx.colours.font(13), "center"); } else text(pen, times, x, y + 12, "ink", ctx.colours.font(13), "center");
  }

  /** The axis of time, with what the wall takes at its end where that is told. */
  function axis(pen, y, wide, view, ends) {
    const { from, to, scale } = view, bold = ctx.colours.font(13, "ui", 600), font = ctx.colours.font(13), end = LEFT + wide, step = niceStep(to - from, wide), [unit, per] = to - from >= 1e6 ? ["s", 1e6] : to - from >= 1e4 ? ["ms", 1e3] : ["µs", 1];
    const said = ends && from === 0 ? ends : unit, stop = end - textWidth(said, bold) - 10;
    pen.fillStyle = colour("edge"); pen.fillRect(LEFT, y, wide, 1);
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const x = LEFT + (t - from) * scale, number = Number((t / per).toPrecision(10)).toLocaleString("en");
      pen.fillStyle = colour("edge"); pen.fillRect(x, y, 1, 4);
      if (x + textWidth(number, font) / 2 <= stop) text(pen, number, x, y + 18, "ink2", font, t === 0 ? "left" : "center");
    }
    text(pen, said, end, y + 18, "ink", bold, "right");
  }

  /** All shares of a wall in words. */
  function shares(wall) {
    const named = Object.fromEntries(causes());
    return Object.entries(wall.shares).map(([name, share]) => `${named[name] ?? name} ${percent(share)}${wall.areas_us[name] === undefined ? "" : `, ${duration(wall.areas_us[name])}`}`).join("\n");
  }

  return { text, filled, gaps, waits, broken, head, cuts, head_line, beside, axis, shares };
}

function niceStep(span, wide) {
  const rough = span / Math.max(2, wide / 90), power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map(m => m * power).find(step => step >= rough);
}
