// Every option, or every figure of the device, as a control with what it may be. The kernel checks what is typed; a refused value goes back, with the reason.
import { h, put, wrong } from "./dom.js";

const COLUMNS = ["", "now", "baseline", "by default", "what it is"];

/** The controls of a room. `ctx`: host, say(text), turn(knob, index, label). */
export function settingsView(ctx) {
  const rows = h("tbody"), filter = h("input", { type: "search", placeholder: "find a setting", "aria-label": "Find a setting", oninput: () => sift() }), none = h("span", { class: "s", role: "status" });
  const box = h("div", { class: "switches settings" }, h("div", { class: "sift" }, filter, none), h("table", { class: "tbl lights" }, h("thead", {}, h("tr", {}, COLUMNS.map(c => h("th", {}, c)))), rows));
  let room = "", controls = [], held = null; // held: the control that had the focus before the room was drawn anew

  async function load(next) {
    const { data } = await ctx.host.ask("settings", { room: next }), focused = rows.getRootNode().activeElement;
    if (rows.contains(focused)) held = { ...focused.dataset, y: focused.getBoundingClientRect().top };
    const typed = next === room ? controls.map(c => [c, fieldOf(c)]).filter(([c, field]) => field?.type === "text" && field.value !== c.now).map(([c, field]) => [c, field.value, field.parentNode.querySelector(".wrong")?.textContent]) : [];
    if (next !== room) filter.value = "";
    room = next; controls = data.controls;
    box.querySelector("table").setAttribute("aria-label", room === "hardware" ? `Hardware of ${data.device}` : "Options");
    draw();
    for (const [c, text, why] of typed) { const field = fieldOf(c); if (field) { field.value = text; if (why) wrong(field, why); } } // what was typed meanwhile stays
  }
  /** Where a control's value is now: it may have been drawn anew since it was asked for. */
  const fieldOf = c => rows.querySelector(`[data-name="${CSS.escape(c.name)}"][data-part="value"]`);
  /** Who had the focus has it again. */
  function again() {
    const now = held && rows.querySelector(`[data-name="${CSS.escape(held.name ?? "")}"][data-part="${held.part}"]`), pane = box.closest(".picture");
    now?.focus({ preventScroll: true });
    if (now && pane) pane.scrollTop += now.getBoundingClientRect().top - held.y; // it stays under the pointer
    held = null;
  }
  function draw() {
    const groups = Map.groupBy(controls, c => c.group);
    put(rows, controls.length ? null : h("tr", {}, h("td", { colspan: COLUMNS.length }, "This was compiled elsewhere: nothing of it can be set here.")), [...groups].flatMap(([group, all]) => [h("tr", { class: "grp", "data-group": group }, h("th", { colspan: COLUMNS.length, scope: "rowgroup" }, group)), ...all.map(row)]));
    sift();
  }
  function row(c) {
    const other = c.now !== c.default, back = other ? h("button", { class: "lk", type: "button", "data-name": c.name, "data-part": "back", title: `Back to ${c.default}`, "aria-label": `${c.title} back to ${c.default}`, onclick: () => turned(c, c.default) }, c.default) : c.default;
    return h("tr", { "data-k": other ? "option other" : "option", class: other ? "other" : null, "data-words": `${c.name} ${c.says}`.toLowerCase(), "data-in": c.group }, h("td", { title: c.name }, c.title), h("td", { class: "control" }, control(c)), h("td", {}, c.a === c.now ? "" : c.a), h("td", {}, back),
      h("td", { class: "says", title: c.source || null }, c.says, c.kind === "number" && room !== "hardware" ? h("span", { class: "q" }, `; ${c.legal}`) : null));
  }
  function control(c) {
    const known = { "data-name": c.name, "data-part": "value", "aria-label": c.title };
    if (c.kind === "switch") { const box = h("input", { type: "checkbox", checked: c.now === "on", ...known, onchange: () => turned(c, box.checked ? "on" : "off", why => { const now = fieldOf(c) ?? box; now.checked = c.now === "on"; wrong(now, why); }) }); return box; }
    if (c.kind === "choice") { const list = h("select", { ...known, onchange: () => turned(c, list.value, why => { const now = fieldOf(c) ?? list; now.value = c.now; wrong(now, why); }) }, c.choices.map(o => h("option", { selected: o === c.now }, o))); return list; }
    const field = h("input", { type: "text", value: c.now, title: c.legal, spellcheck: "false", ...known, onkeydown: event => { if (event.key === "Enter") field.blur(); if (event.key === "Escape") { event.stopPropagation(); field.value = c.now; wrong(field, ""); field.blur(); } }, oninput: () => wrong(field, ""), onchange: () => turned(c, field.value.trim(), why => wrong(fieldOf(c) ?? field, why)) });
    const by = (part, word, times) => h("button", { class: "btn", type: "button", "data-name": c.name, "data-part": part, title: word, "aria-label": `${c.title}: ${word}`, onclick: () => turned(c, scaled(c, times), why => wrong(fieldOf(c) ?? field, why)) }, part);
    return room === "hardware" ? [field, by("÷2", "half of it", 0.5), by("×2", "twice of it", 2)] : field;
  }
  /** A setting at another text; what is refused is told at its field, and everything stays as it was. */
  async function turned(c, text, refused = () => {}) {
    if (text === c.now) { refused(""); return; }
    await ctx.turn(`set ${c.name}`, 1, text).catch(error => refused(error.sentence ?? String(error)));
  }
  function sift() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = tr => words.every(word => tr.dataset.words.includes(word) || tr.dataset.in.includes(word));
    for (const tr of rows.querySelectorAll("[data-words]")) tr.hidden = !fits(tr);
    none.textContent = rows.querySelector("[data-words]:not([hidden])") || !controls.length ? "" : "No setting has that name.";
    for (const tr of rows.querySelectorAll(".grp")) tr.hidden = !rows.querySelector(`[data-in="${CSS.escape(tr.dataset.group)}"]:not([hidden])`);
  }
  return { box, load, again };
}

/** Half or twice of "40" or "1 MiB", in the same unit; whole numbers stay whole. */
function scaled({ now, legal }, times) {
  const [number, unit = ""] = now.split(" "), value = Number(number) * times;
  if (unit === "MiB" && value < 1) return `${value * 1024} KiB`;
  if (unit === "KiB" && value < 1) return `${value * 1024}`;
  return `${legal.startsWith("a whole") && !unit ? Math.max(1, Math.floor(value)) : Number(value.toPrecision(6))} ${unit}`.trim();
}
