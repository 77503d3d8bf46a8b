"""Kernels of other platforms compute what the same sources compute here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import explorer
import explorer.np as enp
from explorer.devices.cpus import CPUS
from explorer.devices.isa import InstructionSet
from explorer.measure.this_cpu import this_cpu
from tests.targets.foreign import (
    calls_of,
    difference,
    needs_node,
    needs_qemu,
    run_here,
    run_node,
    run_qemu,
)

CLOSE = 1e-6  # of the largest element: sums in other orders, and products that are rounded
TWICE_ROUNDED = 2e-5  # without fused products, also in Winograd's transforms
MODELS = [
    "zoo:tiny_while",
    "zoo:tiny_lstm",
    *(
        pytest.param(f"zoo:{name}", marks=pytest.mark.exhaustive)
        for name in (
            "tiny_bert", "tiny_llama", "tiny_vit", "tiny_mobilenetv2", "tiny_resnet18",
            "small_swin", "small_nafnet", "small_conformer",
        )
    ),
]  # fmt: skip


def emulated(isa: InstructionSet) -> InstructionSet:
    """The instruction set without what QEMU 7.2 has not, and as an ELF file."""
    if isa.architecture == "riscv64":
        features = tuple(f for f in isa.features if f != "+zvfh")
        return replace(isa, processor="generic-rv64", features=features)
    return replace(isa, triple="aarch64-unknown-linux-gnu")


@needs_node
@pytest.mark.parametrize("target", ["wasm-simd128", "wasm-relaxed"])
@pytest.mark.parametrize("model", MODELS)
def test_kernels_in_node_are_right(model: str, target: str, tmp_path: Path) -> None:
    c = explorer.compile(model, target)
    calls = calls_of(c)
    images = run_node(calls, c.device.isa, tmp_path)
    limit = TWICE_ROUNDED if target == "wasm-simd128" else CLOSE
    for call, image in zip(calls, images, strict=True):
        assert difference(call, image, run_here(call, this_cpu().isa)) <= limit


@needs_node
def test_webassembly_has_the_very_bits_of_sse(tmp_path: Path) -> None:
    """Both round products and sums, in vectors of four."""
    c = explorer.compile("zoo:tiny_lstm", "wasm-simd128")
    calls = calls_of(c)
    for call, image in zip(calls, run_node(calls, c.device.isa, tmp_path), strict=True):
        assert image == run_here(call, CPUS["cpu-sse"].isa)


@needs_qemu("aarch64")
@pytest.mark.slow
@pytest.mark.parametrize("target", ["cortex-a76", "apple-m1", "pixel-6"])
@pytest.mark.parametrize("model", MODELS)
def test_kernels_on_aarch64_are_right(model: str, target: str, tmp_path: Path) -> None:
    check_emulated(model, target, tmp_path)


@needs_qemu("riscv64")
@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_kernels_on_risc_v_are_right(model: str, tmp_path: Path) -> None:
    check_emulated(model, "bpi-f3", tmp_path)


def check_emulated(model: object, target: str, folder: Path) -> None:
    c = explorer.compile(model, target)
    calls, isa = calls_of(c), emulated(c.device.isa)
    for call, image in zip(calls, run_qemu(calls, isa, folder), strict=True):
        assert difference(call, image, run_here(call, this_cpu().isa)) <= CLOSE


@explorer.trace
def functions(  # type: ignore[no-untyped-def]
    x: explorer.tensor("float32", 64),  # type: ignore[valid-type]
    y: explorer.tensor("float64", 64),  # type: ignore[valid-type]
    n: explorer.tensor("int32", 64),  # type: ignore[valid-type]
):
    """Each of those that Numba compiles for this machine, behind others that keep them apart."""
    single = enp.sin(x) + enp.arctan(x) * enp.cosh(x) + enp.arcsinh(x)
    return single, enp.power(enp.abs(y), y), x % enp.cos(x), x // enp.cos(x), enp.power(n, n - 1)


@needs_node
def test_functions_of_the_mathematical_library_are_asked_of_the_host(tmp_path: Path) -> None:
    c = explorer.compile(functions, "wasm32")
    calls = calls_of(c)
    for call, image in zip(calls, run_node(calls, c.device.isa, tmp_path), strict=True):
        assert difference(call, image, run_here(call, this_cpu().isa)) <= CLOSE


@needs_qemu("aarch64")
@pytest.mark.slow
def test_functions_of_the_mathematical_library_are_linked(tmp_path: Path) -> None:
    check_emulated(functions, "cortex-a76", tmp_path)
