"""PyTorch modules through torch.export with automatic dims, run at other sizes against eager."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import explorer
from explorer.errors import UnsupportedOperator
from explorer.ops.interpreter.evaluate import evaluate
from tests.fuzz.judge import Failure, crash
from tests.fuzz.settings import PLAIN
from tests.strategies.choices import Choices
from tests.strategies.torch_modules import Sample

SIZES = (2, 3, 4, 5, 6, 7, 8, 12, 17)
OTHERS = 2  # sizes besides those of the export
ATTEMPTS = 6
NEAR = 1e-4  # of the largest value


def judge_exported(c: Choices, sample: Sample, until: str) -> tuple[list[Failure], str]:
    """Return the failures of a sample compiled so far, and why it is not judged where it is not."""
    dims = tuple(torch.export.Dim.AUTO for _ in sample.x.shape)
    try:
        program = torch.export.export(sample.module, (sample.x,), dynamic_shapes=(dims,))
    except Exception:  # of torch.export, of any kind
        return [], "torch.export refuses it"
    at = " ".join(sample.names)
    try:
        model = explorer.load(program)
        compiled = explorer.compile(model, PLAIN.device, until=until)
    except UnsupportedOperator as problem:
        return [], f"unsupported: {str(problem)[:80]}"
    except Exception as problem:
        failure = crash(problem)
        return [Failure(failure.kind, failure.at, f"{at}: {failure.story}")], ""
    (name,) = model.inputs
    for x in (sample.x, *others(c, program)):
        given = f"{at} of {list(x.shape)}"
        try:
            feeds, runs = {name: x.numpy()}, compiled.stage.name == "EMITTED"
            found = compiled.run(feeds) if runs else evaluate(compiled.program, feeds)
        except Exception as problem:
            failure = crash(problem)
            return [Failure(failure.kind, failure.at, f"{given}: {failure.story}")], ""
        wrong = differs(list(found.values()), sample.module, x)
        if wrong:
            return [Failure("wrong", sample.names[-1], f"{given}: {wrong}")], ""
    return [], "" if is_dynamic(program) else "no dim is dynamic"


def placeholder(program: Any) -> Any:
    """Return the fake tensor of the one input."""
    (name,) = program.graph_signature.user_inputs
    return next(n.meta["val"] for n in program.graph.nodes if n.name == name)


def is_dynamic(program: Any) -> bool:
    """Return True if a dim of the input is a symbol."""
    return any(not isinstance(d, int) for d in placeholder(program).shape)


def others(c: Choices, program: Any) -> Iterator[Any]:
    """Give inputs of other sizes that the program's own guards take."""
    dims = placeholder(program).shape
    symbols = sorted(
        {s for d in dims if not isinstance(d, int) for s in d.node.expr.free_symbols}, key=str
    )
    count = 0
    for _ in range(ATTEMPTS if symbols else 0):
        sizes = {s: c.one(SIZES) for s in symbols}
        shape = [d if isinstance(d, int) else int(d.node.expr.subs(sizes)) for d in dims]
        x = torch.randn(shape)
        try:
            with torch.no_grad():
                program.module()(x)
        except Exception:  # a guard, of any kind
            continue
        yield x
        count += 1
        if count == OTHERS:
            return


def differs(results: list[Any], module: Any, x: Any) -> str:
    """Return how results differ from eager PyTorch's in float32 and in float64; nothing if not."""
    with torch.no_grad():
        wanted = [t.numpy() for t in module(x)]
        problem = _differ(results, wanted)
        if not problem:
            return ""
        wide = [t.numpy() for t in module.double()(x.double())]
        module.float()
    return problem if _differ(results, wide) else ""


def _differ(results: list[Any], wanted: list[Any]) -> str:
    if len(results) != len(wanted):
        return f"{len(results)} results for {len(wanted)}"
    for i, (got, want) in enumerate(zip(results, wanted)):
        got = np.asarray(got)
        if got.shape != want.shape:
            return f"result {i} has the shape {got.shape} for {want.shape}"
        size = float(np.abs(np.where(np.isfinite(want), want, 0)).max(initial=1e-3))
        if not np.allclose(got, want, rtol=NEAR, atol=NEAR * size, equal_nan=True):
            with np.errstate(invalid="ignore"):
                off = np.nanmax(np.abs(got.astype("f8") - want), initial=0)
            return f"result {i} is off by {off:.3g} of {size:.3g}"
    return ""
