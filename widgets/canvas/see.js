// What you see: the sentences under a picture's title. A number that is pointed at lights its marks, the others fade.
import { h, put } from "./dom.js";

/** `light(keys)` lights the marks of some words, alternatives as lists of words; [] lights all. */
export function sentences(light) {
  const box = h("div", { class: "see", "aria-live": "polite" });
  for (const [kinds, on] of [[["pointerover", "focusin"], true], [["pointerout", "focusout"], false]])
    for (const kind of kinds) box.addEventListener(kind, event => {
      const mark = event.target.closest(".hl");
      if (mark) light(on ? mark.dataset.lights.split("|").map(words => words.split(" ")) : []);
    });
  let told = "";
  const step = h("span", { class: "step" }); // what the step on show is about
  return {
    box,
    /** What a step of the picture is about, behind the sentences. */
    of(text) { step.textContent = text; step.hidden = !text; },
    /** Sentences as lists of [text, lights], lights "" for plain words. */
    show(list) {
      const text = JSON.stringify(list);
      if (text === told) return;
      told = text;
      step.textContent = ""; step.hidden = true;
      put(box, list.map(parts => h("span", { class: "s1" }, parts.map(([text, lights]) => lights ? h("span", { class: "hl", tabindex: 0, "data-lights": lights }, text) : text))), step);
    },
  };
}

/** Lines that were drawn anew meanwhile are lit as those before. */
export function litAgain(node) { const drawn = node.closest(".lights.lighting"); if (drawn) lightMarks(drawn, drawn.lit); }

/** Light the marks of a drawing, a chart, or rows and lines of class `lights` that have all words of one of `keys`; those around them stay as well. */
export function lightMarks(drawn, keys) {
  drawn.classList.toggle("lighting", keys.length > 0);
  drawn.lit = keys;
  const nodes = [...drawn.querySelectorAll("[data-k]")], on = node => { const words = node.dataset.k.split(" "); return keys.some(all => all.every(word => words.includes(word))); };
  const lit = new Set(nodes.filter(on));
  for (const node of nodes) node.classList.toggle("on", lit.has(node) || [...node.querySelectorAll("[data-k]")].some(inner => lit.has(inner)) || [...lit].some(outer => outer.contains(node)));
}
