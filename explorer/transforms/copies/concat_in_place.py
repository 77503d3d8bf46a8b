"""Concatenations without a copy: producers write their parts in place."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, Var
from explorer.ir.dims import Shape, ShapeEnv
from explorer.ir.kernel import Compute, Kernel, Read, TensorSpec, reads, rewrite
from explorer.ir.program import Binding, Function, Program
from explorer.ir.symbols import are_defined, definitions, needed_by
from explorer.ir.types import Tensor
from explorer.passes.registry import compiler_pass

SMALL_BYTES = 1 << 14  # smaller copies cost less than wider rows; chosen, unmeasured


@compiler_pass("concat in place", paper="Relax: Lai et al., ASPLOS 2025 (call_tir_inplace)")
def write_concats_in_place(program: Program) -> Program:
    """Write the operands of a concatenation in place.

    After: a value that only kernels read is written into the concatenation that it is a part of.
    `a = f(x); b = g(x); y = [a, b]` becomes `a = f(x) in y's shape; y = g(x) updating a`.
    """
    functions = tuple(_InPlace(f, program).rewrite() for f in program.functions)
    return program if functions == program.functions else replace(program, functions=functions)


@dataclass(frozen=True, slots=True)
class _Part:
    """One copied operand: its value, the compute that copies it, and its offset in each dim."""

    value: Var
    compute: Compute
    shift: tuple[Affine, ...]

    def is_rows_of(self, result: Var) -> bool:
        """Return True if the part's elements are contiguous in the concatenation."""
        if not isinstance(self.value.type, Tensor) or not isinstance(result.type, Tensor):
            return False
        return (
            self.value.type.shape is not None and self.value.type.dims[1:] == result.type.dims[1:]
        )


class _InPlace:
    """The bindings of one function, each in a slot; removed bindings leave an empty slot."""

    def __init__(self, function: Function, program: Program) -> None:
        """Index the bindings of a function."""
        self.function, self.env = function, program.env
        self.slots: list[Binding | None] = list(function.body)
        self.place = {b.vars[0].name: n for n, b in enumerate(function.body)}
        self.outputs = {v.name for v in function.outputs}
        self.readers: dict[str, set[int]] = {}
        self.defined = definitions(function.body)
        for n, b in enumerate(function.body):
            self._add_reader(n, b)

    def rewrite(self) -> Function:
        """Return the function with all possible concatenations in place, the last one first."""
        for binding in reversed(self.function.body):
            self._try_in_place(binding.vars[0].name)
        body = tuple(b for b in self.slots if b is not None)
        return self.function if body == self.function.body else replace(self.function, body=body)

    def _add_reader(self, n: int, binding: Binding) -> None:
        for v in binding.reads:
            self.readers.setdefault(v.name, set()).add(n)

    def _set_slot(self, n: int, binding: Binding | None) -> None:
        """Set or clear the binding in a slot."""
        old = self.slots[n]
        if old is not None:
            for v in old.reads:
                self.readers[v.name].discard(n)
            if self.place.get(old.vars[0].name) == n:
                del self.place[old.vars[0].name]
        self.slots[n] = binding
        if binding is not None:
            self._add_reader(n, binding)
            self.place[binding.vars[0].name] = n

    def _kernel_call(self, n: int) -> KernelCall | None:
        binding = self.slots[n]
        expr = None if binding is None else binding.expr
        return expr if isinstance(expr, KernelCall) else None

    def _try_in_place(self, name: str) -> None:
        at = self.place.get(name)
        if at is None or (call := self._kernel_call(at)) is None:
            return
        parts = _match_parts(call)
        free = self._in_place_parts(parts, at) if len(parts) > 1 else []
        if not free:
            return
        needed = needed_by(self._binding(at))
        if not are_defined(needed, self.defined, min(self.place[p.value.name] for p in free)):
            return
        producers = sorted({p.value.name for p in free}, key=self.place.__getitem__)
        if len(producers) != len(free):
            return
        start = next(iter(_updated_args(call)), None)
        if start is not None and self.place.get(start.name, 0) >= self.place[producers[0]]:
            return
        by_name = {p.value.name: p for p in free}
        self._rewrite(at, parts, [by_name[n] for n in producers], start)

    def _binding(self, n: int) -> Binding:
        binding = self.slots[n]
        assert binding is not None
        return binding

    def _in_place_parts(self, parts: list[_Part], at: int) -> list[_Part]:
        """Return the parts that can be written in place.

        Small parts qualify if they are contiguous in the result and some parts are stored for other
        readers anyway.
        """
        result = self._binding(at).var
        rows = [p.is_rows_of(result) for p in parts]
        others = (p for p, row in zip(parts, rows, strict=True) if row)
        stored = any(self.readers.get(p.value.name, set()) - {at} for p in others)
        pairs = zip(parts, rows, strict=True)
        return [
            p
            for p, row in pairs
            if self._can_be_in_place(p, at, result.tensor, small=stored and row)
        ]

    def _can_be_in_place(self, part: _Part, at: int, result: Tensor, *, small: bool) -> bool:
        """Return True if a kernel computes the part and only kernels read it, at affine indices."""
        slot, name = self.place.get(part.value.name), part.value.name
        if slot is None or slot >= at or not isinstance(part.value.type, Tensor):
            return False
        producer = self._kernel_call(slot)
        if producer is None or producer.kernel.updates or len(producer.kernel.outputs) > 1:
            return False
        if name in self.outputs or not part.value.type.is_known:
            return False
        if not small and self.env.hint(part.value.type.bytes) < SMALL_BYTES:
            return False
        if tuple(a.extent for a in part.compute.axes) != part.value.type.dims:
            return False  # only a slice of the value is copied
        for n in self.readers.get(name, ()):
            reader = self._kernel_call(n)
            if reader is None or part.value in _updated_args(reader):
                return False
            if _can_read_outside(reader, part, result, self.env):
                return False
        return True

    def _rewrite(
        self, concat: int, parts: list[_Part], moved: list[_Part], before: Var | None
    ) -> None:
        """Let the producers write their parts in turn, each in the memory of the previous one."""
        binding = self.slots[concat]
        assert binding is not None and isinstance(binding.expr, KernelCall)
        result = binding.var.tensor
        gone = {id(p) for p in moved}
        remaining = [p for p in parts if id(p) not in gone]
        for n, part in enumerate(moved):
            last = n == len(moved) - 1 and not remaining
            new = Var(binding.var.name if last else part.value.name, result)
            at = self.place[part.value.name]
            producer = self.slots[at]
            assert producer is not None and isinstance(producer.expr, KernelCall)
            call = _store_into(producer.expr, result, part.shift, before)
            self._set_slot(at, Binding((new,), call, producer.origin | binding.origin))
            self._redirect(part, new, concat)
            before = new
        if remaining:
            assert before is not None
            left = _copy_remaining(binding.expr, parts, moved, before)
            self._set_slot(concat, replace(binding, expr=left))
        else:
            self._set_slot(concat, None)

    def _redirect(self, part: _Part, new: Var, concat: int) -> None:
        for n in sorted(self.readers.get(part.value.name, ())):
            b = self.slots[n]
            if n != concat and b is not None and part.value in b.reads:
                call = _read_from(b.kernel_call, part.value, new, part.shift)
                self._set_slot(n, replace(b, expr=call))


def _match_parts(call: KernelCall) -> list[_Part]:
    """Return the parts of a kernel that only concatenates copies, or nothing if it does more."""
    kernel, parts = call.kernel, list[_Part]()
    if len(kernel.outputs) > 1:
        return []
    args = dict(zip(kernel.inputs, call.args, strict=True))
    over = kernel.updated(kernel.output)
    for c in kernel.computes:
        if c.out != kernel.output or c.reduce or not isinstance(c.expr, Read):
            return []
        read = c.expr
        pairs = list(zip(c.target, read.index, strict=False))
        if read.tensor == over or read.fill is not None or len(pairs) != len(c.target):
            return []
        if len(read.index) != len(c.target) or any(not isinstance(i, Affine) for i in read.index):
            return []
        shift = tuple(t - i for t, i in pairs if isinstance(i, Affine))
        if any(s.terms for s in shift):
            return []
        parts.append(_Part(args[read.tensor], c, shift))
    return parts


def _updated_args(call: KernelCall) -> tuple[Var, ...]:
    args = dict(zip(call.kernel.inputs, call.args, strict=True))
    return tuple(args[taken] for _, taken in call.kernel.updates)


def _can_read_outside(call: KernelCall, part: _Part, result: Tensor, env: ShapeEnv) -> bool:
    """Return True if a read depends on data or could leave the part for its neighbours.

    It leaves the part past its end in a dim where the concatenation is longer, or before its start.
    """
    names = {t for t, a in zip(call.kernel.inputs, call.args, strict=True) if a == part.value}
    own = part.value.tensor.dims
    for c in call.kernel.computes:
        extents = {a.name: a.extent for a in (*c.axes, *c.reduce)}
        for r in reads(c.expr):
            if r.tensor not in names:
                continue
            for i, n, wide, s in zip(r.index, own, result.dims, part.shift, strict=True):
                if not isinstance(i, Affine):
                    return True
                if r.fill is None or (s == Affine() and n == wide):
                    continue
                if i.bare is None or not env.equal(extents[i.bare], n):
                    return True
    return False


def _store_into(
    call: KernelCall, result: Tensor, shift: tuple[Affine, ...], before: Var | None
) -> KernelCall:
    kernel = call.kernel

    def compute(c: Compute) -> Compute:
        if c.out != kernel.output:
            return c
        return replace(c, store=tuple(i + s for i, s in zip(c.target, shift, strict=True)))

    tensors = tuple(
        replace(t, shape=result.dims) if t.name == kernel.output else t for t in kernel.tensors
    )
    computes = tuple(compute(c) for c in kernel.computes)
    new = replace(kernel, tensors=tensors, computes=computes)
    if before is None:
        return replace(call, kernel=new)
    name = "so_far"
    while any(t.name == name for t in tensors):
        name += "_"
    spec = TensorSpec(name, result.dims, result.element)
    over = ((kernel.output, name),)
    new = replace(new, tensors=(*tensors, spec), inputs=(*kernel.inputs, name), updates=over)
    return replace(call, kernel=new, args=(*call.args, before))


def _read_from(call: KernelCall, old: Var, new: Var, shift: tuple[Affine, ...]) -> KernelCall:
    """Let a call read one argument inside of a larger tensor."""
    names = {t for t, a in zip(call.kernel.inputs, call.args, strict=True) if a == old}
    shape: Shape = new.tensor.dims

    def leaf(read: Read) -> Read:
        if read.tensor not in names:
            return read
        index = tuple(
            i + s if isinstance(i, Affine) else i for i, s in zip(read.index, shift, strict=True)
        )
        return replace(read, index=index)

    kernel: Kernel = call.kernel
    kernel = replace(
        kernel,
        tensors=tuple(replace(t, shape=shape) if t.name in names else t for t in kernel.tensors),
        computes=tuple(replace(c, expr=rewrite(c.expr, leaf)) for c in kernel.computes),
    )
    return replace(call, kernel=kernel, args=tuple(new if a == old else a for a in call.args))


def _copy_remaining(
    call: KernelCall, parts: list[_Part], moved: list[_Part], before: Var
) -> KernelCall:
    """Build the remaining copies into the memory of the parts that are in place.

    Pieces of these parts are copied from there.
    """
    gone = {id(p.compute) for p in moved}
    shifts = {p.value: p.shift for p in moved}
    kernel = call.kernel
    args = dict(zip(kernel.inputs, call.args, strict=True))

    def leaf(read: Read) -> Read:
        shift = shifts.get(args[read.tensor])
        if shift is None:
            return read
        pairs = zip(read.index, shift, strict=True)
        return Read("so_far", tuple(i + s for i, s in pairs if isinstance(i, Affine)))

    left = (c for c in kernel.computes if id(c) not in gone)
    computes = tuple(replace(c, expr=rewrite(c.expr, leaf)) for c in left)
    used = {r.tensor for c in computes for r in reads(c.expr)} - {"so_far"}
    read_args = [(t, a) for t, a in args.items() if t in used]
    spec = TensorSpec("so_far", kernel.shape(kernel.output), kernel.dtype(kernel.output))
    tensors = tuple(t for t in kernel.tensors if t.name in used or t.name == kernel.output)
    new = replace(
        kernel,
        tensors=(*tensors, spec),
        computes=computes,
        inputs=(*(t for t, _ in read_args), "so_far"),
        updates=((kernel.output, "so_far"),),
        constants=kernel.constants & used,
    )
    return KernelCall(new, (*(a for _, a in read_args), before))
