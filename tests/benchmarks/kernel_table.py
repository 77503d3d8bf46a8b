"""Roller's operator classes, one operator each, against PyTorch, onnxruntime and NumPy.

    python -m tests.benchmarks kernel_table [--only NAME...] [--threads 1,2] [--seconds 0.3]
        [--json]

Every operator is timed in turns at each number of threads, after the answers were compared
(`single_kernels.peers` says in which layout each runs and what is not in its time). Percents are of
the roof: of the measured FMA peak where an operator's multiply-adds take longer than its bytes,
else of the measured bandwidth of the nearest memory level that holds its operands; multiply-adds
are those of the definition, so what needs fewer of them (Winograd's minimal filters) may pass 100.
All times include one call from Python, of every runtime alike; bandwidth is summed up over the rows
that are long enough for that not to matter. Paper: Zhu et al. 2022, Roller, section 5.2.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter_ns

from explorer.errors import AnswerMismatch, BadOption, IronworksError
from explorer.measure.compare import checked_seconds
from explorer.measure.this_cpu import measured_cpu
from explorer.measure.turns import Clock, Watcher
from explorer.tuning.compare import TOLERANCE_SHARE, agree
from explorer.tuning.peers.runtimes import LEAST_SPIN, SPIN_VARIABLE
from tests.benchmarks.rows import Row, mean, over_peers, parser_of, report, say, timed
from tests.benchmarks.single_kernels.case import Case
from tests.benchmarks.single_kernels.operators import Operator, operators
from tests.benchmarks.single_kernels.peers import Runner, limited_threads, others, ours
from tests.benchmarks.single_kernels.roofs import Roofs, roofs

FAR_BEHIND_RATIO = 0.7  # that no operator should be under; chosen
LARGE_OPERATIONS = 1e8  # of a product or a 3 x 3 convolution that should be near the peak
LONG_US = 100.0  # of memory traffic, beside which a call from Python is a few percent
COLUMNS = ("percent_of_roof", "bound")


def kernel_row(
    case: Case,
    roofs: Roofs,
    mine: Runner,
    peers: Sequence[Runner],
    seconds: float,
    clock: Clock = perf_counter_ns,
    watch: Watcher | None = None,
) -> Row:
    """Compare the answers of an operator, then time it.

    Raises AnswerMismatch where a runtime differs beyond 1e-4 of the largest element.
    """
    answer = mine.answer()
    for other in peers:
        if not agree(answer, other.answer()):
            name = f"{case.operator.name} at batch {case.batch}"
            raise AnswerMismatch(
                f"ironworks and {other.name} differ at {name}",
                where=name,
                expected=f"at most {TOLERANCE_SHARE:g} of the largest answer",
            )
    row = timed(
        f"{case.operator.name} batch {case.batch}, {roofs.threads} threads",
        {mine.name: mine.run},
        {p.name: p.run for p in peers},
        seconds,
        clock=clock,
        watch=watch,
    )
    us = 1e6 * row.variants[mine.name].median
    return replace(row, details=_facts(case) | _roof(case, roofs, answer.nbytes, us))


def _facts(case: Case) -> dict[str, object]:
    o = case.operator
    square = list(o.attrs.get("kernel_shape", [3, 3])) == [3, 3]
    large = o.kind in ("matmul", "conv") and square and case.operations >= LARGE_OPERATIONS
    return {
        "operator": o.name,
        "class": o.kind,
        "source": o.source,
        "shapes": [list(s) for s in (*o.shapes(case.batch), *o.weights)],
        "batch": case.batch,
        "large_product": large,
    }


def _roof(case: Case, roofs: Roofs, written: int, us: float) -> dict[str, object]:
    """Compare a time with the least that the multiply-adds and the bytes allow.

    Every operand counts once; a gather reads the rows that it selects.
    """
    read = _read_bytes(case, written)
    level = roofs.level_of(read + written)
    memory_us, compute_us = level.floor_us(read, written), case.operations / roofs.peak_gflops / 1e3
    return {
        "threads": roofs.threads,
        "read_bytes": read,
        "written_bytes": written,
        "gflop_per_s": case.operations / us / 1e3,
        "gb_per_s": (read + written) / us / 1e3,
        "level": level.level,
        "memory_us": memory_us,
        "bound": "peak" if compute_us > memory_us else level.level,
        "percent_of_roof": 100 * max(compute_us, memory_us) / us,
    }


def _read_bytes(case: Case, written: int) -> int:
    inputs = sum(x.nbytes for x in case.inputs.values())
    if case.operator.choices:
        return inputs + written
    if case.operator.op == "Slice":
        return written
    return inputs + sum(w.nbytes for w in case.weights.values())


def kernel_rows(
    only: Sequence[str], measured: Sequence[Roofs], seconds: float = 0.3
) -> Iterator[Row]:
    """Time every operator, or those whose name holds, or whose class is, one of `only`.

    Raises BadOption where there is none; AnswerMismatch where runtimes disagree.
    """
    cases = [Case(o, batch) for o in chosen(only) for batch in o.batches]
    for n, case in enumerate(cases):
        say(f"{n + 1}/{len(cases)}")
        with TemporaryDirectory(prefix="ironworks-") as folder:
            for roof in measured:
                with limited_threads(roof.threads):
                    mine = ours(case, roof.threads, Path(folder))
                    peers = tuple(others(case, roof.threads, Path(folder)))
                    yield kernel_row(case, roof, mine, peers, seconds)


def chosen(only: Sequence[str]) -> list[Operator]:
    """Select operators by their class, or by a part of their name."""
    found = [o for o in operators() if not only or any(t == o.kind or t in o.name for t in only)]
    if not found:
        raise BadOption(
            f"no operator is known as {' or '.join(map(repr, only))}",
            where="only",
            expected=", ".join(dict.fromkeys(o.kind for o in operators())) + ", or part of a name",
        )
    return found


def summary(rows: Sequence[Row]) -> dict[str, object]:
    """Summarize: geometric means of the ratios, who is far behind, and percents of the roofs."""

    def means(key: str) -> dict[str, float | None]:
        values = dict.fromkeys(r.details[key] for r in rows)
        return {
            str(v): mean(r.ratio.median for r in rows if r.ratio and r.details[key] == v)
            for v in values
        }

    streams = [r for r in rows if r.details["bound"] != "peak" and r.details["memory_us"] > LONG_US]
    return over_peers(rows) | {
        "by_class": means("class"),
        "by_threads": means("threads"),
        f"under_{FAR_BEHIND_RATIO}": [
            r.case for r in rows if r.ratio and r.ratio.median < FAR_BEHIND_RATIO
        ],
        "large_products_percent_of_peak": _spread([r for r in rows if r.details["large_product"]]),
        "memory_bound_percent_of_bandwidth": _spread(streams),
    }


def _spread(rows: Sequence[Row]) -> Mapping[str, float] | None:
    percents = [r.details["percent_of_roof"] for r in rows]
    if not percents:
        return None
    return {"least": min(percents), "median": median(percents), "rows": len(percents)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table: exit 0, or 2 with one line where it cannot run."""
    parser = parser_of(__doc__, threads="1,2", seconds=0.3)
    parser.add_argument("--only", nargs="+", default=(), help="classes, or parts of names")
    flags = parser.parse_args(arguments)
    try:
        checked_seconds(flags.seconds)
        chosen(flags.only)
        say("measuring the roofs")
        measured = [roofs(measured_cpu(), n) for n in flags.threads]
        rows = kernel_rows(flags.only, measured, flags.seconds)
        facts = {"roofs": [asdict(r) for r in measured]}
        report(rows, flags.json, COLUMNS, lambda rows: facts | summary(rows))
    except IronworksError as error:
        say(f"kernel_table: {error}")
        return 2
    return 0


def _with_quiet_blas() -> None:
    """Start again where NumPy's OpenBLAS would keep a core busy for long after each product: it
    reads how long when it is loaded. In the turns of the others it would hold the second core.
    """
    if SPIN_VARIABLE not in os.environ:
        words = [sys.executable, "-m", "tests.benchmarks.kernel_table", *sys.argv[1:]]
        os.execve(sys.executable, words, {**os.environ, SPIN_VARIABLE: LEAST_SPIN})


if __name__ == "__main__":
    _with_quiet_blas()
    sys.exit(main())
