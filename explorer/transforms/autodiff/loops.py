"""Reverse of a loop: a loop over the same trips, from the last one to the first.

    h, y = loop body(h, x[t]) times n  ->  h, y, hs = loop body.kept(h, x[t]) times n
    adjoints dh, dy                        dh, dw, dx = loop body.back(dh, dw; hs[u], dy[u]) times n
                                           hs: each h before its trip; u = n - 1 - t

Each trip is recomputed from its saved states and products. An array of which each trip reads its
own row gets its adjoint row by row. Any other array gets a sum over the trips, which is carried by
the loop or computed after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.ir.affine import affine, var
from explorer.ir.calls import Loop, OpCall, ShapeOf, Var
from explorer.ir.dims import Dim
from explorer.ir.kernel import Axis, Read
from explorer.ir.program import Binding, Function
from explorer.ir.types import Tensor
from explorer.transforms.autodiff.autodiff_context import Differentiating, is_active_type
from explorer.transforms.autodiff.calls import bind_gradient
from explorer.transforms.autodiff.loop_stacks import (
    Stacked,
    TripSum,
    copied_from,
    drop_rows,
    move_after_loop,
)
from explorer.transforms.counted_loops import COUNTERS

COUNT, FLAG = Tensor((), "int64"), Tensor((), "bool")


@dataclass(frozen=True, slots=True)
class LoopParts:
    """The bindings and reads of a loop that stacks its states, by their kind."""

    loop: Loop
    body: Function
    results: tuple[Var, ...]  # states after the last trip
    stacked: tuple[Var, ...]  # results that the model stacks
    saved: tuple[Var, ...]  # the states before each trip, then its products
    products: tuple[Var, ...]  # these as the body binds them

    @property
    def states(self) -> tuple[Var, ...]:
        """The states as parameters of the body."""
        return self.body.params[COUNTERS : COUNTERS + len(self.loop.state)]

    @property
    def args(self) -> tuple[Var, ...]:
        """The arguments as parameters of the body."""
        return self.body.params[COUNTERS + len(self.loop.state) :]


def reverse_loop(reverse: Differentiating, binding: Binding, stacked: Stacked) -> Stacked:
    """Add to the adjoints of a loop's initial states and arguments.

    Return the loop without the stacked rows that nothing reads.
    """
    loop = stacked.loop
    state, scans = len(loop.state), loop.scans - len(stacked.rows)
    body = reverse.context.copy(reverse.context.functions[loop.body])
    parts = LoopParts(
        loop,
        replace(body, outputs=body.outputs[: 1 + state + scans]),
        binding.vars[:state],
        binding.vars[state : state + scans],
        stacked.rows,
        _sources(body, body.outputs[1 + state + scans + state :]),
    )
    unread = _Reverser(reverse, parts).run()
    return drop_rows(stacked, unread, reverse.context)


def _sources(body: Function, copies: Sequence[Var]) -> tuple[Var, ...]:
    """Return the values that these are copies of."""
    sources = {b.name: b.reads[0] for b in body.body if isinstance(b.expr, OpCall) and b.reads}
    return tuple(sources[v.name] for v in copies)


class _Reverser:
    """One loop being reversed; a `back` body is written for a trip."""

    def __init__(self, reverse: Differentiating, parts: LoopParts) -> None:
        """Find the active states, and the active arguments with and without a row for each trip."""
        self.reverse, self.parts, self.context = reverse, parts, reverse.context
        self.active = _active_states(reverse, parts)
        rows = _own_rows(parts)
        arguments = zip(parts.args, parts.loop.args, strict=True)
        active = [(p, a) for p, a in arguments if a.name in reverse.active and is_active_type(a)]
        self.rows = [(p, a, rows[p.name]) for p, a in active if p.name in rows]
        self.sums = [(p, a) for p, a in active if p.name not in rows]
        self.hoisted: list[tuple[Var, TripSum]] = []  # sums after the loop, by argument
        self.stacked: list[Var] = []  # of a trip, for these

    def run(self) -> list[int]:
        """Bind the reversed loop, and return the numbers of the stacked rows that nothing reads."""
        parts, reverse = self.parts, self.reverse
        if not parts.saved:
            reverse.refuse("stacks rows and has no state")
        trips = parts.saved[0].tensor.dims[0]
        (count,) = reverse.bind("trips", [COUNT], ShapeOf((trips,), 0))
        (last,) = reverse.bind("last", [COUNT], ShapeOf((trips - 1,), 0))
        seeds = [v for v in parts.stacked if reverse.has_adjoint(v)]
        adjoints = [reverse.adjoint_of(v) for v in seeds]
        name, read = self.back(
            [(parts.stacked.index(v), a) for v, a in zip(seeds, adjoints, strict=True)]
        )
        begin = [
            reverse.adjoint_of(v) if reverse.has_adjoint(v) else reverse.zeros(v.tensor)
            for v in (parts.results[n] for n in self.active)
        ]
        begin += [reverse.zeros(a.tensor) for _, a in self.sums]
        args = (*parts.loop.args, *(parts.saved[n] for n in read), *adjoints, last)
        rows = [row for _, _, row in self.rows] + self.stacked
        types = [v.tensor for v in begin]
        types += [Tensor((trips, *row.tensor.dims), row.tensor.element) for row in rows]
        call = Loop(name, count, None, tuple(begin), args, len(rows))
        results = list(reverse.bind("d", types, call))
        for n, value in zip(self.active, results):
            reverse.add_adjoint(parts.loop.state[n], value)
        for (_, arg), value in zip(self.sums, results[len(self.active) :]):
            reverse.add_adjoint(arg, value)
        stacked = results[len(begin) :]
        for (_, arg, _), value in zip(self.rows, stacked):
            reverse.add_adjoint(arg, self.reverse_rows(arg, value, trips))
        for arg, trip_sum_ in self.hoisted:
            total_kernel = trip_sum_.kernel_after_loop(stacked, trips)
            reverse.add_adjoint(arg, reverse.bind("total", [arg.tensor], total_kernel)[0])
        read_by_sums = {
            v.name for _, trip_sum_ in self.hoisted for v in trip_sum_.args if isinstance(v, Var)
        }
        unread = set(range(len(parts.saved))) - set(read)
        return sorted(n for n in unread if parts.saved[n].name not in read_by_sums)

    def reverse_rows(self, arg: Var, rows: Var, trips: Dim) -> Var:
        """Reverse rows from trip order, last to first, to the order of the array.

        Rows that no trip reads get 0.
        """
        over = tuple(Axis(f"i{d}", n) for d, n in enumerate(arg.tensor.dims))
        index = (affine({"i0": -1}, trips - 1), *(var(a.name) for a in over[1:]))
        return self.reverse.map("turned", over, Read("x", index, 0.0), {"x": rows})

    def back(self, seeded: Sequence[tuple[int, Var]]) -> tuple[str, list[int]]:
        """Add the body of the reversed loop; return its name and which saved rows it reads.

        Its parameters are the trip and the flag, the adjoints of the active states, the sums so
        far, the arguments of the body, the saved rows, the adjoints of the stacked results, and the
        last trip.
        """
        parts, context = self.parts, self.context
        function = parts.body
        inner = self.reverse.inner(
            function,
            [
                *(parts.states[n].name for n in self.active),
                *(p.name for p, _ in self.sums),
                *(row.name for _, _, row in self.rows),
            ],
        )

        def param(wish: str, type: Tensor) -> Var:
            return Var(context.name(f"{function.name}.{wish}"), type)

        trip, going = param("trip", COUNT), param("going", FLAG)
        adjoints = [param("adjoint", parts.states[n].tensor) for n in self.active]
        saved = [param("kept", v.tensor) for v in parts.saved]
        above = [param("above", a.tensor) for _, a in seeded]
        last = param("last", COUNT)
        origin = origins_of(function)
        at = function.params[0]
        lead = [
            Binding((at,), OpCall("Sub", (last, trip)), origin),
            Binding((function.params[1],), OpCall("Identity", (going,)), origin),
        ]

        def row_of(rows: Var, var: Var) -> Binding:
            return Binding((var,), OpCall("Gather", (rows, at), (("axis", 0),)), origin)

        lead += [row_of(rows, state) for state, rows in zip(parts.states, saved)]
        stored_products = {
            v.name: row_of(rows, v) for v, rows in zip(parts.products, saved[len(parts.states) :])
        }
        seeds = [(function.outputs[1 + n], a) for n, a in zip(self.active, adjoints, strict=True)]
        for (n, _), rows in zip(seeded, above, strict=True):
            row = param("row", replace(rows.tensor, shape=rows.tensor.dims[1:]))
            lead.append(row_of(rows, row))
            seeds.append((function.outputs[1 + len(parts.states) + n], row))
        gradients = inner.run([(v, s) for v, s in seeds if is_active_type(v)])
        body = [*lead, *(stored_products.get(b.name, b) for b in inner.forward)]
        outgoing = [
            bind_gradient(inner, p, gradients.get(p.name))
            for p in (parts.states[n] for n in self.active)
        ]
        row_adjoints = [
            inner.adjoint_of(row) if inner.has_adjoint(row) else None for _, _, row in self.rows
        ]
        arrays = {v.name: a for v, (_, a) in zip(above, seeded)}
        arrays |= {v.name: a for v, a in zip(saved, parts.saved)}
        self.hoist_sums(gradients, row_adjoints, (*body, *inner.backward), arrays)
        sums = [param("sum", p.tensor) for p, _ in self.sums]
        for (p, _), total in zip(self.sums, sums, strict=True):
            part = gradients.get(p.name)
            addition = (
                OpCall("Identity", (total,)) if part is None else OpCall("Add", (total, part))
            )
            outgoing += inner.bind("sum", [p.tensor], addition)
        for (_, _, row), value in zip(self.rows, row_adjoints):
            outgoing.append(bind_gradient(inner, row, value))
        outgoing += [bind_gradient(inner, v, v) for v in self.stacked]
        continues = inner.bind("goes_on", [FLAG], OpCall("Identity", (going,)))
        full_body = (*body, *inner.backward)
        read = _numbers_read(saved, full_body, (*continues, *outgoing))
        params = (trip, going, *adjoints, *sums, *parts.args)
        params = (*params, *(saved[n] for n in read), *above, last)
        name = context.add(f"{function.name}.back", params, full_body, (*continues, *outgoing))
        return name, read

    def hoist_sums(
        self,
        contributions: Mapping[str, Var],
        rows: Sequence[Var | None],
        body: Sequence[Binding],
        stacked: Mapping[str, Var],
    ) -> None:
        """Move the sums over the trips that are cheaper after the loop out of it.

        `contributions`: the contribution of a trip by parameter; `rows`: the rows that it stacks in
        any case; `stacked`: the arrays around the loop by their names in the body.
        """
        parts, constants = self.parts, self.context.constants
        outside = {p.name: a for p, a in zip(parts.args, parts.loop.args, strict=True)}
        arrays = {**stacked, **outside}
        of_rows = {
            b.name: arrays[b.reads[0].name]
            for b in body
            if is_row(b, parts.body.params[0]) and b.reads[0].name in arrays
        }
        outside |= {v.name: v for b in body for v in b.reads if v.name in constants}
        copied = copied_from(body)

        def first(var: Var) -> str:
            return copied.get(var.name, var.name)

        numbers = {first(v): n for n, v in enumerate(rows) if v is not None}

        def number(var: Var) -> int:
            if first(var) not in numbers:
                numbers[first(var)] = len(rows) + len(self.stacked)
                self.stacked.append(var)
            return numbers[first(var)]

        def is_stacked(var: Var) -> bool:
            return first(var) in numbers

        carried = []
        for p, arg in self.sums:
            part, moved_sum = contributions.get(p.name), None
            if part is not None:
                moved_sum = move_after_loop(
                    part, body, outside, of_rows, number, is_stacked, self.context.env
                )
            if moved_sum is None:
                carried.append((p, arg))
            else:
                self.hoisted.append((arg, moved_sum))
        self.sums = carried


def _numbers_read(
    params: Sequence[Var], body: Sequence[Binding], outputs: Sequence[Var]
) -> list[int]:
    """Return the numbers of the parameters that the outputs of a body depend on."""
    live = {v.name for v in outputs}
    for b in reversed(body):
        if any(v.name in live for v in b.vars):
            live.update(v.name for v in b.reads)
    return [n for n, v in enumerate(params) if v.name in live]


def origins_of(function: Function) -> frozenset[str]:
    """Return the source operators that a function comes from."""
    return frozenset[str]().union(*(b.origin for b in function.body))


def _active_states(reverse: Differentiating, parts: LoopParts) -> list[int]:
    """Return the numbers of the states that are active before a trip or after some."""
    arguments = zip(parts.args, parts.loop.args, strict=True)
    args = {p.name for p, a in arguments if a.name in reverse.active}
    begin = zip(parts.states, parts.loop.state, strict=True)
    active = {p.name for p, s in begin if s.name in reverse.active and is_active_type(p)}
    while True:
        reachable = active | args
        for b in parts.body.body:
            if any(v.name in reachable for v in b.reads):
                reachable |= {v.name for v in b.vars if is_active_type(v)}
        after = zip(parts.states, parts.body.outputs[1:], strict=False)
        grown = {p.name for p, o in after if o.name in reachable and is_active_type(p)} | active
        if grown == active:
            return [n for n, p in enumerate(parts.states) if p.name in active]
        active = grown


def _own_rows(parts: LoopParts) -> Mapping[str, Var]:
    """Return the arguments of which a trip reads only the row of its own number, with that row."""
    trip, rows = parts.body.params[0], dict[str, Var]()
    others = {v.name for v in parts.body.outputs}
    for b in parts.body.body:
        if is_row(b, trip) and b.reads[0].name not in rows:
            rows[b.reads[0].name] = b.var
        else:
            others |= {v.name for v in b.reads}
    return {n: row for n, row in rows.items() if n not in others}


def is_row(binding: Binding, trip: Var) -> bool:
    """Return True if a binding takes the row of the trip's number."""
    match binding.expr:
        case OpCall("Gather", (Var(), Var() as at)) as call:
            return at == trip and call.attr("axis", 0) == 0
    return False
