"""Language models in folders of Hugging Face: config.json and weights in safetensors files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from explorer.errors import BadModelFile
from explorer.frontends.decoders.checked_json import Fields, parse_json
from explorer.frontends.decoders.decoder_config import DecoderConfig
from explorer.frontends.decoders.families import FAMILIES
from explorer.frontends.decoders.family_config import config_of
from explorer.frontends.decoders.family_weights import Weight, tensor_names, weights_of
from explorer.frontends.decoders.safetensors_file import read_safetensors
from explorer.frontends.onnx.plain_file import PlainFile

MAX_CONFIG = 1 << 20  # bytes
MAX_INDEX = 1 << 26
CONFIG, WEIGHTS = "config.json", "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"


def read_folder(
    folder: Path,
) -> tuple[DecoderConfig, dict[str, Weight], dict[str, str], Mapping[str, Any]]:
    """Return the description, the weights, the file's names of them, and config.json's fields.

    Raises:
        BadModelFile, DtypeError, TooLarge: a file is missing or wrong, or the family is unknown.
    """
    values = parse_json(_small_file(folder / CONFIG, MAX_CONFIG), CONFIG)
    kind = Fields(values, CONFIG).word("model_type")
    if kind not in FAMILIES:
        raise BadModelFile(
            f"{CONFIG} is of a {kind!r} model, and no family of that name is known",
            where="model_type",
            expected=", ".join(FAMILIES),
            actual=kind,
            try_=f"one of {', '.join(FAMILIES)}",
        )
    family = FAMILIES[kind]
    config = config_of(family, values, CONFIG)
    tensors = _tensors(folder)
    weights = weights_of(family, config, tensors)
    return config, weights, tensor_names(family, config, tensors), values


def _tensors(folder: Path) -> dict[str, np.ndarray]:
    """Return the tensors of the folder's file, or of all files that its index names."""
    if not (folder / INDEX).exists():
        return read_safetensors(_inside(folder, WEIGHTS))
    index = parse_json(_small_file(folder / INDEX, MAX_INDEX), INDEX)
    names = Fields(index, INDEX).inner("weight_map").values
    files: dict[str, dict[str, np.ndarray]] = {}
    tensors: dict[str, np.ndarray] = {}
    for name, file in names.items():
        if not isinstance(file, str):
            raise BadModelFile(f"{INDEX} names no file for {name!r}", where=name)
        if file not in files:
            files[file] = read_safetensors(_inside(folder, file))
        if name not in files[file]:
            raise BadModelFile(f"{file} has no tensor {name!r}, which {INDEX} promises")
        tensors[name] = files[file][name]
    return tensors


def _inside(folder: Path, name: str) -> Path:
    """Return the path of a file of the folder; BadModelFile for a path that leads elsewhere."""
    if name != Path(name).name or name in ("", ".", "..") or "\0" in name or "\\" in name:
        raise BadModelFile(f"{INDEX} names {name!r}, which is no file of the folder", where=name)
    if not (folder / name).exists():
        raise BadModelFile(f"{folder.name} has no file {name!r}", where=name)
    return folder / name


def _small_file(path: Path, most: int) -> bytes:
    """Return a file's bytes; BadModelFile if it is missing or longer than `most`."""
    if not path.exists():
        raise BadModelFile(
            f"{path.parent.name} has no {path.name}, so it is no folder of a language model",
            where=path.name,
            expected=f"{CONFIG} and {WEIGHTS}",
        )
    with PlainFile(path) as file:
        if file.size > most:
            raise BadModelFile(f"{path.name} has {file.size} bytes; at most {most} are read")
        return file.read(0, file.size)
