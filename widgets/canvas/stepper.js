// A picture of something that went on step by step: buttons and keys walk through it, the words of each step are read out.
import { h, clamp } from "./dom.js";

/** A bar over `picture` where it has marks with data-step, else null. The words of a step are the titles of its marks. */
export function stepperBar(picture, noun = "step") {
  const marks = [...picture.querySelectorAll("[data-step]")].map(node => [Number(node.dataset.step), node]);
  if (!marks.length) return null;
  const last = Math.max(...marks.map(([n]) => n)), count = h("b"), words = h("span", { class: "words", "aria-live": "polite" });
  let now = last;
  const button = (label, sign, to) => h("button", { class: "btn", type: "button", "aria-label": label, title: label, onclick: () => go(to()) }, sign);
  const bar = h("div", { class: "stepper", role: "toolbar", "aria-label": `Walk through the ${noun}s`, onkeydown: keys },
    button(`First ${noun} (Shift ,)`, "«", () => 0), button(`${noun} before (,)`, "‹", () => now - 1), button(`Next ${noun} (.)`, "›", () => now + 1), button(`Last ${noun} (Shift .)`, "»", () => last), count, words);

  function go(to, quiet = false) {
    now = clamp(to, 0, last);
    for (const [n, node] of marks) { node.classList.toggle("now", !quiet && n === now); node.classList.toggle("later", n > now);  }
    const said = marks.filter(([n]) => n === now).map(([, node]) => node.querySelector(":scope > title")?.textContent).filter(Boolean);
    count.textContent = `${noun} ${now + 1} of ${last + 1}`;
    words.textContent = said.join("; ");
  }
  function keys(event) {
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault(); event.stopPropagation();
    go(to);
  }
  for (const [n, node] of marks) node.addEventListener("click", () => go(n));
  go(last, true);
  return { bar, move: by => go(now + by), end: which => go(which < 0 ? 0 : last) };
}
