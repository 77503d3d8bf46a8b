"""A pass of the user's own: what it gives is verified; what is wrong is told in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NoReturn, get_args

from explorer.errors import (
    BadPass,
    Cancelled,
    IronworksError,
    KernelCompileError,
    VerifyError,
    fault,
)
from explorer.ir.calls import Expr, Var
from explorer.ir.decisions.algorithms import AlgorithmDecision, ProductsDecision
from explorer.ir.decisions.control import ControlDecision, TaskTree
from explorer.ir.decisions.decided import Decisions
from explorer.ir.decisions.tile_graph import TileGraph
from explorer.ir.decisions.tiling import TilingDecision
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.stage import Stage
from explorer.ir.text.text_tokens import print_type
from explorer.ops.reference.cancellation import while_wanted
from explorer.ops.reference.verify import same, verify
from explorer.sandbox.helper import Ended, Limits, in_helper, is_helper
from explorer.sandbox.line import at_line

Judge = Callable[[Program], str]
LONGEST_CHARACTERS = 300  # of what somebody else's code says; chosen


@dataclass(frozen=True, slots=True)
class OwnPass:
    """A user's pass under its name. `judge` says what else is wrong with a program at this place,
    empty where nothing is. BadPass where it raises, gives no program, or one that is not
    well formed at its stage, has lost source operators or takes or gives something else.

    It is run in a helper process first: BadPass where it takes more than `limits` there, or
    crashes. None: it is not.
    """

    name: str
    run: Callable[[Program], Program]
    paper: str = ""
    judge: Judge | None = None
    limits: Limits | None = Limits()

    @property
    def promise(self) -> str:
        """The first line of what the pass says of itself."""
        return (self.run.__doc__ or "").strip().partition("\n")[0]

    def __call__(self, program: Program) -> Program:
        """What the pass makes of a program. It sees constants that it cannot put others among."""
        given = replace(program, constants=MappingProxyType(program.constants))
        try:
            with while_wanted(f"the pass {self.name!r}"):
                self._try_out(given)
                after = self.run(given)
        except (Cancelled, _Unsafe):
            raise
        except (Exception, SystemExit) as problem:  # a user's code may raise anything
            raise BadPass(
                f"the pass {self.name!r} failed: {said(problem)}{at_line(problem)}",
                where=self.name,
            ) from problem
        if after is given:
            return program
        try:
            _check(program, after)
            if self.judge is not None and (why := self.judge(after)):
                _broken(f"gave a program that cannot be compiled: {why}")
        except _Broken as broken:
            raise self._refused(str(broken)) from broken.__cause__
        except Exception as problem:  # nor need what it gave be anything that can be looked at
            raise self._refused(f"gave what is no program: {said(problem)}") from problem
        return replace(after, constants=dict(after.constants))

    def _try_out(self, given: Program) -> None:
        """Raises BadPass where it takes too much, or its process dies. What it raises itself, it
        raises here again.
        """
        if self.limits is None or is_helper():
            return
        try:
            in_helper(lambda tell: self._alone(given), self.limits)
        except Ended as ended:
            raise _Unsafe(
                f"the pass {self.name!r} {ended.why}: it ran in a helper process, and was ended",
                where=self.name,
                expected=f"at most {self.limits.seconds:g} s and {self.limits.mib:,} MiB",
                try_="@explorer.compiler_pass(..., seconds=60, mib=4096) where it needs more",
            ) from None

    def _alone(self, given: Program) -> None:
        try:
            self.run(given)
        except MemoryError:
            raise
        except (Exception, SystemExit):  # a user's code may raise anything
            pass

    def _refused(self, words: str) -> BadPass:
        return BadPass(
            f"the pass {self.name!r} {words}",
            where=self.name,
            expected="a sound program of the same stage, inputs and outputs",
        )


def said(problem: BaseException) -> str:
    """An error of somebody else's code in a few words."""
    if isinstance(problem, IronworksError):
        return problem.sentence
    words = " ".join(str(problem).split())
    kind = type(problem).__name__
    return (
        f"{kind}: {words[:LONGEST_CHARACTERS]}{'…' if len(words) > LONGEST_CHARACTERS else ''}"
        if words
        else kind
    )


@contextmanager
def blaming(step: str, own: Sequence[str]) -> Iterator[None]:
    """What breaks in a step after passes of the user's own have changed the program is laid to
    them: BadPass names both. Without such passes it is an InternalFault that names the step.
    """
    try:
        yield
    except Exception as problem:
        said_already = isinstance(problem, IronworksError | OSError)
        if said_already and not (own and isinstance(problem, KernelCompileError | VerifyError)):
            raise
        if not own:
            raise fault(problem, f"the step {step!r}") from problem
        names = ", ".join(map(repr, own))
        raise BadPass(
            f"{step!r} cannot go on from what the pass {names} made: {said(problem)}",
            where=own[-1],
            try_="compile with check=True, or without the pass",
        ) from problem


class _Unsafe(BadPass):
    """What a helper process told of a pass."""


class _Broken(Exception):
    """What is wrong with a pass's result: the end of a sentence that begins with the pass."""


def _broken(words: str) -> NoReturn:
    raise _Broken(words)


def _check(before: Program, after: Any) -> None:
    if not isinstance(after, Program):
        _broken(f"gave {article(type(after).__name__)}, not a Program")
    _check_parts(after)
    if after.stage != before.stage:
        _broken(f"made the stage {after.stage.name}, and it stands at {before.stage.name}")
    _check_signature(before, after)
    _check_rest(before, after)
    _check_decisions(before.decisions, after.decisions)
    problem = _malformed(after)
    if problem and not _malformed(before):
        raise _Broken(f"gave a program that is not well formed: {said(problem)}") from problem


def _check_parts(p: Program) -> None:
    """Everything is of the type that it is declared to be, as far as others rely on it blindly."""
    _each(p.functions, Function, "functions")
    if not p.functions:
        _broken("gave a program without functions")
    for f in p.functions:
        _each(f.body, Binding, f"the body of {f.name!r}")
        for vars_ in (f.params, f.outputs):
            _each(vars_, Var, f"the parameters and outputs of {f.name!r}")
        for b in f.body:
            _each(b.vars, Var, f"a binding of {f.name!r}")
            if not b.vars or not isinstance(b.expr, get_args(Expr)):
                _broken(f"binds {article(type(b.expr).__name__)} in {f.name!r}")
            if not isinstance(b.origin, frozenset):
                _broken(f"gave {b.vars[0].name!r} an origin that is no frozenset")
    if not isinstance(p.constants, Mapping):
        _broken("gave constants that are no mapping")
    _each(tuple(p.constants.values()), Constant, "the constants")
    for value, kind in ((p.env, ShapeEnv), (p.decisions, Decisions), (p.stage, Stage)):
        if not isinstance(value, kind):
            _broken(f"put {article(type(value).__name__)} where a {kind.__name__} belongs")


KINDS: Mapping[str, type] = {
    "algorithms": AlgorithmDecision,
    "tilings": TilingDecision,
    "products": ProductsDecision,
    "control": ControlDecision,
}


def _check_decisions(before: Decisions, after: Decisions) -> None:
    """Later rooms and pictures read decisions as what they are declared to be."""
    for name, kind in KINDS.items():
        _each(getattr(after, name), kind, name)
    for name, options in (("tasks", TaskTree), ("tile_graph", TileGraph)):
        found = getattr(after, name)
        if found is not None and not isinstance(found, options):
            _broken(f"put {article(type(found).__name__)} where the {name} belong")
    for name in ("grinder", "rammer", "memory", "dispatch", "workspaces", "fusion", "order"):
        old, new = getattr(before, name), getattr(after, name)
        if type(new) is not type(old):
            _broken(f"put {article(type(new).__name__)} where the decisions of {name} stand")


def _each(values: Any, kind: type, where: str) -> None:
    flat = isinstance(values, tuple)
    wrong = [v for v in values if not isinstance(v, kind)] if flat else [values]
    if wrong:
        found = article(type(wrong[0]).__name__)
        _broken(f"put {found} where {where} are a tuple of {kind.__name__}")


def article(name: str) -> str:
    """The name of a type, as a sentence has it."""
    return (
        "None" if name == "NoneType" else f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
    )


def _check_signature(before: Program, after: Program) -> None:
    """A pass changes how a model computes, and neither what it takes nor what it gives."""
    old, new = before.main, after.main
    if new.name != old.name:
        _broken(f"put {new.name!r} first, and {old.name!r} is what runs")
    if new.params != old.params:
        _broken(f"changed the inputs from ({_list(old.params)}) to ({_list(new.params)})")
    fits = len(old.outputs) == len(new.outputs) and all(
        same(a.type, b.type, before.env) for a, b in zip(old.outputs, new.outputs)
    )
    if not fits or new.output_names != old.output_names:
        _broken(f"changed the outputs from ({_list(old.outputs)}) to ({_list(new.outputs)})")


def _list(vars: Sequence[Var], most: int = 6) -> str:
    shown = [f"{v.name}: {print_type(v.type)}" for v in vars[:most]]
    return ", ".join((*shown, "…") if len(vars) > most else shown)


def _check_rest(before: Program, after: Program) -> None:
    if after.sources != before.sources:
        _broken("changed the list of source operators, which is the model's")
    known = {s.name: s for s in after.env.symbols}
    for symbol in before.env.symbols:
        if known.get(symbol.name) != symbol:
            _broken(f"changed what is known of the symbol {symbol.name!r}")
    if before.stage > Stage.ROLLED and after.functions != before.functions:
        _broken(
            f"changed kernels at stage {before.stage.name}: they are compiled as they were rolled; "
            "put it after a step before"
        )


def _malformed(program: Program) -> Exception | None:
    try:
        verify(program)
    except Exception as problem:  # what checking a broken program meets is anybody's guess
        return problem
    return None
