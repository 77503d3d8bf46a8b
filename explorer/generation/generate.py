"""Run a language model: a prefill over the prompts, then a step for each next token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from time import perf_counter
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile as compiled
from explorer.errors import BadOption
from explorer.frontends.decoders.decoder_config import DecoderConfig
from explorer.frontends.decoders.language_model import LanguageModel
from explorer.frontends.decoders.vocabulary import Vocabulary
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.generation.decode_loop import LOOP_STEPS, loop_plan
from explorer.generation.generated import Continuation, Generated, Stopped, Token
from explorer.generation.sampling import Sampling
from explorer.generation.text_stream import TextStream
from explorer.process.budget import budget

PAGE = 64  # rows by which a cache grows, at least
CHUNK = 256  # tokens of a prompt that a run of the prefill reads, at most; chosen
LEAST_CHUNK = 16
MOST_ROWS = 16  # prompts at once
BUDGET_PARTS = 2  # at most half of the memory budget holds weights twice; chosen
PREFILL: Final = "prefill"
DECODE: Final = "decode"

_plans: WeakKeyDictionary[Compilation, dict[tuple[str, int], Compilation]] = WeakKeyDictionary()


def generate(
    model: str | PathLike[str] | LanguageModel | Compilation,
    prompt: Any,
    tokens: int = 128,
    *,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    stop: str | Sequence[str] = (),
    seed: int = 0,
    loop: bool = False,
    on_token: Callable[[Token], object] | None = None,
    options: Options | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Generated:
    """Continue a prompt, or up to 16 prompts together, by `tokens` tokens at most.

    Args:
        model: A GGUF file, a folder of Hugging Face, a model that `explorer.load` returned for one,
            or its compilation. Compile with `donate=model.caches` to keep the caches in place.
        prompt: A text, a list of token ids, or a list of either.
        tokens: The most tokens to add.
        temperature: Divides the scores before a token is drawn; 0 takes the best token.
        top_k: Draw from so many likeliest tokens; 0: from all.
        top_p: Draw from the likeliest tokens whose probabilities sum to this.
        stop: Texts that end a row; its text ends before them.
        seed: Of the random numbers.
        loop: Decode up to 32 tokens in one launch, with the best token taken on the device. They
            are reported together, and those after the end of a text are computed in vain.
        on_token: Called with each `Token` as soon as it is known.
        options: The options to compile with.
        progress: Called as `progress(step, done, steps)` while the model is compiled.
        cancelled: Asked before each step. If it returns True, or Ctrl-C is pressed, the tokens so
            far are returned.

    Returns:
        The continuations and their speed.

    Raises:
        BadModelFile, BadOption, TooLarge: The file, the prompt or an option is wrong.
    """
    sampling = Sampling(temperature, top_k, top_p, seed)
    if type(tokens) is not int or tokens < 1:
        raise BadOption(f"tokens must be a whole number, 1 or more, found {tokens!r}")
    if loop and temperature:
        raise BadOption("loop=True takes the best token, so temperature must be 0", where="loop")
    c, language = language_compilation(model, options, progress, cancelled)
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    vocabulary = open_vocabulary(language, prompt, stops)
    rows = prompt_tokens(prompt, language, vocabulary)
    check_length(language, max(map(len, rows)) + tokens)
    streams = [TextStream(vocabulary, stops) for _ in rows]
    run = _Run(c, language, rows, tokens, sampling, loop)
    stopped: list[Stopped | None] = [None] * len(rows)
    try:
        for drawn in run.drawn_ids(cancelled or _never):
            for row, token_id in enumerate(drawn.tolist()):
                if stopped[row] is None:
                    stopped[row] = take_token(
                        streams[row], row, token_id, tokens, language, on_token
                    )
            if all(stopped):
                break
    except KeyboardInterrupt:
        pass
    return run.result(
        Continuation(tuple(s.ids), s.text, reason or "cancelled")
        for s, reason in zip(streams, stopped, strict=True)
    )


def take_token(
    stream: TextStream,
    row: int,
    token_id: int,
    tokens: int,
    language: LanguageModel,
    on_token: Callable[[Token], object] | None,
) -> Stopped | None:
    """Add a token to a row, report it, and return why the row ends, if it does."""
    text = stream.add(token_id)
    reason: Stopped | None = None
    if token_id in language.ends:
        reason = "end"
    elif stream.is_stopped:
        reason = "stop"
    elif len(stream.ids) == tokens:
        reason = "tokens"
    if reason:
        text += stream.finish()
    if on_token is not None:
        on_token(Token(row, token_id, text))
    return reason


class _Run:
    """The caches, the positions and the clock of a generation."""

    def __init__(
        self,
        c: Compilation,
        language: LanguageModel,
        prompts: Sequence[Sequence[int]],
        tokens: int,
        sampling: Sampling,
        loop: bool,
    ) -> None:
        self.c, self.language, self.prompts, self.sampling = c, language, prompts, sampling
        self.loop, self.left = loop, tokens - 1  # steps that are left
        self.config = decoder_config(language)
        self.names = language.caches
        longest = max(map(len, prompts))
        self.chunk = min(CHUNK, max(LEAST_CHUNK, 1 << (longest - 1).bit_length()))
        self.count = round_up(longest, self.chunk)
        self.most = round_up(max(longest + tokens, self.count), PAGE)  # rows that may be needed
        self.room = min(round_up(self.count + PAGE, PAGE), self.most)
        shape = (len(prompts), self.config.groups, self.room, self.config.each)
        self.caches = {n: np.zeros(shape, np.float32) for n in self.names}
        self.at = np.array([len(p) - self.count for p in prompts])
        self.steps, self.prefill_seconds, self.decode_seconds = 0, 0.0, 0.0

    def drawn_ids(self, cancelled: Callable[[], bool]) -> Iterator[np.ndarray]:
        """Yield the next token of each row, int64[batch], until the user stops."""
        random = np.random.default_rng(self.sampling.seed)
        ids = np.zeros((len(self.prompts), self.count), np.int64)
        for row, prompt in zip(ids, self.prompts, strict=True):
            row[self.count - len(prompt) :] = prompt
        for first in range(0, self.count, self.chunk):
            if cancelled():
                return
            scores = self._step(PREFILL, ids[:, first : first + self.chunk])
        drawn = self.sampling.draw(scores, random)
        yield drawn
        while not cancelled():
            if self.loop:
                tokens = self._loop(drawn)
                yield from tokens
                drawn = tokens[-1]
            else:
                drawn = self.sampling.draw(self._step(DECODE, drawn[:, None]), random)
                yield drawn

    def _step(self, kind: str, ids: np.ndarray) -> np.ndarray:
        """Run the program on more tokens of each row and return the scores after the last one."""
        count = ids.shape[1]
        self._make_room(count)
        plan = plan_for(self.c, kind, len(ids), count, self.room)
        outputs, seconds = self._launch(plan, {"ids": ids}, count)
        if kind == PREFILL:
            self.prefill_seconds += seconds
        else:
            self.steps, self.decode_seconds = self.steps + 1, self.decode_seconds + seconds
        return outputs["scores"]

    def _loop(self, ids: np.ndarray) -> np.ndarray:
        """Run many steps in one launch and return the tokens of each, int64[steps, batch]."""
        count = min(LOOP_STEPS, self.left)
        self._make_room(count)
        plan = loop_plan(self.c, self.language, len(ids), self.room)
        outputs, seconds = self._launch(plan, {"ids": ids, "steps": np.array(count)}, count)
        self.steps, self.decode_seconds = self.steps + count, self.decode_seconds + seconds
        self.left -= count
        return outputs["tokens"][:, :count].T

    def _launch(
        self, plan: Compilation, more: dict[str, np.ndarray], count: int
    ) -> tuple[dict[str, np.ndarray], float]:
        """Run a program that adds so many tokens to the caches; return its outputs and seconds."""
        inputs = {**more, "at": self.at, **self.caches}
        plan.runnable.bind(inputs)  # so that times are of runs
        begin = perf_counter()
        outputs = plan.run(inputs)
        seconds = perf_counter() - begin
        self.caches = {n: outputs[n] for n in self.names}
        self.at = self.at + count
        return outputs, seconds

    def _make_room(self, count: int) -> None:
        """Grow the caches if so many more tokens need it."""
        if self.at.max() + count > self.room:
            self._grow()

    def _grow(self) -> None:
        """Double the caches' rows, in pages, up to what may be needed."""
        self.room = min(round_up(2 * self.room, PAGE), self.most)
        for name, cache in self.caches.items():
            self.caches[name] = lengthened(cache, self.room)

    def result(self, rows: Iterator[Continuation]) -> Generated:
        """Return the continuations with the times."""
        return Generated(
            tuple(rows),
            sum(map(len, self.prompts)),
            self.steps,
            self.prefill_seconds,
            self.decode_seconds,
            self.room,
        )


def lengthened(cache: np.ndarray, room: int) -> np.ndarray:
    """Return a cache with room for so many tokens."""
    longer = np.zeros((*cache.shape[:2], room, cache.shape[3]), np.float32)
    longer[:, :, : cache.shape[2]] = cache
    return longer


def round_up(count: int, unit: int) -> int:
    """Round up to a multiple."""
    return -(-count // unit) * unit


def _never() -> bool:
    return False


def plan_for(c: Compilation, kind: str, batch: int, count: int, room: int) -> Compilation:
    """Return the program with tiles for a prefill or a step of so many rows, made once.

    Each has the weights in a layout of its own. Where both take more than their share of the
    memory budget, the program of a step reads the prompts too.
    """
    plans = _plans.setdefault(c, {})
    weights = sum(constant.nbytes for constant in c.model.program.constants.values())
    if 2 * weights > budget() // BUDGET_PARTS:
        kind, count = DECODE, 1
    if (kind, batch) not in plans:
        plans[kind, batch] = c.planned_for({"batch": batch, "n": count, "room": room})
    return plans[kind, batch]


def decoder_config(language: LanguageModel) -> DecoderConfig:
    """Return a language model's description."""
    assert language.config is not None, "every language model has a description"
    return language.config


def language_compilation(
    model: Any,
    options: Options | None,
    progress: Callable[[str, int, int], None] | None,
    cancelled: Callable[[], bool] | None,
) -> tuple[Compilation, LanguageModel]:
    """Return the compilation and its model; raise BadOption if it is no language model."""
    source = as_language_model(model.model if isinstance(model, Compilation) else load(model))
    if not isinstance(model, Compilation):
        donated = source.caches
        c = compiled(
            source, options=options, donate=donated, progress=progress, cancelled=cancelled
        )
        return c, source
    if options is not None:
        raise BadOption("options are given where a model is compiled first", where="options")
    return model, source


def as_language_model(model: Model) -> LanguageModel:
    """Return the model itself; raise BadOption if it is no language model."""
    if not isinstance(model, LanguageModel):
        raise BadOption(
            f"{model.name} is no language model, so it continues no text",
            where="model",
            expected="a GGUF file or a folder of Hugging Face",
            try_='explorer.generate("model.gguf", "Once upon a time")',
        )
    return model


def open_vocabulary(
    language: LanguageModel, prompt: Any, stops: Sequence[str]
) -> Vocabulary | None:
    """Return the vocabulary, if texts are among the arguments or it is there."""
    needed = bool(stops) or isinstance(prompt, str)
    needed = needed or any(isinstance(p, str) for p in prompt)
    if not needed:
        return None
    if language.vocabulary is None:
        raise BadOption(f"{language.name} has no vocabulary", try_="a prompt of token ids")
    return language.vocabulary.open()


def prompt_tokens(
    prompt: Any, language: LanguageModel, vocabulary: Vocabulary | None
) -> list[list[int]]:
    """Return the tokens of each prompt."""
    is_single = isinstance(prompt, str) or all(isinstance(p, (int, np.integer)) for p in prompt)
    rows = [
        vocabulary.encode(p) if isinstance(p, str) and vocabulary else [int(n) for n in p]
        for p in ([prompt] if is_single else list(prompt))
    ]
    if not 1 <= len(rows) <= MOST_ROWS:
        raise BadOption(f"{len(rows)} prompts are given; 1 to {MOST_ROWS} run together")
    size = decoder_config(language).vocabulary
    for row in rows:
        if not row:
            raise BadOption(
                "a prompt has no tokens", where="prompt", try_="the token that begins a text"
            )
        if not all(0 <= n < size for n in row):
            raise BadOption(
                f"a prompt has a token id outside of the vocabulary, 0 to {size - 1}",
                where="prompt",
            )
    return rows


def check_length(language: LanguageModel, count: int) -> None:
    """Raise BadOption if learned positions end before the text does."""
    most = decoder_config(language).positions
    if most and count > most:
        raise BadOption(
            f"{language.name} has {most} positions, and prompt and answer take {count}",
            where="tokens",
            expected=f"at most {most} together",
        )
