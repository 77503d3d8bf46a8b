// Threads of one program: each runs the rows of one unit over a shared memory, and they wait for each other on words of it.
// As in explorer/runtime/device_program, a unit publishes `epoch * stride + step`, and every barrier begins an epoch. Words wrap at 32 bits.
import { openUnit, refusal } from "./program.js";

const TURN = 0, ENDED = 32, BROKEN = 64, FAULT = 65, STEPS = 96, EACH = 32; // words: a value, then its number of sleepers, alone on two cache lines
const SPINS = 4000, LOOK_MS = 100; // before a thread sleeps, and between two looks at BROKEN; chosen
const MOST_TURN = 2 ** 30;

/** Where a thread meets the others; `place` is its unit's. A turn modulo the number of launches is the number of the launch. */
export function teamOf(/** @type {Int32Array} */ control, place, launches) {
  const publish = (at, value) => { Atomics.store(control, at, value); if (Atomics.load(control, at + 1)) Atomics.notify(control, at); };
  const isBroken = () => Atomics.load(control, BROKEN) !== 0;
  function until(at, isIt, ends = () => false) {
    for (let n = 0; n < SPINS; n++) if (isIt(Atomics.load(control, at))) return;
    Atomics.add(control, at + 1, 1);
    for (let seen = Atomics.load(control, at); !isIt(seen) && !ends(); seen = Atomics.load(control, at)) Atomics.wait(control, at, seen, LOOK_MS);
    Atomics.sub(control, at + 1, 1);
  }
  function reach(other, least) {
    until(STEPS + EACH * other, step => (step - least | 0) >= 0, isBroken);
    if (isBroken()) throw refusal("Another thread of this run stopped.");
  }
  const own = STEPS + EACH * place;
  return {
    publish: step => publish(own, step),
    reach,
    /** Wait for all units of a launch at the barrier that begins the epoch of `value`. */
    meet(units, value) {
      publish(own, value);
      for (let other = 0; other < units; other++) if (other !== place) reach(other, value);
    },
    /** Let the other units of a launch run. */
    begin(launch, units) {
      for (let other = 0; other < units; other++) Atomics.store(control, STEPS + EACH * other, 0);
      Atomics.store(control, BROKEN, 0);
      Atomics.store(control, FAULT, 0);
      Atomics.store(control, ENDED, 0);
      const turn = Atomics.load(control, TURN) % MOST_TURN, ahead = (launch - turn % launches + launches) % launches || launches;
      publish(TURN, turn + ahead);
    },
    /** Wait until the other units have ended; true if one broke. */
    finish(units) { until(ENDED, ended => ended === units - 1); return isBroken(); },
    setFault(number) { Atomics.store(control, FAULT, number); },
    fault: () => Atomics.load(control, FAULT),
    /** Wait for the turn after `turn`. */
    next(turn) { until(TURN, now => now !== turn); return Atomics.load(control, TURN); },
    ended() { Atomics.add(control, ENDED, 1); Atomics.notify(control, ENDED); },
    broken() { Atomics.store(control, BROKEN, 1); },
  };
}

const controlOf = ({ program, memory, layout }) => new Int32Array(memory.buffer, layout.control);

/** Start a Worker, of the script `source`, for each other unit of a placed program; return where the first unit meets them. */
export const startTeam = async (source, placed) => {
  const { program } = placed, address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const start = place => new Promise((resolve, reject) => {
    const worker = new Worker(address);
    worker.onerror = event => { event.preventDefault?.(); reject(refusal(`This browser started no thread ${place + 1} for this page; compare with one thread.`)); };
    worker.onmessage = ({ data: { share, error } }) => { if (error) reject(refusal(error)); else if (share === 1) resolve(); };
    worker.postMessage({ id: 0, kind: "unit", ...placed, place });
  });
  try { await Promise.all(Array.from({ length: program.units - 1 }, (_, n) => start(n + 1))); } finally { URL.revokeObjectURL(address); }
  return teamOf(controlOf(placed), 0, program.launches.length);
};

/** Run the rows of one unit whenever it is its turn, until the Worker is terminated; `tell(1)` when it is ready. */
export const runUnit = async (placed, tell) => {
  const { program, place } = placed, team = teamOf(controlOf(placed), place, program.launches.length);
  const unit = await openUnit(placed, place, { team });
  tell(1);
  for (let turn = 0;;) {
    turn = team.next(turn);
    const launch = turn % program.launches.length;
    if (!unit.takesPart(launch)) continue;
    try { unit.advance(launch); } catch { team.broken(); }
    team.ended();
  }
};
