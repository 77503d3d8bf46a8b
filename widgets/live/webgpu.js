// A program of compute shaders (explorer/portable/webgpu.py) on this browser's GPU: one pipeline a shader, one bind group, one submit a run.

import { refusal } from "./program.js";
import { elements } from "./answers.js";

/**
 * @typedef {import("./program.js").Tensor & {at: number}} ArenaTensor `at`: its first word in the arena
 * @typedef {{needs: string[], lanes: number, source: string}} Variant of a shader, for adapters with the features `needs` and subgroups of `lanes` threads
 * @typedef {{source: string, variants: Variant[], threads: number}} Shader
 * @typedef {[shader: number, places: number[], groups: [number, number], name: string, origin: string[]]} Dispatch
 * @typedef {{name: string, inputs: ArenaTensor[], outputs: ArenaTensor[], arena: number, weights: number, limits: Record<string, number>, mostInteger: number, shaders: Shader[], dispatches: Dispatch[], fixed: [number, number, number][]}} WebGpuProgram
 * @typedef {{name: string, origin: string[], begin_us: number, end_us: number}} Stamped
 */

const STEP = 256; // bytes between the places of two dispatches: minUniformBufferOffsetAlignment
const STAMPED = 2048; // dispatches whose times one query set holds
const PROBED = 256; // threads of the workgroup that probes subgroups
const PROBE = `enable subgroups;
@group(0) @binding(0) var<storage, read_write> seen: array<u32>;
@compute @workgroup_size(${PROBED}) fn main(@builtin(local_invocation_index) n: u32, @builtin(subgroup_invocation_id) own: u32, @builtin(subgroup_size) size: u32) { seen[2u * n] = own; seen[2u * n + 1u] = size; }`;

const megabytes = bytes => `${Math.max(1, Math.round(bytes / 1e6)).toLocaleString("en")} MB`;
const count = shape => shape.reduce((product, extent) => product * extent, 1);
const isFloat = dtype => dtype.includes("float");

/** The bits of a float16 whose value a number has exactly. */
function halfBits(value) {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0, size = Math.abs(value);
  if (size !== size) return 0x7e00;
  if (size > 65504) return sign | 0x7c00;
  const exponent = Math.max(-14, Math.floor(Math.log2(size))), fraction = size / 2 ** exponent;
  return size === 0 ? sign : sign | (fraction < 1 ? Math.round(size * 2 ** 24) : (exponent + 15) << 10 | Math.round((fraction - 1) * 1024));
}

/** An input's bytes as words of the arena; a refusal where an integer does not fit 32 bits. */
export function toWords(/** @type {ArenaTensor} */ tensor, /** @type {Uint8Array} */ bytes, mostInteger) {
  const values = elements(tensor.dtype, bytes);
  if (values.length !== count(tensor.shape)) throw refusal(`The input ${tensor.name} has ${values.length.toLocaleString("en")} elements, and ${count(tensor.shape).toLocaleString("en")} were expected.`);
  if (isFloat(tensor.dtype)) return new Uint32Array(Float32Array.from(values).buffer);
  if (!tensor.dtype.endsWith("int64")) return Uint32Array.from(values, value => value >>> 0);
  const most = BigInt(mostInteger);
  return Uint32Array.from(values, value => {
    if (value > most || value < -most) throw refusal(`The input ${tensor.name} has the element ${value}, and on a GPU an integer may be from -${mostInteger.toLocaleString("en")} to ${mostInteger.toLocaleString("en")}.`);
    return Number(value) >>> 0;
  });
}

/** The bytes of an output from its words of the arena. */
export function fromWords(/** @type {ArenaTensor} */ tensor, /** @type {Uint32Array} */ words) {
  const { dtype } = tensor, floats = new Float32Array(words.buffer), integers = new Int32Array(words.buffer);
  const views = {
    float32: () => words, int32: () => words, uint32: () => words,
    float16: () => Uint16Array.from(floats, halfBits), bfloat16: () => Uint16Array.from(words, word => word >>> 16),
    int64: () => BigInt64Array.from(integers, BigInt), uint64: () => BigUint64Array.from(words, BigInt),
    int16: () => Int16Array.from(integers), uint16: () => Uint16Array.from(words),
  };
  return new Uint8Array((views[dtype] ?? (() => Uint8Array.from(words)))().buffer);
}

/** The features and limits that a program wants of an adapter; a refusal where it lacks a limit. */
function demands(/** @type {WebGpuProgram} */ program, adapter) {
  for (const [name, wanted] of Object.entries(program.limits)) {
    if (adapter.limits[name] < wanted) throw refusal(`This model needs ${megabytes(wanted)} in one buffer, and this browser's GPU allows ${megabytes(adapter.limits[name])}.`);
  }
  const optional = new Set(["timestamp-query", ...program.shaders.flatMap(shader => shader.variants.flatMap(variant => variant.needs))]);
  return { requiredLimits: program.limits, requiredFeatures: [...optional].filter(name => adapter.features.has(name)) };
}

/** How many neighbouring threads are in one subgroup on this device; 0 where they are not neighbours. */
async function subgroupLanes(device, adapter) {
  if (!device.features.has("subgroups")) return 0;
  const bytes = 8 * PROBED, seen = device.createBuffer({ size: bytes, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC });
  const pipeline = await device.createComputePipelineAsync({ layout: "auto", compute: { module: device.createShaderModule({ code: PROBE }), entryPoint: "main" } });
  const encoder = device.createCommandEncoder(), pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries: [{ binding: 0, resource: { buffer: seen } }] }));
  pass.dispatchWorkgroups(1);
  pass.end();
  const words = await readWords(device, encoder, seen, 0, 2 * PROBED);
  const areNeighbours = words.every((word, n) => n % 2 || word === (n / 2) % words[n + 1]);
  return areNeighbours ? adapter.info?.subgroupMinSize ?? 0 : 0;
}

/** Copy words of a buffer to the host, after the commands of an encoder. */
async function readWords(device, encoder, buffer, at, words) {
  const staging = device.createBuffer({ size: Math.max(4, 4 * words), usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  if (words) encoder.copyBufferToBuffer(buffer, 4 * at, staging, 0, 4 * words);
  device.queue.submit([encoder.finish()]);
  await staging.mapAsync(GPUMapMode.READ);
  const result = new Uint32Array(staging.getMappedRange().slice(0, 4 * words));
  staging.destroy();
  return result;
}

/** The source of a shader that this device runs best. */
export function pickSource(/** @type {Shader} */ shader, features, lanes) {
  const fits = variant => variant.needs.every(name => features.has(name)) && variant.lanes <= lanes;
  return (shader.variants.find(fits) ?? shader).source;
}

/** The pipeline of each shader; a refusal with the first error of this browser. */
async function pipelinesOf(device, /** @type {WebGpuProgram} */ program, groupLayout, lanes) {
  const layout = device.createPipelineLayout({ bindGroupLayouts: [groupLayout] });
  return Promise.all(program.shaders.map(async (shader, number) => {
    const module = device.createShaderModule({ code: pickSource(shader, device.features, lanes) });
    try {
      return await device.createComputePipelineAsync({ layout, compute: { module, entryPoint: "main" } });
    } catch (problem) {
      const error = (await module.getCompilationInfo()).messages.find(message => message.type === "error");
      const call = program.dispatches.find(([own]) => own === number)?.[3] ?? "";
      throw refusal(`This browser refuses the shader of ${call}: ${error ? `line ${error.lineNum}: ${error.message}` : problem.message}`);
    }
  }));
}

/** Open a program on this browser's GPU. `weights`: its packed constants. */
export const openGpuProgram = async (/** @type {WebGpuProgram} */ program, /** @type {Uint8Array} */ weights) => {
  if (!globalThis.navigator?.gpu) throw refusal("This browser has no WebGPU, so the model does not run on a GPU here.");
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) throw refusal("This browser offers no GPU to pages, so the model does not run on one here.");
  const device = await adapter.requestDevice(demands(program, adapter));
  const problems = [];
  device.addEventListener("uncapturederror", event => problems.push(event.error.message));
  device.lost.then(({ message, reason }) => { if (reason !== "destroyed") problems.push(message || "the device was lost"); });
  const lanes = await subgroupLanes(device, adapter);

  const { STORAGE, UNIFORM, COPY_SRC, COPY_DST } = GPUBufferUsage;
  const buffer = (size, usage) => device.createBuffer({ size: Math.ceil(size / 4) * 4, usage: usage | COPY_SRC | COPY_DST });
  const step = Math.max(1, ...program.dispatches.map(([, places]) => Math.ceil(4 * places.length / STEP))) * STEP;
  const constants = buffer(weights.length, STORAGE), arena = buffer(program.arena, STORAGE), places = buffer(step * Math.max(1, program.dispatches.length), UNIFORM);
  device.queue.writeBuffer(constants, 0, weights);
  const rows = new Uint32Array(places.size / 4);
  program.dispatches.forEach(([, own], n) => rows.set(own, n * step / 4));
  device.queue.writeBuffer(places, 0, rows);
  const types = ["read-only-storage", "storage", "uniform"];
  const groupLayout = device.createBindGroupLayout({ entries: types.map((type, binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type, hasDynamicOffset: type === "uniform" } })) });
  const group = device.createBindGroup({ layout: groupLayout, entries: [{ buffer: constants }, { buffer: arena }, { buffer: places, size: step }].map((resource, binding) => ({ binding, resource })) });
  const pipelines = await pipelinesOf(device, program, groupLayout, lanes);
  const fill = device.createCommandEncoder();
  for (const [at, from, words] of program.fixed) if (words) fill.copyBufferToBuffer(constants, 4 * from, arena, 4 * at, 4 * words);
  device.queue.submit([fill.finish()]);

  const healthy = () => { if (problems.length) throw refusal(`This browser's GPU failed: ${problems[0]}`); };
  const dispatch = (pass, n) => {
    const [shader, , groups] = program.dispatches[n];
    pass.setPipeline(pipelines[shader]);
    pass.setBindGroup(0, group, [n * step]);
    pass.dispatchWorkgroups(...groups);
  };
  const encode = encoder => {
    const pass = encoder.beginComputePass();
    program.dispatches.forEach((_, n) => dispatch(pass, n));
    pass.end();
  };
  const stamp = async (first, last) => {
    const number = 2 * (last - first), queries = device.createQuerySet({ type: "timestamp", count: number });
    const resolved = device.createBuffer({ size: 8 * number, usage: GPUBufferUsage.QUERY_RESOLVE | COPY_SRC }), encoder = device.createCommandEncoder();
    for (let n = first; n < last; n++) {
      const at = 2 * (n - first), pass = encoder.beginComputePass({ timestampWrites: { querySet: queries, beginningOfPassWriteIndex: at, endOfPassWriteIndex: at + 1 } });
      dispatch(pass, n);
      pass.end();
    }
    encoder.resolveQuerySet(queries, 0, number, resolved, 0);
    const words = await readWords(device, encoder, resolved, 0, 2 * number);
    return new BigUint64Array(words.buffer);
  };

  return {
    program, lanes,
    adapter: [adapter.info?.vendor, adapter.info?.architecture, adapter.info?.description].filter(Boolean).join(" "),
    features: [...device.features].sort(),
    /** Write an input, from the bytes of its dtype. */
    write(index, /** @type {Uint8Array} */ bytes) {
      const tensor = program.inputs[index], words = toWords(tensor, bytes, program.mostInteger);
      if (words.length) device.queue.writeBuffer(arena, 4 * tensor.at, words);
    },
    /** Submit some runs at once, and wait for the last. */
    async run(times = 1) {
      const encoder = device.createCommandEncoder();
      for (let n = 0; n < times; n++) encode(encoder);
      device.queue.submit([encoder.finish()]);
      await device.queue.onSubmittedWorkDone();
      healthy();
    },
    /** The bytes of an output. */
    async read(index) {
      const tensor = program.outputs[index];
      const words = await readWords(device, device.createCommandEncoder(), arena, tensor.at, count(tensor.shape));
      healthy();
      return fromWords(tensor, words);
    },
    /** The time of each dispatch of one run, by the GPU's clock, each in a pass of its own; null where the browser has no such clock. @returns {Promise<Stamped[] | null>} */
    async wall() {
      if (!device.features.has("timestamp-query")) return null;
      const stamped = [];
      for (let first = 0; first < program.dispatches.length; first += STAMPED) {
        const last = Math.min(program.dispatches.length, first + STAMPED), ns = await stamp(first, last);
        for (let n = first; n < last; n++) stamped.push({ name: program.dispatches[n][3], origin: program.dispatches[n][4], begin: ns[2 * (n - first)], end: ns[2 * (n - first) + 1] });
      }
      healthy();
      const zero = stamped[0]?.begin ?? 0n;
      return stamped.map(({ name, origin, begin, end }) => ({ name, origin, begin_us: Number(begin - zero) / 1e3, end_us: Number(end - zero) / 1e3 }));
    },
    close() { device.destroy(); },
  };
};

/**
 * The mean of walls over some seconds, and the program in the form that packWall and callTimes of stamped_wall.js read: a RUN for each dispatch.
 * Null where the browser has no clock of the GPU.
 * @returns {Promise<{program: object, mean: import("./stamped_wall.js").MeanRun} | null>}
 */
export const meanGpuRun = async (runner, seconds, { now = () => performance.now(), tell = () => {} } = {}) => {
  const { program } = runner, begin = now(), sums = program.dispatches.map(() => ({ begin: 0, end: 0, length: 0, square: 0 }));
  let runs = 0, total = 0;
  for (let passed = 0; !runs || passed < 1e3 * seconds; passed = now() - begin) {
    tell(Math.min(1, passed / (1e3 * seconds)));
    const wall = await runner.wall();
    if (wall === null) return null;
    wall.forEach(({ begin_us, end_us }, n) => { const length = end_us - begin_us, sum = sums[n]; sum.begin += begin_us; sum.end += end_us; sum.length += length; sum.square += length ** 2; });
    total += wall.at(-1)?.end_us ?? 0;
    runs++;
  }
  const bricks = sums.map(({ begin, end, length, square }, row) => ({ row, begin_us: begin / runs, end_us: end / runs, error_us: Math.sqrt(Math.max(0, square / runs - (length / runs) ** 2) / runs) }));
  const rows = program.dispatches.map(([, , [columns, lines]], n) => [0, n, 0, columns * lines]), calls = program.dispatches.map(([shader, , , name, origin]) => [shader, 0, name, origin]);
  return { program: { ...program, launches: [{ rows, calls }] }, mean: { bricks, total_us: total / runs, runs, dropped: 0, left_out: 0 } };
};
