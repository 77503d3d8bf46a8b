"""One try of each kind: what is drawn is judged, and where it fails, made small and saved."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tests.fuzz.graphs import Case, case
from tests.fuzz.judge import Failure, Verdict, judge
from tests.fuzz.saved import save
from tests.fuzz.settings import PLAIN, Setting, drawn, everywhere
from tests.fuzz.shrink import shrunk

OTHERS = 1  # settings besides the plain one
EVERY = 40  # one graph in so many is compiled in every way


def settings_of(seed: int) -> list[Setting]:
    """The ways in which the graph of a seed is compiled."""
    if seed % EVERY == 0:
        return [PLAIN, *everywhere()]
    return [PLAIN, *drawn(np.random.default_rng((seed, 2)), OTHERS)]


def tried(given: Case, settings: Sequence[Setting] | None = None, every: bool = False) -> Verdict:
    """The verdict on a case."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.onnx"
        path.write_bytes(given.model.SerializeToString())
        if settings is None:
            settings = [PLAIN, *everywhere()] if every else settings_of(given.seed)
        return judge(path, given.feeds, settings)


def try_graph(seed: int, folder: Path) -> list[str]:
    """What is wrong with the graph of a seed, a line each; the smallest graphs are saved."""
    drawn_case = case(seed)
    verdict = tried(drawn_case)
    lines = []
    seen: set[tuple[str, str]] = set()
    for failure in verdict.failures:
        if (failure.kind, failure.at) in seen:
            continue
        seen.add((failure.kind, failure.at))
        small = shrunk(drawn_case, _fails_alike(seed, failure))
        ops = "_".join(dict.fromkeys(small.operators))
        name = f"{failure.kind}_{seed}_{ops}"[:80]
        found = tried(small, settings_of(seed)).failures
        again = next((f for f in found if _alike(f, failure)), failure)
        story = f"{again.kind}: {again.at}: {again.story} [{', '.join(small.operators)}]"
        lines.append(f"{seed} {story}")
        save(small, story, folder, name)
    return lines


def _fails_alike(seed: int, failure: Failure) -> Callable[[Case], bool]:
    """Whether a smaller case fails as the one of the seed did, by the setting that did."""
    settings = settings_of(seed)
    if failure.setting:
        settings = [s for s in settings if s.name == failure.setting]
    elif failure.kind == "oracle":
        settings = []
    return lambda given: any(_alike(f, failure) for f in tried(given, settings).failures)


def _alike(a: Failure, b: Failure) -> bool:
    return (a.kind, a.at) == (b.kind, b.at)
