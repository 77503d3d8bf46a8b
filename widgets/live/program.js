// A portable program (explorer/portable/program.py) in one WebAssembly.Memory: its layout, its tables, and the interpreter of its rows.
// The rows are those of explorer/runtime/device_program/instructions.py. One unit waits for nothing; several ones meet in a `team` (team.js).

/**
 * @typedef {[space: string, index: number, offset: number]} Place "n" a number; "w" weights, "a" arena, "s" scratch; "i" input, "o" output `index`
 * @typedef {[call: number, at: number, source: number, step: number, begin: number, apart?: number]} Pointer an address that moves with a loop, and lies apart by unit; call -1: of a slot
 * @typedef {{rows: number[][], calls: [number, number, string, string[]][], slots: Place[], pointers: Pointer[], registers: number, stack: number, faults: string[], units?: number[], others?: number[][][]}} Launch `units`: numbers of those that take part; `others`: rows of all but the first
 * @typedef {{name: string, dtype: string, shape: number[], bytes: number}} Tensor
 * @typedef {{name: string, device: string, inputs: Tensor[], outputs: Tensor[], arena: number, scratch: number, weights: number, kernels: string[], args: Place[], launches: Launch[], copies: [number, Place, number][], units?: number}} Program
 * @typedef {{tables: number, weights: number, arena: number, scratch: number, stacks: number, control: number, inputs: number[], outputs: number[], bytes: number}} Layout addresses; tables, scratch and stacks of all units
 * @typedef {{program: Program, module: WebAssembly.Module, memory: WebAssembly.Memory, layout: Layout}} Placed
 * @typedef {{capacity: number, count: number, row: Int32Array, begin: Float64Array, end: Float64Array}} Stamps of each RUN; `row` counts over all launches
 */

const RUN = 0, LOOK = 3, BRANCH = 4, LOOP = 5, LET = 6, NEXT = 7, STORE = 8, COPY = 9, FILL = 10, JUMP = 11, POINT = 12, END = 13, CALL = 14, RETURN = 15, DEEPEST = 16, QUIT = 17;
const WAIT = 1, BARRIER = 2;
const LINE = 64, PAGE = 1 << 16, MOST_BYTES = 2 ** 32, CONTROL = 512, CONTROL_EACH = 128; // of team.js
const SHARED = 3; // flags of a memory with a maximum that threads share
const SIMD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11]; // the smallest module with a vector

/** A refusal in one sentence, for the reader of the page. */
export function refusal(sentence) {
  return Object.assign(new Error(sentence), { sentence });
}

const megabytes = bytes => `${Math.max(1, Math.round(bytes / 1e6)).toLocaleString("en")} MB`;
const aligned = (at, step = LINE) => Math.ceil(at / step) * step;

const tableBytes = program => aligned(8 * program.args.length) + LINE, scratchBytes = program => aligned(program.scratch) + LINE; // of a unit

/** Addresses of all regions behind the first `reserved` bytes. A line is left after each, as wide loads read past an end. @returns {Layout} */
export function layOut(/** @type {Program} */ program, reserved) {
  let end = aligned(reserved);
  const region = bytes => { const begin = end; end = aligned(begin + bytes) + LINE; return begin; };
  const { units = 1 } = program, weights = region(program.weights), arena = region(program.arena);
  const tables = region(units * tableBytes(program)), scratch = region(units * scratchBytes(program)), stacks = region((units - 1) * PAGE), control = region(units > 1 ? CONTROL + units * CONTROL_EACH : 0);
  return { tables, weights, arena, scratch, stacks, control, inputs: program.inputs.map(t => region(t.bytes)), outputs: program.outputs.map(t => region(t.bytes)), bytes: end };
}

/** The address of a place, or its number. */
const resolve = (/** @type {Layout} */ at, [space, index, offset]) => ({ n: 0, w: at.weights, a: at.arena, s: at.scratch, i: at.inputs[index], o: at.outputs[index] })[space] + Number(offset);

/** Numbers beyond 2^53 come as text; one that lost its last digits does not wrap to the other sign. */
const word = value => { const exact = BigInt(value), most = 2n ** 63n - 1n; return exact > most ? most : exact; };

const readWord = (heap, at) => heap[(at >>> 2) + 1] * 4294967296 + (heap[at >>> 2] >>> 0); // exact below 2^53
function writeWord(heap, at, value) {
  heap[at >>> 2] = value; // a store into an Int32Array is modulo 2^32
  heap[(at >>> 2) + 1] = Math.floor(value / 4294967296);
}

/** Prepare a unit's part of a launch: its rows as flat numbers, the arguments of each RUN as BigInts, and its pointers with their targets. `base`: rows before it. */
function prepare(/** @type {Launch} */ launch, base, /** @type {Layout} */ at, functions, place) {
  const { units = [0], others = [] } = launch, every = [launch.rows, ...others], own = every[place];
  if (!own) return null;
  const of = column => own.map(([op, ...rest]) => op === RUN ? BigInt(rest[column]) : 0n);
  const call = own.map(([op, a]) => op === RUN ? launch.calls[a] : null);
  const target = ([number, index]) => number < 0 ? index : -1 - (at.tables + 8 * (launch.calls[number][1] + index)); // negative: an address
  return {
    base, place, units: units.length, stride: 1 + Math.max(...every.map(rows => rows.length)), ops: Uint8Array.from(own, ([op]) => op), rows: Float64Array.from(own.flatMap(([, ...rest]) => rest)), first: of(1), last: of(2), block: call.map(c => c ? BigInt(at.tables + 8 * c[1]) : 0n), kernel: call.map(c => c ? functions[c[0]] : null),
    slots: Float64Array.from(launch.slots, place => resolve(at, place)), initial: Float64Array.from(launch.slots, place => resolve(at, place)), pointers: Float64Array.from(launch.pointers.flatMap(p => [target(p), p[2], p[3], p[4] + units[place] * (p[5] ?? 0)])),
    registers: new Float64Array(launch.registers + 1), stack: new Float64Array(launch.stack), name: row => call[row]?.[2] ?? "", faults: launch.faults,
  };
}

/** Run the rows of a prepared launch; return the fault that ended them, or 0. With `stamps`, the time before and after each RUN is recorded. */
function advance(launch, memory, /** @type {Stamps | null} */ stamps, now, team) {
  const { ops, rows, first, last, block, kernel, slots, pointers, registers, stack, place, units, stride } = launch, { words, bytes } = memory, isTeam = units > 1;
  let row = 0, fault = 0, epoch = 0;
  slots.set(launch.initial);
  registers.fill(0);
  try {
    for (;;) {
      const op = ops[row], at = 4 * row++, a = rows[at], b = rows[at + 1], c = rows[at + 2], d = rows[at + 3];
      switch (op) {
        case RUN:
          if (stamps === null) kernel[row - 1](first[row - 1], last[row - 1], block[row - 1]);
          else {
            const begin = now();
            kernel[row - 1](first[row - 1], last[row - 1], block[row - 1]);
            const end = now(), n = stamps.count++;
            if (n < stamps.capacity) { stamps.row[n] = launch.base + row - 1; stamps.begin[n] = begin; stamps.end[n] = end; }
          }
          if (isTeam && d > 0) team.publish(epoch * stride + d | 0);
          break;
        case WAIT: if (isTeam) team.reach(a, epoch * stride + b | 0); break;
        case BARRIER: if (isTeam) team.meet(units, ++epoch * stride | 0); break;
        case LOOK: registers[a] = c === 1 ? bytes[slots[b]] : readWord(words, slots[b]); break;
        case BRANCH: if (registers[a] === 0) row = b | 0; break;
        case LOOP: if (registers[a] + d >= readWord(words, slots[b])) row = c | 0; break;
        case LET: registers[a] = b; break;
        case NEXT: registers[a] += 1 + b; break;
        case STORE: if (place === 0 || d) writeWord(words, slots[a], registers[b] + c); break;
        case COPY: {
          const lines = Math.ceil(c / LINE), begin = d ? 0 : Math.floor(lines * place / units) * LINE, end = d ? c : Math.min(c, Math.floor(lines * (place + 1) / units) * LINE);
          bytes.copyWithin(slots[a] + begin, slots[b] + begin, slots[b] + end);
          break;
        }
        case FILL: if (place && !d) break; if (b === 1) bytes[slots[a]] = c; else writeWord(words, slots[a], c); break;
        case JUMP: row = a | 0; break;
        case POINT:
          for (let p = 4 * a; p < 4 * b; p += 4) {
            const value = slots[pointers[p + 1]] + registers[c] * pointers[p + 2] + pointers[p + 3];
            if (pointers[p] < 0) writeWord(words, -1 - pointers[p], value); else slots[pointers[p]] = value;
          }
          break;
        case CALL: {
          const depth = ++registers[a], frame = c + depth * d;
          stack[frame] = row;
          for (let n = 1; n < d; n++) stack[frame + n] = registers[a + n];
          row = b | 0;
          break;
        }
        case RETURN: {
          const frame = b + registers[a] * c;
          for (let n = 1; n < c; n++) registers[a + n] = stack[frame + n];
          registers[a]--;
          row = stack[frame] | 0;
          break;
        }
        case DEEPEST: if (registers[a] >= b) { fault = c; row = d | 0; if (isTeam) team.setFault(c); } break;
        case QUIT: if (isTeam) fault = team.fault(); if (fault) return fault; break;
        case END: return isTeam ? team.fault() : fault;
      }
    }
  } catch (problem) {
    if (problem.sentence) throw problem;
    throw refusal(`The call ${launch.name(row - 1)} stopped: ${problem.message}. This is a fault of Ironworks; please report it with the name of your browser.`);
  }
}

/** A function of C's mathematical library, `sin` or `sinf`, from those of JavaScript; undefined where there is none. */
export function mathematical(name) {
  const own = { fmod: (x, y) => x % y, pow: (x, y) => x === 1 || x === -1 && Math.abs(y) === Infinity ? 1 : x ** y, exp2: x => 2 ** x };
  return own[name] ?? own[name.replace(/f$/, "")] ?? Math[name] ?? Math[name.replace(/f$/, "")];
}

/** What a module imports: the memory, its stack pointer, and functions of C's library. */
function importsOf(module, memory, name, stack) {
  const imports = {}, bytes = new Uint8Array(memory.buffer), move = (to, from, count) => { bytes.copyWithin(to >>> 0, from >>> 0, (from >>> 0) + (count >>> 0)); return to; };
  const own = { memcpy: move, memmove: move, memset: (to, value, count) => { bytes.fill(value, to >>> 0, (to >>> 0) + (count >>> 0)); return to; } };
  for (const { module: space, name: item, kind } of WebAssembly.Module.imports(module)) {
    const value = kind === "memory" ? memory : kind === "global" ? new WebAssembly.Global({ value: "i32", mutable: true }, stack) : own[item] ?? mathematical(item);
    if (value === undefined || kind === "table") throw refusal(`The compiled module of ${name} asks for the ${kind} ${item}, which this page does not have; export the model again.`);
    (imports[space] ??= {})[item] = value;
  }
  return imports;
}

/** Refuse a browser that cannot run any of the modules. */
function checkBrowser() {
  if (typeof WebAssembly !== "object" || typeof BigInt64Array !== "function") throw refusal("This browser has no WebAssembly with 64-bit integers; a version from 2021 or later has.");
  if (!WebAssembly.validate(Uint8Array.from(SIMD))) throw refusal("This browser's WebAssembly has no SIMD (vectors of 128 bits), which the kernels use; a version from 2023 or later has.");
}

/** Compile a module, or say why this browser does not. */
const compile = async (code, name) => {
  try { return await WebAssembly.compile(code); } catch (problem) {
    if (/unsafe-eval|content security/i.test(problem.message)) throw refusal("The content security policy of this page forbids WebAssembly; it must allow 'wasm-unsafe-eval'.");
    throw refusal(`This browser does not accept the compiled module of ${name}: it may lack an instruction that the module uses, such as relaxed SIMD, or the file is damaged (${problem.message}).`);
  }
};

/** Allocate the memory; a refusal says how much it would have been. */
function allocate(name, size, shared) {
  const sentence = `${name} needs ${megabytes(size)} of memory in one piece, and this browser `;
  if (size > MOST_BYTES) throw refusal(`${sentence}can address 4,295 MB; export it for smaller sizes.`);
  try {
    return new WebAssembly.Memory({ initial: Math.ceil(size / PAGE), maximum: Math.ceil(size / PAGE), shared });
  } catch {
    throw refusal(`${sentence}did not give it; close other tabs, or export it for smaller sizes.`);
  }
}

/** The layout that one unit sees. */
const layoutOf = (/** @type {Program} */ program, /** @type {Layout} */ layout, unit) => ({ ...layout, tables: layout.tables + unit * tableBytes(program), scratch: layout.scratch + unit * scratchBytes(program) });

/** Instantiate the module for the unit at `place`, with a stack of its own; `team`: where it meets the others. */
export const openUnit = async (/** @type {Placed} */ { program, module, memory, layout }, place, { stack = layout.stacks + place * PAGE, now = () => performance.now(), team = null } = {}) => {
  const { exports } = await WebAssembly.instantiate(module, importsOf(module, memory, program.name, stack)), at = layoutOf(program, layout, place);
  const missing = program.kernels.find(kernel => typeof exports[kernel] !== "function");
  if (missing) throw refusal(`The module of ${program.name} has no kernel ${missing}; export the model again.`);
  const functions = program.kernels.map(kernel => exports[kernel]), views = { bytes: new Uint8Array(memory.buffer), words: new Int32Array(memory.buffer) };
  let base = 0;
  const launches = program.launches.map(launch => { base += launch.rows.length; return prepare(launch, base - launch.rows.length, at, functions, place); });
  return { rows: base, takesPart: launch => launches[launch] !== null, advance: (launch, stamps = null) => advance(launches[launch], views, stamps, now, team) };
};

/**
 * Compile and place a program. Below `stack` is the module's stack, up to `reserved` are its tables, and the byte at `limits` says whether its memory is
 * shared (`data_at`, `data_end`, `limits_at` of explorer/codegen/wasm.py). `join(placed)` starts the threads of a program of several units.
 * @returns an object that runs it: `write` an input, `run`, `read` an output
 */
export const openProgram = async (/** @type {Program} */ program, /** @type {Uint8Array} */ code, /** @type {Uint8Array} */ weights, { stack = PAGE, reserved = stack, limits = 0, now = () => performance.now(), join = null } = {}) => {
  checkBrowser();
  const { units = 1, launches } = program, shared = units > 1;
  const layout = layOut(program, reserved), memory = allocate(program.name, layout.bytes, shared), own = shared ? code.slice() : code;
  if (shared) own[limits] = SHARED;
  const module = await compile(own, program.name), placed = { program, module, memory, layout }, bytes = new Uint8Array(memory.buffer);
  const blocks = Array.from({ length: units }, (_, unit) => {
    const at = layoutOf(program, layout, unit), words = BigInt64Array.from(program.args, place => place[0] === "n" ? word(place[2]) : BigInt(resolve(at, place)));
    return { words, table: new BigInt64Array(memory.buffer, at.tables, words.length) };
  });
  const fill = () => blocks.forEach(({ words, table }) => table.set(words));
  bytes.set(weights, layout.weights);
  fill();
  const team = shared ? await join(placed) : null, unit = await openUnit(placed, 0, { stack, now, team });
  const moves = launches.some(launch => launch.pointers.some(([call]) => call >= 0));
  const copies = program.copies.map(([output, place, count]) => [layout.outputs[output], resolve(layout, place), count]);
  return {
    program, layout, memory, rows: unit.rows,
    /** Set the bytes of an input. */
    write(index, data) { bytes.set(data, layout.inputs[index]); },
    /** The bytes of an output. */
    read: index => bytes.slice(layout.outputs[index], layout.outputs[index] + program.outputs[index].bytes),
    /** Run once. @param {Stamps | null} stamps */
    run(stamps = null) {
      if (moves) fill();
      launches.forEach((launch, number) => {
        const together = launch.units?.length ?? 1;
        if (together > 1) team.begin(number, together);
        let fault = 0, problem = null;
        try { fault = unit.advance(number, stamps); } catch (thrown) { problem = thrown; if (together > 1) team.broken(); }
        if (together > 1 && team.finish(together)) problem ??= refusal("A thread of this run stopped. This is a fault of Ironworks; please report it with the name of your browser.");
        if (problem) throw problem;
        if (fault) throw refusal(launch.faults[fault - 1]);
      });
      for (const [target, source, count] of copies) bytes.copyWithin(target, source, source + count);
    },
  };
};
