// Honest times: works take turns on one clock, so that disturbances affect all alike; a verdict may be "not distinguishable".
// Statistics and words are those of explorer/measure/compare.py and turns.py: medians of turns, and a 99 % interval of the median of the rounds'
// ratios from order statistics. What differs is the clock: a page of a file has steps of 100 µs. A sample lasts many of them, but not too many, as
// a long one is preempted more often. Its number of calls varies at random by a tenth, and up to half a step is added to or taken from its time:
// otherwise times lie on a lattice, and a median, unlike a mean, stays on one of its points.

/**
 * @typedef {(calls: number) => void | Promise<void>} Work runs something that many times
 * @typedef {{work: Work, calls: number, samples: number, settles: boolean, length: number, step: number, turns: number[][]}} Series times in milliseconds a call
 * @typedef {{median_us: number, low_us: number, high_us: number, n: number}} Measurement
 * @typedef {{ratio: number, low: number, high: number, n: number, verdict: string, wide: boolean, first: Measurement, second: Measurement}} Comparison
 */

export const NONE = "not distinguishable";
const RESOLUTION_SHARE = 0.01, CONFIDENCE = 0.99, BATCHES = 16, WIDE_RATIO = 1.1; // of compare.py
const SETTLE_MS = 1, TURN_MS = 3, SAMPLE_MS = 0.05, LONG_MS = 20, LEAST_TO_MEASURE = 8, LEAST_TO_COMPARE = 20, MOST_ROUNDS = 4096, FAR_TIMES = 3, MOST_TIMES_LONGER = 3; // of turns.py
const STEPS = 10, FEW_CALLS = 10, FINE_MS = 0.001, DITHER = 0.1; // steps in a sample, twice as many in one of few calls; a fine clock needs no dither; chosen
const LEAST_SAMPLES = 5; // in a turn on a coarse clock; chosen
const LEAST_WARM_MS = 100, STILL_SHARE = 0.03, STILL_BATCHES = 3; // until the browser's optimising compiler has come; chosen
const TELL_MS = 50;

export function median(values) {
  const sorted = Float64Array.from(values).sort(), n = sorted.length;
  return (sorted[(n - 1) >> 1] + sorted[n >> 1]) / 2;
}

/** How many of `n` values may lie outside of the interval at either end: the sign test's bound. */
function outside(n) {
  const allowed = Math.floor((1 - CONFIDENCE) / 2 * 2 ** n);
  let below = 0, ways = 1, rank = 0;
  while ((below += ways) <= allowed) { ways = ways * (n - rank) / (rank + 1); rank++; }
  return Math.max(0, rank - 1);
}

/** The median and its 99 % interval; a long series counts as 16 values, the medians of its consecutive parts. */
export function medianInterval(/** @type {number[]} */ series) {
  const middle = median(series), n = series.length;
  let values = series;
  if (n >= 2 * BATCHES) {
    const size = Math.floor(n / BATCHES), longer = n % BATCHES, begin = k => k * size + Math.min(k, longer);
    values = Array.from({ length: BATCHES }, (_, k) => median(series.slice(begin(k), begin(k + 1))));
  }
  const sorted = Float64Array.from(values).sort(), rank = outside(sorted.length);
  return { median: middle, low: Math.min(sorted[rank], middle), high: Math.max(sorted[sorted.length - 1 - rank], middle) };
}

/** The verdict on the work in the denominator of a ratio of times. */
export function verdict(ratio, low, high) {
  if (low > 1 && ratio > 1 + RESOLUTION_SHARE) return "faster";
  return high < 1 && ratio < 1 / (1 + RESOLUTION_SHARE) ? "slower" : NONE;
}

/** The time of one work from its turns. @returns {Measurement} */
export function measurement(/** @type {Series} */ series) {
  const { low, high } = medianInterval(series.turns.map(median)), calls = series.turns.flat(), middle = median(calls);
  return { median_us: middle * 1e3, low_us: Math.min(low, middle) * 1e3, high_us: Math.max(high, middle) * 1e3, n: calls.length * series.calls };
}

/** The first work against the second, round by round; `ratio` is the second's time over the first's. @returns {Comparison} */
export function comparison(/** @type {Series} */ first, /** @type {Series} */ second) {
  const rounds = Math.min(first.turns.length, second.turns.length), time = turn => Math.max(1e-6, median(turn));
  const logs = Array.from({ length: rounds }, (_, k) => Math.log(time(second.turns[k]) / time(first.turns[k])));
  const found = medianInterval(logs), ratio = Math.exp(found.median), low = Math.exp(found.low), high = Math.exp(found.high);
  return { ratio, low, high, n: rounds, verdict: verdict(ratio, low, high), wide: high > WIDE_RATIO * low, first: measurement(first), second: measurement(second) };
}

/** The smallest step of a clock in milliseconds, from the steps that it makes within `most` milliseconds. */
export function clockStep(now, most = 3) {
  const begin = now();
  let before = begin, least = Infinity;
  while (before - begin < most) {
    const after = now();
    if (after > before) least = Math.min(least, after - before);
    before = after;
  }
  return least;
}

/** Orders of `count` works that are balanced for position and predecessor (Williams 1949); AB, BA for two. */
export function balancedOrders(count) {
  const zigzag = Array.from({ length: count }, (_, n) => n % 2 ? (n + 1) / 2 : (count - n / 2) % count);
  const rows = zigzag.map((_, shift) => zigzag.map(n => (n + shift) % count));
  return count % 2 && count > 1 ? [...rows, ...rows.map(row => [...row].reverse())] : rows;
}

/** Pass on at most one share of the progress in `TELL_MS`. */
export function throttled(tell, now) {
  let last = -Infinity;
  return share => { if (now() - last >= TELL_MS) { last = now(); tell(Math.min(1, share)); } };
}

async function timed(work, calls, now) {
  const begin = now(), pending = work(calls);
  if (pending) await pending;
  return now() - begin;
}

/** Run a work until it is warm: longer and longer batches, until the last few were no faster than those before. @returns {Promise<Series>} */
const warmed = async (work, sample, patience, step, now, hear) => {
  const begin = now();
  let calls = 1, batches = 0, still = 0, length = Infinity, passed = 0;
  while (batches < 2 || passed < patience && (passed < LEAST_WARM_MS || still < STILL_BATCHES)) {
    hear(0);
    const time = await timed(work, calls, now);
    passed = now() - begin;
    if (time < sample && 2 * time < patience) { calls *= time > sample / 8 ? Math.ceil(1.2 * sample / time) : 4; continue; }
    still = time / calls < (1 - STILL_SHARE) * length ? 0 : still + 1;
    length = Math.min(length, time / calls);
    batches++;
  }
  length = Math.max(length, 1e-6);
  calls = Math.max(1, Math.ceil(sample / length));
  if (step > FINE_MS && calls < FEW_CALLS) calls = Math.ceil(2 * sample / length);
  const samples = Math.max(1, Math.floor(TURN_MS / (calls * length)), step > FINE_MS && length < LONG_MS ? LEAST_SAMPLES : 1);
  return { work, calls, samples, settles: length < LONG_MS, length, step: step > FINE_MS ? step : 0, turns: [] };
};

/** Add one turn to a series: some untimed calls, then its samples. */
const takeTurn = async (/** @type {Series} */ series, now, random) => {
  if (series.settles) await timed(series.work, Math.max(1, Math.round(SETTLE_MS / series.length)), now);
  const turn = [];
  for (let k = 0; k < series.samples; k++) {
    const calls = series.step ? Math.max(1, Math.round(series.calls * (1 + DITHER * (2 * random() - 1)))) : series.calls;
    turn.push((await timed(series.work, calls, now) + series.step * (random() - 0.5)) / calls);
  }
  series.turns.push(turn);
};

/**
 * Time works in rounds of one turn each until the seconds are over, or up to three times as long while an interval is wide. There are at least 20
 * rounds, 8 for one work alone, and 8 for a work that is far slower than the fastest. `tell(share)` hears of the progress.
 * @param {Work[]} works @returns {Promise<Series[]>}
 */
export const takeTurns = async (works, seconds, { now = () => performance.now(), random = Math.random, tell = () => {} } = {}) => {
  const step = clockStep(now), sample = Math.max(SAMPLE_MS, STEPS * step), wanted = 1e3 * seconds, hear = throttled(tell, now), all = [];
  for (const work of works) all.push(await warmed(work, sample, wanted / (2 * works.length), step, now, hear));
  const orders = balancedOrders(all.length), least = works.length === 1 ? LEAST_TO_MEASURE : LEAST_TO_COMPARE, begin = now();
  const isNarrow = () => all.slice(1).every(other => !comparison(all[0], other).wide);
  let resting = new Set();
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const passed = now() - begin;
    if (round >= least && passed >= wanted && (passed >= MOST_TIMES_LONGER * wanted || isNarrow())) break;
    if (round === LEAST_TO_MEASURE) resting = farBehind(all);
    for (const n of orders[round % orders.length]) {
      hear(Math.min((now() - begin) / wanted, round / least));
      if (!resting.has(n)) await takeTurn(all[n], now, random);
    }
  }
  return all;
};

/** The works that are far slower than the fastest, by their best turns. */
function farBehind(all) {
  const best = all.map(series => Math.min(...series.turns.map(median))), least = Math.min(...best);
  return new Set(best.flatMap((time, n) => time > FAR_TIMES * least ? [n] : []));
}
