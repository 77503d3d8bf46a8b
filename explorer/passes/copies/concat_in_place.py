"""The parts of a concatenation written where they belong, so that nothing is copied together."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, Var
from explorer.ir.kernel import Compute, Kernel, Read, TensorSpec, reads, rewrite
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import Shape, ShapeEnv
from explorer.ir.symbols import are_defined, definitions, needed_by
from explorer.ir.types import Tensor
from explorer.passes.pipeline.registry import compiler_pass

SMALL_BYTES = 1 << 14  # a copy of less costs less than wider rows; chosen, no measurement kept


@compiler_pass("concat in place", paper="Relax: Lai et al., ASPLOS 2025 (call_tir_inplace)")
def write_concats_in_place(program: Program) -> Program:
    """After: what only kernels read is written straight into the concatenation that it is a part
    of.

    `a = f(x); b = g(x); y = [a, b]` becomes `a = f(x) in y's shape; y = g(x) updating a`.
    """
    functions = tuple(_InPlace(f, program).done() for f in program.functions)
    return program if functions == program.functions else replace(program, functions=functions)


@dataclass(frozen=True, slots=True)
class _Part:
    """One copied operand: its value, the compute that copies it, and how far it is moved in each
    dim.
    """

    value: Var
    compute: Compute
    shift: tuple[Affine, ...]

    def is_rows_of(self, whole: Var) -> bool:
        """Whether the part's elements lie in the whole as they lie alone."""
        if not isinstance(self.value.type, Tensor) or not isinstance(whole.type, Tensor):
            return False
        return self.value.type.shape is not None and self.value.type.dims[1:] == whole.type.dims[1:]


class _InPlace:
    """The bindings of one function, each in its slot; what is gone leaves its slot empty."""

    def __init__(self, function: Function, program: Program) -> None:
        self.function, self.env = function, program.env
        self.slots: list[Binding | None] = list(function.body)
        self.place = {b.vars[0].name: n for n, b in enumerate(function.body)}
        self.outputs = {v.name for v in function.outputs}
        self.readers: dict[str, set[int]] = {}
        self.defined = definitions(function.body)
        for n, b in enumerate(function.body):
            self._note(n, b)

    def done(self) -> Function:
        """The function with every concatenation that can be in place, the last one first."""
        for binding in reversed(self.function.body):
            self._try(binding.vars[0].name)
        body = tuple(b for b in self.slots if b is not None)
        return self.function if body == self.function.body else replace(self.function, body=body)

    def _note(self, n: int, binding: Binding) -> None:
        for v in binding.reads:
            self.readers.setdefault(v.name, set()).add(n)

    def _put(self, n: int, binding: Binding | None) -> None:
        """Another binding in a slot, or none."""
        old = self.slots[n]
        if old is not None:
            for v in old.reads:
                self.readers[v.name].discard(n)
            if self.place.get(old.vars[0].name) == n:
                del self.place[old.vars[0].name]
        self.slots[n] = binding
        if binding is not None:
            self._note(n, binding)
            self.place[binding.vars[0].name] = n

    def _call(self, n: int) -> KernelCall | None:
        binding = self.slots[n]
        expr = None if binding is None else binding.expr
        return expr if isinstance(expr, KernelCall) else None

    def _try(self, name: str) -> None:
        at = self.place.get(name)
        if at is None or (call := self._call(at)) is None:
            return
        parts = _parts(call)
        free = self._free(parts, at) if len(parts) > 1 else []
        if not free:
            return
        needed = needed_by(self._binding(at))
        if not are_defined(needed, self.defined, min(self.place[p.value.name] for p in free)):
            return
        producers = sorted({p.value.name for p in free}, key=self.place.__getitem__)
        if len(producers) != len(free):
            return
        start = next(iter(_updated(call)), None)
        if start is not None and self.place.get(start.name, 0) >= self.place[producers[0]]:
            return
        by_name = {p.value.name: p for p in free}
        self._rewrite(at, parts, [by_name[n] for n in producers], start)

    def _binding(self, n: int) -> Binding:
        found = self.slots[n]
        assert found is not None
        return found

    def _free(self, parts: list[_Part], at: int) -> list[_Part]:
        """The parts that can be written in place. Small ones are where they are rows of the whole
        and some of them are stored for other readers anyway.
        """
        whole = self._binding(at).var
        rows = [p.is_rows_of(whole) for p in parts]
        others = (p for p, row in zip(parts, rows, strict=True) if row)
        stored = any(self.readers.get(p.value.name, set()) - {at} for p in others)
        pairs = zip(parts, rows, strict=True)
        return [p for p, row in pairs if self._is_free(p, at, whole.tensor, small=stored and row)]

    def _is_free(self, part: _Part, at: int, whole: Tensor, *, small: bool) -> bool:
        """Whether the part is made by a kernel here and read by kernels alone, at known places."""
        made, name = self.place.get(part.value.name), part.value.name
        if made is None or made >= at or not isinstance(part.value.type, Tensor):
            return False
        producer = self._call(made)
        if producer is None or producer.kernel.updates or len(producer.kernel.outputs) > 1:
            return False
        if name in self.outputs or not part.value.type.is_known:
            return False
        if not small and self.env.hint(part.value.type.bytes) < SMALL_BYTES:
            return False
        if tuple(a.extent for a in part.compute.axes) != part.value.type.dims:
            return False  # only a piece of it is copied
        for n in self.readers.get(name, ()):
            reader = self._call(n)
            if reader is None or part.value in _updated(reader):
                return False
            if _reads_elsewhere(reader, part, whole, self.env):
                return False
        return True

    def _rewrite(
        self, concat: int, parts: list[_Part], moved: list[_Part], before: Var | None
    ) -> None:
        """The producers write their parts in turn, each in the memory of the one before."""
        binding = self.slots[concat]
        assert binding is not None and isinstance(binding.expr, KernelCall)
        whole = binding.var.tensor
        gone = {id(p) for p in moved}
        rest = [p for p in parts if id(p) not in gone]
        for n, part in enumerate(moved):
            last = n == len(moved) - 1 and not rest
            new = Var(binding.var.name if last else part.value.name, whole)
            at = self.place[part.value.name]
            made = self.slots[at]
            assert made is not None and isinstance(made.expr, KernelCall)
            call = _store_into(made.expr, whole, part.shift, before)
            self._put(at, Binding((new,), call, made.origin | binding.origin))
            self._redirect(part, new, concat)
            before = new
        if rest:
            assert before is not None
            left = _remaining(binding.expr, parts, moved, before)
            self._put(concat, replace(binding, expr=left))
        else:
            self._put(concat, None)

    def _redirect(self, part: _Part, new: Var, concat: int) -> None:
        for n in sorted(self.readers.get(part.value.name, ())):
            b = self.slots[n]
            if n != concat and b is not None and part.value in b.reads:
                call = _read_from(b.kernel_call, part.value, new, part.shift)
                self._put(n, replace(b, expr=call))


def _parts(call: KernelCall) -> list[_Part]:
    """What a kernel that only joins copies takes from each operand; nothing where it does more."""
    kernel, found = call.kernel, list[_Part]()
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
        found.append(_Part(args[read.tensor], c, shift))
    return found


def _updated(call: KernelCall) -> tuple[Var, ...]:
    args = dict(zip(call.kernel.inputs, call.args, strict=True))
    return tuple(args[taken] for _, taken in call.kernel.updates)


def _reads_elsewhere(call: KernelCall, part: _Part, whole: Tensor, env: ShapeEnv) -> bool:
    """Whether a load depends on data, or could leave the part for its neighbours: past the part's
    end in a dim in which the whole is longer, or begins before it.
    """
    names = {t for t, a in zip(call.kernel.inputs, call.args, strict=True) if a == part.value}
    own = part.value.tensor.dims
    for c in call.kernel.computes:
        extents = {a.name: a.extent for a in (*c.axes, *c.reduce)}
        for r in reads(c.expr):
            if r.tensor not in names:
                continue
            for i, n, wide, s in zip(r.index, own, whole.dims, part.shift, strict=True):
                if not isinstance(i, Affine):
                    return True
                if r.fill is None or (s == Affine() and n == wide):
                    continue
                if i.bare is None or not env.equal(extents[i.bare], n):
                    return True
    return False


def _store_into(
    call: KernelCall, whole: Tensor, shift: tuple[Affine, ...], before: Var | None
) -> KernelCall:
    kernel = call.kernel

    def compute(c: Compute) -> Compute:
        if c.out != kernel.output:
            return c
        return replace(c, store=tuple(i + s for i, s in zip(c.target, shift, strict=True)))

    tensors = tuple(
        replace(t, shape=whole.dims) if t.name == kernel.output else t for t in kernel.tensors
    )
    computes = tuple(compute(c) for c in kernel.computes)
    new = replace(kernel, tensors=tensors, computes=computes)
    if before is None:
        return replace(call, kernel=new)
    name = "so_far"
    while any(t.name == name for t in tensors):
        name += "_"
    spec = TensorSpec(name, whole.dims, whole.element)
    over = ((kernel.output, name),)
    new = replace(new, tensors=(*tensors, spec), inputs=(*kernel.inputs, name), updates=over)
    return replace(call, kernel=new, args=(*call.args, before))


def _read_from(call: KernelCall, old: Var, new: Var, shift: tuple[Affine, ...]) -> KernelCall:
    """The call with one argument inside of a larger tensor."""
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


def _remaining(call: KernelCall, parts: list[_Part], moved: list[_Part], before: Var) -> KernelCall:
    """The copies that are left, into the memory where the other parts already stand; pieces of
    those are copied from there.
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
    kept = [(t, a) for t, a in args.items() if t in used]
    spec = TensorSpec("so_far", kernel.shape(kernel.output), kernel.dtype(kernel.output))
    tensors = tuple(t for t in kernel.tensors if t.name in used or t.name == kernel.output)
    new = replace(
        kernel,
        tensors=(*tensors, spec),
        computes=computes,
        inputs=(*(t for t, _ in kept), "so_far"),
        updates=((kernel.output, "so_far"),),
        constants=kernel.constants & used,
    )
    return KernelCall(new, (*(a for _, a in kept), before))
