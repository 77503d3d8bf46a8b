"""Generation against transformers' greedy search, and its ends, stops, rows and interruptions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import cli
from explorer.errors import BadModelFile, BadOption
from explorer.frontends.decoders.language_model import LanguageModel
from explorer.generation.decode_loop import LOOP_STEPS
from explorer.generation.generate import PAGE
from explorer.generation.generated import Token
from tests.frontends.decoders.test_families import FAMILIES, saved
from tests.frontends.decoders.test_vocabulary import byte_fields
from tests.frontends.decoders.tiny_models import LLAMA, write_folder
from tests.generation.vocabularies import write_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("models") / "tiny", {**LLAMA, "vocab_size": 300})


@pytest.fixture(scope="module")
def compiled(folder: Path) -> explorer.Compilation:
    model = explorer.load(folder)
    assert isinstance(model, LanguageModel)
    return explorer.compile(model, donate=model.caches)


@pytest.mark.parametrize("name", ["llama", "gemma 2", "qwen3", "gpt-2", "phi-3"])
def test_greedy_words_are_those_of_transformers(tmp_path: Path, name: str) -> None:
    reference = saved(tmp_path, *FAMILIES[name])
    torch = pytest.importorskip("torch")
    prompts = [[5, 9, 22, 7, 30, 11, 4], [3], [8, 8, 8]]
    tokens = 50  # of 64 positions
    got = explorer.generate(tmp_path, prompts, tokens)
    for prompt, row in zip(prompts, got.rows, strict=True):
        with torch.no_grad():
            ids = torch.tensor([prompt])
            out = reference.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False
            )
        assert list(row.ids) == out[0][len(prompt) :].tolist()
        assert row.stopped == ("end" if row.ids[-1] == 2 else "tokens")


def test_a_row_is_the_same_alone_and_among_sixteen(compiled: explorer.Compilation) -> None:
    rng = np.random.default_rng(0)
    prompts = [rng.integers(3, 300, k).tolist() for k in (1, 2, 3, 15, 16, 17, 31, 40) * 2]
    together = explorer.generate(compiled, prompts, 8)
    assert len(together.rows) == 16 and together.prefilled == sum(map(len, prompts))
    for n in (0, 3, 7):
        assert explorer.generate(compiled, prompts[n], 8).ids == together.rows[n].ids


def test_long_prompts_are_read_in_parts(compiled: explorer.Compilation) -> None:
    prompt = np.random.default_rng(1).integers(3, 300, 300).tolist()
    with explorer.counters.delta() as did:
        got = explorer.generate(compiled, [prompt, prompt[:5]], 20)
    assert did.counts.runs == 2 + got.steps
    assert explorer.generate(compiled, prompt[:5], 20).ids == got.rows[1].ids
    after = explorer.generate(compiled, prompt + list(got.ids[:10]), 10)
    assert after.ids == got.ids[10:]


def test_caches_grow_by_pages(compiled: explorer.Compilation) -> None:
    """A short prompt begins with two pages and needs four; words do not depend on them."""
    got = explorer.generate(compiled, [5, 6, 7], 250)
    assert got.room == 4 * PAGE
    after = explorer.generate(compiled, [5, 6, 7, *got.ids[:200]], 50)
    assert after.ids == got.ids[200:]


def test_a_step_is_one_launch_over_caches_in_place(compiled: explorer.Compilation) -> None:
    explorer.generate(compiled, [1, 2, 3], 40)
    with explorer.counters.delta() as did:
        got = explorer.generate(compiled, [1, 2, 3], 40)
    assert got.steps == 39
    assert did.counts.runs == 1 + got.steps
    assert did.counts.arrays_made == did.counts.runs  # the scores alone
    assert did.counts.kernel_compiles == did.counts.pass_runs == 0
    assert did.counts.interpreted_kernels == did.counts.library_calls == 0


@pytest.mark.parametrize("name", ["llama", "gemma 2", "gpt-2"])
def test_a_loop_has_the_tokens_of_its_steps(tmp_path: Path, name: str) -> None:
    """GPT-2 has 64 positions: the last launch may not go on to the next ones."""
    saved(tmp_path, *FAMILIES[name])
    prompts = [[5, 9, 22, 7, 30, 11, 4], [3]]
    model = explorer.compile(explorer.load(tmp_path))
    looped = explorer.generate(model, prompts, 57, loop=True)
    assert looped.rows == explorer.generate(model, prompts, 57).rows


def test_a_loop_is_one_launch_for_many_tokens(compiled: explorer.Compilation) -> None:
    """The caches grow between launches, and a text ends within one."""
    steps = explorer.generate(compiled, [1, 2, 3], 150)
    with explorer.counters.delta() as did:
        got = explorer.generate(compiled, [1, 2, 3], 150, loop=True)
    assert got.rows == steps.rows and got.steps == 149 and got.room == steps.room
    assert did.counts.runs == 1 + -(-149 // LOOP_STEPS)
    assert explorer.generate(compiled, [1, 2, 3], 1, loop=True).ids == steps.ids[:1]
    tokens: list[Token] = []
    few = explorer.generate(
        compiled,
        [1, 2, 3],
        99,
        loop=True,
        on_token=tokens.append,
        cancelled=lambda: len(tokens) > 5,
    )
    assert few.ids == steps.ids[: 1 + LOOP_STEPS] and few.rows[0].stopped == "cancelled"


def test_a_loop_of_low_bit_weights_and_its_stops(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny", {**LLAMA, "vocab_size": 300})
    write_tokenizer(folder)
    low = explorer.compile(explorer.quantize(explorer.load(folder), "int4", block=16))
    text = explorer.generate(low, "a time", 30).text
    steps, looped = (
        explorer.generate(low, ["a time", "once"], 30, stop=text[6:9], loop=loop)
        for loop in (False, True)
    )
    assert looped.rows == steps.rows and looped.rows[0].stopped == "stop"


def test_draws_depend_on_the_seed_alone(compiled: explorer.Compilation) -> None:
    a, b, c = (
        explorer.generate(compiled, [4, 5], 20, temperature=1.5, seed=seed).ids
        for seed in (1, 1, 2)
    )
    assert a == b != c
    best = explorer.generate(compiled, [4, 5], 20)
    assert explorer.generate(compiled, [4, 5], 20, temperature=1.0, top_k=1).ids == best.ids


def test_tokens_are_reported_as_they_come(compiled: explorer.Compilation) -> None:
    tokens: list[Token] = []
    got = explorer.generate(compiled, [[4, 5], [6]], 7, on_token=tokens.append)
    for row in (0, 1):
        assert tuple(t.id for t in tokens if t.row == row) == got.rows[row].ids
    assert [t.row for t in tokens[:4]] == [0, 1, 0, 1]


def test_a_cancelled_run_keeps_its_words(compiled: explorer.Compilation) -> None:
    tokens: list[Token] = []
    got = explorer.generate(
        compiled, [4, 5], 100, on_token=tokens.append, cancelled=lambda: len(tokens) >= 5
    )
    assert len(got.ids) == 5 and got.rows[0].stopped == "cancelled"
    assert got.ids == explorer.generate(compiled, [4, 5], 5).ids
    before = explorer.generate(compiled, [4, 5], 9, cancelled=lambda: True)
    assert before.ids == () and before.rows[0].stopped == "cancelled"


def test_ctrl_c_keeps_the_words(compiled: explorer.Compilation) -> None:
    def interrupt(token: Token) -> None:
        if token.id == expected[3]:
            raise KeyboardInterrupt

    expected = explorer.generate(compiled, [9], 6).ids
    got = explorer.generate(compiled, [9], 100, on_token=interrupt)
    assert got.rows[0].stopped == "cancelled"
    assert got.ids == expected[: expected.index(expected[3]) + 1]


def test_texts_are_words_and_stop_words_end_them(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny", {**LLAMA, "vocab_size": 300})
    tokenizer = write_tokenizer(folder)
    model = explorer.load(folder)
    assert isinstance(model, LanguageModel)
    c = explorer.compile(model, donate=model.caches)
    prompt = "once upon a time"
    pieces: list[str] = []
    got = explorer.generate(c, prompt, 30, on_token=lambda t: pieces.append(t.text))
    ids = tokenizer.encode(prompt).ids
    assert got.prefilled == len(ids) and got.ids == explorer.generate(c, ids, 30).ids
    assert got.text == "".join(pieces)
    assert got.text.rstrip("\ufffd") == tokenizer.decode(list(got.ids)).rstrip("\ufffd")
    stop = got.text[6:9]
    shown: list[str] = []
    ended = explorer.generate(c, prompt, 30, stop=stop, on_token=lambda t: shown.append(t.text))
    assert ended.rows[0].stopped == "stop" and stop not in ended.text
    assert ended.text == "".join(shown) == got.text[: got.text.index(stop)]
    assert str(ended).startswith("1 row: ")


def test_a_gguf_file_has_its_own_words(tmp_path: Path) -> None:
    gguf_tests = pytest.importorskip("tests.frontends.decoders.test_gguf")
    values = {**FAMILIES["llama"][1], "vocab_size": 300}
    saved(tmp_path, "LlamaConfig", values)
    tokenizer = write_tokenizer(tmp_path)
    fields = {n: v for n, v in byte_fields(tokenizer).items() if not isinstance(v, np.ndarray)}
    path = gguf_tests.write_gguf(tmp_path / "model.gguf", tmp_path, None, fields)
    ours, folder = (explorer.generate(p, ["a time", "once"], 12) for p in (path, tmp_path))
    assert [r.ids for r in ours.rows] == [r.ids for r in folder.rows]
    assert [r.text for r in ours.rows] == [r.text for r in folder.rows]


@pytest.mark.parametrize(
    ("prompt", "options", "words"),
    [
        ([], {}, "no tokens"),
        ([[1], []], {}, "no tokens"),
        ([300], {}, "0 to 299"),
        ([-1], {}, "0 to 299"),
        ([[1]] * 17, {}, "1 to 16"),
        ([1], {"tokens": 0}, "tokens"),
        ([1], {"tokens": 1.5}, "tokens"),
        ([1], {"top_p": 2.0}, "top_p"),
        ([1], {"loop": True, "temperature": 0.5}, "temperature must be 0"),
    ],
)
def test_wrong_arguments_are_named(
    compiled: explorer.Compilation, prompt: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadOption, match=words):
        explorer.generate(compiled, prompt, **options)


def test_texts_without_a_vocabulary_and_models_without_words_are_refused(folder: Path) -> None:
    with pytest.raises(BadModelFile, match=r"tokenizer\.json"):
        explorer.generate(folder, "text")
    with pytest.raises(BadOption, match="no language model"):
        explorer.generate("zoo:small_llama", [1])


def test_learned_positions_end(tmp_path: Path) -> None:
    saved(tmp_path, *FAMILIES["gpt-2"])
    with pytest.raises(BadOption, match="64 positions"):
        explorer.generate(tmp_path, [1] * 10, 55)
    assert len(explorer.generate(tmp_path, [7] * 62, 2).ids) <= 2


def test_the_command_prints_words_as_they_come(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_folder(tmp_path / "tiny", {**LLAMA, "vocab_size": 300})
    write_tokenizer(folder)
    expected = explorer.generate(folder, "a time", 12)
    words = ["generate", str(folder), "--tokens", "12"]
    assert cli.main([*words, "--prompt", "a time"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(expected.text[:3]) and "tokens/s" in out
    assert cli.main([*words, "--prompt", "a time", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert tuple(answer["ids"]) == expected.ids and answer["text"] == expected.text
    assert cli.main([*words, "--ids", "5,6", "--threads", "1"]) == 0
    assert "1 row: 2 tokens" in capsys.readouterr().out
    for wrong in (["--ids", "5,x"], [], ["--ids", "5", "--prompt", "x"], ["--ids", "999"]):
        assert cli.main([*words, *wrong]) == 2


@pytest.mark.parametrize("is_stored", [False, True])
def test_the_plans_of_a_model_share_their_folded_weights(tmp_path: Path, is_stored: bool) -> None:
    """Each transposed matrix was there once for the prefill and once for a step.

    The second compilation finds its plans in the cache. No other test has compiled these models.
    """
    folder = write_folder(tmp_path, {**LLAMA, "vocab_size": 311 + is_stored})
    model = explorer.load(folder)
    compiled = explorer.compile(model)
    plans = [compiled.planned_for({"n": n, "room": 64}) for n in (1, 64)]
    if is_stored:
        again = explorer.compile(explorer.load(folder))
        plans = [again.planned_for({"n": n, "room": 64}) for n in (1, 64)]
    one, other = ({id(c): c.nbytes for c in plan.program.constants.values()} for plan in plans)
    shared = sum(size for key, size in one.items() if key in other)
    assert shared > 0.9 * sum(one.values())
