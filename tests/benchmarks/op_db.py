"""Counts which of PyTorch's own operator samples compile to PyTorch's answers and gradients.

    python -m tests.benchmarks op_db [--modes static,dynamic] [--samples 4] [--only add,mul]

Each sample of `torch.testing._internal.common_methods_invocations.op_db` becomes a module, is
exported by torch.export, loaded, compiled and run, and held against eager PyTorch: `right`,
`wrong`, `refused` (an error that says what was expected), `fault` (an error of ours without a
sentence) or `hang`. Each operator runs in a process of its own, which is killed when a sample takes
too long.
Samples that torch.export itself does not take, that are random, or complex, are not counted.

static      at the sizes of the sample
dynamic     all dims symbolic, run at the sizes of the sample and at twice the first dims
gradients   of a weighted sum of the results by all inputs of floats
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

MODES = ("static", "dynamic", "gradients")
STATUSES = ("right", "wrong", "refused", "fault", "hang")
GIVEN = (1e-3, 1e-4)  # relative and absolute tolerance, in float32
SEED = 7
STEP = 1e-6  # of central differences, in float64
TIES = (  # what is free where rows stand twice: places of equal values, bases
    *(
        "sort",
        "argsort",
        "topk",
        "msort",
        "kthvalue",
        "median",
        "nanmedian",
        "mode",
        "qr",
        "linalg.qr",
    ),
)
UNDEFINED = ("empty", "new_empty")  # operators that give what was in memory before begin so


def operators() -> dict[str, Any]:
    """Return the operators of the database by name and variant."""
    from torch.testing._internal import common_methods_invocations as database

    database.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)  # random is random
    return {
        f"{o.name}{'.' + o.variant_test_name if o.variant_test_name else ''}": o
        for o in database.op_db
        if not o.name.startswith(UNDEFINED)
    }


def dtype_of(op: Any) -> Any:
    """Return float32, or else the first dtype that the operator has."""
    import torch

    for dtype in (torch.float32, torch.int64, torch.bool, torch.int32, torch.uint8):
        if dtype in op.dtypes:
            return dtype
    return None


class Sample:
    """A sample as a module: its tensors are inputs, or parameters where gradients are asked for."""

    def __init__(self, op: Any, sample: Any) -> None:
        import torch
        from torch.utils._pytree import tree_flatten

        leaves, self.spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        self.name, self.op, self.leaves = op.name, op.op, leaves
        self.tensors = [i for i, v in enumerate(leaves) if isinstance(v, torch.Tensor)]
        self.inputs = tuple(leaves[i].detach().clone() for i in self.tensors)

    def results(self, *tensors: Any) -> tuple[Any, ...]:
        """Return the tensors that the operator gives."""
        import torch
        from torch.utils._pytree import tree_leaves, tree_unflatten

        leaves = list(self.leaves)
        for i, t in zip(self.tensors, tensors, strict=True):
            leaves[i] = t
        given, args, kwargs = tree_unflatten(leaves, self.spec)
        return tuple(
            t for t in tree_leaves(self.op(given, *args, **kwargs)) if isinstance(t, torch.Tensor)
        )

    def module(self) -> Any:
        """Return the module of which all tensors are inputs."""
        return _module(len(self.inputs), self.results)

    def trained(self) -> tuple[Any, list[str], tuple[Any, ...]]:
        """Return a module whose floats are parameters, their names, and the other tensors."""
        import torch

        floats = [t.is_floating_point() for t in self.inputs]
        rest = tuple(t for t, f in zip(self.inputs, floats, strict=True) if not f)
        names = [f"p{i}" for i, f in enumerate(floats) if f]

        def results(*others: Any) -> tuple[Any, ...]:
            left = iter(others)
            each = [getattr(made, f"p{i}") if f else next(left) for i, f in enumerate(floats)]
            return tuple(t for t in self.results(*each) if t.is_floating_point())

        made = _module(len(rest), results)
        for i, (t, f) in enumerate(zip(self.inputs, floats, strict=True)):
            if f:
                made.register_parameter(f"p{i}", torch.nn.Parameter(t.clone()))
        return made, names, rest


def _module(inputs: int, run: Any) -> Any:
    import torch

    class Operator(torch.nn.Module):  # type: ignore[misc]
        pass

    names = ", ".join(f"x{i}" for i in range(inputs))
    scope = {"run": run}
    exec(f"def forward(self{', ' if names else ''}{names}): return run({names})", scope)
    Operator.forward = scope["forward"]  # type: ignore[assignment]
    return Operator()


def samples_of(op: Any, count: int, gradients: bool) -> Iterator[Sample]:
    """Yield at most so many samples with tensors of real numbers."""
    import torch

    dtype = dtype_of(op)
    if dtype is None or (gradients and (not op.supports_autograd or dtype is not torch.float32)):
        return
    torch.manual_seed(SEED)
    found = 0
    for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
        made = Sample(op, sample)
        plain = all(
            t.layout == torch.strided and not t.is_complex() and not t.is_quantized
            for t in made.inputs
        )
        if made.inputs and plain:
            yield made
            found += 1
        if found == count:
            return


def is_steady(run: Any, inputs: Sequence[Any]) -> bool:
    """Return True if eager PyTorch gives the same real numbers twice."""
    import torch

    answers = []
    for seed in range(4):
        torch.manual_seed(seed)
        try:
            answers.append(run(*[t.clone() for t in inputs]))
        except Exception:  # PyTorch's own refusal, of any kind
            return False
    if not answers[0] or any(t.is_complex() or t.layout != torch.strided for t in answers[0]):
        return False
    return all(
        a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
        for others in answers[1:]
        for a, b in zip(answers[0], others, strict=True)
    )


def array(tensor: Any) -> np.ndarray:
    """Return a tensor's elements; bfloat16 as float32."""
    import torch

    plain = tensor.detach().contiguous()
    wide = plain.float() if plain.dtype == torch.bfloat16 else plain
    return np.asarray(wide.numpy(force=True))  # zeros of PyTorch's may have no memory


def compare(found: Sequence[Any], wanted: Sequence[Any]) -> str:
    """Return what is wrong; nothing if all is right."""
    if len(found) != len(wanted):
        return f"{len(found)} results for {len(wanted)}"
    for i, (got, want) in enumerate(zip(found, wanted, strict=True)):
        got = np.asarray(got)
        got = got.astype("float32") if got.dtype.name == "bfloat16" else got
        if got.shape != want.shape:
            return f"result {i} has the shape {got.shape} for {want.shape}"
        if got.dtype != want.dtype:
            return f"result {i} is {got.dtype} for {want.dtype}"
        if want.dtype.kind in "fc":
            if not np.allclose(got, want, *GIVEN, equal_nan=True):
                off = np.nanmax(np.abs(got.astype("f8") - want), initial=0)
                return f"result {i} is off by {off:.3g}"
        elif not np.array_equal(got, want):
            return f"result {i} differs"
    return ""


def forward(sample: Sample, dynamic: bool) -> tuple[str, str] | None:
    """Return status and reason of a sample; None where it does not count."""
    import torch

    import explorer

    module = sample.module()
    if not is_steady(module, sample.inputs):
        return None
    dims: Any = None
    if dynamic:
        dims = tuple({d: torch.export.Dim.AUTO for d in range(t.ndim)} for t in sample.inputs)
        if not any(dims):
            return None
    program = exported(module, sample.inputs, dims)
    if program is None:
        return None
    trials = [sample.inputs]
    if dynamic and not sample.name.startswith(TIES):
        trials += [t for t in [longer(program, sample.inputs)] if t is not None]
    model = explorer.load(program)
    compiled = explorer.compile(model)
    for inputs in trials:
        with torch.no_grad():
            wanted = [array(t) for t in module(*[t.clone() for t in inputs])]
        feeds = dict(zip(model.inputs, (array(t) for t in inputs), strict=True))
        found = list(compiled.run(feeds).values())
        problem = compare(found, wanted)
        if problem and compare(found, in_float64(module, inputs)):
            return "wrong", problem
    return "right", ""


def in_float64(module: Any, inputs: Sequence[Any]) -> list[np.ndarray]:
    """Return what PyTorch gives in twice the precision, as float32; nothing if it takes none."""
    import torch

    wide = [t.double() if t.dtype is torch.float32 else t.clone() for t in inputs]
    try:
        with torch.no_grad():
            found = module(*wide)
    except Exception:  # of PyTorch, of any kind
        return []
    return [array(t.float() if t.dtype is torch.float64 else t) for t in found]


def exported(module: Any, inputs: Sequence[Any], dims: Any = None) -> Any:
    """Return what torch.export gives; None where it takes no such module."""
    import torch

    try:
        given = tuple(t.clone() for t in inputs)
        return torch.export.export(module, given, dynamic_shapes=dims)
    except Exception:  # of torch.export, of any kind
        return None


def longer(program: Any, inputs: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return inputs of twice the extent where the first dim is a symbol, if PyTorch takes them."""
    import torch

    names = program.graph_signature.user_inputs
    places = [n for n in program.graph.nodes if n.op == "placeholder" and n.name in names]
    symbolic = [n.meta["val"].ndim and not isinstance(n.meta["val"].shape[0], int) for n in places]
    if not any(symbolic):
        return None
    made = tuple(
        torch.cat([t, t]) if s else t.clone() for t, s in zip(inputs, symbolic, strict=True)
    )
    try:
        program.module()(*[t.clone() for t in made])
    except Exception:  # a guard of the program, of any kind
        return None
    return made


def gradient(sample: Sample) -> tuple[str, str] | None:
    """Return status and reason of a sample's gradients; None where it does not count."""
    import torch

    import explorer
    from explorer.errors import BadOption
    from explorer.training import trainable

    module, names, rest = sample.trained()
    if not names or not is_steady(module, rest):
        return None
    results = module(*rest)
    if not any(t.requires_grad for t in results):
        return None
    torch.manual_seed(SEED)
    weights = [torch.rand(t.shape, dtype=t.dtype) + 0.5 for t in results]
    loss = sum((t * w).sum() for t, w in zip(results, weights, strict=True))
    params = [getattr(module, n) for n in names]
    try:
        slopes = torch.autograd.grad(loss, params, allow_unused=True)
    except Exception:  # PyTorch has no derivative
        return None
    wanted = [array(torch.zeros_like(p) if g is None else g) for g, p in zip(slopes, params)]
    if not all(np.isfinite(w).all() for w in wanted):
        return None
    program = exported(module, rest)
    if program is None:
        return None
    try:
        model = trainable(program)
    except BadOption:  # nothing depends on the inputs: there is no weight to train
        if any(w.any() for w in wanted):
            raise
        return None
    by = [array(w) for w in weights]

    def total(chosen: Any, inputs: Any) -> Any:
        found = model({**fixed, **chosen}, *inputs)
        each = found if isinstance(found, tuple) else (found,)
        each = [t.astype(w.dtype) for t, w in zip(each, by, strict=True)]
        each = [explorer.match_cast(t, _kind(w)) for t, w in zip(each, by, strict=True)]
        return sum((t * w).sum() for t, w in zip(each, by, strict=True))

    known = [n for n in names if n in model.names]
    fixed = {n: p for n, p in model.params.items() if n not in known}
    chosen = {n: model.params[n] for n in known}
    inputs = tuple(array(t) for t in rest)
    slope = explorer.grad(total)
    kinds: dict[str, Any] = {"chosen": {n: _kind(a) for n, a in chosen.items()}}
    if inputs:
        kinds["inputs"] = tuple(map(_kind, inputs))
        traced = explorer.trace(lambda chosen, inputs: slope(chosen, inputs))
    else:
        traced = explorer.trace(lambda chosen: slope(chosen, ()))
    compiled = explorer.compile(traced(**kinds))
    feeds = dict(zip(compiled.model.inputs, [*chosen.values(), *inputs], strict=True))
    found = dict(zip(known, compiled.run(feeds).values(), strict=True))
    each = [np.asarray(found.get(n, np.zeros_like(w))) for n, w in zip(names, wanted)]
    problem = compare(each, wanted)
    if problem and compare(each, by_differences(sample, weights)):
        return "wrong", problem
    return "right", ""


def by_differences(sample: Sample, weights: Sequence[Any]) -> list[np.ndarray]:
    """Return the gradients of the weighted sum by central differences in twice the precision, as
    PyTorch's own rule may be wrong; nothing if it takes none.
    """
    import torch

    inputs = [t.double() if t.is_floating_point() else t.clone() for t in sample.inputs]

    def loss() -> float:
        found = [t for t in sample.results(*inputs) if t.is_floating_point()]
        return float(sum((t * w.double()).sum() for t, w in zip(found, weights, strict=True)))

    slopes = []
    try:
        with torch.no_grad():
            for t in (t for t in inputs if t.is_floating_point()):
                slope = np.zeros(t.shape, "float32")
                for at in np.ndindex(slope.shape):
                    value = t[at].item()
                    t[at] = value + STEP
                    above = loss()
                    t[at] = value - STEP
                    slope[at] = (above - loss()) / (2 * STEP)
                    t[at] = value
                slopes.append(slope)
    except Exception:  # of PyTorch, of any kind
        return []
    return slopes


def _kind(a: np.ndarray) -> Any:
    import explorer

    return explorer.tensor(str(a.dtype), *a.shape)


def judged(result: Callable[[str], tuple[str, str] | None], mode: str) -> tuple[str, str] | None:
    """Return status and reason of a sample in a mode; errors by their kind."""
    from explorer.errors import InternalFault, IronworksError

    try:
        return result(mode)
    except InternalFault as error:
        return "fault", str(error)
    except IronworksError as error:
        return "refused", str(error)
    except Exception as error:  # what is ours and no sentence is a fault
        return "fault", f"{type(error).__name__}: {error}"


def result(sample: Sample, mode: str) -> tuple[str, str] | None:
    """Return status and reason of a sample in a mode; None where it does not count."""
    return gradient(sample) if mode == "gradients" else forward(sample, mode == "dynamic")


def quiet() -> None:
    """Keep a process to one thread of PyTorch's, and its warnings to itself."""
    import torch

    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    torch.set_num_threads(1)


def operator(name: str, modes: Sequence[str], count: int, pipe: Any) -> None:
    """Send a line for the start and the end of each sample of an operator."""
    quiet()
    op = operators()[name]
    for mode in modes:
        try:
            samples = list(samples_of(op, count, mode == "gradients"))
        except Exception:  # PyTorch has no samples of it here
            continue
        for i, sample in enumerate(samples):
            pipe.send((mode, i, None))
            found = judged(partial(result, sample), mode)
            pipe.send((mode, i, found or ("uncounted", "")))
    pipe.send(None)


def counted(
    worker: Callable[..., None], name: str, modes: Sequence[str], seconds: float, *more: Any
) -> Iterator[tuple[str, int, str, str]]:
    """Yield mode, number, status and reason of each sample that counts, as a process of its own
    sends them.
    """
    here, there = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=worker, args=(name, modes, *more, there)
    )
    process.start()
    there.close()
    place: tuple[str, int] = ("", 0)
    try:
        while here.poll(seconds):
            try:
                line = here.recv()
            except EOFError:
                yield (*place, "fault", "the process ended")
                return
            if line is None:
                return
            mode, i, found = line
            place = (mode, i)
            if found is not None and found[0] != "uncounted":
                yield (mode, i, *found)
        yield (*place, "hang", f"more than {seconds:.0f} s")
    finally:
        process.kill()
        process.join()


def report(
    worker: Callable[..., None],
    names: Sequence[str],
    modes: Sequence[str],
    found: argparse.Namespace,
    *more: Any,
) -> int:
    """Print each sample that is not right, then the counts; 1 where one is wrong or a fault."""
    counts: dict[str, Counter[str]] = {m: Counter() for m in modes}
    start = time.perf_counter()
    log = found.json.open("w") if found.json else None
    for name in names:
        for mode, i, status, reason in counted(worker, name, modes, found.seconds, *more):
            if not mode:
                continue
            counts[mode][status] += 1
            if status != "right":
                print(f"{name} [{mode} {i}] {status}: {' '.join(reason.split())[:300]}", flush=True)
            if log is not None:
                row = {"op": name, "mode": mode, "sample": i, "status": status, "why": reason}
                print(json.dumps(row), file=log, flush=True)
    for mode, count in counts.items():
        words = ", ".join(f"{count[s]} {s}" for s in STATUSES)
        print(f"{mode:9}  {sum(count.values())} samples: {words}")
    print(f"{len(names)} processes, {time.perf_counter() - start:.0f} s")
    bad = sum(c[s] for c in counts.values() for s in ("wrong", "fault", "hang"))
    return 1 if bad else 0


def flags(modes: Sequence[str], seconds: float) -> argparse.ArgumentParser:
    """Return the flags that a count has."""
    asked = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--modes", default=",".join(modes))
    asked.add_argument("--seconds", type=float, default=seconds, help="until a sample is a hang")
    asked.add_argument("--only", default="", help="names, with commas between")
    asked.add_argument("--json", type=Path, help="a file for a line of JSON of each sample")
    return asked


def main(arguments: Sequence[str] | None = None) -> int:
    """Count the samples of all operators."""
    asked = flags(MODES, 120.0)
    asked.description = __doc__
    asked.add_argument("--samples", type=int, default=4, help="of each operator at most")
    found = asked.parse_args(arguments)
    import torch

    import explorer.compiler.pipeline  # loaded once, before the processes begin

    torch.set_num_threads(1)
    warmed = exported(_module(1, torch.sin), (torch.ones(2),))  # else each process imports again
    explorer.load(warmed)
    modes = [m for m in MODES if m in found.modes.split(",")]
    only = [n for n in found.only.split(",") if n]
    names = [n for n in operators() if not only or n in only or n.partition(".")[0] in only]
    return report(operator, names, modes, found, found.samples)


if __name__ == "__main__":
    sys.exit(main())
