"""Folding of a uTask tree until it fits the drawing.

Runs of operators become one node, repeated parts one node, and deep subtrees a count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from explorer.ir.decisions.control import COST_UNITS, ControlDecision, TaskTree
from explorer.ir.decisions.wall import ControlFlowCounts
from explorer.plain_text import counted

HOST, DEVICE, UNIT = range(3)
REST = "remainder"  # the remaining iterations of an unrolled loop
MOST_OPS = 200  # named by one mark
LONGEST = 16  # longest period of repeated parts
FEW = 3  # shorter runs of operators are not folded at first


@dataclass(frozen=True, slots=True)
class ShownTask:
    """A uTask as drawn: its name, the line under it, the lane of its level, and its multiplicity.

    `families` are those of its operators, the most frequent first.
    """

    kind: str
    name: str
    under: str
    lane: int
    ops: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    note: str = ""
    parts: tuple[ShownTask, ...] = ()
    count: int = 1
    inner: bool = False
    bodies: int = 1  # number of operators folded into it
    holds: tuple[str, ...] = ()  # kinds of the nodes folded into it


@dataclass(frozen=True)
class TaskFacts:
    """Facts by binding: call labels, families, profile counts and control-flow decisions."""

    labels: Mapping[str, str] = field(default_factory=dict)
    families: Mapping[str, str] = field(default_factory=dict)
    ran: Mapping[str, ControlFlowCounts] = field(default_factory=dict)
    decided: Mapping[str, ControlDecision] = field(default_factory=dict)

    def is_independent(self, binding: str) -> bool:
        """Return True if one unit runs it without the others, or each unit runs a part of it."""
        decision = self.decided.get(binding)
        return decision is not None and decision.chosen.calls in ("alone", "apart")


def static_profile(
    tree: TaskTree, static: Mapping[str, int], times: int = 1
) -> dict[str, ControlFlowCounts]:
    """Return the profile of loops whose trip counts follow from sizes and constants.

    `static` holds the trips per entry by binding.
    """
    profile: dict[str, ControlFlowCounts] = {}
    for part in tree.parts:
        inside = times
        if part.kind == "loop":
            if part.binding not in static:
                continue
            inside = times * static[part.binding]
            profile[part.binding] = ControlFlowCounts(part.binding, "loop", times, inside)
        if part.kind in ("loop", "sequence"):
            profile |= static_profile(part, static, inside)
    return profile


def build_tree(tree: TaskTree, facts: TaskFacts) -> ShownTask:
    """Return the uTasks of a program under a root node on the host, which launches them."""
    parts = tuple(n for p in tree.parts for n in _nodes(p, facts, alone=False))
    return _with_inner(ShownTask("sequence", tree.name, "whole run", HOST, parts=parts))


def _nodes(tree: TaskTree, facts: TaskFacts, *, alone: bool, arm: str = "") -> Iterator[ShownTask]:
    alone = alone or facts.is_independent(tree.binding)
    lane = HOST if tree.level == "host" else UNIT if alone or tree.level == "unit" else DEVICE
    if tree.kind == "sequence":
        parts = tuple(n for p in tree.parts for n in _nodes(p, facts, alone=alone))
        if parts:
            yield ShownTask("sequence", tree.name, arm, lane, parts=parts)
        return
    ops = tuple(sorted(tree.origin))
    if tree.kind in ("operator", "library"):
        family = facts.families.get(tree.binding, "library call" if tree.kind == "library" else "")
        name = _last(facts.labels.get(tree.binding, tree.name or tree.kind))
        families = (family,) if family else ()
        yield ShownTask(tree.kind, name, family or tree.kind, lane, ops, families, tree.reason)
        return
    arms = _arms(tree, facts)
    parts = tuple(
        n
        for p, arm_note in zip(tree.parts, arms)
        for n in _nodes(p, facts, alone=alone, arm=arm_note)
    )
    note = barriers_and_reason(tree)
    yield ShownTask(tree.kind, _named(tree), _under(tree, facts), lane, ops, note=note, parts=parts)


def barriers_and_reason(tree: TaskTree) -> str:
    """Describe the barriers per trip, and why the task runs at its level."""
    met = tree.barriers_per_trip if tree.kind in COST_UNITS else 0
    barriers = f"{counted(met, 'barrier')} per {COST_UNITS[tree.kind]}" if met else ""
    return "; ".join(filter(None, (barriers, tree.reason)))


def _named(tree: TaskTree) -> str:
    """Return the last part of the task's name, prefixed by its kind."""
    last = _last(tree.name)
    kind = {"call": "call"}.get(tree.kind, tree.kind)
    return last if last.startswith(kind) else f"{kind} {last}".strip()


def _last(name: str) -> str:
    return name.removesuffix("/rest").rsplit("/", 1)[-1] or name


def _under(tree: TaskTree, facts: TaskFacts) -> str:
    """Describe what a loop, branch or call does in a run, as far as it is known."""
    profile = facts.ran.get(tree.binding)
    if tree.kind == "loop":
        if tree.name.endswith("/rest"):
            return REST
        if profile is None:
            return "data-dependent"
        each, left = divmod(profile.trips, max(1, profile.times))
        return f"×{each:,} iterations" if not left else f"{profile.trips:,} iterations in all"
    if tree.kind == "branch":
        return f"then {profile.then:,} of {profile.times:,}" if profile else ""
    if profile is None:
        return "calls itself"
    return f"{counted(profile.trips, 'call')}, depth {profile.depth:,}"


def _arms(tree: TaskTree, facts: TaskFacts) -> Sequence[str]:
    """Return how often each arm of a branch was taken."""
    profile = facts.ran.get(tree.binding)
    if tree.kind != "branch" or profile is None:
        return [""] * len(tree.parts)
    counts = (profile.then, profile.times - profile.then)
    return [f"taken {n:,} of {profile.times:,}" for n in counts]


def _with_inner(tree: ShownTask) -> ShownTask:
    """Mark the innermost loop; of several the first."""
    deepest = max(_loops(tree, 0, ()), key=lambda x: x[0], default=None)

    def marked(node: ShownTask, path: tuple[int, ...]) -> ShownTask:
        parts = tuple(marked(p, (*path, n)) for n, p in enumerate(node.parts))
        return replace(node, parts=parts, inner=deepest is not None and path == deepest[1])

    return marked(tree, ())


def _loops(
    node: ShownTask, depth: int, path: tuple[int, ...]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    if node.kind == "loop":
        yield depth, path
    for n, part in enumerate(node.parts):
        yield from _loops(part, depth + (node.kind == "loop"), (*path, n))


Fits = Callable[[ShownTask], bool]


def fold_to_fit(tree: ShownTask, fits: Fits, selected: str = "") -> ShownTask:
    """Fold the tree as little as needed to fit."""
    for step in _steps(tree, selected):
        if fits(step):
            return step
    return step


def _steps(tree: ShownTask, selected: str) -> Iterator[ShownTask]:
    """Yield the tree with more and more of it folded."""
    yield _flat(tree)
    yield _flat(layers := _alike(tree, selected))
    if not any(n.kind in ("loop", "branch", "call") for n in walk_tasks(tree)):
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


def depth_of(node: ShownTask) -> int:
    """Return the number of levels below a node."""
    return max((1 + depth_of(p) for p in node.parts), default=0)


def walk_tasks(node: ShownTask) -> Iterator[ShownTask]:
    """Yield a node and all its descendants."""
    yield node
    for part in node.parts:
        yield from walk_tasks(part)


def leaves(node: ShownTask) -> int:
    """Return the number of nodes without parts."""
    return sum(leaves(p) for p in node.parts) or 1


def _flat(node: ShownTask) -> ShownTask:
    """Move the parts of an arm into its branch; each says which arm it is in."""
    parts: list[ShownTask] = []
    for part in map(_flat, node.parts):
        arm = node.kind == "branch" and part.kind == "sequence"
        parts += [_in_arm(p, part.name) for p in part.parts] if arm else [part]
    return replace(node, parts=tuple(parts))


def _in_arm(part: ShownTask, arm: str) -> ShownTask:
    return replace(part, under=f"{arm}: {part.under}" if part.under else arm)


def _runs(node: ShownTask, most: int, selected: str) -> ShownTask:
    """Fold runs of more than `most` operators into one node, but never the selected operator."""
    folded_parts: list[ShownTask] = []
    run: list[ShownTask] = []
    for part in (*node.parts, None):
        plain = part is not None and part.kind == "operator" and selected not in part.ops
        if plain and part is not None and (not run or run[0].lane == part.lane):
            run.append(part)
            continue
        folded_parts += [_merge(run, "operator")] if len(run) > most else run
        run = [part] if plain and part is not None else []
        if part is not None and not plain:
            folded_parts.append(_runs(part, most, selected))
    return replace(node, parts=tuple(folded_parts))


def _merge(run: Sequence[ShownTask], kind: str) -> ShownTask:
    """Merge several nodes into one."""
    count = sum(n.bodies for n in run)
    families = Counter(f for n in run for p in walk_tasks(n) for f in p.families)
    ops = _ops_of(run)
    kind = "operator" if all(n.kind == "operator" for n in run) else kind
    name = counted(count, "operator") if kind == "operator" else f"{count:,} uTasks"
    most = [f for f, _ in families.most_common()]
    under = "" if not most else f"mostly {most[0]}" if len(most) > 1 else most[0]
    note, holds = ", ".join(n.name for n in run[:40]), _kinds(run)
    lane = run[0].lane
    return ShownTask(kind, name, under, lane, ops, tuple(most[:4]), note, bodies=count, holds=holds)


def _kinds(nodes: Iterable[ShownTask]) -> tuple[str, ...]:
    """Return the kinds of the nodes and their descendants, which sentences refer to."""
    kinds = {k for n in nodes for p in walk_tasks(n) for k in (p.kind, *p.holds, "inner" * p.inner)}
    return tuple(sorted(kinds - {""}))


def _form(node: ShownTask) -> object:
    """Return a key that is equal for nodes that look alike."""
    parts = tuple(map(_form, node.parts))
    name = re.sub(r"\d+", "", node.name) if node.kind in ("operator", "sequence") else ""
    return node.kind, name, node.lane, node.families, node.bodies, parts


def _alike(node: ShownTask, selected: str) -> ShownTask:
    """Fold repeated siblings, or repeated sequences of siblings, into one copy."""
    parts = [_alike(p, selected) for p in node.parts]
    forms = [_form(p) for p in parts]
    folded_parts: list[ShownTask] = []
    at = 0
    while at < len(parts):
        period, times = _repeats(forms, at)
        mine = parts[at : at + period * times]
        if times < 2 or any(selected and selected in n.ops for p in mine for n in walk_tasks(p)):
            folded_parts.append(parts[at])
            at += 1
            continue
        for n in range(period):
            copies = mine[n::period]
            ops, first = _ops_of(copies), copies[0]
            under = f"{first.under}, ×{times}" if first.under else f"×{times}"
            folded_parts.append(replace(first, ops=ops, count=times * first.count, under=under))
        at += period * times
    return replace(node, parts=tuple(folded_parts))


def _repeats(forms: Sequence[object], at: int) -> tuple[int, int]:
    """Return the shortest period that repeats from a position on, and its number of repetitions."""
    for period in range(1, min(LONGEST, (len(forms) - at) // 2) + 1):
        times = 1
        while forms[at : at + period] == forms[at + times * period : at + (times + 1) * period]:
            times += 1
        if times > 1:
            return period, times
    return 1, 1


def _cut(node: ShownTask, depth: int) -> ShownTask:
    """Drop everything below `depth`; a cut node says how many uTasks it holds."""
    if depth == 0:
        inside = sum(n.bodies * n.count for n in walk_tasks(node)) - node.bodies * node.count
        families = Counter(f for n in walk_tasks(node) for f in n.families)
        note = f"{inside:,} uTasks in it" if inside else node.under
        ops = _ops_of([node])
        most = tuple(f for f, _ in families.most_common(4))
        return replace(node, parts=(), under=note, ops=ops, families=most, holds=_kinds(node.parts))
    return replace(node, parts=tuple(_cut(p, depth - 1) for p in node.parts))


def _few(node: ShownTask, most: int) -> ShownTask:
    """Limit every node to `most` parts, merging the others into one."""
    parts, merged = node.parts, node.parts[most - 1 :]
    if len(parts) > most:
        parts = (*(_few(p, most) for p in parts[: most - 1]), _merge(merged, "more"))
    else:
        parts = tuple(_few(p, most) for p in parts)
    return replace(node, parts=parts)


def _ops_of(nodes: Iterable[ShownTask]) -> tuple[str, ...]:
    """Return the source operators of the nodes and their descendants, at most `MOST_OPS`."""
    names: dict[str, None] = {}
    for op in (op for n in nodes for p in walk_tasks(n) for op in p.ops):
        names[op] = None
        if len(names) == MOST_OPS:
            break
    return tuple(sorted(names))
