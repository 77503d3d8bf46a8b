"""A case as files: the graph, its inputs, and one line that says what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from tests.strategies.onnx.graphs import Case, Feeds


def save(case: Case, story: str, folder: Path, name: str) -> Path:
    """NAME.onnx, NAME.npz and NAME.txt; inputs of a later binding have its number before them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.onnx"
    path.write_bytes(case.model.SerializeToString())
    arrays = {k if not n else f"{n}/{k}": a for n, f in enumerate(case.feeds) for k, a in f.items()}
    np.savez(folder / f"{name}.npz", **arrays)  # type: ignore[arg-type]
    (folder / f"{name}.txt").write_text(f"seed {case.seed}: {story}\n", encoding="utf-8")
    return path


def load_case(path: Path) -> Case:
    """The case that `save` wrote."""
    found: dict[int, Feeds] = {0: {}}
    with np.load(path.with_suffix(".npz")) as arrays:
        for key in arrays.files:
            number, _, name = key.rpartition("/")
            found.setdefault(int(number or 0), {})[name] = arrays[key]
    return Case(-1, onnx.load(path), tuple(found[n] for n in sorted(found)))
