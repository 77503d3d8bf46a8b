// "Run in this browser": the buttons, the result and the table of calls of a page whose programs run in a Worker of its own.
import { duration, h, put, scrolls } from "../canvas/dom.js";

/**
 * @typedef {number} BlobIndex a position in `blobs`, whose entries are bytes, their base64, or a function that makes them
 * @typedef {{name: string, program: import("./program.js").Program | import("./webgpu.js").WebGpuProgram, code?: BlobIndex, weights: BlobIndex, stack?: number, reserved?: number, limits?: number, recorded: {bytes: BlobIndex, tolerance: number}[], calls?: string[][]}} Variant `calls`: rows [name, family, label, nodes]; a program with shaders is for a GPU
 * @typedef {{worker: string, blobs: (Uint8Array | string | (() => Uint8Array))[], inputs: BlobIndex[], variants: Variant[]}} LiveData `worker`: the Worker's script; the first variant is the page's own
 */

const NO_WORKER = "This browser started no Worker for this page, so nothing runs here; the pictures are as they were.", CANCELLED = "Cancelled.", NO_GPU_CLOCK = " This browser offers no clock of its GPU, so calls have no times of their own.";

/** The bytes of a blob; a function makes them when they are first wanted. */
function decode(blob) {
  if (typeof blob !== "string") return typeof blob === "function" ? blob() : blob;
  const raw = atob(blob), bytes = new Uint8Array(raw.length);
  for (let k = 0; k < raw.length; k++) bytes[k] = raw.charCodeAt(k);
  return bytes;
}

/** A Worker that starts with the first question, and anew after `stop`. `ask` rejects with {sentence}. */
export function workerClient(/** @type {string} */ source) {
  const waiting = new Map();
  let worker = null, number = 0;
  function stop(sentence) {
    worker?.terminate();
    worker = null;
    waiting.forEach(({ reject }) => reject({ sentence }));
    waiting.clear();
  }
  function start() {
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    try { worker = new Worker(address); } catch { throw { sentence: NO_WORKER }; } finally { URL.revokeObjectURL(address); }
    worker.onerror = event => { event.preventDefault(); stop(event.message ? `This is a fault of Ironworks: ${event.message}` : NO_WORKER); };
    worker.onmessage = ({ data: { id, share, result, error } }) => {
      const job = waiting.get(id);
      if (!job) return;
      if (share !== undefined) { job.tell(share); return; }
      waiting.delete(id);
      if (error) job.reject({ sentence: error }); else job.resolve(result);
    };
  }
  return {
    stop,
    ask: (job, tell = () => {}) => new Promise((resolve, reject) => {
      if (!worker) try { start(); } catch (problem) { reject(problem); return; }
      waiting.set(++number, { resolve, reject, tell });
      worker.postMessage({ id: number, ...job });
    }),
  };
}

const interval = ({ median_us, low_us, high_us, n }) => `${duration(median_us)} per run (99 %: ${duration(low_us)} to ${duration(high_us)}, n = ${n.toLocaleString("en")})`;

/** Threads share memory only in a page that a server isolates. */
const runsHere = ({ program }) => !(program.units > 1) || globalThis.crossOriginIsolated === true;

/** A comparison in words, as `ironworks race` says it. */
function compared(first, second, { verdict, ratio, low, high, n, wide }) {
  const [factor, least, most] = (verdict === "slower" ? [1 / ratio, 1 / high, 1 / low] : [ratio, low, high]).map(value => value.toPrecision(3));
  return `${first} is ${verdict} ${verdict.startsWith("not") ? "from" : "than"} ${second}: ${factor}× (${least} to ${most}, n = ${n}${wide ? ", wide" : ""})`;
}

/** The table of calls: their mean time within a run, its standard error, and their share. */
function callTable({ calls, total_us, runs, left_out }) {
  const rows = calls.map(({ name, nodes, times, us, error_us }) => h("tr", {}, h("td", { class: "mono" }, name), h("td", { class: "r" }, `${duration(us)} ± ${duration(error_us)}`), h("td", { class: "r" }, `${(100 * us / total_us).toFixed(1)} %`), h("td", { class: "r" }, times.toLocaleString("en")), h("td", { class: "nodes" }, nodes.join(", "))));
  const heads = [["Call"], ["Time a run", "r"], ["Share", "r"], ["Times a run", "r"], ["From"]].map(([text, kind]) => h("th", { scope: "col", class: kind }, text));
  const caption = `Mean of ${runs.toLocaleString("en")} runs with a clock around each call${left_out ? `; the last ${left_out.toLocaleString("en")} of a run are not timed` : ""}`;
  return h("table", { class: "tbl" }, h("caption", { class: "s" }, caption), h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows));
}

/** Fill `root` with the controls. `onWall({head, bytes}, variant)` takes the measured wall, as `pack_wall` makes it. @returns {{run: (variant?: number) => Promise<void>, compare: () => Promise<void>, cancel: () => void}} */
export function startLive(/** @type {HTMLElement} */ root, /** @type {LiveData} */ data, { onWall = () => {} } = {}) {
  const client = workerClient(data.worker), opened = new Map(), bytes = new Map(), { variants } = data, gpu = variants.findIndex(({ program }) => "shaders" in program);
  const blob = index => { if (!bytes.has(index)) bytes.set(index, decode(data.blobs[index])); return bytes.get(index); };
  const result = h("p", { class: "live-result", role: "status" }), problem = h("p", { class: "live-problem", role: "alert" }), bar = h("progress", { max: 1, hidden: true, "aria-label": "Progress" }), table = scrolls(h("div", { class: "live-calls" }), () => "Times of calls, scrolls");
  const choice = h("select", { class: "btn", "aria-label": "Compare with" }, variants.slice(1).map(({ name, program }, k) => h("option", { value: k + 1, disabled: !runsHere({ program }) }, name)));
  const button = (text, act, kind = "btn") => h("button", { type: "button", class: kind, onclick: act }, text);
  const go = button("Run in this browser", () => run(), "btn pri"), onGpu = button("Run on this GPU", () => run(gpu)), race = button("Compare", () => compare()), halt = button("Cancel", () => cancel());
  const tell = share => { bar.value = share; };
  halt.disabled = true;
  put(root, h("div", { class: "live-acts" }, go, gpu > 0 && onGpu, variants.slice(1).some(runsHere) && [race, choice], halt, bar), result, problem, table);
  root.classList.add("live-panel");

  /** Open a variant if it is not yet; refuse it if its answers are wrong. Return the sentence on its answers. */
  const answer = async variant => {
    const { name, program, code, weights, stack, reserved, limits, recorded } = variants[variant];
    if (!opened.has(variant)) {
      const { on } = await client.ask({ kind: "open", variant, program, code: code === undefined ? undefined : blob(code), weights: blob(weights), stack, reserved, limits, source: data.worker, inputs: data.inputs.map(blob), recorded: recorded.map(output => ({ ...output, bytes: blob(output.bytes) })) });
      opened.set(variant, on && ` It ran on ${on}.`);
    }
    const answers = await client.ask({ kind: "answer", variant }), wrong = answers.filter(({ off }) => off);
    if (wrong.length) throw { sentence: `${name}: ${wrong.map(({ sentence }) => sentence).join(" ")}` };
    return answers.map(({ sentence }) => sentence).join(" ") + opened.get(variant);
  };
  const during = act => async (...given) => {
    const back = document.activeElement, buttons = [go, onGpu, race, choice];
    buttons.forEach(node => { node.disabled = true; });
    halt.disabled = bar.hidden = false; bar.removeAttribute("value"); problem.textContent = "";
    if (buttons.includes(back)) halt.focus();
    try { await act(...given); } catch (fault) { problem.textContent = fault.sentence ?? `This is a fault of Ironworks: ${fault.message}`; } finally {
      const focused = document.activeElement === halt;
      buttons.forEach(node => { node.disabled = false; });
      halt.disabled = bar.hidden = true;
      if (focused) (buttons.includes(back) ? back : go).focus();
    }
  };
  const run = during(async (variant = 0) => {
    const right = await answer(variant), known = variants[variant].calls ?? [], labels = new Map(known.map(([name, , label]) => [name, label]));
    result.textContent = `${right} Timing …`;
    const time = await client.ask({ kind: "measure", variant }, tell);
    result.textContent = `${interval(time)}. ${right}`;
    const calls = await client.ask({ kind: "wall", variant, known }, tell);
    if (!calls) { result.textContent += NO_GPU_CLOCK; put(table); return; }
    put(table, callTable({ ...calls, calls: calls.calls.map(call => ({ ...call, name: labels.get(call.name) ?? call.name })) }));
    onWall(calls.wall, variant);
  });
  const compare = during(async () => {
    const other = Number(choice.value);
    await answer(0);
    await answer(other);
    result.textContent = `${compared(variants[0].name, variants[other].name, await client.ask({ kind: "compare", variant: 0, other }, tell))}. Both are right.`;
  });
  function cancel() { client.stop(CANCELLED); opened.clear(); }
  return { run, compare, cancel };
}
