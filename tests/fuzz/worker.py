"""One process of the net: told a kind and a seed, it tries that and says what came of it.

It lives under a limit of memory; who asks it watches its time, and starts another where it dies.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

BYTES = 4 << 30


def main() -> None:
    """Answer questions, a line of JSON each, until there are none."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever is printed is no answer
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps(answer(**question)), file=answers, flush=True)


def answer(kind: str, seed: int, folder: str) -> dict[str, Any]:
    """What a try of this kind found: failures by kind, a line and a file each."""
    from tests.fuzz.attempt import try_of
    from tests.fuzz.judge import crash

    with tempfile.TemporaryDirectory(prefix="ironworks-fuzz-") as scratch:
        try:
            found = try_of(kind, seed, Path(folder), Path(scratch))
        except Exception as problem:  # of the net itself
            failure = crash(problem)
            return {"failures": [("net", failure.at, f"{kind} {seed}: {failure.story}")]}
    return {"failures": found.failures, "seen": found.seen, "note": found.note}


if __name__ == "__main__":
    main()
