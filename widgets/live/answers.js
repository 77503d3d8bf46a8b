// The check of a run's outputs against recorded ones: the rule of explorer/tuning/compare.py, with the bound that Python wrote into the file.

/**
 * @typedef {{bytes: Uint8Array, tolerance: number}} Recorded an output, and how far an element may lie from it; 0 for integers and bools
 * @typedef {{name: string, elements: number, off: number, largest: number, sentence: string}} Answer `off` counts the elements beyond the bound
 */

const ARRAYS = { float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array, bool: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array };

/** A float16 from its bits. */
function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
}

/** The elements of a tensor's bytes; 64-bit integers are BigInts. */
export function elements(dtype, /** @type {Uint8Array} */ bytes) {
  const buffer = bytes.slice().buffer;
  if (dtype === "float16") return Array.from(new Uint16Array(buffer), half);
  if (dtype === "bfloat16") return new Float32Array(Uint32Array.from(new Uint16Array(buffer), bits => bits << 16).buffer);
  return new ARRAYS[dtype](buffer);
}

/** The distance of two elements: 0 for two that are equal or both NaN, infinite where one alone is NaN or infinite. */
function distance(a, b) {
  if (a === b || a !== a && b !== b) return 0;
  const far = typeof a === "bigint" ? Number(a > b ? a - b : b - a) : Math.abs(a - b);
  return far === far ? far : Infinity;
}

const shown = value => typeof value === "bigint" ? String(value) : String(Number(value.toPrecision(6)));

/** The index of an element in a shape. */
function indexOf(shape, at) {
  const index = [];
  for (const size of [...shape].reverse()) { index.unshift(at % size); at = Math.floor(at / size); }
  return `[${index.join(", ")}]`;
}

/** Compare an output with the recorded one. @returns {Answer} */
export function checkAnswer(/** @type {import("./program.js").Tensor} */ tensor, /** @type {Uint8Array} */ bytes, /** @type {Recorded} */ recorded) {
  const here = elements(tensor.dtype, bytes), there = elements(tensor.dtype, recorded.bytes), count = here.length.toLocaleString("en");
  if (here.length !== there.length) return { name: tensor.name, elements: here.length, off: here.length, largest: Infinity, sentence: `The output ${tensor.name} has ${count} elements, and ${there.length.toLocaleString("en")} were recorded.` };
  let off = 0, largest = 0, worst = 0;
  for (let i = 0; i < here.length; i++) {
    const far = distance(here[i], there[i]);
    if (far > recorded.tolerance) off++;
    if (far > largest) { largest = far; worst = i; }
  }
  const bound = recorded.tolerance ? `by more than ${shown(recorded.tolerance)}` : "at all", place = `${shown(here[worst])} here and ${shown(there[worst])} recorded at ${indexOf(tensor.shape, worst)}`;
  const sentence = off
    ? `The output ${tensor.name} is wrong: ${off.toLocaleString("en")} of ${count} elements differ from the recorded ones ${bound}; the largest difference is ${shown(largest)}, ${place}.`
    : `The output ${tensor.name} is right: ${count} element${here.length === 1 ? "" : "s"}, the largest difference is ${shown(largest)}.`;
  return { name: tensor.name, elements: here.length, off, largest, sentence };
}
