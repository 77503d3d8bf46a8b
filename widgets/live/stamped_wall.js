// The measured wall of a run in the page: the stamps of many runs, averaged, in the bytes that widgets/canvas/wall_data.js reads.
// One stamp is as coarse as the clock (100 µs in a page of a file); the mean over many runs is not, as they begin at random within a step.
import { clockStep, median, throttled } from "./measure.js";

/**
 * @typedef {{row: number, begin_us: number, end_us: number, error_us: number}} Brick a RUN: mean times from the begin of the run, without that of reading the clock; `error_us` is the standard error of its length, at least a step of the clock over all runs
 * @typedef {{bricks: Brick[], total_us: number, runs: number, dropped: number, left_out: number}} MeanRun `left_out` RUNs had no room for stamps
 */

const MOST_STAMPS = 1 << 16, LEAST_RUNS = 9, LATE_SHARE = 1.25, MOST_RUNS = 200_000, CLOCK_READS = 10_000; // chosen; a run that is later than a quarter was disturbed
const LAUNCH = 4, TAIL = 1, ALONE = 255; // positions in CAUSES of widgets/model/brick_wall.py; a block that is a single brick

/** Run a program with stamps for some seconds; return the mean of the runs that nothing disturbed. @returns {MeanRun} */
export function meanRun(runner, seconds, { now = () => performance.now(), tell = () => {} } = {}) {
  const stamps = { capacity: 0, count: 0, row: new Int32Array(0), begin: new Float64Array(0), end: new Float64Array(0) };
  runner.run(stamps);
  const needed = stamps.count, n = stamps.capacity = Math.min(needed, MOST_STAMPS), begin = now(), step = clockStep(now), hear = throttled(tell, now), first = [];
  Object.assign(stamps, { row: new Int32Array(n), begin: new Float64Array(n), end: new Float64Array(n) });
  const begins = new Float64Array(n), ends = new Float64Array(n), squares = new Float64Array(n);
  const once = () => { stamps.count = 0; const from = now(); runner.run(stamps); return [from, now() - from]; };
  while (first.length < LEAST_RUNS && now() - begin < 200 * seconds || !first.length) { hear(0); first.push(once()[1]); }
  const late = LATE_SHARE * median(first) + 2 * step;
  let runs = 0, dropped = 0, all = 0;
  for (let passed = 0; (passed < 1e3 * seconds || !runs) && runs < MOST_RUNS; passed = now() - begin) {
    hear(passed / (1e3 * seconds));
    const [from, time] = once();
    if (time > late && passed < 1e3 * seconds) { dropped++; continue; }
    for (let k = 0; k < n; k++) { begins[k] += stamps.begin[k] - from; ends[k] += stamps.end[k] - from; squares[k] += (stamps.end[k] - stamps.begin[k]) ** 2; }
    runs++; all += time;
  }
  const us = sum => 1e3 * sum / runs, cost = clockCost(now), bricks = [];
  let before = 0, free = 0; // ends of the last brick: as stamped, and without the clock's time
  for (let k = 0; k < n; k++) {
    const begin_us = free + Math.max(0, us(begins[k]) - before - cost), end_us = begin_us + Math.max(0, us(ends[k] - begins[k]) - cost);
    const variance = Math.max(0, squares[k] / runs - ((ends[k] - begins[k]) / runs) ** 2);
    bricks.push({ row: stamps.row[k], begin_us, end_us, error_us: 1e3 * Math.max(Math.sqrt(variance / runs), step / runs) });
    before = us(ends[k]); free = end_us;
  }
  return { bricks, total_us: free + Math.max(0, us(all) - before), runs, dropped, left_out: needed - n };
}

/** Microseconds that it takes to read the clock, once in each brick and once in each gap: the least of some batches. */
function clockCost(now) {
  let least = Infinity;
  for (let batch = 0; batch < 8; batch++) {
    const begin = now();
    for (let k = 1; k < CLOCK_READS; k++) now();
    least = Math.min(least, 1e3 * (now() - begin) / CLOCK_READS);
  }
  return least;
}

/** The RUN of each row over all launches: its launch, its call's name and nodes, its tasks. */
function runsOf(/** @type {import("./program.js").Program} */ program) {
  return program.launches.flatMap((launch, number) => launch.rows.map(([op, a, first, last]) => op === 0 ? { launch: number, call: launch.calls[a][2], nodes: launch.calls[a][3], first, last } : null));
}

/** Time of each call in a run, the longest first: [{name, nodes, times, us, error_us}]. */
export function callTimes(program, /** @type {MeanRun} */ mean) {
  const runs = runsOf(program), calls = new Map();
  for (const { row, begin_us, end_us, error_us } of mean.bricks) {
    const { call: name, nodes } = runs[row], sum = calls.get(name) ?? { name, nodes, times: 0, us: 0, error_us: 0 };
    calls.set(name, { name, nodes, times: sum.times + 1, us: sum.us + end_us - begin_us, error_us: Math.hypot(sum.error_us, error_us) });
  }
  return [...calls.values()].sort((a, b) => b.us - a.us);
}

/**
 * A wall as `pack_wall` of widgets/rammer/wall_slices.py makes it: its head and its bytes. One lane, every brick alone.
 * `known`: the rows [name, family, label, nodes] of the page's calls, which bricks name by position; others are appended, and then `head.calls` is there.
 */
export function packWall(program, /** @type {MeanRun} */ mean, known = []) {
  const runs = runsOf(program), calls = [...known], at = new Map(known.map(([name], k) => [name, k])), call = [], gaps = [], spans = new Map();
  let free = 0, busy = 0, launch = 0;
  const idle = (end, cause) => { if (end > free) gaps.push([free, end, cause]); };
  for (const { row, begin_us: begin, end_us: end } of mean.bricks) {
    const { call: name, nodes } = runs[row];
    if (!at.has(name)) { at.set(name, calls.length); calls.push([name, "layout", name, nodes.join(", ")]); }
    const number = at.get(name), span = spans.get(number) ?? { start: begin, end, busy: 0, bricks: 0 };
    spans.set(number, { start: Math.min(span.start, begin), end: Math.max(span.end, end), busy: span.busy + end - begin, bricks: span.bricks + 1 });
    idle(begin, LAUNCH);
    launch += Math.max(0, begin - free); busy += end - begin; free = end;
    call.push(number);
  }
  idle(mean.total_us, TAIL);
  const parts = [], column = (Type, values) => parts.push(new Uint8Array(Type.from(values).buffer)), bricks = mean.bricks, total = mean.total_us, tail = Math.max(0, total - free);
  const sorted = [...spans].sort(([a], [b]) => a - b), zeros = bricks.map(() => 0);
  column(Uint32Array, sorted.map(([number]) => number));
  for (const key of ["start", "end", "busy"]) column(Float32Array, sorted.map(([, span]) => span[key]));
  column(Uint32Array, sorted.map(([, span]) => span.bricks));
  column(Uint32Array, zeros); column(Float32Array, bricks.map(b => b.begin_us)); column(Float32Array, bricks.map(b => b.end_us)); column(Uint32Array, call);
  column(Uint32Array, bricks.map(b => runs[b.row].first)); column(Uint32Array, bricks.map(b => runs[b.row].last - 1)); column(Uint32Array, bricks.map(b => runs[b.row].launch)); column(Float32Array, bricks.map(() => NaN));
  column(Uint32Array, gaps.map(() => 0)); column(Float32Array, gaps.map(([begin]) => begin)); column(Float32Array, gaps.map(([, end]) => end));
  column(Uint32Array, bricks.map(() => 1)); column(Uint8Array, bricks.map(() => ALONE)); column(Uint8Array, gaps.map(([, , cause]) => cause));
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((offset, part) => { bytes.set(part, offset); return offset + part.length; }, 0);
  const areas = Object.fromEntries([["busy", busy], ["tail", tail], ["launch", launch]].filter(([name, us]) => us > 0 || name === "busy"));
  const slice = { from: 0, to: total, least_us: 0, group: 1, lanes: 1, blocks: bricks.length, singles: bricks.length, gaps: gaps.length, waits: 0, all_waits: true };
  const head = {
    kind: "measured", said: "measured in this browser", units: 1, total_us: total, bricks: bricks.length, cuts_us: [], device: program.device, policy: "", areas_us: areas,
    shares: Object.fromEntries(Object.entries(areas).map(([name, us]) => [name, total ? us / total : 0])), busy: [total ? busy / total : 0], launch_us: launch, spans: sorted.length, slice,
  };
  return { head: calls.length > known.length ? { ...head, calls } : head, bytes };
}
