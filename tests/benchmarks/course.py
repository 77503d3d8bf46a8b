"""What the course takes of a small machine: each notebook from top to bottom, as Binder runs it.

    python -m tests.benchmarks course [--cores 1] [--chapters 00,06]

Each notebook is run by a process of its own with a cache that is empty, on so many cores and under
a limit of memory: 1 GB for the tour, 2 GB for the others. A control group holds the limit where one
can be made; elsewhere a look at the processes every so often does. A line says the seconds, those
of a core that was used, and the most memory that the server's processes held together (shared pages
counted once). A notebook that fails, or that the limit ends, is told, and so is the exit status.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

import psutil

from explorer.plain_text import table

ROOT = Path(__file__).parents[2]
TOUR, TOUR_MB, MOST_MB = "00_tour", 1024, 2048
MOST_MINUTES = 12.0  # of all notebooks together, on two cores
MOST_SECONDS = 900.0  # of one notebook, until it is ended
EVERY_SECONDS = 0.1
GROUPS = (
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
    (Path("/sys/fs/cgroup"), "memory.max"),
)


@dataclass(frozen=True, slots=True)
class Taken:
    """What one notebook took."""

    seconds: float
    core_seconds: float
    peak_mb: float
    wrong: str = ""


@contextmanager
def memory_group(most_mb: int) -> Iterator[Path | None]:
    """A control group with that limit, whose `cgroup.procs` a process joins; None where the system
    lets us make none.
    """
    group = next(filter(None, (_made(*one, most_mb) for one in GROUPS)), None)
    yield group
    if group is not None:
        with suppress(OSError):  # a process that was killed may still be leaving
            group.rmdir()


def _made(parent: Path, limit: str, most_mb: int) -> Path | None:
    group = parent / f"ironworks-course-{os.getpid()}"
    try:
        if not (parent / "cgroup.procs").exists():
            return None
        group.mkdir()
        (group / limit).write_text(str(most_mb << 20))
    except OSError:
        with suppress(OSError):
            group.rmdir()
        return None
    return group


def taken(notebook: Path, cores: int, most_mb: int) -> Taken:
    """What the notebook takes, on the first cores that this process may use."""
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    command = [sys.executable, "-m", "nbconvert", "--execute", "--to", "notebook"]
    with TemporaryDirectory() as folder, memory_group(most_mb) as group:

        def limited() -> None:
            os.sched_setaffinity(0, allowed)
            if group is not None:
                (group / "cgroup.procs").write_text(str(os.getpid()))

        own = {
            "IRONWORKS_CACHE": str(Path(folder, "cache")),
            "IRONWORKS_COURSE_LOG": "",
            "PYTHONPATH": str(ROOT),
            "CPU_LIMIT": str(cores),
            "MEM_LIMIT": str(most_mb << 20),
        }
        with Path(folder, "said").open("w+") as said:
            begin = perf_counter()
            process = subprocess.Popen(
                [*command, "--output-dir", folder, str(notebook)],
                env={**os.environ, **own},
                stdout=said,
                stderr=said,
                preexec_fn=limited,
                start_new_session=True,
            )
            peak, wrong = _watched(process, begin, most_mb)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds = perf_counter() - begin
            said.seek(0)
            lines = [line for line in said.read().splitlines() if line.strip()]
            if process.returncode and not wrong:
                wrong = lines[-1] if lines else f"ended with {process.returncode}"
    return Taken(seconds, used.ru_utime + used.ru_stime, peak, wrong)


def _watched(process: subprocess.Popen[bytes], begin: float, most_mb: int) -> tuple[float, str]:
    """The most memory seen until the process ends, in MB; why it was ended, if it was."""
    peak = 0.0
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        peak = max(peak, held_mb(process.pid))
        late = perf_counter() - begin > MOST_SECONDS
        if late or peak > most_mb:
            one = psutil.Process(process.pid)
            for child in (*one.children(recursive=True), one):
                child.kill()
            why = f"{MOST_SECONDS:.0f} s" if late else f"{most_mb} MB"
            return peak, f"took more than {why}"
        sleep(EVERY_SECONDS)
    return peak, ""


def held_mb(pid: int) -> float:
    """What a process and its children hold: each page that several share is counted once."""
    held = 0
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                held += one.memory_full_info().pss
    return held / (1 << 20)


def main(words: Sequence[str] | None = None) -> int:
    """Prints a line for each notebook; 1 where one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--chapters", default="", help="their numbers, with commas between them")
    given = parser.parse_args(words)
    numbers = tuple(given.chapters.split(",")) if given.chapters else ("",)
    paths = [p for p in sorted((ROOT / "notebooks").glob("*.ipynb")) if p.stem.startswith(numbers)]
    with memory_group(MOST_MB) as group:
        how = "a control group" if group else f"a look every {EVERY_SECONDS:g} s"
    print(f"{given.cores} cores; {how} holds the limit of memory", flush=True)
    found: dict[str, Taken] = {}
    for path in paths:
        most = TOUR_MB if path.stem == TOUR else MOST_MB
        one = found[path.stem] = taken(path, given.cores, most)
        print(path.stem, f"{one.seconds:.1f} s, {one.peak_mb:.0f} MB", one.wrong, flush=True)
    rows = [
        (name, f"{t.seconds:.1f}", f"{t.core_seconds:.1f}", f"{t.peak_mb:.0f}", t.wrong or "ran")
        for name, t in found.items()
    ]
    print(table(("notebook", ">seconds", ">of a core", ">MB at most", ""), rows))
    minutes = sum(t.seconds for t in found.values()) / 60
    print(f"{minutes:.1f} minutes together; on two cores {MOST_MINUTES:g} are the most")
    return int(any(t.wrong for t in found.values()))


if __name__ == "__main__":
    sys.exit(main())
