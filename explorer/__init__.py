"""Ironworks: a deep-learning compiler that you can watch working.

Everything a notebook needs is named here. Names are loaded when they are first used, so that a
shell command starts quickly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import explorer.process.forking  # noqa: F401  from the first import on, a fork waits for the others
from explorer.process.counters import counters
from explorer.process.garbage import rare_collections

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation
    from explorer.compiler.options import Options
    from explorer.compiler.pipeline import compile
    from explorer.compiler.pipeline import device_of as device
    from explorer.devices.catalogue import device_names
    from explorer.extend import load as plugin
    from explorer.extend.policies import forget_policy, policy
    from explorer.frontends.load import load
    from explorer.frontends.model import Model
    from explorer.frontends.python.functions import function
    from explorer.frontends.python.trace import trace
    from explorer.frontends.python.tracing.annotations import match_cast, shape, tensor
    from explorer.frontends.python.tracing.control_flow import cond, scan, while_loop
    from explorer.frontends.python.tracing.operation import operator
    from explorer.generation.generate import generate
    from explorer.generation.generate_many import generate_many
    from explorer.generation.generated_many import Request
    from explorer.generation.perplexity import perplexity
    from explorer.gradients import evaluate, grad, value_and_grad, vjp
    from explorer.ir.stage import Stage
    from explorer.ir.text.parser import parse_program as parse
    from explorer.passes.registry import compiler_pass, forget_pass
    from explorer.portable.write import export
    from explorer.quantization.quantize import quantize
    from explorer.quantization.round_rows import round_rows
    from explorer.relax.dispatch import library
    from explorer.training.training_loop import fit
    from explorer.transforms.rewrite import rewrite
    from explorer.transforms.simplify.substitution import bind_symbols
    from explorer.tuning.compare import compare
    from explorer.tuning.edited_kernel import try_kernel
    from explorer.tuning.forecast import check
    from explorer.tuning.kernel_parts import kernel_parts
    from explorer.tuning.race import race
    from explorer.tuning.sweep import sweep
    from explorer.views.differences import difference

__version__ = "0.1.0"

_HOME = {
    "Compilation": ("explorer.compiler.compilation", "Compilation"),
    "Model": ("explorer.frontends.model", "Model"),
    "Options": ("explorer.compiler.options", "Options"),
    "Request": ("explorer.generation.generated_many", "Request"),
    "Stage": ("explorer.ir.stage", "Stage"),
    "bind_symbols": ("explorer.transforms.simplify.substitution", "bind_symbols"),
    "check": ("explorer.tuning.forecast", "check"),
    "compare": ("explorer.tuning.compare", "compare"),
    "compile": ("explorer.compiler.pipeline", "compile"),
    "compiler_pass": ("explorer.passes.registry", "compiler_pass"),
    "device": ("explorer.compiler.pipeline", "device_of"),
    "device_names": ("explorer.devices.catalogue", "device_names"),
    "difference": ("explorer.views.differences", "difference"),
    "evaluate": ("explorer.gradients", "evaluate"),
    "export": ("explorer.portable.write", "export"),
    "fit": ("explorer.training.training_loop", "fit"),
    "forget_pass": ("explorer.passes.registry", "forget_pass"),
    "forget_policy": ("explorer.extend.policies", "forget_policy"),
    "library": ("explorer.relax.dispatch", "library"),
    "load": ("explorer.frontends.load", "load"),
    "parse": ("explorer.ir.text.parser", "parse_program"),
    "plugin": ("explorer.extend", "load"),
    "policy": ("explorer.extend.policies", "policy"),
    "quantize": ("explorer.quantization.quantize", "quantize"),
    "round_rows": ("explorer.quantization.round_rows", "round_rows"),
    "rewrite": ("explorer.transforms.rewrite", "rewrite"),
    "race": ("explorer.tuning.race", "race"),
    "sweep": ("explorer.tuning.sweep", "sweep"),
    "generate": ("explorer.generation.generate", "generate"),
    "generate_many": ("explorer.generation.generate_many", "generate_many"),
    "perplexity": ("explorer.generation.perplexity", "perplexity"),
    "kernel_parts": ("explorer.tuning.kernel_parts", "kernel_parts"),
    "try_kernel": ("explorer.tuning.edited_kernel", "try_kernel"),
    # models written in Python
    "cond": ("explorer.frontends.python.tracing.control_flow", "cond"),
    "function": ("explorer.frontends.python.functions", "function"),
    "grad": ("explorer.gradients", "grad"),
    "match_cast": ("explorer.frontends.python.tracing.annotations", "match_cast"),
    "np": ("explorer.np", ""),
    "operator": ("explorer.frontends.python.tracing.operation", "operator"),
    "scan": ("explorer.frontends.python.tracing.control_flow", "scan"),
    "shape": ("explorer.frontends.python.tracing.annotations", "shape"),
    "tensor": ("explorer.frontends.python.tracing.annotations", "tensor"),
    "trace": ("explorer.frontends.python.trace", "trace"),
    "value_and_grad": ("explorer.gradients", "value_and_grad"),
    "vjp": ("explorer.gradients", "vjp"),
    "while_loop": ("explorer.frontends.python.tracing.control_flow", "while_loop"),
}

__all__ = [
    "Compilation",
    "Model",
    "Options",
    "Request",
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
    "export",
    "fit",
    "forget_pass",
    "forget_policy",
    "function",
    "generate",
    "generate_many",
    "grad",
    "kernel_parts",
    "library",
    "load",
    "match_cast",
    "np",
    "operator",
    "parse",
    "perplexity",
    "plugin",
    "policy",
    "quantize",
    "race",
    "rewrite",
    "round_rows",
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
