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
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(standalone(svg))}`; // VS Code's page takes no image from a blob
  await image.decode();
  const canvas = h("canvas", { width: 2 * image.width, height: 2 * image.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return bytes(canvas);
};

/** What a canvas shows, as the bytes of a PNG. */
export const bytes = canvas => new Promise(done => canvas.toBlob(done, "image/png"));

/** What shows a step as a canvas of its own size. */
async function asCanvas(frame) {
  if (frame instanceof HTMLCanvasElement) return frame;
  const canvas = h("canvas"), image = await createImageBitmap(await painted(frame));
  canvas.width = image.width; canvas.height = image.height;
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas;
}

/** Steps as a film: `shot(step)` shows each and returns what shows it, which stays for `wait` milliseconds. */
export const filmed = async (steps, shot, wait) => {
  const kind = ["video/webm;codecs=vp9", "video/webm;codecs=vp8", "video/webm"].find(k => globalThis.MediaRecorder?.isTypeSupported(k));
  if (!kind) throw { sentence: "This browser records no WebM; save the steps as PNG." };
  const film = h("canvas"), pen = film.getContext("2d"), parts = [];
  const show = async step => { const frame = await asCanvas(await shot(step)); if (film.width !== frame.width || film.height !== frame.height) { film.width = frame.width; film.height = frame.height; } pen.drawImage(frame, 0, 0); };
  await show(steps[0]);
  const recorder = new MediaRecorder(film.captureStream(30), { mimeType: kind, videoBitsPerSecond: 8e6 }), over = new Promise(done => { recorder.onstop = done; });
  recorder.ondataavailable = event => parts.push(event.data);
  recorder.start();
  for (const step of steps) { await show(step); await new Promise(done => setTimeout(done, Math.max(40, wait))); }
  await new Promise(done => setTimeout(done, 400));
  recorder.stop();
  await over;
  return new Blob(parts, { type: "video/webm" });
};

const CRC = Array.from({ length: 256 }, (_, n) => { for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ n >>> 1 : n >>> 1; return n >>> 0; });
const crc32 = data => { let sum = 0xffffffff; for (const byte of data) sum = CRC[(sum ^ byte) & 255] ^ sum >>> 8; return (sum ^ 0xffffffff) >>> 0; };

/** Files, as [name, bytes], in a ZIP archive without compression (APPNOTE 4.3). */
export function stored(files) {
  const parts = [], ends = [];
  let at = 0;
  const record = (signature, widths) => { const out = new DataView(new ArrayBuffer(4 + widths.reduce((sum, [size]) => sum + size, 0))); out.setUint32(0, signature, true); let place = 4; for (const [size, value] of widths) { if (size === 2) out.setUint16(place, value, true); else out.setUint32(place, value, true); place += size; } return new Uint8Array(out.buffer); };
  for (const [name, data] of files) {
    const label = new TextEncoder().encode(name), common = [[2, 20], [2, 0x800], [2, 0], [2, 0], [2, 0x21], [4, crc32(data)], [4, data.length], [4, data.length], [2, label.length], [2, 0]];
    parts.push(record(0x04034b50, common), label, data);
    ends.push(record(0x02014b50, [[2, 20], ...common, [2, 0], [2, 0], [2, 0], [4, 0], [4, at]]), label);
    at += 30 + label.length + data.length;
  }
  const size = ends.reduce((sum, part) => sum + part.length, 0);
  return new Blob([...parts, ...ends, record(0x06054b50, [[2, 0], [2, 0], [2, files.length], [2, files.length], [4, size], [4, at], [2, 0]])], { type: "application/zip" });
}

/** A table as comma separated values: numbers without the marks of thousands. */
export function csv({ columns, rows, numeric }) {
  const cell = (text, n) => { const plain = numeric[n] ? String(text).replaceAll(",", "") : String(text); return /[",\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain; };
  return [columns.map(c => cell(c, -1)), ...rows.map(row => row.map(cell))].map(line => line.join(",")).join("\r\n") + "\r\n";
}

/** Hand a file to the reader: by a link that is in the page, where VS Code hears that it is clicked. */
export function kept(content, name, type) {
  const a = h("a", { href: URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type })), download: name });
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
}

/** A choice of formats, each done at once by `save(format)`. */
export function saving(formats, save) {
  return h("select", { class: "btn save", "aria-label": "Save what is shown", title: "Save what is shown as a file", onchange: event => { const format = event.target.value; event.target.selectedIndex = 0; save(format); } },
    h("option", { value: "" }, "Save"), formats.map(format => h("option", { value: format }, { webm: "WebM, every step", zip: "PNG, every step" }[format] ?? format.toUpperCase())));
}
