// A picture of something that went on step by step: buttons and keys walk through it, the words of each step are read out.
// One with a mark data-scrub has a slider as well: its steps are places on a scale, so those after the present one are not faded.
import { h, clamp } from "./dom.js";

/** A bar over `picture` where it has marks with data-step, else null. The words of a step are the titles of its marks. */
export function stepperBar(picture, noun = "step", moved = () => {}) {
  const marks = [...picture.querySelectorAll("[data-step]")].map(node => [Number(node.dataset.step), node]);
  if (!marks.length) return null;
  const scrub = picture.querySelector("[data-scrub]")?.dataset, names = new Map(marks.filter(([, node]) => node.dataset.name).map(([n, node]) => [n, node.dataset.name]));
  if (scrub) noun = scrub.scrub;
  picture.classList.toggle("scrubbed", Boolean(scrub)); // from here on only what belongs to the present step shows
  const last = Math.max(...marks.map(([n]) => n)), first = Number(scrub?.first ?? last), count = h("b"), words = h("span", { class: "words", "aria-live": "polite" });
  let now = first;
  const button = (label, sign, to) => h("button", { class: "btn", type: "button", "aria-label": label, title: label, onclick: () => go(to()) }, sign);
  const slider = scrub ? h("input", { type: "range", min: 0, max: last, "aria-label": noun, oninput: () => go(slider.valueAsNumber) }) : null;
  const bar = h("div", { class: "stepper", role: "toolbar", "aria-label": `Walk through the ${noun}s`, onkeydown: keys },
    button(`First ${noun} (Shift ,)`, "«", () => 0), button(`${noun} before (,)`, "‹", () => now - 1), button(`Next ${noun} (.)`, "›", () => now + 1), button(`Last ${noun} (Shift .)`, "»", () => last), slider, count, words);

  function go(to, quiet = false, opening = false) {
    now = clamp(to, 0, last);
    for (const [n, node] of marks) { node.classList.toggle("now", !quiet && n === now); node.classList.toggle("later", !scrub && n > now); }
    const said = marks.filter(([n]) => n === now).map(([, node]) => node.querySelector(":scope > title")?.textContent).filter(Boolean);
    count.textContent = names.get(now) ?? `${noun} ${now + 1} of ${last + 1}`;
    if (slider) { slider.value = now; slider.setAttribute("aria-valuetext", count.textContent); }
    words.textContent = said.join("; ");
    moved(now);
    const span = opening ? null : marks.find(([n, node]) => n === now && node.dataset.span)?.[1].dataset.span;
    if (span) picture.dispatchEvent(new CustomEvent("span", { bubbles: true, detail: span.split(" ").map(Number) }));
  }
  function keys(event) {
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault(); event.stopPropagation();
    go(to);
  }
  for (const [n, node] of marks) node.addEventListener("click", () => go(n));
  go(first, !scrub, true);
  return { bar, go, last, words: () => words.textContent, get now() { return now; }, text: n => names.get(n) ?? `${noun} ${n + 1} of ${last + 1}`, move: by => go(now + by), end: which => go(which < 0 ? 0 : last) };
}
