"""The uTasks that a drawing shows: runs of operators as one, repeated parts as one, deep ones as a
count, until there is room for all of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from explorer.ir.decisions.control import COSTS_ARE_OF, ControlDecision, TaskTree
from explorer.ir.decisions.wall import Ran
from widgets.draw.table import count_text

HOST, DEVICE, UNIT = range(3)
REST = "remainder"  # of an unrolled loop: the iterations that are left
MOST_OPS = 200  # that one mark names
LONGEST = 16  # of parts that repeat one after the other
FEW = 3  # operators in a row that are drawn one by one while there is room


@dataclass(frozen=True, slots=True)
class Shown:
    """A uTask as it is drawn: its name, a line under it, the lane of its level, and how many
    uTasks alike it stands for. `families` are those of its operators, the most frequent first.
    """

    kind: str
    name: str
    under: str
    lane: int
    ops: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    said: str = ""
    parts: tuple[Shown, ...] = ()
    count: int = 1
    inner: bool = False
    bodies: int = 1  # of how many operators it is made
    holds: tuple[str, ...] = ()  # the kinds of what is folded into it


@dataclass(frozen=True)
class Facts:
    """By binding: what calls are called, their families, what ran, and what was decided."""

    labels: Mapping[str, str] = field(default_factory=dict)
    families: Mapping[str, str] = field(default_factory=dict)
    ran: Mapping[str, Ran] = field(default_factory=dict)
    decided: Mapping[str, ControlDecision] = field(default_factory=dict)

    def alone(self, binding: str) -> bool:
        """Return True if one unit does it, or each unit some of it, without the others."""
        found = self.decided.get(binding)
        return found is not None and found.chosen.calls in ("alone", "apart")


def counted(tree: TaskTree, static: Mapping[str, int], times: int = 1) -> dict[str, Ran]:
    """Return what loops do in any run, of those whose iterations sizes and constants tell: `static`
    by binding, each time that a loop is entered.
    """
    found: dict[str, Ran] = {}
    for part in tree.parts:
        inside = times
        if part.kind == "loop":
            if part.binding not in static:
                continue
            inside = times * static[part.binding]
            found[part.binding] = Ran(part.binding, "loop", times, inside)
        if part.kind in ("loop", "sequence"):
            found |= counted(part, static, inside)
    return found


def shown(tree: TaskTree, facts: Facts) -> Shown:
    """All uTasks of a program, its own node on the host, which launches it."""
    parts = tuple(n for p in tree.parts for n in _nodes(p, facts, alone=False))
    return _with_inner(Shown("sequence", tree.name, "whole run", HOST, parts=parts))


def _nodes(tree: TaskTree, facts: Facts, *, alone: bool, arm: str = "") -> Iterator[Shown]:
    alone = alone or facts.alone(tree.binding)
    lane = HOST if tree.level == "host" else UNIT if alone or tree.level == "unit" else DEVICE
    if tree.kind == "sequence":
        parts = tuple(n for p in tree.parts for n in _nodes(p, facts, alone=alone))
        if parts:
            yield Shown("sequence", tree.name, arm, lane, parts=parts)
        return
    ops = tuple(sorted(tree.origin))
    if tree.kind in ("operator", "library"):
        family = facts.families.get(tree.binding, "library call" if tree.kind == "library" else "")
        name = _last(facts.labels.get(tree.binding, tree.name or tree.kind))
        families = (family,) if family else ()
        yield Shown(tree.kind, name, family or tree.kind, lane, ops, families, tree.reason)
        return
    arms = _arms(tree, facts)
    parts = tuple(
        n for p, told in zip(tree.parts, arms) for n in _nodes(p, facts, alone=alone, arm=told)
    )
    said = barriers_and_reason(tree)
    yield Shown(tree.kind, _named(tree), _under(tree, facts), lane, ops, said=said, parts=parts)


def barriers_and_reason(tree: TaskTree) -> str:
    """How often all units meet in it, and why it runs at its level."""
    met = tree.barriers_per_trip if tree.kind in COSTS_ARE_OF else 0
    barriers = f"{count_text(met, 'barrier')} per {COSTS_ARE_OF[tree.kind]}" if met else ""
    return "; ".join(filter(None, (barriers, tree.reason)))


def _named(tree: TaskTree) -> str:
    """The last part of a name, after what it is."""
    last = _last(tree.name)
    kind = {"call": "call"}.get(tree.kind, tree.kind)
    return last if last.startswith(kind) else f"{kind} {last}".strip()


def _last(name: str) -> str:
    return name.removesuffix("/rest").rsplit("/", 1)[-1] or name


def _under(tree: TaskTree, facts: Facts) -> str:
    """What a loop, branch or call does in a run, as far as that is known."""
    found = facts.ran.get(tree.binding)
    if tree.kind == "loop":
        if tree.name.endswith("/rest"):
            return REST
        if found is None:
            return "data-dependent"
        each, left = divmod(found.trips, max(1, found.times))
        return f"×{each:,} iterations" if not left else f"{found.trips:,} iterations in all"
    if tree.kind == "branch":
        return f"then {found.then:,} of {found.times:,}" if found else ""
    if found is None:
        return "calls itself"
    return f"{count_text(found.trips, 'call')}, depth {found.depth:,}"


def _arms(tree: TaskTree, facts: Facts) -> Sequence[str]:
    """How often each side of a branch was taken."""
    found = facts.ran.get(tree.binding)
    if tree.kind != "branch" or found is None:
        return [""] * len(tree.parts)
    counts = (found.then, found.times - found.then)
    return [f"taken {n:,} of {found.times:,}" for n in counts]


def _with_inner(tree: Shown) -> Shown:
    """With the innermost loop marked, of several the first."""
    deepest = max(_loops(tree, 0, ()), key=lambda x: x[0], default=None)

    def marked(node: Shown, way: tuple[int, ...]) -> Shown:
        parts = tuple(marked(p, (*way, n)) for n, p in enumerate(node.parts))
        return replace(node, parts=parts, inner=deepest is not None and way == deepest[1])

    return marked(tree, ())


def _loops(node: Shown, depth: int, way: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    if node.kind == "loop":
        yield depth, way
    for n, part in enumerate(node.parts):
        yield from _loops(part, depth + (node.kind == "loop"), (*way, n))


Fits = Callable[[Shown], bool]


def folded(tree: Shown, fits: Fits, selected: str = "") -> Shown:
    """The tree with as much folded as it takes to fit."""
    for step in _steps(tree, selected):
        if fits(step):
            return step
    return step


def _steps(tree: Shown, selected: str) -> Iterator[Shown]:
    """The tree with more and more of it folded."""
    yield _flat(tree)
    yield _flat(layers := _alike(tree, selected))
    if not any(n.kind in ("loop", "branch", "call") for n in every(tree)):
        for most in (12, 8, 5, 3, 1):
            yield _few(layers, most)
        return
    for least in (FEW, 1):
        yield _flat(runs := _runs(tree, least, selected))
    yield _flat(_alike(runs, selected))
    alike = _alike(_runs(tree, 1, ""), "")
    yield _flat(alike)
    flat = _flat(alike)
    for depth in range(depth_of(flat) - 1, 0, -1):
        yield (cut := _cut(flat, depth))
        for most in (8, 5, 3):
            yield _few(cut, most)
    yield _few(_cut(flat, 1), 1)


def depth_of(node: Shown) -> int:
    """How many levels are below a node."""
    return max((1 + depth_of(p) for p in node.parts), default=0)


def every(node: Shown) -> Iterator[Shown]:
    """A node and all below it."""
    yield node
    for part in node.parts:
        yield from every(part)


def leaves(node: Shown) -> int:
    """How many nodes have no parts."""
    return sum(leaves(p) for p in node.parts) or 1


def _flat(node: Shown) -> Shown:
    """The parts of an arm are parts of its branch, and say which arm they are in."""
    parts: list[Shown] = []
    for part in map(_flat, node.parts):
        arm = node.kind == "branch" and part.kind == "sequence"
        parts += [_in_arm(p, part.name) for p in part.parts] if arm else [part]
    return replace(node, parts=tuple(parts))


def _in_arm(part: Shown, arm: str) -> Shown:
    return replace(part, under=f"{arm}: {part.under}" if part.under else arm)


def _runs(node: Shown, most: int, selected: str) -> Shown:
    """Longer runs of operators as one, apart from the selected one."""
    found: list[Shown] = []
    run: list[Shown] = []
    for part in (*node.parts, None):
        plain = part is not None and part.kind == "operator" and selected not in part.ops
        if plain and part is not None and (not run or run[0].lane == part.lane):
            run.append(part)
            continue
        found += [_one(run, "operator")] if len(run) > most else run
        run = [part] if plain and part is not None else []
        if part is not None and not plain:
            found.append(_runs(part, most, selected))
    return replace(node, parts=tuple(found))


def _one(run: Sequence[Shown], kind: str) -> Shown:
    """Several nodes as one."""
    count = sum(n.bodies for n in run)
    families = Counter(f for n in run for p in every(n) for f in p.families)
    ops = _ops_of(run)
    kind = "operator" if all(n.kind == "operator" for n in run) else kind
    name = count_text(count, "operator") if kind == "operator" else f"{count:,} uTasks"
    most = [f for f, _ in families.most_common()]
    under = "" if not most else f"mostly {most[0]}" if len(most) > 1 else most[0]
    said, holds = ", ".join(n.name for n in run[:40]), _kinds(run)
    lane = run[0].lane
    return Shown(kind, name, under, lane, ops, tuple(most[:4]), said, bodies=count, holds=holds)


def _kinds(nodes: Iterable[Shown]) -> tuple[str, ...]:
    """What a sentence says of these, and of all below them."""
    found = {k for n in nodes for p in every(n) for k in (p.kind, *p.holds, "inner" * p.inner)}
    return tuple(sorted(found - {""}))


def _form(node: Shown) -> object:
    """What is equal of nodes that look alike."""
    parts = tuple(map(_form, node.parts))
    name = re.sub(r"\d+", "", node.name) if node.kind in ("operator", "sequence") else ""
    return node.kind, name, node.lane, node.families, node.bodies, parts


def _alike(node: Shown, selected: str) -> Shown:
    """Repeated siblings as one: a part, or several parts that follow each other again and again."""
    parts = [_alike(p, selected) for p in node.parts]
    forms = [_form(p) for p in parts]
    found: list[Shown] = []
    at = 0
    while at < len(parts):
        period, times = _repeats(forms, at)
        mine = parts[at : at + period * times]
        if times < 2 or any(selected and selected in n.ops for p in mine for n in every(p)):
            found.append(parts[at])
            at += 1
            continue
        for n in range(period):
            copies = mine[n::period]
            ops, first = _ops_of(copies), copies[0]
            under = f"{first.under}, ×{times}" if first.under else f"×{times}"
            found.append(replace(first, ops=ops, count=times * first.count, under=under))
        at += period * times
    return replace(node, parts=tuple(found))


def _repeats(forms: Sequence[object], at: int) -> tuple[int, int]:
    """The shortest period from a position on that repeats, and how often it is there."""
    for period in range(1, min(LONGEST, (len(forms) - at) // 2) + 1):
        times = 1
        while forms[at : at + period] == forms[at + times * period : at + (times + 1) * period]:
            times += 1
        if times > 1:
            return period, times
    return 1, 1


def _cut(node: Shown, depth: int) -> Shown:
    """Without what is deeper; a node says how many uTasks it holds."""
    if depth == 0:
        inside = sum(n.bodies * n.count for n in every(node)) - node.bodies * node.count
        families = Counter(f for n in every(node) for f in n.families)
        told = f"{inside:,} uTasks in it" if inside else node.under
        ops = _ops_of([node])
        most = tuple(f for f, _ in families.most_common(4))
        return replace(node, parts=(), under=told, ops=ops, families=most, holds=_kinds(node.parts))
    return replace(node, parts=tuple(_cut(p, depth - 1) for p in node.parts))


def _few(node: Shown, most: int) -> Shown:
    """With so many parts at most: the others are one."""
    parts, rest = node.parts, node.parts[most - 1 :]
    if len(parts) > most:
        parts = (*(_few(p, most) for p in parts[: most - 1]), _one(rest, "more"))
    else:
        parts = tuple(_few(p, most) for p in parts)
    return replace(node, parts=parts)


def _ops_of(nodes: Iterable[Shown]) -> tuple[str, ...]:
    """The source operators of these and of all below them, as many as a mark names."""
    found: dict[str, None] = {}
    for op in (op for n in nodes for p in every(n) for op in p.ops):
        found[op] = None
        if len(found) == MOST_OPS:
            break
    return tuple(sorted(found))
