// What may be changed: a few buttons, a slider with legal stops, or a list. The kernel answers; a refused value goes back.
import { h, put, clamp } from "./dom.js";

/** Knobs of the picture on show, in `own`, and all others, in `rest`. `ctx`: host, turn(knob, index) -> promise, here() the names of those of the picture. */
export function knobsView(ctx) {
  const own = h("span", { class: "knobs", role: "group", "aria-label": "Knobs of this picture" }), rest = h("div", { class: "knobs", role: "group", "aria-label": "Other knobs" });
  let shown = [];

  function load() {
    const root = own.getRootNode(), held = root.activeElement?.closest?.(".knob")?.dataset.knob ?? null;
    shown = (ctx.host.get("knobs") ?? []).map(make);
    place();
    if (held) shown.find(k => k.name === held)?.focus();
  }
  /** Put the knobs of the picture on show into its title. */
  function place() {
    const here = ctx.here(), mine = k => here.some(name => name === k.name || name === "size" && k.name.startsWith("size "));
    for (const [box, nodes] of [[own, shown.filter(mine)], [rest, shown.filter(k => !mine(k))]].map(([box, all]) => [box, all.map(k => k.node)]))
      if (nodes.length !== box.children.length || nodes.some((node, i) => node !== box.children[i])) put(box, nodes); // what is moved loses the focus
    for (const box of [own, rest]) box.classList.toggle("off", !ctx.host.alive);
  }

  function make(knob) {
    const why = h("div", { class: "why", role: "alert", hidden: true });
    const value = h("b", {}, knob.labels[knob.now]), slides = knob.kind === "slider", [short, ...range] = slides ? knob.label.split(/(?=, )/) : [knob.label], head = h("span", { class: "l" }, short, range.length ? h("span", { class: "range" }, range.join("")) : null);
    const control = { segments, slider, choice }[knob.kind](knob, set);
    const hint = `${knob.label}: ${knob.labels[knob.now]}${knob.hint ? `. ${knob.hint}` : ""}`;
    const node = h("div", { class: `knob ${knob.kind}`, "data-knob": knob.name, title: hint }, head, slides ? value : null, control.node, why);
    let last = 0;
    async function set(index) {
      if (index === knob.now || !ctx.host.alive) return;
      const number = ++last;
      value.textContent = knob.labels[index]; value.className = "guess";
      control.show(index);
      why.hidden = true; node.classList.remove("err");
      try { await ctx.turn(knob.name, index, knob.labels[index]); } catch (error) {
        if (number !== last) return;
        value.textContent = knob.labels[knob.now]; value.className = "";
        control.show(knob.now);
        why.textContent = error?.sentence ?? String(error); why.hidden = false; node.classList.add("err");
        setTimeout(() => { why.hidden = true; node.classList.remove("err"); }, 12000);
      }
    }
    return { name: knob.name, node, focus: control.focus };
  }
  /** Those of the other knobs that are not where the baseline's are, in words. */
  const changed = () => { const here = ctx.here(); return (ctx.host.get("knobs") ?? []).filter(k => k.pinned !== null && k.pinned !== k.now && !here.some(name => name === k.name || name === "size" && k.name.startsWith("size "))).map(k => `${k.name.replace(/^size /, "")} ${k.labels[k.now]}`).filter(text => text.length < 24).slice(0, 2); };
  return { own, rest, load, place, changed };
}

/** Buttons beside each other. */
function segments(knob, set) {
  let now = knob.now;
  const buttons = knob.labels.map((label, i) => h("button", {
    type: "button", role: "radio", "aria-checked": String(i === now), class: i === knob.pinned ? "base" : null,
    tabindex: i === now ? 0 : -1, onclick: () => set(i),
  }, label));
  const node = h("div", { class: "seg", role: "radiogroup", "aria-label": knob.label, onkeydown: e => steer(e, now, knob.labels.length, i => { show(i); buttons[i].focus(); set(i); }) }, buttons);
  function show(i) { now = i; buttons.forEach((b, j) => { b.setAttribute("aria-checked", String(i === j)); b.tabIndex = i === j ? 0 : -1; }); }
  return { node, show, focus: () => buttons[now].focus() };
}

/** A disc on a line with a tick at each legal value. Keys set at once; a drag sets when it is released. */
function slider(knob, set) {
  const last = Math.max(knob.labels.length - 1, 1), at = i => `${i / last * 100}%`;
  let now = knob.now;
  const disc = h("span", { class: "th" });
  const node = h("div", {
    class: "sld", role: "slider", tabindex: 0, "aria-label": knob.label, "aria-valuemin": 0, "aria-valuemax": last,
    onkeydown: e => steer(e, now, knob.labels.length, i => { show(i); later(i); }),
    onpointerdown: e => { node.setPointerCapture(e.pointerId); drag(e); },
    onpointermove: e => { if (e.buttons && node.hasPointerCapture(e.pointerId)) drag(e); },
    onpointerup: () => set(now),
  }, h("span", { class: "tr" }), knob.labels.length <= 24 ? knob.labels.map((_, i) => h("span", { class: "tk", style: `left:${at(i)}` })) : [],
    knob.pinned === null ? null : h("span", { class: "bs", style: `left:${at(knob.pinned)}`, title: "pinned value" }), disc);
  let timer = 0;
  const later = i => { clearTimeout(timer); timer = setTimeout(() => set(i), 120); };
  const drag = e => { const box = node.getBoundingClientRect(); show(clamp(Math.round((e.clientX - box.left) / box.width * last), 0, last)); };
  function show(i) {
    now = i; disc.style.left = at(i);
    node.setAttribute("aria-valuenow", i); node.setAttribute("aria-valuetext", knob.labels[i]);
    const value = node.parentNode?.querySelector(":scope > b");
    if (value && i !== knob.now) { value.textContent = knob.labels[i]; value.className = "guess"; }
  }
  show(now);
  return { node, show, focus: () => node.focus() };
}

/** A list. */
function choice(knob, set) {
  const node = h("select", { "aria-label": knob.label, onchange: () => set(node.selectedIndex) },
    knob.labels.map((label, i) => h("option", { selected: i === knob.now }, label)));
  return { node, show: i => { node.selectedIndex = i; }, focus: () => node.focus() };
}

/** Arrow keys over a list of values; Shift goes to an end. */
function steer(event, now, count, go) {
  const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
  if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  event.stopPropagation();
  const next = event.shiftKey ? (step > 0 ? count - 1 : 0) : clamp(now + step, 0, count - 1);
  if (next !== now) go(next);
}
