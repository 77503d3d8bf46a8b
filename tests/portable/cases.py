"""Compilations on one thread, inputs, and comparisons that every test here needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx

import explorer
import explorer.devices
from explorer.rammer import Options
from tests.benchmarks.recursive_autoencoder import random_tree

Arrays = Mapping[str, np.ndarray]


DATASHEETS = Path(explorer.devices.__file__).parent / "datasheets"
TARGETS = {"aarch64": "raspberry-pi-5", "riscv64": "bpi-f3"}


def emulated_target(machine: str, folder: Path) -> str | Path:
    """Return the target of an emulated machine.

    Debian's qemu 7.2 has no Zicond and no Zvfh, which the SpacemiT X60 has: they are left out of a
    copy of its sheet.
    """
    if machine != "riscv64":
        return TARGETS[machine]
    text = (DATASHEETS / "bpi-f3.toml").read_text("utf-8")
    assert 'name = "bpi-f3"' in text and '"+zvl256b"]' in text
    path = folder / "bpi-f3-emulated.toml"
    text = text.replace('name = "bpi-f3"', 'name = "bpi-f3-emulated"')
    text = text.replace(', "+zvfh"', "").replace('"+zvl256b"]', '"+zvl256b", "-zicond", "-zvfh"]')
    lines = text.splitlines()
    path.write_text("\n".join(line for line in lines if not line.startswith("aliases")))
    return path


def one_thread() -> explorer.Options:
    return explorer.Options(rammer=Options(threads=1))


def compiled(name: str, target: str | Path = "this-cpu") -> explorer.Compilation:
    return explorer.compile(explorer.load(f"zoo:{name}"), target, options=one_thread())


def from_onnx(
    model: onnx.ModelProto, folder: Path, target: str | Path = "this-cpu"
) -> explorer.Compilation:
    path = folder / "model.onnx"
    onnx.save(model, path)
    return explorer.compile(explorer.load(path), target, options=one_thread())


def inputs_of(c: explorer.Compilation) -> dict[str, np.ndarray]:
    """Random inputs; those of a model of trees are a tree."""
    inputs = c.random_inputs()
    return tree_inputs(c) if "left" in inputs else inputs


def tree_inputs(c: explorer.Compilation, nodes: int = 0) -> dict[str, np.ndarray]:
    inputs = c.random_inputs()
    room = len(inputs["left"])
    left, right = random_tree(nodes or (room - 1) // 2 * 2 + 1, 0, room)
    return {**inputs, "left": left, "right": right}


def assert_equal(results: Arrays, expected: Arrays) -> None:
    assert results.keys() == expected.keys()
    for key, array in expected.items():
        assert results[key].dtype == array.dtype and results[key].shape == array.shape, key
        np.testing.assert_array_equal(results[key], array, key)


def assert_close(results: Arrays, expected: Arrays) -> None:
    """Equal up to the order of sums: a run may take other tilings for the same sizes."""
    assert results.keys() == expected.keys()
    for key, array in expected.items():
        assert results[key].dtype == array.dtype and results[key].shape == array.shape, key
        if array.dtype.kind == "f":
            half = array.dtype == np.float16
            largest = float(np.nanmax(np.abs(array[np.isfinite(array)]), initial=1.0))
            np.testing.assert_allclose(
                results[key], array, 2e-3 if half else 1e-4, (2e-3 if half else 1e-5) * largest, key
            )
        else:
            np.testing.assert_array_equal(results[key], array, key)
