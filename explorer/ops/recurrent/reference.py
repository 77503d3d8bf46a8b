"""RNN, GRU and LSTM in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.ops.arithmetic.activations import Activation, activations, of_arrays
from explorer.ops.recurrent.direction import default_activations
from explorer.ops.site import Array


def functions_of(op: str, attrs: Mapping[str, Any], directions: int) -> tuple[Activation, ...]:
    """Return the activations of all directions."""
    names = attrs.get("activations") or default_activations(op) * directions
    parameters = ([*(attrs.get(f"activation_{n}") or ())] for n in ("alpha", "beta"))
    return activations(names, *parameters)


class _Cell:
    """One direction of a layer in NumPy: weights, and the functions of its gates."""

    def __init__(
        self,
        op: str,
        attrs: Mapping[str, Any],
        parts: Sequence[Array | None],
        functions: Sequence[Activation],
    ) -> None:
        """Fill in missing biases and peepholes."""
        self.op, self.attrs = op, attrs
        w, r, b, p = parts
        assert w is not None and r is not None
        self.w, self.r, self.functions = w, r, functions
        self.b = np.zeros(2 * len(w), w.dtype) if b is None else b
        self.p = np.zeros(3 * r.shape[1], w.dtype) if p is None else p
        self.f = of_arrays(w.dtype.name)

    def act(self, which: int, x: Array) -> Any:
        limit = self.attrs.get("clip")
        if limit is not None:
            x = np.clip(x, -x.dtype.type(limit), x.dtype.type(limit))
        return self.functions[which](self.f, x)

    def step(self, x: Array, h: Array, c: Array) -> tuple[Any, Any]:
        half = len(self.b) // 2
        wb, rb = self.b[:half], self.b[half:]
        if self.op == "RNN":
            return self.act(0, x @ self.w.T + wb + h @ self.r.T + rb), c
        if self.op == "GRU":
            return self.gru(x @ self.w.T + wb, h, rb), c
        i, o, f, g = np.split(x @ self.w.T + h @ self.r.T + wb + rb, 4, axis=-1)
        pi, po, pf = np.split(self.p, 3)
        i = self.act(0, i + pi * c)
        f = 1 - i if self.attrs.get("input_forget") else self.act(0, f + pf * c)
        c = f * c + i * self.act(1, g)
        return self.act(0, o + po * c) * self.functions[2](self.f, c), c

    def gru(self, x: Array, h: Array, rb: Array) -> Any:
        n = h.shape[-1]
        xz, xr, xh = np.split(x, 3, axis=-1)
        hz, hr = np.split(h @ self.r[: 2 * n].T + rb[: 2 * n], 2, axis=-1)
        z, reset = self.act(0, xz + hz), self.act(0, xr + hr)
        if self.attrs.get("linear_before_reset"):
            new = self.act(1, xh + reset * (h @ self.r[2 * n :].T + rb[2 * n :]))
        else:
            new = self.act(1, xh + (reset * h) @ self.r[2 * n :].T + rb[2 * n :])
        return (1 - z) * new + z * h


def run(attrs: Mapping[str, Any], args: Any, op: str) -> Any:
    """Evaluate a recurrent operator."""
    x, w, r, b, lengths, h0, c0, p = (*args, *(None,) * 8)[:8]
    directions = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[
        attrs.get("direction", "forward")
    ]
    turned = bool(attrs.get("layout"))
    x = x.swapaxes(0, 1) if turned else x
    steps, batch, hidden = x.shape[0], x.shape[1], r.shape[2]
    lengths = np.full(batch, steps) if lengths is None else lengths
    y = np.zeros((steps, len(directions), batch, hidden), x.dtype)
    h, c = (
        np.zeros((len(directions), batch, hidden), x.dtype)
        if s is None
        else (s.swapaxes(0, 1) if turned else s).copy()
        for s in (h0, c0)
    )
    functions = functions_of(op, attrs, len(directions))
    count = len(default_activations(op))
    rows = np.arange(batch)
    for number, backwards in enumerate(directions):
        parts = [None if v is None else v[number] for v in (w, r, b, p)]
        cell = _Cell(op, attrs, parts, functions[number * count : (number + 1) * count])
        for s in range(steps):
            at = np.where(s < lengths, lengths - 1 - s, s) if backwards else np.full(batch, s)
            new, memory = cell.step(x[at, rows], h[number], c[number])
            going = (s < lengths)[:, None]
            h[number], c[number] = (
                np.where(going, new, h[number]),
                np.where(going, memory, c[number]),
            )
            y[at, number, rows] = np.where(going, new, 0)
    if turned:
        y, h, c = y.transpose(2, 0, 1, 3), h.swapaxes(0, 1), c.swapaxes(0, 1)
    return (y, h, c) if op == "LSTM" else (y, h)
