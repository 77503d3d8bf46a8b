// A brick under the reader's hand: picked by click or key, dragged to another place of the planned wall, or moved by Shift and an arrow.

/** The hand over a planned wall. `ctx`: host, move(kind, args) -> promise, say(text); `view()`: the wall; `changed()`: draw again. */
export function wallHand(ctx, view, changed) {
  let picked = null, ghost = null, broken = null, timer = 0;

  /** The slice in which bricks stand one by one around a time. */
  const slice = t => { const { near, base } = view(); return base.exact || !near || t < near.from || t > near.to ? base : near; };
  const brickOf = (s, i, lane) => { const j = s.alone[i]; return j < 0 ? null : { call: s.call[i], first: s.single.first[j], last: s.single.last[j], launch: s.single.launch[j], unit: lane, start: s.start[i], end: s.end[i] }; };
  const same = (a, b) => a && b && a.call === b.call && a.first === b.first && a.launch === b.launch;

  /** All bricks of a lane that can be told apart around a time. */
  function lane(unit, t) {
    const s = slice(t), found = [];
    for (let i = s.rows[unit]; i < s.rows[unit + 1]; i++) { const b = brickOf(s, i, unit); if (b) found.push(b); }
    return found;
  }

  function pick(found) { picked = found; broken = null; changed(); }

  /** The picked brick where it stands now: another plan has its tasks somewhere else. */
  function renew() {
    broken = null; ghost = null;
    if (!picked) return;
    const wall = view(), s = wall && slice(picked.start);
    let now = null;
    for (let u = 0; s && u < s.lanes && !now; u++) now = lane(u, picked.start).find(b => b.call === picked.call && b.first <= picked.first && picked.first <= b.last) ?? null;
    picked = now;
  }

  /** What a drop of the picked brick with its left edge at a time means: behind which brick it then stands. */
  function slot(unit, t) {
    const others = lane(unit, t).filter(b => !same(b, picked)), n = others.findIndex(b => (b.start + b.end) / 2 > t);
    const at = n < 0 ? others.length : n, before = others[at - 1], behind = others[at], cuts = view().cuts_us;
    let launch = before?.launch ?? behind?.launch ?? picked.launch;
    if (before && behind && before.launch !== behind.launch && cuts.some(cut => cut >= before.end - 1e-3 && cut <= t)) launch = behind.launch;
    return { unit, launch, after: before && before.launch === launch ? before : null, x: before && before.launch === launch ? before.end : behind?.start ?? 0 };
  }

  async function drop(to) {
    const mine = picked;
    ghost = null; changed();
    if (!mine || !to || to.unit === mine.unit && stays(to)) return;
    const args = { call: mine.call, first: mine.first, last: mine.last, unit: to.unit, launch: to.launch, after: to.after ? [to.after.call, to.after.last] : null };
    const answer = await ctx.move("move_brick", args).catch(() => null);
    if (!answer?.refused) return;
    const said = `Not legal: ${answer.refused}.`;
    broken = { said, ...ends(answer, mine) };
    ctx.say(said);
    clearTimeout(timer); timer = setTimeout(() => { broken = null; changed(); }, 12000);
    changed();
  }

  /** Whether the brick already stands there. */
  function stays(to) {
    const mine = lane(picked.unit, picked.start), at = mine.findIndex(b => same(b, picked));
    return at === 0 ? to.after === null && to.launch === picked.launch : same(mine[at - 1], to.after);
  }

  /** The two bricks of a broken dependency: the last of the writer and the first of the reader. */
  function ends({ writer = -1, reader = -1 }, mine) {
    const s = slice(mine.start);
    let from = -1, to = -1;
    for (let i = 0; i < s.n; i++) {
      if (s.call[i] === writer && (from < 0 || s.end[i] > s.end[from])) from = i;
      if (s.call[i] === reader && (to < 0 || s.start[i] < s.start[to])) to = i;
    }
    return from < 0 || to < 0 ? {} : { arrow: { fromUnit: s.lane[from], fromEnd: s.end[from], toUnit: s.lane[to], toStart: s.start[to] } };
  }

  return {
    get picked() { return picked; }, get ghost() { return ghost; }, get broken() { return broken; },
    pick, renew,
    /** Whether a place is on the picked brick, so that a drag from there moves it. */
    holds: (unit, t) => Boolean(picked && ctx.host.alive && view().group === 1 && unit === picked.unit && t >= picked.start && t <= picked.end),
    drag(unit, t) { ghost = { ...slot(unit, t), start: t, end: t + picked.end - picked.start }; broken = null; changed(); },
    drop: () => drop(ghost),
    cancel() { ghost = null; changed(); },
    /** One brick later or earlier, one unit down or up. */
    nudge(along, across) {
      if (!picked || !ctx.host.alive || view().group > 1) return false;
      const unit = picked.unit + across;
      if (unit < 0 || unit >= view().units) { ctx.say(`There is no unit ${unit}.`); return true; }
      if (across) { drop(slot(unit, picked.start)); return true; }
      const mine = lane(picked.unit, picked.start), at = mine.findIndex(b => same(b, picked));
      const after = along > 0 ? mine[at + 1] : mine[at - 2] ?? null, next = along > 0 ? mine[at + 1] : mine[at - 1];
      if (!next) { ctx.say(`Nothing stands ${along > 0 ? "behind" : "before"} it on unit ${unit}.`); return true; }
      drop({ unit, launch: next.launch, after: after && after.launch === next.launch ? after : null });
      return true;
    },
    /** The next brick of some calls, by time. */
    next(lit, by) {
      const s = slice(picked?.start ?? 0), all = [];
      for (let u = 0; u < s.lanes; u++) for (let i = s.rows[u]; i < s.rows[u + 1]; i++) if ((!lit.size || lit.has(s.call[i])) && s.alone[i] >= 0) all.push(brickOf(s, i, u));
      if (!all.length) return null;
      all.sort((a, b) => a.start - b.start || a.unit - b.unit);
      const at = all.findIndex(b => same(b, picked)), to = at < 0 ? (by > 0 ? 0 : all.length - 1) : (at + by + all.length) % all.length;
      pick(all[to]);
      return all[to];
    },
    close() { clearTimeout(timer); },
  };
}
