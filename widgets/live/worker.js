// The Worker behind the page: it opens programs, checks their answers, and measures. It ends when the page terminates it, which is how a job is cancelled.
import { openProgram } from "./program.js";
import { checkAnswer } from "./answers.js";
import { comparison, measurement, takeTurns } from "./measure.js";
import { callTimes, meanRun, packWall } from "./stamped_wall.js";
import { runUnit, startTeam } from "./team.js";
import { meanGpuRun, openGpuProgram } from "./webgpu.js";

/**
 * @typedef {{id: number, kind: "open" | "unit" | "answer" | "measure" | "compare" | "wall", variant: number, other?: number, seconds?: number, known?: string[][],
 *   program?: import("./program.js").Program | import("./webgpu.js").WebGpuProgram, code?: Uint8Array, weights?: Uint8Array, stack?: number, reserved?: number, limits?: number, source?: string, inputs?: Uint8Array[], recorded?: import("./answers.js").Recorded[]}} Job `source`: this script, for other threads
 */

const PATIENCE = 1; // seconds

/** Answer jobs one after the other: {id, share} while one goes on, then {id, result} or {id, error: a sentence}. */
export function serve(scope, now = () => performance.now()) {
  const opened = new Map();
  let queue = Promise.resolve();
  const isGpu = program => "shaders" in program;
  const work = variant => { const { runner } = opened.get(variant); return isGpu(runner.program) ? calls => runner.run(calls) : calls => { for (let n = 0; n < calls; n++) runner.run(); }; };
  const jobs = {
    unit: runUnit,
    async open({ variant, program, code, weights, stack, reserved, limits, source, inputs, recorded }) {
      const runner = isGpu(program) ? await openGpuProgram(program, weights) : await openProgram(program, code, weights, { stack, reserved, limits, now, join: placed => startTeam(source, placed) });
      inputs.forEach((bytes, index) => runner.write(index, bytes));
      opened.set(variant, { runner, recorded });
      return { on: runner.adapter ?? "" };
    },
    async answer({ variant }) {
      const { runner, recorded } = opened.get(variant), { outputs } = runner.program, answers = [];
      await runner.run();
      for (let n = 0; n < outputs.length; n++) answers.push(checkAnswer(outputs[n], await runner.read(n), recorded[n]));
      return answers;
    },
    async measure({ variant, seconds = PATIENCE }, tell) {
      return measurement((await takeTurns([work(variant)], seconds, { now, tell }))[0]);
    },
    async compare({ variant, other, seconds = PATIENCE }, tell) {
      return comparison(...await takeTurns([work(variant), work(other)], seconds, { now, tell }));
    },
    async wall({ variant, seconds = PATIENCE, known }, tell) {
      const { runner } = opened.get(variant), found = isGpu(runner.program) ? await meanGpuRun(runner, seconds, { now, tell }) : { program: runner.program, mean: meanRun(runner, seconds, { now, tell }) };
      if (!found) return null;
      const { program, mean } = found;
      return { calls: callTimes(program, mean), wall: packWall(program, mean, known), total_us: mean.total_us, runs: mean.runs, dropped: mean.dropped, left_out: mean.left_out };
    },
  };
  scope.onmessage = ({ data: job }) => {
    queue = queue.then(async () => {
      const tell = share => scope.postMessage({ id: job.id, share });
      tell(0);
      try {
        scope.postMessage({ id: job.id, result: await jobs[job.kind](job, tell) });
      } catch (problem) {
        scope.postMessage({ id: job.id, error: problem.sentence ?? `This is a fault of Ironworks: ${problem.message}` });
      }
    });
  };
}
