"""The kernel table: Roller's operator classes, one operator each, raced in one run.

`python -m explorer.tuning.kernel_table.table --json [--only NAME...] [--threads 1,2] [--seconds S]`

Every operator is raced at each number of threads against PyTorch, onnxruntime and NumPy in turns,
after their answers were compared (`kernel_peers` says in which layout each runs and what is not in
its time). A ratio is the fastest other's time over ours. Percents are of the roof: of the measured
FMA peak where an operator's multiply-adds take longer than its bytes, else of the measured
bandwidth of the nearest memory level that holds its operands; multiply-adds are those of the
definition, so what needs fewer of them (Winograd's minimal filters) may pass 100. All times include
one call from Python, of every runtime alike; bandwidth is summed up over the rows that are long
enough for that not to matter. Paper: Zhu et al. 2022, Roller, section 5.2.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from explorer.errors import BadOption, IronworksError
from explorer.measure.compare import checked_seconds
from explorer.measure.machine import machine
from explorer.measure.this_machine.this_cpu import measured_cpu
from explorer.tuning.kernel_table.case import Case
from explorer.tuning.kernel_table.operators import Operator, operators
from explorer.tuning.kernel_table.peers import limited_threads, others, ours
from explorer.tuning.kernel_table.race import Row, raced
from explorer.tuning.kernel_table.roofs import Roofs, roofs
from explorer.tuning.peers.runtimes import LEAST_SPIN, SPIN_VARIABLE

FAR_BEHIND_RATIO = 0.7  # that no operator should be under; chosen
LARGE_OPERATIONS = 1e8  # of a product or a 3 x 3 convolution that should be near the peak
LONG_US = 100.0  # of memory traffic, beside which a call from Python is a few percent

Progress = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class KernelTable:
    """All rows of a run."""

    rows: tuple[Row, ...]
    roofs: tuple[Roofs, ...]

    def to_json(self) -> dict[str, object]:
        """What `--json` prints."""
        return {
            "machine": machine().line,
            "roofs": [_roof_fields(r) for r in self.roofs],
            "rows": [r.to_json() for r in self.rows],
            "summary": self.summary(),
        }

    def summary(self) -> dict[str, object]:
        """Geometric mean of the ratios, who is far behind, and percents of the roofs."""
        large = [r for r in self.rows if _is_large_product(r)]
        streams = [r for r in self.rows if r.bound == "memory" and r.memory_us >= LONG_US]
        behind = [_name(r) for r in self.rows if r.versus and r.versus.ratio < FAR_BEHIND_RATIO]
        return {
            "rows": len(self.rows),
            "operators": len({r.case.operator.name for r in self.rows}),
            "geometric_mean": _mean(self.rows),
            "by_class": {
                kind: _mean([r for r in self.rows if r.case.operator.kind == kind])
                for kind in dict.fromkeys(r.case.operator.kind for r in self.rows)
            },
            "by_threads": {
                str(f.threads): _mean([r for r in self.rows if r.roofs.threads == f.threads])
                for f in self.roofs
            },
            f"under_{FAR_BEHIND_RATIO}": behind,
            "large_products_percent_of_peak": _spread(large),
            "memory_bound_percent_of_bandwidth": _spread(streams),
        }

    def __str__(self) -> str:
        head = f"{'operator':31}batch thr      ours us   ratio (99 %)          of roof      against"
        lines = [head, *(_line(r) for r in self.rows), ""]
        lines += [f"{key}: {_said(value)}" for key, value in self.summary().items()]
        return "\n".join(lines)


def kernel_table(
    only: Sequence[str] = (),
    threads: Sequence[int] = (1, 2),
    seconds: float = 0.3,
    progress: Progress | None = None,
) -> KernelTable:
    """Race every operator, or those whose name holds, or whose class is, one of `only`.

    Raises BadOption where none is; AnswerMismatch where runtimes disagree.
    """
    checked_seconds(seconds)
    chosen = [o for o in operators() if not only or any(_matches(o, text) for text in only)]
    if not chosen:
        raise BadOption(
            f"no operator is known as {' or '.join(map(repr, only))}",
            where="only",
            expected=", ".join(dict.fromkeys(o.kind for o in operators())) + ", or part of a name",
        )
    tell = progress or (lambda text: None)
    tell("measuring the roofs")
    measured = tuple(roofs(measured_cpu(), n) for n in threads)
    return KernelTable(tuple(_rows(chosen, measured, seconds, tell)), measured)


def _rows(
    chosen: Sequence[Operator], measured: Sequence[Roofs], seconds: float, tell: Progress
) -> Iterator[Row]:
    cases = [Case(o, batch) for o in chosen for batch in o.batches]
    for n, case in enumerate(cases):
        with TemporaryDirectory(prefix="ironworks-") as folder:
            for roof in measured:
                row = _row(case, roof, seconds, Path(folder))
                tell(f"{n + 1}/{len(cases)} {_line(row)}")
                yield row


def _row(case: Case, roof: Roofs, seconds: float, folder: Path) -> Row:
    with limited_threads(roof.threads):
        mine = ours(case, roof.threads, folder)
        peers = tuple(others(case, roof.threads, folder))
        return raced(case, roof, mine, peers, seconds)


def _matches(o: Operator, text: str) -> bool:
    return text == o.kind or text in o.name


def _is_large_product(row: Row) -> bool:
    o = row.case.operator
    square = list(o.attrs.get("kernel_shape", [3, 3])) == [3, 3]
    return o.kind in ("matmul", "conv") and square and row.case.operations >= LARGE_OPERATIONS


def _mean(rows: Sequence[Row]) -> float | None:
    logs = [log(r.versus.ratio) for r in rows if r.versus]
    return exp(sum(logs) / len(logs)) if logs else None


def _spread(rows: Sequence[Row]) -> dict[str, float] | None:
    percents = [r.percent_of_roof for r in rows]
    if not percents:
        return None
    return {"least": min(percents), "median": median(percents), "rows": len(percents)}


def _roof_fields(r: Roofs) -> dict[str, object]:
    return {
        "threads": r.threads,
        "peak_gflops": r.peak_gflops,
        "levels": {
            m.level: {"read_gb_per_s": m.read_gb_per_s, "copy_gb_per_s": m.copy_gb_per_s}
            for m in r.levels
        },
    }


def _name(row: Row) -> str:
    return f"{row.case.operator.name} batch {row.case.batch}, {row.roofs.threads} threads"


def _line(row: Row) -> str:
    versus = row.versus
    head = f"{row.case.operator.name:31}{row.case.batch:5}{row.roofs.threads:4}"
    ratio = f"{versus.ratio:6.2f} ({versus.low:.2f} to {versus.high:.2f})" if versus else ""
    what = "peak" if row.bound == "compute" else row.level
    roof = f"{row.percent_of_roof:5.0f} % {what}"
    return f"{head}{row.ours.median_us:13.1f}{ratio:>24}  {roof:14} {row.fastest_other or ''}"


def _said(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, dict):
        return ", ".join(f"{k} {_said(v)}" for k, v in value.items())
    if isinstance(value, list):
        return "; ".join(value) or "none"
    return str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: exit 0, or 2 with one line where it cannot run."""
    parser = argparse.ArgumentParser(prog="kernel_table", description="Race single kernels.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--only", nargs="+", default=(), help="classes, or parts of names")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, such as 1,2")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each row, at least")
    given = parser.parse_args(arguments)
    try:
        table = kernel_table(given.only, _numbers(given.threads), given.seconds, _to_stderr)
    except IronworksError as error:
        print(f"kernel_table: {error}", file=sys.stderr)
        return 2
    print(json.dumps(table.to_json(), indent=1) if given.json else table)
    return 0


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(p.strip().isdecimal() and int(p) > 0 for p in parts):
        raise BadOption(
            f"threads must be positive numbers, not {text!r}", where="threads", expected="1,2"
        )
    return tuple(int(p) for p in parts)


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _with_quiet_blas() -> None:
    """Start again where NumPy's OpenBLAS would keep a core busy for long after each product: it
    reads how long when it is loaded. In the turns of the others it would hold the second core.
    """
    if SPIN_VARIABLE not in os.environ:
        words = [sys.executable, "-m", "explorer.tuning.kernel_table.table", *sys.argv[1:]]
        os.execve(sys.executable, words, {**os.environ, SPIN_VARIABLE: LEAST_SPIN})


if __name__ == "__main__":
    _with_quiet_blas()
    sys.exit(main())
