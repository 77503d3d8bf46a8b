// A host that is alive: questions that the page can answer it answers, commands it writes down.
const COMMANDS = ["turn", "measure", "undo", "redo", "pin", "link", "save", "restore"];
function liveHost(content, closed) {
  const gone = [], never = new Promise(() => {}), file = page.fileHost(content);
  let refusal = "", delay = 0, timings = 0, compiling = false, steps = 0, reading = 0;
  globalThis.asked = [];
  globalThis.read = [];
  globalThis.compile = on => { compiling = on; };
  globalThis.others = count => { timings = count; };
  globalThis.slow = milliseconds => { delay = milliseconds; };
  globalThis.slowReads = milliseconds => { reading = milliseconds; };
  globalThis.refuse = sentence => { refusal = sentence; };
  const live = {
    ...file, get: name => name === "undo" ? ["Undo it", "Redo it"] : content.parts[name], bytes: name => file.bytes(name),
    alive: true, onGone: act => gone.push(act),
    async ask(kind, args = {}) {
      if (closed()) return never;
      if (!this.alive) throw { sentence: "The kernel has stopped." };
      if (kind === "focus") return { data: {} };
      if (kind === "begin_turn" && compiling) return { data: { job: 7, over: false } };
      if (kind === "job" && args.job === 7) return { data: { what: "tile (Roller)", n: Math.min(++steps, 30), of: 31, over: !compiling } };
      if (kind === "cancel") { compiling = false; return { data: {} }; }
      if (kind === "begin_measure" && timings > 0) { timings--; throw { sentence: "another timing is under way" }; }
      if (!COMMANDS.includes(kind)) {
        read.push([kind, args]);
        if (reading) await new Promise(done => setTimeout(done, reading));
        if (kind === "begin_picture") return { data: { over: true, data: (await file.ask("picture", args)).data } };
        return file.ask(kind, args);
      }
      asked.push([kind, args]);
      if (delay) await new Promise(done => setTimeout(done, delay));
      if (closed()) return never;
      if (refusal) throw { sentence: refusal };
      return { data: { said: kind === "measure" ? "measured" : kind, measure: kind === "turn", state: { stage: "ROLLED", op: "" } } };
    },
  };
  globalThis.stop = () => { live.alive = false; gone.forEach(act => act()); };
  return live;
}
