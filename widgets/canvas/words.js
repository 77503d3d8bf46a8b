// The words of the glossary: what one means is told on hover, wherever it stands, and all of them in a sheet.
import { h, s, put } from "./dom.js";

const MOST = 3, LONG = 160; // words that one place tells of; letters of a text that is looked at
const OWN = "[data-means]", CODE = ".code,pre,code,select,input,textarea";

/** What is pointed at in `root` tells the words of `glossary` ({word: meaning}) that stand in it, where it has nothing else to tell. */
export function explained(root, glossary) {
  const names = Object.keys(glossary ?? {}).sort((a, b) => b.length - a.length), low = Object.fromEntries(names.map(n => [n.toLowerCase(), n]));
  if (!names.length) return;
  const pattern = new RegExp(`(?<![\\w-])(${names.map(n => n.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})(?:s|es)?(?![\\w-])`, "gi");
  const own = node => node.querySelector(":scope > title");
  /** Whether something else is told there already: by the element, by what is around it, or in a drawing by its group. */
  const told = node => node.closest("[title]:not([data-means])") || !node.matches(OWN) && own(node) || node.parentNode?.matches?.("g") && own(node.parentNode);
  root.addEventListener("pointerover", ({ target }) => {
    const node = target.closest?.("text") ?? target;
    if (!node.closest || node.closest(CODE) || told(node)) return;
    const text = [...node.childNodes].filter(c => c.nodeType === 3 || c.nodeName === "tspan").map(c => c.textContent).join(" ").trim();
    if (node.dataset.means === text) return;
    const found = text.length > LONG ? [] : [...new Set([...text.matchAll(pattern)].map(m => low[m[1].toLowerCase()]))].slice(0, MOST), means = found.map(n => `${n}: ${glossary[n]}`).join("\n");
    if (!means && !node.matches(OWN)) return;
    if (!node.namespaceURI.endsWith("svg")) node.title = means;
    else { own(node)?.remove(); if (means) node.append(s("title", {}, means)); }
    if (!means) node.removeAttribute("title");
    if (means) node.dataset.means = text; else delete node.dataset.means;
  });
}

/** Open or close the sheet of all words; what is typed leaves those that have it in them. */
export function wordSheet(house, glossary) {
  const open = house.querySelector(".glossary");
  if (open) { open.remove(); house.focus({ preventScroll: true }); return; }
  const list = h("dl", { tabindex: "0", "aria-label": "Words" });
  const show = () => {
    const part = input.value.trim().toLowerCase();
    put(list, Object.entries(glossary).filter(([word, means]) => !part || `${word} ${means}`.toLowerCase().includes(part)).sort(([a], [b]) => a.localeCompare(b)).flatMap(([word, means]) => [h("dt", {}, word), h("dd", {}, means)]));
  };
  const input = h("input", { "aria-label": "Find a word", placeholder: "word", oninput: show });
  house.append(h("div", { class: "glossary", role: "dialog", "aria-label": "Glossary", onkeydown: event => { if (event.key === "Escape") { event.stopPropagation(); wordSheet(house, glossary); } } }, input, list));
  show();
  input.focus();
}
