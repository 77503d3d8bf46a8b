// A kernel against itself, and against one with a tenth more tasks: {program, code, tasks, trials, seconds} is given.
const open = async tasks => {
  const program = structuredClone(given.program);
  program.launches[0].rows[0][3] = tasks;
  const runner = await live.program.openProgram(program, bytes(given.code), new Uint8Array(0));
  return calls => { while (calls--) runner.run(); };
};
const works = [await open(given.tasks), await open(given.tasks), await open(Math.round(1.1 * given.tasks))], out = { same: [], tenth: [] };
for (let trial = 0; trial < given.trials; trial++)
  for (const [name, other] of [["same", works[1]], ["tenth", works[2]]]) {
    const begin = performance.now(), found = live.measure.comparison(...await live.measure.takeTurns([works[0], other], given.seconds));
    out[name].push([found.verdict, found.ratio, performance.now() - begin]);
  }
say(out);
