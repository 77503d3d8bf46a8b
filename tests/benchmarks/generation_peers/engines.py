"""Engines of language models: a step or a prefill of the same file.

Caches are float32 and one token longer after a step, which is taken back. Times leave out sampling.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from explorer.frontends.decoders.gguf_file import read_gguf
from tests.benchmarks.generation_peers.model_files import SPREADS, tokens_of
from tests.benchmarks.generation_peers.onnx_folder import write_onnx_folder

MORE = 64  # tokens of room after the prompt; chosen
F32 = "F32"
Run = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A model's file, and what is timed of it: a step after a prompt, or its prefill."""

    path: Path
    shape: str
    kind: str  # of GGUF's element types
    rows: str  # "float32", or "int8" where products round them
    threads: int
    prompt: int  # tokens
    prefill: bool

    @property
    def first(self) -> np.ndarray:
        """The prompt, int64[1, prompt]."""
        return tokens_of(self.prompt)

    @property
    def ids(self) -> np.ndarray:
        """The tokens that a run adds: the prompt, or the one after it."""
        return self.first if self.prefill else tokens_of(self.prompt + 1)[:, -1:]


def transformers(case: Case) -> Run:
    """Return a run of transformers, with its cache cut back after it, which returns scores."""
    torch: Any = import_module("torch")
    library: Any = import_module("transformers")
    library.logging.set_verbosity_error()
    torch.set_num_threads(case.threads)
    load = library.AutoModelForCausalLM.from_pretrained
    model = load(case.path.parent, gguf_file=case.path.name, dtype=torch.float32).eval()
    first, ids = torch.tensor(case.first), torch.tensor(case.ids)
    full = library.DynamicCache()

    @torch.inference_mode()
    def run(ids: Any, cache: Any) -> np.ndarray:
        scores = model(ids, past_key_values=cache, logits_to_keep=1).logits
        return np.asarray(scores[0, -1].numpy())

    if case.prefill:
        return lambda: run(ids, library.DynamicCache())
    run(first, full)

    def step() -> np.ndarray:
        scores = run(ids, full)
        full.crop(-1)
        return scores

    return step


def llama_cpp(case: Case) -> Run:
    """Return a run of llama.cpp, which returns scores."""
    llama: Any = import_module("llama_cpp")
    quiet = llama.llama_log_callback(lambda *_: None)
    llama.llama_log_set(quiet, ctypes.c_void_p())
    llama.llama_backend_init()
    settings = llama.llama_context_default_params()
    settings.n_ctx = case.prompt + MORE
    settings.n_batch = settings.n_ubatch = case.prompt
    settings.n_threads = settings.n_threads_batch = case.threads
    settings.flash_attn_type = int(case.prefill)  # slower in steps; it computes in float16
    settings.type_k = settings.type_v = llama.GGML_TYPE_F32
    model = llama.llama_model_load_from_file(
        os.fsencode(case.path), llama.llama_model_default_params()
    )
    context = llama.llama_init_from_model(model, settings)
    cache, count = llama.llama_get_memory(context), llama.llama_vocab_n_tokens
    shape = (count(llama.llama_model_get_vocab(model)),)

    def run(ids: np.ndarray, at: int, log: Any = quiet) -> np.ndarray:  # it must outlive the model
        llama.llama_memory_seq_rm(cache, 0, at, -1)
        tokens = ids.ctypes.data_as(ctypes.POINTER(llama.llama_token))
        if llama.llama_decode(context, llama.llama_batch_get_one(tokens, ids.size)):
            raise RuntimeError("llama.cpp cannot decode the tokens")
        return np.ctypeslib.as_array(llama.llama_get_logits_ith(context, -1), shape)

    return _after_prompt(case, run)


def onnxruntime_genai(case: Case) -> Run:
    """Return a run of ONNX Runtime GenAI, which returns scores."""
    genai: Any = import_module("onnxruntime_genai")
    with tempfile.TemporaryDirectory() as name:
        write_onnx_folder(Path(name), read_gguf(case.path), case.rows, case.threads)
        model = genai.Model(name)
    settings = genai.GeneratorParams(model)
    settings.set_search_options(max_length=case.prompt + MORE)
    generator = genai.Generator(model, settings)

    def run(ids: np.ndarray, at: int) -> np.ndarray:
        generator.rewind_to(at)
        generator.append_tokens(ids)
        scores: np.ndarray = generator.get_logits().reshape(-1)
        return scores

    return _after_prompt(case, run)


def _after_prompt(case: Case, run: Callable[[np.ndarray, int], np.ndarray]) -> Run:
    """Return a run from the beginning, or one that adds a token to the prompt."""
    first, ids = (a.reshape(-1).astype(np.int32) for a in (case.first, case.ids))
    if case.prefill:
        return lambda: run(ids, 0)
    run(first, 0)
    return lambda: run(ids, case.prompt)


class OpenVinoGenAI:
    """A pipeline of OpenVINO GenAI; a call returns a token.

    It tells how long each inference takes. Its steps are those of one generation, which begins
    half of them before the prompt's end.
    """

    def __init__(self, case: Case) -> None:
        self.genai: Any = import_module("openvino_genai")
        self.case = case
        schedule = self.genai.SchedulerConfig()
        schedule.enable_prefix_caching = False
        schedule.max_num_batched_tokens = case.prompt + MORE
        settings = {
            "ATTENTION_BACKEND": "PA",  # a prefill takes half as long as with SDPA
            "scheduler_config": schedule,
            "INFERENCE_NUM_THREADS": case.threads,
            "INFERENCE_PRECISION_HINT": "f32",
            "KV_CACHE_PRECISION": "f32",
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": 32 if case.rows == "int8" else 0,
        }
        self.pipeline = self.genai.LLMPipeline(case.path, "CPU", **settings)

    def __call__(self) -> int:
        ids = tokens_of(self.case.prompt + (not self.case.prefill))
        return int(self._generate(ids, 1).tokens[0][0])

    def seconds(self, calls: int) -> list[float]:
        """Return how long each of so many runs took."""
        if self.case.prefill:
            return [self._seconds(self.case.first, 1)[0] for _ in range(calls)]
        return self._seconds(self.case.first[:, calls // 2 :], calls + 1)[1:]

    def _seconds(self, ids: np.ndarray, count: int) -> list[float]:
        times = self._generate(ids, count).perf_metrics.raw_metrics.token_infer_durations
        return [microseconds / 1e6 for microseconds in times]

    def _generate(self, ids: np.ndarray, count: int) -> Any:
        """Generate so many tokens after others."""
        tensor: Any = import_module("openvino").Tensor
        inputs = self.genai.TokenizedInputs(tensor(ids), tensor(np.ones_like(ids)))
        config = self.genai.GenerationConfig(max_new_tokens=count, ignore_eos=True, do_sample=False)
        return self.pipeline.generate(inputs, config)


ENGINES: Mapping[str, tuple[tuple[str, ...], Callable[[Case], Run]]] = {  # packages, and a run
    "transformers": (("transformers", "torch", "accelerate"), transformers),
    "llama.cpp": (("llama_cpp",), llama_cpp),
    "openvino-genai": (("openvino_genai",), OpenVinoGenAI),
    "onnxruntime-genai": (("onnxruntime_genai",), onnxruntime_genai),
}


def is_rounded(name: str, case: Case) -> bool:
    """Return True if an engine rounds what products or attention read."""
    narrow = case.prefill or case.kind in ("F16", "BF16")  # then rows are rounded to 16 bits
    return case.rows == "int8" or (name == "llama.cpp" and narrow)


def reason_against(name: str, case: Case) -> str:
    """Return why an engine does not take part in a case, "" if it does."""
    missing = [package for package in ENGINES[name][0] if find_spec(package) is None]
    if missing:
        return f"{missing[0]} is not installed"
    if name == "transformers" and case.kind in SPREADS:
        return "transformers decodes low-bit weights when it loads them"
    if name == "llama.cpp" and case.kind in SPREADS and case.rows != "int8":
        return "llama.cpp rounds rows to int8"
    if name == "openvino-genai" and case.kind in (F32, "BF16"):
        return f"OpenVINO GenAI reads no {case.kind} of GGUF"
    if name == "onnxruntime-genai" and case.kind in ("F16", "BF16"):
        return f"no model of {case.kind} is written for ONNX Runtime GenAI"
    return ""
