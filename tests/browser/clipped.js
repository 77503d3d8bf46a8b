// Texts that run over the edge of their box, and boxes of one row that overlap.
() => {
  const bad = [], house = document.querySelector('.house');
  for (const node of house.querySelectorAll('.name,.btn,.stage span,.knob .l,.big,.thread .st,.ph h2,.tabs button,.status span,.tb,.leg span,th,.pi td.mono')) {
    if (!node.offsetParent || getComputedStyle(node).textOverflow === 'ellipsis') continue;
    if (node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).overflowX !== 'visible') bad.push(node.className + ': ' + node.textContent);
    const outer = node.closest('.knob,.stage,.ph,.bar,.status,.verdict')?.getBoundingClientRect(), box = node.getBoundingClientRect();
    if (outer && (box.right > outer.right + 1 || box.left < outer.left - 1)) bad.push('outside: ' + node.className + ': ' + node.textContent);
  }
  for (const row of house.querySelectorAll('.bar,.knobs,.ph,.stage,.status,.tools')) {
    const boxes = [...row.children].filter(n => n.offsetParent && getComputedStyle(n).position !== 'absolute').map(n => [n, n.getBoundingClientRect()]);
    for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
      const [a, p] = boxes[i], [b, q] = boxes[j];
      if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 1 && q.top < p.bottom - 1) bad.push('overlap in ' + row.className + ': ' + a.textContent.slice(0, 30) + ' / ' + b.textContent.slice(0, 30));
    }
  }
  return bad;
}
