"""The saved state of the explorer as versioned JSON: selection, stage, knobs, moves and views.

It is read as untrusted input; its knobs, settings and moves are replayed on a setting.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from typing import Any

from explorer.errors import SnapshotError
from explorer.ir.stage import Stage
from explorer.measure.machine import machine
from explorer.passes.registry import current_name
from explorer.plain_text import counted
from explorer.rammer.manual_moves import Move, PolicyWithMoves
from widgets.draw.table import time_text
from widgets.model import settings
from widgets.model.compiled import Measurement
from widgets.model.knob import Knob
from widgets.model.knobs import Setting, with_settings
from widgets.model.pipeline_knobs import HIDDEN, PLACE, SWITCH, is_default
from widgets.rooms import gallery
from widgets.session.history import HistoryEntry
from widgets.welder import judge_moves

VERSION = 1
LONGEST_TEXT = 64_000
LONGEST_FILE = 1_000_000  # of a state in a file
LONGEST_NAME = 400
MOST_KNOBS = 64
LONGEST_US = 1e12  # the longest time of a run: eleven days
MOST_MOVES = 256
MOST_EDITS, LONGEST_SOURCE = 16, 60_000  # of kernels whose source was edited, and of one of them
CHOICES: dict[str, tuple[str, ...]] = {
    "stage": tuple(s.name for s in Stage),
    "wall": ("", "both", "planned", "measured", "recorded", "more"),
    "language": ("numba", "llvm", "assembly"),
    "tab": ("g", "p", "s"),
    "inspector": ("tile", "fusion", "placement", "shape", "memory", "rewrites"),
    "graph": ("", "operators", "kernels", "step"),
}


@dataclass(frozen=True, slots=True)
class State:
    """The saved state of the explorer.

    `digest` names the model, `op` the selected operator; `knobs` holds values by their labels.
    `connect` are values placed at memory levels. `moves` are bricks placed elsewhere on the wall:
    the fields of `explorer.rammer.manual_moves.Move`, in order. `edits` are sources of kernels:
    the call, the hash of the source that it started from, and the text, which is shown and not run.
    `time` is the time of a run when the state was saved: the machine, the median and the ends of
    its interval in microseconds, and the number of runs; empty if none was measured.
    """

    digest: str = ""
    op: str = ""
    stage: str = "RAMMED"
    wall: str = ""
    language: str = "numba"
    tab: str = "p"
    inspector: str = "tile"
    graph: str = ""
    diff: bool = False
    table: bool = False
    knobs: Mapping[str, str] = field(default_factory=dict)
    room: str = ""
    connect: tuple[tuple[str, str], ...] = ()
    moves: tuple[tuple[Any, ...], ...] = ()
    edits: tuple[tuple[str, str, str], ...] = ()
    time: tuple[Any, ...] = ()


def serialise_state(state: State, tool: str = "") -> str:
    """Serialise the state as JSON."""
    values = {f.name: getattr(state, f.name) for f in fields(State)} | {"knobs": dict(state.knobs)}
    return json.dumps({"ironworks": VERSION, "tool": tool, **values}, sort_keys=True)


def fragment(state: State, tool: str = "") -> str:
    """Encode the state as the end of a link, without the edits if they are too long."""
    if len(text := _fragment(state, tool)) <= LONGEST_TEXT:
        return text
    return _fragment(replace(state, edits=()), tool)


def _fragment(state: State, tool: str) -> str:
    return base64.urlsafe_b64encode(serialise_state(state, tool).encode()).decode().rstrip("=")


def from_fragment(text: str) -> State:
    """Decode the state in the end of a link; raises SnapshotError."""
    if len(text) > LONGEST_TEXT or not re.fullmatch(r"[\w-]*", text, re.ASCII):
        raise SnapshotError("the link holds no saved state", where="link")
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except ValueError:
        raise SnapshotError("the link's saved state is damaged", where="link") from None
    return parse_state(raw)


def parse_state(text: str) -> State:
    """Parse a state from JSON.

    Raises SnapshotError if it is damaged, of another version, or out of range.
    """
    if len(text) > LONGEST_FILE:
        raise SnapshotError(
            f"a saved state has at most {LONGEST_FILE} characters, this one {len(text)}"
        )
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError):
        raise SnapshotError("the saved state is not JSON") from None
    if not isinstance(decoded, dict):
        raise SnapshotError("a saved state is a JSON object")
    if decoded.get("ironworks") != VERSION:
        raise SnapshotError(
            f"the saved state is of version {str(decoded.get('ironworks'))[:20]}, "
            f"this tool reads version {VERSION}",
            expected=VERSION,
            actual=str(decoded.get("ironworks"))[:20],
        )
    return checked_state({name: decoded[name] for name in _NAMES if name in decoded})


_NAMES = tuple(f.name for f in fields(State))


def checked_state(values: Mapping[str, Any]) -> State:
    """Return the state with these values.

    Raises SnapshotError if one has a wrong type or is not a known choice.
    """
    state = State()
    for name, value in values.items():
        if name not in _NAMES:
            raise SnapshotError(f"a saved state has no {str(name)[:40]!r}", where=name)
        state = replace(state, **{name: _checked(name, value)})
    return state


def _checked(name: str, value: Any) -> Any:
    if name in ("diff", "table"):
        return _of(name, value, bool)
    if name == "knobs":
        return _knobs(value)
    if name == "edits":
        return _edits(value)
    if name == "time":
        return _time(value)
    if name in ("connect", "moves"):
        return _by_hand(name, value, _CONNECTION if name == "connect" else _MOVE)
    text = _of(name, value, str)
    if len(text) > LONGEST_NAME:
        raise SnapshotError(
            f"the saved state's {name} is longer than {LONGEST_NAME} characters", where=name
        )
    choices = ("", *gallery.choices()) if name == "room" else CHOICES.get(name)
    if choices is not None and text not in choices:
        raise SnapshotError(
            f"the saved state's {name} is {text[:40]!r}", where=name, expected=", ".join(choices)
        )
    return text


_CONNECTION = (str, str)
_MOVE = (str, int, int, int, int, tuple)
_AFTER = (str, int)


def _by_hand(name: str, value: Any, kinds: tuple[type, ...]) -> tuple[tuple[Any, ...], ...]:
    if not isinstance(value, list | tuple) or len(value) > MOST_MOVES:
        raise SnapshotError(
            f"the saved state's {name} are at most {MOST_MOVES} in a list", where=name
        )
    return tuple(_row(name, row, kinds) for row in value)


def _row(name: str, row: Any, kinds: tuple[type, ...]) -> tuple[Any, ...]:
    """Check a row of names and numbers of these kinds; a tuple in it is `_AFTER`, or None."""
    if not isinstance(row, list | tuple) or len(row) != len(kinds):
        raise SnapshotError(
            f"each of the saved state's {name} must be a row of {len(kinds)} values", where=name
        )
    return tuple(_entry(name, v, kind) for v, kind in zip(row, kinds))


def _entry(name: str, value: Any, kind: type) -> Any:
    if kind is tuple:
        return None if value is None else _row(name, value, _AFTER)
    fits = isinstance(value, kind) and not isinstance(value, bool)
    if not fits or (kind is str and len(value) > LONGEST_NAME):
        raise SnapshotError(
            f"one of the saved state's {name} holds {str(value)[:40]!r}", where=name
        )
    return value


def _edits(value: Any) -> tuple[tuple[str, str, str], ...]:
    """Check names, hashes and texts; the content of a text matters only when it is tried."""
    if not isinstance(value, list | tuple) or len(value) > MOST_EDITS:
        problem = f"the saved state's edits are at most {MOST_EDITS} in a list"
        raise SnapshotError(problem, where="edits")
    longest = (LONGEST_NAME, LONGEST_NAME, LONGEST_SOURCE)
    for row in value:
        fits = isinstance(row, list | tuple) and len(row) == len(longest)
        if not fits or any(not isinstance(v, str) or len(v) > n for v, n in zip(row, longest)):
            raise SnapshotError(
                "each of the saved state's edits must be a name with a source", where="edits"
            )
    return tuple((str(a), str(b), str(c)) for a, b, c in value)


def _time(value: Any) -> tuple[Any, ...]:
    """Check a machine, three durations and a count, or nothing."""
    if not isinstance(value, list | tuple) or len(value) not in (0, 5):
        raise SnapshotError(
            "the saved state's time must be a machine, three durations and a count", where="time"
        )
    if not value:
        return ()
    where, *us, n = value
    named = isinstance(where, str) and len(where) <= LONGEST_NAME and where.isprintable()
    times = all(isinstance(x, int | float) and 0 <= x <= LONGEST_US for x in us)
    if not named or not times or isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise SnapshotError(
            "the saved state's time must be a machine, three durations and a count", where="time"
        )
    return (where, *map(float, us), min(n, 10**9))


def _of(name: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise SnapshotError(f"the saved state's {name} must be a {kind.__name__}", where=name)
    return value


def _knobs(value: Any) -> dict[str, str]:
    labels = _of("knobs", value, dict)
    if len(labels) > MOST_KNOBS or not all(
        isinstance(k, str) and isinstance(v, str) and len(k) + len(v) <= LONGEST_NAME
        for k, v in labels.items()
    ):
        raise SnapshotError("the saved state's knobs are not names with values", where="knobs")
    return dict(_current_knob(*knob) for knob in labels.items())


def _current_knob(name: str, label: str) -> tuple[str, str]:
    """Return a knob of the switchboard under the current names of the pipeline's steps."""
    for prefix in (SWITCH, PLACE):
        if name.startswith(prefix):
            name = prefix + current_name(name.removeprefix(prefix))
    return name, f"after {current_name(label.removeprefix('after '))}" if label.startswith(
        "after "
    ) else label


def with_view(state: State, values: Mapping[str, Any]) -> State:
    """Return the state with the view of a page; values that are not the page's stay as they are.

    Raises SnapshotError if a value is out of range.
    """
    viewed = checked_state({name: value for name, value in values.items() if name not in _OWN})
    return replace(viewed, **{name: getattr(state, name) for name in _OWN})


def view(state: State) -> dict[str, Any]:
    """Return the part of a state that the front end holds."""
    return {k: v for k, v in asdict(state).items() if k not in _OWN}


_OWN = ("digest", "knobs", "connect", "moves", "edits", "time")  # not part of a page's view


@dataclass(frozen=True, slots=True)
class LoadedTime:
    """A time that was loaded with a saved state, and the setting that it belongs to."""

    setting: Setting
    time: tuple[Any, ...]

    def describe(self, now: Setting) -> str:
        """Describe the time with the machine that measured it; "" if another setting is on show."""
        if not self.time or not self._is_of(now):
            return ""
        where, us, low, high, n = self.time
        between = f"{time_text(low)} to {time_text(high)}, n = {n:,}"
        return f"saved: {time_text(us)} on {where}; 99% interval {between}"

    def time_to_save(self, now: Setting, time: Measurement | None) -> tuple[Any, ...]:
        """Return the time that is saved with a setting: the one measured here, else the loaded."""
        if time is not None:
            us = (float(time.median_us), float(time.low_us), float(time.high_us))
            return machine().line, *us, int(time.n)
        return self.time if self._is_of(now) else ()

    def _is_of(self, now: Setting) -> bool:
        """Return True if the setting is the same, with or without code."""
        mine, other = self.setting, now
        return (mine.sizes, mine.compiled.options) == (other.sizes, other.compiled.options)


def restored_text(left: Sequence[str]) -> str:
    """Describe a restored link; `left` lists the knob values that could not be restored."""
    but = f", but for {', '.join(left)}" if left else ""
    return f"The state of the link is restored{but}."


def state_of(now: Setting, knobs: Sequence[Knob], state: State) -> State:
    """Return a state with the knobs by their labels, options, hardware and manual moves."""
    turned = {
        k.name: k.labels[k.now]
        for k in knobs
        if len(k.labels) > 1
        and (not is_default(k) if k.kind == HIDDEN else k.now != k.pinned or k.name != "tile")
    }
    for name, text in settings.changes(now.compiled).items():
        turned[f"{settings.SET}{name}"] = text
    return with_manual_moves(now, replace(state, knobs=turned))


def link(now: State) -> dict[str, str]:
    """Return the end of a link to a state; `left` says what is too long for a link."""
    text = fragment(now)
    has_all_edits = from_fragment(text).edits == now.edits
    return {
        "text": text,
        "left": "" if has_all_edits else "Edited kernels are too long for a link.",
    }


def read(text: str) -> State:
    """Read the state in the end of a link or in a file; raises SnapshotError if it is invalid."""
    return parse_state(text) if text.startswith("{") else from_fragment(text)


def with_manual_moves(now: Setting, state: State) -> State:
    """Return the state with the manual moves; the policy knob names their base policy."""
    options = now.compiled.options
    policy, knobs, moves = options.rammer.policy, dict(state.knobs), tuple[Any, ...]()
    if isinstance(policy, PolicyWithMoves):
        knobs["policy"], moves = policy.base_name, tuple(map(astuple, policy.moves))
    return replace(state, knobs=knobs, connect=options.welder.connect, moves=moves)


def replay_moves(now: Setting, state: State) -> Iterator[tuple[Setting, str]]:
    """Yield the settings that a state's moves lead to, each with its description.

    Nothing if the moves are already in place. Raises BadOption for a value that no kernel computes
    and for an unknown level.
    """
    present_levels = dict(now.compiled.options.welder.connect)
    connect = [(v, level) for v, level in state.connect if present_levels.get(v) != level]
    if connect:
        now = replace(now, compiled=judge_moves.compile_moves(now.compiled, connect))
        yield now, ", ".join(f"{value} → {level}" for value, level in connect)
    if state.moves:
        rammer = now.compiled.options.rammer
        by_hand = PolicyWithMoves(rammer.policy, tuple(Move(*row) for row in state.moves))
        changed = now.compiled.with_options(rammer=replace(rammer, policy=by_hand))
        yield replace(now, compiled=changed), by_hand.__name__


def settings_of(now: Setting, knobs: Mapping[str, str]) -> HistoryEntry | None:
    """Return the step to the settings in a state's knobs; None if they are already in place.

    Raises BadOption if one cannot have its value.
    """
    wanted = {
        name.removeprefix(settings.SET): text
        for name, text in knobs.items()
        if name.startswith(settings.SET)
    }
    have = settings.changes(now.compiled)
    new = {name: text for name, text in wanted.items() if have.get(name) != text}
    if not new:
        return None
    knobs_of = [settings.knob(now.compiled, name, text) for name, text in new.items()]
    words = ", ".join(f"{k.label} {k.labels[0]} → {k.labels[1]}" for k in knobs_of[:2])
    more = f" and {counted(len(new) - 2, 'setting')} more" if len(new) > 2 else ""
    return HistoryEntry(with_settings(now, new), f"{words}{more}")
