how => {
  // A second house over what Jupyter gives a widget: a model that a kernel stands behind, which may end.
  const signal = () => { const all = new Set(); return { connect: f => all.add(f), disconnect: f => all.delete(f), emit: (...given) => all.forEach(f => f(...given)) }; };
  const kernel = { statusChanged: signal(), disposed: signal(), emit: status => kernel.statusChanged.emit(kernel, status), shut: () => kernel.disposed.emit(kernel) };
  const listeners = {}, file = page.fileHost(content);
  const on = (name, act) => (listeners[name] ??= []).push(act);
  const tell = name => (listeners[name] ?? []).forEach(act => act());
  const real = { comm_live: how.comm_live ?? true, on, off() {} };
  const model = {
    sent: [], on, off() {}, set() {}, save_changes() {}, widget_manager: { kernel, get_model: async () => real },
    get: name => name === "known_as" ? "m" : name === "undo" ? ["Undo it", ""] : file.bytes(name) ?? content.parts[name],
    send(message) { model.sent.push(message); },
    drop() { real.comm_live = false; tell("comm_live_update"); },
  };
  globalThis.widget?.close();
  document.getElementById("second")?.remove();
  const el = document.createElement("div");
  el.id = "second";
  document.body.append(el);
  globalThis.widget = { model, kernel, close: page.render({ model, el }) };
}
