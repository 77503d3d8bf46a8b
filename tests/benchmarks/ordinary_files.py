"""ONNX files as packages ship them: each loaded, compiled, run and raced against onnxruntime.

    python -m tests.benchmarks ordinary_files PATH... [--limit 900] [--mib 12000] [--seconds 0.5]
        [--only TEXT] [--partial FILE] [--json]

A path is an ONNX file, a folder, a wheel or a source archive; nothing is downloaded. Each file has
a process of its own with a limit of time and of memory, and an empty cache. It is compiled as it is
(symbolic) and with the sizes of the first shape in place of its symbols (static), and run on three
shapes that onnxruntime accepts. A row has the seconds of both, the error against onnxruntime (NaN
agrees with NaN; where its own optimizations change an answer, twice as much is allowed; where ours
is nearer to the reference interpreter's answer, which takes Fourier transforms in doubles, that one
judges), its time over ours for each shape, and the largest memory of the process; or the first
sentence of what went wrong, and where. Inputs are drawn by type and rank alone.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from itertools import islice, product
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np
import onnx

from explorer.errors import AnswerMismatch
from explorer.measure.compare import comparison
from explorer.measure.machine import machine
from explorer.measure.turns import Watch, take_turns
from explorer.ops.interpreter.evaluate import evaluate
from explorer.plain_text import size as bytes_text
from explorer.plain_text import table
from explorer.tuning.compare import check_answers, largest_error
from tests.benchmarks.rows import mean, parser_of, say

Arrays = dict[str, np.ndarray]
Outputs = Mapping[str, np.ndarray]

SHAPES = 3
BATCHES = (1, 2, 3)
LENGTHS = (64, 96, 320, 48, 512, 1600, 16, 2, 1)  # of other dims, in this order
SIGNALS = (16000, 8000, 12345, 1600, 512, 64, 320, 1, 2)  # of inputs with no more than two dims
MOST_TRIES = 60  # of sizes, until onnxruntime has accepted three
ROUNDING = 1e-6  # of float32 near 1: what follows a sigmoid may be smaller altogether
ALLOWED = 1e-4  # of the largest element, from the exact answer
RATE = 16000  # what a number alone is: files of speech ask for the sampling rate
MIB = 1 << 20


@dataclass(frozen=True)
class FileRow:
    """A file, and how far it came: `stage` is the last one that it began, "done" at the end.

    Seconds are None where that was not compiled; `ratios` are onnxruntime's times over ours, and
    `errors` the largest differences, one for each shape.
    """

    file: str
    stage: str = "load"
    symbolic_s: float | None = None
    static_s: float | None = None
    shapes: tuple[str, ...] = ()
    errors: tuple[float, ...] = ()
    ratios: tuple[float, ...] = ()
    peak_bytes: int = 0
    problem: str = ""

    @property
    def is_right(self) -> bool:
        """Whether it ran on every shape and gave onnxruntime's answers."""
        return self.stage == "done" and not self.problem


Tell = Callable[[FileRow], None]


# In the process of one file.


def examine(path: Path, seconds: float, tell: Tell) -> None:
    """Take a file through all stages; `tell` the row before each of them."""
    try:
        for row in _stages(path, seconds):
            tell(replace(row, peak_bytes=_peak()))
    except Exception as problem:  # whatever it is stands in the row
        first = next(iter(str(problem).splitlines()), "")
        said = f"{type(problem).__name__}: {first}"
        tell(replace(_last.row, peak_bytes=_peak(), problem=said[:300]))


@dataclass
class _Last:
    row: FileRow = field(default_factory=lambda: FileRow(""))


_last = _Last()


def _stages(path: Path, seconds: float) -> Iterator[FileRow]:
    import explorer
    from explorer.tuning.peers.peer_process import prepare_apart

    explorer.compile("zoo:small_nerf")  # what is imported by then takes none of the seconds

    def at(stage: str, **changes: Any) -> FileRow:
        _last.row = replace(_last.row, stage=stage, **changes)
        return _last.row

    _last.row = FileRow(_name(path))
    yield at("onnxruntime")
    given = accepted_inputs(path)
    yield at("compile symbolic", shapes=tuple(_shape_text(x) for x, _ in given))
    begin = perf_counter()
    c = explorer.compile(path)
    seconds_symbolic = perf_counter() - begin
    yield at("run", symbolic_s=seconds_symbolic)
    errors: list[float] = []
    for inputs, wants in given:
        exact = partial(evaluate, c.model.program, inputs)
        errors.append(error_of(c.run(inputs), *wants, exact))
        yield at("run", errors=tuple(errors))
    yield at("race")
    ratios: list[float] = []
    threads = c.options.rammer.threads or c.device.units
    for inputs, _ in given:
        peer = prepare_apart("onnxruntime", c.model, inputs, threads)
        try:
            works = (partial(c.run, inputs), peer.run)
            ours, theirs = take_turns(works, seconds, perf_counter_ns, Watch())
        finally:
            peer.close()
        ratios.append(comparison(ours, theirs).ratio)
        yield at("race", ratios=tuple(ratios))
    if not c.model.program.env.symbols:
        yield at("done", static_s=seconds_symbolic)
        return
    yield at("compile static")
    with tempfile.TemporaryDirectory() as folder:
        fixed = with_sizes(path, given[0][0], Path(folder) / path.name)
        begin = perf_counter()
        static = explorer.compile(fixed)
        seconds_static = perf_counter() - begin
        yield at("run static", static_s=seconds_static)
        exact = partial(evaluate, static.model.program, given[0][0])
        error_of(static.run(given[0][0]), *given[0][1], exact)
    yield at("done")


def error_of(got: Outputs, want: Outputs, plain: Outputs, exact: Callable[[], Outputs]) -> float:
    """Return the largest error against onnxruntime, of which `plain` is without optimizations.

    Raises AnswerMismatch where an output differs by more than 1e-4 of the largest element and 1e-6,
    and by more than twice of what the optimizations change; unless it differs by no more from the
    exact answer, and onnxruntime's does.
    """
    errors = []
    for name, array in want.items():
        one = {name: got[name]}
        try:
            errors.append(check_answers(one, {name: array}, "onnxruntime"))
        except AnswerMismatch:
            if got[name].shape != array.shape or array.dtype.kind != "f":
                raise
            error = largest_error(got[name], array)
            if error > max(ROUNDING, 2 * largest_error(array, plain[name])):
                right = exact()[name]
                error = largest_error(got[name], right)
                if not error < min(ALLOWED, largest_error(array, right)):
                    raise
            errors.append(error)
    return max(errors, default=0.0)


def accepted_inputs(path: Path) -> list[tuple[Arrays, tuple[Outputs, Outputs]]]:
    """Return inputs of three shapes that onnxruntime runs, with its outputs as it optimizes and
    without; one where no size is a symbol.
    """
    import onnxruntime

    def session_of(level: Any) -> Any:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = level
        return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])

    levels = onnxruntime.GraphOptimizationLevel
    session, plain = session_of(levels.ORT_ENABLE_ALL), session_of(levels.ORT_DISABLE_ALL)
    names = [o.name for o in session.get_outputs()]
    found: list[tuple[Arrays, tuple[Outputs, Outputs]]] = []
    problem = "no sizes were tried"
    for sizes in _sizes(session.get_inputs()):
        inputs = _draw(session.get_inputs(), sizes)
        try:
            outputs = dict(zip(names, session.run(names, inputs), strict=True))
        except Exception as refusal:  # these sizes are not the model's
            problem = str(refusal)
            continue
        if all(a.size for a in outputs.values()):
            others = dict(zip(names, plain.run(names, inputs), strict=True))
            found.append((inputs, (outputs, others)))
        if len(found) == SHAPES:
            break
    if not found:
        raise RuntimeError(f"onnxruntime accepts none of the sizes: {problem}")
    return found


def _choices(inputs: Sequence[Any]) -> dict[str, Sequence[int]]:
    """What each free dim may be; a first one is a batch, wherever its name stands besides."""
    found: dict[str, Sequence[int]] = {}
    for value in inputs:
        for n, dim in enumerate(value.shape):
            key = dim or f"{value.name} {n}"
            if n == 0 and len(value.shape) > 1 and not isinstance(dim, int):
                found[key] = BATCHES
            elif not isinstance(dim, int):
                found.setdefault(key, LENGTHS if len(value.shape) > 2 else SIGNALS)
    return found


def _sizes(inputs: Sequence[Any]) -> Iterator[dict[str, int]]:
    choices = _choices(inputs)
    lists = [*choices.values()]
    seen: set[tuple[int, ...]] = set()
    rotations = (  # first each at its own pace, then all that there are
        tuple(c[(n + k * bool(j % 2)) % len(c)] for j, c in enumerate(lists))
        for n in range(max(map(len, lists), default=1))
        for k in (0, 1)
    )
    for values in (*rotations, *islice(product(*lists), MOST_TRIES)):
        if values not in seen and len(seen) < MOST_TRIES:
            seen.add(values)
            yield dict(zip(choices, values, strict=True))


def _draw(inputs: Sequence[Any], sizes: Mapping[str, int]) -> Arrays:
    random, found = np.random.default_rng(0), {}
    longest = 1
    for value in inputs:
        dims = enumerate(value.shape)
        shape = [d if isinstance(d, int) else sizes[d or f"{value.name} {n}"] for n, d in dims]
        longest = max(longest, *shape, 1)
        kind = value.type.removeprefix("tensor(").removesuffix(")")
        dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
        if dtype.startswith("float"):
            found[value.name] = np.asarray(random.random(shape) - 0.5, dtype)
        elif dtype == "bool":
            found[value.name] = np.asarray(random.random(shape) < 0.5)
        elif dtype == "string":
            found[value.name] = np.full(shape, "text", object)
        elif not shape:
            found[value.name] = np.array(RATE, dtype)
        elif len(shape) == 1:  # lengths
            found[value.name] = np.full(shape, longest, dtype)
        else:
            found[value.name] = random.integers(0, 10, shape).astype(dtype)
    return found


def with_sizes(path: Path, inputs: Mapping[str, np.ndarray], target: Path) -> Path:
    """Write the model with the shapes of these inputs in place of its own."""
    model = onnx.load(path)
    for value in model.graph.input:
        if value.name in inputs:
            shape = value.type.tensor_type.shape
            for dim, n in zip(shape.dim, inputs[value.name].shape, strict=True):
                dim.dim_value = n
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    onnx.save(model, target)
    return target


def _shape_text(inputs: Mapping[str, np.ndarray]) -> str:
    return " ".join("×".join(map(str, a.shape)) or "scalar" for a in inputs.values())


def _name(path: Path) -> str:
    """What a file is called in the table: packages ship several of one name."""
    return f"{path.parent.name}/{path.name}"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# In the process that has them all.


def files_in(paths: Sequence[Path], folder: Path) -> Iterator[Path]:
    """Return the ONNX files of paths, those of archives unpacked under a folder."""
    for path in paths:
        if path.is_dir():
            yield from sorted(path.rglob("*.onnx"))
        elif path.suffix in (".whl", ".zip"):
            with zipfile.ZipFile(path) as archive:
                names = [n for n in archive.namelist() if n.endswith(".onnx")]
                archive.extractall(folder / path.stem, names)
            yield from sorted((folder / path.stem).rglob("*.onnx"))
        elif path.name.endswith((".tar.gz", ".tgz")):
            with tarfile.open(path) as archive:
                members = [m for m in archive.getmembers() if m.name.endswith(".onnx")]
                archive.extractall(folder / path.stem, members, filter="data")
            yield from sorted((folder / path.stem).rglob("*.onnx"))
        else:
            yield path


def row_of_file(path: Path, limit: float, mib: int, seconds: float) -> FileRow:
    """Examine a file in a process of its own; what it told last counts where that was stopped."""
    words = [sys.executable, "-m", "tests.benchmarks.ordinary_files", str(path), "--one"]
    words += ["--mib", str(mib), "--seconds", str(seconds)]
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        cache.mkdir(mode=0o700)
        child = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "IRONWORKS_CACHE": str(cache)},
            start_new_session=True,
            text=True,
        )
        problem = ""
        try:
            out, _ = child.communicate(timeout=limit)
            if child.returncode:
                problem = f"its process ended with {child.returncode}"
        except subprocess.TimeoutExpired:
            problem = f"took more than {limit:g} s"
        finally:
            _end_group(child)
        if problem.startswith("took"):
            out, _ = child.communicate()
    lines = [line for line in out.splitlines() if line.startswith("{")]
    row = _read(lines[-1]) if lines else FileRow(_name(path))
    return row if row.problem or not problem else replace(row, problem=problem)


def _end_group(child: subprocess.Popen[str]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _read(text: str) -> FileRow:
    written = json.loads(text)
    values = {f.name: written[f.name] for f in fields(FileRow)}
    for name in ("shapes", "errors", "ratios"):
        values[name] = tuple(values[name])
    return FileRow(**values)


def text_of(rows: Sequence[FileRow]) -> str:
    """Return the table of all rows, and of the failures by their stage."""
    head = ("file", "stage", ">symbolic", ">static", ">times", ">error", ">ratios", ">memory")
    cells = [
        (
            r.file,
            r.stage if r.stage != "done" else ("right" if r.is_right else "wrong"),
            _seconds(r.symbolic_s),
            _seconds(r.static_s),
            f"{r.symbolic_s / r.static_s:.1f}" if r.symbolic_s and r.static_s else "",
            f"{max(r.errors):.1e}" if r.errors else "",
            " ".join(f"{x:.2f}" for x in r.ratios),
            bytes_text(r.peak_bytes),
        )
        for r in rows
    ]
    failures = [f"{r.file} at {r.stage}: {r.problem}" for r in rows if not r.is_right]
    return "\n".join((table(head, cells, ""), "", *failures))


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"


def summary(rows: Sequence[FileRow]) -> dict[str, object]:
    """Return counts and means over all rows."""
    ratios = [x for r in rows for x in r.ratios]
    both = [r.symbolic_s / r.static_s for r in rows if r.symbolic_s and r.static_s]
    return {
        "files": len(rows),
        "right": sum(r.is_right for r in rows),
        "shapes raced": len(ratios),
        "mean ratio": mean(ratios),
        "shapes under 1": sum(x < 1 for x in ratios),
        "mean symbolic over static": mean(both),
    }


def _print(row: FileRow) -> None:
    print(json.dumps(asdict(row)), flush=True)


def _limited(mib: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = mib * MIB if hard == resource.RLIM_INFINITY else min(mib * MIB, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each file; return 1 where one is not right."""
    parser = parser_of(__doc__, seconds=0.5)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for one file")
    parser.add_argument("--mib", type=int, default=12000, help="of address space for one file")
    parser.add_argument("--only", default="", help="files with this in their name")
    parser.add_argument("--partial", type=Path, help="rows, kept as they are made")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    flags = parser.parse_args(arguments)
    if flags.one:
        _limited(flags.mib)
        examine(
            flags.paths[0], flags.seconds, lambda row: print(json.dumps(asdict(row)), flush=True)
        )
        return 0
    done = {}
    if flags.partial and flags.partial.exists():
        done = {r.file: r for r in map(_read, flags.partial.read_text("utf-8").splitlines())}
    rows: list[FileRow] = []
    with tempfile.TemporaryDirectory() as folder:
        for path in files_in(flags.paths, Path(folder)):
            if flags.only not in path.name:
                continue
            row = done.get(_name(path))
            if row is None:
                row = row_of_file(path, flags.limit, flags.mib, flags.seconds)
                say(text_of([row]).partition("\n\n")[0].splitlines()[-1] + f"  {row.problem}")
                if flags.partial:
                    with flags.partial.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(asdict(row)) + "\n")
            rows.append(row)
    facts = {"machine": machine().line, **summary(rows)}
    if flags.json:
        print(json.dumps(facts | {"rows": [asdict(r) for r in rows]}, indent=1))
    else:
        print(text_of(rows))
        print("\n".join(f"{name}: {value}" for name, value in facts.items()))
    return 0 if all(r.is_right for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
