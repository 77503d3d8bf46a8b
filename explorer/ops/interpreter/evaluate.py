"""Reference interpreter: evaluates a program of any stage in NumPy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

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
from explorer.ir.dims import evaluate_dim, evaluate_shape, is_symbolic, symbols_of
from explorer.ir.program import Binding, Function, Program
from explorer.ir.types import ITEM_BYTES, Tensor, numpy_dtype
from explorer.ops.interpreter.frame import CallFrame, bind_sizes, negative_extents
from explorer.ops.interpreter.loop_nest import evaluate_kernel, evaluate_outputs
from explorer.process.budget import check_room
from explorer.process.counters import counters

__all__ = ["Interpreter", "bind_sizes", "evaluate", "evaluate_kernel"]

Array = np.ndarray
DEEPEST, MOST_DEEP = 2000, 100_000  # depth of calls: the default, and the limit
MANY = 100  # nested functions, arms and bodies per raise of Python's recursion limit
FRAMES = 5  # Python frames in each of them; no C frames


def evaluate(program: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Evaluate a program of any stage; return its outputs by name.

    Raises the errors of `bind_sizes` if the inputs do not fit.
    """
    program = without_gradients(program)
    return Interpreter(program, bind_sizes(program, inputs)).outputs(inputs)


Compiled = Callable[[Sequence[Array], Mapping[str, int]], Sequence[Array]]
Unread = tuple[tuple[str, ...], ...]  # of a function, by binding


class Interpreter:
    """The values of one run; `sizes` are the symbols that the first function knows.

    A call has a frame of its own. A called function sees the symbols that its parameters define. A
    branch arm or a loop body also sees the symbols of its caller, in each trip separately.

    `compiled` are functions that run by other means, on the arguments and the symbols of the
    caller. If there may be any, kernels that are interpreted nevertheless are counted. `unread` is
    shared by several runs of one program: the values that are dead after each binding.
    """

    def __init__(
        self,
        program: Program,
        sizes: Mapping[str, int],
        compiled: Mapping[str, Compiled] | None = None,
        unread: dict[str, Unread] | None = None,
    ) -> None:
        """Take the limit of the call depth from the program's decisions."""
        self.program, self.sizes = program, sizes
        self.is_counted = compiled is not None
        self.compiled = {} if compiled is None else compiled
        self.constants = program.constants
        self.functions = {f.name: f for f in program.functions}
        self.unread = {} if unread is None else unread
        requested = getattr(program.decisions.grinder, "depth", 0)
        self.deepest = min(requested, MOST_DEEP) or DEEPEST
        self.calls = 0  # that are open
        self.within: list[str] = []  # the bindings of open calls, arms and bodies

    def outputs(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs of the entry function by name."""
        main = self.program.main
        results = self.run(main, [inputs[p.name] for p in main.params])
        names = main.output_names or tuple(v.name for v in main.outputs)
        return dict(zip(names, results, strict=True))

    def run(
        self,
        function: Function,
        args: Sequence[Array],
        caller_sizes: Mapping[str, int] | None = None,
        of: str = "",
    ) -> list[Array]:
        """Return a function's outputs; dead values are dropped.

        `caller_sizes` are the symbols from its caller, `of` the binding that runs it.
        """
        self.within.append(of and f"{of}/")
        try:
            return self.frame(function, args, self.sizes if caller_sizes is None else caller_sizes)
        finally:
            self.within.pop()

    @property
    def path(self) -> str:
        """The prefix of the uTasks' names at this point of the run."""
        return "".join(self.within)

    def frame(
        self, function: Function, args: Sequence[Array], caller_sizes: Mapping[str, int]
    ) -> list[Array]:
        """Run a function, a branch arm or a loop body once."""
        if len(self.within) % MANY == 0:
            wanted = FRAMES * (len(self.within) + 2 * MANY)
            sys.setrecursionlimit(max(sys.getrecursionlimit(), wanted))
        frame = CallFrame.of(function, self.program.env, caller_sizes)
        frame.enter(args)
        values = {p.name: a for p, a in zip(function.params, args, strict=True)}
        if function.name not in self.unread:
            self.unread[function.name] = _last_uses(function)
        last = self.unread[function.name]
        for at, binding in enumerate(function.body):
            results_ = self.binding(binding, values, frame)
            values.update(zip((v.name for v in binding.vars), results_, strict=False))
            for name in last[at]:
                values.pop(name, None)
        results = [self.value(v, values) for v in function.outputs]
        frame.leave(results)
        return results

    def value(self, var: Var, values: Mapping[str, Array]) -> Array:
        """Return the value of a variable or a constant."""
        if var.name in values:  # an optional value may be None
            return values[var.name]
        return self.constants[var.name].array

    def binding(
        self, binding: Binding, values: Mapping[str, Array], frame: CallFrame
    ) -> Sequence[Array]:
        """Return the values that a binding binds."""
        sizes = frame.sizes

        def read(var: Var) -> Array:
            return self.value(var, values)

        if isinstance(binding.expr, OpCall | LibraryCall | KernelCall):
            _check_room(binding.vars, sizes)
        match binding.expr:
            case OpCall() as call:
                arguments = [None if a is None else read(a) for a in call.args]
                attrs = tuple((name, _plain(value, sizes)) for name, value in call.attrs)
                from explorer.ops.interpreter.libraries import operator_results

                return operator_results(call.op, attrs, arguments, len(binding.vars))
            case KernelCall(kernel, args, _):
                if self.is_counted:
                    counters.add("interpreted_kernels")
                return evaluate_outputs(kernel, [read(a) for a in args], sizes)
            case View(arg, offset):
                return (_view(read(arg), binding.var, evaluate_dim(offset, sizes), sizes),)
            case LibraryCall(library, function, args, _):
                arguments = [None if a is None else read(a) for a in args]
                library_results = self.library(binding, binding.expr, arguments)
                if library not in ("onnx", "shape"):
                    _check_results(binding, f"{library}.{function}", library_results, sizes)
                return library_results
            case FunctionCall(name, args) if name in self.compiled:
                return self.compiled[name]([read(a) for a in args], sizes)
            case FunctionCall(name, args):
                return self.call(name, [read(a) for a in args], binding.vars[0].name)
            case Gradient(name):
                raise TypeError(
                    f"the gradient of {name} cannot be evaluated before differentiation"
                )
            case MatchCast(arg):
                return (frame.cast(binding.var.name, read(arg)),)
            case ShapeOf(dims, rank):
                row = np.array(evaluate_shape(dims, sizes), np.int64)
                return (row if rank else row.reshape(()),)
            case Branch(cond, then, orelse, args):
                arm, name = ("then", then) if bool(read(cond)) else ("else", orelse)
                of = f"{binding.vars[0].name}/{arm}"
                return self.run(self.functions[name], [read(a) for a in args], sizes, of)
            case Loop() as loop:
                of = binding.vars[0].name if binding.vars else loop.body
                results = self.loop(loop, values, sizes, of)
                return _padded(loop, binding.vars, results, sizes) if loop.padded else results

    def call(self, name: str, args: Sequence[Array], of: str) -> list[Array]:
        """Call a function; raise BoundError if calls nest too deep."""
        if self.calls >= self.deepest:
            raise too_deep(name, self.deepest)
        self.calls += 1
        try:
            return self.run(self.functions[name], args, {}, of)
        finally:
            self.calls -= 1

    def library(
        self, binding: Binding, call: LibraryCall, arguments: Sequence[Array | None]
    ) -> Sequence[Array]:
        """Return the results of a library call."""
        count = len(binding.vars)
        from explorer.ops.interpreter.libraries import call_library  # most programs call none

        return call_library(call.library, call.function, call.attrs, arguments, count)

    def loop(
        self, loop: Loop, values: Mapping[str, Array], sizes: Mapping[str, int], of: str
    ) -> Sequence[Array]:
        """Return the state after the last trip, then the stacked rows."""
        body = self.functions[loop.body]
        trip = None if loop.trip is None else int(self.value(loop.trip, values))
        going: Any = np.bool_(True) if loop.cond is None else self.value(loop.cond, values)
        state = [self.value(v, values) for v in loop.state]
        args, step = [self.value(v, values) for v in loop.args], 0
        rows: list[Sequence[Array]] = []
        taken = 0
        while bool(going) and (trip is None or step < trip):
            count = np.array(step, np.int64)
            arguments = [count, np.asarray(going), *state, *args]
            going, *results = self.run(body, arguments, sizes, of)
            state = results[: len(state)]
            if loop.scans:
                rows.append(results[len(state) :])
                taken += sum(a.nbytes for a in rows[-1])
                check_room(2 * taken, f"{loop.body}, after {step + 1} iterations,", loop.body)
            step += 1
        if not rows:  # nothing is stacked, or no trip was made
            return [*state, *_no_rows(loop, body.outputs[1 + len(state) :], sizes)]
        return [*state, *(np.stack(column) for column in zip(*rows, strict=True))]


def too_deep(function: str, depth: int) -> BoundError:
    """Return the error of a run whose calls nest deeper than `depth`."""
    return BoundError(
        f"{function} is called more than {depth} calls deep",
        where=function,
        expected=f"at most {depth}",
        try_="make sure that its recursion ends, or raise Options(grinder=Options(depth=...))",
    )


def _view(array: Array, var: Var, offset: int, sizes: Mapping[str, int]) -> Array:
    shape = evaluate_shape(var.tensor.dims, sizes)
    return array.reshape(-1)[offset : offset + prod(shape)].reshape(shape)


def _check_room(vars: Sequence[Var], sizes: Mapping[str, int]) -> None:
    """Raise an error for a result that is too large, or has negative extents."""
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
    binding: Binding, name: str, results: Sequence[Array], sizes: Mapping[str, int]
) -> None:
    """Check that a user's function returns what was deduced of the operators it replaces."""
    from explorer.ops.interpreter.library_functions import check_result

    for var, array in zip(binding.vars, results, strict=True):
        if isinstance(var.type, Tensor):
            dims = var.type.shape
            shape = None if dims is None else evaluate_shape(dims, sizes)
            deduced = f"{var.name!r} was deduced as"
            check_result(name, deduced, array, shape, var.type.dtype)


def _no_rows(loop: Loop, outputs: Sequence[Var], sizes: Mapping[str, int]) -> list[Array]:
    """Return the rows of a loop without a trip: none, of the deduced type.

    What is not known of the type is as declared.
    """
    rows = []
    for var, declared in zip(outputs, loop.rows or (Tensor(),) * len(outputs), strict=True):
        kind = var.type if isinstance(var.type, Tensor) else Tensor()
        rank = declared.rank or 0 if kind.rank is None else kind.rank
        open_: Any = declared.shape if declared.rank == rank else (0,) * rank
        dims_known = kind.shape if kind.shape is not None else open_
        shape = tuple(
            next((evaluate_dim(d, sizes) for d in dims if symbols_of(d) <= sizes.keys()), 0)
            for dims in zip(dims_known, open_, strict=True)
        )
        rows.append(np.zeros((0, *shape), numpy_dtype(kind.dtype or declared.dtype or "float32")))
    return rows


def _padded(
    loop: Loop, vars: Sequence[Var], results: Sequence[Array], sizes: Mapping[str, int]
) -> Sequence[Array]:
    """Return a loop's results, its stacked rows padded with zeros to their shape."""
    out = list(results)
    for n in range(len(loop.state), len(vars)):
        array, shape = results[n], evaluate_shape(vars[n].tensor.dims, sizes)
        if shape != array.shape:
            out[n] = np.zeros(shape, array.dtype)
            out[n][: len(array)] = array
    return out


def _plain(value: Any, sizes: Mapping[str, int]) -> Any:
    """Return an attribute with its dims as numbers."""
    if isinstance(value, tuple):
        return tuple(_plain(v, sizes) for v in value)
    return evaluate_dim(value, sizes) if is_symbolic(value) else value


def _last_uses(function: Function) -> Unread:
    """Return for each binding the values that no later binding and no output reads."""
    seen = {v.name for v in function.outputs}
    last_uses: list[tuple[str, ...]] = []
    for binding in reversed(function.body):
        names = {v.name for v in (*binding.reads, *binding.vars)} - seen
        last_uses.append(tuple(names))
        seen |= names
    return tuple(reversed(last_uses))


# Gradients: the differentiation pass lies above the operators and registers itself when it is
# loaded.


Meaning = Callable[[Program], Program]
_meaning: list[Meaning] = []


def register_differentiation(make: Meaning) -> Meaning:
    """Register the function that replaces gradients in programs."""
    _meaning[:] = [make]
    return make


def without_gradients(program: Program) -> Program:
    """Return the program with its gradients replaced."""
    if not any(isinstance(b.expr, Gradient) for _, b in program.bindings()):
        return program
    return _meaning[0](program)
