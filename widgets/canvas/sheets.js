// What lies over the explorer for a moment: all keys, and what finds a picture, an operator or an action.
import { h, put } from "./dom.js";

const KEYS = [
  ["1 to 4", "Schedule, Tiles, Fusion, Control flow"], ["[ ]", "stage before, after"], ["R", "the stage's next picture"], ["J K", "next operator, the one before"], ["Space", "play, pause"], ["← →", "a step back, on"], [", .", "a step, or a task, back, on"], ["Shift + ← →", "pan; move a picked task"], ["Z X", "zoom in, out"],
  ["A", "baseline over now"], ["B", "set the baseline"], ["M", "measure"], ["W", "what if: all other knobs"], ["N", "why not: the next refused tile"], ["G I C", "graph, inspector, code"], ["F", "full screen"], ["Ctrl + K or /", "find a picture, an operator, an action"],
  ["U", "undo; Shift U redo"], ["T", "table"], ["D", "diff"], ["L", "copy a link"], ["S", "save a snapshot"], ["Ctrl + Enter", "try an edited kernel"], ["Tab", "next control"], ["↑ ↓", "scroll; a line of a kernel's code"], ["Esc", "close; then clear the selection"], ["?", "this sheet"],
];

/** Open or close the sheet of all keys. */
export function keySheet(house) {
  const open = house.querySelector(".sheet");
  if (open) open.remove();
  else house.append(h("div", { class: "sheet", role: "dialog", "aria-label": "All keys" }, KEYS.map(([key, what]) => h("div", {}, what, h("kbd", {}, key)))));
}

const MOST = 200;

/** Find among `items`, each [words, kind, act, other words that find it], and do one. */
export function findSheet(house, items) {
  if (house.querySelector(".find")) return;
  const list = h("div", { class: "list", role: "listbox", id: "iw-found", "aria-label": "Found" }), input = h("input", { "aria-label": "Find a picture, an operator, an action", placeholder: "Find a picture, an operator, an action", role: "combobox", "aria-expanded": "true", "aria-controls": "iw-found", oninput: () => { at = 0; show(); }, onkeydown: keys });
  const box = h("div", { class: "find", role: "dialog", "aria-label": "Find" }, input, list), over = h("div", { class: "ov", onpointerdown: event => { if (event.target === over) close(); } }, box);
  let hits = [], at = 0;
  const close = () => { over.remove(); house.focus({ preventScroll: true }); };
  const take = n => { const act = hits[n]?.[2]; close(); act?.(); };
  function show() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    hits = items.filter(([text, kind, , more = ""]) => words.every(word => `${text} ${kind} ${more}`.toLowerCase().includes(word))).slice(0, MOST);
    at = Math.max(0, Math.min(at, hits.length - 1));
    put(list, hits.length ? hits.map(([text, kind], n) => h("button", { type: "button", role: "option", tabindex: -1, "aria-selected": String(n === at), onclick: () => take(n) }, h("span", {}, text), h("small", {}, kind))) : h("p", {}, "Nothing has that name. Try “tile”, “MatMul” or “full screen”."));
    list.children[at]?.scrollIntoView({ block: "nearest" });
  }
  function keys(event) {
    if (event.key === "Escape") close();
    else if (event.key === "Enter") take(at);
    else if (event.key === "Tab") input.focus(); // what is under the sheet gets no focus
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") { at += event.key === "ArrowDown" ? 1 : -1; show(); } else return;
    event.preventDefault(); event.stopPropagation();
  }
  house.append(over);
  show();
  input.focus();
}

/** Show a link for the reader to copy, where the page has no clipboard. */
export function linkSheet(house, url) {
  const close = () => { over.remove(); house.focus({ preventScroll: true }); };
  const input = h("input", { "aria-label": "Link to this state", readonly: true, value: url });
  const box = h("div", { class: "find", role: "dialog", "aria-label": "Link" }, input, h("p", {}, "Copy this link; pasted over an explorer of the model, it brings this state back."));
  const over = h("div", { class: "ov", onpointerdown: event => { if (event.target === over) close(); }, onkeydown: event => { if (event.key !== "Escape" && event.key !== "Tab") return; event.preventDefault(); event.stopPropagation(); if (event.key === "Escape") close(); } }, box);
  house.append(over);
  input.select();
}
