// A program that `explorer.portable` wrote, run by the runner of live pages.

import { openProgram } from "/live/program.js";

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, int32: Int32Array, int64: BigInt64Array,
  bool: Uint8Array, uint8: Uint8Array, int8: Int8Array,
};

// Inputs are in place; outputs are copied out of the program's memory, as other runtimes do.
export async function ownProgram({ program_url, module_url, weights_url, version, inputs }) {
  const bytes = async (url) => new Uint8Array(await (await fetch(url)).arrayBuffer());
  const program = await (await fetch(program_url)).json();
  const opened = await openProgram(program, await bytes(module_url), await bytes(weights_url));
  program.inputs.forEach(({ name }, n) => {
    const { data } = inputs[name];
    opened.write(n, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  });
  const run = async () => {
    opened.run();
    const outputs = program.outputs.map(({ name, dtype }, n) => [
      name,
      new ARRAYS[dtype](opened.read(n).buffer),
    ]);
    return Object.fromEntries(outputs);
  };
  return { version, run, opened };
}
