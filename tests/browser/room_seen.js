// What a test sees and can point at in the room that a house shows; `seen` is left on the page.
(() => {
  const house = () => document.querySelector('.house'), driver = () => document.querySelector('.ironworks').ironworks, pane = () => house().querySelector('.pw'), picture = () => pane().querySelector('.picture');
  const centre = node => { node.scrollIntoView({ block: 'center', inline: 'center' }); const box = node.getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; };
  const hit = (node, [x, y]) => { const at = document.elementFromPoint(x, y), plot = node.closest('.js-plotly-plot'); return at && (node.contains(at) || at.closest('[data-op]') === node || plot?.contains(at)); };
  const first = nodes => { for (const node of nodes) { const at = centre(node); if (hit(node, at)) return at; } return null; };
  const points = what => [...picture().querySelectorAll('.js-plotly-plot')].flatMap(plot => [...plot.querySelectorAll('.point')].filter(node => {
    const trace = node.closest('.trace'), meta = trace?.__data__?.[0]?.trace?.meta?.[what], box = node.getBoundingClientRect(), its = meta?.[[...trace.querySelectorAll('.point')].indexOf(node)];
    return box.width > 1 && box.height > 1 && (its?.length || what === 'take' && its);
  }));
  const lineOf = (box, lit = false) => {
    const code = box.querySelector('.code'), inside = (code?.scrollIntoView({ block: 'center' }), code?.getBoundingClientRect());
    for (const node of box.querySelectorAll(lit ? '.ln:not(.at)' : '.ln:not(.lit)')) {
      const its = node.getBoundingClientRect(), at = [inside.left + Math.min(60, inside.width / 2), its.top + its.height / 2];
      if (node.querySelector('.or')?.style.background && hit(node, at)) return at;
    }
    return null;
  };
  globalThis.seen = {
    op: () => driver().state.op,
    kernel: () => driver().calls().findIndex(c => c[2].includes(driver().state.op)),
    /** What is drawn, and how much of it: bricks of the wall, marks of a chart, lines, settings or steps, texts of a drawing; a drawing of one text is a sentence. */
    drawn() {
      const shown = picture(), none = pane().querySelector('.stt:not([hidden]) .none');
      if (none) return ['sentence', none.textContent.length];
      if (shown.hidden) {
        const canvas = pane().querySelector('canvas'), data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, colours = new Set();
        for (let i = 0; i < data.length; i += 4) colours.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
        return ['bricks', colours.size > 8 ? driver().wall.bricks() : 0];
      }
      const inside = [...shown.querySelectorAll('svg.pic')].filter(svg => svg.getClientRects().length), texts = inside.reduce((sum, svg) => sum + svg.querySelectorAll('text').length, 0);
      const marks = shown.querySelectorAll('.js-plotly-plot :is(.point,.js-line,.bars path)').length, lines = shown.querySelectorAll('.ln').length, rows = shown.querySelectorAll('tbody tr,.tbl tr').length;
      if (shown.querySelector('.chart') && !shown.querySelector('.settings')) return ['marks', marks];
      if (lines > 1) return ['lines', lines];
      if (texts > 1) return ['texts', texts];
      if (rows) return ['rows', rows];
      return ['sentence', (shown.querySelector('.empty,.drawn p.words') ?? inside[0])?.textContent.trim().length ?? 0];
    },
    /** Whether the room of this name is drawn, and nothing has changed for some frames. */
    still(name, wall) {
      const now = `${innerWidth} ${picture().scrollWidth} ${picture().innerHTML.length}`;
      seen.frames = now === seen.last ? seen.frames + 1 : 0;
      seen.last = now;
      const none = pane().querySelector('.stt:not([hidden]) .none');
      return (none || (picture().hidden ? wall : picture().dataset.room === name)) && seen.frames > 3 && seen.drawn()[1] > 0;
    },
    /** Colours of words in the room, and of the house's ground, that are none of these, which are "#rrggbb". */
    strange(tokens) {
      const known = new Set(tokens.map(hex => `rgb(${[1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16)).join(', ')})`)), found = [getComputedStyle(house()).backgroundColor];
      for (const node of picture().hidden ? [] : picture().querySelectorAll('svg text,p,td,th,b,span,button,select'))
        if (node.textContent.trim() && node.getClientRects().length) found.push(getComputedStyle(node)[node.ownerSVGElement ? 'fill' : 'color']);
      for (const node of picture().querySelectorAll('input[placeholder]')) found.push(getComputedStyle(node, '::placeholder').color);
      return [...new Set(found)].filter(colour => !known.has(colour));
    },
    /** What the room is about, in its own words. */
    said: () => [...picture().querySelectorAll('svg.pic')].map(n => n.getAttribute('aria-label')).concat([...pane().querySelectorAll('.picture p.words,.picture .empty,.picture .ch b,.rbar select,.see')].map(n => n.value ?? n.textContent)).join(' | '),
    controls: () => [...pane().querySelectorAll('.rbar select')].map(n => n.selectedIndex).join(' '),
    /** Where a mark of other operators than the selected one can be clicked. */
    mark() {
      const lit = picture().querySelector('[data-op].lit')?.dataset.op;
      return first([...picture().querySelectorAll('[data-op]')].filter(n => n.dataset.op && n.dataset.op !== lit && !n.classList.contains('lit') && !n.closest('.lit')).slice(0, 60));
    },
    point: () => first(points('ops')),
    /** The last of what can be taken, and the first: one of them is in use at most. */
    tile: () => { const all = points('take'); return all.length > 1 ? first(all.reverse()) : null; },
    tile_before: () => { const all = points('take'); return all.length > 1 ? first(all) : null; },
    line: () => lineOf(picture(), Boolean(picture().querySelector('.linked'))),
    row: () => first([...picture().querySelectorAll('table.tbl tr.pick:not(.on)')]),
    /** Where a node of the graph can be clicked, or a line of the program, whichever is beside the room. */
    beside() {
      const graph = house().querySelector('.pg'), box = graph.querySelector('.scrolls');
      if (!graph.getClientRects().length) driver().open('graph', true);
      graph.scrollIntoView({ block: 'center' });
      const inside = box.getBoundingClientRect(), known = Object.fromEntries(driver().graph.graph.nodes.map(n => [n.name, n.ops]));
      for (const node of box.querySelectorAll('.node:not(.fold)')) {
        const its = node.getBoundingClientRect(), ops = known[node.dataset.node] ?? [], at = [its.left + its.width / 2, its.top + its.height / 2];
        if (ops.length && !ops.includes(driver().state.op) && its.top >= inside.top && its.bottom <= inside.bottom && hit(node, at)) return at;
      }
      return null;
    },
    /** The graph that `beside` opened does not stay over the room. */
    uncover() { if (house().clientWidth < 1120) driver().open('graph', false); },
    /** The room is about the selection: it says something else than before, or lights its marks. */
    follows: before => seen.said() !== before || Boolean(picture().querySelector('[data-op].lit')),
    brick() {
      const call = driver().calls().findIndex(c => c[2].length && !c[2].includes(driver().state.op) && driver().wall.spot(driver().calls().indexOf(c)));
      if (call < 0) return null;
      const canvas = pane().querySelector('canvas');
      canvas.scrollIntoView({ block: 'center' });
      const box = canvas.getBoundingClientRect(), [x, y] = driver().wall.spot(call);
      return [box.left + x, box.top + y];
    },
    /** Where the panes are not at one about the selected operator; empty where they are. */
    apart() {
      const name = driver().selected(), apart = [], says = (what, text) => { if (!text?.startsWith(name)) apart.push(`${what}: ${text}`); };
      if (driver().state.op < 0) return ['nothing is selected'];
      says('trail', house().querySelector('.trail b')?.textContent);
      says('inspector', house().querySelector('.pi h2')?.textContent);
      const graph = driver().graph.graph, pg = house().querySelector('.pg');
      if (graph?.nodes.some(n => n.ops.includes(driver().state.op)) && pg.getClientRects().length && !pg.querySelector('.node.lit')) apart.push('graph: no node is lit');
      if (house().querySelector('.pi .bd[aria-busy]')) apart.push('inspector: reading');
      return apart;
    },
  };
})()
