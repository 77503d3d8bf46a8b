"""Kernels that walk one grid over the same tensors become one kernel with several results: an
optimizer's parameter and moments are written in one pass over memory.

m1 = kernel a(m, g); p1 = kernel b(p, m1)   ->   p1, m1 = kernel a_b(m, g, p)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from explorer.devices.model import Device
from explorer.ir.calls import KernelCall, MatchCast, Var, View, updates_of
from explorer.ir.decisions import FusionGroup, TileGraph
from explorer.ir.kernel import Kernel, reads, rename_tensors
from explorer.ir.kernels.in_place import written_over
from explorer.ir.kernels.join import joined, kept_inside, maps_one_grid
from explorer.ir.kernels.merge import share_inputs
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.types import Tensor
from explorer.passes.pipeline.registry import compiler_pass
from explorer.welder.groups.loop_rows import loop_rows

MOST = 16  # tensors that one loop walks along: each is an address to advance


@compiler_pass("join-results", paper="OpenXLA, multi-output fusion")
@dataclass(frozen=True, slots=True)
class JoinResults:
    """After: kernels that only map, over one grid, and read a tensor together, or one what another
    makes, are one kernel; what no other kernel reads of it is not stored.

    That spares traffic where the nearest memories of the device do not hold it all; what they hold
    is read again for nothing, and stays apart. Measured: Adam's update of 784 x 512 parameters
    takes 275 us, in five kernels 585; LSTM cells of 16 elements would take 4 to 8 % longer. A
    result of the program is joined however small with what reads the same input of the program: it
    may be written over that.
    """

    device: Device

    def __call__(self, program: Program) -> Program:
        """The program with joined kernels; itself where there are none."""
        into: dict[str, Binding] = {}
        near = self.device.levels[0]
        room = (near.capacity_bytes or 0) * self.device.units
        functions = tuple(
            _joined(f, _Facts(loop_rows(f, program), program.env, room, *_ends(f, program)), into)
            for f in program.functions
        )
        if not into:
            return program
        graph = program.decisions.tile_graph
        told = None if graph is None else _told(graph, into, program.env)
        return replace(
            program, functions=functions, decisions=replace(program.decisions, tile_graph=told)
        )


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a loop reads where it lies, so that no kernel has to copy it; the symbols; how many
    bytes lie near the units; and the inputs and results of the program.
    """

    rows: frozenset[str]
    env: ShapeEnv
    room: int
    inputs: frozenset[str]
    results: frozenset[str]

    def are_worth_it(self, loop: _Loop, one: _Loop) -> bool:
        """Whether the two spare traffic, or may then be written over what they read."""
        both = loop.values | one.values
        if sum(_bytes(v, self.env) for v in both.values()) > self.room:
            return True
        made = {*loop.kernel.outputs, *one.kernel.outputs}
        return bool(self.results & made and self.inputs & loop.whole & one.whole)


def _ends(function: Function, program: Program) -> tuple[frozenset[str], frozenset[str]]:
    """The names of inputs and results of the program, if the function is its main one."""
    if function.name != program.main.name:
        return frozenset(), frozenset()
    results = frozenset(v.name for v in function.outputs)
    return frozenset(p.name for p in function.params), results


def _joined(function: Function, facts: _Facts, into: dict[str, Binding]) -> Function:
    """The function with its loops joined; `into` is told which binding each has become part of."""
    body = function.body
    loops = [loop for loop in _loops(function, facts) if len(loop.places) > 1]
    stands: dict[int, Binding] = {}
    for loop in loops:
        binding = _binding(loop, body)
        stands[loop.places[-1]] = binding
        into |= {body[p].name: binding for p in loop.places}
    gone = {p for loop in loops for p in loop.places}
    new = {n: b for n, b in enumerate(body) if n not in gone} | stands
    return replace(function, body=_in_order(new, loops, body)) if loops else function


@dataclass(slots=True)
class _Loop:
    """Kernels that have become one so far: their places, the kernel, whose tensors are called as
    the values are, and what it reads and makes.
    """

    places: list[int]
    kernel: Kernel
    values: dict[str, Var]

    @property
    def whole(self) -> frozenset[str]:
        """What is read at the element that is written."""
        computes = self.kernel.computes
        return frozenset(r.tensor for c in computes for r in reads(c.expr) if r.index == c.target)


def _loops(function: Function, facts: _Facts) -> list[_Loop]:
    """The kernels that map, each joined with the first loop that it fits."""
    body = function.body
    over, depends = written_over(body), _Depends(body)
    readers: dict[str, set[int]] = {v.name: {len(body)} for v in function.outputs}
    for n, b in enumerate(body):
        for v in b.reads:
            readers.setdefault(v.name, set()).add(n)
    loops: list[_Loop] = []
    of_value: dict[str, list[_Loop]] = {}
    for n, b in enumerate(body):
        if not isinstance(b.expr, KernelCall) or not maps_one_grid(b.expr.kernel):
            continue
        if b.name in facts.rows or any(v.name in over for v in (*b.expr.args, *b.vars)):
            continue
        one = _alone(n, b, b.expr)
        near = {id(x): x for name in one.values for x in of_value.get(name, ())}
        worth = (x for x in near.values() if facts.are_worth_it(x, one))
        home = next((x for x in worth if _joins(x, one, depends, readers)), one)
        if home is one:
            loops.append(one)
        for name in home.values:
            known = of_value.setdefault(name, [])
            if home not in known:
                known.append(home)
    return loops


def _alone(n: int, binding: Binding, call: KernelCall) -> _Loop:
    kernel, given = share_inputs(call.kernel, tuple(a.name for a in call.args))
    names = dict(zip(kernel.inputs, given, strict=True))
    names |= {t: v.name for t, v in zip(kernel.outputs, binding.vars, strict=True)}
    values = {v.name: v for v in (*call.args, *binding.vars)}
    return _Loop([n], rename_tensors(kernel, names), values)


def _joins(loop: _Loop, one: _Loop, depends: _Depends, readers: dict[str, set[int]]) -> bool:
    """Joins the one to the loop where it fits; whether it did."""
    both = joined(loop.kernel, one.kernel)
    if both is None or depends.between(loop.places, one.places):
        return False
    places = [*loop.places, *one.places]
    for name in both.outputs:
        if name in readers and readers[name] <= {*places}:
            both = kept_inside(both, name)
    if len(both.inputs) + len(both.outputs) > MOST:
        return False
    depends.join(places)
    loop.places, loop.kernel, loop.values = places, both, loop.values | one.values
    return True


class _Depends:
    """What each binding of a body depends on, through others too, as bits of a number: those that
    have become one depend on what each of them does.
    """

    def __init__(self, body: Sequence[Binding]) -> None:
        self.on: list[int] = []
        for needed in _needs(body):
            found = 0
            for at in needed:
                found |= self.on[at] | 1 << at
            self.on.append(found)

    def between(self, first: Sequence[int], then: Sequence[int]) -> bool:
        """Whether something else needs some of the first and is needed by some of the others."""
        inside = _mask((*first, *then))
        needed = 0
        for p in then:
            needed |= self.on[p]
        low = min(first)
        return any(self.on[p] & inside for p in _bits((needed & ~inside) >> low, low))

    def join(self, places: Sequence[int]) -> None:
        """These are one from now on."""
        inside, needed = _mask(places), 0
        for p in places:
            needed |= self.on[p]
        for p in range(min(places), len(self.on)):
            if self.on[p] & inside or p in places:
                self.on[p] |= needed | inside


def _needs(body: Sequence[Binding]) -> list[set[int]]:
    """Which bindings must have run before each: what it reads; of what it writes over, who reads
    it; and what gives a size its name.
    """
    made: dict[str, int] = {}
    root: dict[str, str] = {}  # by a view, the value whose bytes it shows
    readers: dict[str, set[int]] = {}
    sizes: set[int] = set()
    found: list[set[int]] = []
    for n, b in enumerate(body):
        needed = sizes | {made[v.name] for v in b.reads if v.name in made}
        if isinstance(b.expr, KernelCall):
            for _, taken in updates_of(b.expr, b.vars):
                needed |= readers.get(root.get(taken.name, taken.name), set())
        found.append(needed)
        if isinstance(b.expr, View):
            root[b.name] = root.get(b.expr.arg.name, b.expr.arg.name)
        if isinstance(b.expr, MatchCast):
            sizes.add(n)
        for v in b.reads:
            readers.setdefault(root.get(v.name, v.name), set()).add(n)
        made |= {v.name: n for v in b.vars}
    return found


def _mask(places: Sequence[int]) -> int:
    return sum(1 << p for p in places)


def _bits(mask: int, first: int) -> Iterator[int]:
    """The places that are set, counted from `first`."""
    while mask:
        low = mask & -mask
        yield first + low.bit_length() - 1
        mask ^= low


def _in_order(
    new: Mapping[int, Binding], loops: Sequence[_Loop], body: Sequence[Binding]
) -> tuple[Binding, ...]:
    """As they stood in the body, but each after what it needs."""
    stands = {p: loop.places[-1] for loop in loops for p in loop.places}
    waits: dict[int, set[int]] = {n: set() for n in new}
    for n, needed in enumerate(_needs(body)):
        at = stands.get(n, n)
        waits[at] |= {stands.get(p, p) for p in needed} - {at}
    follows: dict[int, list[int]] = {}
    for n, needed in waits.items():
        for p in needed:
            follows.setdefault(p, []).append(n)
    ready = [n for n, needed in waits.items() if not needed]
    heapify(ready)
    order: list[Binding] = []
    while ready:
        n = heappop(ready)
        order.append(new[n])
        for later in follows.get(n, ()):
            waits[later].discard(n)
            if not waits[later]:
                heappush(ready, later)
    assert len(order) == len(new), "kernels that became one need each other"
    return tuple(order)


def _binding(loop: _Loop, body: Sequence[Binding]) -> Binding:
    """The one call. What reads most is written first: it may be the last to read what the next is
    written over.
    """
    kernel = loop.kernel
    computes, made = kernel.computes, {*kernel.outputs}
    if not any(r.tensor in made for c in computes for r in reads(c.expr)):
        computes = tuple(sorted(computes, key=lambda c: -len({r.tensor for r in reads(c.expr)})))
    outputs = tuple(c.out for c in computes)
    call = KernelCall(
        replace(kernel, computes=computes, outputs=outputs),
        tuple(loop.values[i] for i in kernel.inputs),
    )
    origin = frozenset[str]().union(*(body[p].origin for p in loop.places))
    return Binding(tuple(loop.values[o] for o in outputs), call, origin)


def _told(graph: TileGraph, into: Mapping[str, Binding], env: ShapeEnv) -> TileGraph:
    """The groups, those of the bindings that have become one as one."""
    groups: dict[str, FusionGroup] = {}
    for g in graph.groups:
        now = into.get(g.name)
        if now is None:
            groups[g.name] = g
            continue
        first = groups.get(now.name)
        groups[now.name] = FusionGroup(
            now.name,
            (*(first.members if first else ()), *g.members),
            (*(first.kinds if first else ()), *g.kinds),
            (first.bytes_before if first else 0) + g.bytes_before,
            sum(_bytes(v, env) for v in (*now.kernel_call.args, *now.vars)),
            (*(first.steps if first else ()), *g.steps),
            now.origin,
        )
    return replace(graph, groups=tuple(groups.values()))


def _bytes(v: Var, env: ShapeEnv) -> int:
    known = isinstance(v.type, Tensor) and v.type.is_known
    return env.hint(v.type.bytes) if known and isinstance(v.type, Tensor) else 0
