"""Exported C programs: timed against `c.run` here, and compared under emulators elsewhere.

python -m tests.benchmarks exported [--models tiny_bert,squeezenet] [--threads 1] [--seconds 5]
python -m tests.benchmarks exported --machine aarch64 [--models tiny_bert] [--graphs 300]

With --machine each case is a line: its kernels' bytes, seconds to compile them (0 from the cache),
and its largest difference to onnxruntime, as a part of the largest element. Emulators are Debian's
qemu-user-static, the linker is that of the package `ziglang`.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import onnx

import explorer
from explorer.errors import IronworksError
from explorer.frontends import zoo
from explorer.portable.write import Exported
from explorer.rammer import Options as RammerOptions
from explorer.runtime.workers.aligned_memory import address_of, aligned_array, aligned_bytes
from explorer.tuning.peers.peer import onnx_source
from tests.benchmarks.rows import Row, parser_of, report, timed
from tests.fuzz.oracle import NoAnswer, Oracle
from tests.portable.c_build import EmulatorFault, Library, built, run
from tests.portable.cases import emulated_target, inputs_of
from tests.strategies.onnx import graphs

Arrays = Mapping[str, np.ndarray]
TIMED = ("tiny_bert", "small_bert", "squeezenet", "mobilenetv2")
MACHINES = ("", "aarch64", "riscv64")
FIRST_SEED = 784000
LARGE = 1e-4  # a difference that is shown beside the one of this machine; chosen


@dataclass(frozen=True, slots=True)
class Case:
    """One program on one machine; `problem` is empty if it ran.

    `difference` is the largest one to `against`, over the largest finite element; where it is more
    than `LARGE`, `from_here` is the largest one to `c.run` on this machine, which may differ from
    the other runtime in the same way.
    """

    name: str
    machine: str
    problem: str = ""
    difference: float = 0.0
    from_here: float | None = None
    against: str = ""
    kernels: int = 0
    object_bytes: int = 0
    weight_bytes: int = 0
    compile_seconds: float = 0.0


def on_threads(threads: int = 1) -> explorer.Options:
    """Return the options of a program on some threads."""
    return explorer.Options(rammer=RammerOptions(threads=threads))


def prepared(library: Library, inputs: Arrays) -> Callable[[], int]:
    """Return a call of an exported program that always has the same arguments."""
    written, program = library.written, library.written.program
    operands = []
    for t in program.inputs:
        operands.append(aligned_array(t.shape, np.dtype(t.dtype)))
        operands[-1][...] = inputs[t.name]
    outputs = [aligned_array(t.shape, np.dtype(t.dtype)) for t in program.outputs]
    arena = aligned_bytes(written.arena_bytes)
    tables = [
        (ctypes.c_void_p * (1 + len(arrays)))(*map(address_of, arrays))
        for arrays in (operands, outputs)
    ]
    function = library.library[f"{written.prefix}_run"]
    alive = (operands, outputs, arena)
    places = [ctypes.c_void_p(address_of(arena))]
    places += [ctypes.c_void_p(library.workers)] * bool(library.workers)

    def call(_alive: object = alive) -> int:
        return int(function(*tables, *places))

    return call


def row(name: str, threads: int, seconds: float, folder: Path) -> Row:
    """Time a model as an exported program and by `c.run`."""
    c = explorer.compile(explorer.load(f"zoo:{name}"), options=on_threads(threads))
    inputs = inputs_of(c)
    written = explorer.export(c, folder / f"{name}_{threads}", threads=threads)
    library = Library(written)
    expected = c.run(inputs)
    out = {key: np.empty_like(array) for key, array in expected.items()}
    bound = {key: aligned_array(a.shape, a.dtype) for key, a in expected.items()}
    details = {
        "kernels": len(written.program.kernels),
        "object_bytes": written.object_bytes,
        "compile_seconds": written.seconds,
    }
    with library.started() if threads > 1 else nullcontext():
        for key, array in library.run(inputs).items():
            np.testing.assert_array_equal(array, expected[key])
        works = {
            "c.run": partial(c.run, inputs, out=out),
            "bound arrays": c.executable.prepared(inputs, bound),  # without look-ups and checks
            "C": prepared(library, inputs),
        }
        case = f"{name}; {threads} threads"
        return timed(case, works, None, seconds, base="c.run", details=details)


def model_case(name: str, machine: str, folder: Path) -> Case:
    """Run a model of the zoo on an emulated machine, and compare it."""
    model = explorer.load(f"zoo:{name}")
    try:
        c = explorer.compile(model, emulated_target(machine, folder.parent), options=on_threads())
        written = explorer.export(c, folder)
    except IronworksError as problem:
        return Case(name, machine, problem.sentence)
    inputs = inputs_of(c)
    try:
        source = onnx_source(model)
        proto = onnx.load_from_string(source) if isinstance(source, bytes) else onnx.load(source)
        oracle = Oracle(proto)
        answers, against = oracle(inputs), oracle.by
    except (IronworksError, NoAnswer):
        answers, against = zoo.reference(f"zoo:{name}", inputs), "its definition in NumPy"
    return _compared(name, machine, written, model, inputs, answers, against)


def graph_case(seed: int, machine: str, folder: Path) -> Case:
    """Run a random graph on an emulated machine, and compare it."""
    case, name = graphs.case(seed), f"graph {seed}"
    path = folder.parent / "graph.onnx"
    onnx.save(case.model, path)
    feeds = case.feeds[0]
    try:
        model = explorer.load(path)
        c = explorer.compile(model, emulated_target(machine, folder.parent), options=on_threads())
        params = c.executable.program.main.params
        dims = {
            str(d): n for p in params for d, n in zip(p.type.dims, feeds[p.name].shape, strict=True)
        }
        sizes = {n: dims[n] for n in c.hint if n in dims}
        written = explorer.export(c, folder, sizes=sizes)
        oracle = Oracle(case.model)
        answers = oracle(feeds)
    except IronworksError as problem:
        return Case(name, machine, problem.sentence)
    except NoAnswer as problem:
        return Case(name, machine, f"no other runtime runs it: {problem}")
    return _compared(name, machine, written, model, feeds, answers, oracle.by)


def _compared(
    name: str,
    machine: str,
    written: Exported,
    model: explorer.Model,
    inputs: Arrays,
    answers: Arrays,
    against: str,
) -> Case:
    """Return the case of an exported program after one run."""
    results = run(built(written, machine=machine), written, inputs, machine)
    largest, here = largest_difference(results, answers), None
    if largest > LARGE:
        here = largest_difference(results, explorer.compile(model).run(inputs))
    return Case(
        name,
        machine,
        "",
        largest,
        here,
        against,
        len(written.program.kernels),
        written.object_bytes,
        len(written.program.weights),
        written.seconds,
    )


def largest_difference(results: Arrays, answers: Arrays) -> float:
    """Return the largest difference of all outputs, in order."""
    pairs = zip(results.values(), answers.values(), strict=True)
    return max((difference(a, np.asarray(b)) for a, b in pairs), default=0.0)


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference over the largest element; infinity if NaN is elsewhere."""
    if a.shape != b.shape:
        return float("inf")
    x, y = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    odd = ~finite & ~((np.isnan(x) & np.isnan(y)) | (x == y))
    if odd.any():
        return float("inf")
    scale = float(np.abs(y[finite]).max(initial=0.0)) or 1.0
    return float(np.abs(x[finite] - y[finite]).max(initial=0.0)) / scale


def cases(machine: str, models: Sequence[str], count: int, first: int) -> Iterator[Case]:
    """Yield the models' cases, then those of random graphs."""
    for name in models:
        with tempfile.TemporaryDirectory() as folder:
            yield _attempted(name, machine, partial(model_case, name, machine, Path(folder, "c")))
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory() as folder:
            case = partial(graph_case, seed, machine, Path(folder, "c"))
            yield _attempted(f"graph {seed}", machine, case)


def _attempted(name: str, machine: str, case: Callable[[], Case]) -> Case:
    """Return a case, or its fault: one that fails does not end the others."""
    try:
        return case()
    except EmulatorFault as problem:
        return Case(name, machine, f"the emulator fails: {problem}")
    except Exception as problem:
        return Case(name, machine, f"FAULT {type(problem).__name__}: {str(problem)[:500]}")


def sweep(every: Iterator[Case], as_json: bool) -> None:
    """Print each case as it ends, and a summary."""
    begin, done = perf_counter(), list[Case]()
    for case in every:
        done.append(case)
        if as_json:
            print(json.dumps(asdict(case)), flush=True)
        else:
            here = "" if case.from_here is None else f" ({case.from_here:.2g} from here)"
            said = case.problem or f"{case.difference:.2g}{here} against {case.against}"
            print(f"{case.name:32} {case.kernels:4} kernels {case.object_bytes:9,} B "
                  f"{case.compile_seconds:6.2f} s  {said}", flush=True)  # fmt: skip
    ran = [case for case in done if not case.problem]
    worst = max(ran, key=lambda case: case.difference, default=None)
    faults = [case.name for case in done if case.problem.startswith("FAULT")]
    emulator = sum(case.problem.startswith("the emulator") for case in done)
    print(
        f"{len(ran)} of {len(done)} ran, {len(done) - len(ran) - len(faults) - emulator} refused, "
        f"{emulator} faults of the emulator, {len(faults)} others {faults}; largest difference "
        f"{worst.difference if worst else 0:.2g} ({worst.name if worst else '-'}); "
        f"{perf_counter() - begin:.0f} s",
        file=sys.stderr,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each model, or a line for each case on another machine."""
    parser = parser_of(__doc__, threads="1", seconds=5.0)
    parser.add_argument("--models", default=",".join(TIMED), help="of the zoo, with commas")
    parser.add_argument("--machine", default="", choices=MACHINES, help="emulated; else timed")
    parser.add_argument("--graphs", type=int, default=0, help="random graphs after the models")
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="the first graph's seed")
    flags = parser.parse_args(arguments)
    models = [name for name in flags.models.split(",") if name]
    if flags.machine:
        sweep(cases(flags.machine, models, flags.graphs, flags.first), flags.json)
        return
    with tempfile.TemporaryDirectory() as folder:
        cases_here = [(name, threads) for threads in flags.threads for name in models]
        report((row(*case, flags.seconds, Path(folder)) for case in cases_here), flags.json)


if __name__ == "__main__":
    main()
