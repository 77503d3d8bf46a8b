"""Passes, policies, operators and data sheets that other distributions offer by entry point, or
that stand in a file of one's own.

What registers itself does so when its module is imported, so loading is all that is done here, and
it is done when a name is asked for: a broken plug-in harms nobody who does not use it. In a
notebook's cell nothing is loaded: it is registered, or passed in, where it is written.
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
from explorer.devices.catalogue import device_names
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ops import own_operators
from explorer.passes.pipeline.own_pass import article, said
from explorer.passes.pipeline.registry import passes, restored
from explorer.passes.policies import registered
from explorer.sandbox.line import at_line

__all__ = ["GROUP", "device", "enters", "is_known", "load", "names"]

GROUP = "ironworks.plugins"
FILE = re.compile(r"(?P<path>.+\.py)(?::(?P<name>\w+))?", re.DOTALL)
MOST_BYTES = 1 << 20  # of a file of Python


def names() -> tuple[str, ...]:
    """The plug-ins that are installed, loaded or not."""
    return tuple(sorted({found.name for found in entry_points(group=GROUP)}))


def is_known(name: str) -> bool:
    """Whether a name is that of a plug-in, or of a file of Python."""
    return FILE.fullmatch(name) is not None or bool(entry_points(group=GROUP, name=name))


def load(name: str) -> object:
    """What the plug-in of this name stands for, or a file of Python: "mine.py" is its module,
    "mine.py:policy" what is named so in it. A file that was loaded before is read again.

    Raises BadOption where no plug-in or more than one has the name, and where its code fails; then
    nothing stays registered of what it registered.
    """
    file = FILE.fullmatch(name)
    if file is not None:
        return _loaded(name, name, lambda: _from_file(Path(file["path"]), file["name"]))
    found = tuple(entry_points(group=GROUP, name=name))
    if not found:
        known = ", ".join(names()) or "none is installed"
        raise BadOption(
            f"no plug-in is named {name!r}",
            where=name,
            expected=known,
            try_="the name of an installed one, or a file: ./mine.py",
        )
    if len({entry.value for entry in found}) > 1:
        values = ", ".join(sorted(entry.value for entry in found))
        raise BadOption(
            f"several plug-ins are named {name!r}: {values}",
            where=name,
            found=values,
            try_="uninstall all but one of them",
        )
    return _entry(found[0])


def device(name: str) -> Device:
    """A device by the name of its data sheet, by the path of one, or by the name of a plug-in that
    is a Device or says where its sheet lies.

    Raises NoSuchDevice, BadSheet or BadOption.
    """
    if name in device_names() or not is_known(name):
        return catalogue.device(name)
    found = load(name)
    if isinstance(found, str | Path) and str(found).endswith(".toml"):
        return catalogue.device(str(found))
    if not isinstance(found, Device):
        raise BadOption(
            f"the plug-in {name!r} is no device: it is {article(type(found).__name__)}",
            where=name,
            expected="a Device, or the path of a data sheet",
        )
    return catalogue.of_ones_own(found, name)


def enters(found: object) -> bool:
    """Whether a pass stands in the pipeline, or an operator or a policy has a name, because this
    was loaded.
    """
    name = found.__name__ if isinstance(found, ModuleType) else getattr(found, "__module__", "")
    homes = {str(getattr(r.run, "__module__", "")) for r in passes().values() if r.after}
    for own in own_operators.own_operators().values():
        rules = (own.record.deduce, own.record.lower, own.record.reference)
        homes |= {str(getattr(rule, "__module__", "")) for rule in rules}
    homes |= {str(getattr(policy, "__module__", "")) for policy in registered.every()}
    return any(home == name or home.startswith(f"{name}.") for home in homes)


def _entry(entry: EntryPoint) -> object:
    return _loaded(entry.name, entry.value, entry.load)


def _loaded(name: str, value: str, load: Callable[[], object]) -> object:
    try:
        with restored(), own_operators.restored(), registered.restored():
            return load()
    except BadOption:
        raise
    except (Exception, SystemExit) as problem:  # a plug-in's code may raise anything
        where = f" ({value})" if value != name else ""
        raise BadOption(
            f"the plug-in {name!r}{where} failed to load: {said(problem)}{at_line(problem)}",
            where=name,
            found=value,
        ) from problem


def _from_file(path: Path, name: str | None) -> object:
    if not path.is_file():
        raise BadOption(f"there is no file {str(path)!r}", where=str(path))
    if path.stat().st_size > MOST_BYTES:
        raise BadOption(f"{str(path)!r} is larger than 1 MiB: it is no plug-in", where=str(path))
    module = _module(path)
    if name is None:
        return module
    if not hasattr(module, name):
        known = ", ".join(n for n, v in vars(module).items() if callable(v) and n[0] != "_")
        raise BadOption(
            f"{str(path)!r} has no {name!r}; it has {known or 'nothing'}", where=name, found=name
        )
    found: object = getattr(module, name)
    return found


def _module(path: Path) -> ModuleType:
    """The module of a file. It is known by its own name, as dataclasses in it need."""
    name = f"ironworks_plugin_{path.stem}"
    loader = SourceFileLoader(name, str(path.absolute()))
    spec = spec_from_loader(name, loader)
    assert spec is not None, "a loader was given"
    module, before = module_from_spec(spec), sys.modules.get(name)
    linecache.checkcache(str(path.absolute()))
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
