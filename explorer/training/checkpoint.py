"""Checkpoints of training runs, which resume as if uninterrupted: arrays in safetensors format.

A file is written beside its destination and then renamed: the destination holds the old or the new
checkpoint whenever the process ends.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from glob import escape
from pathlib import Path
from time import time
from typing import Any
from uuid import uuid4

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from explorer.errors import BadCheckpoint
from explorer.frontends.python.tracing.structure import flatten, rebuild
from explorer.training.tree import names_of

FORMAT = "ironworks training 1"
OTHER = {"params": "another model", "state": "another optimizer or loss scale"}
STALE = 600  # seconds after which a part file is abandoned


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], optimizer: str) -> None:
    """Write arrays and the name of the optimizer to a file atomically.

    Raises:
        OSError: the folder is not writable.
    """
    contiguous = {n: np.asarray(a, order="C") for n, a in arrays.items()}
    data = save(contiguous, {"format": FORMAT, "optimizer": optimizer})
    for old in path.parent.glob(f".{escape(path.name)}.*.part"):  # of a process that was killed
        with suppress(OSError):
            if time() - old.stat().st_mtime > STALE:
                old.unlink()
    beside = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def load_arrays(path: Path) -> tuple[dict[str, np.ndarray], str]:
    """Return the arrays of a checkpoint and the optimizer's name, "" if an old file lacks it.

    Raises:
        BadCheckpoint: the file is no checkpoint.
    """
    try:
        data = path.read_bytes()
        arrays = dict(load(data))
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return arrays, str(header.get("__metadata__", {}).get("optimizer", ""))
    except (SafetensorError, ValueError, KeyError, TypeError) as problem:
        raise BadCheckpoint(
            f"{path} is no checkpoint: {problem}", where=str(path), expected="safetensors"
        ) from None


def nested_like(tree: Any, arrays: Mapping[str, np.ndarray], prefix: str, path: Path) -> Any:
    """Return the arrays under a prefix, nested like a tree.

    Raises:
        BadCheckpoint: an array is missing, has another shape or dtype, or has no place in the tree.
    """
    leaves, nesting = flatten(tree)
    names = names_of(tree, prefix)
    more = sorted(n for n in arrays if n.startswith(f"{prefix}.") and n not in names)
    if more:
        raise BadCheckpoint(
            f"{path} holds {more[0]}, which this run does not have: it is the checkpoint of "
            f"{OTHER[prefix]}",
            where=more[0],
            try_="another path, or `resume=False`",
        )
    ordered = []
    for name, leaf in zip(names, leaves, strict=True):
        array = arrays.get(name)
        if array is None:
            raise BadCheckpoint(
                f"{path} holds no {name}: it is the checkpoint of {OTHER[prefix]}",
                where=name,
                try_="another path, or `resume=False`",
            )
        like = np.asarray(leaf)
        if (array.shape, array.dtype) != (like.shape, like.dtype):
            raise BadCheckpoint(
                f"{name} is {array.dtype}{list(array.shape)} in {path}",
                where=name,
                expected=f"{like.dtype}{list(like.shape)}",
                try_="another path, or `resume=False`",
            )
        ordered.append(array)
    return rebuild(nesting, ordered)
