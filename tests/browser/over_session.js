// A host that is alive over a session in the test: every question goes to Python; after a command what has changed is told.
globalThis.sent = [];
globalThis.askPython = (kind, args) => askSession(kind, args);
const decode = text => { const raw = atob(text), out = new Uint8Array(raw.length); for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i); return new DataView(out.buffer); };
function overSession(content, closed) {
  const acts = {}, bytes = { ...content.bytes }, never = new Promise(() => {});
  function changed(told) {
    Object.assign(bytes, told.bytes);
    const names = Object.keys(told.parts).filter(name => JSON.stringify(content.parts[name]) !== JSON.stringify(told.parts[name]));
    Object.assign(content.parts, told.parts);
    for (const name of names) for (const act of acts[name] ?? []) act();
  }
  const asking = { ...page.fileHost(content), alive: true, has: undefined,
    get: name => content.parts[name], bytes: name => bytes[name] ? decode(bytes[name]) : null,
    on: (name, act) => { (acts[name] ??= []).push(act); },
    library: async () => (await asking.ask("library")).buffers[0],
    async ask(kind, args = {}) {
      if (closed()) return never;
      waiting++;
      const answer = await askSession(kind, args).finally(() => { waiting--; });
      if (closed()) return never;
      if (answer.changed) changed(answer.changed);
      if (answer.error) throw answer.error;
      const buffers = (answer.buffers ?? []).map(decode);
      if (buffers.length) sent.push(buffers.reduce((sum, b) => sum + b.byteLength, JSON.stringify(answer.data).length));
      return { data: answer.data, buffers };
    } };
  return asking;
}
