"""The folder of an exported program: object files, weights, a header, C sources, and the plan.

model.h  model.c  main.c  CMakeLists.txt  kernels/*.o  weights.S  weights.bin  plan.json
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from explorer.codegen.cpu.cross import CrossObject, cross_compile
from explorer.errors import BadOption, Cancelled
from explorer.ir.dims import Sizes
from explorer.plain_text import counted, duration, size
from explorer.portable.c_program import CProgram
from explorer.portable.c_project import UNFINISHED
from explorer.portable.portable_program import PortableProgram
from explorer.portable.program import portable
from explorer.portable.symbolic import symbolic
from explorer.printed import Printed

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation

Progress = Callable[[str, int, int], bool | None]
PLAN = "plan.json"  # a folder with a plan, or with UNFINISHED, was written here
MOST_UNITS = 64  # of an export: each unit has functions of its own; chosen


@dataclass(frozen=True, slots=True, repr=False)
class Exported(Printed):
    """A folder with a compiled program.

    `object_bytes` are those of all kernels; `seconds` were spent compiling them, 0 from the cache.
    `arena_bytes` is the memory of a run, at the planned sizes if sizes are parameters.
    """

    folder: Path
    prefix: str
    program: PortableProgram
    files: tuple[str, ...]
    object_bytes: int
    arena_bytes: int
    seconds: float

    def __str__(self) -> str:
        """Return the folder, its function, and its sizes."""
        kernels = counted(len(self.program.kernels), "kernel")
        sizes = ", ".join(b.name for b in self.program.symbols.bounds)
        threads = self.program.units
        return (
            f"{self.folder}: {self.prefix}_run for {self.program.device}"
            f"{f' on {threads} threads' if threads > 1 else ''}"
            f"{f' for any {sizes}' if sizes else ''}, {kernels} of "
            f"{size(self.object_bytes)} compiled in {duration(1e6 * self.seconds)}, "
            f"{size(len(self.program.weights))} of weights"
        )


def export(
    c: Compilation,
    folder: str | Path,
    sizes: Sizes | Literal["any"] | None = None,
    threads: int = 1,
    progress: Progress | None = None,
) -> Exported:
    """Write a compiled model as a C program that needs no Python and no heap.

    Args:
        c: A compilation for a CPU, this one or that of a data sheet.
        folder: The new folder, or one that was written by an export before.
        sizes: A size for each symbol, by default those of `c.hint`; or "any": the sizes become
            parameters of the C function.
        threads: More than 1: persistent workers run the program, which the caller starts and stops.
        progress: Called with the kernel's name, its number and their count; False stops.

    Returns:
        What was written, with its sizes.

    Raises:
        BadOption: The program needs Python while it runs, the kernels are no CPU code, the
            sizes cannot be parameters, or the folder holds other files.
        KernelCompileError: A kernel has no object file for this target.
        Cancelled: `progress` returned False.
    """
    target = Path(folder)
    _check_folder(target)
    program = _program(c, sizes, threads)
    objects = compiled(program, progress)
    sources = CProgram.of(program)
    files = {
        **{name: text.encode() for name, text in sources.files().items()},
        "weights.bin": program.weights,
        **{f"kernels/{o.symbol}.o": o.code for o in objects},
        PLAN: json.dumps(program.to_dict()).encode(),
    }
    _write(target, files)
    return Exported(
        target,
        sources.prefix,
        program,
        tuple(files),
        sum(len(o.code) for o in objects),
        sources.arena_bytes,
        sum(o.seconds for o in objects),
    )


def compiled(program: PortableProgram, progress: Progress | None = None) -> tuple[CrossObject, ...]:
    """Return the object file of each kernel of a program.

    Raises:
        KernelCompileError: A kernel has no object file for this target.
        Cancelled: `progress` returned False.
    """
    objects = list[CrossObject]()
    for n, kernel in enumerate(program.kernels):
        if progress is not None and progress(kernel.name, n, len(program.kernels)) is False:
            raise Cancelled("the export was cancelled; nothing was written")
        objects.append(cross_compile(kernel.source, program.isa))
    return tuple(objects)


def _program(c: Compilation, sizes: Sizes | Literal["any"] | None, threads: int) -> PortableProgram:
    """Return the program of an export."""
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MOST_UNITS:
        raise BadOption(
            f"an export has 1 to {MOST_UNITS} threads, found {threads!r}",
            where="threads",
            actual=threads,
        )
    if not isinstance(sizes, str):
        return portable(c, sizes, threads)
    if sizes != "any":
        raise BadOption(
            f'sizes are {{"batch": 1}} or the word "any", found {sizes!r}', where="sizes"
        )
    if threads > 1:
        raise BadOption(
            "the tasks of threads are divided for fixed sizes: sizes cannot be parameters of an "
            f"export with {threads} threads",
            where="sizes",
            try_="one thread, or a size for each symbol",
        )
    return symbolic(c) if c.hint else portable(c)


def _check_folder(folder: Path) -> None:
    """Raise BadOption if the folder holds files of someone else."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise BadOption(f"{folder} is a file, not a folder", where=str(folder))
    if any(folder.iterdir()) and not (folder / UNFINISHED).is_file() and not _is_plan(folder):
        raise BadOption(
            f"{folder} holds other files, which an export would mix with its own",
            where=str(folder),
            expected="a new or empty folder, or one of an earlier export",
        )


def _is_plan(folder: Path) -> bool:
    """Return True if the folder has a plan that an export wrote."""
    try:
        plan = json.loads((folder / PLAN).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(plan, dict) and {"format", "kernels", "launches"} <= plan.keys()


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files, each at once; kernels of an earlier export go.

    While it lasts, the folder holds a file that says so, with which CMake refuses to build.
    """
    kernels = folder / "kernels"
    try:
        kernels.mkdir(parents=True, exist_ok=True)
        (folder / UNFINISHED).write_bytes(b"an export writes this folder, or was interrupted\n")
        for old in kernels.glob("kernel_*.o"):
            old.unlink()
        for name, data in files.items():
            new = folder / f"{name}.new"
            new.write_bytes(data)
            os.replace(new, folder / name)
        (folder / UNFINISHED).unlink()
    except OSError as problem:
        raise BadOption(
            f"{folder} cannot be written: {problem.strerror or problem}", where=str(folder)
        ) from problem
