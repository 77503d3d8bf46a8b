"""The house of a compilation, as its page asks for it."""

from __future__ import annotations

from typing import Any

from widgets.session.session import Session


def drawn(session: Session, name: str, **args: Any) -> str:
    """A picture's table in one text, and its drawing."""
    found = session.answer("picture", {"room": name, "op": 0, **args})
    rows = "\n".join(" ".join(map(str, row)) for row in found["table"]["rows"])
    return f"{found['table']['caption']}\n{rows}\n{found['svg']}"


def program(session: Session, step: str) -> str:
    """The program after a step, as the house writes it."""
    names = [s.name for s in session.now.compiled.snapshots]
    lines = session.answer("program", {"step": names.index(step)})["lines"]
    return "\n".join(text for _, _, text, *_ in lines)


def knob(session: Session, name: str) -> Any:
    """A knob as the page is told of it."""
    return next(k for k in session.parts()["knobs"] if k["name"] == name)
