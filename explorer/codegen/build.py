"""From the kernels of a program to machine code, each different one once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from weakref import WeakKeyDictionary

from explorer.cached_property import cached_property
from explorer.codegen.cpu.expressions import symbol_name
from explorer.codegen.cpu.object.compile_processes import Helpers, Job, compile_jobs
from explorer.codegen.cpu.object.helper_count import helpers_for
from explorer.codegen.cpu.object.object_code import (
    MachineCode,
    compile_cfunc,
    disassemble,
    key_of,
    loaded,
)
from explorer.codegen.cpu.print import emit
from explorer.codegen.listing import Listings
from explorer.devices.model import Device
from explorer.devices.target import Target
from explorer.errors import Cancelled, KernelCompileError, printable
from explorer.ir.calls import code_text, efficient_binding
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import canonical, canonical_symbols, renamed_tiling, with_symbols
from explorer.ir.kernels.normal import normalise
from explorer.ir.kernels.rebase import rebased
from explorer.ir.program import Binding, Program
from explorer.ir.shapes.dims import Dim, ShapeEnv, Sizes, evaluate_dim, symbol, symbols_of
from explorer.ir.tile_programs.program import Packing, TileProgram
from explorer.ir.tile_programs.traversal import dims, touched
from explorer.ir.types import ITEM_BYTES
from explorer.tile.rewrites import tile_program


@dataclass(frozen=True, slots=True)
class Argument:
    """One int64 of a kernel's argument block.

    `kind` is "tensor" (the address of the kernel input or output `name`), "packed" (the address of
    a constant laid out by `pack_constant`), "table" (the address of `values`), "scratch" (the
    address of `elements` items, one block a worker, on a 64-byte border), or "dim" (the value of
    `elements`). A tensor is addressed `offset` elements in.
    """

    kind: str
    name: str
    local: str
    elements: Dim = 0
    item_bytes: int = 0
    values: tuple[int, ...] = ()
    packing: Packing | None = None
    offset: Dim = 0

    def begin_bytes(self, sizes: Sizes) -> int:
        """How far behind the first element of a tensor the address lies."""
        return evaluate_dim(self.offset, sizes) * self.item_bytes


_listings: WeakKeyDictionary[MachineCode, Listings] = WeakKeyDictionary()


class KernelCode:
    """One compiled kernel, under the tensor names of the kernel call that it was built for."""

    def __init__(
        self,
        source: str,
        machine: MachineCode,
        tile_program: TileProgram,
        arguments: tuple[Argument, ...],
        target: Target,
    ) -> None:
        self.source = source
        self.target = target
        self.machine = machine
        self.tile_program = tile_program
        self.arguments = arguments

    @property
    def key(self) -> str:
        """The content hash: kernels with the same one share their code."""
        return self.machine.key

    @property
    def address(self) -> int:
        """Where the C function `void kernel(int64 first, int64 last, int64* args)` lies."""
        return self.machine.address

    def tasks(self, sizes: Sizes) -> int:
        """How many tasks there are under a binding."""
        return self.tile_program.tasks(sizes)

    @cached_property
    def listings(self) -> Listings:
        """The optimised LLVM IR and the assembly, line by line of the source; made when they are
        first asked for, once for all kernels that share their code.
        """
        found = _listings.get(self.machine)
        if found is None:
            found = disassemble(self.machine, self.source, self.target)
        return _listings.setdefault(self.machine, found)


def build_kernel(kernel: Kernel, tiling: Tiling, env: ShapeEnv, device: Device) -> KernelCode:
    """The machine code of one kernel (brought into normal form here), from the cache where it is
    there.
    """
    source, program, arguments = print_kernel(kernel, tiling, env, device)
    return KernelCode(
        source, compile_cfunc(source, device.target), program, arguments, device.target
    )


@lru_cache(maxsize=512)
def print_kernel(
    kernel: Kernel, tiling: Tiling, env: ShapeEnv, device: Device
) -> tuple[str, TileProgram, tuple[Argument, ...]]:
    """The source of a kernel, its tile program, and its arguments, without compiling.

    The source is under canonical names alone, so that equal kernels have the same.
    """
    normal = normalise(kernel)
    offsets = rebased(normal).offsets
    named, axes = canonical(normal)
    named, known, values = canonical_symbols(named, env)
    source, program, arguments = _printed(named, renamed_tiling(tiling, axes), known, device)
    if any(str(value) != name for name, value in values.items()):
        back = {symbol(name): value for name, value in values.items()}
        program, arguments = with_symbols(program, back), with_symbols(arguments, back)
    tensors = zip((*named.inputs, *named.outputs), (*normal.inputs, *normal.outputs), strict=True)
    own = {
        **{("dim", name): str(value) for name, value in values.items()},
        **{(kind, new): old for new, old in tensors for kind in ("tensor", "packed")},
    }
    renamed = (replace(a, name=own.get((a.kind, a.name), a.name)) for a in arguments)
    placed = (
        replace(a, offset=offsets[a.name]) if a.kind == "tensor" and a.name in offsets else a
        for a in renamed
    )
    return source, program, tuple(placed)


@lru_cache(maxsize=512)
def _printed(
    named: Kernel, tiling: Tiling, env: ShapeEnv, device: Device
) -> tuple[str, TileProgram, tuple[Argument, ...]]:
    program = tile_program(named, tiling, env, device)
    arguments = _arguments(program)
    local = tuple((a.local, a.kind) for a in arguments)
    return emit(program, local, device), program, arguments


def _arguments(p: TileProgram) -> tuple[Argument, ...]:
    """The argument block: what the body touches, in the order of the buffers, then the symbols."""
    packed = {q.name: q for q in p.packings}
    tables = dict(p.tables)
    used = {b.name for s in p.body for b in touched(s)}
    out: list[Argument] = []
    for b in p.buffers:
        if b.name not in used:
            continue
        size = ITEM_BYTES[b.dtype]
        match b.kind:
            case "packed":
                q = packed[b.name]
                out.append(Argument("packed", q.source, b.name, b.size, size, packing=q))
            case "table":
                out.append(Argument("table", b.name, b.name, b.size, size, tables[b.name]))
            case "scratch":
                out.append(Argument("scratch", b.name, b.name, b.size, size))
            case _:
                out.append(Argument("tensor", b.name, b.name, b.size, size))
    numbers = (*(g.extent for g in p.grid), *(d for s in p.body for d in dims(s)))
    for name in sorted(frozenset[str]().union(*map(symbols_of, numbers))):
        out.append(Argument("dim", name, symbol_name(name), symbol(name)))
    return tuple(out)


Progress = Callable[[str, int, int], bool | None]
Printed = tuple[str, TileProgram, tuple[Argument, ...]]


def build(
    program: Program,
    device: Device,
    progress: Progress | None = None,
    helpers: Helpers | None = None,
) -> dict[str, KernelCode]:
    """The code of every kernel call of a program, by the binding's name; that of a second tiling by
    `efficient_binding` of it.

    `helpers` are processes that were started before; they are gone afterwards.
    `progress(name, done, total)` is told of each; Cancelled is raised where it answers False.
    Raises KernelCompileError, which names the kernel call.
    """
    calls = program.kernel_calls
    done = 0

    def told(name: str) -> None:
        nonlocal done
        wanted = progress is None or progress(code_text(name), done, len(printed))
        if wanted is False:
            raise Cancelled("code generation was cancelled")
        done += 1

    printed = {name: made for b in calls for name, made in _print(b, program.env, device)}
    users: dict[str, list[str]] = {}  # by key
    for name, (source, _, _) in printed.items():
        users.setdefault(key_of(source, device.target), []).append(name)
    machine: dict[str, MachineCode] = {}

    def have(key: str, code: MachineCode) -> None:
        machine[key] = code
        for name in users[key]:
            told(name)

    missing: list[Job] = []
    for key, names in users.items():
        found = loaded(key)
        if found is None:
            missing.append(Job(key, printed[names[0]][0], names[0], device.target))
        else:
            have(key, found)
    with helpers or Helpers() as team:
        team.grow(helpers_for(len(missing)))
        try:
            compile_jobs(missing, team, lambda job, code: have(job.key, code))
        except KernelCompileError as problem:
            raise _of_operators(problem, calls) from problem.__cause__
    return {
        name: KernelCode(printed[name][0], machine[key], *printed[name][1:], device.target)
        for key, names in users.items()
        for name in names
    }


def _of_operators(problem: KernelCompileError, calls: Sequence[Binding]) -> KernelCompileError:
    """The error with the operators whose kernel it is."""
    names = {printable(n): b for b in calls for n in (b.name, efficient_binding(b.name))}
    binding = names.get(problem.where)
    if binding is None or not binding.origin:
        return problem
    operators = ", ".join(sorted(binding.origin))
    sentence = f"{operators}: {problem.sentence}"
    return KernelCompileError(sentence, where=operators, try_="report it: it is a fault of ours")


def _print(binding: Binding, env: ShapeEnv, device: Device) -> Iterator[tuple[str, Printed]]:
    """Each implementation of a call, under its name."""
    call, name = binding.kernel_call, binding.name
    yield name, print_kernel(call.kernel, call.tiling or Tiling(), env, device)
    if call.efficient is not None:
        yield efficient_binding(name), print_kernel(call.kernel, call.efficient, env, device)
