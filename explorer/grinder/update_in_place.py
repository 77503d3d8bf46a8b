"""A tensor of which a part is changed stays where it lies, where nothing reads the old one again:
the state of a loop, such as the cache of keys and values of a decoder, is not copied every trip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from explorer.grinder.host import followed_functions, host_of
from explorer.ir.calls import (
    Branch,
    FunctionCall,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    Var,
    View,
    updates_of,
)
from explorer.ir.kernels.in_place import read_after
from explorer.ir.patterns.patch import patched
from explorer.ir.program import Binding, Function, Program
from explorer.passes.pipeline.registry import compiler_pass


@compiler_pass("update in place", paper="Relax: Lai et al., ASPLOS 2025 (call_tir_inplace)")
def update_in_place(program: Program) -> Program:
    """After: a kernel that changes a part of a tensor writes over it, where that is a value of the
    function's own, or the state of a loop, and nothing reads it behind.

    `y = where(i = t, u, x)` becomes the same kernel with y in the memory of x.
    """
    return _Owners(program).done()


class _Owners:
    """Functions, callers first: whose memory each may write over."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.dynamic = _by_the_host(program)
        self.callers = Counter(n for _, b in program.bindings() for n in b.calls)
        self.given: dict[str, tuple[str, ...]] = {}  # for each result of a function, its root

    def done(self) -> Program:
        self.function(self.program.main.name, frozenset())
        return self.program

    def function(self, name: str, owned: Collection[str]) -> None:
        """The function, which may write over those parameters of it."""
        if name in self.given:
            return
        function = self.program.function(name)
        self.given[name] = tuple(v.name for v in function.outputs)  # of one that calls itself
        mine = _Memory(self, function, owned if name not in self.dynamic else ())
        body = tuple(mine.binding(n, b) for n, b in enumerate(function.body))
        self.given[name] = tuple(mine.root.get(v.name, v.name) for v in function.outputs)
        if body != function.body:
            self.program = self.program.with_function(replace(function, body=body))


class _Memory:
    """Where the values of a function lie: in which of them, as its bindings are gone through."""

    def __init__(self, owners: _Owners, function: Function, owned: Collection[str]) -> None:
        self.owners, self.function = owners, function
        self.root: dict[str, str] = {}
        self.free = set(owned)  # roots that may be written over
        self.is_static = function.name not in owners.dynamic
        self.last: dict[str, int] = {}
        for n, b in enumerate(function.body):
            self.last |= {v.name: n for v in b.reads}
        self.last |= {v.name: len(function.body) for v in function.outputs}

    def root_of(self, var: Var) -> str:
        return self.root.get(var.name, var.name)

    def binding(self, n: int, b: Binding) -> Binding:
        """The binding, in place where it can be; where its values lie is noted."""
        match b.expr:
            case View(arg) | MatchCast(arg):
                self.root[b.var.name] = self.root_of(arg)
            case KernelCall():
                b = self.kernel(n, b)
            case Loop() as loop:
                params = self.owners.program.function(loop.body).params[2 : 2 + len(loop.state)]
                alone = self.owners.callers[loop.body] == 1
                self.owners.function(loop.body, {p.name for p in params} if alone else ())
                self.free |= {v.name for v in b.vars}
            case Branch():
                self.branch(n, b, b.expr)
            case FunctionCall(name, args):
                self.owners.function(name, ())
                self.free -= {self.root_of(a) for a in args}
            case LibraryCall():
                pass
        return b

    def kernel(self, n: int, b: Binding) -> Binding:
        found = self._patched(n, b)
        call = b.kernel_call if found is None else found
        over = {var.name: self.root_of(arg) for var, arg in updates_of(call, b.vars)}
        self.root |= over
        if self.is_static:
            self.free |= {v.name for v in b.vars if v.name not in over}
        return b if found is None else replace(b, expr=found)

    def _patched(self, n: int, b: Binding) -> KernelCall | None:
        """The call with its result over the tensor that it changes a part of."""
        call = b.kernel_call
        kernel = call.kernel
        if kernel.updates or len(kernel.outputs) > 1 or kernel.computes[-1].out != kernel.output:
            return None
        found = patched(kernel, kernel.computes[-1])
        if found is None or [c.out for c in kernel.computes].count(kernel.output) > 1:
            return None
        arg = call.args[kernel.inputs.index(found.kept)]
        same = arg.type == b.var.type and found.kept not in kernel.constants
        if not same or read_after(kernel, kernel.output, found.kept):
            return None
        if not self.is_last(n, arg, call.args):
            return None
        return replace(call, kernel=replace(kernel, updates=((kernel.output, found.kept),)))

    def is_last(self, n: int, arg: Var, args: tuple[Var, ...]) -> bool:
        """Whether a binding may write over an argument: nothing else reads that memory then, nor
        behind.
        """
        root = self.root_of(arg)
        names = {root, *(name for name, r in self.root.items() if r == root)}
        if root not in self.free or sum(a.name in names for a in args) > 1:
            return False
        return all(self.last.get(name, -1) <= n for name in names)

    def branch(self, n: int, b: Binding, e: Branch) -> None:
        """Sides may write over what nothing reads behind; a result that is the same argument on
        both sides is that argument.
        """
        sides = [self.owners.program.function(name) for name in (e.then, e.orelse)]
        for side in sides:
            alone = self.owners.callers[side.name] == 1 and e.then != e.orelse
            pairs = zip(side.params, e.args, strict=True)
            owned = {p.name for p, a in pairs if alone and self.is_last(n, a, e.args)}
            self.owners.function(side.name, owned)
        for k, var in enumerate(b.vars):
            one, two = (self.outside(s, self.owners.given[s.name][k], e.args) for s in sides)
            if one == two:
                self.root[var.name] = one
            else:
                self.free.add(var.name)

    def outside(self, side: Function, root: str, args: tuple[Var, ...]) -> str:
        """What a root of a side is outside of it: an argument's, or a constant itself."""
        pairs = zip(side.params, args, strict=True)
        return next((self.root_of(a) for p, a in pairs if p.name == root), root)


def _by_the_host(program: Program) -> frozenset[str]:
    """The functions that the host goes through: what lies between two of its steps is a value that
    Python holds.
    """
    host = host_of(program)
    found = followed_functions(program, host)
    return found if program.main.name in host.dynamic else found - {program.main.name}
