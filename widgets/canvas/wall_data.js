// A wall as slices of typed columns (widgets/rammer/wall_slices.py): what is where, found by binary search, so that a million bricks
// cost what a screen shows.

/** A wall as it is first told of: `head` is its description, `view` its bytes. `base` is a slice of all of it. */
export function decodeWall(head, view) {
  // A copy of its own: a typed array needs an aligned start.
  const bytes = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength), n = head.spans;
  const column = (Type, i) => new Type(bytes, 4 * n * i, n);
  const call = column(Uint32Array, 0), start = column(Float32Array, 1), end = column(Float32Array, 2), busy = column(Float32Array, 3), bricks = column(Uint32Array, 4), spans = new Map();
  for (let i = 0; i < n; i++) spans.set(call[i], { start: start[i], end: end[i], busy: busy[i], bricks: bricks[i] });
  const base = columns(head.slice, bytes, 20 * n);
  return { ...head, n: head.bricks, spans, base, near: null, asked: null, lanes: base.lanes, group: base.group };
}

/** A slice that was asked for. */
export const decodeSlice = (head, view) => columns(head, view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength), 0);

function columns(head, bytes, at) {
  const { blocks: n, singles: k, waits: w, gaps: m } = head;
  const take = (Type, count) => { const found = new Type(bytes, at, count); at += count * Type.BYTES_PER_ELEMENT; return found; };
  const times = count => Float64Array.from(take(Float32Array, count), t => t + head.from);
  const lane = take(Uint32Array, n), start = times(n), end = times(n), call = take(Uint32Array, n);
  const single = { first: take(Uint32Array, k), last: take(Uint32Array, k), launch: take(Uint32Array, k), twin: take(Float32Array, k) };
  const waits = { n: w, fromUnit: take(Uint32Array, w), fromEnd: times(w), fromCall: take(Uint32Array, w), toUnit: take(Uint32Array, w), toStart: times(w), toCall: take(Uint32Array, w) };
  const gapLane = take(Uint32Array, m), gapStart = times(m), gapEnd = times(m);
  const bricks = take(Uint32Array, n), share = take(Uint8Array, n), cause = take(Uint8Array, m), alone = new Int32Array(n);
  for (let i = 0, j = 0; i < n; i++) alone[i] = share[i] === 255 ? j++ : -1;
  const slice = { ...head, n, m, lane, start, end, call, single, waits, bricks, share, alone, gapStart, gapEnd, cause, exact: head.least_us === 0 };
  slice.rows = ranges(lane, head.lanes);
  slice.gapRows = ranges(gapLane, head.lanes);
  slice.runs = runsOf(slice);
  return slice;
}

/** Where each lane's entries begin, and the end of the last. */
function ranges(lane, lanes) {
  const from = new Uint32Array(lanes + 1);
  for (let i = 0; i < lane.length; i++) from[lane[i] + 1]++;
  for (let u = 0; u < lanes; u++) from[u + 1] += from[u];
  return from;
}

/** Neighbours of one lane and one call: `block[r]` is where run r begins; `rows` where each lane's runs begin. */
function runsOf(slice) {
  const block = [], rows = new Uint32Array(slice.lanes + 1);
  for (let u = 0; u < slice.lanes; u++) {
    rows[u] = block.length;
    for (let i = slice.rows[u]; i < slice.rows[u + 1]; i++)
      if (i === slice.rows[u] || slice.call[i] !== slice.call[i - 1] || slice.group > 1) block.push(i);
  }
  rows[slice.lanes] = block.length;
  block.push(slice.n);
  const count = block.length - 1, end = new Float64Array(count);
  for (let r = 0; r < count; r++) end[r] = slice.end[block[r + 1] - 1];
  return { block: Uint32Array.from(block), end, rows };
}

/** The first entry of `from .. to` whose end is after `t`. */
export function firstAfter(ends, from, to, t) {
  while (from < to) {
    const middle = (from + to) >> 1;
    if (ends[middle] <= t) from = middle + 1; else to = middle;
  }
  return from;
}

/** The block of a lane at a time, or -1. */
export function blockAt(slice, lane, t, slack = 0) {
  const to = slice.rows[lane + 1], i = firstAfter(slice.end, slice.rows[lane], to, t);
  for (const j of [i, i - 1])
    if (j >= slice.rows[lane] && j < to && slice.start[j] - slack <= t && t < slice.end[j] + slack) return j;
  return -1;
}

/** The gap of a lane at a time, or -1. */
export function gapAt(slice, lane, t) {
  const to = slice.gapRows[lane + 1], i = firstAfter(slice.gapEnd, slice.gapRows[lane], to, t);
  return i < to && slice.gapStart[i] <= t ? i : -1;
}

/**
 * What a lane shows between two times at `scale` pixels a microsecond, from `origin`: `each(x0, x1, call, block)` for each
 * block, or for a run of thin ones (block -1). The work grows with the pixels, not with the bricks.
 */
export function eachBlock(slice, lane, from, to, origin, scale, each) {
  const { block, end, rows } = slice.runs;
  const x = t => (t - origin) * scale;
  let r = firstAfter(end, rows[lane], rows[lane + 1], from);
  while (r < rows[lane + 1] && slice.start[block[r]] < to) {
    const first = block[r], stop = block[r + 1], x0 = x(slice.start[first]), x1 = x(end[r]), call = slice.call[first];
    if (stop - first === 1 && x1 - x0 >= 1) { each(x0, x1, call, first); r++; continue; }
    if ((x1 - x0) / (stop - first) >= 1) {
      for (let i = firstAfter(slice.end, first, stop, from); i < stop && slice.start[i] < to; i++)
        each(x(slice.start[i]), x(slice.end[i]), call, i);
      r++;
    } else {
      each(x0, Math.max(x1, x0 + 1), call, -1);
      // Runs that end inside of the same pixel are not looked at one by one.
      r = x1 - x0 >= 1 ? r + 1 : Math.max(r + 1, firstAfter(end, r + 1, rows[lane + 1], origin + (Math.floor(x0) + 1) / scale));
    }
  }
}

/** The slices that show a wall between two times: the near one as far as it goes, what is known of all else where. */
export function parts(wall, from, to) {
  const { near, base } = wall;
  if (!near || near.to <= from || near.from >= to || base.exact) return [[base, from, to]];
  const found = [];
  if (from < near.from) found.push([base, from, near.from]);
  found.push([near, Math.max(from, near.from), Math.min(to, near.to)]);
  if (to > near.to) found.push([base, near.to, to]);
  return found;
}

const MARGIN = 0.6, GUARD = 0.2; // of a view: what is asked for beside it, and what of that must be left

/** The window to ask for, or null where what is known shows the view well. Of too many waits those of the calls `lit` are asked for. */
export function wanted(wall, from, to, wide, lit = []) {
  const { near, base } = wall, span = to - from, pixel = span / wide, all = wall.total_us;
  const short = base.group === 1 && !base.all_waits && lit.length > 0;
  if (!short && (base.exact || base.least_us <= pixel * 1.01 && base.lanes)) return null;
  if (near?.asked && (!short || String(near.asked.lit) === String(lit))) {
    const { start, end, per } = near.asked;
    const covered = (start <= 0 || from - span * GUARD >= start) && (end >= all || to + span * GUARD <= end);
    if (covered && pixel <= per * 1.6 && (pixel >= per * 0.6 || near.exact)) return null;
  }
  const start = Math.max(0, from - span * MARGIN), end = Math.min(all, to + span * MARGIN);
  return { start, end, per: pixel, pixels: Math.ceil((end - start) / pixel), lit };
}
