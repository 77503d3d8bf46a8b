"""A Python function over arrays as a model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import update_wrapper
from pathlib import Path
from typing import Any, TypeVar

from explorer.errors import BadOption, BoundError, TraceError
from explorer.frontends import arrays
from explorer.frontends.functions import IsolatedFunction
from explorer.frontends.model import Model
from explorer.frontends.symbols import Bounds, environment
from explorer.frontends.syntax.staged import staged
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.control.bodies import own_results
from explorer.frontends.tracing.declared import declared_inputs, is_declared
from explorer.frontends.tracing.frames import Frame, is_tracing, source_of, writing
from explorer.frontends.tracing.promote import traced
from explorer.frontends.tracing.recorder import Recorder
from explorer.frontends.tracing.structure import COMPLEX, Leaf, Several, Structure, flatten, rebuild
from explorer.ir.program import Function, Program
from explorer.ir.shapes.dims import ShapeEnv, SymbolBound, symbol
from explorer.ir.text.program_text import print_program
from explorer.ir.types import Tensor
from explorer.ops.arithmetic.broadcast import ImpliedBound

Written = TypeVar("Written")
assert arrays, "importing it says what operators on traced arrays mean"


class Traced:
    """A function over arrays: on arrays it runs eagerly; on annotations it gives the `Model`."""

    def __init__(self, run: Callable[..., Any]) -> None:
        if not (inspect.isfunction(run) or inspect.ismethod(run)):
            raise BadOption(
                f"a Python function is traced, and {type(run).__name__} is none",
                where=type(run).__name__,
                try_="explorer.trace(lambda x: thing(x))",
            )
        self.run = run
        update_wrapper(self, run)

    def __repr__(self) -> str:
        return f"<explorer.trace {self.run.__qualname__}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not any(map(is_declared, (*args, *kwargs.values()))):
            run = staged(self.run) if is_tracing() else self.run
            return run(*args, **kwargs)
        given = inspect.signature(self.run).bind_partial(*args, **kwargs).arguments
        return self.model(given)

    def model(self, given: Mapping[str, Any], bounds: Bounds | None = None) -> Model:
        """The model, for inputs that are annotated in the signature or here.

        Raises TraceError, ShapeError, DtypeError or BoundError; each names the line.
        """
        declared = declared_inputs(self.run, given)
        fixed = {n: v for n, v in given.items() if n not in declared}
        leaves, nesting = flatten(declared)
        program, complex_outputs = within_bounds(
            lambda recorder: _program(self.run, declared, fixed, recorder),
            environment((t.shape for t in leaves if t.shape is not None), bounds),
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
    """A model written in Python: a function over arrays, on functions of `explorer.np`.

        @explorer.trace
        def model(x: explorer.tensor("float32", "batch", 64)):
            while x.max() > 1:
                x = explorer.np.tanh(x) @ weights
            return x

    Python's `if`, `while`, `for`, `and`, `or`, `not` and `a if c else b` mean what they say: what
    Python knows is done while tracing, what only a run knows becomes a branch or a loop of the
    model, as `explorer.cond`, `while_loop` and `scan` make them. A traced loop with a `return` in
    it, and in traced statements `raise`, `del`, `global`, `:=`, changes of elements and calls for
    their effect, are refused with their line.

    `model(array)` runs it in NumPy; `explorer.load(model)` and `explorer.compile(model)` take it,
    and `model(x=explorer.tensor(...))` is the Model where the signature does not say it all.
    """
    if isinstance(run, IsolatedFunction):
        return Traced(run.run)
    return run if isinstance(run, Traced) else Traced(run)


def within_bounds(write: Callable[[Recorder], Written], env: ShapeEnv, name: str) -> Written:
    """The program that is written, for extents at which it means something: of `x + table[:n]`
    those up to the table's. Each try makes a bound tighter, so this ends.
    """
    limits: dict[str, int] = {}
    while True:
        try:
            return write(Recorder(_limited(env, limits), limits))
        except ImpliedBound as bound:
            if bound.high >= limits.get(bound.name, bound.high + 1):
                raise BoundError(
                    f"{name} means something only up to {bound}, which proves nothing",
                    where=bound.name,
                ) from None
            limits[bound.name] = bound.high


def _limited(env: ShapeEnv, limits: Mapping[str, int]) -> ShapeEnv:
    return ShapeEnv(tuple(_tight(s, limits.get(s.name)) for s in env.symbols))


def _tight(known: SymbolBound, high: int | None) -> SymbolBound:
    """The bound as far as the model has a meaning; BoundError where nothing is left."""
    if high is None:
        return known
    if known.low > high:
        raise BoundError(
            f"the model takes {known.name} up to {high}; it was bounded from {known.low} on",
            where=known.name,
        )
    return SymbolBound(known.name, known.low, high, min(known.hint, high))


def _program(
    run: Callable[..., Any],
    declared: Mapping[str, Any],
    fixed: Mapping[str, Any],
    recorder: Recorder,
) -> tuple[Program, tuple[str, ...]]:
    """The program, and the outputs that are complex."""
    env = recorder.env
    frame = Frame(recorder, recorder.fresh("main"))
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
    with writing(frame):
        values = rebuild(nesting, [TracedArray(p, frame) for p in params])
        given = inspect.BoundArguments(inspect.signature(run), {**values, **fixed})
        leaves, structure = flatten(staged(run)(*given.args, **given.kwargs))
        if not leaves:
            raise TraceError(f"{run.__name__} gives no array", where=run.__name__)
        with source_of("result"):
            outputs = own_results(frame, [traced(leaf) for leaf in leaves])
    nesting, prefix = structure, "output_"
    if isinstance(structure, Leaf) or structure.kind == COMPLEX:
        nesting, prefix = Several("dict", (structure,), ("output",)), ""
    names = _paths(nesting, prefix)
    main = Function("main", tuple(params), tuple(frame.body), outputs, names)
    return finished(recorder, main, run.__name__), _complex_names(nesting, prefix)


def finished(recorder: Recorder, main: Function, name: str) -> Program:
    """The program with the constants that are read; lines that compute nothing are dropped."""
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
    """The names of the complex arrays; those of their parts have `.real` and `.imag` behind."""
    parts = {*_paths(structure, prefix)}
    return tuple(n for n in _paths(structure, prefix, is_leaf=COMPLEX) if n not in parts)


def _paths(structure: Structure, prefix: str = "", is_leaf: str = "") -> tuple[str, ...]:
    """A name for each value: keys and places, with dots between."""
    if isinstance(structure, Leaf) or structure.kind == is_leaf:
        return ("",)
    keys = structure.keys or range(len(structure.parts))
    found: list[str] = []
    for key, part in zip(keys, structure.parts, strict=False):
        word = str(key) if structure.keys else f"{prefix}{key}"
        found += [f"{word}.{p}" if p else word for p in _paths(part, is_leaf=is_leaf)]
    return tuple(found)
