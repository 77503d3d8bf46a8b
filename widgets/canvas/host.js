// Where the house gets its data: a running kernel behind Jupyter's widget model, or one file with everything in it.
// A host has parts (JSON values that may change), buffers (binary parts) and questions (answered once, later).

const PATIENCE_MS = 60000, DOUBT_MS = 3000; // until a question is given up; until the server is asked whether the kernel is still there

/** What came in bytes as a view of it, in whichever form a notebook hands it over. */
const viewed = value => value instanceof ArrayBuffer ? new DataView(value) : ArrayBuffer.isView(value) ? new DataView(value.buffer, value.byteOffset, value.byteLength) : value;

/** A host over an anywidget model: parts are traits, questions are custom messages. */
export function kernelHost(model) {
  const waiting = new Map();
  let number = 0, alive = true;
  const gone = new Set(), said = new Set();
  const unanswered = { sentence: "The kernel has stopped." };
  const stop = () => {
    if (!alive) return;
    alive = false;
    waiting.forEach(one => { clearTimeout(one.timer); one.reject(unanswered); });
    waiting.clear();
    gone.forEach(f => f());
  };
  const heard = (message, buffers) => {
    const one = waiting.get(message.id);
    if (message.said) said.forEach(f => f(message));
    if (!one) return;
    waiting.delete(message.id);
    clearTimeout(one.timer);
    if (message.error?.traceback) console.error(message.error.traceback);
    if (message.error) one.reject(message.error); else one.resolve({ ...message, buffers: buffers?.map(viewed) });
  };
  /** A kernel that ended as it was idle says nothing, and its connection stays. */
  const doubt = () => { const kernel = model.widget_manager?.kernel; if (kernel?.serverSettings) missing(kernel).then(yes => { if (yes) stop(); }); };
  model.on("msg:custom", heard);
  const unwatch = watchKernel(model, stop);
  const host = {
    get: name => model.get(name),
    bytes: name => viewed(model.get(name)),
    on: (name, act) => model.on(`change:${name}`, act),
    tell: values => { for (const [name, value] of Object.entries(values)) model.set(name, value); if (alive) model.save_changes(); },
    remember: state => { if (alive) host.tell({ state }); },
    get alive() { return alive; },
    onGone: act => gone.add(act),
    onSaid: act => said.add(act),
    ask(kind, args = {}) {
      if (!alive) return Promise.reject(unanswered);
      const id = ++number;
      return new Promise((resolve, reject) => {
        const late = () => { waiting.delete(id); reject({ sentence: "The kernel did not answer within a minute." }); };
        waiting.set(id, { resolve, reject, timer: setTimeout(late, PATIENCE_MS) });
        setTimeout(() => { if (waiting.has(id)) doubt(); }, DOUBT_MS);
        try { model.send({ id, kind, args }); } catch { stop(); } // a kernel that was shut down takes nothing
      });
    },
    library: () => host.ask("library").then(({ buffers }) => buffers[0]),
    close() { unwatch(); model.off("msg:custom", heard); waiting.forEach(w => clearTimeout(w.timer)); waiting.clear(); },
  };
  return host;
}

const OVER = ["restarting", "autorestarting", "terminating", "dead"];

/** Call `stop` when the kernel behind a model has gone: it was shut down, it died, it begins anew, or there never was one. */
function watchKernel(model, stop) {
  const manager = model.widget_manager, status = manager?.kernel?.statusChanged, shut = manager?.kernel?.disposed;
  const ended = (_, now) => { if (OVER.includes(now)) stop(); };
  let real = null; // what this module is given does not tell whether it is connected
  const live = () => { if (real?.comm_live === false) stop(); };
  status?.connect(ended); shut?.connect(stop);
  if (model.get("known_as")) manager?.get_model?.(model.get("known_as")).then(found => { real = found; real.on("comm_live_update", live); live(); }, () => {});
  return () => { status?.disconnect(ended); shut?.disconnect(stop); real?.off("comm_live_update", live); };
}

/** Whether the server no longer has a kernel. */
async function missing({ id, serverSettings: server }) {
  const headers = server.token ? { Authorization: `token ${server.token}` } : {};
  return fetch(`${server.baseUrl}api/kernels/${id}`, { cache: "no-store", headers }).then(found => found.status === 404, () => false);
}

/** An action of which only the last call matters: one is under way at a time, and of those that are asked for meanwhile the last one follows. */
export function lastOnly(act) {
  let busy = false, next = null;
  return async function begin(...given) {
    if (busy) { next = given; return; }
    busy = true;
    try { await act(...given); } finally {
      busy = false;
      const after = next;
      next = null;
      if (after) begin(...after);
    }
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
    on() {}, tell() {}, remember() {}, onGone() {}, onSaid() {}, close() {},
    alive: false,
    library: async () => decode(bytes.library),
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
