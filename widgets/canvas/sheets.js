// What lies over the house for a moment: all keys, and the search for an operator.
import { h, put } from "./dom.js";

const KEYS = [
  ["[ ]", "stage before, after"], ["J K", "next operator, the one before"], ["Tab", "next control or pane"], ["↑ ↓", "scroll the pane; a line of a kernel's code"], ["Ctrl + Enter", "try an edited kernel"], ["Enter", "fold or unfold the graph"],
  ["Z X", "zoom the wall, or the picture, in, out"], ["← →", "pan the wall"], ["1 to 8", "go to a knob; arrows change it"], ["Shift + arrows", "a knob's ends"], ["R", "the stage's next picture"], [", .", "a step of the picture, or a brick, back, on"], ["Shift + ← → ↑ ↓", "move the picked brick"], ["M", "measure what was planned"], ["E", "a larger picture"], ["N", "the picture's next symbol"], ["W", "why not: the next refused tile"],
  ["P", "pin as A"], ["U", "undo; Shift U redo"], ["T", "table"], ["D", "diff"], ["L", "copy link"], ["S", "save a snapshot"], ["/", "find an operator"], ["G", "glossary: what a word means"], ["Esc", "clear the line, then the operator"], ["?", "this sheet"],
];
/** The keys that the status line shows. */
export const HINTS = [["[ ]", "stage"], ["J K", "operator"], ["Tab", "next"], ["Z X", "zoom", "opt"], ["W", "why not"], ["P", "pin", "opt"], ["T", "table"], ["L", "copy link", "opt"], ["U", "undo"], ["?", "all keys"]];

/** Open or close the sheet of all keys. */
export function keySheet(house) {
  const open = house.querySelector(".sheet");
  if (open) open.remove();
  else house.append(h("div", { class: "sheet", role: "dialog", "aria-label": "All keys" }, KEYS.map(([key, what]) => h("div", {}, what, h("kbd", {}, key)))));
}

/** Ask for an operator by its name or kind, and select it. */
export function findSheet(house, operators, select) {
  if (house.querySelector(".find")) return;
  const list = h("div"), box = h("div", { class: "find", role: "dialog", "aria-label": "Find an operator" });
  const close = () => { box.remove(); house.focus(); };
  const show = () => {
    const word = input.value.toLowerCase();
    const hits = word ? operators().map((o, i) => [o, i]).filter(([o]) => `${o[0]} ${o[2]}`.toLowerCase().includes(word)).slice(0, 8) : [];
    put(list, hits.map(([o, i]) => h("button", { type: "button", onclick: () => { close(); select(i); } }, `${o[1]}, ${o[2]}`)));
  };
  const keys = event => {
    if (event.key === "Escape") close();
    if (event.key === "Enter") list.querySelector("button")?.click();
  };
  const input = h("input", { "aria-label": "Find an operator", placeholder: "operator", oninput: show, onkeydown: keys });
  box.append(input, list);
  house.append(box);
  input.focus();
}
