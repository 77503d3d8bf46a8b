// The four pictures as small ones: what each looks like, not what it holds.
import { h, s } from "./dom.js";

const box = (x, y, w, high, fill, stroke) => s("rect", { x, y, width: w, height: high, fill: fill ? `var(--${fill})` : "none", stroke: stroke ? `var(--${stroke})` : null });
const line = (d, stroke, wide = 1) => s("path", { d, fill: "none", stroke: `var(--${stroke})`, "stroke-width": wide });
const MARKS = {
  rammer: () => [...[14, 9, 12, 12].map((w, i) => box(3, 3 + 6.5 * i, w, 5, "f-reduction")), line("M19 2v26", "ink"), box(21, 3, 11, 5, "accent"), box(33, 3, 12, 5, "f-matmul"), box(21, 9.5, 16, 5, "accent"), box(21, 16, 12, 5, "f-matmul"), box(21, 22.5, 20, 5, "f-matmul")],
  roller: () => [box(4, 12, 10, 14, "", "edge"), box(17, 2, 24, 7, "", "edge"), box(17, 12, 24, 14, "", "edge"), box(4, 12, 10, 7, "f-matmul"), box(17, 2, 12, 7, "f-matmul"), box(17, 12, 12, 7, "accent")],
  welder: () => [line("M2 13.5h44M2 20.5h44M2 27.5h44", "line2"), box(3, 3, 10, 6, "f-reduction"), box(19, 3, 10, 6, "f-matmul"), box(35, 3, 10, 6, "f-elementwise"), line("M10 9v14h12V9M26 9v5h12V9", "ink", 1.5)],
  grinder: () => [line("M24 8v4M12 18v-6h24v6M12 18v5M31 23v-3h10v3", "edge"), box(17, 2, 14, 6, "v1"), box(5, 14, 14, 6, "v2"), box(29, 14, 14, 6, "v2"), box(6, 23, 11, 5, "v3"), box(26, 23, 8, 5, "v3"), box(37, 23, 8, 5, "v3")],
};
export const NAMED = Object.keys(MARKS); // in the order of their keys

/** Buttons of the four pictures; `go(name)` shows one. */
export const thumbs = (pictures, go) => NAMED.map((name, i) => {
  const picture = pictures.find(p => p.name === name);
  return h("button", { class: "thumb", type: "button", "data-picture": name, title: `${picture.title} (${i + 1})`, onclick: () => go(name) },
    s("svg", { viewBox: "0 0 48 30", "aria-hidden": "true" }, MARKS[name]()), picture.short);
});
