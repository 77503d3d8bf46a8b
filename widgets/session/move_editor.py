"""Manual moves of connections in a session: judged at once, undone, timed, and applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import explorer
from explorer.devices.model import Device
from explorer.devices.target import target_of
from explorer.errors import BadOption
from explorer.measure.compare import Comparison
from explorer.welder.tiles.levels import memories
from widgets.model.compiled import Arrays, Compiled
from widgets.model.knobs import Setting, fusion
from widgets.model.picture import ManualMoves, Move
from widgets.roller.view import device_of
from widgets.session.comparing import Rounds, Watched, rounds_in
from widgets.session.history import against
from widgets.session.jobs import Job, Jobs
from widgets.welder import judge_moves
from widgets.welder.judge_moves import Judge
from widgets.welder.view import before_welding, kernels_of

Compiler = Callable[[Compiled, Sequence[Move], Job], Compiled]
SECONDS = 0.6


def compiled(c: Compiled, moves: Sequence[Move], job: Job) -> Compiled:
    """Compile the same model with its moves; reports its steps and can be cancelled."""

    def progress(step: str, done: int, steps: int) -> None:
        job.compiling(step, done, steps)
        job.report(0)

    options, ended = judge_moves.with_moves(c, moves), job.stop.is_set
    explorer.compile(c.model, c.device, options, progress=progress, cancelled=ended)
    recompiled: Compiled = judge_moves.compile_moves(c, moves)  # cached by the compilation above
    return recompiled


class MoveEditor:
    """One session's moves. Nothing here changes the setting on show."""

    def __init__(
        self, judge: Judge = judge_moves.judge_moves, compiler: Compiler = compiled
    ) -> None:
        """Create an editor without moves; `judge` and `compiler` can be replaced in tests."""
        self.judge, self.compiler = judge, compiler
        self.manual_moves = ManualMoves()

    def _on(self, now: Setting, name: str) -> Device:
        """Select a device and return it; later moves apply to it."""
        chosen = _device(now, name)
        self.manual_moves = self.manual_moves.on(chosen.name)
        return chosen

    def clear(self) -> None:
        """Forget all moves on all devices, which belong to another compilation."""
        self.manual_moves = ManualMoves()

    def moves_part(self, now: Setting, device: str = "") -> dict[str, Any]:
        """Return the moves and their effect."""
        chosen = self._on(now, device)
        own: Device = now.compiled.device
        sheet = chosen.name != own.name or not target_of(own).is_emitted
        part = judge_moves.move_state(self.manual_moves, _levels(chosen), chosen.name, sheet=sheet)
        knob = fusion(now, now)
        return part | {"policies": list(knob.labels), "policy": knob.now}

    def move(self, now: Setting, value: str, level: str, device: str = "") -> dict[str, Any]:
        """Move one value to another level; return the reason if that is refused."""
        chosen = self._on(now, device)
        if level not in _levels(chosen):
            raise BadOption(
                f"{chosen.name} has no level {str(level)[:20]!r}",
                expected=", ".join(_levels(chosen)),
            )
        if value not in kernels_of(before_welding(now.compiled)):
            raise BadOption(f"no kernel computes a value {str(value)[:40]!r}")
        move: Move = (str(value), level)
        moves = (*(m for m in self.manual_moves.moves if m[0] != value), move)
        outcome = self.judge(now.compiled, moves, chosen, dict(now.sizes))
        if outcome.refused:
            return {"refused": outcome.refused, "flip": outcome.flip}
        self.manual_moves = self.manual_moves.moved(move, outcome)
        return self.moves_part(now, device)

    def join(self, now: Setting, value: str, device: str = "") -> dict[str, Any]:
        """Move one value to the nearest level with room for it; return the reason if none has."""
        chosen = self._on(now, device)
        others = [m for m in self.manual_moves.moves if m[0] != value]
        level = judge_moves.joined_level(now.compiled, others, value, chosen)
        return self.move(now, value, level, device)

    def unmove(self, now: Setting, device: str = "", everything: bool = False) -> dict[str, Any]:
        """Undo the last move, or all of them."""
        self._on(now, device)
        if not self.manual_moves.steps:
            raise BadOption("nothing was moved")
        self.manual_moves = self.manual_moves.undone(everything=bool(everything))
        return self.moves_part(now, device)

    def compiled(self, now: Setting) -> Any:
        """Return the compilation with the moves; raises BadOption if there are none."""
        return judge_moves.compile_moves(now.compiled, self._moves(now))

    def _moves(self, now: Setting) -> tuple[Move, ...]:
        own = now.compiled.device
        if not target_of(own).is_emitted or self.manual_moves.device not in ("", own.name):
            raise BadOption(
                f"{self.manual_moves.device or own.name} is a data sheet: predictions only",
                try_="choose this machine",
            )
        if not self.manual_moves.moves:
            raise BadOption("nothing was moved", try_="drag a value to another memory level")
        return self.manual_moves.moves

    def start(
        self,
        now: Setting,
        inputs: Arrays,
        jobs: Jobs,
        compare: Callable[..., Comparison],
        us: float,
    ) -> dict[str, Any]:
        """Begin to compile the moves and to time them against the setting on show."""
        moves, of = self._moves(now), rounds_in(SECONDS, us)
        outcome = self.manual_moves.outcome

        def work(job: Job) -> Mapping[str, Any]:
            rounds = Rounds(job)
            other = self.compiler(now.compiled, moves, job)
            both: tuple[Any, Any] = (Watched(other, rounds, 0), Watched(now.compiled, rounds, 1))
            job.what = "Comparing answers"
            words = against(compare(*both, inputs, seconds=SECONDS), "the present fusion")
            return words | {"predicted": judge_moves.predicted(outcome) if outcome else ""}

        return {"job": jobs.start(of, work), "of": of}


def _device(now: Setting, name: str) -> Device:
    own: Device = now.compiled.device
    return own if name in ("", own.name) else device_of(name)


def _levels(device: Device) -> tuple[str, ...]:
    return tuple(m.name for m in memories(device))
