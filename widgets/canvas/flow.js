// The blocks of low-level code in a picture: one that is chosen selects its lines, and where lines are selected their blocks are lit.

/** Let the blocks in `picture` select lines of `linked`; returns what lights them. `failed(sentence)` is told of what cannot be read, `open(loop)` which folded loop is opened, "" to fold all. */
export function flowBlocks(picture, linked, failed, open) {
  const placesOf = node => node.dataset.lines.split(" ").flatMap(span => { const [a, b] = span.split("-").map(Number); return Array.from({ length: b - a + 1 }, (_, i) => a + i); });
  async function choose(node) {
    const { language } = node.dataset;
    try { await linked.read(language); linked.choose(language, placesOf(node)); } catch (error) { failed(error.sentence ?? String(error)); }
  }
  picture.addEventListener("click", event => { const node = event.target.closest("[data-lines]"); if (node) choose(node); });
  picture.addEventListener("dblclick", event => { const node = event.target.closest("[data-loop]"); if (node) open(node.dataset.loop); });
  picture.addEventListener("keydown", event => {
    const node = event.target.closest("[data-lines]"), fold = { "+": node?.dataset.loop, "-": "" }[event.key];
    if (node && fold !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); event.stopPropagation(); open(fold); return; }
    const by = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!node || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || !by && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault(); event.stopPropagation();
    if (!by) { choose(node); return; }
    const all = [...picture.querySelectorAll("[data-lines]")], next = all[(all.indexOf(node) + by + all.length) % all.length];
    all.forEach(other => other.setAttribute("tabindex", other === next ? 0 : -1));
    next.focus();
  });
  return function light() {
    for (const node of picture.querySelectorAll("[data-lines]")) {
      const lit = linked.linked(node.dataset.language) ?? new Set(), own = linked.own(node.dataset.language), mine = placesOf(node);
      node.classList.toggle("lit", mine.some(at => lit.has(at)));
      node.classList.toggle("own", mine.some(at => own?.has(at)));
      node.setAttribute("aria-pressed", String(mine.some(at => own?.has(at))));
    }
  };
}
