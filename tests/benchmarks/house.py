"""How long a reader waits in the house.

    python -m tests.benchmarks house [--models tiny_bert,tiny_mobilenetv2] [--values 4] [--looked 3]
                                     [--operators 50000] [--moves 200] [--parts first,knobs]
                                     [--cache FOLDER]

`first`: a fresh process on one core with an empty cache opens the first model: the seconds until
the page has all of its first picture, from a model (planned) and from a compilation (with code).

`knobs`: for each model each knob goes to some of its values, in a process that has compiled the
model once, with a cache that is empty before, or with that of `--cache`: the time from the question
to all that the page is sent, as JSON: for the first picture that the turn changes, which of other
hardware is the same program on it; once compiled and planned; and once measured. Before each turn
its reader looks at the picture for `--looked` seconds, in which the kernel compiles ahead; 0:
turned at once. The line of a model says the median, the 95th percentile and the slowest, by knob.
Settings of *What if* are turned as knobs are, away and back.
`rooms`: each picture of each model as it is first asked for, by a page that has just come.
`graph`: a model of so many operators: the time until it is laid out folded, and until one of its
folds is opened. `opening`: planned models of a 25th, a fifth and all of so many operators with as
many kernels as a third of them: the time until the page has all of its first picture. `report`: the
file of every picture of a model of a 50th of so many operators. `steps`: the program of each step
of a model of so many lines. `memory`: what the process holds more after so many turns of knobs than
after a tenth of them, and after so many houses were opened again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import explorer
from explorer.devices import hardware
from explorer.errors import IronworksError
from explorer.plain_text import table
from widgets.model import settings
from widgets.model.pipeline_knobs import HIDDEN
from widgets.page.report import page
from widgets.rooms import gallery
from widgets.session.session import Session

MOST_PLANNED_MS, MOST_MEASURED_MS = 300.0, 2000.0
MOST_FIRST_SECONDS, MOST_LOOK_SECONDS, MOST_REPORT_SECONDS = 5.0, 1.0, 20.0
TIMES = ("first", "planned", "measured")
FIRST = """
import json, os, sys
from time import perf_counter
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
begin = perf_counter()
import explorer, widgets
import widgets.page.shell
imported = perf_counter()
given = sys.argv[1]
house = widgets.explore(given if sys.argv[2] == "model" else explorer.compile(given))
json.dumps(house.session.parts())
print(imported - begin, perf_counter() - imported, len(house._esm) + len(house._css))
"""
SETTINGS = {  # and how many times as much; 0: off
    "hardware.units": 2.0,
    "hardware.clock_ghz": 0.5,
    "hardware.L2 capacity": 0.5,
    "hardware.DRAM bandwidth": 0.5,
    "hardware.cost tile": 2.0,
    "roller.top_k": 2.0,
    "softmax.enabled": 0.0,
}
REOPENED, LAYER = 50, 1000
OPENED = {25: 3, 5: 8, 1: 20}  # parts of the operators, and the seconds that are wanted
MODELS = "tiny_bert,tiny_mobilenetv2,tiny_resnet18,tiny_lstm,tiny_gpt2"


def first(model: str, turns: int = 3) -> None:
    """The first picture of a model, in turns with that of its compilation."""
    for given in ("model", "compilation") * turns:
        with TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", FIRST, f"zoo:{model}", given],
                env={**os.environ, "IRONWORKS_CACHE": folder},
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
        imported, opened, script = map(float, done.stdout.split())
        said = f"{imported + opened:.2f} s to the first picture (imports {imported:.2f})"
        wanted = f"; wanted {MOST_FIRST_SECONDS:.0f}" if given == "model" else ""
        print(f"{model}, from a {given}: {said}, script {script / 1e3:.0f} kB{wanted}", flush=True)


def turned(session: Session, knob: str, index: int, label: str) -> dict[str, float]:
    """Milliseconds until the first picture of a turned knob, its plan and its times are on their
    way to the page.
    """
    args = {"knob": knob, "index": index, "label": label}
    begin = perf_counter()
    begun = session.answer("begin_turn", args)
    if begun["first"]:
        _sent(session)
    first = perf_counter() - begin
    session.bench.jobs.wait(begun["job"], 600)
    session.answer("turn", args)
    _sent(session)
    planned = perf_counter() - begin
    first = first if begun["first"] else planned
    found = session.answer("begin_measure", {})
    if found:
        session.bench.jobs.wait(found["job"], 600)
    if session.runs:
        session.answer("measure", {})
    _sent(session)
    times = {"first": first, "planned": planned, "measured": perf_counter() - begin}
    return {name: seconds * 1e3 for name, seconds in times.items()}


def _sent(session: Session) -> int:
    return len(json.dumps(session.parts())) + sum(map(len, session.buffers().values()))


def turns(session: Session, values: int) -> Iterator[tuple[str, int, str]]:
    """Knobs and values, each knob away from where it stands and back."""
    operators = [o.name for o in session.house.operators if o.calls]
    if operators:
        middle = session.house.order[operators[len(operators) // 2]]
        session.answer("focus", {"op": middle})
    for knob in (k for k in session.knobs() if k.kind != HIDDEN):
        others = [i for i in range(len(knob.labels)) if i != knob.now][:values]
        for index in (*others, knob.now) if others else ():
            now = next((k for k in session.knobs() if k.name == knob.name), None)
            if now is not None and index < len(now.labels) and now.now != index:
                yield knob.name, index, now.labels[index]
    for name, times in SETTINGS.items():
        control = settings.find_control(session.now.compiled, name)
        text = "off" if not times else f"{hardware.amount(control.now) * times:.12g}"
        for label in (text, control.now):
            yield f"set {name}", 1, label


def percentile(found: Sequence[float], share: float) -> float:
    """The value that so large a share is not above."""
    return sorted(found)[min(len(found) - 1, int(share * len(found)))]


def knobs(models: Sequence[str], values: int, looked: float) -> list[dict[str, Any]]:
    """Each turn of each model, printed by knob as it comes."""
    rows: list[dict[str, Any]] = []
    for model in models:
        session = Session(explorer.compile(f"zoo:{model}"))
        session.answer("pin", {})
        for knob, index, label in turns(session, values):
            if looked and (ahead := session.answer("look_ahead", {})["job"]):
                session.bench.jobs.wait(ahead, looked)
            times = turned(session, knob, index, label)
            rows.append({"model": model, "knob": knob, "value": label, **times})
        mine = [r for r in rows if r["model"] == model]
        for name in dict.fromkeys(r["knob"] for r in mine):
            _say(f"{model}, {name}", [r for r in mine if r["knob"] == name])
    return rows


def _say(what: str, rows: Sequence[dict[str, Any]]) -> None:
    cells = [what, str(len(rows))]
    for key in TIMES:
        found = [r[key] for r in rows]
        cells += [f"{percentile(found, share):.0f}" for share in (0.5, 0.95, 1.0)]
    print("  ".join(cells), flush=True)


def chain(operators: int) -> Any:
    """A model of so many operators."""
    import numpy as np

    import explorer.np as enp

    ones = np.ones(8, np.float32)

    def model(x: explorer.tensor("float32", 4, 8)) -> Any:  # type: ignore[valid-type]
        for n in range(operators // 2):
            x = enp.tanh(x + ones * n)
        return x

    return explorer.trace(model)


def layered(operators: int) -> Any:
    """A model of so many operators in layers of `LAYER`, in each of which none repeats."""
    import explorer.np as enp

    kinds = random.Random(1).choices((enp.tanh, enp.exp, enp.abs, enp.negative, enp.floor), k=LAYER)

    def model(x: explorer.tensor("float32", 4, 8)) -> Any:  # type: ignore[valid-type]
        for _ in range(operators // LAYER):
            for kind in kinds:
                x = kind(x)
        return x

    return explorer.trace(model)


def products(operators: int) -> Any:
    """A model of so many operators, of which every third is a kernel of its own."""
    import numpy as np

    import explorer.np as enp

    weights = np.random.default_rng(0).standard_normal((5, 8, 8)).astype(np.float32)

    def model(x: explorer.tensor("float32", 4, 8)) -> Any:  # type: ignore[valid-type]
        for n in range(operators // 3):
            x = enp.tanh(x @ weights[n % 5]) + x
        return x

    return explorer.trace(model)


def rooms(models: Sequence[str]) -> None:
    """The first look at each picture that has something to show."""
    rows = list[tuple[str, str, float]]()
    for model in models:
        session = Session(explorer.compile(f"zoo:{model}"))
        session.run_once()
        for picture in gallery.PICTURES:
            begin = perf_counter()
            try:
                json.dumps(session.answer("picture", {"room": picture.name}))
            except IronworksError:
                continue
            rows.append((model, picture.name, perf_counter() - begin))
    times = [seconds for *_, seconds in rows]
    found = " ".join(f"{percentile(times, share):.2f}" for share in (0.5, 0.95, 1.0))
    print(f"{len(rows)} first looks: median, 95 %, most: {found} s; wanted {MOST_LOOK_SECONDS:.0f}")
    for model, name, seconds in sorted(rows, key=lambda r: -r[2])[:8]:
        print(f"  {model}, {name}: {seconds:.2f} s")


def report(operators: int) -> None:
    """The file of every picture of a model."""
    session = Session(explorer.compile(products(operators)))
    begin = perf_counter()
    text = page(session)
    seconds, count = perf_counter() - begin, len(session.house.operators)
    said = f"{count} operators: a report of {len(text) / 1e6:.1f} MB in {seconds:.1f} s"
    print(f"{said}, wanted {MOST_REPORT_SECONDS:.0f}")


def opening(operators: int) -> None:
    """The first picture of planned models of several sizes."""
    for share, wanted in OPENED.items():
        c = explorer.compile(products(operators // share), until="planned")
        begin = perf_counter()
        session = Session(c)
        _sent(session)
        count, seconds = len(session.house.operators), perf_counter() - begin
        print(f"{count} operators: on their way to the page in {seconds:.1f} s, wanted {wanted}")


def graph(operators: int) -> None:
    """A large model folded."""
    from explorer.compiler.operators import operators as read
    from widgets.model import dataflow_graph

    c = explorer.compile(layered(operators), until="typed")
    begin = perf_counter()
    known = read(c.model.program, c.program)
    found = dataflow_graph.data(c, False, known)
    seconds = perf_counter() - begin
    print(f"{len(known)} operators: {len(found.nodes)} nodes laid out in {seconds:.2f} s")
    begin = perf_counter()
    session = Session(c)
    opened = perf_counter() - begin
    begin = perf_counter()
    folded = session.answer("graph", {"view": "operators"})
    seconds = perf_counter() - begin
    print(f"its house opened in {opened:.2f} s, its layers folded in {seconds:.2f} s, ", end="")
    begin = perf_counter()
    json.dumps(session.parts())
    print(f"all that its page is sent in {perf_counter() - begin:.2f} s more, ", end="")
    asked, times = list[str](), list[str]()
    for what in ("all layers", f"one of {LAYER}"):
        asked.append(next(n["name"] for n in folded["nodes"] if n["kind"] == "group"))
        begin = perf_counter()
        folded = session.answer("graph", {"view": "operators", "opened": ",".join(asked)})
        seconds = perf_counter() - begin
        times.append(f"{what} opened in {seconds:.2f} s, {len(folded['nodes'])} nodes")
    print("; ".join(times))


def steps(lines: int) -> None:
    """Each step of a model of so many lines, as it is first shown and shown again."""
    session = Session(explorer.compile(chain(lines), until="planned"))
    times = []
    for again in range(2):
        found = []
        for n in range(len(session.now.compiled.snapshots)):
            begin = perf_counter()
            json.dumps(session.answer("program", {"step": n}))
            found.append((perf_counter() - begin) * 1e3)
        times.append(f"{'again' if again else 'first'} at most {max(found):.0f} ms")
    count = len(session.now.compiled.snapshots)
    print(f"{count} steps of {lines} operators: {', '.join(times)}")


def memory(model: str, moves: int) -> None:
    """What turning knobs leaves behind."""
    session = Session(explorer.compile(f"zoo:{model}"))
    held, begun = [], 0
    while begun < moves:
        for knob, index, label in turns(session, 3):
            args = {"knob": knob, "index": index, "label": label}
            session.answer("turn", args)
            begun += 1
            held.append(_resident_mb())
            if begun == moves:
                break
    tenth = held[len(held) // 10]
    print(f"{model}: {held[0]:.0f} MB, {tenth:.0f} after {len(held) // 10} moves, ", end="")
    print(f"{held[-1]:.0f} after {len(held)}")
    c, before = session.now.compiled, _resident_mb()
    for _ in range(REOPENED):
        _sent(Session(c))
    print(f"{REOPENED} houses opened again: {before:.0f}, then {_resident_mb():.0f} MB")


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--values", type=int, default=3, help="values that a knob goes to")
    parser.add_argument("--looked", type=float, default=3.0, help="seconds before each turn")
    parser.add_argument("--operators", type=int, default=50_000)
    parser.add_argument("--lines", type=int, default=5_000)
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--parts", default="first,knobs,rooms,opening,report,graph,steps,memory")
    parser.add_argument("--cache", default="", help="a folder that is kept: warm the second time")
    parser.add_argument("--json", default="", help="a file that gets every turn")
    flags = parser.parse_args(arguments)
    models, parts = flags.models.split(","), flags.parts.split(",")
    if "first" in parts:
        first(models[0])
    if "knobs" in parts:
        print("model, knob  n  ms to the first picture, planned, measured: median  95 %  most each")
        with TemporaryDirectory() as empty:
            os.environ["IRONWORKS_CACHE"] = flags.cache or empty
            rows = knobs(models, flags.values, flags.barriers_before_arm)
        for name, typed in (("all knobs", False), ("all settings", True)):
            _say(name, [r for r in rows if r["knob"].startswith(settings.SET) is typed])
        for key, most in (("first", MOST_PLANNED_MS), ("measured", MOST_MEASURED_MS)):
            late = sorted((r for r in rows if r[key] > most), key=lambda r: -r[key])[:8]
            said = [(r["model"], r["knob"], r["value"], f"{r[key]:.0f}") for r in late]
            if said:
                print(f"\n{key}: above {most:.0f} ms")
                print(table(("model", "knob", "value", ">ms"), said))
        if flags.json:
            Path(flags.json).write_text(json.dumps(rows))
    if "rooms" in parts:
        rooms(models)
    if "opening" in parts:
        opening(flags.operators)
    if "report" in parts:
        report(flags.operators // 50)
    if "graph" in parts:
        graph(flags.operators)
    if "steps" in parts:
        steps(flags.lines)
    if "memory" in parts:
        memory(models[0], flags.moves)


if __name__ == "__main__":
    main()
