"""Hostile files of language models: each is refused in one sentence, before memory is taken."""

from __future__ import annotations

import json
import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.errors import BadModelFile, DtypeError, IronworksError, TooLarge
from explorer.frontends.decoders.gguf_file import read_gguf
from explorer.frontends.decoders.safetensors_file import read_safetensors
from tests.frontends.decoders.tiny_models import LLAMA, write_folder

REFUSALS = (BadModelFile, DtypeError, TooLarge)
SPARE = 1 << 20  # bytes for Python's own objects
HUGE = 2**63 - 1


def refused(read: Callable[[], object]) -> IronworksError:
    """The error of a read that is refused, in one line."""
    with pytest.raises(REFUSALS) as caught:
        read()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 700
    return caught.value


# Safetensors.


def tensors_file(header: Any, data: bytes = bytes(64), length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype: Any = "F32", shape: Any = (4, 4), offsets: Any = (0, 64)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


TENSORS = {
    "empty": b"",
    "seven bytes": b"1234567",
    "header longer than the file": tensors_file({}, b"", 1000),
    "header of 2**63 bytes": tensors_file({}, b"", 2**63),
    "header of all bits": tensors_file({}, b"", 2**64 - 1),
    "no JSON": tensors_file(b"hello"),
    "half of a JSON": tensors_file(b'{"a": {"dtype": "F3'),
    "not UTF-8": tensors_file(b'{"\xff\xfe": 1}'),
    "a list": tensors_file([1, 2]),
    "deep JSON": tensors_file(b"[" * 100_000),
    "deep objects": tensors_file(b'{"a":' * 50_000),
    "the same name twice": tensors_file(
        b'{"a":%s,"a":%s}' % (json.dumps(entry()).encode(), json.dumps(entry()).encode())
    ),
    "a tensor that is a number": tensors_file({"a": 5}),
    "a tensor that is a list": tensors_file({"a": []}),
    "no dtype": tensors_file({"a": {"shape": [4, 4], "data_offsets": [0, 64]}}),
    "a dtype that is a number": tensors_file({"a": entry(3)}),
    "unknown dtype": tensors_file({"a": entry("F99")}),
    "whole numbers": tensors_file({"a": entry("I64", (8,))}),
    "no shape": tensors_file({"a": {"dtype": "F32", "data_offsets": [0, 64]}}),
    "negative dim": tensors_file({"a": entry(shape=(-4, -4))}),
    "a dim that is a float": tensors_file({"a": entry(shape=(4.0, 4))}),
    "a dim that is true": tensors_file({"a": entry(shape=(True, 16))}),
    "huge dims": tensors_file({"a": entry(shape=(HUGE, HUGE))}),
    "product that wraps to 16": tensors_file({"a": entry(shape=(2**47, 2**17, 16))}),
    "rank 100": tensors_file({"a": entry(shape=(1,) * 99 + (16,))}),
    "offsets beyond the end": tensors_file({"a": entry(offsets=(64, 128))}),
    "huge offsets": tensors_file({"a": entry(offsets=(HUGE - 64, HUGE))}),
    "offsets in the wrong order": tensors_file({"a": entry(offsets=(64, 0))}),
    "negative offsets": tensors_file({"a": entry(offsets=(-64, 0))}),
    "one offset": tensors_file({"a": entry(offsets=(0,))}),
    "offsets of fewer bytes": tensors_file({"a": entry(offsets=(0, 60))}),
    "NaN as a dim": tensors_file(b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,64]}}'),
    "overlapping tensors": tensors_file(
        {"a": entry(shape=(2, 4), offsets=(0, 32)), "b": entry(shape=(2, 4), offsets=(16, 48))}
    ),
    "the same bytes twice": tensors_file({"a": entry(), "b": entry()}),
    "cut off": tensors_file({"a": entry()}, bytes(63)),
}


@pytest.mark.parametrize("name", TENSORS)
def test_safetensors_are_checked(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(TENSORS[name])
    tracemalloc.start()
    refused(lambda: read_safetensors(path))
    assert tracemalloc.get_traced_memory()[1] < SPARE + 20 * len(TENSORS[name])
    tracemalloc.stop()


# Folders.


def changed(**fields: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "config.json").write_text(json.dumps({**LLAMA, **fields}))

    return change


def config_text(text: str | bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "config.json").write_bytes(text if isinstance(text, bytes) else text.encode())

    return change


def index(weight_map: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))

    return change


def a_shard_elsewhere(folder: Path) -> None:
    (folder.parent / "secret.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    index({"model.norm.weight": "../secret.safetensors"})(folder)


def a_pipe(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")


LONG_ROPE = {"rope_type": "longrope", "rope_theta": 1e4, "factor": 2.0}
FOLDERS: dict[str, Callable[[Path], None]] = {
    "no config": lambda f: (f / "config.json").unlink(),
    "no weights": lambda f: (f / "model.safetensors").unlink(),
    "config is a folder": lambda f: ((f / "config.json").unlink(), (f / "config.json").mkdir()),
    "weights are a pipe": a_pipe,
    "empty config": config_text(""),
    "config of 2 MiB": config_text(b" " * (2 << 20)),
    "deep config": config_text("[" * 100_000),
    "NaN": config_text(json.dumps({**LLAMA, "rms_norm_eps": float("nan")})),
    "infinity": config_text(json.dumps({**LLAMA, "rope_theta": float("inf")})),
    "1e999": config_text(json.dumps(LLAMA)[:-1] + ', "rms_norm_eps": 1e999}'),
    "a field twice": config_text(json.dumps(LLAMA)[:-1] + ', "vocab_size": 5}'),
    "a whole number of 5,000 digits": config_text(
        json.dumps(LLAMA)[:-1] + f', "head_dim": {"9" * 5000}}}'
    ),
    "unknown family": changed(model_type="mamba"),
    "family of another type": changed(model_type=["llama"]),
    "no layers": changed(num_hidden_layers=0),
    "a million layers": changed(num_hidden_layers=1_000_000),
    "huge vocabulary": changed(vocab_size=2**31 - 1),
    "huge width": changed(hidden_size=2**30),
    "negative heads": changed(num_attention_heads=-4),
    "heads that are a text": changed(num_attention_heads="4"),
    "heads that are true": changed(num_attention_heads=True),
    "heads that are a fraction": changed(num_attention_heads=4.5),
    "heads that share unequally": changed(num_attention_heads=4, num_key_value_heads=3),
    "an odd head": changed(head_dim=7),
    "more layers than weights": changed(num_hidden_layers=3),
    "other sizes than the weights'": changed(intermediate_size=40),
    "unknown activation": changed(hidden_act="__import__('os')"),
    "negative epsilon": changed(rms_norm_eps=-1e-5),
    "rope_parameters that is a list": changed(rope_parameters=[1]),
    "unknown rope": changed(rope_parameters=LONG_ROPE),
    "rope without a factor": changed(rope_parameters={"rope_type": "linear", "rope_theta": 1e4}),
    "layer types of another number": changed(layer_types=["full_attention"]),
    "unknown layer types": changed(layer_types=["linear_attention"] * 2),
    "window of 0": changed(sliding_window=0, layer_types=["sliding_attention"] * 2),
    "ends that are a text": changed(eos_token_id="</s>"),
    "a shard outside of the folder": a_shard_elsewhere,
    "an absolute shard": index({"model.norm.weight": "/etc/passwd"}),
    "a shard that is the folder": index({"model.norm.weight": "."}),
    "a shard with a NUL": index({"model.norm.weight": "a\0b"}),
    "a shard that is a number": index({"model.norm.weight": 3}),
    "a missing shard": index({"model.norm.weight": "model-2.safetensors"}),
    "a shard without its tensor": index({"model.other.weight": "model.safetensors"}),
    "an index without files": index(None),
    "an index that is a list": index([1, 2]),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_are_checked(tmp_path: Path, name: str) -> None:
    folder = write_folder(tmp_path / "model")
    FOLDERS[name](folder)
    refused(lambda: explorer.load(folder))


def test_every_cut_of_a_folder_file_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model")
    data = (folder / "model.safetensors").read_bytes()
    for end in [*range(0, 2000, 37), len(data) // 2, len(data) - 1]:
        (folder / "model.safetensors").write_bytes(data[:end])
        refused(lambda: explorer.load(folder))


def test_a_shared_link_of_a_shard_is_read(tmp_path: Path) -> None:
    """A cache of downloads has links; names lead nowhere else, and the user made the links."""
    folder = write_folder(tmp_path / "model")
    (folder / "model.safetensors").rename(tmp_path / "blob")
    (folder / "model.safetensors").symlink_to(tmp_path / "blob")
    assert explorer.load(folder).name == "model"


# GGUF.


def text(value: str | bytes) -> bytes:
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def field(name: str | bytes, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def tensor(
    name: str = "t", dims: tuple[int, ...] = (4, 4), kind: int = 0, offset: int = 0
) -> bytes:
    sizes = struct.pack(f"<{len(dims)}Q", *dims)
    return text(name) + struct.pack("<I", len(dims)) + sizes + struct.pack("<IQ", kind, offset)


def gguf(
    fields: tuple[bytes, ...] = (),
    tensors: tuple[bytes, ...] = (),
    data: bytes = bytes(64),
    counts: tuple[int, int] | None = None,
    version: int = 3,
) -> bytes:
    numbers = counts or (len(tensors), len(fields))
    head = b"GGUF" + struct.pack("<IQQ", version, *numbers) + b"".join((*fields, *tensors))
    return head + bytes(-len(head) % 32) + data


U32, F32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9
LIST = struct.pack("<I", STRING)
GGUFS = {
    "empty": b"",
    "three bytes": b"GGU",
    "another format": b"GGML" + bytes(100),
    "magic alone": b"GGUF",
    "version 1": gguf(version=1),
    "version of the other byte order": gguf(version=3 << 24),
    "2**60 tensors": gguf(counts=(2**60, 0)),
    "2**64 - 1 tensors": gguf(counts=(2**64 - 1, 0)),
    "2**60 fields": gguf(counts=(0, 2**60)),
    "more tensors than there are": gguf(tensors=(tensor(),), counts=(3, 0)),
    "a name of 2**60 bytes": gguf((struct.pack("<Q", 2**60) + b"abc",)),
    "a name of 100,000 bytes": gguf((field("x" * 100_000, U32, bytes(4)),)),
    "a name that is not UTF-8": gguf((field(b"\xff\xfe", U32, bytes(4)),)),
    "a text that is not UTF-8": gguf((field("a", STRING, text(b"\x80")),)),
    "a field of an unknown type": gguf((field("a", 77, bytes(8)),)),
    "the same field twice": gguf((field("a", U32, bytes(4)), field("a", U32, bytes(4)))),
    "a NaN": gguf((field("a", F32, struct.pack("<f", np.nan)),)),
    "a list of 2**60 texts": gguf((field("a", ARRAY, LIST + struct.pack("<Q", 2**60)),)),
    "a list of 2**61 numbers": gguf(
        (field("a", ARRAY, struct.pack("<IQ", U32, 2**61)),)  # 2**63 bytes
    ),
    "a list of lists": gguf((field("a", ARRAY, struct.pack("<IQI", ARRAY, 1, U32)),)),
    "a list of an unknown type": gguf((field("a", ARRAY, struct.pack("<IQ", 99, 1)),)),
    "alignment 0": gguf((field("general.alignment", U32, bytes(4)),), (tensor(),)),
    "alignment of 2**31": gguf(
        (field("general.alignment", U32, struct.pack("<I", 2**31)),), (tensor(),)
    ),
    "alignment that is a text": gguf((field("general.alignment", STRING, text("32")),)),
    "rank 2**31": gguf(tensors=(text("t") + struct.pack("<I", 2**31),)),
    "rank 5": gguf(tensors=(tensor(dims=(1, 1, 1, 4, 4)),)),
    "huge dims": gguf(tensors=(tensor(dims=(HUGE, HUGE)),)),
    "product that wraps to 16": gguf(tensors=(tensor(dims=(2**60, 2**4, 2**4)),)),
    "an unknown type of ggml": gguf(tensors=(tensor(kind=99),)),
    "a type without a decoder": gguf(tensors=(tensor(dims=(256, 1), kind=16),)),
    "a row of half a block": gguf(tensors=(tensor(dims=(16, 2), kind=8),)),
    "an offset beyond the end": gguf(tensors=(tensor(offset=64),)),
    "a huge offset": gguf(tensors=(tensor(offset=2**64 - 32),)),
    "an offset between alignments": gguf(tensors=(tensor(dims=(4,), offset=7),)),
    "two tensors of a name": gguf(tensors=(tensor(), tensor())),
    "overlapping tensors": gguf(
        tensors=(tensor("a", (16,)), tensor("b", (8,), offset=32)), data=bytes(64)
    ),
    "no data": gguf(tensors=(tensor(),), data=b""),
    "cut off": gguf(tensors=(tensor(),))[:-1],
}


@pytest.mark.parametrize("name", GGUFS)
def test_gguf_is_checked(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(GGUFS[name])
    tracemalloc.start()
    refused(lambda: read_gguf(path))
    assert tracemalloc.get_traced_memory()[1] < SPARE + 20 * len(GGUFS[name])
    tracemalloc.stop()
    refused(lambda: explorer.load(path))


def test_the_valid_file_of_these_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf((field("a", BOOL, b"\1"),), (tensor(),)))
    file = read_gguf(path)
    assert file.fields == {"a": True} and file.tensors["t"].shape == (4, 4)
    error = refused(lambda: explorer.load(path))
    assert "general.architecture" in str(error)


def test_random_bytes_in_a_file_are_an_error_or_another_file(tmp_path: Path) -> None:
    valid = gguf((field("a", STRING, text("b")), field("c", U32, bytes(4))), (tensor(),))
    path, rng = tmp_path / "model.gguf", np.random.default_rng(0)
    for _ in range(300):
        data = np.frombuffer(valid, np.uint8).copy()
        data[rng.integers(0, 120, 3)] = rng.integers(0, 256, 3)
        path.write_bytes(data.tobytes())
        try:
            read_gguf(path)
        except REFUSALS as error:
            assert "\n" not in str(error)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "none.gguf" in str(refused(lambda: explorer.load(tmp_path / "none.gguf")))
    (tmp_path / "folder.gguf").mkdir()
    refused(lambda: explorer.load(tmp_path / "folder.gguf"))
