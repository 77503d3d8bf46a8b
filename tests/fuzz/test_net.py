"""The net holds: fixed seeds pass, a planted fault is caught and made small, a worker that dies is
counted.
"""

import os
import signal
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from explorer.compiler.options import Options
from explorer.ir.calls import KernelCall
from explorer.ir.kernel import Apply, Compute
from explorer.ir.program import Program
from explorer.relax import Options as RelaxOptions
from tests.fuzz import attempt
from tests.fuzz.net import SHARES, Worker, cast
from tests.fuzz.properties import PROPERTIES
from tests.fuzz.saved import load_case
from tests.fuzz.settings import PLAIN, Setting
from tests.strategies.onnx.graphs import case

# Of the crashes one is a kill, one a full disk.
TRIES = {
    "graph": (505, 5), "dynamic": (500, 2), "attribute": (500, 3), "file": (510, 15),
    "state": (500, 8), "crash": (500, 1),
}  # fmt: skip
MORE = {
    "graph": (510, 32), "dynamic": (502, 30), "attribute": (503, 97), "export": (500, 20),
    "file": (525, 165), "state": (508, 142), "crash": (501, 1),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "seed", "count"),
    [
        *((kind, *tries) for kind, tries in TRIES.items()),
        *(pytest.param(kind, *tries, marks=pytest.mark.exhaustive) for kind, tries in MORE.items()),
    ],
)
def test_fixed_seeds_go_through_the_net(kind: str, seed: int, count: int, tmp_path: Path) -> None:
    tally = cast(30, seed, tmp_path, 1, {kind: count})
    assert tally.tries[kind] == count
    assert tally.ways == {}, tally.table()


def test_each_property_holds_for_a_seed(tmp_path: Path) -> None:
    assert set(SHARES) | {"shrink"} == {*attempt.TRIES, *PROPERTIES}
    for kind in set(PROPERTIES) - {"function"}:  # which takes a quarter of a minute
        result = attempt.try_of(kind, 500, tmp_path, tmp_path)
        assert (result.failures, result.note) == ([], "")


def test_a_property_that_fails_is_a_failure_with_its_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_low(number: int) -> None:
        assert number < 5

    monkeypatch.setitem(PROPERTIES, "kernel", (lambda c, _: (c.number(0, 9),), is_low))
    results = [attempt.try_of("kernel", seed, tmp_path, tmp_path) for seed in range(20)]
    failures = [r.failures[0] for r in results if r.failures]
    assert 0 < len(failures) < 20
    assert {f[:2] for f in failures} == {("wrong", "AssertionError at test_net.py:is_low")}
    assert failures[0][2].startswith("kernel ")


def subtracts(program: Program) -> Program:
    """A pass with a fault: where two values are added, the second is subtracted."""

    def wrong(compute: Compute) -> Compute:
        match compute.expr:
            case Apply("add", args):
                return replace(compute, expr=Apply("sub", args))
        return compute

    (main, *rest) = program.functions
    body = []
    for b in main.body:
        if isinstance(b.expr, KernelCall):
            kernel = b.expr.kernel
            changed = replace(kernel, computes=tuple(map(wrong, kernel.computes)))
            b = replace(b, expr=replace(b.expr, kernel=changed))
        body.append(b)
    return replace(program, functions=(replace(main, body=tuple(body)), *rest))


@pytest.mark.exhaustive
def test_a_planted_fault_is_caught_blamed_and_made_small(tmp_path: Path) -> None:
    broken = Setting(
        "broken", PLAIN.device, Options(passes=(("legalise to kernels", subtracts),)), "planned"
    )
    seed = next(
        n for n in range(100) if case(n).operators.count("Add") and len(case(n).operators) > 5
    )
    failures = attempt.tried(case(seed), [broken]).failures
    assert [f.kind for f in failures] == ["wrong"] and "subtracts" in failures[0].at
    path = attempt.save_small(case(seed), failures[0], [broken], tmp_path)
    small = load_case(path)
    assert small.operators == ["Add"]
    assert attempt.tried(small, [broken]).failures
    assert not attempt.tried(small, [replace(PLAIN, until="planned")]).failures


def test_what_the_onnx_package_does_not_compute_is_no_fault_where_it_is_asked_to() -> None:
    given = case(30300)  # GatherElements of fewer indices than elements
    asked = Setting("onnx", PLAIN.device, Options(relax=RelaxOptions(dispatch=("onnx",))))
    for setting in (PLAIN, asked):
        assert attempt.tried(given, [replace(setting, until="planned")]).failures == []


@pytest.mark.exhaustive
def test_a_worker_that_dies_is_counted_and_another_goes_on(tmp_path: Path) -> None:
    worker = Worker(tmp_path, tmp_path / "cache")
    try:
        worker.ask("graph", 1)
        os.kill(worker.process.pid, signal.SIGKILL)
        assert _reply(worker)["failures"][0][:2] == ("dead", "exit code -9")
        worker.ask("file", 3)
        assert _reply(worker)["failures"] == []
    finally:
        worker.stop()


def _reply(worker: Worker) -> dict[str, Any]:
    while (found := worker.reply()) is None:
        sleep(0.02)
    return found
