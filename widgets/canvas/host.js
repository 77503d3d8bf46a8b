// Where the house gets its data: a running kernel behind Jupyter's widget model, or one file with everything in it.
// A host has parts (JSON values that may change), buffers (binary parts) and questions (answered once, later).

const PATIENCE_MS = 60000;

/** A host over an anywidget model: parts are traits, questions are custom messages. */
export function kernelHost(model) {
  const waiting = new Map();
  let number = 0, alive = true;
  const gone = new Set();
  const stop = () => { if (!alive) return; alive = false; gone.forEach(f => f()); };
  const heard = (message, buffers) => {
    const one = waiting.get(message.id);
    if (!one) return;
    waiting.delete(message.id);
    clearTimeout(one.timer);
    if (message.error?.traceback) console.error(message.error.traceback);
    if (message.error) one.reject(message.error); else one.resolve({ ...message, buffers });
  };
  model.on("msg:custom", heard);
  model.on("comm_live_update", () => { if (model.comm_live === false) stop(); });
  return {
    get: name => model.get(name),
    bytes: name => model.get(name),
    on: (name, act) => model.on(`change:${name}`, act),
    remember: state => { model.set("state", state); model.save_changes(); },
    get alive() { return alive && model.comm_live !== false; },
    onGone: act => gone.add(act),
    ask(kind, args = {}) {
      if (!this.alive) return Promise.reject({ sentence: "The kernel has stopped." });
      const id = ++number;
      return new Promise((resolve, reject) => {
        const late = () => { waiting.delete(id); reject({ sentence: "The kernel did not answer within a minute." }); };
        waiting.set(id, { resolve, reject, timer: setTimeout(late, PATIENCE_MS) });
        model.send({ id, kind, args });
      });
    },
    close() { model.off("msg:custom", heard); waiting.forEach(w => clearTimeout(w.timer)); waiting.clear(); },
  };
}

/** A host over one value: `parts`, `bytes` in base64, and `answers` by question. */
export function fileHost({ parts, bytes, answers }) {
  const decoded = new Map();
  const decode = text => { const raw = atob(text), out = new Uint8Array(raw.length); for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i); return new DataView(out.buffer); };
  return {
    get: name => parts[name],
    bytes(name) {
      if (!bytes[name]) return null;
      if (!decoded.has(name)) decoded.set(name, decode(bytes[name]));
      return decoded.get(name);
    },
    on() {}, remember() {}, onGone() {}, close() {},
    alive: false,
    has: (kind, args) => questionKey(kind, args) in answers,
    ask(kind, args = {}) {
      const found = answers[questionKey(kind, args)];
      if (!found) return Promise.reject({ sentence: "This saved page does not hold that; open the model in JupyterLab." });
      return found.error ? Promise.reject(found.error) : Promise.resolve(found);
    },
  };
}

/** The name of a question in a saved page; `widgets/page/report.py` writes the same. */
export const questionKey = (kind, args) => [kind, ...Object.keys(args).sort().map(k => args[k])].join("|");
