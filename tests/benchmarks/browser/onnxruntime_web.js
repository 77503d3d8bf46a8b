// onnxruntime-web on one thread: a model, and a language model as two graphs.

// The build of a back end, "wasm" or "webgpu": that for WebGPU is slower in WebAssembly.
async function library(backend) {
  const ort = await import(`onnxruntime-web/${backend}`);
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmPaths = "/packages/onnxruntime-web/dist/";
  ort.env.logLevel = "error";
  return ort;
}

async function session(ort, url, backend) {
  const model = new Uint8Array(await (await fetch(url)).arrayBuffer());
  const settings = { executionProviders: [backend], graphOptimizationLevel: "all" };
  return ort.InferenceSession.create(model, settings);
}

function tensors(ort, inputs) {
  return Object.fromEntries(
    Object.entries(inputs).map(([name, { dtype, shape, data }]) => [
      name,
      new ort.Tensor(dtype, data, shape),
    ]),
  );
}

// A model, with its inputs in place; outputs are copied out of the runtime, as it always does.
export async function onnxModel({ url, backend, inputs }) {
  const ort = await library(backend);
  const loaded = await session(ort, url, backend);
  const feed = tensors(ort, inputs);
  const run = async () => {
    const outputs = await loaded.run(feed);
    return Object.fromEntries(Object.entries(outputs).map(([name, t]) => [name, t.data]));
  };
  return { version: ort.env.versions.web, run, close: () => loaded.release() };
}

// A graph for the prompt, which returns a word and caches, and one for a step, which also reads them.
export async function decode({ prompt_url, step_url, backend, inputs, steps, output }) {
  const ort = await library(backend);
  const first = await session(ort, prompt_url, backend);
  const next = await session(ort, step_url, backend);
  const words = tensors(ort, inputs);
  const { shape } = Object.values(inputs)[0];
  const run = async () => {
    const decoded = new BigInt64Array(shape[0] * steps);
    let { word, ...caches } = await first.run(words);
    for (let step = 0; step < steps; step++) {
      word.data.forEach((value, row) => (decoded[row * steps + step] = value));
      const feed = { words: word };
      for (const [name, cache] of Object.entries(caches)) feed[name.replace("new.", "old.")] = cache;
      ({ word, ...caches } = await next.run(feed));
    }
    return { [output]: decoded };
  };
  const close = async () => {
    await first.release();
    await next.release();
  };
  return { version: ort.env.versions.web, run, close };
}
