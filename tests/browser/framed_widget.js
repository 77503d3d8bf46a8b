// What a notebook other than JupyterLab gives a widget: a model over the session in the test, and a manager that knows no kernel.
globalThis.VIEWS = { // of what came in bytes: how VS Code and Colab hand it over
  vscode: view => view,
  colab: view => new Uint8Array(view.buffer),
};
globalThis.mountWidget = (content, host, kernel) => {
  const heard = {}, values = { ...content.parts, known_as: "m" }, seen = VIEWS[host];
  const told = (name, ...given) => (heard[name] ?? []).forEach(act => act(...given));
  const take = (parts, bytes) => {
    for (const [name, text] of Object.entries(bytes)) parts = { ...parts, [name]: text ? decode(text) : null };
    const names = Object.keys(parts).filter(name => bytes[name] !== undefined || JSON.stringify(values[name]) !== JSON.stringify(parts[name]));
    Object.assign(values, parts);
    names.forEach(name => told(`change:${name}`));
  };
  const real = { comm_live: true, on() {}, off() {} };
  const model = {
    get: name => values[name] ?? null, set: (name, value) => { values[name] = value; }, save_changes() {},
    on: (name, act) => (heard[name] ??= []).push(act), off: (name, act) => { heard[name] = (heard[name] ?? []).filter(one => one !== act); },
    widget_manager: { get_model: async () => real, ...kernel ? { kernel } : {} },
    async send({ id, kind, args }) {
      waiting++;
      const answer = await askSession(kind, args).finally(() => { waiting--; });
      if (answer.changed) take(answer.changed.parts, answer.changed.bytes);
      told("msg:custom", answer.error ? { id, error: answer.error } : { id, data: answer.data }, (answer.buffers ?? []).map(text => seen(decode(text))));
    },
  };
  take({}, content.bytes);
  const el = document.getElementById("output").appendChild(document.createElement("div"));
  globalThis.closeWidget = page.render({ model, el });
  globalThis.driver = el.querySelector(".ironworks").ironworks;
};
