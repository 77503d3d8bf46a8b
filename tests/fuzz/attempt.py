"""One try of each kind: what is drawn is judged; what fails is saved, graphs after being shrunk."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from hypothesis.errors import UnsatisfiedAssumption

import explorer
from explorer.errors import IronworksError
from tests.fuzz.crash import crash as crashed
from tests.fuzz.files import hostile
from tests.fuzz.judge import Failure, Verdict, crash, judge, sentence_judged
from tests.fuzz.saved import load_case, save
from tests.fuzz.settings import PLAIN, Setting, drawn, everywhere
from tests.fuzz.shrink import shrunk
from tests.fuzz.states import state
from tests.ops.test_symbolic_dims import means_the_same
from tests.strategies.choices import Seeded
from tests.strategies.onnx import attribute_sets, symbolic
from tests.strategies.onnx.graphs import Case, case

RUN = 4  # one graph in so many becomes machine code; the others are interpreted as planned
PLANNED = 8  # one operator over symbols in so many is planned; the others end as kernels
MOVED = 3  # one in so many is compiled in another way besides
EVERY = 200  # one in so many is compiled in every way
ENDLESS_SECONDS = 20.0  # of a run that is then interrupted
EMITTED = 6  # one hostile file in so many is compiled to machine code and run


@dataclass
class Found:
    """What came of a try: failures, as (kind, what it is about, line); what was covered."""

    failures: list[tuple[str, str, str]] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    note: str = ""


def settings_of(seed: int) -> list[Setting]:
    """The ways in which the graph of a seed is compiled."""
    if seed % EVERY == 0:
        return [PLAIN, *everywhere()]
    moved = drawn(np.random.default_rng((seed, 2)), int(seed % MOVED == 0))
    chosen = [PLAIN, *moved]
    return chosen if seed % RUN == 0 else [replace(s, until="planned") for s in chosen]


def tried(given: Case, settings: Sequence[Setting]) -> Verdict:
    """The verdict on a case."""
    with tempfile.TemporaryDirectory(prefix="ironworks-fuzz-") as folder:
        path = Path(folder) / "graph.onnx"
        path.write_bytes(given.model.SerializeToString())
        return judge(path, given.feeds, settings)


def try_graph(seed: int, folder: Path, scratch: Path) -> Found:
    """The graph of a seed, compiled in some ways."""
    return try_case("graph", case(seed), folder)


def try_dynamic(seed: int, folder: Path, scratch: Path) -> Found:
    """The graph of a seed over symbols."""
    return try_case("dynamic", symbolic.graphs.of((seed, 3), seed), folder)


def try_case(kind: str, given: Case, folder: Path) -> Found:
    """A graph compiled in some ways; the whole graph is saved where it fails."""
    seed = given.seed
    verdict = tried(given, settings_of(seed))
    found = Found(seen=given.operators)
    if verdict.unsupported:
        found.note = "unsupported"
    elif not verdict.judged_by:
        found.note = "nobody answers"
    first: dict[tuple[str, str], Failure] = {}
    for failure in verdict.failures:
        first.setdefault((failure.kind, failure.at), failure)
    for failure in first.values():
        found.failures.append((failure.kind, failure.at, f"{kind} {seed}: {failure.story}"))
    if first:
        save(given, "; ".join(f.story for f in first.values()), folder, f"{kind}_{seed}")
    return found


def shrink_graph(seed: int, folder: Path, scratch: Path) -> Found:
    """The graph of a seed made small, once for each way in which it fails."""
    given = case(seed)
    found = Found()
    done: set[tuple[str, str]] = set()
    for failure in tried(given, settings_of(seed)).failures:
        if (failure.kind, failure.at) in done:
            continue
        done.add((failure.kind, failure.at))
        path = save_small(given, failure, settings_of(seed), folder)
        found.failures.append((failure.kind, failure.at, f"made small: {path.name}"))
    return found


def save_small(given: Case, failure: Failure, settings: Sequence[Setting], folder: Path) -> Path:
    """The smallest case that fails alike, saved under a name that says how."""
    chosen = [s for s in settings if s.name == failure.setting]
    fails = _fails_alike(chosen, failure)
    small = shrunk(given, fails)
    again = next((f for f in tried(small, chosen).failures if alike(f, failure)), failure)
    operators = "_".join(dict.fromkeys(small.operators))
    story = f"{again.kind}: {again.at}: {again.story} [{', '.join(small.operators)}]"
    return save(small, story, folder, f"{again.kind}_{given.seed}_{operators}"[:80])


def _fails_alike(settings: Sequence[Setting], failure: Failure) -> Callable[[Case], bool]:
    return lambda given: any(alike(f, failure) for f in tried(given, settings).failures)


def alike(a: Failure, b: Failure) -> bool:
    """Whether two failures are of one kind and blame the same."""
    return (a.kind, a.at) == (b.kind, b.at)


def replay(path: Path) -> list[Failure]:
    """What is wrong with a saved case now, compiled in every way; of a file, how it ends."""
    if path.with_suffix(".npz").exists():
        return tried(load_case(path), [PLAIN, *everywhere()]).failures
    return opened(path, emitted=True)


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """What is run gets, after so many seconds of the processor, what Ctrl-C is."""
    before = signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def opened(path: Path, emitted: bool) -> list[Failure]:
    """A file loaded and compiled: it succeeds, or one of our errors says so in a sentence."""
    try:
        model = explorer.load(path)
        c = explorer.compile(model, PLAIN.device, until="emitted" if emitted else "planned")
        if emitted:
            with stopped_after(ENDLESS_SECONDS):
                c.run(c.random_inputs())
    except KeyboardInterrupt:  # a loop of 2 ** 60 trips is what the file asks for, and ends so
        return []
    except IronworksError as error:
        return sentence_judged(error)
    except Exception as problem:
        return [crash(problem)]
    return []


def failed(kind: str, seed: int, failures: Iterable[Failure]) -> Found:
    """A try that covers no operators."""
    return Found([(f.kind, f.at, f"{kind} {seed}: {f.story}") for f in failures])


def try_file(seed: int, folder: Path, scratch: Path) -> Found:
    """A hostile file of a seed."""
    return failed("file", seed, opened(hostile(seed, scratch), emitted=seed % EMITTED == 0))


def try_state(seed: int, folder: Path, scratch: Path) -> Found:
    """An odd state of a seed."""
    return failed("state", seed, state(seed))


def try_crash(seed: int, folder: Path, scratch: Path) -> Found:
    """A crash of a seed."""
    return failed("crash", seed, crashed(seed, scratch))


def try_attribute(seed: int, folder: Path, scratch: Path) -> Found:
    """An operator with random attributes: with no dim of its inputs as a symbol it is judged, with
    some and all it must give the same.
    """
    op = attribute_sets.OPERATORS[seed % len(attribute_sets.OPERATORS)]
    model, found = attribute_sets.models.of((seed, 4), op), Found(seen=[op])
    for share in (0.0, 0.5, 1.0):
        choices = Seeded(np.random.default_rng((seed, 5)))
        given = symbolic.with_symbols(choices, model, share)
        case = Case(seed, given.symbolic, tuple(map(given.feeds, given.sizes)))
        if share and seed % PLANNED:
            failures = property_held(partial(means_the_same, given, scratch))
        else:
            verdict = tried(case, [replace(PLAIN, until="planned" if share else "legalized")])
            failures = verdict.failures
            if not verdict.judged_by and not share:
                found.note = f"{op}: nobody answers"
            if verdict.unsupported and not share:
                found.note = f"{op}: unsupported"
                return found
            if verdict.unsupported:
                failures = [Failure("refused", op, verdict.unsupported)]
        if failures:
            save(case, failures[0].story, folder, f"attribute_{seed}_{op}_{share}")
        for f in failures:
            line = f"attribute {seed}, {share:.0%} symbols: {f.at}: {f.story}"
            found.failures.append((f.kind, op, line))
    return found


def property_held(body: Callable[[], object]) -> list[Failure]:
    """Return the failure of a property of the tests, if it fails."""
    try:
        body()
    except UnsatisfiedAssumption:
        raise
    except Exception as problem:
        failure = crash(problem)
        how = "wrong" if isinstance(problem, AssertionError) else failure.kind
        return [replace(failure, kind=how)]
    return []


def try_export(seed: int, folder: Path, scratch: Path) -> Found:
    """A PyTorch module exported with automatic dims."""
    if find_spec("torch") is None:
        return Found(note="PyTorch is not installed")
    from tests.fuzz.exported import judge_exported
    from tests.strategies.torch_modules import samples

    sample, until = samples.of((seed, 6)), "emitted" if seed % RUN == 0 else "planned"
    failures, note = judge_exported(Seeded(np.random.default_rng((seed, 7))), sample, until)
    return replace(failed("export", seed, failures), seen=list(sample.names), note=note)


def try_property(kind: str, seed: int, scratch: Path) -> Found:
    """A property of the tests, of a value of a seed."""
    from tests.fuzz import properties

    try:
        return failed(kind, seed, property_held(lambda: properties.tried.of(seed, kind, scratch)))
    except UnsatisfiedAssumption:
        return Found(note="no assumption holds")


Try = Callable[[int, Path, Path], Found]
TRIES: dict[str, Try] = {
    "graph": try_graph,
    "dynamic": try_dynamic,
    "attribute": try_attribute,
    "export": try_export,
    "shrink": shrink_graph,
    "file": try_file,
    "state": try_state,
    "crash": try_crash,
}


def try_of(kind: str, seed: int, folder: Path, scratch: Path) -> Found:
    """A try of any kind."""
    if kind in TRIES:
        return TRIES[kind](seed, folder, scratch)
    return try_property(kind, seed, scratch)
