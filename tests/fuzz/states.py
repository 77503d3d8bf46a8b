"""Odd states: options, links, questions of a page, tiles and moves by hand, questions from Python.

Each is refused in one sentence and changes nothing, or the answers after it are right.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np

import explorer
from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options
from explorer.errors import IronworksError
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.passes.random_inputs import random_inputs
from explorer.relax import deduce
from explorer.roller import Options as RollerOptions
from explorer.tuning.settings import apply
from tests.fuzz.compare import compare
from tests.fuzz.exact import Bound, bounds
from tests.fuzz.files import ODD_NUMBERS, ODD_REALS, ODD_TEXTS
from tests.fuzz.judge import Failure, crash, sentence_judged
from tests.fuzz.settings import PLAIN
from tests.fuzz.state_models import MODELS
from widgets.model import settings
from widgets.model.knobs import with_code
from widgets.session.session import Session

Rng = np.random.Generator
STEPS = 6  # questions of one session
QUESTIONS = (
    "program", "kernel", "operator", "picture", "turn", "wall", "move_brick", "undo", "redo",
    "focus", "tuning", "judge", "job", "cancel", "take", "hand", "move", "join", "unmove",
    "take_hand", "force", "settings", "set", "link", "save", "restore", "nothing",
)  # fmt: skip
LEVELS = ("L1", "L2", "L3", "DRAM", "registers")
OPTION_WORDS = (
    "gain", "two_step", "shipped", "candidates", "construct", "wavefront", "op-by-op",
    "critical-path", "gang", "weight-stationary", "arena", "storages", "direct", "f2", "f4",
    "row3", "row4", "auto", "on", "off", "true", "false", "none", "blas", "onnx",
    "onnx.Softmax,blas", "diagonal", "y:DRAM", "product:L1", "0", "1", "2", "3", "4", "8", "17",
    "0.5", "units:3", "L2 capacity:70000", "units:0", "lanes:4",
)  # fmt: skip
AMOUNTS = ("0", "1", "3", "64 KiB", "1 MiB", "0.5", "2", "1e6", "on", "off")
ODD = 0.35  # of the arguments are odd


def one(rng: Rng, choices: Any) -> Any:
    """One of several."""
    return choices[int(rng.integers(len(choices)))]


@cache
def loaded(name: str) -> Any:
    """A model by name, read once in a process."""
    return explorer.load(MODELS[name])


@cache
def right_answers(name: str) -> tuple[dict[str, np.ndarray], dict[str, Bound]]:
    """Inputs of a model and the bounds of its answers."""
    program = deduce(loaded(name).program)
    given = random_inputs(loaded(name).program)
    return given, bounds(program, given)


def answers_wrongly(name: str, c: Compilation, what: str) -> list[Failure]:
    """What is wrong with the answers of a compilation."""
    given, right = right_answers(name)
    with np.errstate(all="ignore"):
        wrong = compare(c.run(given), right)
    return [Failure("wrong", what.split(":")[0], f"{name}, {what}: {wrong}")] if wrong else []


def refused_well(ask: Callable[[], Any]) -> tuple[Any, list[Failure]]:
    """An answer; or none where it was refused, and what is wrong with the refusal."""
    try:
        return ask(), []
    except IronworksError as error:
        return None, sentence_judged(error)
    except Exception as problem:
        return None, [crash(problem)]


def state(seed: int) -> list[Failure]:
    """What is wrong with the state of a seed."""
    rng = np.random.default_rng((seed, 4))
    kind = one(rng, (set_texts, set_texts, tiles, questions, questions, questions, asked, links))
    found: list[Failure] = kind(rng, str(one(rng, sorted(MODELS))))
    return found


# Options


def set_texts(rng: Rng, name: str) -> list[Failure]:
    """`--set` with fields that there are and values that may be odd."""
    texts = [_set_text(rng) for _ in range(int(rng.integers(1, 4)))]
    what = f"--set: {texts}"

    def made() -> Compilation:
        options = apply(Options(), texts)
        return explorer.compile(loaded(name), PLAIN.device, options)

    c, failures = refused_well(made)
    return failures or ([] if c is None else answers_wrongly(name, c, what))


def _set_text(rng: Rng) -> str:
    group = one(rng, [f for f in fields(Options) if f.name not in ("passes", "registered")])
    field = one(rng, fields(getattr(Options(), group.name)))
    name = f"{group.name}.{field.name}" if rng.random() < 0.95 else str(one(rng, ODD_TEXTS))
    return f"{name}={_option_value(rng)}"


def _option_value(rng: Rng) -> str:
    kind = rng.random()
    if kind < 0.7:
        return str(one(rng, OPTION_WORDS))
    return str(one(rng, one(rng, (ODD_NUMBERS, ODD_REALS, ODD_TEXTS))))


# Tiles


def tiles(rng: Rng, name: str) -> list[Failure]:
    """A tiling by hand, pinned or asked about."""
    plain = explorer.compile(loaded(name), PLAIN.device)
    if not plain.kernels:
        return []
    kernel = one(rng, plain.kernels)
    known = dict(kernel.tiling.tile)
    tile = {axis: _extent(rng, n) for axis, n in known.items() if rng.random() < 0.8}
    if rng.random() < 0.15:
        tile[str(one(rng, ("h", "n", "nowhere", *ODD_TEXTS)))] = _extent(rng, 4)
    micro = kernel.tiling.micro
    if rng.random() < 0.4:
        changed = {f.name: _extent(rng, 4) for f in fields(Micro) if rng.random() < 0.6
                   and isinstance(getattr(micro, f.name), int)}  # fmt: skip
        micro = replace(micro, **changed)
    tiling = Tiling(tuple(tile.items()), micro, rng.random() < 0.5, _extent(rng, 8))
    if rng.random() < 0.3:
        return refused_well(lambda: str(plain.explain(kernel.name, tile)))[1]
    what = f"tiling by hand: {kernel.name} {tiling}"
    chosen = RollerOptions(pinned=((kernel.name, tiling),))
    c, failures = refused_well(lambda: plain.with_options(roller=chosen))
    if failures or c is None:
        return [replace(f, story=f"{f.story} ({name}, {what})") for f in failures]
    with_answer, more = refused_well(lambda: answers_wrongly(name, c, what))
    return more or with_answer or []


def _extent(rng: Rng, near: int) -> int:
    return int(one(rng, (1, 2, 3, 4, 5, 8, near, near, near + 1, max(1, near - 1), 2 * near, 64)
                   if rng.random() < 1 - ODD / 3 else ODD_NUMBERS))  # fmt: skip


# Questions from Python


def asked(rng: Rng, name: str) -> list[Failure]:
    """What a notebook may ask of a compilation, with odd arguments."""
    c = explorer.compile(loaded(name), PLAIN.device)
    given, _ = right_answers(name)
    text, number = one(rng, ODD_TEXTS), one(rng, ODD_NUMBERS)
    sizes = {s: one(rng, (1, 2, 5, 17, number)) for s in c.hint}
    if rng.random() < 0.2:
        sizes[text] = number
    broken = dict(given)
    if broken:
        key = one(rng, sorted(broken))
        array = broken[key]
        broken[key] = one(rng, (array[..., :0], array.astype(np.float64), array[None], array.T,
                                np.asarray(text), None, array.tolist(), array[::-1],
                                np.asfortranarray(array)))  # fmt: skip
    if rng.random() < 0.2:
        broken[text] = np.zeros(2)
    asks: tuple[Callable[[], Any], ...] = (
        lambda: c.snapshot(text),
        lambda: str(c.explain(text)),
        lambda: explorer.compile(loaded(name), text),
        lambda: explorer.compile(loaded(name), PLAIN.device, until=text),
        lambda: explorer.load(MODELS[name], bounds={text: (number, 4)}),
        lambda: explorer.load(MODELS[name], bounds={s: (number, number) for s in c.hint}),
        lambda: c.planned_wall({s: min(n, 4096) for s, n in sizes.items()}),
        lambda: c.memory(sizes),
        lambda: c.random_inputs({s: min(n, 1 << 16) for s, n in sizes.items()}),
        lambda: c.run(broken),
    )
    ask = one(rng, asks)
    _, failures = refused_well(ask)
    more = answers_wrongly(name, c, "after a question")
    return [*failures, *more]


# Sessions


def snapshot_of(session: Session) -> str:
    """All that a reader can see of a session, and what a link keeps of it."""
    return json.dumps([session.parts(), session.link()], default=str, sort_keys=True)


def questions(rng: Rng, name: str) -> list[Failure]:
    """Random messages of a page, some of them odd; a refused one changes nothing."""
    session = Session(explorer.compile(loaded(name), PLAIN.device), sizes=None)
    for _ in range(STEPS):
        kind = str(one(rng, QUESTIONS))
        arguments = _arguments(rng, kind, session)
        before, kind = snapshot_of(session), "turn" if kind == "set" else kind
        answer, failures = refused_well(lambda k=kind, a=arguments: session.answer(k, a))
        what = f"{kind} {_shown(arguments)}"
        if failures:
            return [replace(f, story=f"{f.story} ({name}, {what})") for f in failures]
        refused = answer is None or (isinstance(answer, Mapping) and answer.get("refused"))
        if refused and kind not in ("look",) and snapshot_of(session) != before:
            return [Failure("changed", kind, f"{name}: {what} was refused, and changed the state")]
        if not refused:
            _, failures = refused_well(lambda a=answer: json.dumps(a, default=_plain))
            if failures:
                return failures
    c, failures = refused_well(lambda: with_code(session.now).compiled)
    return failures or answers_wrongly(name, c, "after the questions of a session")


def _plain(value: Any) -> Any:
    return str(type(value))


def _shown(arguments: Any) -> str:
    return repr(arguments)[:300]


def _arguments(rng: Rng, kind: str, session: Session) -> dict[str, Any]:
    """Arguments that a page could send, of which some are odd."""
    index = int(rng.integers(-2, 9))
    knob = one(rng, [k.name for k in session.knobs()])
    values = [c.name for c in session.house.calls] or ["y"]
    c = session.now.compiled
    known = [x.name for x in (*settings.options(c, c), *settings.figures(c, c))] or ["roller.top_k"]
    sensible: dict[str, dict[str, Any]] = {
        "program": {"step": index},
        "kernel": {"call": index, "language": one(rng, ("numba", "llvm", "assembly"))},
        "operator": {"op": index},
        "picture": {"room": one(rng, ("welder", "roller", "rammer", "memory", "relax")),
                    "op": index},
        "turn": {"knob": knob, "index": index},
        "wall": {"wall": one(rng, ("planned", "measured"))},
        "move_brick": {"call": index, "first": int(rng.integers(3)), "last": int(rng.integers(9)),
                       "unit": int(rng.integers(3)), "launch": int(rng.integers(2))},
        "focus": {"op": index},
        "tuning": {"op": index},
        "judge": {"op": index, "fields": {"n": str(one(rng, (1, 4, 7, "x", "")))}},
        "job": {"job": index},
        "cancel": {"job": index},
        "take": {"op": index, "fields": {}},
        "hand": {},
        "move": {"value": one(rng, values), "level": one(rng, LEVELS)},
        "join": {"value": one(rng, values)},
        "force": {"value": one(rng, values)},
        "settings": {"room": one(rng, ("options", "hardware", "roller"))},
        "set": {"knob": f"set {one(rng, known)}", "index": 1, "label": one(rng, AMOUNTS)},
        "restore": {"text": session.link()["text"]},
    }  # fmt: skip
    found = dict(sensible.get(kind, {}))
    for key in list(found):
        if rng.random() < ODD:
            found[key] = _odd(rng)
    if rng.random() < 0.05:
        found[str(one(rng, ODD_TEXTS))] = _odd(rng)
    return found


def _odd(rng: Rng) -> Any:
    pool = (*ODD_NUMBERS, *ODD_TEXTS, *ODD_REALS, None, True, [], {}, [1, 2], {"a": 1}, "0", 1.5)
    return one(rng, pool)


# Links


def links(rng: Rng, name: str) -> list[Failure]:
    """A link or a saved state, damaged."""
    session = Session(explorer.compile(loaded(name), PLAIN.device))
    if rng.random() < 0.5:
        text = _damaged(rng, session.link()["text"])
    else:
        saved = json.loads(session.save()["text"])
        inner = one(rng, [saved, *(v for v in saved.values() if isinstance(v, dict))])
        if inner:
            inner[str(one(rng, sorted(inner)))] = _odd(rng)
        text = json.dumps(saved)
        if rng.random() < 0.3:
            text = base64.urlsafe_b64encode(text.encode()).decode()
    before = snapshot_of(session)
    answer, failures = refused_well(lambda: session.answer("restore", {"text": text}))
    if failures:
        return [replace(f, story=f"{f.story} ({name}, link {text[:300]!r})") for f in failures]
    if answer is None and snapshot_of(session) != before:
        return [Failure("changed", "restore", f"{name}: a refused link changed the state: {text}")]
    return answers_wrongly(name, session.now.compiled, "after a link")


def _damaged(rng: Rng, text: str) -> str:
    at, n = int(rng.integers(len(text) + 1)), int(rng.integers(1, 9))
    return str(
        one(
            rng,
            (
                text[:at],
                text[:at] + text[at + n :],
                text[:at] + "A" * n + text[at:],
                text[at:],
                text + text,
                text[:at] + one(rng, ODD_TEXTS) + text[at:],
            ),
        )
    )
