"""Views and copies folded into the neighbouring kernels, which read or write in place.

A view that reshapes rows and columns at once is two views first: `[b, s, h, d]` as `[b, s, h * d]`
as `[b * s, h * d]`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, Var, View
from explorer.ir.dims import Dim, Shape, simplify
from explorer.ir.kernel import Kernel, reads
from explorer.ir.kernels.in_place import written_over
from explorer.ir.program import Binding, Function, Program
from explorer.ir.symbols import are_defined, definitions, needed_by
from explorer.ir.types import Tensor
from explorer.passes.registry import compiler_pass
from explorer.transforms.copies.fold_into import (
    MaySplit,
    is_elementwise,
    read_through,
    split_if_free,
    split_nowhere,
    store_through,
)
from explorer.transforms.copies.index_maps import (
    AffineMap,
    CopyMap,
    ViewMap,
    copy_map,
    linear,
    reshape_groups,
)
from explorer.transforms.copies.join_slices import flatten_row_slices, join_slices
from explorer.transforms.rewrite import is_recorded, record_match


@compiler_pass(
    "copies", paper="Relax: Lai et al., ASPLOS 2025, section 4.2 (fusion of layout rewrites)"
)
def fold_copies(program: Program) -> Program:
    """Fold copies into the kernels beside them.

    After: a transpose is a permuted load or store wherever a neighbour can perform it.
    `t = T(x); y = f(t)` becomes `y[i, j] = f(x[j, i])`; `t = f(x); y = T(t)` becomes `y[j, i] =
    f(x[i, j])`. A view stays if nothing moves. A remaining chain of copies is one kernel.
    """
    functions = tuple(_Folder(program, f).fold() for f in program.functions)
    return program if functions == program.functions else replace(program, functions=functions)


class _Folder:
    """The bindings of one function during the folding of its copies."""

    def __init__(self, program: Program, function: Function) -> None:
        """Join slices and index the bindings of a function."""
        self.program, self.function, self.env = program, function, program.env
        outputs = {v.name for v in function.outputs}
        joined = join_slices(function.body, self.env)
        steps = flatten_row_slices(joined, outputs, self.env)
        body = [step for b in steps for step in split_row_view(b)]
        self.place = {
            b.vars[0].name: n for n, b in enumerate(body)
        }  # positions of the remaining bindings
        self.bindings = {b.vars[0].name: b for b in body}
        self.outputs = outputs
        self.uses = Counter(v.name for b in body for v in b.reads)
        self.stored: set[str] = set()  # kernels with a copy folded into their store
        self.over = written_over(body)  # no other value may be read from their memory
        self.defined = definitions(body)

    def fold(self) -> Function:
        """Return the function after all sweeps."""
        for name in self._names_in_order():
            self._fold_row_view(name)
        for name in self._names_in_order():
            self._join_copies(name)
        for name in self._names_in_order():
            self._fold_into_readers(name)
        for name in self._names_in_order():
            self._fold_into_store(name, split_if_free)
        for name in self._names_in_order():
            self._replace_by_view(name)
        body = tuple(self._live_bindings())
        return self.function if body == self.function.body else replace(self.function, body=body)

    def _names_in_order(self) -> list[str]:
        return sorted(self.place, key=self.place.__getitem__)

    def _live_bindings(self) -> list[Binding]:
        """Return all bindings but copies without readers."""
        live, live_body = set(self.outputs), list[Binding]()
        for name in reversed(self._names_in_order()):
            binding = self.bindings[name]
            if copy_map(binding) and name not in live and name not in self.outputs:
                record_match(_Folder._live_bindings, (binding,), ())
                continue
            live_body.append(binding)
            live |= {v.name for v in binding.reads}
        return live_body[::-1]

    # Sweep 1: merge chains of copies, and fold them into stores that need no split.

    def _join_copies(self, name: str) -> None:
        binding = self.bindings.get(name)
        copy = None if binding is None else copy_map(binding)
        if binding is None or copy is None:
            return
        if isinstance(binding.expr, KernelCall):
            self._fold_args(binding.vars[0].name, split_nowhere)
        self._fold_into_store(name, split_nowhere)

    def _fold_row_view(self, name: str) -> None:
        """Fold a view that only splits or merges rows into its producer.

        `[b * s, n]` becomes `[b, s, n]`, for example.
        """
        binding = self.bindings.get(name)
        copy = None if binding is None else copy_map(binding)
        if copy is None or not isinstance(copy[1], ViewMap):
            return
        if renames_rows(copy[1].result, copy[1].source):
            self._fold_into_store(name, split_if_free, rows=True)

    def _fold_into_store(self, name: str, may_split: MaySplit, *, rows: bool = False) -> None:
        binding = self.bindings.get(name)
        mapped = None if binding is None else copy_map(binding)
        if binding is None or mapped is None:
            return
        source, copy = mapped
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
        """Let the producer bind the copy's result, unless a symbol of it is defined later."""
        old, new = producer.var.name, copy.var.name
        both = Binding(copy.vars, call, producer.origin | copy.origin)
        if not are_defined(needed_by(both), self.defined, self.place[old]):
            return
        record_match(store_through, (producer, copy), (both,))
        self.bindings[new] = both
        del self.bindings[old]
        self.place[new] = self.place.pop(old)
        self.stored.add(new)

    # Sweep 2: let kernels read the source of a copy.

    def _fold_into_readers(self, name: str) -> None:
        binding = self.bindings.get(name)
        if binding is not None and isinstance(binding.expr, KernelCall):
            self._fold_args(name, split_if_free)

    def _fold_args(self, name: str, may_split: MaySplit) -> None:
        changed = True
        while changed:
            changed = False
            call = self.bindings[name].kernel_call
            for place in range(len(call.args)):
                new = self._fold_chain(call, place, may_split)
                if new is not None:
                    self._replace_call(name, *new)
                    changed = True
                    break

    def _fold_chain(
        self, call: KernelCall, place: int, may_split: MaySplit
    ) -> tuple[KernelCall, frozenset[str]] | None:
        """Let a call read an argument at the far end of a chain of copies, as far as that helps."""
        best: tuple[KernelCall, frozenset[str]] | None = None
        origin: frozenset[str] = frozenset()
        passed_copy = False
        name = call.kernel.inputs[place]
        while True:
            binding = self.bindings.get(call.args[place].name)
            mapped = None if binding is None else copy_map(binding)
            if binding is None or mapped is None:
                return best
            source, copy = mapped
            if source.name in self.over:
                return best
            allowed = (
                split_nowhere
                if isinstance(copy, ViewMap) and not passed_copy and not self._is_copy(source)
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
            plainer = _count_merged_terms(new, name) < _count_merged_terms(call, name)
            if passed_copy or plainer or self._enables_fusion(call.kernel, source, copy):
                best = (new, origin)
            if name not in new.kernel.inputs:
                return best
            call, place = new, new.kernel.inputs.index(name)

    def _is_copy(self, source: Var) -> bool:
        binding = self.bindings.get(source.name)
        return binding is not None and copy_map(binding) is not None

    def _enables_fusion(self, kernel: Kernel, source: Var, copy: CopyMap) -> bool:
        """Return True if reading behind a pure view allows fusion with the kernel behind it."""
        producer = self.bindings.get(source.name)
        if producer is None or not isinstance(producer.expr, KernelCall):
            return False
        return is_elementwise(kernel) or without_units(copy.source) == without_units(copy.result)

    def _replace_call(self, name: str, call: KernelCall, origin: frozenset[str]) -> None:
        binding = self.bindings[name]
        self.uses.subtract(v.name for v in binding.reads)
        self.uses.update(v.name for v in call.args)
        after = replace(binding, expr=call, origin=binding.origin | origin)
        if is_recorded():
            record_match(read_through, (*self._bypassed_copies(binding, call), binding), (after,))
        self.bindings[name] = after
        self._release(v.name for v in binding.reads)

    def _bypassed_copies(self, binding: Binding, call: KernelCall) -> tuple[Binding, ...]:
        """Return the copies that a kernel read through a chain and no longer reads."""
        still_read, copies = {v.name for v in call.args}, dict[str, Binding]()
        todo = [v.name for v in binding.reads]
        while todo:
            name = todo.pop()
            copy = self.bindings.get(name)
            if copy is not None and name not in still_read and copy_map(copy) is not None:
                copies[name] = copy
                todo += [v.name for v in copy.reads]
        return tuple(reversed(copies.values()))

    def _release(self, names: Iterable[str]) -> None:
        """Remove copies without readers from the counts of uses."""
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

    # Sweep 4: replace copies that keep the memory order by views, and merge views of views.

    def _merge_views(self, binding: Binding, source: Var, copy: ViewMap) -> None:
        """Replace a view of a view by one view."""
        behind = self.bindings.get(source.name)
        if behind is not None and isinstance(behind.expr, View):
            view = View(behind.expr.arg, simplify(behind.expr.offset + copy.offset))
            origin = binding.origin | behind.origin
            after = replace(binding, expr=view, origin=origin)
            record_match(_Folder._merge_views, (behind, binding), (after,))
            self.bindings[binding.var.name] = after

    def _replace_by_view(self, name: str) -> None:
        """Replace a copy that keeps the memory order by a view."""
        binding = self.bindings.get(name)
        mapped = None if binding is None else copy_map(binding)
        if binding is None or mapped is None:
            return
        source, copy = mapped
        if name in self.over or source.name in self.over:
            return
        if isinstance(copy, ViewMap):
            self._merge_views(binding, source, copy)
            return
        gone = {a.name for a in copy.axes if a.extent == 1}
        if copy.fill is not None:
            return
        start = linear(copy.index, copy.source).without(gone)
        if start.terms == linear(copy.pattern, copy.result).without(gone).terms:
            after = replace(binding, expr=View(source, start.const))
            record_match(_Folder._replace_by_view, (binding,), (after,))
            self.bindings[name] = after


def _count_merged_terms(call: KernelCall, name: str) -> int:
    """Return how many axes share a dim with others where a tensor is read."""
    indices = [r.index for c in call.kernel.computes for r in reads(c.expr) if r.tensor == name]
    return sum(
        len(i.terms) - 1 for index in indices for i in index if isinstance(i, Affine) and i.terms
    )


def split_row_view(binding: Binding) -> tuple[Binding, ...]:
    """Split a view that reshapes rows and columns at once into two views.

    `[b, s, h, d]` as `[b, s, h * d]` as `[b * s, h * d]`, and vice versa.
    """
    mapped = copy_map(binding)
    if mapped is None or not isinstance(mapped[1], ViewMap) or mapped[1].offset != 0:
        return (binding,)
    source, copy = mapped
    groups = reshape_groups(copy.source, copy.result)
    if len(groups) < 2 or not isinstance(binding.var.type, Tensor):
        return (binding,)
    (first, into), *_ = groups
    merges = len(into) == 1 < len(without_units(copy.source[: first.stop]))
    splits = len(first) == 1 < len(without_units(copy.result[: into.stop]))
    trailing = (copy.source[first.stop :], copy.result[into.stop :])
    if not (merges or splits) or without_units(trailing[0]) == without_units(trailing[1]):
        return (binding,)
    rows = copy.source[: first.stop] if merges else copy.result[: into.stop]
    columns = trailing[1] if merges else trailing[0]
    between = Var(f"{binding.var.name}.rows", replace(binding.var.type, shape=(*rows, *columns)))
    both = (
        Binding((between,), View(source), binding.origin),
        replace(binding, expr=View(between)),
    )
    record_match(split_row_view, (binding,), both)
    return both


def renames_rows(apart: Shape, merged: Shape) -> bool:
    """Return True if the leading dims of one shape are one dim of the other and the last stays."""
    groups = reshape_groups(apart, merged)
    if not groups or apart[-1:] != merged[-1:] or len(apart) <= len(merged):
        return False
    first, into = groups[0]
    return sum(apart[d] != 1 for d in first) > 1 and len(into) == 1


def without_units(shape: Shape) -> list[Dim]:
    """Return the extents that are not 1."""
    return [n for n in shape if n != 1]
