"""The onnx package's own node tests, compiled and run: `python -m tests.conformance.onnx_nodes`.

Each case is a model of one operator (or of the function that it expands to) with inputs and the
right outputs. It passes where the compiled model gives them within the case's own tolerance; of
random outputs only dtype and shape are compared.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

import explorer
from explorer.errors import IronworksError
from explorer.ir.calls import LibraryCall
from explorer.ir.program import Program

RANDOM = ("test_bernoulli",)  # beginnings of names

# Why cases do not pass, by the beginnings of their names.
ROUNDED = "expected values are rounded after every operator, ours once where a kernel fuses several"
CORNERS = "expected values take the scale times the length for the length of the resized tensor"
REASONS = {
    "test_attention_3d_causal_bf16": ROUNDED,
    "test_attention_4d_attn_mask_causal_bf16": ROUNDED,
    "test_attention_4d_causal_bf16": ROUNDED,
    "test_attention_4d_causal_fp16": ROUNDED,
    "test_attention_4d_causal_padded_kv_bf16": ROUNDED,
    "test_attention_4d_padded_kv_bf16": ROUNDED,
    "test_dft_inverse": "the expected values hold the rounding of float32 sums that cancel: "
    "1.9e-7 where 0 is right, and doubles give 0",
    "test_resize_downsample_scales_cubic_align_corners": CORNERS,
    "test_resize_downsample_scales_linear_align_corners": CORNERS,
    "test_image_decoder": "decodes by Pillow, which the onnx package does not bring",
    "test_not_": "of version 1 of the operator set; 7 is the first that is known",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one case went: `kind` is "pass", "wrong", "refused" or "broken"; `library` names the
    library calls that its program makes, `reason` says why it did not pass.
    """

    name: str
    kind: str
    library: tuple[str, ...] = ()
    reason: str = ""
    seconds: float = 0.0


@cache
def cases() -> Sequence[Any]:
    """All node tests of the onnx package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        return sorted(load_model_tests(kind="node"), key=lambda case: str(case.name))


def outcome(case: Any, folder: Path) -> Outcome:
    """Compile and run one case."""
    begin = perf_counter()
    library: tuple[str, ...] = ()
    try:
        path = folder / f"{case.name}.onnx"
        onnx.save(case.model, path)
        compiled = explorer.compile(explorer.load(path))
        library = _library(compiled.program)
        for inputs, wanted in case.data_sets:
            names = [i.name for i in case.model.graph.input]
            found = compiled.run(dict(zip(names, map(plain, inputs))))
            agrees(list(found.values()), list(map(plain, wanted)), case)
        kind, reason = "pass", ""
    except IronworksError as error:
        kind, reason = "refused", f"{type(error).__name__}: {error}"
    except AssertionError as error:
        kind, reason = "wrong", " ".join(str(error).split())[:200] or "an assertion of our own"
    except Exception as error:
        kind, reason = "broken", f"{type(error).__name__}: {error}"[:300]
    return Outcome(case.name, kind, library, reason, perf_counter() - begin)


def _library(program: Program) -> tuple[str, ...]:
    calls = (binding.expr for binding in program.library_calls)
    return tuple(call.function for call in calls if isinstance(call, LibraryCall))


def plain(value: Any) -> Any:
    """A value of a case, which may be a tensor as ONNX stores it, as an array."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def agrees(found: Sequence[Any], wanted: Sequence[Any], case: Any) -> None:
    """Assert that outputs are a case's right ones."""
    assert len(found) == len(wanted), "another number of outputs"
    for ours, right in zip(found, wanted, strict=True):
        if case.name.startswith(RANDOM):
            assert (ours.dtype, ours.shape) == (right.dtype, right.shape), "another annotation"
        else:
            _same(ours, right, case.rtol, case.atol)


def _same(ours: Any, right: Any, rtol: float, atol: float) -> None:
    if isinstance(right, list):
        assert isinstance(ours, list | tuple) and len(ours) == len(right), "another sequence"
        for a, b in zip(ours, right, strict=True):
            _same(a, b, rtol, atol)
        return
    right = np.asarray(right)
    assert ours.dtype == right.dtype, f"dtype {ours.dtype}, not {right.dtype}"
    assert ours.shape == right.shape, f"shape {ours.shape}, not {right.shape}"
    if right.dtype.kind in "OUSb":
        assert (ours == right).all(), "other elements"
        return
    if right.dtype.kind not in "iufc" or right.dtype.itemsize == 1:  # those of ml_dtypes
        ours, right = ours.astype(np.float32), right.astype(np.float32)
    np.testing.assert_allclose(ours, right, rtol=rtol, atol=atol)


def run(wanted: Callable[[str], bool]) -> Iterator[Outcome]:
    """Every case whose name is wanted."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases():
            if wanted(case.name):
                yield outcome(case, Path(folder))


@cache
def _operator_sets() -> Mapping[str, frozenset[tuple[str, str]]]:
    """Return the operators of each case."""
    return {str(case.name): frozenset(_operators(case.model.graph)) for case in cases()}


def first_of_each(wanted: Callable[[str], bool]) -> list[str]:
    """Return the names of the first wanted case of every set of operators."""
    first: dict[frozenset[tuple[str, str]], str] = {}
    for name, operators in _operator_sets().items():
        if wanted(name):
            first.setdefault(operators, name)
    return list(first.values())


def _operators(graph: onnx.GraphProto) -> Iterator[tuple[str, str]]:
    for node in graph.node:
        yield node.domain, node.op_type
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _operators(attribute.g)


def without_reason(found: Sequence[Outcome]) -> list[Outcome]:
    """The cases that do not pass, and of which nothing is known."""
    return [o for o in found if o.kind != "pass" and not o.name.startswith(tuple(REASONS))]


def main() -> int:
    """Run the cases and say how many pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only cases whose names hold one of these")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = list(run(lambda name: not given.names or any(n in name for n in given.names)))
    counts = Counter(o.kind for o in found)
    alone = sum(o.kind == "pass" and not o.library for o in found)
    summary = {"cases": len(found), **counts, "without_library_call": alone}
    calls = Counter(name for o in found for name in sorted(set(o.library)))
    if given.json:
        failed = [asdict(o) for o in found if o.kind != "pass"]
        print(
            json.dumps(
                {**summary, "library_calls": dict(calls.most_common()), "rest": failed}, indent=1
            )
        )
    else:
        for o in found:
            if o.kind != "pass":
                print(f"{o.kind:8} {o.name}: {o.reason}")
        print(summary)
        print("cases that call a library:", dict(calls.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
