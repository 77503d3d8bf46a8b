// Play: goes through the steps of a picture, one after the other; the scrubber is the same value.
import { h, s } from "./dom.js";
import { kept, painted, bytes, stored, filmed } from "./keep.js";

const still = () => matchMedia("(prefers-reduced-motion:reduce)").matches;
const mark = playing => s("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" }, s("path", playing ? { d: "M5 3v10M11 3v10", stroke: "currentColor", "stroke-width": 3 } : { d: "M4 2.5v11l9-5.5z", fill: "currentColor" }));

/**
 * The row under a picture. A picture that can be played is { name, last, at, text(step), said(step), go(step) -> promise, wait, frame() }:
 * `wait` milliseconds between steps, `frame()` the canvas or the drawing that shows the step now.
 */
export function playerView({ say, see }) {
  let now = null, timer = 0, running = 0;
  const button = h("button", { class: "btn ic", type: "button", onclick: toggle }), words = h("output", { "aria-live": "off" });
  const slider = h("input", { type: "range", min: 0, "aria-label": "Step", oninput: () => { const to = slider.valueAsNumber; stop(); go(to); } });
  const box = h("div", { class: "play", hidden: true }, button, slider, words);

  function draw() {
    button.replaceChildren(mark(running)); button.title = `${running ? "Pause" : "Play"} (Space)`; button.setAttribute("aria-label", running ? "Pause" : "Play");
    if (!now) return;
    slider.max = now.last; slider.value = now.at; words.textContent = words.title = now.text(now.at); slider.setAttribute("aria-valuetext", words.textContent);
    see.of(now.said?.(now.at) ?? "");
  }
  async function go(step) {
    const mine = now;
    await now.go(step);
    if (mine === now) draw();
  }
  function stop() { running = 0; clearTimeout(timer); draw(); }
  async function toggle() {
    if (!now) return false;
    if (running) { stop(); return true; }
    if (still()) { await go(now.at >= now.last ? 0 : now.at + 1); return true; } // a step, no motion
    const mine = ++running;
    if (now.at >= now.last) await go(0);
    draw();
    const next = async () => {
      if (!running || mine !== running || !now) return;
      if (now.at >= now.last) { stop(); return; }
      await go(Math.min(now.last, now.at + Math.max(1, Math.round(now.last / 150))));
      timer = setTimeout(next, now?.wait ?? 0);
    };
    timer = setTimeout(next, now.wait);
    return true;
  }
  /** All steps as a film, or each as a picture in one archive. */
  async function record(kind) {
    if (!now || !kind) return;
    stop();
    const before = now.at, mine = now, every = Math.max(1, Math.ceil(mine.last / 240)), steps = [];
    for (let step = 0; step < mine.last; step += every) steps.push(step);
    steps.push(mine.last);
    const shot = async step => { await go(step); await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))); say(`${step} of ${mine.last}`, true); return mine.frame(); };
    try {
      if (kind === "webm") kept(await filmed(steps, shot, mine.wait), `ironworks-${mine.name}.webm`);
      else {
        const files = [];
        for (const step of steps) { const frame = await shot(step); files.push([`${mine.name}-${String(step).padStart(4, "0")}.png`, new Uint8Array(await (await (frame instanceof HTMLCanvasElement ? bytes(frame) : painted(frame))).arrayBuffer())]); }
        kept(stored(files), `ironworks-${mine.name}.zip`);
      }
      say(`Saved ${steps.length} steps.`);
    } catch (error) { say(error.sentence ?? `The steps could not be saved: ${error.message ?? error}`); }
    await go(before);
  }
  return {
    box, toggle, stop, record,
    get plays() { return Boolean(now); },
    /** Show the steps of another picture, null where it has none. */
    of(player) {
      if (player?.name !== now?.name || !player) { running = 0; clearTimeout(timer); }
      const held = box.contains(box.getRootNode().activeElement);
      now = player?.last > 0 ? player : null;
      box.hidden = !now;
      if (held && !now) box.closest(".house")?.focus({ preventScroll: true }); // what had the focus is gone
      draw();
    },
    /** A step was taken in the picture itself. */
    moved(step) { if (now && now.at !== step) { now.at = step; draw(); } },
    /** A step on or back; false where there are none. */
    step(by) { if (!now) return false; stop(); go(Math.max(0, Math.min(now.last, now.at + by))); return true; },
    end(which) { if (!now) return false; stop(); go(which < 0 ? 0 : now.last); return true; },
  };
}
