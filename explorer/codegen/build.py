"""Machine code for the kernels of a program; each distinct kernel is compiled once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from weakref import WeakKeyDictionary

from explorer.cached_property import cached_property
from explorer.codegen.cpu.compile_processes import Helpers, Job, compile_jobs, helpers_for
from explorer.codegen.cpu.object_code import MachineCode, compile_cfunc, disassemble, key_of, loaded
from explorer.devices.isa import InstructionSet
from explorer.devices.listing import Listings
from explorer.devices.model import Device
from explorer.errors import Cancelled, KernelCompileError, printable
from explorer.ir.calls import code_text, efficient_binding
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import Dim, ShapeEnv, Sizes, evaluate_dim, symbol, symbols_of
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import canonical, canonical_symbols, renamed_tiling, with_symbols
from explorer.ir.kernels.normal import normalise
from explorer.ir.kernels.rebase import rebased
from explorer.ir.program import Binding, Program
from explorer.ir.tile_program import Packing, TileProgram
from explorer.ir.tile_traversal import dims, touched
from explorer.ir.types import ITEM_BYTES


@dataclass(frozen=True, slots=True)
class Argument:
    """One int64 of a kernel's argument block.

    `kind` is "tensor" (the address of the kernel input or output `name`), "packed" (the address of
    a constant packed by `pack_constant`), "table" (the address of `values`), "scratch" (the address
    of `elements` items, one block a worker, aligned to 64 bytes), or "dim" (the value of
    `elements`). The address of a tensor is `offset` elements from its first.
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
        """Return the byte offset of the address from the tensor's first element."""
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
        isa: InstructionSet,
    ) -> None:
        """Create the code of a kernel from its source, machine code and argument block."""
        self.source = source
        self.isa = isa
        self.machine = machine
        self.tile_program = tile_program
        self.arguments = arguments

    @property
    def key(self) -> str:
        """The content hash; kernels with equal keys share their code."""
        return self.machine.key

    @property
    def address(self) -> int:
        """The address of the C function `void kernel(int64 first, int64 last, int64* args)`."""
        return self.machine.address

    def tasks(self, sizes: Sizes) -> int:
        """Return the number of tasks under a binding."""
        return self.tile_program.tasks(sizes)

    @cached_property
    def listings(self) -> Listings:
        """Return the optimised LLVM IR and the assembly, line by line of the source.

        They are made on first access, once for all kernels that share their code.
        """
        listings = _listings.get(self.machine)
        if listings is None:
            listings = disassemble(self.machine, self.source, self.isa)
        return _listings.setdefault(self.machine, listings)


def build_kernel(kernel: Kernel, tiling: Tiling, env: ShapeEnv, device: Device) -> KernelCode:
    """Return the machine code of one kernel, from the cache if it is there.

    The kernel is normalised here.
    """
    source, program, arguments = print_kernel(kernel, tiling, env, device)
    return KernelCode(source, compile_cfunc(source, device.isa), program, arguments, device.isa)


@lru_cache(maxsize=512)
def print_kernel(
    kernel: Kernel, tiling: Tiling, env: ShapeEnv, device: Device
) -> tuple[str, TileProgram, tuple[Argument, ...]]:
    """Return the source of a kernel, its tile program, and its arguments, without compiling.

    The source uses canonical names alone, so that equal kernels have equal sources.
    """
    normal = normalise(kernel)
    offsets = rebased(normal).offsets
    named, axes = canonical(normal)
    named, canonical_env, values = canonical_symbols(named, env)
    source, program, arguments = _print_canonical(
        named, renamed_tiling(tiling, axes), canonical_env, device
    )
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
def _print_canonical(
    named: Kernel, tiling: Tiling, env: ShapeEnv, device: Device
) -> tuple[str, TileProgram, tuple[Argument, ...]]:
    from explorer.codegen.cpu.print import emit  # it loads Numba; code from disk is printed
    from explorer.tile.rewrites import tile_program

    program = tile_program(named, tiling, env, device)
    arguments = _arguments(program)
    local = tuple((a.local, a.kind) for a in arguments)
    return emit(program, local, device), program, arguments


def _arguments(p: TileProgram) -> tuple[Argument, ...]:
    """Return the argument block: the buffers that the body touches, in order, then the symbols."""
    from explorer.codegen.cpu.emitter import symbol_name

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
    """Return the code of every kernel call of a program, by the binding's name.

    The code of a second tiling has the key `efficient_binding(name)`.

    `helpers` are compile processes that were started before; they have ended on return.
    `progress(name, done, total)` is called for each kernel.

    Raises:
        Cancelled: `progress` returned False.
        KernelCompileError: a kernel does not compile; the error names the kernel call.
    """
    calls = program.kernel_calls
    done = 0

    def report_progress(name: str) -> None:
        nonlocal done
        wanted = progress is None or progress(code_text(name), done, len(printed))
        if wanted is False:
            raise Cancelled("code generation was cancelled")
        done += 1

    printed = {
        name: printed_call for b in calls for name, printed_call in _print(b, program.env, device)
    }
    users: dict[str, list[str]] = {}  # by key
    for name, (source, _, _) in printed.items():
        users.setdefault(key_of(source, device.isa), []).append(name)
    machine: dict[str, MachineCode] = {}

    def add_code(key: str, code: MachineCode) -> None:
        machine[key] = code
        for name in users[key]:
            report_progress(name)

    missing: list[Job] = []
    for key, names in users.items():
        cached = loaded(key)
        if cached is None:
            missing.append(Job(key, printed[names[0]][0], names[0], device.isa))
        else:
            add_code(key, cached)
    with helpers or Helpers() as team:
        team.grow(helpers_for(len(missing)))
        try:
            compile_jobs(missing, team, lambda job, code: add_code(job.key, code))
        except KernelCompileError as problem:
            raise _name_operators(problem, calls) from problem.__cause__
    return {
        name: KernelCode(printed[name][0], machine[key], *printed[name][1:], device.isa)
        for key, names in users.items()
        for name in names
    }


def _name_operators(problem: KernelCompileError, calls: Sequence[Binding]) -> KernelCompileError:
    """Return the error with the names of the kernel's operators."""
    names = {printable(n): b for b in calls for n in (b.name, efficient_binding(b.name))}
    binding = names.get(problem.where)
    if binding is None or not binding.origin:
        return problem
    operators = ", ".join(sorted(binding.origin))
    sentence = f"{operators}: {problem.sentence}"
    return KernelCompileError(sentence, where=operators, try_="report it: it is a fault of ours")


def _print(binding: Binding, env: ShapeEnv, device: Device) -> Iterator[tuple[str, Printed]]:
    """Yield each implementation of a call with its name."""
    call, name = binding.kernel_call, binding.name
    yield name, print_kernel(call.kernel, call.tiling or Tiling(), env, device)
    if call.efficient is not None:
        yield efficient_binding(name), print_kernel(call.kernel, call.efficient, env, device)
