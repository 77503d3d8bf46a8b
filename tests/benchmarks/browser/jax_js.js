// jax-js: an ONNX model as one jitted function. Without SharedArrayBuffer it has one thread.

export async function jaxModel({ url, backend, inputs, outputs, version }) {
  const { defaultDevice, init, jit, numpy } = await import("@jax-js/jax");
  const { ONNXModel } = await import("@jax-js/onnx");
  if (!(await init(backend)).includes(backend)) throw new Error(`jax-js has no ${backend} here`);
  defaultDevice(backend);
  const model = new ONNXModel(new Uint8Array(await (await fetch(url)).arrayBuffer()));
  const feed = {};
  for (const [name, { dtype, shape, data }] of Object.entries(inputs)) {
    const [type, values] =
      dtype === "int64" ? ["int32", Int32Array.from(data, Number)] : [dtype, data];
    feed[name] = numpy.array(values, { shape, dtype: type });
  }
  const call = jit(model.run);
  const run = async () => {
    const held = Object.fromEntries(Object.entries(feed).map(([name, array]) => [name, array.ref]));
    const results = call(held);
    const arrays = {};
    for (const name of outputs) arrays[name] = await results[name].data();
    return arrays;
  };
  return { version, run, close: () => model.dispose() };
}
