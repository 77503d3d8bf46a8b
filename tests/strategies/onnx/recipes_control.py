"""If, Loop and Scan: bodies that read outer values, state, stacked rows, no trip at all."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from tests.strategies.choices import Refused
from tests.strategies.onnx.graph import FLOATS, Graph, Value, code
from tests.strategies.onnx.recipes import random_array


def _body(g: Graph) -> Graph:
    return Graph(g.choices, g.opset, g)


def _same(b: Graph, value: Value, steps: int = 2) -> Value:
    """A value of the same type, computed in the body from this one."""
    for _ in range(steps):
        op = b.one(("Tanh", "Add", "Mul", "Relu", "Neg", "Abs", "Identity"))
        if op in ("Add", "Mul"):
            shape = tuple(1 if isinstance(n, str) else n for n in value.shape)
            right = b.constant(random_array(b, value.dtype, shape, 0.5))
            found = b.add(op, value, right)
        else:
            found = b.add(op, value)
        if found.shape != value.shape:
            raise Refused
        value = found
    return value


def branch(g: Graph) -> None:
    value = g.pick(FLOATS, (1, 2, 3, 4))
    if g.chance(0.4):
        condition = g.constant(g.chance(0.5))
    else:
        total = g.add("ReduceSum", value, keepdims=0)
        condition = g.add("Greater", total, g.constant(0, value.dtype))
    bodies = []
    for name in ("then_branch", "else_branch"):
        b = _body(g)
        found = _same(b, value, b.number(1, 3))
        bodies.append(b.body(name, [found]))
    _control(g, "If", [condition], [value], then_branch=bodies[0], else_branch=bodies[1])


def loop(g: Graph) -> None:
    start = g.pick(FLOATS, (1, 2, 3))
    trips = g.one((0, 0, 1, 2, 3, 5))
    b = _body(g)
    step, going = b.input("int64", ()), b.input("bool", ())
    state = b.input(start.dtype, start.shape)
    outer = [v for v in g.values if v.dtype == start.dtype and v.shape == start.shape]
    found = _same(b, state, b.number(1, 2))
    if outer and b.chance(0.5):
        found = b.add("Add", found, b.one(outer))
    if b.chance(0.3):
        found = b.add("Mul", found, b.add("Cast", step, to=code(start.dtype)))
    if b.chance(0.3):
        keep = b.add("Less", step, b.constant(b.number(0, 3), np.int64))
    else:
        keep = b.add("Identity", going)
    row = b.add("Abs", found) if b.chance(0.5) else found
    stacked = b.chance(0.7)
    outputs = [keep, found, *([b.add("Identity", row)] if stacked else [])]
    limit = g.constant(trips, np.int64)
    going_in = g.constant(g.chance(0.9))
    rows = [Value("", start.dtype, (f"unknown_{g.fresh()}", *start.shape))] if stacked else []
    _control(g, "Loop", [limit, going_in, start], [start, *rows], body=b.body("body", outputs))


def scan(g: Graph) -> None:
    rows = g.pick(FLOATS, (2, 3, 4))
    axis = g.number(0, rows.rank - 1)
    rest = tuple(n for i, n in enumerate(rows.shape) if i != axis)
    numbers = tuple(1 if isinstance(n, str) else n for n in rest)
    start = g.constant(random_array(g, rows.dtype, numbers))
    if numbers != rest:
        raise Refused
    b = _body(g)
    state, row = b.input(rows.dtype, rest), b.input(rows.dtype, rest)
    total = b.add("Add", _same(b, state, 1), row)
    if total.shape != rest:
        raise Refused
    out = b.add("Tanh", total)
    backwards = g.number(0, 1)
    made = Value("", rows.dtype, (rows.shape[axis], *rest))
    _control(
        g,
        "Scan",
        [start, rows],
        [start, made],
        body=b.body("body", [total, out]),
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_input_directions=[backwards],
        scan_output_directions=[g.number(0, 1)],
    )


def _control(g: Graph, op: str, args: list[Value], kinds: list[Value], **attributes: Any) -> None:
    """A node whose results have the types of `kinds`, as its recipe knows them."""
    made = [Value(g.fresh(), k.dtype, k.shape) for k in kinds]
    node = helper.make_node(
        op,
        [a.name for a in args],
        [v.name for v in made],
        name=f"{op}_{made[0].name}",
        **attributes,
    )
    g.nodes.append(node)
    g.values += made
