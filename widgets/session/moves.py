"""Connections moved by hand in a session: each move is judged at once, undone, timed beside, and
taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import explorer
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.measure.compare import Comparison
from explorer.welder.tiles.levels import memories
from widgets.model.compiled import Arrays, Compiled
from widgets.model.hand import Hand, Move
from widgets.model.knobs import Setting, fusion
from widgets.roller.view import device_of
from widgets.session.timing.jobs import Job, Jobs
from widgets.session.timing.watched import Rounds, Watched, rounds_in
from widgets.session.verdict import against
from widgets.welder import judged
from widgets.welder import move_state as hand
from widgets.welder.move_state import Judge
from widgets.welder.view import before_welding, kernels_of

Compiler = Callable[[Compiled, Sequence[Move], Job], Compiled]
SECONDS = 0.6


def compiled(c: Compiled, moves: Sequence[Move], job: Job) -> Compiled:
    """The same model with its moves; it says which step it is at, and ends where it is
    cancelled.
    """

    def progress(step: str, done: int, steps: int) -> None:
        job.compiling(step, done, steps)
        job.told(0)

    options, ended = judged.with_moves(c, moves), job.stop.is_set
    explorer.compile(c.model, c.device, options, progress=progress, cancelled=ended)
    found: Compiled = judged.compiled(c, moves)  # what was compiled is remembered
    return found


class Hands:
    """One session's moves. Nothing here changes what is on show."""

    def __init__(self, judge: Judge = judged.judged, compiler: Compiler = compiled) -> None:
        self.judge, self.compiler = judge, compiler
        self.hand = Hand()

    def _on(self, now: Setting, name: str) -> Device:
        """The device of a question, with the moves that were made on it in hand."""
        found = _device(now, name)
        self.hand = self.hand.on(found.name)
        return found

    def clear(self) -> None:
        """Forget all moves on all devices: they were about another compilation."""
        self.hand = Hand()

    def told(self, now: Setting, device: str = "") -> dict[str, Any]:
        """The moves, and what they change."""
        found = self._on(now, device)
        own: Device = now.compiled.device
        sheet = found.name != own.name or own.kind != "cpu"
        told = hand.told(self.hand, _levels(found), found.name, sheet=sheet)
        knob = fusion(now, now)
        return told | {"policies": list(knob.labels), "policy": knob.now}

    def move(self, now: Setting, value: str, level: str, device: str = "") -> dict[str, Any]:
        """One value to another level; the reason where that is refused."""
        found = self._on(now, device)
        if level not in _levels(found):
            raise BadOption(
                f"{found.name} has no level {str(level)[:20]!r}",
                expected=", ".join(_levels(found)),
            )
        if value not in kernels_of(before_welding(now.compiled)):
            raise BadOption(f"no kernel makes a value {str(value)[:40]!r}")
        move: Move = (str(value), level)
        moves = (*(m for m in self.hand.moves if m[0] != value), move)
        outcome = self.judge(now.compiled, moves, found, dict(now.sizes))
        if outcome.refused:
            return {"refused": outcome.refused, "flip": outcome.flip}
        self.hand = self.hand.moved(move, outcome)
        return self.told(now, device)

    def join(self, now: Setting, value: str, device: str = "") -> dict[str, Any]:
        """One value to the nearest level that has room for it; the reason where there is none."""
        found = self._on(now, device)
        others = [m for m in self.hand.moves if m[0] != value]
        level = judged.joined(now.compiled, others, value, found)
        return self.move(now, value, level, device)

    def unmove(self, now: Setting, device: str = "", everything: bool = False) -> dict[str, Any]:
        """The last move undone, or all of them."""
        self._on(now, device)
        if not self.hand.steps:
            raise BadOption("nothing was moved")
        self.hand = self.hand.undone(everything=bool(everything))
        return self.told(now, device)

    def compiled(self, now: Setting) -> Any:
        """The moves, compiled; raises BadOption where there are none."""
        return judged.compiled(now.compiled, self._moves(now))

    def _moves(self, now: Setting) -> tuple[Move, ...]:
        own = now.compiled.device
        if own.kind != "cpu" or self.hand.device not in ("", own.name):
            raise BadOption(
                f"{self.hand.device or own.name} is a data sheet: predictions only",
                try_="choose this machine",
            )
        if not self.hand.moves:
            raise BadOption("nothing was moved", try_="drag a value to another memory level")
        return self.hand.moves

    def start(
        self,
        now: Setting,
        inputs: Arrays,
        jobs: Jobs,
        compare: Callable[..., Comparison],
        us: float,
    ) -> dict[str, Any]:
        """Begin to compile the moves and to time them against what is on show."""
        moves, of = self._moves(now), rounds_in(SECONDS, us)
        outcome = self.hand.outcome

        def work(job: Job) -> Mapping[str, Any]:
            rounds = Rounds(job)
            other = self.compiler(now.compiled, moves, job)
            both: tuple[Any, Any] = (Watched(other, rounds, 0), Watched(now.compiled, rounds, 1))
            job.what = "Comparing answers"
            words = against(compare(*both, inputs, seconds=SECONDS), "the present fusion")
            return words | {"predicted": hand.predicted(outcome) if outcome else ""}

        return {"job": jobs.start(of, work), "of": of}


def _device(now: Setting, name: str) -> Device:
    own: Device = now.compiled.device
    return own if name in ("", own.name) else device_of(name)


def _levels(device: Device) -> tuple[str, ...]:
    return tuple(m.name for m in memories(device))
