"""`ironworks export`: a compiled model as a C program, for this machine or another."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from shlex import quote
from typing import Literal

from explorer.cli.arguments import Parser, model_flags, parse_flags
from explorer.cli.compile_model import compile_model, load_model, options, sizes
from explorer.cli.terminal import print_answer, progress_line, step_progress
from explorer.errors import BadOption
from explorer.ir.dims import Sizes
from explorer.plain_text import size
from explorer.portable.write import Exported, export
from explorer.views.answer import Answer


def main(argv: Sequence[str]) -> int:
    """Compile a model and write it as a C program."""
    parser = Parser(
        "export",
        "A C program: object files of the kernels, weights, a header with one function, its "
        "source, a main program and a CMakeLists.txt. It needs no Python and no heap.",
    )
    model_flags(parser)
    add = parser.add_argument
    add("-o", "--output", required=True, metavar="DIR", help="the new folder")
    add(
        "--bind",
        action="append",
        default=[],
        metavar="batch=1,seq=128",
        help="values of symbolic dims, which the program is written for",
    )
    add("--any-sizes", action="store_true", help="symbolic dims are parameters of the function")
    add(
        "--threads",
        type=int,
        default=1,
        metavar="N",
        help="persistent threads (pthreads); 1, the default: the caller's thread alone",
    )
    flags = parse_flags(parser, argv)
    return print_answer(answer(flags), flags.json)


def answer(flags: Namespace) -> Answer:
    """Compile a model, write the folder, and return what it holds."""
    if flags.any_sizes and flags.bind:
        raise BadOption(
            "--any-sizes makes parameters of the symbols that --bind gives values",
            where="--any-sizes",
            try_="one of both",
        )
    chosen = options(flags)
    chosen = replace(chosen, rammer=replace(chosen.rammer, threads=flags.threads))
    model = load_model(flags)
    bound: Sizes | Literal["any"] = "any" if flags.any_sizes else sizes(model, flags)
    c = compile_model(model, flags, chosen, "PLANNED")
    with progress_line() as say:
        written = export(c, flags.output, bound, flags.threads, step_progress(say))
    return Answer(_data(written), _text(written))


def _data(written: Exported) -> dict[str, object]:
    """Return the values of JSON."""
    p = written.program
    return {
        "model": p.name,
        "target": p.device,
        "sizes": dict(p.sizes),
        "parameters": [b.name for b in p.symbols.bounds],
        "threads": p.units,
        "folder": str(written.folder),
        "function": f"{written.prefix}_run",
        "files": list(written.files),
        "kernels": len(p.kernels),
        "object_bytes": written.object_bytes,
        "weight_bytes": len(p.weights),
        "arena_bytes": written.arena_bytes,
        "seconds": written.seconds,
    }


def _text(written: Exported) -> str:
    """Return the summary, and how to build the program."""
    folder = written.folder
    arena, quoted = size(written.arena_bytes), quote(str(folder))
    bounds = written.program.symbols.bounds
    dims = "".join(f" {b.hint}" for b in bounds)
    at = " at the planned sizes" if bounds else ""
    return (
        f"{written}\n"
        f"A run needs {arena} of memory{at}, which the caller passes.\n\n"
        f"  cmake -S {quoted} -B {quoted}/build && cmake --build {quoted}/build\n"
        f"  {quoted}/build/{written.prefix} INPUTS OUTPUTS{dims} 100"
    )
