"""The reference interpreter: what a program of any stage computes, in NumPy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from explorer.budget import check_room
from explorer.counters import counters
from explorer.errors import BoundError
from explorer.ir.annotations import symbols_in
from explorer.ir.calls import (
    Branch,
    FunctionCall,
    Gradient,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    OpCall,
    ShapeOf,
    Var,
    View,
)
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.algebra import is_symbolic
from explorer.ir.shapes.dims import evaluate_dim, evaluate_shape, symbols_of
from explorer.ir.types import ITEM_BYTES, Tensor, numpy_dtype
from explorer.ops.kernels.loop_nest import evaluate_kernel, evaluate_outputs
from explorer.ops.reference.bind import bind_sizes
from explorer.ops.reference.frame import Frame, negative_extents
from explorer.ops.reference.gradients import without_gradients
from explorer.ops.reference.libraries import call_library, operator_results
from explorer.ops.reference.library_functions import check_result

__all__ = ["Interpreter", "bind_sizes", "evaluate", "evaluate_kernel"]

Array = np.ndarray
DEEPEST, MOST_DEEP = 2000, 100_000  # calls within calls: where nobody says, and at most
MANY = 100  # functions, sides and bodies within each other, for which Python's limit is raised
FRAMES = 5  # of Python's, and none of C's, in each of them


def evaluate(program: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a program of any stage, by name.

    Raises what `bind_sizes` raises where the inputs do not fit.
    """
    program = without_gradients(program)
    main = program.main
    sizes = bind_sizes(program, inputs)
    found = Interpreter(program, sizes).run(main, [inputs[p.name] for p in main.params])
    names = main.output_names or tuple(v.name for v in main.outputs)
    return dict(zip(names, found, strict=True))


Compiled = Callable[[Sequence[Array], Mapping[str, int]], Sequence[Array]]
Unread = tuple[tuple[str, ...], ...]  # of a function, by binding


class Interpreter:
    """The values of one run; `sizes` are the symbols that the first function knows.

    A call has a frame of its own: a function that is called knows what its parameters define; a
    branch and a loop body see the symbols of their caller too, each trip anew. `compiled` are
    functions that run by other means: they are given the arguments and the symbols of the caller;
    where there may be any, kernels that are interpreted all the same are counted.
    `unread` is what several runs of one program share: the values that nothing reads any more.
    """

    def __init__(
        self,
        program: Program,
        sizes: Mapping[str, int],
        compiled: Mapping[str, Compiled] | None = None,
        unread: dict[str, Unread] | None = None,
    ) -> None:
        self.program, self.sizes = program, sizes
        self.is_counted = compiled is not None
        self.compiled = {} if compiled is None else compiled
        self.constants = program.constants
        self.functions = {f.name: f for f in program.functions}
        self.unread = {} if unread is None else unread
        asked = getattr(program.decisions.grinder, "depth", 0)
        self.deepest = min(asked, MOST_DEEP) or DEEPEST
        self.calls = 0  # that are open
        self.within: list[str] = []  # for what is open, calls, sides and bodies: by which binding

    def run(
        self,
        function: Function,
        args: Sequence[Array],
        given: Mapping[str, int] | None = None,
        of: str = "",
    ) -> list[Array]:
        """A function's outputs; what nothing reads any more is dropped. `given` are the symbols
        that it has from its caller, `of` the binding that runs it.
        """
        self.within.append(of and f"{of}/")
        try:
            return self.frame(function, args, self.sizes if given is None else given)
        finally:
            self.within.pop()

    @property
    def path(self) -> str:
        """What the names of uTasks begin with where the run is."""
        return "".join(self.within)

    def frame(
        self, function: Function, args: Sequence[Array], given: Mapping[str, int]
    ) -> list[Array]:
        """A function, a side of a branch or a body of a loop, once."""
        if len(self.within) % MANY == 0:
            wanted = FRAMES * (len(self.within) + 2 * MANY)
            sys.setrecursionlimit(max(sys.getrecursionlimit(), wanted))
        frame = Frame.of(function, self.program.env, given)
        frame.enter(args)
        values = {p.name: a for p, a in zip(function.params, args, strict=True)}
        if function.name not in self.unread:
            self.unread[function.name] = _last_uses(function)
        last = self.unread[function.name]
        for at, binding in enumerate(function.body):
            found = self.binding(binding, values, frame)
            values.update(zip((v.name for v in binding.vars), found, strict=False))
            for name in last[at]:
                values.pop(name, None)
        results = [self.value(v, values) for v in function.outputs]
        frame.leave(results)
        return results

    def value(self, var: Var, values: Mapping[str, Array]) -> Array:
        if var.name in values:  # an optional value may be None
            return values[var.name]
        return self.constants[var.name].array

    def binding(
        self, binding: Binding, values: Mapping[str, Array], frame: Frame
    ) -> Sequence[Array]:
        """The values that a binding binds."""
        sizes = frame.sizes

        def read(var: Var) -> Array:
            return self.value(var, values)

        if isinstance(binding.expr, OpCall | LibraryCall | KernelCall):
            _check_room(binding.vars, sizes)
        match binding.expr:
            case OpCall() as call:
                given = [None if a is None else read(a) for a in call.args]
                attrs = tuple((name, _plain(value, sizes)) for name, value in call.attrs)
                return operator_results(call.op, attrs, given, len(binding.vars))
            case KernelCall(kernel, args, _):
                if self.is_counted:
                    counters.add("interpreted_kernels")
                return evaluate_outputs(kernel, [read(a) for a in args], sizes)
            case View(arg, offset):
                return (_view(read(arg), binding.var, evaluate_dim(offset, sizes), sizes),)
            case LibraryCall(library, function, args, _):
                given = [None if a is None else read(a) for a in args]
                found = self.library(binding, binding.expr, given)
                if library not in ("onnx", "shape"):
                    _check_results(binding, f"{library}.{function}", found, sizes)
                return found
            case FunctionCall(name, args) if name in self.compiled:
                return self.compiled[name]([read(a) for a in args], sizes)
            case FunctionCall(name, args):
                return self.call(name, [read(a) for a in args], binding.vars[0].name)
            case Gradient(name):
                raise TypeError(f"the gradient of {name} is no program that runs")
            case MatchCast(arg):
                return (frame.cast(binding.var.name, read(arg)),)
            case ShapeOf(dims, rank):
                row = np.array(evaluate_shape(dims, sizes), np.int64)
                return (row if rank else row.reshape(()),)
            case Branch(cond, then, orelse, args):
                side, name = ("then", then) if bool(read(cond)) else ("else", orelse)
                of = f"{binding.vars[0].name}/{side}"
                return self.run(self.functions[name], [read(a) for a in args], sizes, of)
            case Loop() as loop:
                of = binding.vars[0].name if binding.vars else loop.body
                results = self.loop(loop, values, sizes, of)
                return _padded(loop, binding.vars, results, sizes) if loop.padded else results

    def call(self, name: str, args: Sequence[Array], of: str) -> list[Array]:
        """One call of a function; BoundError where calls nest deeper than they may."""
        if self.calls >= self.deepest:
            raise too_deep(name, self.deepest)
        self.calls += 1
        try:
            return self.run(self.functions[name], args, {}, of)
        finally:
            self.calls -= 1

    def library(
        self, binding: Binding, call: LibraryCall, given: Sequence[Array | None]
    ) -> Sequence[Array]:
        """What a library gives."""
        count = len(binding.vars)
        return call_library(call.library, call.function, call.attrs, given, count)

    def loop(
        self, loop: Loop, values: Mapping[str, Array], sizes: Mapping[str, int], of: str
    ) -> Sequence[Array]:
        """The state after the last trip, then the rows that are stacked."""
        body = self.functions[loop.body]
        trip = None if loop.trip is None else int(self.value(loop.trip, values))
        going: Any = np.bool_(True) if loop.cond is None else self.value(loop.cond, values)
        state = [self.value(v, values) for v in loop.state]
        args, step = [self.value(v, values) for v in loop.args], 0
        rows: list[Sequence[Array]] = []
        taken = 0
        while bool(going) and (trip is None or step < trip):
            count = np.array(step, np.int64)
            given = [count, np.asarray(going), *state, *args]
            going, *found = self.run(body, given, sizes, of)
            state = found[: len(state)]
            if loop.scans:
                rows.append(found[len(state) :])
                taken += sum(a.nbytes for a in rows[-1])
                check_room(2 * taken, f"{loop.body}, after {step + 1} iterations,", loop.body)
            step += 1
        if not rows:  # nothing is stacked, or no trip was made
            return [*state, *_no_rows(loop, body.outputs[1 + len(state) :], sizes)]
        return [*state, *(np.stack(column) for column in zip(*rows, strict=True))]


def too_deep(function: str, depth: int) -> BoundError:
    """What a run ends with of which calls nest deeper than so many."""
    return BoundError(
        f"{function} is called more than {depth} calls deep",
        where=function,
        expected=f"at most {depth}",
        try_="see that its recursion ends, or Options(grinder=Options(depth=...)) of more",
    )


def _view(array: Array, var: Var, offset: int, sizes: Mapping[str, int]) -> Array:
    shape = evaluate_shape(var.tensor.dims, sizes)
    return array.reshape(-1)[offset : offset + prod(shape)].reshape(shape)


def _check_room(vars: Sequence[Var], sizes: Mapping[str, int]) -> None:
    """Refuse a result that is too large, or of negative extents, as its annotation tells."""
    for var in vars:
        type = var.type
        is_known = isinstance(type, Tensor) and type.is_known and type.dtype in ITEM_BYTES
        if is_known and symbols_in(type) <= sizes.keys():
            shape = evaluate_shape(var.tensor.dims, sizes)
            if min(shape, default=0) < 0:
                raise negative_extents(var.name, var.tensor, shape, sizes)
            size = prod(shape) * ITEM_BYTES[var.tensor.element]
            check_room(size, f"{var.name!r}, {type},", var.name)


def _check_results(
    binding: Binding, name: str, found: Sequence[Array], sizes: Mapping[str, int]
) -> None:
    """A user's function must give what was deduced of the operators in whose place it is called."""
    for var, array in zip(binding.vars, found, strict=True):
        if isinstance(var.type, Tensor):
            dims = var.type.shape
            shape = None if dims is None else evaluate_shape(dims, sizes)
            deduced = f"{var.name!r} was deduced as"
            check_result(name, deduced, array, shape, var.type.dtype)


def _no_rows(loop: Loop, outputs: Sequence[Var], sizes: Mapping[str, int]) -> list[Array]:
    """What a loop without an iteration stacks: no rows, of the type that is deduced; what is not
    known is as declared.
    """
    found = []
    for var, declared in zip(outputs, loop.rows or (Tensor(),) * len(outputs), strict=True):
        kind = var.type if isinstance(var.type, Tensor) else Tensor()
        rank = declared.rank or 0 if kind.rank is None else kind.rank
        open_: Any = declared.shape if declared.rank == rank else (0,) * rank
        known = kind.shape if kind.shape is not None else open_
        shape = tuple(
            next((evaluate_dim(d, sizes) for d in dims if symbols_of(d) <= sizes.keys()), 0)
            for dims in zip(known, open_, strict=True)
        )
        found.append(np.zeros((0, *shape), numpy_dtype(kind.dtype or declared.dtype or "float32")))
    return found


def _padded(
    loop: Loop, vars: Sequence[Var], found: Sequence[Array], sizes: Mapping[str, int]
) -> Sequence[Array]:
    """What a loop gives, its stacked rows filled up with zeros to the shape that they have."""
    out = list(found)
    for n in range(len(loop.state), len(vars)):
        array, shape = found[n], evaluate_shape(vars[n].tensor.dims, sizes)
        if shape != array.shape:
            out[n] = np.zeros(shape, array.dtype)
            out[n][: len(array)] = array
    return out


def _plain(value: Any, sizes: Mapping[str, int]) -> Any:
    """An attribute with its dims as numbers."""
    if isinstance(value, tuple):
        return tuple(_plain(v, sizes) for v in value)
    return evaluate_dim(value, sizes) if is_symbolic(value) else value


def _last_uses(function: Function) -> Unread:
    """For each binding the values that no later binding and no output reads."""
    seen = {v.name for v in function.outputs}
    found: list[tuple[str, ...]] = []
    for binding in reversed(function.body):
        names = {v.name for v in (*binding.reads, *binding.vars)} - seen
        found.append(tuple(names))
        seen |= names
    return tuple(reversed(found))
