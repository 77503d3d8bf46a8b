"""The net cast: a worker a core, tries dealt out in turn, a table at the end."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any

HUNG_CPU_SECONDS = 60.0
HUNG_SECONDS = 600.0  # of a try that waits, or has too little of a busy machine
RENEWED = 400  # tries of one worker
SHARES = {  # of the tries, so that the kinds of properties take a quarter of the time together
    "graph": 1000, "dynamic": 1000, "export": 300, "attribute": 300, "file": 1000, "state": 300,
    "crash": 10,
    "operator": 50, "symbol": 300, "chain": 50, "layer": 50, "fusion": 20, "storage": 50,
    "schedule": 50, "kernel": 50, "contraction": 50, "gradient": 50, "statement": 50, "function": 5,
}  # fmt: skip
ROOT = Path(__file__).parents[2]
SHRUNK = 3  # graphs that are made small of each way to fail
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Tally:
    """What was tried, and what came of it."""

    tries: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)  # (try, kind)
    notes: Counter[tuple[str, str]] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    ways: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    seconds: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, reply: Mapping[str, Any]) -> None:
        """Count one try."""
        self.tries[kind] += 1
        self.operators.update(reply.get("seen", ()))
        if reply.get("note"):
            self.notes[kind, reply["note"]] += 1
        for how, at, line in reply["failures"]:
            self.failures[kind, how] += 1
            self.ways.setdefault((kind, how, at), []).append(line)

    def table(self) -> str:
        """Tries and failures by kind; then each way to fail, with an example."""
        hows = sorted({how for _, how in self.failures}) or ["wrong"]
        rows = [["", "tries", *hows, "not judged", "CPU s/try"]]
        for kind, count in self.tries.items():
            rest = sum(n for (k, _), n in self.notes.items() if k == kind)
            cost = f"{self.seconds[kind] / count:.2f}"
            found = [str(self.failures[kind, how]) for how in hows]
            rows.append([kind, str(count), *found, str(rest), cost])
        wide = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(c.rjust(w) for c, w in zip(row, wide)) for row in rows]
        counts = [f"{name} {n}" for name, n in sorted(self.operators.items())]
        lines.append(f"{len(counts)} operators: " + ", ".join(counts))
        lines += [f"{n:4d} {kind}: {note}" for (kind, note), n in sorted(self.notes.items())]
        for (kind, how, at), examples in sorted(self.ways.items()):
            lines.append(f"{len(examples):4d} {kind} {how} {at}: {examples[0][:300]}")
        return "\n".join(lines)


class Worker:
    """A process that tries; started anew where it ends."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder, self.cache = folder, cache
        self.job: tuple[str, int] | None = None
        self.asked = 0
        self.start()

    def start(self) -> None:
        """A fresh process."""
        environment = {**os.environ, "IRONWORKS_CACHE": str(self.cache), "PYTHONPATH": str(ROOT)}
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115, lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            env=environment, text=True, cwd=ROOT,
        )  # fmt: skip
        self.asked = 0

    def ask(self, kind: str, seed: int) -> None:
        """Begin a try."""
        if self.asked >= RENEWED:
            self.stop()
            self.start()
        self.job, self.asked = (kind, seed), self.asked + 1
        self.begun, self.cpu = monotonic(), self.cpu_seconds()
        assert self.process.stdin is not None
        question = {"kind": kind, "seed": seed, "folder": str(self.folder)}
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has died; who reads the answer finds that

    def cpu_seconds(self) -> float:
        """What the process has computed so far."""
        try:
            words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(words[11]) + int(words[12])) / TICKS

    def reply(self) -> dict[str, Any] | None:
        """What came of the try; None where it is still under way."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], 0)
        if ready:
            line = self.process.stdout.readline()
            return json.loads(line) if line else self.ended("dead", "")
        limit = 3 if self.job and self.job[0] == "shrink" else 1
        cpu, wall = self.cpu_seconds() - self.cpu, monotonic() - self.begun
        if cpu > limit * HUNG_CPU_SECONDS or wall > limit * HUNG_SECONDS:
            return self.ended("hung", f"after {cpu:.0f} s of computing, {wall:.0f} s in all")
        return None

    def ended(self, how: str, why: str) -> dict[str, Any]:
        """The try as a failure, in a fresh process for the next."""
        self.process.kill()
        code = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read()[-2000:].decode(errors="replace").strip().splitlines()
        if how == "dead" and any("MemoryError" in line for line in said[-3:]):
            how = "memory"
        self.start()
        kind, seed = self.job or ("", 0)
        at = f"exit code {code}" if how != "hung" else "time"
        story = f"{kind} {seed}: {why} {' / '.join(said[-3:])}"
        return {"failures": [(how, at, story)]}

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def seeds(seed: int, limits: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Kinds and seeds in turn, so that all kinds end together; without limits for ever."""
    done: Counter[str] = Counter()
    shares = {k: n for k, n in (limits or SHARES).items() if n}
    while True:
        kind = min(shares, key=lambda k: done[k] / shares[k])
        if limits and done[kind] >= limits[kind]:
            return
        yield kind, seed + done[kind]
        done[kind] += 1


def cast(minutes: float, seed: int, folder: Path, workers: int, limits: Mapping[str, int]) -> Tally:
    """Try for as long, or until as many were tried; what fails is made small and saved."""
    folder.mkdir(parents=True, exist_ok=True)
    cache = Path(tempfile.mkdtemp(prefix="ironworks-fuzz-cache-"))
    tally, end = Tally(), monotonic() + 60 * minutes
    todo, again = seeds(seed, limits), list[tuple[str, int]]()
    crew = [Worker(folder, cache) for _ in range(workers)]
    try:
        while True:
            for worker in crew:
                if worker.job is not None and (reply := worker.reply()) is not None:
                    _note(tally, worker, reply, again)
                    worker.job = None
                if worker.job is None:
                    job = again.pop() if again else None
                    if job is None and monotonic() < end:
                        job = next(todo, None)
                    if job is not None:
                        worker.ask(*job)
            if all(worker.job is None for worker in crew):
                return tally
            sleep(0.005)
    except KeyboardInterrupt:  # what was found until now is told
        return tally
    finally:
        for worker in crew:
            worker.stop()
        shutil.rmtree(cache, ignore_errors=True)


def _note(
    tally: Tally, worker: Worker, reply: Mapping[str, Any], again: list[tuple[str, int]]
) -> None:
    assert worker.job is not None
    kind, seed = worker.job
    if kind == "shrink":
        return
    tally.seconds[kind] += worker.cpu_seconds() - worker.cpu
    tally.add(kind, reply)
    for how, at, line in reply["failures"]:
        print(f"{how}: {at}: {line}", flush=True)
        fresh = len(tally.ways[kind, how, at]) <= SHRUNK
        if kind == "graph" and how not in ("dead", "hung") and fresh and not again:
            again.append(("shrink", seed))
