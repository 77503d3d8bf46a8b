"""Passes and policies that other distributions offer, by entry point.

A pass registers itself when its module is imported, so loading is all that is done here, and it is
done when a name is asked for: a broken plug-in harms nobody who does not use it. A pass or policy
of a notebook cell or a file needs no plug-in: it is registered, or passed in, where it is written.
"""

from importlib.metadata import EntryPoint, entry_points

from explorer.errors import BadOption

__all__ = ["GROUP", "load", "names"]

GROUP = "ironworks.plugins"


def names() -> tuple[str, ...]:
    """The plug-ins that are installed, loaded or not."""
    return tuple(sorted({found.name for found in entry_points(group=GROUP)}))


def load(name: str) -> object:
    """The object that the plug-in of this name stands for.

    Raises ``BadOption`` where no plug-in or more than one has the name, and where its code fails.
    """
    found = tuple(entry_points(group=GROUP, name=name))
    if not found:
        known = ", ".join(names()) or "none is installed"
        raise BadOption(f"no plug-in is named {name!r}", where=name, expected=known)
    if len({entry.value for entry in found}) > 1:
        values = ", ".join(sorted(entry.value for entry in found))
        raise BadOption(
            f"several plug-ins are named {name!r}: {values}",
            where=name,
            found=values,
            try_="uninstall all but one of them",
        )
    return _loaded(found[0])


def _loaded(entry: EntryPoint) -> object:
    try:
        return entry.load()
    except Exception as problem:  # a plug-in's code may raise anything
        raise BadOption(
            f"the plug-in {entry.name!r} ({entry.value}) failed to load: "
            f"{type(problem).__name__}: {problem}",
            where=entry.name,
            found=entry.value,
        ) from problem
