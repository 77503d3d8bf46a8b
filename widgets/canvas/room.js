// The rooms of one system alone, without the house around them.
import { h, keepKeys, put, tabs } from "./dom.js";
import { kernelHost } from "./host.js";
import { chartInto } from "./chart.js";
import { roomsView } from "./rooms.js";
import { explained } from "./words.js";

/** Put rooms into `el` over a host with the parts `rooms` (pictures as widgets/model/picture.py tells them), `title`, `names` of the operators and what they are called (`labels`), and the `room` and the operator `op` to begin with. */
export function mountRoom(el, host) {
  const rooms = host.get("rooms"), names = host.get("names") ?? [], labels = host.get("labels") ?? names, state = { room: host.get("room") ?? rooms[0].name, table: false, op: host.get("op") };
  const root = keepKeys(h("div", { class: "ironworks" })), head = h("header"), picture = h("div", { class: "picture" }), live = h("span", { class: "s said", "aria-live": "polite" });
  const say = text => { live.textContent = text; };
  const view = roomsView({ host, pictures: rooms, say, op: () => state.op, names: () => names, pick: ops => choose(ops[0]), take: (kind, args) => host.ask(kind, args).then(({ data }) => { say(data?.said ?? ""); }) }, picture);
  const word = name => name.replaceAll(" ", "%20"); // as widgets/draw/svg.py writes it
  /** All rooms are about the group of this operator. */
  function choose(op) {
    if (op === undefined || op < 0 || op >= names.length) return false;
    state.op = op;
    say(labels[op]);
    show();
  }
  const light = () => { view.light(); picture.querySelectorAll("[data-op]").forEach(node => node.classList.toggle("lit", state.op >= 0 && node.dataset.op.split(" ").includes(word(names[state.op] ?? "")))); };
  picture.addEventListener("click", event => {
    const mine = event.target.closest("[data-op]")?.dataset.op.split(" ") ?? [];
    choose(names.findIndex(name => mine.includes(word(name))));
  });
  const show = () => {
    put(head, h("b", {}, host.get("title")), tabs(rooms.map(p => [p.name, p.title, p.words]), state.room, room => { state.room = room; show(); }, "Picture"), live, h("span", { class: "sp" }), view.saving(state.room, state.table),
      h("button", { class: "btn", type: "button", "aria-pressed": String(state.table), title: "Show as a table (T)", onclick: flip }, "Table"));
    view.show(state.room, state.table).then(light);
  };
  const flip = () => { state.table = !state.table; show(); };
  const next = () => { const at = rooms.findIndex(p => p.name === state.room); state.room = rooms[(at + 1) % rooms.length].name; show(); };
  const article = h("article", { class: "room live", tabindex: 0, "aria-label": host.get("title"), onkeydown: keys }, head, picture);
  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input,select,textarea")) return;
    const act = { ",": () => view.step(-1), ".": () => view.step(1), "<": () => view.end(-1), ">": () => view.end(1), z: () => view.zoom(1.25), x: () => view.zoom(0.8), j: () => choose(state.op + 1), k: () => choose(state.op - 1), r: next, t: flip }[event.key];
    if (!act || act() === false) return;
    event.preventDefault(); event.stopPropagation();
  }
  view.within(root);
  explained(root, host.get("glossary"));
  root.append(article);
  el.append(root);
  show();
  return { get drawing() { return view.drawing; }, state, show, view, close: () => { view.stop(); view.close(); host.close(); } };
}

/** anywidget's entry for rooms alone. */
export function renderRoom({ model, el }) {
  const driver = mountRoom(el, kernelHost(model));
  return () => driver.close();
}

/** anywidget's entry for one picture alone: its words and its drawing, and its chart over them. */
export function renderPicture({ model, el }) {
  const root = h("div", { class: "ironworks" }), data = model.get("chart");
  root.innerHTML = model.get("html");
  el.append(root);
  if (!data) return () => {};
  const host = kernelHost(model), close = chartInto(root.querySelector(".picture"), host, data, model.get("name"));
  return () => { close(); host.close(); };
}
