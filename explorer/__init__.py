"""Ironworks: a deep-learning compiler that you can watch working.

Everything a notebook needs is named here. Names are loaded when they are first used, so that a
shell command starts quickly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import explorer.forking  # noqa: F401  from the first import on, a fork waits for the others
from explorer.counters import counters
from explorer.garbage import rare_collections

if TYPE_CHECKING:
    from explorer.compilation import Compilation
    from explorer.compiler import compile
    from explorer.compiler import device_of as device
    from explorer.devices.catalogue import device_names
    from explorer.differences.changes import difference
    from explorer.frontends.functions import function
    from explorer.frontends.load import load
    from explorer.frontends.model import Model
    from explorer.frontends.trace import trace
    from explorer.frontends.tracing.annotations import tensor
    from explorer.frontends.tracing.casts import match_cast, shape
    from explorer.frontends.tracing.control.branches import cond
    from explorer.frontends.tracing.control.loops import while_loop
    from explorer.frontends.tracing.control.scans import scan
    from explorer.frontends.tracing.own_operator import operator
    from explorer.gradients import evaluate, grad, value_and_grad, vjp
    from explorer.ir.stage import Stage
    from explorer.options import Options
    from explorer.passes.pipeline.registry import compiler_pass, forget_pass
    from explorer.passes.simplify.bind_symbols import bind_symbols
    from explorer.passes.simplify.rewrite_rule import rewrite
    from explorer.plugins import load as plugin
    from explorer.plugins.own_policies import forget_policy, policy
    from explorer.relax.dispatch import library
    from explorer.training.runs.fit import fit
    from explorer.tuning.compare import compare
    from explorer.tuning.edited_kernel import try_kernel
    from explorer.tuning.forecast import check
    from explorer.tuning.inside.kernel_parts import kernel_parts
    from explorer.tuning.race import race
    from explorer.tuning.sweep import sweep

__version__ = "0.1.0"

_HOME = {
    "Compilation": ("explorer.compilation", "Compilation"),
    "Model": ("explorer.frontends.model", "Model"),
    "Options": ("explorer.options", "Options"),
    "Stage": ("explorer.ir.stage", "Stage"),
    "bind_symbols": ("explorer.passes.simplify.bind_symbols", "bind_symbols"),
    "check": ("explorer.tuning.forecast", "check"),
    "compare": ("explorer.tuning.compare", "compare"),
    "compile": ("explorer.compiler", "compile"),
    "compiler_pass": ("explorer.passes.pipeline.registry", "compiler_pass"),
    "device": ("explorer.compiler", "device_of"),
    "device_names": ("explorer.devices.catalogue", "device_names"),
    "difference": ("explorer.differences.changes", "difference"),
    "evaluate": ("explorer.gradients", "evaluate"),
    "fit": ("explorer.training.runs.fit", "fit"),
    "forget_pass": ("explorer.passes.pipeline.registry", "forget_pass"),
    "forget_policy": ("explorer.plugins.own_policies", "forget_policy"),
    "library": ("explorer.relax.dispatch", "library"),
    "load": ("explorer.frontends.load", "load"),
    "plugin": ("explorer.plugins", "load"),
    "policy": ("explorer.plugins.own_policies", "policy"),
    "rewrite": ("explorer.passes.simplify.rewrite_rule", "rewrite"),
    "race": ("explorer.tuning.race", "race"),
    "sweep": ("explorer.tuning.sweep", "sweep"),
    "kernel_parts": ("explorer.tuning.inside.kernel_parts", "kernel_parts"),
    "try_kernel": ("explorer.tuning.edited_kernel", "try_kernel"),
    # models written in Python
    "cond": ("explorer.frontends.tracing.control.branches", "cond"),
    "function": ("explorer.frontends.functions", "function"),
    "grad": ("explorer.gradients", "grad"),
    "match_cast": ("explorer.frontends.tracing.casts", "match_cast"),
    "np": ("explorer.np", ""),
    "operator": ("explorer.frontends.tracing.own_operator", "operator"),
    "scan": ("explorer.frontends.tracing.control.scans", "scan"),
    "shape": ("explorer.frontends.tracing.casts", "shape"),
    "tensor": ("explorer.frontends.tracing.annotations", "tensor"),
    "trace": ("explorer.frontends.trace", "trace"),
    "value_and_grad": ("explorer.gradients", "value_and_grad"),
    "vjp": ("explorer.gradients", "vjp"),
    "while_loop": ("explorer.frontends.tracing.control.loops", "while_loop"),
}

__all__ = [
    "Compilation",
    "Model",
    "Options",
    "Stage",
    "bind_symbols",
    "check",
    "compare",
    "compile",
    "compiler_pass",
    "cond",
    "counters",
    "device",
    "device_names",
    "difference",
    "evaluate",
    "fit",
    "forget_pass",
    "forget_policy",
    "function",
    "grad",
    "kernel_parts",
    "library",
    "load",
    "match_cast",
    "np",
    "operator",
    "plugin",
    "policy",
    "race",
    "rewrite",
    "scan",
    "shape",
    "sweep",
    "tensor",
    "trace",
    "try_kernel",
    "value_and_grad",
    "vjp",
    "while_loop",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOME:
        raise AttributeError(f"module 'explorer' has no attribute {name!r}")
    module, attribute = _HOME[name]
    with rare_collections():
        home = import_module(module)
    value = getattr(home, attribute) if attribute else home
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, those not loaded yet included."""
    return sorted({*globals(), *_HOME})
