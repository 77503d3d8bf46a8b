// Texts that a reader loses: cut off by a box that does not scroll, run out of their drawing, or under another text.
// What a canvas draws is points, and is not seen here.
() => {
  const house = document.querySelector('.house'), bad = new Set(), seen = [];
  const short = text => text.trim().replace(/\s+/g, ' ').slice(0, 48), where = node => { const at = node.closest('[data-pane],.pi,.bar,.rail,.head,.see,.trail,.foot,.pw') ?? node; return `${at.getAttribute('aria-label') ?? at.className} ${node.localName}.${node.getAttribute('class') ?? ''}`; };
  const styles = new Map(), style = node => { if (!styles.has(node)) { const { overflowX: x, overflowY: y, position, textOverflow } = getComputedStyle(node); styles.set(node, { x, y, position, textOverflow }); } return styles.get(node); };
  const boxes = new Map(), boxOf = node => { if (!boxes.has(node)) boxes.set(node, node.getBoundingClientRect()); return boxes.get(node); };
  const told = node => node.closest('[title]') ?? (node.ownerSVGElement ? node.closest('text')?.querySelector('title') : null);

  /** What of a box can be seen when its scroll boxes stand as they do, [] where nothing is; says what of it is lost for good. */
  function visible(node, [left, top, right, bottom], text) {
    const drawing = node.ownerSVGElement;
    if (drawing) {
      let outer = drawing;
      while (outer.ownerSVGElement) outer = outer.ownerSVGElement;
      const box = boxOf(outer);
      if (style(outer).x !== 'visible' && (right > box.right + 1 || left < box.left - 1 || bottom > box.bottom + 2 || top < box.top - 2)) bad.add(`out of its drawing: ${where(node)}: ${text}`);
    }
    for (let at = drawing ? drawing.parentElement : node; at && house.contains(at); at = at.parentElement) {
      const { x, y, textOverflow } = style(at);
      if (x === 'visible' && y === 'visible') continue;
      const box = boxOf(at), cut = right > box.right + 1 || left < box.left - 1, low = bottom > box.bottom + 3 || top < box.top - 3;
      if (cut && /hidden|clip/.test(x) && !(textOverflow === 'ellipsis' && told(node))) bad.add(`cut at the side: ${where(at)}: ${text}`);
      if (low && /hidden|clip/.test(y)) bad.add(`cut above or below: ${where(at)}: ${text}`);
      left = Math.max(left, box.left); right = Math.min(right, box.right); top = Math.max(top, box.top); bottom = Math.min(bottom, box.bottom);
      if (right - left < 1 || bottom - top < 1) return null;
    }
    return [left, top, right, bottom];
  }

  const texts = document.createTreeWalker(house, NodeFilter.SHOW_TEXT), range = document.createRange();
  const dark = new Map(), shows = node => { if (!dark.has(node)) dark.set(node, node.checkVisibility({ visibilityProperty: true, opacityProperty: true })); return dark.get(node); };
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest('title,style,select,textarea,option,.mini,.nums') || !shows(parent)) continue;
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      if (box.width < 1) continue;
      const left = visible(parent, [box.left, box.top, box.right, box.bottom], short(node.data));
      if (left) seen.push([left, parent, node.data.trim()]);
    }
  }
  /** What lies over the rest for a while, or stays where the rest is scrolled away under it. */
  const lifted = node => {
    for (let at = node; at && at !== house; at = at.parentElement) {
      if (at.matches('.tip,.hovertext,.bounce,.why,.sheet,.find,.glossary,.fly,.pop,.stt,.drw .pane')) return at;
      if (style(at).position !== 'sticky') continue;
      const scroller = at.closest('.picture,.scrolls,.code,.bd');
      if (scroller?.scrollTop || scroller?.scrollLeft) return at;
    }
    return null;
  };
  const turned = node => { const { a, b } = node.closest('text')?.getCTM?.() ?? { a: 1, b: 0 }; return Math.abs(a) > 0.01 && Math.abs(b) > 0.01; }; // in between: its box is larger than it
  seen.sort(([a], [b]) => a[1] - b[1]);
  seen.forEach(([p, a, one], i) => {
    for (let j = i + 1; j < seen.length && seen[j][0][1] < p[3]; j++) {
      const [q, b, other] = seen[j], across = Math.min(p[2], q[2]) - Math.max(p[0], q[0]), down = Math.min(p[3], q[3]) - q[1], least = Math.min(p[3] - p[1], q[3] - q[1]);
      if (across < 2 || down < 0.35 * least || a === b && a.localName !== 'text' || lifted(a) !== lifted(b) || turned(a) && turned(b)) continue;
      if (one === other && Math.abs(p[0] - q[0]) < 1) continue; // a text with its own edge around it
      bad.add(`over each other: ${where(a)}: ${short(one)} / ${short(other)}`);
    }
  });

  for (const node of house.querySelectorAll('select,input:not([type=checkbox],[type=range]),button')) {
    if (!shows(node) || !node.getClientRects().length) continue;
    const box = boxOf(node), name = short(node.getAttribute('aria-label') ?? node.textContent);
    visible(node, [box.left, box.top, box.right, box.bottom], name);
    if (node.localName === 'select') {
      const text = node.selectedOptions[0]?.text ?? '', pen = (globalThis.clippedPen ??= document.createElement('canvas').getContext('2d')), { font, paddingLeft, paddingRight } = getComputedStyle(node);
      pen.font = font;
      if (pen.measureText(text).width + parseFloat(paddingLeft) + parseFloat(paddingRight) + 18 > node.clientWidth + 2 && !node.closest('[title]')?.title.includes(text)) bad.add(`cut in its list: ${where(node)}: ${short(text)}`);
    } else if (node.localName === 'input' && node.scrollWidth > node.clientWidth + 1) bad.add(`cut in its field: ${where(node)}: ${node.value}`);
  }
  for (const buttons of house.querySelectorAll('.modebar')) {
    const box = buttons.querySelector('.modebar-group')?.getBoundingClientRect(), last = [...buttons.querySelectorAll('.modebar-group')].at(-1)?.getBoundingClientRect();
    for (const [p, node, text] of box ? seen : []) if (buttons.closest('.chart').contains(node) && p[2] > box.left + 2 && p[0] < last.right - 2 && p[3] > box.top + 4 && p[1] < box.bottom - 4) bad.add(`under the buttons of a chart: ${text}`);
  }
  // Boxes of one row stand beside each other; labels of a node of a graph lie in it.
  for (const row of house.querySelectorAll('.bar,.head,.owns,.knobs,.ph,.foot,.result,.row2,.trail,.tools,.thumbs,.rbar,.stepper,.acts,.tabs,.seg,.leg')) {
    const each = [...row.children].filter(n => n.getClientRects().length && style(n).position !== 'absolute').map(n => [n, boxOf(n)]);
    each.forEach(([a, p], i) => each.slice(i + 1).forEach(([b, q]) => {
      if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 1 && q.top < p.bottom - 1) bad.add(`overlap in ${row.className}: ${short(a.textContent)} / ${short(b.textContent)}`);
    }));
  }
  for (const node of house.querySelectorAll('svg .node,svg .block')) {
    const box = node.querySelector('rect.bx')?.getBoundingClientRect();
    for (const text of box ? node.querySelectorAll('text') : []) {
      const its = boxOf(text);
      if (its.width && (its.right > box.right + 1 || its.left < box.left - 1)) bad.add(`wider than its box: ${where(text)}: ${short(text.textContent)}`);
    }
  }
  return [...bad];
}
