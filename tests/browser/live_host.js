// A host that is alive: questions that the page can answer it answers, commands it writes down.
const content = JSON.parse(document.getElementById("content").textContent);
const COMMANDS = ["turn", "measure", "undo", "redo", "pin", "link", "save", "restore"];
const gone = [];
globalThis.asked = [];
let refusal = "", delay = 0, wide = null;
globalThis.slow = milliseconds => { delay = milliseconds; };
globalThis.refuse = sentence => { refusal = sentence; };
const file = page.fileHost(content);
const live = {
  ...file, get: name => name === "undo" ? ["Undo it", "Redo it"] : content.parts[name], bytes: name => wide ? name === "wall_more" ? null : wide : file.bytes(name),
  alive: true, onGone: act => gone.push(act),
  async ask(kind, args = {}) {
    if (!this.alive) throw { sentence: "The kernel has stopped." };
    if (kind === "focus") return { data: {} };
    if (!COMMANDS.includes(kind)) return file.ask(kind, args);
    asked.push([kind, args]);
    if (delay) await new Promise(done => setTimeout(done, delay));
    if (refusal) throw { sentence: refusal };
    return { data: { said: kind === "measure" ? "measured" : kind, measure: kind === "turn", state: { stage: "ROLLED", op: "" } } };
  },
};
globalThis.stop = () => { live.alive = false; gone.forEach(act => act()); };
globalThis.driver = page.mount(document.getElementById("house"), live);

// Both walls with half a million bricks on each of two units.
globalThis.million = () => {
  const n = 1e6, bytes = new ArrayBuffer(24 * n), column = (Type, i) => new Type(bytes, 4 * i * n, n);
  const unit = column(Uint32Array, 0), start = column(Float32Array, 1), end = column(Float32Array, 2), call = column(Uint32Array, 3);
  for (let u = 0, i = 0; u < 2; u++)
    for (let t = 0, j = 0; j < n / 2; j++, i++) { unit[i] = u; start[i] = t; t += 0.5 + (i * 7 % 5) / 10; end[i] = t; call[i] = (i / 300 | 0) % 3; t += i % 50 ? 0.02 : 0.4; }
  wide = new DataView(bytes);
  for (const name of ["wall_planned", "wall_measured"]) Object.assign(content.parts.walls[name], { bricks: n, gaps: 0, total_us: end[n - 1] });
  driver.wall.load();
};
