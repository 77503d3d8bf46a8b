"""Loader of what other distributions or files offer: passes, policies, operators, targets, sheets.

A plug-in registers itself when its module is imported, so this module only loads it, when its name
is used: a broken plug-in affects only those who use it. Code in a notebook's cell needs no
loading: it is registered, or passed in, where it is written.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

from explorer.devices import catalogue
from explorer.devices.model import Device
from explorer.errors import BadOption, Cancelled
from explorer.ops import user_operators
from explorer.passes import policy_call
from explorer.passes.registry import passes
from explorer.process.user_code import rollback_on_error, user_code, with_article

__all__ = ["GROUP", "device", "enters", "is_known", "load", "names"]

GROUP = "ironworks.plugins"
FILE = re.compile(r"(?P<path>.+\.py)(?::(?P<name>\w+))?", re.DOTALL)
MOST_BYTES = 1 << 20  # of a file of Python
_entering: set[str] = set()  # modules whose loading registered what takes part by itself


def names() -> tuple[str, ...]:
    """Return the names of the installed plug-ins, loaded or not."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def is_known(name: str) -> bool:
    """Return True if a name is that of a plug-in or of a Python file."""
    return FILE.fullmatch(name) is not None or bool(entry_points(group=GROUP, name=name))


def load(name: str) -> object:
    """Load a plug-in by name, or a Python file, and return its object.

    "mine.py" is the file's module, "mine.py:policy" an object in it. A file that was loaded before
    is read again.

    Raises:
        BadOption: No plug-in or more than one has the name, or its code fails; nothing that it
            registered stays registered.
    """
    file = FILE.fullmatch(name)
    if file is not None:
        return _loaded(name, name, lambda: _from_file(Path(file["path"]), file["name"]))
    entries = tuple(entry_points(group=GROUP, name=name))
    if not entries:
        installed = ", ".join(names()) or "none is installed"
        raise BadOption(
            f"no plug-in is named {name!r}",
            where=name,
            expected=installed,
            try_="the name of an installed one, or a file: ./mine.py",
        )
    if len({entry.value for entry in entries}) > 1:
        values = ", ".join(sorted(entry.value for entry in entries))
        raise BadOption(
            f"several plug-ins are named {name!r}: {values}",
            where=name,
            actual=values,
            try_="uninstall all but one of them",
        )
    return _entry(entries[0])


def device(name: str) -> Device:
    """Return a device by its data sheet's name or path, or by the name of a plug-in.

    The plug-in is a Device, or the path of a data sheet.

    Raises:
        NoSuchDevice, BadSheet, BadOption: There is no such device, or it is wrong.
    """
    if catalogue.is_known(name) or not is_known(name):
        return catalogue.device(name)
    loaded = load(name)
    if isinstance(loaded, str | Path) and str(loaded).endswith(".toml"):
        return catalogue.device(str(loaded))
    if not isinstance(loaded, Device):
        raise BadOption(
            f"the plug-in {name!r} is no device: it is {with_article(type(loaded).__name__)}",
            where=name,
            expected="a Device, or the path of a data sheet",
        )
    return catalogue.check_user_device(loaded, name)


def enters(loaded: object) -> bool:
    """Return True if loading an object registered what takes part by itself.

    This is a pass of the pipeline, an operator, a policy, a target or a picture.
    """
    name = _module_name(loaded)
    if name in _entering:
        return True
    runs = (getattr(r.run, "rule", r.run) for r in passes().values() if r.after)
    homes = {str(getattr(run, "__module__", "")) for run in runs}
    for own in user_operators.user_operators().values():
        rules = (own.record.deduce, own.record.lower, own.record.reference)
        homes |= {str(getattr(rule, "__module__", "")) for rule in rules}
    homes |= {str(getattr(policy, "__module__", "")) for policy in policy_call.all_policies()}
    return any(home == name or home.startswith(f"{name}.") for home in homes)


def _module_name(loaded: object) -> str:
    named = isinstance(loaded, ModuleType)
    return str(getattr(loaded, "__name__" if named else "__module__", ""))


def _entry(entry: EntryPoint) -> object:
    """Load an entry point."""
    return _loaded(entry.name, entry.value, entry.load)


def _loaded(name: str, value: str, load: Callable[[], object]) -> object:
    """Call a loader; on failure undo its registrations and raise BadOption."""
    where = f" ({value})" if value != name else ""

    def failed(words: str) -> BadOption:
        what = f"the plug-in {name!r}{where} failed to load: {words}"
        return BadOption(what, where=name, actual=value)

    plugin = f"the plug-in {name!r}"
    with rollback_on_error() as entered, user_code(plugin, failed, (BadOption, Cancelled)):
        loaded = load()
    if entered:
        _entering.add(_module_name(loaded))
    return loaded


def _from_file(path: Path, name: str | None) -> object:
    """Load a Python file and return its module, or an object in it."""
    if not path.is_file():
        raise BadOption(f"there is no file {str(path)!r}", where=str(path))
    if path.stat().st_size > MOST_BYTES:
        raise BadOption(f"{str(path)!r} is larger than 1 MiB: it is no plug-in", where=str(path))
    module = _module(path)
    if name is None:
        return module
    if not hasattr(module, name):
        callables = ", ".join(n for n, v in vars(module).items() if callable(v) and n[0] != "_")
        raise BadOption(
            f"{str(path)!r} has no {name!r}; it has {callables or 'nothing'}",
            where=name,
            actual=name,
        )
    value: object = getattr(module, name)
    return value


def _module(path: Path) -> ModuleType:
    """Import a file under a module name of its own, as its dataclasses need."""
    name = f"ironworks_plugin_{path.stem}"
    loader = SourceFileLoader(name, str(path.absolute()))
    spec = spec_from_loader(name, loader)
    assert spec is not None, "a loader was given"
    module, before = module_from_spec(spec), sys.modules.get(name)
    linecache.checkcache(str(path.absolute()))
    _entering.discard(name)  # the file may register nothing now
    sys.modules[name] = module
    try:
        # not the loader's own way, which takes a file for unchanged that was edited within a second
        exec(compile(path.read_bytes(), str(path.absolute()), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
        raise
    return module
