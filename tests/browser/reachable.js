// What of the explorer no key comes to, or does not show when it has the focus. Of a group that arrows go through, one part is on Tab's way.
() => {
  const house = document.querySelector('.house'), bad = new Set();
  const seen = node => node.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && node.getClientRects().length && !node.disabled;
  const name = node => `${node.localName}.${node.getAttribute('class') ?? ''} ${(node.getAttribute('aria-label') ?? node.textContent).trim().slice(0, 40)}`;
  const groups = '[role=tablist],[role=radiogroup],[role=listbox],nav,.thumbs,svg,.plot,table';
  const over = house.querySelector('.ov,.pop:not([hidden]),.sheet,.glossary,.drw.open .pane') ?? house; // what lies over the picture closes by Escape
  for (const node of over.querySelectorAll('button,select,input,textarea,summary,[role=button],[role=slider],.hl,[tabindex]')) {
    if (!seen(node) || node.localName === 'canvas') continue; // the wall's tasks are come to by J and K
    if (node.tabIndex < 0) { if (!node.closest(groups)?.querySelector('[tabindex="0"]') && node.getAttribute('role') !== 'option') bad.add(`no key comes to ${name(node)}`); continue; }
    node.focus();
    if (document.activeElement !== node) { bad.add(`takes no focus: ${name(node)}`); continue; }
    const { left, top, right, bottom } = node.getBoundingClientRect(), [l, t, r, b] = [Math.max(0, left), Math.max(0, top), Math.min(innerWidth, right), Math.min(innerHeight, bottom)];
    if (r - l < 1 || b - t < 1) { bad.add(`out of the window: ${name(node)}`); continue; }
    const at = document.elementFromPoint((l + r) / 2, (t + b) / 2);
    if (!at || !(node.contains(at) || at.contains(node) || at.closest('label')?.contains(node) || node.ownerSVGElement?.contains(at))) bad.add(`${name(node)} is under ${at ? name(at) : 'nothing'}`);
  }
  return [...bad];
}
