"""One step of a recurrent layer in one direction, as kernels: from a state to the next."""

from __future__ import annotations

from collections.abc import Callable

from explorer.ir.affine import var
from explorer.ir.calls import Var
from explorer.ir.kernel import Const, Expr, Read
from explorer.ops.arithmetic.elementwise import call
from explorer.ops.lowering import Nest, shape_of
from explorer.ops.recurrent.direction import Direction, DirectionStep, State


def one_step(d: Direction, x: Var, state: State, step: DirectionStep) -> State:
    """Return the state after a step; `x` is its inputs, multiplied and biased for all gates."""
    return STEPS[d.site.op](d, x, state, step)


def _rnn(d: Direction, x: Var, state: State, step: DirectionStep) -> State:
    h = state.h
    gates = x if h is None else d.recurrent(h, x, step)
    nest = d.low.nest("rnn_cell")
    new = d.masked(nest, d.act(0, d.gate(nest, gates, "gates", 0)), h, step)
    return State(d.emit(nest, d.state(f"h{step.tag}"), new))


def _lstm(d: Direction, x: Var, state: State, step: DirectionStep) -> State:
    """Do a step of an LSTM; the gates' order is i, o, f, c."""
    h, c = state.h, state.c
    gates = x if h is None else d.recurrent(h, x, step)
    nest = d.low.nest("lstm_cell")
    # A zero cell is multiplied too: a gate that is NaN makes it NaN.
    old: Expr = Const(0.0, d.dtype) if c is None else d.element(nest, c, "c")
    enter = d.act(0, d.peephole(nest, d.gate(nest, gates, "gates", 0), old, 0))
    new = call("mul", enter, d.act(1, d.gate(nest, gates, "gates", 3)))
    stay: Expr = call("sub", Const(1.0, d.dtype), enter)
    if not d.site.integer("input_forget"):
        stay = d.act(0, d.peephole(nest, d.gate(nest, gates, "gates", 2), old, 2))
    new = call("add", call("mul", stay, old), new)
    cell, hidden, axes = d.state(f"c{step.tag}"), d.state(f"h{step.tag}"), d.axes
    nest.compute("new", shape_of(cell), d.dtype, axes, d.masked(nest, new, c, step))
    now = Read("new", (var("b"), var("j")))
    leave = d.act(0, d.peephole(nest, d.gate(nest, gates, "gates", 1), now, 1))
    out: Expr = call("mul", leave, d.plain(2, now))
    nest.compute("y", shape_of(cell), d.dtype, axes, d.masked(nest, out, h, step))
    nest.bind_outputs({"new": cell, "y": hidden})
    return State(hidden, cell)


def _gru(d: Direction, x: Var, state: State, step: DirectionStep) -> State:
    """Do a step of a GRU; the gates' order is z, r, h."""
    h = state.h or d.zeros("zeros")
    after = d.site.integer("linear_before_reset")
    return State((_gru_after if after else _gru_before)(d, x, h, step))


def _gru_after(d: Direction, x: Var, h: Var, step: DirectionStep) -> Var:
    """Do a step whose reset gate is applied after the product."""
    gates = d.recurrent(h, None, step)
    nest = d.low.nest("gru_cell")
    z, r = (
        d.act(0, call("add", d.gate(nest, x, "inputs", g), d.gate(nest, gates, "gates", g)))
        for g in (0, 1)
    )
    inner = call("mul", r, d.gate(nest, gates, "gates", 2))
    new = d.act(1, call("add", d.gate(nest, x, "inputs", 2), inner))
    return _gru_mixed(d, nest, z, new, h, step)


def _gru_before(d: Direction, x: Var, h: Var, step: DirectionStep) -> Var:
    """Do a step whose reset gate is applied to the state, before the product."""
    gates = d.recurrent(h, None, step, 0, 2)
    nest = d.low.nest("gru_reset")
    z, r = (
        d.act(0, call("add", d.gate(nest, x, "inputs", g), d.gate(nest, gates, "gates", g)))
        for g in (0, 1)
    )
    update, reset = d.state(f"z{step.tag}"), d.state(f"reset{step.tag}")
    nest.compute("z", shape_of(update), d.dtype, d.axes, z)
    nest.compute("y", shape_of(reset), d.dtype, d.axes, call("mul", r, d.element(nest, h, "h")))
    nest.bind_outputs({"z": update, "y": reset})
    inner = d.recurrent(reset, None, step, 2, 1, "new")
    nest = d.low.nest("gru_cell")
    new = d.act(1, call("add", d.gate(nest, x, "inputs", 2), d.element(nest, inner, "new")))
    return _gru_mixed(d, nest, d.element(nest, update, "z"), new, h, step)


def _gru_mixed(d: Direction, nest: Nest, z: Expr, new: Expr, h: Var, step: DirectionStep) -> Var:
    old = d.element(nest, h, "h")
    expr = call("add", new, call("mul", z, call("sub", old, new)))
    return d.emit(nest, d.state(f"h{step.tag}"), d.masked(nest, expr, h, step))


STEPS: dict[str, Callable[[Direction, Var, State, DirectionStep], State]] = {
    "RNN": _rnn,
    "GRU": _gru,
    "LSTM": _lstm,
}
