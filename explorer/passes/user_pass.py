"""User-defined passes: their results are verified, and errors are reported in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NoReturn, get_args

from explorer.errors import (
    BadPass,
    IronworksError,
    KernelCompileError,
    VerifyError,
    fault,
)
from explorer.ir.calls import Expr, OpCall, Var
from explorer.ir.decisions.control import ControlDecision, TaskTree
from explorer.ir.decisions.decided import AlgorithmDecision, Decisions, ProductsDecision
from explorer.ir.decisions.tile_graph import TileGraph
from explorer.ir.decisions.tiling import TilingDecision
from explorer.ir.dims import ShapeEnv
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.text.text_tokens import print_type
from explorer.ops.interpreter.verify import same, verify
from explorer.process.sandbox import Ended, Limits, in_helper, is_helper
from explorer.process.user_code import a, describe_error, shown, user_code, with_article

Judge = Callable[[Program, Program], str]  # of a program before and after a pass


@dataclass(frozen=True, slots=True)
class UserPass:
    """A user-defined pass under its name.

    A helper process runs the pass first, unless `limits` is None. BadPass is raised if the pass
    raises, exceeds `limits` or crashes there, or if its result is no program, is not well formed at
    its stage, lost source operators or changed the signature. `judge` returns what else is wrong
    with a result, "" if nothing: an expression of another type than its binding is.
    """

    name: str
    run: Callable[[Program], Program]
    paper: str = ""
    judge: Judge | None = None
    limits: Limits | None = Limits()

    @property
    def promise(self) -> str:
        """The first line of the pass's docstring."""
        return (self.run.__doc__ or "").strip().partition("\n")[0]

    def __call__(self, program: Program) -> Program:
        """Run the pass and verify its result; it sees the constants as a read-only mapping."""
        read_only = replace(program, constants=MappingProxyType(program.constants))
        ended, after = None, program
        with user_code(f"the pass {self.name!r}", self._failed):
            ended = self._try_out(read_only)
            if ended is None:
                after = self.run(read_only)
        if ended is not None:
            raise self._ended(ended)
        if after is read_only:
            return program
        try:
            _check(program, after)
            if self.judge is not None and (why := self.judge(program, after)):
                _fail(f"returned a program that cannot be compiled: {why}")
        except _Broken as broken:
            raise self._refused(str(broken)) from broken.__cause__
        except Exception as problem:  # the result may not even be inspectable
            raise self._refused(
                f"returned an unusable program: {describe_error(problem)}"
            ) from problem
        return replace(after, constants=dict(after.constants))

    def _try_out(self, program: Program) -> Ended | None:
        """Run the pass in a helper process first; return how it ended if it did not finish there.

        Its own exceptions are raised again by the run in this process.
        """
        if self.limits is None or is_helper():
            return None
        try:
            in_helper(lambda tell: self._alone(program), self.limits)
        except Ended as ended:
            return ended
        return None

    def _ended(self, ended: Ended) -> BadPass:
        """Return the error of a pass that exceeded its limits, or whose process ended."""
        assert self.limits is not None, "only a pass with limits has a helper"
        more = ""
        if ended.why.endswith("MiB of memory"):
            more = f"mib={2 * self.limits.mib}"
        elif ended.why.startswith("took more than"):
            more = f"seconds={3 * self.limits.seconds:g}"
        return BadPass(
            f"the pass {self.name!r} {ended.why}: it ran in a helper process, and was ended",
            where=self.name,
            expected=f"at most {self.limits.seconds:g} s and {self.limits.mib:,} MiB",
            try_=f"@explorer.compiler_pass(..., {more}) where it needs more" if more else "",
        )

    def _alone(self, program: Program) -> None:
        try:
            self.run(program)
        except MemoryError:
            raise
        except (Exception, SystemExit):  # a user's code may raise anything
            pass

    def _failed(self, words: str) -> BadPass:
        return BadPass(f"the pass {self.name!r} failed: {words}", where=self.name)

    def _refused(self, words: str) -> BadPass:
        return BadPass(
            f"the pass {self.name!r} {words}",
            where=self.name,
            expected="a sound program of the same stage, inputs and outputs",
        )


@contextmanager
def blame_user_passes(step: str, own: Sequence[str]) -> Iterator[None]:
    """Attribute an error in a step to the user-defined passes that changed the program before.

    Raises BadPass, which names both. Without such passes it raises an InternalFault that names the
    step.
    """
    try:
        yield
    except Exception as problem:
        is_reported = isinstance(problem, IronworksError | OSError)
        if is_reported and not (own and isinstance(problem, KernelCompileError | VerifyError)):
            raise
        if not own:
            raise fault(problem, f"the step {step!r}") from problem
        names = ", ".join(map(repr, own))
        raise BadPass(
            f"{step!r} cannot run on the result of the pass {names}: {describe_error(problem)}",
            where=own[-1],
            try_="compile with check=True, or without the pass",
        ) from problem


class _Broken(Exception):
    """A fault of a pass's result: the end of a sentence that begins with the pass."""


def _fail(words: str) -> NoReturn:
    raise _Broken(words)


def _check(before: Program, after: Any) -> None:
    if not isinstance(after, Program):
        _fail(f"returned {with_article(type(after).__name__)}, not a Program")
    _check_parts(after)
    if after.stage != before.stage:
        _fail(f"returned a program at stage {after.stage.title}, not {before.stage.title}")
    _check_signature(before, after)
    _check_rest(before, after)
    _check_decisions(before.decisions, after.decisions)
    problem = _verify_error(after)
    if problem and not _verify_error(before):
        raise _Broken(
            f"returned a program that is not well formed: {describe_error(problem)}"
        ) from problem


def _check_parts(p: Program) -> None:
    """Check the declared types of all parts that later steps rely on."""
    _check_each(p.functions, Function, "functions")
    if not p.functions:
        _fail("returned a program without functions")
    for f in p.functions:
        _check_each(f.body, Binding, f"the body of {f.name!r}")
        for vars_ in (f.params, f.outputs):
            _check_each(vars_, Var, f"the parameters and outputs of {f.name!r}")
        for b in f.body:
            _check_each(b.vars, Var, f"a binding of {f.name!r}")
            if not b.vars or not isinstance(b.expr, get_args(Expr)):
                _fail(f"binds {with_article(type(b.expr).__name__)} in {f.name!r}")
            if isinstance(b.expr, OpCall):
                _check_operator(b.expr, b.vars[0].name)
            if not isinstance(b.origin, frozenset):
                _fail(f"returned an origin of {b.vars[0].name!r} that is no frozenset")
    if not isinstance(p.constants, Mapping):
        _fail("returned constants that are no mapping")
    _check_each(tuple(p.constants.values()), Constant, "the constants")
    for value, kind in ((p.env, ShapeEnv), (p.decisions, Decisions), (p.stage, Stage)):
        if not isinstance(value, kind):
            _fail(f"returned {with_article(type(value).__name__)} instead of a {kind.__name__}")


def _check_operator(call: OpCall, name: str) -> None:
    """Check the declared types of the parts of an operator."""
    if not isinstance(call.args, tuple):
        _fail(f"returned {a(call.args)} where the arguments of {name!r} are a tuple of Var")
    for arg in call.args:
        if arg is not None and not isinstance(arg, Var):
            _fail(f"returned {a(arg)} as an argument of {name!r}, which is a Var or None")
    pairs = call.attrs if isinstance(call.attrs, tuple) else (call.attrs,)
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)):
            _fail(
                f"returned {shown(call.attrs)} where the attributes of {name!r} are a tuple of "
                'pairs: (("axis", 1),)'
            )


KINDS: Mapping[str, type] = {
    "algorithms": AlgorithmDecision,
    "tilings": TilingDecision,
    "products": ProductsDecision,
    "control": ControlDecision,
}


def _check_decisions(before: Decisions, after: Decisions) -> None:
    """Check the declared types of decisions, which later systems and pictures rely on."""
    for name, kind in KINDS.items():
        _check_each(getattr(after, name), kind, name)
    for name, options in (("tasks", TaskTree), ("tile_graph", TileGraph)):
        decision = getattr(after, name)
        if decision is not None and not isinstance(decision, options):
            _fail(f"returned {with_article(type(decision).__name__)} as {name}")
    for name in ("grinder", "rammer", "memory", "dispatch", "workspaces", "fusion", "order"):
        old, new = getattr(before, name), getattr(after, name)
        if type(new) is not type(old):
            _fail(f"returned {with_article(type(new).__name__)} as decisions of {name}")


def _check_each(values: Any, kind: type, where: str) -> None:
    flat = isinstance(values, tuple)
    wrong = [v for v in values if not isinstance(v, kind)] if flat else [values]
    if wrong:
        wrong_type = with_article(type(wrong[0]).__name__)
        _fail(f"returned {wrong_type} where {where} are a tuple of {kind.__name__}")


def _check_signature(before: Program, after: Program) -> None:
    """Check that a pass changes neither the inputs nor the outputs of a model."""
    old, new = before.main, after.main
    if new.name != old.name:
        _fail(f"returned {new.name!r} as the main function, not {old.name!r}")
    if new.params != old.params:
        _fail(
            f"changed the inputs from ({_format_vars(old.params)}) to ({_format_vars(new.params)})"
        )
    fits = len(old.outputs) == len(new.outputs) and all(
        same(a.type, b.type, before.env) for a, b in zip(old.outputs, new.outputs)
    )
    if not fits or new.output_names != old.output_names:
        _fail(
            f"changed the outputs from ({_format_vars(old.outputs)}) "
            f"to ({_format_vars(new.outputs)})"
        )


def _format_vars(vars: Sequence[Var], most: int = 6) -> str:
    shown = [f"{v.name}: {print_type(v.type)}" for v in vars[:most]]
    return ", ".join((*shown, "…") if len(vars) > most else shown)


def _check_rest(before: Program, after: Program) -> None:
    if after.sources != before.sources:
        _fail("changed the list of source operators, which is the model's")
    symbols = {s.name: s for s in after.env.symbols}
    for symbol in before.env.symbols:
        if symbols.get(symbol.name) != symbol:
            _fail(f"changed the bounds of the symbol {symbol.name!r}")
    if before.stage > Stage.ROLLED and after.functions != before.functions:
        _fail(
            f"changed kernels at stage {before.stage.title}: they are compiled as they were tiled; "
            "run the pass after an earlier step"
        )


def _verify_error(program: Program) -> Exception | None:
    try:
        verify(program)
    except Exception as problem:  # checking a broken program may raise anything
        return problem
    return None
