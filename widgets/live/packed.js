// The programs of a live page from their text: base64 of gzip of a head and bytes (widgets/live/data.py). Weights that programs share lie there
// once: a program's weights are pieces of them, in the order that its kernels want, and filters of Winograd's algorithm are computed here.

/**
 * @typedef {[at: number, source: 0 | 1, place: number, bytes: number, order: number]} Piece source 0: stored, 1: computed here; order -1: as it is there
 * @typedef {{source: number, count: number, place: number, matrix: number[][]}} Filters `matrix` is G of U = G g G^T, for `count` filters g of 3 x 3
 */

const TAPS = 3, NOWHERE = -1, CHANGED = [0, 10, 13, 60]; // as in widgets/live/dense_text.py

/** Bytes of text: of widgets/live/dense_text.py, which begins with their number and a colon, or base64. */
export function decodeText(/** @type {string} */ text) {
  const colon = text.indexOf(":"), count = colon < 0 ? 0 : Number(text.slice(0, colon));
  if (colon >= 0 && colon < 12 && count > 0) return decodeDense(text, colon + 1, count);
  const raw = atob(text.trim()), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

function decodeDense(text, begin, count) {
  const bytes = new Uint8Array(count);
  let bits = 0, held = 0, at = 0;
  const take = group => { bits = bits << 7 | group; held += 7; if (held >= 8) { held -= 8; bytes[at++] = bits >> held; bits &= (1 << held) - 1; } }; // what is beyond the end is dropped
  for (let i = begin; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 128) take(code); else { take(CHANGED[code >> 7 & 7]); take(code & 127); }
  }
  return bytes;
}

/** Bytes that stand as the first ones of all 32-bit words, then the second ones, and so on, in their own order. */
function interleave(/** @type {Uint8Array} */ planes) {
  const n = planes.length / 4, out = new Uint8Array(planes.length);
  for (let i = 0, k = 0; i < n; i++, k += 4) { out[k] = planes[i]; out[k + 1] = planes[n + i]; out[k + 2] = planes[2 * n + i]; out[k + 3] = planes[3 * n + i]; }
  return out;
}

async function inflate(/** @type {Uint8Array} */ bytes) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
}

/** The combination of some numbers by a row of a matrix: in float64, from the left, as `_combine_rows` of explorer/transforms/minimal_filters.py. */
function combine(row, parts) {
  let sum = 0, begun = false;
  for (let k = 0; k < TAPS; k++) if (row[k]) { sum = begun ? sum + row[k] * parts[k] : row[k] * parts[k]; begun = true; }
  return sum;
}

/** Transform filters [3, 3, count] to [points, points, count]; rounded once. */
function transformFilters(/** @type {Float32Array} */ taps, count, matrix, /** @type {Float32Array} */ out) {
  const points = matrix.length, column = [0, 0, 0], columns = matrix.map(() => [0, 0, 0]);
  for (let n = 0; n < count; n++) {
    for (let k = 0; k < TAPS; k++) {
      for (let t = 0; t < TAPS; t++) column[t] = taps[(t * TAPS + k) * count + n];
      for (let i = 0; i < points; i++) columns[i][k] = combine(matrix[i], column);
    }
    for (let i = 0; i < points; i++) for (let j = 0; j < points; j++) out[(i * points + j) * count + n] = combine(matrix[j], columns[i]);
  }
}

/** The weights of a program from its pieces. */
function gather(size, /** @type {Piece[]} */ pieces, sources, stored) {
  const out = new Uint8Array(size), words = new Int32Array(out.buffer, 0, size >> 2);
  for (const [at, source, place, bytes, order] of pieces) {
    if (order < 0) { out.set(sources[source].subarray(place, place + bytes), at); continue; }
    const from = new Int32Array(sources[source].buffer, sources[source].byteOffset + place), runs = new Int32Array(stored.buffer, stored.byteOffset + order);
    let here = at >> 2, position = 0;
    for (let r = 0, k = 1; r < runs[0]; r++, k += 2) {
      const step = runs[k];
      for (let n = runs[k + 1]; n > 0; n--) { position += step; words[here++] = position === NOWHERE ? 0 : from[position]; }
    }
  }
  return out;
}

/** Open the text. @returns {Promise<import("./live.js").LiveData>} with `parts`, `words` and `left_out` of the page; weights are put together when they are first wanted */
export const openPacked = async (/** @type {string} */ text) => {
  const all = await inflate(decodeText(text)), length = new DataView(all.buffer).getUint32(0, true), begin = Math.ceil((4 + length) / 8) * 8;
  const head = JSON.parse(new TextDecoder().decode(all.subarray(4, 4 + length))), data = interleave(all.subarray(begin));
  const slice = ([place, bytes]) => data.slice(place, place + bytes);
  let sources = null;
  /** What is stored, and what is computed. */
  function all_sources() {
    if (sources) return sources;
    const stored = slice(head.blobs[head.store]), computed = new Uint8Array(head.computed);
    for (const { source, count, place, matrix } of head.filters)
      transformFilters(new Float32Array(stored.buffer, source, TAPS * TAPS * count), count, matrix, new Float32Array(computed.buffer, place, matrix.length ** 2 * count));
    return sources = [stored, computed];
  }
  const blob = what => Array.isArray(what) ? slice(what) : () => gather(what.bytes, what.pieces, all_sources(), all_sources()[0]);
  const variants = head.variants.map(variant => variant.wall ? { ...variant, wall: { ...variant.wall, bytes: slice(head.blobs[variant.wall.bytes]) } } : variant);
  return { ...head, variants, blobs: head.blobs.map((what, index) => index === head.store ? null : blob(what)) };
};
