"""A loop reversed: a loop over the same trips, from the last one to the first.

h, y = loop body(h, x[t]) times n  ->  h, y, hs = loop body.kept(h, x[t]) times n
adjoints dh, dy                        dh, dw, dx = loop body.back(dh, dw; hs[u], dy[u]) times n
                                       hs: each h before its trip; u = n - 1 - t

What a trip computes is computed again, from the states that it began with and its products. An
array of which each trip reads its own row gets its adjoint row by row; all others get a sum over
the trips, which is carried or done behind the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.autodiff.branches import own
from explorer.autodiff.differentiating import Differentiating, is_active_type
from explorer.autodiff.loop_stacks import Stacked, without
from explorer.autodiff.trip_sums import TripSum, copied_from, trip_sum
from explorer.ir.affine import affine, var
from explorer.ir.calls import Loop, OpCall, ShapeOf, Var
from explorer.ir.kernel import Axis, Read
from explorer.ir.program import Binding, Function
from explorer.ir.shapes.dims import Dim
from explorer.ir.types import Tensor
from explorer.passes.recurrent.row_products import COUNTERS

COUNT, FLAG = Tensor((), "int64"), Tensor((), "bool")


@dataclass(frozen=True, slots=True)
class Parts:
    """What a loop that stacks its states binds and reads, by what it is."""

    loop: Loop
    body: Function
    results: tuple[Var, ...]  # states after the last trip
    stacked: tuple[Var, ...]  # what the model stacks
    kept: tuple[Var, ...]  # what each trip began with, then its products
    products: tuple[Var, ...]  # these as the body binds them

    @property
    def states(self) -> tuple[Var, ...]:
        """The states as the body sees them."""
        return self.body.params[COUNTERS : COUNTERS + len(self.loop.state)]

    @property
    def args(self) -> tuple[Var, ...]:
        """The arguments as the body sees them."""
        return self.body.params[COUNTERS + len(self.loop.state) :]


def reverse_loop(reverse: Differentiating, binding: Binding, stacked: Stacked) -> Stacked:
    """Hand back to what a loop began with and to its arguments what its results were given. The
    loop, stacking no more than is read.
    """
    loop = stacked.loop
    state, scans = len(loop.state), loop.scans - len(stacked.rows)
    body = reverse.around.copy(reverse.around.functions[loop.body])
    parts = Parts(
        loop,
        replace(body, outputs=body.outputs[: 1 + state + scans]),
        binding.vars[:state],
        binding.vars[state : state + scans],
        stacked.rows,
        _sources(body, body.outputs[1 + state + scans + state :]),
    )
    unread = _Reverser(reverse, parts).run()
    return without(stacked, unread, reverse.around)


def _sources(body: Function, copies: Sequence[Var]) -> tuple[Var, ...]:
    """What these are copies of."""
    made = {b.name: b.reads[0] for b in body.body if isinstance(b.expr, OpCall) and b.reads}
    return tuple(made[v.name] for v in copies)


class _Reverser:
    """One loop being reversed; a `back` body is written for a trip."""

    def __init__(self, reverse: Differentiating, parts: Parts) -> None:
        self.reverse, self.parts, self.around = reverse, parts, reverse.around
        self.active = _active_states(reverse, parts)
        rows = _own_rows(parts)
        given = zip(parts.args, parts.loop.args, strict=True)
        active = [(p, a) for p, a in given if a.name in reverse.active and is_active_type(a)]
        self.rows = [(p, a, rows[p.name]) for p, a in active if p.name in rows]
        self.sums = [(p, a) for p, a in active if p.name not in rows]
        self.behind: list[tuple[Var, TripSum]] = []  # sums of all trips, by what gets them
        self.stacked: list[Var] = []  # of a trip, for these

    def run(self) -> list[int]:
        """What is handed back; which of the loop's rows nobody reads."""
        parts, reverse = self.parts, self.reverse
        if not parts.kept:
            reverse.refuse("stacks rows and has no state")
        trips = parts.kept[0].tensor.dims[0]
        (count,) = reverse.bind("trips", [COUNT], ShapeOf((trips,), 0))
        (last,) = reverse.bind("last", [COUNT], ShapeOf((trips - 1,), 0))
        seeds = [v for v in parts.stacked if reverse.given(v)]
        adjoints = [reverse.whole(v) for v in seeds]
        name, read = self.back(
            [(parts.stacked.index(v), a) for v, a in zip(seeds, adjoints, strict=True)]
        )
        begin = [
            reverse.whole(v) if reverse.given(v) else reverse.zeros(v.tensor)
            for v in (parts.results[n] for n in self.active)
        ]
        begin += [reverse.zeros(a.tensor) for _, a in self.sums]
        args = (*parts.loop.args, *(parts.kept[n] for n in read), *adjoints, last)
        rows = [row for _, _, row in self.rows] + self.stacked
        types = [v.tensor for v in begin]
        types += [Tensor((trips, *row.tensor.dims), row.tensor.element) for row in rows]
        call = Loop(name, count, None, tuple(begin), args, len(rows))
        found = list(reverse.bind("d", types, call))
        for n, value in zip(self.active, found):
            reverse.give(parts.loop.state[n], value)
        for (_, arg), value in zip(self.sums, found[len(self.active) :]):
            reverse.give(arg, value)
        stacked = found[len(begin) :]
        for (_, arg, _), value in zip(self.rows, stacked):
            reverse.give(arg, self.turned(arg, value, trips))
        for arg, later in self.behind:
            whole = later.behind(stacked, trips)
            reverse.give(arg, reverse.bind("total", [arg.tensor], whole)[0])
        theirs = {v.name for _, later in self.behind for v in later.args if isinstance(v, Var)}
        unread = set(range(len(parts.kept))) - set(read)
        return sorted(n for n in unread if parts.kept[n].name not in theirs)

    def turned(self, arg: Var, rows: Var, trips: Dim) -> Var:
        """Rows from the last trip to the first in the order of the array; those that no trip read
        get nothing.
        """
        over = tuple(Axis(f"i{d}", n) for d, n in enumerate(arg.tensor.dims))
        index = (affine({"i0": -1}, trips - 1), *(var(a.name) for a in over[1:]))
        return self.reverse.map("turned", over, Read("x", index, 0.0), {"x": rows})

    def back(self, seeded: Sequence[tuple[int, Var]]) -> tuple[str, list[int]]:
        """The body of the reversed loop, and which of the kept rows it reads. It is given the
        adjoints of the active states, the sums so far, then what the body's arguments are, these
        rows, the adjoints of what was stacked, and the number of the last trip.
        """
        parts, around = self.parts, self.around
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
            return Var(around.name(f"{function.name}.{wish}"), type)

        trip, going = param("trip", COUNT), param("going", FLAG)
        adjoints = [param("adjoint", parts.states[n].tensor) for n in self.active]
        kept = [param("kept", v.tensor) for v in parts.kept]
        above = [param("above", a.tensor) for _, a in seeded]
        last = param("last", COUNT)
        origin = inner_origin(function)
        at = function.params[0]
        lead = [
            Binding((at,), OpCall("Sub", (last, trip)), origin),
            Binding((function.params[1],), OpCall("Identity", (going,)), origin),
        ]

        def row_of(rows: Var, var: Var) -> Binding:
            return Binding((var,), OpCall("Gather", (rows, at), (("axis", 0),)), origin)

        lead += [row_of(rows, state) for state, rows in zip(parts.states, kept)]
        again = {
            v.name: row_of(rows, v) for v, rows in zip(parts.products, kept[len(parts.states) :])
        }
        seeds = [(function.outputs[1 + n], a) for n, a in zip(self.active, adjoints, strict=True)]
        for (n, _), rows in zip(seeded, above, strict=True):
            row = param("row", replace(rows.tensor, shape=rows.tensor.dims[1:]))
            lead.append(row_of(rows, row))
            seeds.append((function.outputs[1 + len(parts.states) + n], row))
        found = inner.run([(v, s) for v, s in seeds if is_active_type(v)])
        body = [*lead, *(again.get(b.name, b) for b in inner.forward)]
        made = [own(inner, p, found.get(p.name)) for p in (parts.states[n] for n in self.active)]
        rows_made = [inner.whole(row) if inner.given(row) else None for _, _, row in self.rows]
        whole = {v.name: a for v, (_, a) in zip(above, seeded)}
        whole |= {v.name: a for v, a in zip(kept, parts.kept)}
        self.put_behind(found, rows_made, (*body, *inner.backward), whole)
        sums = [param("sum", p.tensor) for p, _ in self.sums]
        for (p, _), total in zip(self.sums, sums, strict=True):
            part = found.get(p.name)
            both = OpCall("Identity", (total,)) if part is None else OpCall("Add", (total, part))
            made += inner.bind("sum", [p.tensor], both)
        for (_, _, row), value in zip(self.rows, rows_made):
            made.append(own(inner, row, value))
        made += [own(inner, v, v) for v in self.stacked]
        goes_on = inner.bind("goes_on", [FLAG], OpCall("Identity", (going,)))
        whole_body = (*body, *inner.backward)
        read = _read_of(kept, whole_body, (*goes_on, *made))
        params = (trip, going, *adjoints, *sums, *parts.args)
        params = (*params, *(kept[n] for n in read), *above, last)
        name = around.add(f"{function.name}.back", params, whole_body, (*goes_on, *made))
        return name, read

    def put_behind(
        self,
        found: Mapping[str, Var],
        rows: Sequence[Var | None],
        body: Sequence[Binding],
        stacked: Mapping[str, Var],
    ) -> None:
        """Sums over the trips that are done behind the loop. `found`: what a trip adds; `rows`:
        what it stacks in any case; `stacked`: arrays around the loop by their names in the body.
        """
        parts, constants = self.parts, self.around.constants
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

        def known(var: Var) -> bool:
            return first(var) in numbers

        carried = []
        for p, arg in self.sums:
            part, later = found.get(p.name), None
            if part is not None:
                later = trip_sum(part, body, outside, of_rows, number, known, self.around.env)
            if later is None:
                carried.append((p, arg))
            else:
                self.behind.append((arg, later))
        self.sums = carried


def _read_of(kept: Sequence[Var], body: Sequence[Binding], outputs: Sequence[Var]) -> list[int]:
    """Which of the parameters the outputs of a body depend on, by their numbers."""
    live = {v.name for v in outputs}
    for b in reversed(body):
        if any(v.name in live for v in b.vars):
            live.update(v.name for v in b.reads)
    return [n for n, v in enumerate(kept) if v.name in live]


def inner_origin(function: Function) -> frozenset[str]:
    """The source operators that a function comes from."""
    return frozenset[str]().union(*(b.origin for b in function.body))


def _active_states(reverse: Differentiating, parts: Parts) -> list[int]:
    """The states that depend on what is differentiated by, before a trip or after some."""
    given = zip(parts.args, parts.loop.args, strict=True)
    args = {p.name for p, a in given if a.name in reverse.active}
    begin = zip(parts.states, parts.loop.state, strict=True)
    found = {p.name for p, s in begin if s.name in reverse.active and is_active_type(p)}
    while True:
        known = found | args
        for b in parts.body.body:
            if any(v.name in known for v in b.reads):
                known |= {v.name for v in b.vars if is_active_type(v)}
        after = zip(parts.states, parts.body.outputs[1:], strict=False)
        more = {p.name for p, o in after if o.name in known and is_active_type(p)} | found
        if more == found:
            return [n for n, p in enumerate(parts.states) if p.name in found]
        found = more


def _own_rows(parts: Parts) -> Mapping[str, Var]:
    """The arguments of which a trip reads nothing but the row of its own number, as one value."""
    trip, found = parts.body.params[0], dict[str, Var]()
    others = {v.name for v in parts.body.outputs}
    for b in parts.body.body:
        if is_row(b, trip) and b.reads[0].name not in found:
            found[b.reads[0].name] = b.var
        else:
            others |= {v.name for v in b.reads}
    return {n: row for n, row in found.items() if n not in others}


def is_row(binding: Binding, trip: Var) -> bool:
    """Whether a binding takes the row of the trip's number."""
    match binding.expr:
        case OpCall("Gather", (Var(), Var() as at)) as call:
            return at == trip and call.attr("axis", 0) == 0
    return False
