"""The entry point for models: a file, a name of the zoo, a PyTorch export, or a Python function."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explorer.errors import BadOption
from explorer.frontends import zoo
from explorer.frontends.model import Bounds, Model


def load(
    source: Any, bounds: Bounds | None = None, *, inputs: Mapping[str, Any] | None = None
) -> Model:
    """Load a model from `source`.

    Args:
        source: the path of an ONNX file, of a GGUF file or of a folder of Hugging Face, "zoo:" and
            a name, a `torch.export.ExportedProgram`, or a function of `explorer.trace`.
        bounds: limits of symbolic dims: `{"batch": (1, 64)}`.
        inputs: annotations for the parameters of a traced function whose signature lacks them.

    Raises:
        BadModelFile, UnsupportedOperator, BoundError, TraceError: the model cannot be read.
        BadOption: the source is none of these.
    """
    if inputs is not None and type(source).__name__ != "Traced":
        raise BadOption("inputs are declared for a traced function only", where="inputs")
    if isinstance(source, (str, Path)):
        return load_file(source, bounds)
    from explorer.frontends.torch.export import is_exported, load_exported

    if is_exported(source):
        return load_exported(source, bounds)
    return _traced(source, bounds, inputs or {})


def load_file(path: str | Path, bounds: Bounds | None = None) -> Model:
    """Load the model of a file, of a language model's folder, or of "zoo:" and a name."""
    if str(path).startswith(zoo.PREFIX):
        return zoo.load(str(path), bounds)
    if str(path).endswith(".gguf") or os.path.isdir(path):
        from explorer.frontends.decoders.language_model import load_language_model

        return load_language_model(Path(path), bounds)
    from explorer.frontends.onnx.importer import load as read

    return read(path, bounds)


def _traced(source: Any, bounds: Bounds | None, inputs: Mapping[str, Any]) -> Model:
    from explorer.frontends.python.trace import Traced

    if isinstance(source, Traced):
        return source.model(inputs, bounds)
    if isinstance(source, Model):
        if bounds:
            raise BadOption("bounds are given where a model is loaded first", where="bounds")
        return source
    hint = "explorer.trace of it" if callable(source) else "the path of an ONNX file"
    if type(source).__module__.startswith("torch."):
        hint = "torch.export.export(module, args) of it"
    raise BadOption(
        f"a model is the path of an ONNX file, a name such as 'zoo:squeezenet', a "
        f"torch.export.ExportedProgram or a function of explorer.trace; found "
        f"{type(source).__name__}",
        where=source if isinstance(source, (int, float)) else type(source).__name__,
        try_=hint,
    )
