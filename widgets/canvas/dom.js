// Making elements and writing numbers: the few functions that every pane uses.

/** An HTML element: attributes by name ("on…" are listeners, "style" a text), children as nodes or texts. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element, likewise. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter(c => c !== null && c !== undefined && c !== false));
  return node;
}

/** Replace what is in a node. */
export const put = (node, ...children) => { node.replaceChildren(...children.flat().filter(Boolean)); return node; };

/** The keys that are pressed in here are not the notebook's, which would insert, cut and undo cells: all but Shift + Enter and those with Ctrl, Alt or Meta. */
export function keepKeys(root) {
  root.addEventListener("keydown", event => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && !(event.shiftKey && event.key === "Enter")) event.stopPropagation();
  });
  return root;
}

/** A box that holds more than it shows takes the focus, so that the arrow keys scroll it, and is called what `name()` says; one that shows all of it is no stop for Tab. */
export function scrolls(box, name) {
  const look = () => {
    const over = box.scrollHeight > box.clientHeight + 1 || box.scrollWidth > box.clientWidth + 1;
    if (over) { box.tabIndex = 0; box.setAttribute("role", "region"); box.setAttribute("aria-label", name()); }
    else for (const its of ["tabindex", "role", "aria-label"]) box.removeAttribute(its);
  };
  new ResizeObserver(look).observe(box);
  new MutationObserver(() => requestAnimationFrame(look)).observe(box, { childList: true, subtree: true });
  return box;
}

export const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

/** A duration in microseconds, in the unit that suits it. */
export function duration(us) {
  if (us >= 1e6) return `${(us / 1e6).toPrecision(3)} s`;
  if (us >= 1e4) return `${(us / 1e3).toFixed(1)} ms`;
  return us >= 100 ? `${Math.round(us).toLocaleString("en")} µs` : `${us.toFixed(1)} µs`;
}

export const percent = share => `${(share * 100).toFixed(1)}%`;
export const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

const pen = document.createElement("canvas").getContext("2d");

/** How wide a label is in a font. */
export function textWidth(text, font) {
  pen.font = font;
  return pen.measureText(text).width;
}

/** The text, where it is wider than the room: of a path its last parts that fit, behind an ellipsis; of others what fits with one in the middle. */
export function fit(text, room, font) {
  if (textWidth(text, font) <= room) return text;
  for (const { index } of /^\S*[/:]\S+( \S+){0,2}$/.test(text) ? text.matchAll(/(?<=.)[/:]|(?<= )\S/g) : [])
    if (textWidth(`…${text.slice(index)}`, font) <= room) return `…${text.slice(index)}`;
  let low = 1, high = text.length;
  const cut = n => `${text.slice(0, Math.ceil(n / 2))}…${text.slice(text.length - Math.floor(n / 2))}`;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(cut(middle), font) <= room) low = middle; else high = middle - 1;
  }
  return cut(low);
}

/** The text, or its end where it is wider than the room: numbers at the end tell nodes apart. */
export function fitEnd(text, room, font) {
  if (textWidth(text, font) <= room) return text;
  let keep = text.length - 1;
  while (keep > 1 && textWidth(`…${text.slice(-keep)}`, font) > room) keep--;
  return `…${text.slice(-keep)}`;
}

/** Tell at a field why what stands in it is refused; "" where nothing is wrong. */
export function wrong(field, why) {
  const told = field.parentNode?.querySelector(".wrong");
  if (why) field.setAttribute("aria-invalid", "true"); else field.removeAttribute("aria-invalid");
  if (told && !why) told.remove();
  if (!why) return;
  if (told) told.textContent = why; else field.parentNode?.append(h("span", { class: "wrong", role: "alert" }, why));
}

const ICONS = {
  undo: "M3 6h7a3.5 3.5 0 0 1 0 7H6M6 3 3 6l3 3",
  redo: "M13 6H6a3.5 3.5 0 0 0 0 7h4M10 3l3 3-3 3",
  theme: "M8 3a5 5 0 1 0 0 10a5 5 0 0 0 0-10v10",
  find: "M11 6.5a4.5 4.5 0 1 1-9 0a4.5 4.5 0 0 1 9 0M9.8 9.8 14 14",
  full: "M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4",
  check: "M13 7a6 6 0 1 1-12 0a6 6 0 0 1 12 0M4.2 7.2l2 2 3.6-4.2",
  cross: "M3 3l8 8M11 3l-8 8",
};

/** A line drawing of 14 px. */
export const icon = (name, box = 16) => s("svg", { viewBox: `0 0 ${box} ${box}`, width: 14, height: 14, "aria-hidden": "true" },
  s("path", { d: ICONS[name], fill: "none", stroke: "currentColor", "stroke-width": 1.5 }));

/** Tabs: `options` are [value, label, hint] rows, the hint where there is one. */
export function tabs(options, now, pick, label) {
  const choose = value => event => {
    const around = event.currentTarget.closest(".pane,.room"), list = event.currentTarget.closest(".tabs");
    pick(value);
    if (!list.isConnected) around?.querySelector(`.tabs[aria-label="${CSS.escape(label)}"] [aria-selected=true]`)?.focus({ preventScroll: true }); // drawn anew: who was there stays
  };
  const held = options.some(([value]) => value === now) ? now : options[0]?.[0]; // one of them is on Tab's way, arrows go to the others
  return roving(h("span", { class: "tabs", role: "tablist", "aria-label": label }, options.map(([value, text, hint]) =>
    h("button", { role: "tab", type: "button", title: hint, "data-tab": value, tabindex: value === held ? 0 : -1, "aria-selected": String(value === now), onclick: choose(value) }, text))));
}

/** Arrows go from button to button of a row, or of a column, and Home and End to its ends. */
export function roving(row, column = false) {
  row.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const all = [...row.querySelectorAll("button:not([disabled])")].filter(b => b.offsetParent), at = all.indexOf(event.target.closest("button"));
    const to = { [column ? "ArrowUp" : "ArrowLeft"]: at - 1, [column ? "ArrowDown" : "ArrowRight"]: at + 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault(); event.stopPropagation();
    all[(to + all.length) % all.length].focus();
  });
  return row;
}
