"""Loop distribution over stacked layers: a loop for each layer (Allen and Kennedy 1984).

    for x_t in x: h = f(x_t, h); g = k(h, g)   ->   for x_t in x: h = f(x_t, h); hs = stacked(h)
                                                    for h_t in hs: g = k(h_t, g)

A matrix that multiplies a state is then read in consecutive trips, without the other matrices in
between. Products of rows alone move before their loop (`HoistRowProducts`). The bindings on a cycle
through a state form one part, since a state needs its value from the previous trip; everything else
may run in its own loop, after those that it needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.ir.calls import Loop, OpCall, Var
from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.ir.dims import Dim, product
from explorer.ir.program import Binding, Function, Program, fresh
from explorer.ir.types import ITEM_BYTES, Tensor
from explorer.passes.registry import compiler_pass
from explorer.transforms.counted_loops import trips_of
from explorer.transforms.product_groups import nearest_level
from explorer.transforms.shared_products import Options
from explorer.transforms.simplify.substitution import with_reads


@compiler_pass("split-loops", paper="Allen and Kennedy 1984; Appleyard et al. 2016, section 3.1")
@dataclass(frozen=True, slots=True)
class SplitLoops:
    """A pass that splits loops over layers into a loop for each layer, for one device."""

    device: Device
    options: Options = Options()

    def __call__(self, program: Program) -> Program:
        """Split loops where the model predicts a gain.

        After: a loop of known trip count contains one recurrent component that multiplies by a
        constant, where this is modelled to be faster.
        """
        calls = Counter(n for f in program.functions for b in f.body for n in b.calls)
        functions = {f.name: f for f in program.functions}
        for name in [f.name for f in program.functions]:
            body: list[Binding] = []
            for binding in functions[name].body if name in functions else ():
                loop = binding.expr
                if not isinstance(loop, Loop) or calls[loop.body] > 1 or loop.rows:
                    body.append(binding)
                    continue
                loops = self._parts(binding, loop, functions, program)
                if loops:
                    del functions[loop.body]
                    functions.update((inside.name, inside) for _, inside in loops)
                body += [b for b, _ in loops] or [binding]
            if name in functions:
                functions[name] = replace(functions[name], body=tuple(body))
        every = tuple(functions.values())
        return program if every == program.functions else replace(program, functions=every)

    def _parts(
        self, binding: Binding, loop: Loop, functions: Mapping[str, Function], program: Program
    ) -> list[tuple[Binding, Function]]:
        """Return the loops that replace one, each with its body; an empty list if it stays."""
        program = replace(program, functions=tuple(functions.values()))
        around = next(f for f in program.functions if binding in f.body)
        trips = trips_of(loop, around, functions[loop.body], program)
        if trips is None:
            return []
        split = _Split(binding, loop, trips, program)
        return split.loops() if split.is_profitable(self.device, self.options.split) else []


class _Split:
    """A loop's body as stages, each a loop of its own."""

    def __init__(self, binding: Binding, loop: Loop, trips: Dim, program: Program) -> None:
        """Assign the bindings and states of the loop's body to stages."""
        self.binding, self.loop, self.trips, self.program = binding, loop, trips, program
        self.body = program.function(loop.body)
        count = len(loop.state)
        self.iteration, self.going, *params = self.body.params
        self.state, self.after = params[:count], self.body.outputs[1 : 1 + count]
        self.invariants = dict(zip((p.name for p in params[count:]), loop.args, strict=True))
        self.params = {p.name: p for p in self.body.params}
        self.stacks = tuple(
            zip(self.binding.vars[count:], self.body.outputs[1 + count :], strict=True)
        )
        self.nodes = {v.name: n for n, b in enumerate(self.body.body) for v in b.vars}
        self.nodes |= {p.name: len(self.body.body) + n for n, p in enumerate(self.state)}
        self.needs = [self._nodes(b.reads) for b in self.body.body]
        self.needs += [self._nodes((v,)) for v in self.after]
        weights = [n for n, b in enumerate(self.body.body) if self._weight(b) is not None]
        self.stage = assign_stages(self.needs, weights)
        self.last = max(self.stage, default=0)
        self.names = {v.name for f in program.functions for b in f.body for v in b.vars}
        self.names |= {p.name for f in program.functions for p in f.params}
        self.names |= program.constants.keys() | {f.name for f in program.functions}
        self.rows: dict[str, Var] = {}  # stacked values that later stages read

    def _nodes(self, reads: tuple[Var, ...]) -> set[int]:
        return {self.nodes[v.name] for v in reads if v.name in self.nodes}

    def _weight(self, b: Binding) -> Tensor | None:
        """Return the type of the constant matrix that a binding multiplies by."""
        if not isinstance(b.expr, OpCall) or b.expr.op != "MatMul":
            return None
        constant = self.program.constants.get(b.reads[1].name)
        return None if constant is None or len(constant.type.dims) != 2 else constant.type

    def is_profitable(self, device: Device, split: str) -> bool:
        """Return True if there are several stages, their values can be stacked, and it pays."""
        if not self.last or not all(
            isinstance(v.type, Tensor) and v.type.is_known for _, v in self._cross_stage_values()
        ):
            return False
        env, part = self.program.env, strongly_connected_components(self.needs)
        size = Counter(part)
        state, other, flops = ([0] * (self.last + 1) for _ in range(3))
        for n, b in enumerate(self.body.body):
            weight = self._weight(b)
            if weight is not None:
                weight_bytes = state if size[part[n]] > 1 else other
                weight_bytes[self.stage[n]] += (
                    env.hint(weight.elements) * ITEM_BYTES[weight.element]
                )
                left = env.hint(product(b.reads[0].tensor.dims))
                flops[self.stage[n]] += 2 * left * env.hint(weight.dims[1])
        trips = env.hint(self.trips)
        unique = {v.name: v.tensor for _, v in self._cross_stage_values()}
        moved = sum(
            trips * env.hint(product(t.dims)) * ITEM_BYTES[t.element] for t in unique.values()
        )
        parts = [LoopPart(*each) for each in zip(state, other, flops, strict=True)]
        return rank_splitting(parts, trips, moved, device, split)[0].value

    def _bindings(self, stage: int) -> Iterator[Binding]:
        """Yield the bindings of a stage, without the continue flag, which each loop has itself."""
        for n, b in enumerate(self.body.body):
            if self.stage[n] == stage and b.vars[0] != self.body.outputs[0]:
                yield b

    def _results(self, stage: int) -> list[tuple[Var, Var]]:
        """Return the values of this stage that the loop stacks, each with its row."""
        return [(all_, v) for all_, v in self.stacks if self._stage(v) == stage]

    def _stage(self, v: Var) -> int:
        node = self.nodes.get(v.name)
        return 0 if node is None else self.stage[node]

    def _cross_stage_values(self) -> Iterator[tuple[int, Var]]:
        """Yield the values that a stage reads from an earlier one."""
        for stage in range(1, self.last + 1):
            reads = [v for b in self._bindings(stage) for v in b.reads]
            reads += [
                v for p, v in zip(self.state, self.after, strict=True) if self._stage(p) == stage
            ]
            for v in reads:
                if v.name in self.nodes and self._stage(v) < stage:
                    yield stage, v

    def loops(self) -> list[tuple[Binding, Function]]:
        """Return a loop for each stage, in order, with its body."""
        handed = list(self._cross_stage_values())
        for _, v in handed:
            if v.name not in self.rows:
                kind = replace(v.tensor, shape=(self.trips, *v.tensor.dims))
                self.rows[v.name] = Var(self._fresh(f"{v.name}.rows"), kind)
        return [
            self._loop(stage, {v.name: v for s, v in handed if s == stage})
            for stage in range(self.last + 1)
        ]

    def _fresh(self, wish: str) -> str:
        name = fresh(wish, self.names)
        self.names.add(name)
        return name

    def _loop(self, stage: int, read: Mapping[str, Var]) -> tuple[Binding, Function]:
        name = self._fresh(f"{self.body.name}.part")
        own = [n for n, p in enumerate(self.state) if self._stage(p) == stage]
        bindings = list(self._bindings(stage))
        needed = {v.name for b in bindings for v in b.reads}
        needed |= {self.after[n].name for n in own} | {v.name for _, v in self._results(stage)}
        invariants = {n: v for n, v in self.invariants.items() if n in needed}
        new = {
            p.name: replace(p, name=self._fresh(f"{name}.{p.name}"))
            for p in (self.iteration, self.going, *(self.state[n] for n in own))
        }
        new |= {n: replace(self.params[n], name=self._fresh(f"{name}.{n}")) for n in invariants}
        origin = self.binding.origin
        before, rows = [], []
        for v in read.values():
            every = replace(self.rows[v.name], name=self._fresh(f"{name}.{v.name}.rows"))
            rows.append(every)
            new[v.name] = replace(v, name=self._fresh(f"{name}.{v.name}"))
            row = OpCall("Gather", (every, new[self.iteration.name]), (("axis", 0),))
            before.append(Binding((new[v.name],), row, origin))
        body = [replace(b, expr=with_reads(b.expr, new)) for b in bindings]
        stacked = self._results(stage)
        stacked += [
            (all_, self._value(n)) for n, all_ in self.rows.items() if self._stage_of(n) == stage
        ]
        copies = []
        for _, v in stacked:
            copy = replace(v, name=self._fresh(f"{name}.row"))
            copies.append(copy)
            body.append(Binding((copy,), OpCall("Identity", (new.get(v.name, v),)), origin))
        going = self.body.outputs[0]
        if going.name not in self.program.constants:
            copied = replace(going, name=self._fresh(f"{name}.goes_on"))
            body.append(Binding((copied,), OpCall("Identity", (new[self.going.name],)), origin))
            going = copied
        after = (new.get(self.after[n].name, self.after[n]) for n in own)
        params = (*(new[p.name] for p in (self.iteration, self.going)),)
        params += (*(new[self.state[n].name] for n in own), *(new[n] for n in invariants), *rows)
        inside = Function(name, params, (*before, *body), (going, *after, *copies))
        loop = replace(
            self.loop,
            body=name,
            state=tuple(self.loop.state[n] for n in own),
            args=(*invariants.values(), *(self.rows[n] for n in read)),
            scans=len(stacked),
        )
        vars_ = (*(self.binding.vars[n] for n in own), *(all_ for all_, _ in stacked))
        return Binding(vars_, loop, origin), inside

    def _stage_of(self, name: str) -> int:
        return self.stage[self.nodes[name]]

    def _value(self, name: str) -> Var:
        """Return a value of the body by its name."""
        every = {v.name: v for b in self.body.body for v in b.vars} | self.params
        return every[name]


WHOLE, PARTS = "whole", "parts"


@dataclass(frozen=True, slots=True)
class LoopPart:
    """The work of a part in each trip.

    Bytes of matrices that multiply its state, bytes of those that multiply values of earlier parts,
    and multiplications plus additions.
    """

    state_bytes: int
    other_bytes: int
    flops: float


def rank_splitting(
    parts: Sequence[LoopPart], trips: int, moved_bytes: int, device: Device, split: str
) -> tuple[Candidate[bool], ...]:
    """Return both schedules of a loop with several parts, best first.

    whole  each trip reads all matrices, from the nearest memory that holds them all

    parts  each part reads the matrices of its state in each trip, from the nearest memory that
    holds them; the others once, as all their rows are available. Values between parts are written
    and read, with a global barrier between the parts
    """
    units = max(1, device.units)

    def read(size: int, resident: int) -> float:
        return size / nearest_level(device, resident).bytes_per_us / units

    every = sum(p.state_bytes + p.other_bytes for p in parts)
    work = [trips * p.flops / (device.reached_gflops_per_unit * units * 1e3) for p in parts]
    unsplit = [trips * read(p.state_bytes + p.other_bytes, every) for p in parts]
    apart = [trips * read(p.state_bytes, p.state_bytes) + read(p.other_bytes, every) for p in parts]
    barrier = device.barrier_us if device.units > 1 else 0.0
    moved = 2 * moved_bytes / nearest_level(device, moved_bytes).bytes_per_us / units
    candidates = (
        Candidate(WHOLE, False, (("weights and arithmetic", _sum_slower(unsplit, work)),)),
        Candidate(
            PARTS,
            True,
            (
                ("weights and arithmetic", _sum_slower(apart, work)),
                ("rows", moved),
                ("barriers", barrier * (len(parts) - 1)),
            ),
        ),
    )
    return _rank(*candidates, split)


def _sum_slower(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(map(max, a, b))


def _rank(
    unsplit: Candidate[bool], parts: Candidate[bool], split: str
) -> tuple[Candidate[bool], ...]:
    if split == "on" or (split == "auto" and parts.cost_us < unsplit.cost_us):
        return parts, unsplit
    if split == "off":
        why = Refusal("option", 1, 0, "the option says off", "split=on or split=auto")
    else:
        lost = parts.cost_us - unsplit.cost_us
        text = f"it would take {lost:.1f} us longer by the model"
        why = Refusal("gain", lost, 0.0, text, "split=on does it nevertheless")
    return unsplit, Candidate(PARTS, True, parts.terms, why.words, why)


Needs = Sequence[Collection[int]]


def strongly_connected_components(needs: Needs) -> list[int]:
    """Return the strongly connected component of each node, in topological order (Tarjan 1972).

    No component needs one of a higher number.
    """
    index, low, part = [-1] * len(needs), [0] * len(needs), [-1] * len(needs)
    stack: list[int] = []
    seen = parts = 0
    for root in range(len(needs)):
        todo = [(root, iter(needs[root]))] if index[root] < 0 else []
        while todo:
            node, successors = todo[-1]
            if index[node] < 0:
                index[node] = low[node] = seen
                seen += 1
                stack.append(node)
            for other in successors:
                if index[other] < 0:
                    todo.append((other, iter(needs[other])))
                    break
                if part[other] < 0:
                    low[node] = min(low[node], low[other])
            else:
                todo.pop()
                if todo:
                    low[todo[-1][0]] = min(low[todo[-1][0]], low[node])
                if low[node] == index[node]:
                    while part[node] < 0:
                        part[stack.pop()] = parts
                    parts += 1
    return part


def assign_stages(needs: Needs, heavy: Collection[int]) -> list[int]:
    """Return the loop of each node: the number of heavy recurrent components before it.

    A heavy component contains heavy nodes and depends on itself. Other nodes run as late as their
    readers, or as early as their operands allow.
    """
    part = strongly_connected_components(needs)
    count = max(part, default=-1) + 1
    before: list[set[int]] = [set() for _ in range(count)]
    after: list[set[int]] = [set() for _ in range(count)]
    itself = set()
    for node, others in enumerate(needs):
        for other in others:
            if part[other] == part[node]:
                itself.add(part[node])
            else:
                before[part[node]].add(part[other])
                after[part[other]].add(part[node])
    anchors = {part[n] for n in heavy} & itself
    depth = [0] * count  # heavy components on the longest path before a component
    for p in range(count):
        depth[p] = max((depth[b] + (b in anchors) for b in before[p]), default=0)
    stage_of = [-1] * count
    for p in range(count):
        if p in anchors:
            stage_of[p] = depth[p]
    for p in reversed(range(count)):
        later = [stage_of[a] for a in after[p] if stage_of[a] >= 0]
        if stage_of[p] < 0 and later:
            stage_of[p] = min(later)
    for p in range(count):
        if stage_of[p] < 0:
            stage_of[p] = max((stage_of[b] for b in before[p]), default=0)
    return [stage_of[p] for p in part]
