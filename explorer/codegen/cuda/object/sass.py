"""SASS, the instructions that a GPU runs, from NVIDIA's disassembler if it is installed."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from subprocess import TimeoutExpired, run
from tempfile import TemporaryDirectory

from explorer.errors import KernelCompileError

PACKAGE = "nvidia-cuda-nvdisasm"
NAME = "nvdisasm"
PATIENCE_S = 60  # for a program of some megabytes; chosen


def disassembler() -> str:
    """Return the path of the disassembler, on the path or in its package; "" if it is missing."""
    on_path = which(NAME)
    if on_path is not None:
        return on_path
    spec = find_spec("nvidia")
    for folder in () if spec is None else spec.submodule_search_locations or ():
        for file in sorted(Path(folder).glob(f"cu*/bin/{NAME}")):
            if os.access(file, os.X_OK):
                return str(file)
    return ""


@lru_cache(maxsize=64)
def sass(cubin: bytes, marks: bool = False) -> str:
    """Return the instructions of an object file, or a comment that says why there are none.

    `marks`: with the source-line marks that it holds. Raises KernelCompileError if the disassembler
    rejects it or does not run.
    """
    tool = disassembler()
    if not tool:
        return f"// SASS needs NVIDIA's disassembler: pip install {PACKAGE}\n"
    with TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        try:
            options = ["-c", *(["-g"] if marks else [])]
            done = run(
                [tool, *options, str(file)], capture_output=True, text=True, timeout=PATIENCE_S
            )
        except (OSError, TimeoutExpired) as problem:
            raise KernelCompileError(f"{NAME} did not run: {problem}", where="kernel") from problem
    if done.returncode:
        first = done.stderr.strip().split("\n")[0]
        raise KernelCompileError(f"{NAME} rejects an object file: {first}", where="kernel")
    return done.stdout
