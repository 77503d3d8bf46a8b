"""In-place updates of tensors whose old value is dead.

For example, the key and value cache of a decoder, a loop-carried value, is not copied every trip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

from explorer.grinder.host import analyse_host, followed_functions
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
from explorer.ir.kernels.scatter import patched
from explorer.ir.program import Binding, Function, Program
from explorer.passes.registry import compiler_pass


@compiler_pass("update in place", paper="Relax: Lai et al., ASPLOS 2025 (call_tir_inplace)")
@dataclass(frozen=True, slots=True)
class UpdateInPlace:
    """Let kernels that change a part of a tensor overwrite it, where its old value is dead.

    The tensor must be a value of the function's own, the state of a loop, or a `donated` input of
    the program. `y = where(i = t, u, x)` becomes the same kernel with y in the memory of x.
    """

    donated: tuple[str, ...] = ()

    def __call__(self, program: Program) -> Program:
        """Return the program with its kernels in place."""
        return _FunctionUpdates(program).run(self.donated)


class _FunctionUpdates:
    """Update of functions, callers first, with the parameters that each may overwrite."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.dynamic = _host_functions(program)
        self.callers = Counter(n for _, b in program.bindings() for n in b.calls)
        self.result_roots: dict[str, tuple[str, ...]] = {}  # root of each result of a function

    def run(self, donated: Collection[str]) -> Program:
        self.function(self.program.main.name, donated)
        return self.program

    def function(self, name: str, owned: Collection[str]) -> None:
        """Update a function, which may overwrite the parameters `owned`."""
        if name in self.result_roots:
            return
        function = self.program.function(name)
        # assumed while a recursive function is visited
        self.result_roots[name] = tuple(v.name for v in function.outputs)
        mine = _ValueRoots(self, function, owned if name not in self.dynamic else ())
        body = tuple(mine.binding(n, b) for n, b in enumerate(function.body))
        self.result_roots[name] = tuple(mine.root.get(v.name, v.name) for v in function.outputs)
        if body != function.body:
            self.program = self.program.with_function(replace(function, body=body))


class _ValueRoots:
    """The roots of a function's values, while its bindings are visited in order."""

    def __init__(
        self, owners: _FunctionUpdates, function: Function, owned: Collection[str]
    ) -> None:
        self.owners, self.function = owners, function
        self.root: dict[str, str] = {}
        self.free = set(owned)  # roots that may be overwritten
        self.is_static = function.name not in owners.dynamic
        self.last: dict[str, int] = {}
        for n, b in enumerate(function.body):
            self.last |= {v.name: n for v in b.reads}
        self.last |= {v.name: len(function.body) for v in function.outputs}

    def root_of(self, var: Var) -> str:
        return self.root.get(var.name, var.name)

    def binding(self, n: int, b: Binding) -> Binding:
        """Return the binding, in place where possible, and record the roots of its values."""
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
        in_place = self._update_in_place(n, b)
        call = b.kernel_call if in_place is None else in_place
        over = {var.name: self.root_of(arg) for var, arg in updates_of(call, b.vars)}
        self.root |= over
        if self.is_static:
            self.free |= {v.name for v in b.vars if v.name not in over}
        return b if in_place is None else replace(b, expr=in_place)

    def _update_in_place(self, n: int, b: Binding) -> KernelCall | None:
        """Return the call with its result in the memory of the tensor that it changes a part of."""
        call = b.kernel_call
        kernel = call.kernel
        if kernel.updates or len(kernel.outputs) > 1 or kernel.computes[-1].out != kernel.output:
            return None
        patch = patched(kernel, kernel.computes[-1])
        if patch is None or [c.out for c in kernel.computes].count(kernel.output) > 1:
            return None
        arg = call.args[kernel.inputs.index(patch.base)]
        same = arg.type == b.var.type and patch.base not in kernel.constants
        if not same or read_after(kernel, kernel.output, patch.base):
            return None
        if not self.is_last(n, arg, call.args):
            return None
        return replace(call, kernel=replace(kernel, updates=((kernel.output, patch.base),)))

    def is_last(self, n: int, arg: Var, args: tuple[Var, ...]) -> bool:
        """Return True if a binding may overwrite an argument.

        Nothing else may read its memory, then or later.
        """
        root = self.root_of(arg)
        names = {root, *(name for name, r in self.root.items() if r == root)}
        if root not in self.free or sum(a.name in names for a in args) > 1:
            return False
        return all(self.last.get(name, -1) <= n for name in names)

    def branch(self, n: int, b: Binding, e: Branch) -> None:
        """Update both arms, and record the roots of the results.

        Arms may overwrite dead arguments; a result that is the same argument in both arms has that
        argument's root.
        """
        arms = [self.owners.program.function(name) for name in (e.then, e.orelse)]
        for arm in arms:
            alone = self.owners.callers[arm.name] == 1 and e.then != e.orelse
            pairs = zip(arm.params, e.args, strict=True)
            owned = {p.name for p, a in pairs if alone and self.is_last(n, a, e.args)}
            self.owners.function(arm.name, owned)
        for k, var in enumerate(b.vars):
            then_root, else_root = (
                self.outer_root(
                    arm_function, self.owners.result_roots[arm_function.name][k], e.args
                )
                for arm_function in arms
            )
            if then_root == else_root:
                self.root[var.name] = then_root
            else:
                self.free.add(var.name)

    def outer_root(self, arm: Function, root: str, args: tuple[Var, ...]) -> str:
        """Return the root outside of an arm: that of an argument, or the constant itself."""
        pairs = zip(arm.params, args, strict=True)
        return next((self.root_of(a) for p, a in pairs if p.name == root), root)


def _host_functions(program: Program) -> frozenset[str]:
    """Return the functions that the host steps through.

    Python holds the values that lie between two of their steps.
    """
    host = analyse_host(program)
    followed = followed_functions(program, host)
    return followed if program.main.name in host.dynamic else followed - {program.main.name}
