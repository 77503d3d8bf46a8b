"""`ironworks generate`: a language model continues a text, printed as it comes."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from explorer.cli.arguments import Parser, parse_flags, plugin_flag, settings_flag, threads
from explorer.cli.terminal import print_answer, progress_line, step_progress
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile as compiled
from explorer.errors import BadOption
from explorer.frontends.decoders.language_model import LanguageModel
from explorer.frontends.load import load
from explorer.generation.generate import generate
from explorer.generation.generated import Generated, Token
from explorer.plain_text import shown
from explorer.quantization.round_rows import round_rows
from explorer.tuning import settings
from explorer.views.answer import Answer

ROWS = ("float32", "int8")
STOPPED = 130  # the exit code of a run that the user stopped


def main(argv: Sequence[str]) -> int:
    """Continue a text."""
    parser = Parser(
        "generate",
        "A text continued by a language model, token by token, and its speed. A GGUF file has its "
        "vocabulary; a folder of Hugging Face has it in tokenizer.json.",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="a GGUF file, or a folder of Hugging Face")
    add("--prompt", metavar="TEXT", help="the text to continue")
    add("--ids", metavar="1,15,7", help="the prompt as token ids")
    add("--tokens", type=int, default=128, metavar="N", help="tokens to add, at most (default 128)")
    add("--temperature", type=float, default=0.0, metavar="T", help="0: the best token (default)")
    add("--top-k", type=int, default=0, metavar="K", help="draw from the K likeliest tokens")
    add("--top-p", type=float, default=1.0, metavar="P", help="from the likeliest that sum to P")
    add("--stop", action="append", default=[], metavar="TEXT", help="a text that ends the answer")
    add("--seed", type=int, default=0, metavar="N", help="of the random numbers")
    add(
        "--rows",
        choices=ROWS,
        default=ROWS[0],
        help="the rows of products with weights of few bits: float32, or rounded to int8 "
        "(faster, less exact)",
    )
    add("--threads", type=threads, metavar="N", help="cores to run on (default: all)")
    settings_flag(parser)
    plugin_flag(parser)
    flags = parse_flags(parser, argv)
    generated = _generate(flags, None if flags.json else _print_token)
    code = print_answer(_answer(flags, generated), flags.json)
    return STOPPED if generated.rows[0].stopped == "cancelled" else code


def _generate(flags: Namespace, on_token: Callable[[Token], object] | None) -> Generated:
    """Compile the model and continue the prompt of the flags."""
    prompt = _prompt(flags)
    chosen = settings.apply(Options().entered, flags.settings)
    if flags.threads is not None:
        chosen = replace(chosen, rammer=replace(chosen.rammer, threads=flags.threads))
    with progress_line(f"reading {flags.model}") as say:
        model: Any = load(flags.model)
        if isinstance(model, LanguageModel):
            model = round_rows(model) if flags.rows == "int8" else model
            progress = step_progress(say)
            model = compiled(model, options=chosen, donate=model.caches, progress=progress)
    return generate(
        model,
        prompt,
        flags.tokens,
        temperature=flags.temperature,
        top_k=flags.top_k,
        top_p=flags.top_p,
        stop=flags.stop,
        seed=flags.seed,
        on_token=on_token,
    )


def _prompt(flags: Namespace) -> str | list[int]:
    """Return the prompt as text or token ids; raise BadOption for none or both."""
    if (flags.prompt is None) == (flags.ids is None):
        raise BadOption("generate takes either --prompt TEXT or --ids 1,15,7", where="--prompt")
    if flags.prompt is not None:
        return str(flags.prompt)
    try:
        return [int(n) for n in flags.ids.split(",")]
    except ValueError:
        raise BadOption(
            f"--ids takes whole numbers with commas between, not {flags.ids!r}",
            where="--ids",
            expected="1,15,7",
            actual=flags.ids,
        ) from None


def _print_token(token: Token) -> None:
    """Print a token's text as soon as it is known; control characters are escaped."""
    sys.stdout.write(shown(token.text))
    sys.stdout.flush()


def _answer(flags: Namespace, generated: Generated) -> Answer:
    row = generated.rows[0]
    ids = "" if row.text else f"{' '.join(map(str, row.ids))}\n"
    data = {
        "model": flags.model,
        "prefilled": generated.prefilled,
        "prefill_per_s": generated.prefill_per_second,
        "steps": generated.steps,
        "tokens_per_s": generated.tokens_per_second,
        **asdict(row),
    }
    return Answer(data, f"\n{ids}\n{generated.first_line}")
