"""Programs that cross from a helper to the grader as text, and passes that replay them.

A helper sends the text of a program and the constants that the grader lacks. The grader parses the
text, and its own compiler verifies the program as it verifies the result of any pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np

from explorer.compiler.compilation import Compilation
from explorer.course.exercise import Wrong
from explorer.errors import IronworksError
from explorer.frontends.model import Model
from explorer.ir.calls import KernelCall
from explorer.ir.dims import Dim
from explorer.ir.program import Binding, Constant, Program, SourceOp
from explorer.ir.stage import Stage
from explorer.ir.text.program_text import parse_program, print_dim, print_program
from explorer.ir.text.text_lines import Line
from explorer.ir.text.text_parser import parse_dim
from explorer.ops.interpreter.verify import verify
from explorer.passes.random_inputs import random_inputs, trial_sizes
from explorer.transforms.rewrite import Rewrite

Sent = Mapping[str, Any]  # {"text": of a program, "constants": arrays by name}
CHANGED_NOTHING: Sent = {}


def as_pass(answer: Any) -> Any:
    """Return a pass as it is, and a rule for one binding, as `@explorer.rewrite` takes it, as one.

    The decorator returns the rule, so a cell's name stands for that.
    """
    try:
        is_rule = len(signature(answer).parameters) == 2
    except (TypeError, ValueError):  # it is not callable: the compiler says so
        return answer
    return Rewrite(answer) if is_rule else answer


def own_step(c: Compilation) -> tuple[Program, Program]:
    """Return the program before and after the user's pass of a compilation."""
    step = next(s for s in c.snapshots if s.own)
    return step.before, step.after


def send_change(before: Program, after: Program) -> Sent:
    """Return the program after a pass in the plain form in which it crosses."""
    if after is before:
        return CHANGED_NOTHING
    return send_program(after, before.constants)


def send_program(program: Program, shared: Mapping[str, Constant] | None = None) -> Sent:
    """Return a program in the plain form in which it crosses, without `shared` constants."""
    shared = shared or {}
    fresh = {n: c.array for n, c in program.constants.items() if shared.get(n) != c}
    numbers = {s.name: _source_name(n) for n, s in enumerate(program.sources)}
    return {"text": print_program(_rename_sources(program, numbers)), "constants": fresh}


def _source_name(number: int) -> str:
    return f"source {number}"


def _rename_sources(program: Program, names: Mapping[str, str]) -> Program:
    """Return the program with other names of source operators: theirs hold files and lines."""

    def origin(old: frozenset[str]) -> frozenset[str]:
        return frozenset(names.get(o, o) for o in old)

    def renamed(b: Binding) -> Binding:
        expr = b.expr
        if isinstance(expr, KernelCall):
            computes = tuple(replace(c, origin=origin(c.origin)) for c in expr.kernel.computes)
            expr = replace(expr, kernel=replace(expr.kernel, computes=computes))
        return replace(b, expr=expr, origin=origin(b.origin))

    functions = tuple(replace(f, body=tuple(map(renamed, f.body))) for f in program.functions)
    sources = tuple(SourceOp(names.get(s.name, s.name), s.op) for s in program.sources)
    dropped = tuple((names.get(name, name), why) for name, why in program.dropped)
    return replace(program, functions=functions, sources=sources, dropped=dropped)


def receive_program(sent: Any, shared: Mapping[str, Constant] | None = None) -> Program:
    """Return the program that a helper sent.

    Raises:
        Wrong: It is none.
    """
    constants = dict(shared or {})
    match sent:
        case {"text": str(text), "constants": dict(arrays), **others} if not others:
            pass
        case _:
            raise Wrong("the answer's program cannot be read")
    for name, array in arrays.items():
        if not isinstance(name, str) or not isinstance(array, np.ndarray):
            raise Wrong("the answer's program has a constant that is no array")
        constants[name] = Constant(array)
    try:
        return parse_program(text, constants)
    except IronworksError as problem:
        raise Wrong(f"the answer's program cannot be read: {problem.sentence}") from problem


@dataclass(frozen=True, eq=False)
class Replay:
    """A pass that returns the functions that a helper's pass returned for the same program."""

    sent: Any
    name: str = "answer"

    @property
    def __name__(self) -> str:
        """The name of the pass in errors."""
        return self.name

    def __call__(self, program: Program) -> Program:
        """Return the program with these functions; the compiler verifies it."""
        if self.sent == CHANGED_NOTHING:
            return program
        names = {_source_name(n): s.name for n, s in enumerate(program.sources)}
        after = _rename_sources(receive_program(self.sent, program.constants), names)
        constants = {**program.constants, **after.constants}
        return replace(
            program, functions=after.functions, constants=constants, dropped=after.dropped
        )


def send_model(model: Model) -> Sent:
    """Return a model of a traced function in the plain form in which it crosses."""
    return send_program(model.program)


def receive_model(sent: Any, like: Model) -> Model:
    """Return the model that a helper sent, if its inputs are those of the model `like`.

    Raises:
        Wrong: It is none.
    """
    program = receive_program(sent)
    wanted = [(p.name, p.type) for p in like.program.main.params]
    if [(p.name, p.type) for p in program.main.params] != wanted:
        raise Wrong(f"the inputs are not {', '.join(f'{n}: {t}' for n, t in wanted)}")
    bounds = {s.name: s for s in like.program.env.symbols}
    if any(bounds.get(s.name, s) != s for s in program.env.symbols):
        raise Wrong("the sizes of the inputs have other bounds than those of the stub")
    if program.stage is not Stage.IMPORTED:
        raise Wrong(f"the answer's program is at stage {program.stage.title}")
    try:
        verify(program)
    except IronworksError as problem:
        raise Wrong(f"the answer's program is not well formed: {problem.sentence}") from problem
    return replace(like, program=program, head=print_program(program).encode())


def draw_inputs(program: Program, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return inputs of a program that nobody can know: floats anew, integers in another order."""
    inputs = random_inputs(program, trial_sizes(program))
    for name, array in inputs.items():
        if array.dtype.kind == "f":
            inputs[name] = rng.normal(size=array.shape).astype(array.dtype)
        else:
            inputs[name] = rng.permutation(array.reshape(-1)).reshape(array.shape)
    return inputs


def send_dims(dims: tuple[Dim, ...]) -> list[str]:
    """Return dims as texts."""
    return [print_dim(dim) for dim in dims]


def receive_dims(sent: Any) -> tuple[Dim, ...]:
    """Return the dims of texts.

    Raises:
        Wrong: They are none.
    """
    if not isinstance(sent, list) or not all(isinstance(text, str) for text in sent):
        raise Wrong("the dims of the answer cannot be read")
    return tuple(map(_receive_dim, sent))


def _receive_dim(text: str) -> Dim:
    line = Line(text, 1)
    try:
        dim = parse_dim(line)
        line.end()
    except IronworksError as problem:
        raise Wrong(f"the dim {text!r} of the answer cannot be read") from problem
    return dim
