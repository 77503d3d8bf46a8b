"""Writing of an ONNX file: complete, or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import onnx

from explorer.errors import BadOption, TooLarge

MOST_BYTES = (1 << 31) - 1  # of a protocol buffer


def save_onnx(model: onnx.ModelProto, path: Path) -> None:
    """Write a model to a file, which is replaced only when all is written.

    Raises:
        TooLarge: The model is longer than a protocol buffer can be.
        BadOption: The file cannot be written.
    """
    if model.ByteSize() > MOST_BYTES:
        raise TooLarge(f"{path.name} would be longer than the 2 GiB of an ONNX file", where=path)
    beside = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        beside.write_bytes(model.SerializeToString())
        os.replace(beside, path)
    except OSError as error:
        raise BadOption(f"{path} cannot be written: {error.strerror}", where=path) from error
    finally:
        beside.unlink(missing_ok=True)
