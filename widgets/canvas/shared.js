// What a page shares with other widgets: its selection and its picture, as the traits `selected` and `view` of its model.

/**
 * Follow the traits, and return what sets them. `selected()` and `view()` are the names that the page has now; `select(name)` and `show(name)` go
 * to others. A program may turn knobs, too: `say(sentence)` tells what it did or why it was refused, and `measure()` times what it came to, once
 * the page is free. The last change wins, whoever made it.
 */
export function shareTraits(host, { selected, select, view, show, say, measure }) {
  host.on("selected", () => { if (host.get("selected") !== selected()) select(host.get("selected")); });
  host.on("view", () => { if (host.get("view") && host.get("view") !== view()) show(host.get("view")); });
  host.onSaid(message => { say(message.said); if (message.measure) measure(); });
  return () => {
    const now = { selected: selected(), view: view() };
    if (Object.keys(now).some(name => host.get(name) !== now[name])) host.tell(now);
  };
}
