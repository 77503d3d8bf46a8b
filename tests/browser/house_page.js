// Houses and rooms in one page, one after another: plotly is read once. `driver` and `content` are those of the one that is there.
globalThis.page = page;
globalThis.waiting = 0; // questions to Python
globalThis.drawers = () => innerWidth < 1120 ? {} : { graph: true, inspector: true, code: true }; // those that are open, as a reader left them
let mounted = 0;
const MOUNTS = {
  house: (el, content, closed) => page.mount(el, overSession(content, closed)),
  rooms: (el, content, closed) => page.mountRoom(el, overSession(content, closed)),
  live: (el, content, closed) => page.mount(el, liveHost(content, closed)),
  saved: (el, content) => page.show(el, content),
};
globalThis.mountHouse = (kind, id, content) => {
  const el = document.createElement("div"), mine = ++mounted;
  el.id = id;
  document.body.append(el);
  sent.length = 0;
  globalThis.content = content;
  if (kind !== "rooms") localStorage.setItem("ironworks-drawers", JSON.stringify(globalThis.drawers()));
  globalThis.driver = MOUNTS[kind](el, content, () => mine !== mounted);
};
/** Leave the page as it was loaded. */
globalThis.clearHouse = () => {
  mounted++;
  globalThis.driver?.close();
  globalThis.widget?.close();
  globalThis.driver = globalThis.widget = null;
  document.body.replaceChildren();
  for (const { name } of [...document.body.attributes]) document.body.removeAttribute(name);
  CSS.highlights.clear();
  sessionStorage.clear();
  localStorage.clear();
  history.replaceState(null, "", location.pathname);
  scrollTo(0, 0);
};
/** No question is under way, no picture is drawn beside, and four frames were drawn since the last. */
globalThis.settled = () => new Promise(done => {
  let frames = 0;
  const look = () => { frames = waiting || globalThis.driver?.drawing ? 0 : frames + 1; if (frames > 4) done(); else requestAnimationFrame(look); };
  look();
});
