"""A folder for onnxruntime-genai: the matrices of a GGUF file, with their bits, as its builder has
them: queries, keys and values in one product, attention with rotary positions in one operator, and
scores of the last token only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from explorer.frontends.decoders.gguf_file import GgufFile
from explorer.frontends.decoders.packed_matrix import packed_matrix

MICROSOFT = "com.microsoft"
ROOM = 2048  # tokens
LEVELS = {"float32": 1, "int8": 4}  # accuracy_level of MatMulNBits


def write_onnx_folder(folder: Path, file: GgufFile, rows: str, threads: int) -> None:
    """Write model.onnx and genai_config.json; rows of products are float32 or rounded to int8."""
    graph = _Graph(file, LEVELS[rows])
    model = graph.model()
    onnx.save_model(
        model,
        folder / "model.onnx",
        save_as_external_data=True,
        location="model.onnx.data",
        convert_attribute=False,
    )
    names = {k: f"past_key_values.%d.{k}" for k in ("key", "value")}
    config = {
        "model": {
            "type": "llama",
            "context_length": ROOM,
            "vocab_size": file.tensors["output.weight"].shape[0],
            **{f"{name}_token_id": 0 for name in ("bos", "eos", "pad")},
            "decoder": {
                "session_options": {
                    "log_id": "onnxruntime-genai",
                    "intra_op_num_threads": threads,
                    "provider_options": [],
                },
                "filename": "model.onnx",
                "head_size": graph.width // graph.heads,
                "hidden_size": graph.width,
                "num_attention_heads": graph.heads,
                "num_key_value_heads": graph.groups,
                "num_hidden_layers": graph.layers,
                "inputs": {
                    "input_ids": "input_ids",
                    "attention_mask": "attention_mask",
                    **{f"past_{k}_names": name for k, name in names.items()},
                },
                "outputs": {"logits": "logits"}
                | {f"present_{k}_names": f"present.%d.{k}" for k in names},
            },
        },
        "search": {"do_sample": False, "max_length": ROOM, "past_present_share_buffer": True},
    }
    (folder / "genai_config.json").write_text(json.dumps(config))


class _Graph:
    """Nodes and initializers, added in the order of the computation."""

    def __init__(self, file: GgufFile, level: int) -> None:
        number = {n.removeprefix("llama."): v for n, v in file.fields.items()}
        self.width, self.layers = number["embedding_length"], number["block_count"]
        self.heads = number["attention.head_count"]
        self.groups = number["attention.head_count_kv"]
        self.epsilon = float(number["attention.layer_norm_rms_epsilon"])
        self.base = float(number["rope.freq_base"])
        self.tensors, self.level = file.tensors, level
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def add(self, op: str, *inputs: str, count: int = 1, domain: str = "", **attrs: Any) -> Any:
        """Add a node; return the name of its output, or the names of its outputs."""
        names = [f"{op}.{len(self.nodes)}.{i}" for i in range(count)]
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain, **attrs))
        return names if count > 1 else names[0]

    def constant(self, name: str, array: np.ndarray) -> str:
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def product(self, x: str, *names: str) -> str:
        """Multiply by the transpose of some matrices, one above the other."""
        tensors = [self.tensors[f"{n}.weight"] for n in names]
        packed = [packed_matrix(t.kind, t.data, t.shape) for t in tensors]
        matrices = [p for p in packed if p is not None]
        if not matrices:
            weights = self.constant(names[0], np.concatenate([t.array for t in tensors]).T)
            return str(self.add("MatMul", x, weights))
        outputs, inputs = sum(t.shape[0] for t in tensors), tensors[0].shape[1]
        codes = np.concatenate([m.codes.array for m in matrices])
        scales = np.concatenate([m.scales.array for m in matrices])
        return str(
            self.add(
                "MatMulNBits",
                x,
                self.constant(f"{names[0]}.codes", codes),
                self.constant(f"{names[0]}.scales", scales),
                domain=MICROSOFT,
                **{"K": inputs, "N": outputs},
                bits=matrices[0].bits,
                block_size=matrices[0].block,
                accuracy_level=self.level,
            )
        )

    def norm(self, x: str, name: str, added: str = "") -> tuple[str, str]:
        """Return the norm of `x + added`, and the sum."""
        weight = self.constant(name, self.tensors[f"{name}.weight"].array)
        if not added:
            return self.add("SimplifiedLayerNormalization", x, weight, epsilon=self.epsilon), x
        normed, _, _, total = self.add(
            *("SkipSimplifiedLayerNormalization", x, added, weight),
            count=4,
            domain=MICROSOFT,
            epsilon=self.epsilon,
        )
        return normed, total

    def model(self) -> onnx.ModelProto:
        """Return the model of a step."""
        counts = self.add("ReduceSum", "attention_mask", self.constant("1", np.array([1])))
        self.nodes[-1].attribute.append(helper.make_attribute("keepdims", 0))
        last = self.add("Cast", self.add("Sub", counts, "1"), to=TensorProto.INT32)
        total = self.add("Gather", self.add("Shape", "attention_mask"), "1s")
        lengths = last, self.add("Cast", total, to=TensorProto.INT32)
        self.constant("1s", np.array(1))
        each = self.width // self.heads
        angles = np.arange(ROOM)[:, None] * self.base ** (-np.arange(0, each, 2) / each)
        for name, f in (("cos", np.cos), ("sin", np.sin)):
            self.constant(name, f(angles).astype(np.float32))
        table = self.tensors["token_embd.weight"].array
        x = self.add("Gather", self.constant("token_embd", table), "input_ids")
        added, caches = "", []
        for n in range(self.layers):
            normed, x = self.norm(x, f"blk.{n}.attn_norm", added)
            parts = self.product(normed, *(f"blk.{n}.attn_{k}" for k in "qkv"))
            past = [f"past_key_values.{n}.{k}" for k in ("key", "value")]
            present = [f"present.{n}.{k}" for k in ("key", "value")]
            caches += [*zip(past, present)]
            self.nodes.append(
                helper.make_node(
                    "GroupQueryAttention",
                    [parts, "", "", *past, *lengths, "cos", "sin"],
                    [f"attention.{n}", *present],
                    domain=MICROSOFT,
                    num_heads=self.heads,
                    kv_num_heads=self.groups,
                    do_rotary=1,
                    rotary_interleaved=1,
                )
            )
            answer = self.product(f"attention.{n}", f"blk.{n}.attn_output")
            normed, x = self.norm(x, f"blk.{n}.ffn_norm", answer)
            gate = self.product(normed, f"blk.{n}.ffn_gate")
            gate = self.add("Mul", gate, self.add("Sigmoid", gate))
            inner = self.add("Mul", gate, self.product(normed, f"blk.{n}.ffn_up"))
            added = self.product(inner, f"blk.{n}.ffn_down")
        normed, _ = self.norm(x, "output_norm", added)
        best = self.add("Gather", normed, self.constant("-1", np.array([-1])), axis=1)
        self.nodes.append(helper.make_node("Identity", [self.product(best, "output")], ["logits"]))
        return self._proto(caches, each)

    def _proto(self, caches: list[tuple[str, str]], each: int) -> onnx.ModelProto:
        """Return the model with its inputs and outputs."""
        value, vocabulary = helper.make_tensor_value_info, self.tensors["output.weight"].shape[0]
        ids = [
            value("input_ids", TensorProto.INT64, ["batch", "n"]),
            value("attention_mask", TensorProto.INT64, ["batch", "total"]),
        ]
        shape = ["batch", self.groups, "room", each]
        past = [value(name, TensorProto.FLOAT, shape) for name, _ in caches]
        present = [value(name, TensorProto.FLOAT, shape) for _, name in caches]
        logits = value("logits", TensorProto.FLOAT, ["batch", 1, vocabulary])
        graph = helper.make_graph(
            self.nodes, "step", ids + past, [logits, *present], self.initializers
        )
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)
