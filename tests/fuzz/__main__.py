"""The net: `python -m tests.fuzz --minutes 30 --seed 1` casts it; `replay FILE` tries one again,
and `models [NAME ...]` holds every option against the plain one on whole models.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from time import time

from tests.fuzz.net import SHARES, cast

FOLDER = Path("build/fuzz")


def main(words: list[str]) -> int:
    """The exit code: 1 where anything failed."""
    if words[:1] == ["replay"]:
        return _replay([Path(word) for word in words[1:]])
    if words[:1] == ["models"]:
        from tests.fuzz.models import main as models

        return models(words[1:])
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=int(time()) % 10**9, help="of the first tries")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where failures are saved")
    for kind in SHARES:
        plural = "crashes" if kind == "crash" else f"{kind}s"
        more = f"end after so many {plural}"
        parser.add_argument(f"--{plural}", dest=kind, type=int, default=0, help=more)
    given = parser.parse_args(words)
    limits = {kind: getattr(given, kind) for kind in SHARES}
    wanted = limits if any(limits.values()) else {}
    print(f"seed {given.seed}, {given.workers} workers", flush=True)
    tally = cast(given.minutes, given.seed, given.folder, given.workers, wanted)
    print(tally.table())
    if tally.failures:
        print(f"failures are in {given.folder}; `python -m tests.fuzz replay FILE` shows one again")
    return int(bool(tally.failures))


def _replay(paths: list[Path]) -> int:
    from tests.fuzz.attempt import replay

    failed = 0
    for path in paths:
        for failure in replay(path):
            print(f"{path.name}: {failure.kind}: {failure.at}: {failure.story}", flush=True)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
