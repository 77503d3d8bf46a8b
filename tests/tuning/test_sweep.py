"""Sweeps: every point is a row once, whoever dies meanwhile, and nothing is compared that must not
be.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

import explorer
from explorer.errors import BadOption, BoundError, Cancelled, NoSuchDevice
from explorer.tuning.sweep import Sweep, _run_jobs, sweep
from explorer.tuning.sweep_rows import (
    FAILED,
    MEASURED,
    SIMULATED,
    Store,
    SweepPoint,
    SweepRow,
    here,
    points,
    row_of,
)
from explorer.tuning.sweep_workers import Job

SKIP, BERT = "zoo:tiny_skip", "zoo:tiny_bert"
SHEETS = {"target": ["v100", "a100"], "rammer.policy": ["wavefront", "op-by-op"]}
POLICIES = """
import os
def dies(*given):
    os._exit(3)
def raises(*given):
    raise ValueError("not today")
"""


def untimed(row: SweepRow) -> SweepRow:
    return replace(row, compile_seconds=0.0)


def test_what_changes_the_least_of_a_compilation_varies_fastest() -> None:
    vary = {"seq": [4, 8], "rammer.threads": [1, 2], "roller.top_k": [1], "target": ["v100", "cpu"]}
    found = points(explorer.load(BERT), vary, "cpu", {"batch": 3})
    assert [name for name, _ in found[0].varied] == [
        "target", "roller.top_k", "rammer.threads", "bind.seq",
    ]  # fmt: skip
    assert [dict(p.sizes)["seq"] for p in found] == [4, 8] * 4
    assert all(dict(p.sizes)["batch"] == 3 for p in found)
    assert len({p.key("model") for p in found}) == len(found) == 8
    assert found[0].key("model") != found[0].key("another model")


@pytest.mark.parametrize(
    ("vary", "problem", "named"),
    [
        ({}, BadOption, "needs something to vary"),
        ({"roller.topk": [1]}, BadOption, "roller.top_k"),
        ({"roller.top_k": [0]}, BadOption, "top_k"),
        ({"roller.top_k": ["many"]}, BadOption, "^--vary roller.top_k takes"),
        ({"roller.top_k": 3}, BadOption, "list of values"),
        ({"seq": [0]}, BoundError, "seq"),
        ({"bind.length": [1]}, BadOption, "bind.length"),
        ({"target": ["v1000"]}, NoSuchDevice, "v1000"),
        ({"seq": list(range(1, 200)), "roller.top_k": list(range(1, 1000))}, BadOption, "198,801"),
    ],
)
def test_a_wrong_name_or_value_is_told_before_anything_runs(
    vary: dict[str, Any], problem: type[Exception], named: str
) -> None:
    with pytest.raises(problem, match=named):
        sweep(BERT, vary, executor=Nobody())


class Nobody(Executor):
    """Takes nothing, as where a scheduler has gone."""

    def submit(self, *given: Any, **more: Any) -> Future[Any]:
        raise ConnectionError("gone")


def test_rows_are_kept_as_they_come_and_nothing_is_done_twice(tmp_path: Path) -> None:
    store, told = tmp_path / "rows.sqlite", []
    stopped = sweep_until(2, store)
    assert stopped == 2
    found = sweep(SKIP, SHEETS, store=store, executor=ThreadPoolExecutor(1), progress=told_to(told))
    assert [row.kind for row in found.rows] == [SIMULATED] * 4
    assert len(told) == 2 and told[-1] == 4
    again = sweep(SKIP, SHEETS, store=store, executor=Nobody())
    assert again == found
    with pytest.raises(Cancelled, match="resumes from its store"):
        sweep(SKIP, {"target": ["h100"]}, store=store, executor=Nobody())


def told_to(told: list[int]) -> Any:
    return lambda what, done, total: told.append(done)


def sweep_until(count: int, store: Path) -> int:
    """A sweep that is stopped after some rows; how many there were."""
    told: list[int] = []
    with pytest.raises(Cancelled):
        sweep(
            SKIP, SHEETS, store=store, executor=ThreadPoolExecutor(1), progress=told_to(told),
            cancelled=lambda: len(told) >= count,
        )  # fmt: skip
    return len(told)


@pytest.mark.exhaustive
def test_a_worker_that_dies_costs_its_own_point_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(POLICIES)
    vary = {"rammer.policy": [f"{file}:dies", "wavefront", f"{file}:raises", "op-by-op"]}
    found = sweep(SKIP, vary, target="v100")
    dies, wavefront, raises, op_by_op = found.rows
    assert wavefront.kind == op_by_op.kind == SIMULATED
    assert found.failures == (dies, raises)
    assert "its worker died" in dies.reason
    assert "not today" in raises.reason


class Breaking:
    """Two processes, of which some jobs end the one that they are in; until the pool is renewed
    nothing can be submitted to it.
    """

    width, local = 2, True

    def __init__(self, deadly: str, refuses_at: int) -> None:
        self.deadly, self.refuses_at = deadly, refuses_at
        self.broken, self.submitted = False, 0
        self.flying: list[tuple[Job, Future[SweepRow]]] = []
        self.beside: list[tuple[str, ...]] = []  # what each death took along

    def submit(self, do: Any, job: Job) -> Future[SweepRow]:
        self.submitted += 1
        if self.broken or self.submitted == self.refuses_at:
            self.end()
            raise BrokenExecutor("lost")
        future: Future[SweepRow] = Future()
        self.flying = [(j, f) for j, f in self.flying if not f.done()]
        self.flying.append((job, future))
        if len(self.flying) == self.width or job.key == self.deadly:
            self.end()
        else:
            Timer(0.3, lambda: future.done() or future.set_result(row_for(job))).start()
        return future

    def end(self) -> None:
        keys = tuple(job.key for job, f in self.flying if not f.done())
        dies = self.deadly in keys
        if dies:
            self.beside.append(keys)
        self.broken = self.broken or dies or self.submitted == self.refuses_at
        for job, future in self.flying:
            if not future.done() and self.broken:
                future.set_exception(BrokenExecutor("lost"))
            elif not future.done():
                future.set_result(row_for(job))

    def renew(self) -> bool:
        self.broken, self.flying = False, []
        return True

    def close(self) -> None:
        """Nothing runs."""


def row_for(job: Job) -> SweepRow:
    return SweepRow(
        job.key, job.model, job.point.varied, SIMULATED, "here", "card", predicted_us=1.0
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("refuses_at", [0, 1, 2, 4])
@pytest.mark.parametrize("deadly", ["", "0", "2", "5"])
def test_whoever_is_beside_a_job_that_dies_is_tried_alone_and_done(
    deadly: str, refuses_at: int
) -> None:
    """Also where the pool breaks between two submissions."""
    jobs = [
        Job(str(n), "m", "d", SweepPoint("v100", (), (), (("a.b", str(n)),)), 0.0) for n in range(6)
    ]
    pool = Breaking(deadly, refuses_at)
    found = {job.key: row.kind for job, row in _run_jobs(pool, jobs, pool.width, lambda: False)}
    assert found == {job.key: FAILED if job.key == deadly else SIMULATED for job in jobs}
    assert not deadly or pool.beside[-1] == (deadly,)


SCRIPT = """import explorer
{guard}
    rows = explorer.sweep("zoo:tiny_skip", vary={{"target": ["v100", "a100"]}}).rows
    print([row.reason for row in rows])
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("guard", "given", "said"),
    [
        ('if __name__ == "__main__":', "file", "['', '']"),
        (
            "if explorer:",
            "file",
            "line 3 of mine.py starts a sweep, and `spawn` would run it again",
        ),
        ('if __name__ == "__main__":', "stdin", "<stdin> is no file: save the script to a file"),
    ],
)
def test_a_script_that_would_begin_itself_again_is_told_so(
    guard: str, given: str, said: str, tmp_path: Path
) -> None:
    text = SCRIPT.format(guard=guard)
    (tmp_path / "mine.py").write_text(text)
    words = [str(tmp_path / "mine.py")] if given == "file" else ["-"]
    done = subprocess.run(
        [sys.executable, *words], input=text, capture_output=True, text=True, check=False
    )
    assert said in (done.stdout if said.startswith("[") else done.stderr), done.stderr


@pytest.mark.exhaustive
def test_processes_here_measure_one_after_the_other_and_compile_before(tmp_path: Path) -> None:
    told: list[str] = []
    found = sweep(
        SKIP, {"rammer.threads": [1, 2]}, seconds=0.01, store=tmp_path / "rows.sqlite",
        progress=lambda what, done, total: told.append(what),
    )  # fmt: skip
    assert [row.kind for row in found.rows] == [MEASURED] * 2
    for row in found.rows:
        assert row.low_us <= row.median_us <= row.high_us and row.runs > 0
    assert (row.machine, row.card) == here()
    assert [f"{row.card}"] == list(found.comparable)


def test_rows_of_other_machines_and_sizes_are_not_compared(tmp_path: Path) -> None:
    row = SweepRow(
        "k", "m", (("bind.seq", "4"),), MEASURED, "here", "card", 2.0, 1.0, 3.0, 9, 2.0, 1, 64
    )
    other = replace(row, machine="there", card="other card", median_us=1.0)
    longer = replace(row, key="l", varied=(("bind.seq", "8"),), median_us=4.0)
    spared = replace(row, key="n", median_us=3.0, arena_bytes=32)
    wasted = replace(row, key="o", median_us=3.5, arena_bytes=48)
    found = Sweep("m", (), (row, other, longer, wasted, spared))
    assert found.comparable == {
        "seq=4 on card": (row, spared, wasted),
        "seq=4 on other card": (other,),
        "seq=8 on card": (longer,),
    }
    assert found.front["seq=4 on card"] == (row, spared)
    with Store(tmp_path / "rows.sqlite") as store:
        store.add(other)
        assert store.of("k", "here") is None and store.of("k", None) == other
        store.add(row)
        store.add(replace(row, median_us=9.0))
        assert store.of("k", "here") == row


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '"x"', "[" * 5000, json.dumps({"key": "k"}), "\x00"],
)
def test_a_store_of_somebody_elses_costs_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.sqlite"
    key = points(explorer.load(SKIP), {"target": ["v100"]}, "cpu", {})[0].key(
        explorer.load(SKIP).digest
    )
    with Store(path):
        pass
    with sqlite3.connect(path) as file:
        file.execute("INSERT INTO ironworks_rows VALUES (?, ?, ?)", (key, "m", text))
    with pytest.raises(BadOption, match="cannot be used"):
        sweep(SKIP, {"target": ["v100"]}, store=path, executor=Nobody())
    (tmp_path / "text").write_text("no database" * 100)
    with pytest.raises(BadOption, match="cannot be used"):
        sweep(SKIP, {"target": ["v100"]}, store=tmp_path / "text", executor=Nobody())


def test_a_row_is_what_its_json_says() -> None:
    row = SweepRow("k", "m", (("a.b", "1"),), FAILED, "here", "card", reason="why")
    told = json.loads(json.dumps(row.to_json()))
    assert row_of(told) == row
    for name, value in (("varied", [["a"]]), ("kind", "other"), ("median_us", "1"), ("key", 1)):
        with pytest.raises(ValueError, match="a row has other"):
            row_of({**told, name: value})


POLICY = {"rammer.policy": ["wavefront", "op-by-op", "critical-path", "gang"]}
MANY = {"target": ["v100", "a100"], "seq": list(range(1, 51)), "batch": [1, 2]}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("model", "vary", "count"),
    [
        (SKIP, {"target": ["v100", "a100"], **POLICY}, 8),
        pytest.param(BERT, MANY, 200, marks=pytest.mark.exhaustive),
    ],
)
def test_two_workers_of_a_cluster_of_which_one_is_killed_do_every_point_once(
    tmp_path: Path, model: str, vary: dict[str, Any], count: int
) -> None:
    distributed = pytest.importorskip("distributed")
    told: list[int] = []
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    )
    with cluster, distributed.Client(cluster) as client:
        pids = list(client.run(os.getpid).values())

        def progress(what: str, done: int, total: int) -> None:
            told.append(done)
            if len(told) == count // 3:
                os.kill(pids[0], signal.SIGKILL)

        pool = client.get_executor(pure=False)
        found = sweep(model, vary, executor=pool, store=tmp_path / "rows.sqlite", progress=progress)
    assert told == list(range(1, count + 1))
    assert {row.kind for row in found.rows} == {SIMULATED}
    with sqlite3.connect(tmp_path / "rows.sqlite") as file:
        rows = file.execute("SELECT count(*), count(DISTINCT key) FROM ironworks_rows")
        assert rows.fetchone() == (count, count)
    here = sweep(model, vary, executor=None if count > 8 else ThreadPoolExecutor(1))
    assert list(map(untimed, here.rows)) == list(map(untimed, found.rows))
