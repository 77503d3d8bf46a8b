"""A loop reversed: a loop over the same trips, from the last one to the first.

h, y = loop body(h, x[t]) times n  ->  h, y, hs = loop body.kept(h, x[t]) times n
adjoints dh, dy                        dh, dw, dx = loop body.back(dh, dw; hs[u], dy[u]) times n
                                       hs: each h before its trip; u = n - 1 - t

What a trip computes is computed again, from the states that it began with. An array of which each
trip reads its own row gets its adjoint row by row; all others get a sum over the trips.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.autodiff.branches import own
from explorer.autodiff.differentiating import Differentiating, is_active_type
from explorer.ir.affine import affine, var
from explorer.ir.calls import Loop, MatchCast, OpCall, ShapeOf, Var
from explorer.ir.kernel import Axis, Read
from explorer.ir.program import Binding, Function
from explorer.ir.shapes.dims import Dim
from explorer.ir.types import Tensor
from explorer.passes.recurrent.row_products import trips_of

COUNT, FLAG = Tensor((), "int64"), Tensor((), "bool")
COUNTERS = 2  # parameters of a body before its states: which trip it is, and whether it goes on


def with_rows(reverse: Differentiating, binding: Binding, loop: Loop) -> Sequence[Binding]:
    """The loop, stacking the states that its trips begin with behind what it stacks already."""
    around = reverse.around
    body = around.copy(around.functions[loop.body])
    state = body.params[COUNTERS : COUNTERS + len(loop.state)]
    for before, param in zip(loop.state, state, strict=True):
        if before.type != param.type:
            reverse.refuse(f"changes the shape of {param.name} from trip to trip")
    forward = replace(reverse.function, body=tuple(reverse.forward))
    trips = trips_of(loop, forward, body, around.program)
    copies = tuple(
        Binding(
            (Var(around.name(f"{p.name}.before"), p.type),),
            OpCall("Identity", (p,)),
            binding.origin,
        )
        for p in state
    )
    outputs = (*body.outputs, *(b.var for b in copies))
    name = around.add(f"{body.name}.kept", body.params, (*copies, *body.body), outputs)
    count: Dim = around.symbol(f"{binding.name}_trips") if trips is None else trips
    types = [Tensor((count, *p.tensor.dims), p.tensor.element) for p in state]
    rows = [Var(around.name(f"{p.name}.rows"), t) for p, t in zip(state, types, strict=True)]
    more = tuple(Tensor((0, *p.tensor.dims), p.tensor.element) for p in state if loop.rows)
    stacking = replace(loop, body=name, scans=loop.scans + len(state), rows=(*loop.rows, *more))
    if trips is not None:
        return [Binding((*binding.vars, *rows), stacking, binding.origin)]
    raw = [
        Var(around.name(f"{r.name}.found"), Tensor(None, r.tensor.element, r.tensor.rank))
        for r in rows
    ]
    casts = [Binding((r,), MatchCast(f), binding.origin) for r, f in zip(rows, raw, strict=True)]
    return [Binding((*binding.vars, *raw), stacking, binding.origin), *casts]


def kept_rows(made: Sequence[Binding], loop: Loop) -> tuple[Var, ...]:
    """What `with_rows` stacks of the states: as the match_casts behind the loop say, if any."""
    whole, *casts = made
    return tuple(b.var for b in casts) or whole.vars[len(loop.state) + loop.scans :]


@dataclass(frozen=True, slots=True)
class Parts:
    """What a loop that stacks its states binds and reads, by what it is."""

    loop: Loop
    body: Function
    results: tuple[Var, ...]  # states after the last trip
    stacked: tuple[Var, ...]  # what the model stacks
    kept: tuple[Var, ...]  # what each trip began with

    @property
    def states(self) -> tuple[Var, ...]:
        """The states as the body sees them."""
        return self.body.params[COUNTERS : COUNTERS + len(self.loop.state)]

    @property
    def args(self) -> tuple[Var, ...]:
        """The arguments as the body sees them."""
        return self.body.params[COUNTERS + len(self.loop.state) :]


def reverse_loop(
    reverse: Differentiating, binding: Binding, loop: Loop, kept: Sequence[Var]
) -> None:
    """Hand back to what a loop began with and to its arguments what its results were given.

    `kept` are the states that its trips began with, of known types.
    """
    state, scans = len(loop.state), loop.scans - len(loop.state)
    body = reverse.around.copy(reverse.around.functions[loop.body])
    outputs = body.outputs[: 1 + state + scans]
    parts = Parts(
        loop,
        replace(body, outputs=outputs),
        binding.vars[:state],
        binding.vars[state : state + scans],
        tuple(kept),
    )
    _Reverser(reverse, parts).run()


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

    def run(self) -> None:
        parts, reverse = self.parts, self.reverse
        trips = parts.kept[0].tensor.dims[0]
        if not parts.kept:
            reverse.refuse("stacks rows and has no state")
        (count,) = reverse.bind("trips", [COUNT], ShapeOf((trips,), 0))
        (last,) = reverse.bind("last", [COUNT], ShapeOf((trips - 1,), 0))
        seeds = [v for v in parts.stacked if reverse.given(v)]
        adjoints = [reverse.whole(v) for v in seeds]
        name = self.back(
            [(parts.stacked.index(v), a) for v, a in zip(seeds, adjoints, strict=True)]
        )
        begin = [
            reverse.whole(v) if reverse.given(v) else reverse.zeros(v.tensor)
            for v in (parts.results[n] for n in self.active)
        ]
        begin += [reverse.zeros(a.tensor) for _, a in self.sums]
        args = (*parts.loop.args, *parts.kept, *adjoints, last)
        types = [v.tensor for v in begin]
        types += [Tensor((trips, *row.tensor.dims), row.tensor.element) for _, _, row in self.rows]
        call = Loop(name, count, None, tuple(begin), args, len(self.rows))
        found = list(reverse.bind("d", types, call))
        for n, value in zip(self.active, found):
            reverse.give(parts.loop.state[n], value)
        for (_, arg), value in zip(self.sums, found[len(self.active) :]):
            reverse.give(arg, value)
        for (_, arg, _), value in zip(self.rows, found[len(begin) :], strict=True):
            reverse.give(arg, self.turned(arg, value, trips))

    def turned(self, arg: Var, rows: Var, trips: Dim) -> Var:
        """Rows from the last trip to the first in the order of the array; those that no trip read
        get nothing.
        """
        over = tuple(Axis(f"i{d}", n) for d, n in enumerate(arg.tensor.dims))
        index = (affine({"i0": -1}, trips - 1), *(var(a.name) for a in over[1:]))
        return self.reverse.map("turned", over, Read("x", index, 0.0), {"x": rows})

    def back(self, stacked: Sequence[tuple[int, Var]]) -> str:
        """The body of the reversed loop. It is given the adjoints of the active states, the sums so
        far, then what the body's arguments are, all states that trips began with, the adjoints of
        what was stacked, and the number of the last trip.
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
        sums = [param("sum", p.tensor) for p, _ in self.sums]
        kept = [param("kept", v.tensor) for v in parts.kept]
        above = [param("above", a.tensor) for _, a in stacked]
        last = param("last", COUNT)
        origin = inner_origin(function)
        lead: list[Binding] = []

        def bind(vars: Sequence[Var], op: str, args: tuple[Var, ...], **attrs: int) -> Var:
            lead.append(Binding(tuple(vars), OpCall(op, args, tuple(attrs.items())), origin))
            return vars[0]

        at = bind([function.params[0]], "Sub", (last, trip))
        bind([function.params[1]], "Identity", (going,))
        for state, rows in zip(parts.states, kept, strict=True):
            bind([state], "Gather", (rows, at), axis=0)
        seeds = [(function.outputs[1 + n], a) for n, a in zip(self.active, adjoints, strict=True)]
        for (n, _), rows in zip(stacked, above, strict=True):
            row = param("row", replace(rows.tensor, shape=rows.tensor.dims[1:]))
            bind([row], "Gather", (rows, at), axis=0)
            seeds.append((function.outputs[1 + len(parts.states) + n], row))
        found = inner.run([(v, s) for v, s in seeds if is_active_type(v)])
        made = [own(inner, p, found.get(p.name)) for p in (parts.states[n] for n in self.active)]
        for (p, _), total in zip(self.sums, sums, strict=True):
            part = found.get(p.name)
            both = OpCall("Identity", (total,)) if part is None else OpCall("Add", (total, part))
            made += inner.bind("sum", [p.tensor], both)
        for _, _, row in self.rows:
            made.append(own(inner, row, inner.whole(row) if inner.given(row) else None))
        goes_on = inner.bind("goes_on", [FLAG], OpCall("Identity", (going,)))
        params = (trip, going, *adjoints, *sums, *parts.args, *kept, *above, last)
        body = (*lead, *inner.forward, *inner.backward)
        return around.add(f"{function.name}.back", params, body, (*goes_on, *made))


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
    trip, found = parts.body.params[0].name, dict[str, Var]()
    others = {v.name for v in parts.body.outputs}
    for b in parts.body.body:
        match b.expr:
            case OpCall("Gather", (Var(name), Var(at))) as call if (
                at == trip and call.attr("axis", 0) == 0 and name not in found
            ):
                found[name] = b.var
            case _:
                others |= {v.name for v in b.reads}
    return {n: row for n, row in found.items() if n not in others}
