// The rooms of one system alone, without the house around them.
import { h, put, tabs } from "./dom.js";
import { kernelHost } from "./host.js";
import { roomsView } from "./rooms.js";

/** Put rooms into `el` over a host with the parts `rooms` ([name, title] pairs), `title` and `op`. */
export function mountRoom(el, host) {
  const rooms = host.get("rooms"), state = { room: rooms[0][0], table: false };
  const root = h("div", { class: "ironworks", "data-lm-suppress-shortcuts": "true" }), head = h("header"), picture = h("div", { class: "picture" }), live = h("span", { class: "s said", "aria-live": "polite" });
  const say = text => { live.textContent = text; };
  const view = roomsView({ host, say, op: () => host.get("op"), pick: () => {}, take: args => host.ask("take", args).then(({ data }) => { say(data?.said ?? ""); }) }, picture);
  const show = () => {
    put(head, h("b", {}, host.get("title")), tabs(rooms, state.room, room => { state.room = room; show(); }, "Picture"), live, h("span", { class: "sp" }),
      h("button", { class: "btn", type: "button", "aria-pressed": String(state.table), title: "Show as a table (T)", onclick: flip }, "Table"));
    view.show(state.room, state.table);
  };
  const flip = () => { state.table = !state.table; show(); };
  const next = () => { const at = rooms.findIndex(([name]) => name === state.room); state.room = rooms[(at + 1) % rooms.length][0]; show(); };
  const article = h("article", { class: "room live", tabindex: 0, "aria-label": host.get("title"), onkeydown: keys }, head, picture);
  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input,select,textarea")) return;
    const act = { ",": () => view.step(-1), ".": () => view.step(1), "<": () => view.end(-1), ">": () => view.end(1), r: next, t: flip }[event.key];
    if (!act || act() === false) return;
    event.preventDefault(); event.stopPropagation();
  }
  root.append(article);
  el.append(root);
  show();
  return { state, show, view, close: () => host.close() };
}

/** anywidget's entry for rooms alone. */
export function renderRoom({ model, el }) {
  const driver = mountRoom(el, kernelHost(model));
  return () => driver.close();
}
