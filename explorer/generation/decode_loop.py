"""Greedy decoding as a loop of the program: one launch adds many tokens to each row."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from explorer.compiler.compilation import Compilation
from explorer.compiler.pipeline import compile as compiled
from explorer.frontends.decoders.language_model import LanguageModel
from explorer.frontends.decoders.step_program import step_inputs
from explorer.frontends.model import Model
from explorer.frontends.python import arrays as xp
from explorer.frontends.python.functions import inline_program
from explorer.frontends.python.trace import Traced
from explorer.frontends.python.tracing.annotations import tensor
from explorer.frontends.python.tracing.control_flow import while_loop
from explorer.frontends.python.tracing.emit import traced
from explorer.transforms.simplify.substitution import bind_symbols

LOOP_STEPS = 32  # of a launch, at most: tokens are reported this many at a time; chosen

_plans: WeakKeyDictionary[Compilation, dict[int, Compilation]] = WeakKeyDictionary()


def loop_plan(c: Compilation, language: LanguageModel, batch: int, room: int) -> Compilation:
    """Return the loop of a compiled step, with tiles for so many rows, made once."""
    plans = _plans.setdefault(c, {})
    if batch not in plans:
        loop = compiled(
            decode_loop(language), target=c.device, options=c.options, donate=language.caches
        )
        plans[batch] = loop.planned_for({"batch": batch, "room": room})
    return plans[batch]


def decode_loop(language: LanguageModel) -> Model:
    """Return the model that repeats a step `steps` times, each with the best token of the last.

    It takes `ids` and `at`, int64[batch], the caches and `steps`, and returns the new `tokens`,
    int64[batch, 32], of which the first `steps` are filled, and the caches.
    """
    assert language.config is not None, "every language model has a description"
    step, layers = bind_symbols(language.program, {"n": 1}), len(language.config.layers)

    def greedy_loop(ids: Any, at: Any, keys: Any, values: Any, steps: Any) -> dict[str, Any]:
        def add_tokens(i: Any, ids: Any, at: Any, keys: Any, values: Any, tokens: Any) -> Any:
            args = [traced(a) for a in (ids[:, None], at, *keys, *values)]
            scores, *caches = inline_program(step, args)
            best = xp.argmax(scores, axis=1)
            tokens[:, i] = best
            return i + 1, best, at + 1, caches[:layers], caches[layers:], tokens

        tokens = xp.zeros((ids.shape[0], LOOP_STEPS), "int64")
        first = xp.asarray(0, "int64")
        *_, keys, values, tokens = while_loop(
            lambda i, *_: i < steps, add_tokens, first, ids, at, keys, values, tokens
        )
        return {"tokens": tokens, "keys": keys, "values": values}

    inputs = step_inputs(language.config)
    inputs |= {"ids": tensor("int64", "batch"), "steps": tensor("int64")}
    return Traced(greedy_loop).model(inputs, None)
