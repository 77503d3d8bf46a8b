// Verdicts on a simulated machine: {us, slower, step, trials, seconds, quiet} is given.
// The machine of tests/measure/simulated.py in short: jitter, a walk that forgets, tenants, interrupts.
let state = 1;
const random = () => { state = (state * 1103515245 + 12345) % 2147483648; return state / 2147483648; };
const gauss = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
const exponential = mean => -mean * Math.log(1 - random());
function machine(seed, step, quiet) {
  state = 1 + seed * 7919;
  let at = random() * 1e6, walk = 0, tenants = 1, next = at;
  const now = () => { at += 4e-5; return step ? Math.floor(at / step) * step : at; };
  const piece = ms => {
    if (quiet) { at += ms * Math.exp(0.003 * gauss()); return; }
    const memory = Math.exp(-ms / 100);
    walk = memory * walk + 0.015 * Math.sqrt(1 - memory ** 2) * gauss();
    if (at >= next) { const busy = random() < 0.3; tenants = busy ? 1.1 + 0.5 * random() : 1; next = at + exponential(busy ? 60 : 400); }
    at += ms * tenants * Math.exp(walk);
    if (random() < ms / 250) at += 1 + 3 * random();
  };
  const work = ms => calls => { for (let left = ms * calls; left > 0; left -= 2) piece(Math.min(2, left)); };
  return { now, work };
}
const verdicts = [], ratios = [];
for (let seed = 0; seed < given.trials; seed++) {
  const { now, work } = machine(seed, given.step, given.quiet), ms = given.us / 1e3;
  const turns = await live.measure.takeTurns([work(ms), work(given.slower * ms)], given.seconds, { now, random });
  const found = live.measure.comparison(...turns);
  verdicts.push(found.verdict); ratios.push(found.ratio);
}
say({ verdicts, ratios });
