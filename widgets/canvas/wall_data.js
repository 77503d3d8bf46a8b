// A wall as typed columns: what is where, found by binary search, so that a million bricks cost what a screen shows.

/** The columns of a wall: `head` is its description, `view` its bytes (widgets/brick_wall.py, `packed`). */
export function decodeWall(head, view) {
  const n = head.bricks, m = head.gaps;
  // A slice of its own: a typed array needs an aligned start.
  const bytes = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
  let at = 0;
  const take = (Type, count) => { const column = new Type(bytes, at, count); at += count * 4; return column; };
  const wall = {
    ...head, n, m,
    unit: take(Uint32Array, n), start: take(Float32Array, n), end: take(Float32Array, n),
    call: take(Uint32Array, n), first: take(Uint32Array, n), last: take(Uint32Array, n),
    gapUnit: take(Uint32Array, m), gapStart: take(Float32Array, m), gapEnd: take(Float32Array, m), cause: take(Uint32Array, m),
  };
  wall.rows = ranges(wall.unit, head.units);
  wall.gapRows = ranges(wall.gapUnit, head.units);
  wall.runs = runsOf(wall);
  wall.spans = spansOf(wall);
  return wall;
}

/** Where each unit's entries begin, and the end of the last. */
function ranges(unit, units) {
  const from = new Uint32Array(units + 1);
  for (let i = 0; i < unit.length; i++) from[unit[i] + 1]++;
  for (let u = 0; u < units; u++) from[u + 1] += from[u];
  return from;
}

/** Neighbours of one unit and one call: `brick[r]` is where run r begins; `rows` where each unit's runs begin. */
function runsOf(wall) {
  const brick = [], rows = new Uint32Array(wall.units + 1);
  for (let u = 0; u < wall.units; u++) {
    rows[u] = brick.length;
    for (let i = wall.rows[u]; i < wall.rows[u + 1]; i++)
      if (i === wall.rows[u] || wall.call[i] !== wall.call[i - 1]) brick.push(i);
  }
  rows[wall.units] = brick.length;
  brick.push(wall.n);
  const count = brick.length - 1, end = new Float32Array(count);
  for (let r = 0; r < count; r++) end[r] = wall.end[brick[r + 1] - 1];
  return { brick: Uint32Array.from(brick), end, rows };
}

/** For each call its first start, last end and bricks. */
function spansOf(wall) {
  const spans = new Map();
  for (let i = 0; i < wall.n; i++) {
    const span = spans.get(wall.call[i]);
    if (!span) spans.set(wall.call[i], { start: wall.start[i], end: wall.end[i], bricks: 1 });
    else { span.start = Math.min(span.start, wall.start[i]); span.end = Math.max(span.end, wall.end[i]); span.bricks++; }
  }
  return spans;
}

/** The first entry of `from .. to` whose end is after `t`. */
export function firstAfter(ends, from, to, t) {
  while (from < to) {
    const middle = (from + to) >> 1;
    if (ends[middle] <= t) from = middle + 1; else to = middle;
  }
  return from;
}

/** The brick of a unit at a time, or -1. */
export function brickAt(wall, unit, t, slack = 0) {
  const to = wall.rows[unit + 1], i = firstAfter(wall.end, wall.rows[unit], to, t);
  for (const j of [i, i - 1])
    if (j >= wall.rows[unit] && j < to && wall.start[j] - slack <= t && t < wall.end[j] + slack) return j;
  return -1;
}

/** The gap of a unit at a time, or -1. */
export function gapAt(wall, unit, t) {
  const to = wall.gapRows[unit + 1], i = firstAfter(wall.gapEnd, wall.gapRows[unit], to, t);
  return i < to && wall.gapStart[i] <= t ? i : -1;
}

/**
 * What a lane shows between two times at `scale` pixels a microsecond: `block(x0, x1, call, brick)` for each brick, or for
 * a run of thin ones (brick -1). The work grows with the pixels, not with the bricks.
 */
export function eachBlock(wall, unit, from, to, scale, block) {
  const { brick, end, rows } = wall.runs;
  const x = t => (t - from) * scale;
  let r = firstAfter(end, rows[unit], rows[unit + 1], from);
  while (r < rows[unit + 1] && wall.start[brick[r]] < to) {
    const first = brick[r], stop = brick[r + 1], x0 = x(wall.start[first]), x1 = x(end[r]), call = wall.call[first];
    if ((x1 - x0) / (stop - first) >= 1) {
      for (let i = firstAfter(wall.end, first, stop, from); i < stop && wall.start[i] < to; i++)
        block(x(wall.start[i]), x(wall.end[i]), call, i);
      r++;
    } else {
      block(x0, Math.max(x1, x0 + 1), call, -1);
      // Runs that end inside of the same pixel are not looked at one by one.
      r = x1 - x0 >= 1 ? r + 1 : Math.max(r + 1, firstAfter(end, r + 1, rows[unit + 1], from + (Math.floor(x0) + 1) / scale));
    }
  }
}
