// Run kernel calls on their memory images: `node run_kernels.mjs FOLDER`, see foreign.py.
import fs from "node:fs";

const folder = process.argv[2];
const about = JSON.parse(fs.readFileSync(`${folder}/calls.json`));
const images = fs.readFileSync(`${folder}/images`);
const align = (at) => Math.ceil(at / 64) * 64;
const args = align(about.at);
const base = args + 4096;
const most = Math.max(...about.calls.map((call) => call.bytes));
const memory = new WebAssembly.Memory({ initial: Math.ceil((base + most + 65536) / 65536), maximum: 65536 });
const env = { memory };
env.__stack_pointer = new WebAssembly.Global({ value: "i32", mutable: true }, about.stack);
for (const name of about.imports) {
  const plain = name.replace(/f$/, "");
  env[name] = plain === "fmod" ? (x, y) => x % y : Math[plain in Math ? plain : name];
}
const module = new WebAssembly.Module(fs.readFileSync(`${folder}/module.wasm`));
const { exports } = new WebAssembly.Instance(module, { env });
const after = [];
let from = 0;
for (const call of about.calls) {
  const bytes = new Uint8Array(memory.buffer, base, call.bytes);
  bytes.set(images.subarray(from, from + call.bytes));
  from += call.bytes;
  const view = new DataView(memory.buffer);
  call.words.forEach(([isOffset, value], n) =>
    view.setBigInt64(args + 8 * n, BigInt(value) + (isOffset ? BigInt(base) : 0n), true));
  exports[call.symbol](0n, BigInt(call.tasks), BigInt(args));
  after.push(Buffer.from(bytes));
}
fs.writeFileSync(`${folder}/after`, Buffer.concat(after));
