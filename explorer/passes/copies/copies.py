"""Views and copies folded into the kernels beside them: no kernel only moves what another could
read or write in place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, Var, View
from explorer.ir.kernel import Kernel, reads
from explorer.ir.kernels.in_place import written_over
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import simplify
from explorer.ir.symbols import are_defined, definitions, needed_by
from explorer.passes.copies.copy_maps import AffineMap, CopyMap, ViewMap, copy_map
from explorer.passes.copies.fold_into import (
    MaySplit,
    is_elementwise,
    never,
    read_through,
    store_through,
    where_free,
)
from explorer.passes.copies.index_maps import linear
from explorer.passes.copies.joined_slices import join_slices
from explorer.passes.copies.row_views import renames_rows, rows_apart, without_units
from explorer.passes.copies.runs_of_rows import slices_of_runs
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.rewrite_trace import is_recorded, matched


@compiler_pass(
    "copies", paper="Relax: Lai et al., ASPLOS 2025, section 4.2 (fusion of layout rewrites)"
)
def fold_copies(program: Program) -> Program:
    """After: a transpose is a permuted load or store wherever its neighbour can make it one.

    `t = T(x); y = f(t)` becomes `y[i, j] = f(x[j, i])`; `t = f(x); y = T(t)` becomes `y[j, i] =
    f(x[i, j])`. A view stays where nothing moves. What is left of a chain of copies is one kernel.
    """
    functions = tuple(_Folder(program, f).folded() for f in program.functions)
    return program if functions == program.functions else replace(program, functions=functions)


class _Folder:
    """The bindings of one function while copies disappear from it."""

    def __init__(self, program: Program, function: Function) -> None:
        self.program, self.function, self.env = program, function, program.env
        outputs = {v.name for v in function.outputs}
        joined = join_slices(function.body, self.env)
        steps = slices_of_runs(joined, outputs, self.env)
        body = [step for b in steps for step in rows_apart(b)]
        self.place = {b.vars[0].name: n for n, b in enumerate(body)}  # of what is there, in order
        self.bindings = {b.vars[0].name: b for b in body}
        self.outputs = outputs
        self.uses = Counter(v.name for b in body for v in b.reads)
        self.stored: set[str] = set()  # kernels whose store took a copy in
        self.over = written_over(body)  # nothing else may be read where these lie
        self.defined = definitions(body)

    def folded(self) -> Function:
        """The function after all sweeps."""
        for name in self._order():
            self._into_rows(name)
        for name in self._order():
            self._join_copies(name)
        for name in self._order():
            self._into_readers(name)
        for name in self._order():
            self._into_store(name, where_free)
        for name in self._order():
            self._as_view(name)
        body = tuple(self._live())
        return self.function if body == self.function.body else replace(self.function, body=body)

    def _order(self) -> list[str]:
        return sorted(self.place, key=self.place.__getitem__)

    def _live(self) -> list[Binding]:
        """All bindings but the copies that nothing reads any more."""
        live, kept = set(self.outputs), list[Binding]()
        for name in reversed(self._order()):
            binding = self.bindings[name]
            if copy_map(binding) and name not in live and name not in self.outputs:
                matched(_Folder._live, (binding,), ())
                continue
            kept.append(binding)
            live |= {v.name for v in binding.reads}
        return kept[::-1]

    # Sweep 1: chains of copies become one, and go into the store of a kernel that need not change.

    def _join_copies(self, name: str) -> None:
        binding = self.bindings.get(name)
        found = None if binding is None else copy_map(binding)
        if binding is None or found is None:
            return
        if isinstance(binding.expr, KernelCall):
            self._through_args(binding.vars[0].name, never)
        self._into_store(name, never)

    def _into_rows(self, name: str) -> None:
        """A view that only names rows anew is the shape that a kernel writes: `[b * s, n]` as `[b,
        s, n]`.
        """
        binding = self.bindings.get(name)
        found = None if binding is None else copy_map(binding)
        if found is None or not isinstance(found[1], ViewMap):
            return
        if renames_rows(found[1].result, found[1].source):
            self._into_store(name, where_free, rows=True)

    def _into_store(self, name: str, may_split: MaySplit, *, rows: bool = False) -> None:
        binding = self.bindings.get(name)
        found = None if binding is None else copy_map(binding)
        if binding is None or found is None:
            return
        source, copy = found
        producer = self.bindings.get(source.name)
        if producer is None or not isinstance(producer.expr, KernelCall):
            return
        if self.uses[source.name] != 1 or source.name in self.outputs:
            return
        if isinstance(copy, ViewMap) and not rows:
            joins = copy_map(producer) is not None or source.name in self.stored
            if not joins or renames_rows(copy.source, copy.result):
                return
        new = store_through(producer.expr, binding.var, copy, self.env, may_split, binding.origin)
        if new is not None:
            self._take_over(producer, binding, new)

    def _take_over(self, producer: Binding, copy: Binding, call: KernelCall) -> None:
        """The producer binds what the copy bound, unless a symbol of that is defined later."""
        old, new = producer.var.name, copy.var.name
        both = Binding(copy.vars, call, producer.origin | copy.origin)
        if not are_defined(needed_by(both), self.defined, self.place[old]):
            return
        matched(store_through, (producer, copy), (both,))
        self.bindings[new] = both
        del self.bindings[old]
        self.place[new] = self.place.pop(old)
        self.stored.add(new)

    # Sweep 2: kernels read the source of what was copied for them.

    def _into_readers(self, name: str) -> None:
        binding = self.bindings.get(name)
        if binding is not None and isinstance(binding.expr, KernelCall):
            self._through_args(name, where_free)

    def _through_args(self, name: str, may_split: MaySplit) -> None:
        changed = True
        while changed:
            changed = False
            call = self.bindings[name].kernel_call
            for place in range(len(call.args)):
                new = self._chain(call, place, may_split)
                if new is not None:
                    self._replace(name, *new)
                    changed = True
                    break

    def _chain(
        self, call: KernelCall, place: int, may_split: MaySplit
    ) -> tuple[KernelCall, frozenset[str]] | None:
        """The call with an argument read at the far end of a chain of copies, as far as that is of
        use.
        """
        best: tuple[KernelCall, frozenset[str]] | None = None
        origin: frozenset[str] = frozenset()
        passed_copy = False
        name = call.kernel.inputs[place]
        while True:
            binding = self.bindings.get(call.args[place].name)
            found = None if binding is None else copy_map(binding)
            if binding is None or found is None:
                return best
            source, copy = found
            if source.name in self.over:
                return best
            allowed = (
                never
                if isinstance(copy, ViewMap) and not passed_copy and not self._moves(source)
                else may_split
            )
            constant = source.name in self.program.constants
            new = read_through(
                call, place, source, copy, self.env, allowed, binding.origin, constant
            )
            if new is None:
                return best
            origin |= binding.origin
            passed_copy |= isinstance(copy, AffineMap)
            plainer = _merged_terms(new, name) < _merged_terms(call, name)
            if passed_copy or plainer or self._helps(call.kernel, source, copy):
                best = (new, origin)
            if name not in new.kernel.inputs:
                return best
            call, place = new, new.kernel.inputs.index(name)

    def _moves(self, source: Var) -> bool:
        binding = self.bindings.get(source.name)
        return binding is not None and copy_map(binding) is not None

    def _helps(self, kernel: Kernel, source: Var, copy: CopyMap) -> bool:
        """Whether reading behind a mere view is of use: its reader can then be welded to the kernel
        behind.
        """
        producer = self.bindings.get(source.name)
        if producer is None or not isinstance(producer.expr, KernelCall):
            return False
        return is_elementwise(kernel) or without_units(copy.source) == without_units(copy.result)

    def _replace(self, name: str, call: KernelCall, origin: frozenset[str]) -> None:
        binding = self.bindings[name]
        self.uses.subtract(v.name for v in binding.reads)
        self.uses.update(v.name for v in call.args)
        after = replace(binding, expr=call, origin=binding.origin | origin)
        if is_recorded():
            matched(read_through, (*self._read_of(binding, call), binding), (after,))
        self.bindings[name] = after
        self._release(v.name for v in binding.reads)

    def _read_of(self, binding: Binding, call: KernelCall) -> tuple[Binding, ...]:
        """The copies that a kernel read through a chain of them, and reads no more."""
        kept, found = {v.name for v in call.args}, dict[str, Binding]()
        todo = [v.name for v in binding.reads]
        while todo:
            name = todo.pop()
            copy = self.bindings.get(name)
            if copy is not None and name not in kept and copy_map(copy) is not None:
                found[name] = copy
                todo += [v.name for v in copy.reads]
        return tuple(reversed(found.values()))

    def _release(self, names: Iterable[str]) -> None:
        """Copies that nothing reads any more no longer count as readers."""
        todo = list(names)
        while todo:
            name = todo.pop()
            binding = self.bindings.get(name)
            if (
                binding is None
                or self.uses[name] > 0
                or name in self.outputs
                or copy_map(binding) is None
            ):
                continue
            del self.bindings[name]
            del self.place[name]
            self.uses.subtract(v.name for v in binding.reads)
            todo += [v.name for v in binding.reads]

    # Sweep 4: a copy that keeps the order of memory is a view, and a view of a view is one view.

    def _view_of_source(self, binding: Binding, source: Var, copy: ViewMap) -> None:
        """A view of a view is a view of what that is of."""
        behind = self.bindings.get(source.name)
        if behind is not None and isinstance(behind.expr, View):
            view = View(behind.expr.arg, simplify(behind.expr.offset + copy.offset))
            origin = binding.origin | behind.origin
            after = replace(binding, expr=view, origin=origin)
            matched(_Folder._view_of_source, (behind, binding), (after,))
            self.bindings[binding.var.name] = after

    def _as_view(self, name: str) -> None:
        """A copy that keeps the order of memory moves nothing: it is a view."""
        binding = self.bindings.get(name)
        found = None if binding is None else copy_map(binding)
        if binding is None or found is None:
            return
        source, copy = found
        if name in self.over or source.name in self.over:
            return
        if isinstance(copy, ViewMap):
            self._view_of_source(binding, source, copy)
            return
        gone = {a.name for a in copy.axes if a.extent == 1}
        if copy.fill is not None:
            return
        start = linear(copy.index, copy.source).without(gone)
        if start.terms == linear(copy.pattern, copy.result).without(gone).terms:
            after = replace(binding, expr=View(source, start.const))
            matched(_Folder._as_view, (binding,), (after,))
            self.bindings[name] = after


def _merged_terms(call: KernelCall, name: str) -> int:
    """How many axes share a dim with others where a tensor is read."""
    found = [r.index for c in call.kernel.computes for r in reads(c.expr) if r.tensor == name]
    return sum(
        len(i.terms) - 1 for index in found for i in index if isinstance(i, Affine) and i.terms
    )
