// The runtimes of this page. Each is loaded and warmed once; then the benchmark asks for turns.
//
// The page is cross-origin isolated for its finer clock; without SharedArrayBuffer every runtime has
// one thread all the same, as in a page that was opened from a file.
//
// A runtime is {version, run, close}: `run` resolves to the outputs, {name: typed array}.

import { decode, onnxModel } from "/browser/onnxruntime_web.js";
import { jaxModel } from "/browser/jax_js.js";
import { ownProgram } from "/browser/own_program.js";

delete globalThis.SharedArrayBuffer;
const LOADERS = { decode, onnxModel, jaxModel, ownProgram };
const ARRAYS = {
  float32: Float32Array, float64: Float64Array, int32: Int32Array, int64: BigInt64Array,
  bool: Uint8Array, uint8: Uint8Array, int8: Int8Array,
};
const LEAST_WARM = 3; // calls
const runtimes = new Map();

// {name: {dtype, shape, data}} of inputs that are described with the address of their bytes.
async function inputsOf(described) {
  const inputs = {};
  for (const [name, { dtype, shape, url }] of Object.entries(described)) {
    const bytes = await (await fetch(url)).arrayBuffer();
    inputs[name] = { dtype, shape, data: new ARRAYS[dtype](bytes) };
  }
  return inputs;
}

function base64(array) {
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) {
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return btoa(text);
}

// Load a runtime, and return its version, its times and its answer. It is called for `warm_ms` first:
// V8 compiles what is called often again, with optimizations.
async function load(name, kind, settings, warm_ms) {
  const begin = performance.now();
  const runtime = await LOADERS[kind]({ ...settings, inputs: await inputsOf(settings.inputs) });
  const loaded = performance.now();
  let outputs = await runtime.run();
  const first = performance.now();
  for (let calls = 0; calls < LEAST_WARM || performance.now() - first < warm_ms; calls++) {
    outputs = await runtime.run();
  }
  runtimes.set(name, runtime);
  const answer = {};
  for (const [output, array] of Object.entries(outputs)) answer[output] = base64(array);
  return { version: runtime.version, load_ms: loaded - begin, first_ms: first - loaded, answer };
}

// Milliseconds of each of so many calls. The clock of an isolated page has steps of 5 us.
async function turn(name, calls) {
  const { run } = runtimes.get(name);
  const times = [];
  for (let n = 0; n < calls; n++) {
    const begin = performance.now();
    await run();
    times.push(performance.now() - begin);
  }
  return times;
}

function close(name) {
  runtimes.get(name)?.close?.();
  runtimes.delete(name);
}

window.race = { load, turn, close, runtimes };
