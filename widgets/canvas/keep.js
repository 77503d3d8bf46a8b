// A picture or a table as a file.
import { h } from "./dom.js";

const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity", "display", "visibility", "font-family", "font-size", "font-weight", "font-style", "text-anchor", "white-space"];

/** A drawing that stands alone: with the colours and fonts that it has on the page, on the page's ground. */
export function standalone(svg) {
  const copy = svg.cloneNode(true), { width, height } = svg.viewBox.baseVal, ends = [copy, ...copy.querySelectorAll("*")];
  [svg, ...svg.querySelectorAll("*")].forEach((node, n) => {
    const style = getComputedStyle(node);
    for (const name of ["fill", "stroke", "class"]) ends[n].removeAttribute(name); // what the page makes of them is in the style
    ends[n].setAttribute("style", STYLES.map(name => `${name}:${style.getPropertyValue(name).replaceAll('"', "'")}`).join(";"));
  });
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const ground = document.createElementNS(svg.namespaceURI, "rect"), page = getComputedStyle(svg.closest(".ironworks")).getPropertyValue("--pane").trim();
  for (const [name, value] of Object.entries({ width, height, fill: page })) ground.setAttribute(name, value);
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

/** A drawing as the bytes of a PNG, two pixels a unit. */
export const painted = async svg => {
  const image = new Image(), address = URL.createObjectURL(new Blob([standalone(svg)], { type: "image/svg+xml" }));
  image.src = address;
  try { await image.decode(); } finally { URL.revokeObjectURL(address); }
  const canvas = h("canvas", { width: 2 * image.width, height: 2 * image.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return bytes(canvas);
};

/** What a canvas shows, as the bytes of a PNG. */
export const bytes = canvas => new Promise(done => canvas.toBlob(done, "image/png"));

/** A table as comma separated values: numbers without the marks of thousands. */
export function csv({ columns, rows, numeric }) {
  const cell = (text, n) => { const plain = numeric[n] ? String(text).replaceAll(",", "") : String(text); return /[",\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain; };
  return [columns.map(c => cell(c, -1)), ...rows.map(row => row.map(cell))].map(line => line.join(",")).join("\r\n") + "\r\n";
}

/** Hand a file to the reader. */
export function kept(content, name, type) {
  const a = h("a", { href: URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type })), download: name });
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
}

/** A choice of formats, each done at once by `save(format)`. */
export function saving(formats, save) {
  return h("select", { class: "btn save", "aria-label": "Save what is shown", title: "Save what is shown as a file", onchange: event => { const format = event.target.value; event.target.selectedIndex = 0; save(format); } },
    h("option", { value: "" }, "Save"), formats.map(format => h("option", { value: format }, format.toUpperCase())));
}
