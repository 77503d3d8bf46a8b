"""Models traced from Python functions over arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import update_wrapper
from pathlib import Path
from typing import Any, TypeVar

from explorer.errors import BadOption, BoundError, TraceError
from explorer.frontends.model import Bounds, Model, symbol_environment
from explorer.frontends.python import arrays
from explorer.frontends.python.functions import IsolatedFunction
from explorer.frontends.python.syntax.stage_function import stage_function
from explorer.frontends.python.tracing.annotations import declared_inputs, is_declared
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.bodies import own_results
from explorer.frontends.python.tracing.emit import traced
from explorer.frontends.python.tracing.frames import (
    FunctionFrame,
    Recorder,
    attributed_to_call,
    is_tracing,
    tracing_into,
)
from explorer.frontends.python.tracing.structure import (
    COMPLEX,
    Leaf,
    Nest,
    Structure,
    flatten,
    rebuild,
)
from explorer.ir.dims import ShapeEnv, SymbolBound, symbol
from explorer.ir.program import Function, Program
from explorer.ir.text.program_text import print_program
from explorer.ir.types import Tensor
from explorer.ops.shape_rules import ImpliedBound

Written = TypeVar("Written")
assert arrays, "importing it says what operators on traced arrays mean"


class Traced:
    """A function over arrays: on arrays it runs eagerly, on annotations it returns the `Model`."""

    def __init__(self, run: Callable[..., Any]) -> None:
        """Wrap a Python function; raise BadOption for another object."""
        if not (inspect.isfunction(run) or inspect.ismethod(run)):
            raise BadOption(
                f"explorer.trace takes a Python function, not {type(run).__name__}",
                where=type(run).__name__,
                try_="explorer.trace(lambda x: thing(x))",
            )
        self.run = run
        update_wrapper(self, run)

    def __repr__(self) -> str:
        """Return the function's name."""
        return f"<explorer.trace {self.run.__qualname__}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function on arrays, or return its model for annotations."""
        if not any(map(is_declared, (*args, *kwargs.values()))):
            run = stage_function(self.run) if is_tracing() else self.run
            return run(*args, **kwargs)
        arguments = inspect.signature(self.run).bind_partial(*args, **kwargs).arguments
        return self.model(arguments)

    def model(self, annotations: Mapping[str, Any], bounds: Bounds | None = None) -> Model:
        """Return the model for inputs that are annotated in the signature or in `annotations`.

        Raises:
            TraceError, ShapeError, DtypeError, BoundError: each names the line.
        """
        declared = declared_inputs(self.run, annotations)
        fixed = {n: v for n, v in annotations.items() if n not in declared}
        leaves, nesting = flatten(declared)
        program, complex_outputs = within_bounds(
            lambda recorder: _trace_program(self.run, declared, fixed, recorder),
            symbol_environment((t.shape for t in leaves if t.shape is not None), bounds),
            self.run.__name__,
        )
        where = f"{Path(self.run.__code__.co_filename).name}:{program.name}"
        return Model(
            program.name,
            where,
            program,
            print_program(program).encode(),
            python=True,
            complex_inputs=_complex_names(nesting),
            complex_outputs=complex_outputs,
        )


def trace(run: Callable[..., Any]) -> Traced:
    """Decorate a function over arrays, written with `explorer.np`, as a model.

        @explorer.trace
        def model(x: explorer.tensor("float32", "batch", 64)):
            while x.max() > 1:
                x = explorer.np.tanh(x) @ weights
            return x

    Python's `if`, `while`, `for`, `and`, `or`, `not` and `a if c else b` keep their meaning.
    Conditions that Python knows are evaluated while tracing. Those known only at run time become
    branches and loops of the model, like `explorer.cond`, `while_loop` and `scan`. A `return` in a
    traced loop is refused with its line. So are `raise`, `del`, `global`, `:=`, changes of elements
    and calls for their side effects in traced statements.

    `model(array)` runs it in NumPy. `explorer.load(model)` and `explorer.compile(model)` accept it.
    `model(x=explorer.tensor(...))` is the Model if the signature lacks an annotation.
    """
    if isinstance(run, IsolatedFunction):
        return Traced(run.run)
    return run if isinstance(run, Traced) else Traced(run)


def within_bounds(write: Callable[[Recorder], Written], env: ShapeEnv, name: str) -> Written:
    """Return what `write` builds, at extents for which the model is valid.

    `x + table[:n]` is valid up to the table's extent. Each attempt tightens a bound, so the loop
    ends.
    """
    limits: dict[str, int] = {}
    while True:
        try:
            return write(Recorder(_limit_environment(env, limits), limits))
        except ImpliedBound as bound:
            if bound.high >= limits.get(bound.name, bound.high + 1):
                raise BoundError(
                    f"{name} is valid only up to {bound}, which is no tighter bound",
                    where=bound.name,
                ) from None
            limits[bound.name] = bound.high


def _limit_environment(env: ShapeEnv, limits: Mapping[str, int]) -> ShapeEnv:
    return ShapeEnv(tuple(_tighten(s, limits.get(s.name)) for s in env.symbols))


def _tighten(bound: SymbolBound, high: int | None) -> SymbolBound:
    """Return the bound limited to `high`; raise BoundError if it becomes empty."""
    if high is None:
        return bound
    if bound.low > high:
        raise BoundError(
            f"the model takes {bound.name} up to {high}; it was bounded from {bound.low} on",
            where=bound.name,
        )
    return SymbolBound(bound.name, bound.low, high, min(bound.hint, high))


def _trace_program(
    run: Callable[..., Any],
    declared: Mapping[str, Any],
    fixed: Mapping[str, Any],
    recorder: Recorder,
) -> tuple[Program, tuple[str, ...]]:
    """Return the program, and the names of its complex outputs."""
    env = recorder.env
    frame = FunctionFrame(recorder, recorder.fresh("main"))
    frame.symbols.update({s.name: symbol(s.name) for s in env.symbols})
    types, nesting = flatten(dict(declared))
    params = [recorder.value(n, t) for n, t in zip(_paths(nesting), types, strict=True)]
    for param in params:
        if not (isinstance(param.type, Tensor) and param.type.is_known):
            raise TraceError(
                f"the input {param.name!r} of {run.__name__} is declared without its dims",
                where=param.name,
                try_='explorer.tensor("float32", "rows", "columns")',
            )
    with tracing_into(frame):
        values = rebuild(nesting, [TracedArray(p, frame) for p in params])
        arguments = inspect.BoundArguments(inspect.signature(run), {**values, **fixed})
        leaves, structure = flatten(stage_function(run)(*arguments.args, **arguments.kwargs))
        if not leaves:
            raise TraceError(f"{run.__name__} returns no array", where=run.__name__)
        with attributed_to_call("result"):
            outputs = own_results(frame, [traced(leaf) for leaf in leaves])
    nesting, prefix = structure, "output_"
    if isinstance(structure, Leaf) or structure.kind == COMPLEX:
        nesting, prefix = Nest("dict", (structure,), ("output",)), ""
    names = _paths(nesting, prefix)
    main = Function("main", tuple(params), tuple(frame.body), outputs, names)
    return assemble_program(recorder, main, run.__name__), _complex_names(nesting, prefix)


def assemble_program(recorder: Recorder, main: Function, name: str) -> Program:
    """Return the program without unread constants and without lines that compute nothing."""
    functions = (main, *recorder.functions)
    read = {v.name for f in functions for b in f.body for v in b.reads}
    standing = {o for f in functions for b in f.body for o in b.origin}
    sources = tuple(s for s in recorder.sources if s.op != "result" or s.name in standing)
    return Program(
        functions,
        {n: c for n, c in recorder.constants.items() if n in read},
        recorder.env,
        sources,
        tuple((s.name, "computes nothing") for s in sources if s.name not in standing),
        name=name,
    )


def _complex_names(structure: Structure, prefix: str = "") -> tuple[str, ...]:
    """Return the names of the complex arrays; their parts are called `.real` and `.imag`."""
    parts = {*_paths(structure, prefix)}
    return tuple(n for n in _paths(structure, prefix, is_leaf=COMPLEX) if n not in parts)


def _paths(structure: Structure, prefix: str = "", is_leaf: str = "") -> tuple[str, ...]:
    """Return a name for each leaf: its keys and indices, joined by dots."""
    if isinstance(structure, Leaf) or structure.kind == is_leaf:
        return ("",)
    keys = structure.keys or range(len(structure.parts))
    paths: list[str] = []
    for key, part in zip(keys, structure.parts, strict=False):
        word = str(key) if structure.keys else f"{prefix}{key}"
        paths += [f"{word}.{p}" if p else word for p in _paths(part, is_leaf=is_leaf)]
    return tuple(paths)
