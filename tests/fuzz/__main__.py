"""`python -m tests.fuzz replay FILE`, `shrink FILE`, `graphs FIRST LAST`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.fuzz.attempt import tried, try_graph
from tests.fuzz.saved import load_case


def main(words: list[str]) -> int:
    """The exit code of one command."""
    match words:
        case ["replay", file]:
            found = tried(load_case(Path(file)), every=True)
            for failure in found.failures:
                print(f"{failure.kind}: {failure.at}: {failure.story}")
            return int(bool(found.failures))
        case ["graphs", first, last, *folder]:
            folder_of = Path(folder[0]) if folder else Path("build/fuzz")
            failed = 0
            for seed in range(int(first), int(last)):
                for line in try_graph(seed, folder_of):
                    print(line, flush=True)
                    failed += 1
            return int(failed > 0)
        case _:
            print(__doc__)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
