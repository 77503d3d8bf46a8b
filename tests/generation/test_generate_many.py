"""Requests that run together against each alone: tokens, texts, rows, chunks, ends and figures."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import explorer
from explorer import Request
from explorer.errors import BadOption
from explorer.frontends.decoders.language_model import LanguageModel
from explorer.generation.generate import PAGE
from explorer.generation.generated import Token
from explorer.generation.generated_many import GeneratedMany, Latency
from tests.frontends.decoders.test_families import FAMILIES, saved
from tests.frontends.decoders.tiny_models import LLAMA, write_folder
from tests.generation.vocabularies import write_tokenizer


def compilation(folder: Path) -> explorer.Compilation:
    model = explorer.load(folder)
    assert isinstance(model, LanguageModel)
    return explorer.compile(model, donate=model.caches)


@pytest.fixture(scope="module")
def c(tmp_path_factory: pytest.TempPathFactory) -> explorer.Compilation:
    folder = write_folder(tmp_path_factory.mktemp("models") / "tiny", {**LLAMA, "vocab_size": 300})
    write_tokenizer(folder)
    return compilation(folder)


def alone(c: explorer.Compilation, request: Request, **more: Any) -> tuple[int, ...]:
    return explorer.generate(
        c,
        request.prompt,
        request.tokens,
        temperature=request.temperature,
        top_k=request.top_k,
        top_p=request.top_p,
        stop=request.stop,
        seed=request.seed,
        **more,
    ).ids


def drawn_requests(rng: np.random.Generator, count: int, **more: Any) -> list[Request]:
    return [
        Request(
            rng.integers(3, 300, int(rng.integers(1, 70))).tolist(),
            int(rng.integers(1, 20)),
            int(rng.integers(0, 30)),
            **{name: draw(rng) for name, draw in more.items()},
        )
        for _ in range(count)
    ]


def check_schedule(got: GeneratedMany, requests: list[Request], most_rows: int) -> None:
    """Check that rows have one request at a time, and that each token is that of a step."""
    owner: dict[int, int] = {}
    for n, request in enumerate(requests):
        steps = [s for s in got.schedule if n in s.requests]
        (row,) = {s.rows[s.requests.index(n)] for s in steps}
        assert 0 <= row < most_rows
        kinds = [s.kind for s in steps]
        reads = kinds.count("prefill")
        assert kinds == ["prefill"] * reads + ["decode"] * (len(kinds) - reads)
        read = sum(s.tokens for s in steps if s.kind == "prefill")
        assert len(request.prompt) <= read < len(request.prompt) + 16
        assert len(got.continuations[n].ids) == 1 + len(kinds) - reads
        assert got.latencies[n].arrival <= got.latencies[n].begin <= steps[0].begin
        for token, step in zip(got.latencies[n].tokens, steps[reads - 1 :], strict=True):
            assert step.end <= token
    last = {n: i for i, s in enumerate(got.schedule) for n in s.requests}
    for i, step in enumerate(got.schedule):
        assert len(set(step.rows)) == len(step.rows) == len(step.requests)
        for row, n in zip(step.rows, step.requests, strict=True):
            before = owner.get(row, n)
            assert before == n or last[before] < i
            owner[row] = n
    for step, after in pairwise(got.schedule):
        assert step.begin < step.end <= after.begin
        if (step.kind, after.kind) == ("prefill", "prefill"):
            assert not decoding(got, after.begin)  # none waits for a second chunk


def decoding(got: GeneratedMany, now: float) -> list[int]:
    """The requests that have a token and wait for the next one."""
    return [n for n, t in enumerate(got.latencies) if t.tokens and t.tokens[0] < now < t.tokens[-1]]


@pytest.mark.parametrize("seed", range(30))
def test_tokens_are_those_of_each_request_alone(c: explorer.Compilation, seed: int) -> None:
    rng = np.random.default_rng(seed)
    requests = drawn_requests(rng, int(rng.integers(2, 9)))
    most_rows = int(rng.integers(1, 6))
    chunk = 16 * int(rng.integers(1, 4))
    got = explorer.generate_many(c, requests, most_rows=most_rows, chunk=chunk, arrivals="steps")
    assert [n.ids for n in got.continuations] == [alone(c, r) for r in requests]
    check_schedule(got, requests, most_rows)
    assert all(s.tokens <= chunk for s in got.schedule)


def test_draws_are_those_of_each_seed_alone(c: explorer.Compilation) -> None:
    more: dict[str, Any] = {
        "temperature": lambda rng: float(rng.choice([0, 0.7, 1.5])),
        "top_k": lambda rng: int(rng.choice([0, 5])),
        "top_p": lambda rng: float(rng.choice([1.0, 0.8])),
        "seed": lambda rng: int(rng.integers(100)),
    }
    requests = drawn_requests(np.random.default_rng(99), 12, **more)
    got = explorer.generate_many(c, requests, most_rows=4, arrivals="steps")
    assert [n.ids for n in got.continuations] == [alone(c, r) for r in requests]
    same = [Request([4, 5], 20, temperature=1.5, seed=seed) for seed in (1, 1, 2)]
    a, b, other = (n.ids for n in explorer.generate_many(c, same).continuations)
    assert a == b != other


def test_a_prompt_twice_is_continued_twice(c: explorer.Compilation) -> None:
    requests = [Request([7, 8, 9], 12), Request([7, 8, 9], 12), Request([7, 8, 9], 5, arrival=3)]
    got = explorer.generate_many(c, requests, arrivals="steps")
    expected = alone(c, requests[0])
    assert [n.ids for n in got.continuations] == [expected, expected, expected[:5]]
    assert {s.rows for s in got.schedule if 2 in s.requests} == {(2,), (0, 1, 2)}


def test_no_requests_have_no_continuations(c: explorer.Compilation) -> None:
    got = explorer.generate_many(c, [])
    assert not (got.continuations or got.latencies or got.schedule)
    assert got.tokens_per_second == got.seconds == 0 and np.isnan(got.between_tokens())
    assert str(got).startswith("0 requests: 0 tokens")


def test_caches_grow_for_a_request_that_is_longer(c: explorer.Compilation) -> None:
    """The caches begin with two pages of tokens; the others' rows are not lost."""
    long = np.random.default_rng(5).integers(3, 300, 200).tolist()
    requests = [Request([5, 6], 60), Request(long, 90, arrival=4), Request([9], 30, arrival=9)]
    got = explorer.generate_many(c, requests, arrivals="steps", chunk=32)
    assert [n.ids for n in got.continuations] == [alone(c, r) for r in requests]
    assert got.room == 5 * PAGE
    short = explorer.generate_many(c, [Request([5, 6], 9)])
    assert short.room == PAGE


def test_a_row_is_free_for_the_next_request(c: explorer.Compilation) -> None:
    requests = [Request([n], 3) for n in range(3, 9)]
    got = explorer.generate_many(c, requests, most_rows=2)
    check_schedule(got, requests, 2)
    begins = [latency.begin for latency in got.latencies]
    ends = sorted(latency.tokens[-1] for latency in got.latencies)
    assert begins == sorted(begins)
    assert all(begin >= end for begin, end in zip(begins[2:], ends, strict=False))


def test_a_step_is_one_launch_over_caches_in_place(c: explorer.Compilation) -> None:
    requests = [Request([3, 4, 5], 9), Request([6] * 40, 9), Request([7], 4)]
    explorer.generate_many(c, requests)
    with explorer.counters.delta() as did:
        got = explorer.generate_many(c, requests)
    assert did.counts.runs == len(got.schedule)
    assert did.counts.arrays_made == did.counts.runs  # the scores alone
    assert did.counts.kernel_compiles == did.counts.pass_runs == 0


def test_caches_that_are_not_donated_are_copied(tmp_path: Path) -> None:
    fresh = explorer.compile(explorer.load(write_folder(tmp_path / "tiny")))
    requests = [Request([3, 4, 5], 9), Request([6] * 20, 9)]
    got = explorer.generate_many(fresh, requests)
    assert [n.ids for n in got.continuations] == [alone(fresh, r) for r in requests]


def test_scores_that_are_no_numbers_stay_in_their_request(tmp_path: Path) -> None:
    """Token 7 has an infinite embedding; the next request of its row is masked from its keys."""
    folder = write_folder(tmp_path / "tiny")
    tensors = load_file(folder / "model.safetensors")
    tensors["model.embed_tokens.weight"][7] = np.inf
    save_file(tensors, folder / "model.safetensors")
    broken = compilation(folder)
    requests = [Request([5, 7, 7, 7], 4), Request([5, 9], 6), Request([3], 6)]
    expected = alone(broken, requests[2])
    got = explorer.generate_many(broken, requests, most_rows=2)
    assert {s.rows for s in got.schedule if s.requests == (2,)} == {(0,)}
    assert [n.ids for n in got.continuations[1:]] == [alone(broken, requests[1]), expected]


def test_tokens_are_reported_as_they_come(c: explorer.Compilation) -> None:
    tokens: list[Token] = []
    requests = [Request([4, 5], 7), Request([6], 5, arrival=2)]
    got = explorer.generate_many(c, requests, on_token=tokens.append, arrivals="steps")
    for n in (0, 1):
        assert tuple(t.id for t in tokens if t.row == n) == got.continuations[n].ids
    assert [t.row for t in tokens[:6]] == [0, 0, 0, 1, 0, 1]


def test_texts_and_stops_are_those_of_each_alone(c: explorer.Compilation) -> None:
    text = explorer.generate(c, "a time", 30).text
    requests = [Request("a time", 30), Request("a time", 30, stop=text[6:9]), Request([5], 3)]
    got = explorer.generate_many(c, requests)
    for request, row in zip(requests, got.continuations, strict=True):
        single = explorer.generate(c, request.prompt, request.tokens, stop=request.stop).rows[0]
        assert row == single
    assert [n.stopped for n in got.continuations] == ["tokens", "stop", "tokens"]


def test_a_cancelled_request_makes_room_for_others(c: explorer.Compilation) -> None:
    tokens: list[int] = []
    requests = [
        Request([4, 5], 100),
        Request([6], 30),
        Request([8], 9),
        Request([9], 9, arrival=50),
    ]
    got = explorer.generate_many(
        c,
        requests,
        most_rows=2,
        on_token=lambda t: tokens.append(t.row),
        cancelled=lambda n: n == 3 or (n == 0 and tokens.count(0) >= 5),
        arrivals="steps",
    )
    assert [n.stopped for n in got.continuations] == ["cancelled", "tokens", "tokens", "cancelled"]
    assert [len(n.ids) for n in got.continuations] == [5, 30, 9, 0]
    expected = [alone(c, r)[: len(n.ids)] for r, n in zip(requests, got.continuations, strict=True)]
    assert [n.ids for n in got.continuations] == expected
    assert {r for s in got.schedule for r, n in zip(s.rows, s.requests, strict=True) if n == 2} == {
        0
    }
    assert np.isnan(got.latencies[3].begin) and np.isnan(got.latencies[3].to_first_token)
    assert max(s.end for s in got.schedule) < 60


def test_ctrl_c_ends_all_with_their_tokens(c: explorer.Compilation) -> None:
    def interrupt(token: Token) -> None:
        if len(seen) == 9:
            raise KeyboardInterrupt
        seen.append(token)

    seen: list[Token] = []
    requests = [Request([4, 5], 100), Request([6], 30)]
    got = explorer.generate_many(c, requests, on_token=interrupt)
    assert sum(len(n.ids) for n in got.continuations) == 10
    for request, row in zip(requests, got.continuations, strict=True):
        assert row.stopped == "cancelled" and row.ids == alone(c, request)[: len(row.ids)]


def test_requests_wait_for_their_seconds(c: explorer.Compilation) -> None:
    requests = [Request([4], 3, arrival=0.2), Request([5], 3)]
    got = explorer.generate_many(c, requests)
    late, early = got.latencies
    assert late.arrival == 0.2 <= late.begin and early.begin < 0.2
    assert [n.ids for n in got.continuations] == [alone(c, r) for r in requests]


def test_figures_are_those_of_the_times() -> None:
    from explorer.generation.generated import Continuation

    latencies = Latency(1.0, 1.5, (2.0, 2.5, 4.0)), Latency(0.5, 0.5, (1.0, 1.25))
    done = [Continuation((1, 2, 3), "", "tokens"), Continuation((1, 2), "", "end")]
    got = GeneratedMany(tuple(done), latencies, (), 64)
    assert [n.to_first_token for n in latencies] == [1.0, 0.5]
    assert latencies[0].between_tokens == (0.5, 1.5)
    assert got.seconds == 3.5 and got.tokens_per_second == 5 / 3.5
    assert got.to_first_token(50) == 0.75 and got.between_tokens(50) == 0.5
    assert got.between_tokens(95) == pytest.approx(np.percentile([0.5, 1.5, 0.25], 95))
    assert "first token after 750.0 ms and 975.0 ms" in got.first_line
    assert (
        str(got)
        .splitlines()[2]
        .endswith("2 tokens, first after 500.0 ms, 250.0 ms and 250.0 ms apart, end: 1 2")
    )


@pytest.mark.parametrize(
    ("request_fields", "options", "words"),
    [
        ({"prompt": []}, {}, r"requests\[1\].*no tokens"),
        ({"prompt": [300]}, {}, r"requests\[1\].*0 to 299"),
        ({"prompt": [[1], [2]]}, {}, "one prompt"),
        ({"tokens": 0}, {}, "tokens"),
        ({"arrival": -1.0}, {}, "arrival"),
        ({"arrival": float("nan")}, {}, "arrival"),
        ({"top_p": 2.0}, {}, "top_p"),
        ({}, {"most_rows": 0}, "1 to 16"),
        ({}, {"most_rows": 17}, "1 to 16"),
        ({}, {"chunk": 24}, "multiple of 16"),
        ({}, {"chunk": 0}, "multiple of 16"),
        ({}, {"arrivals": "hours"}, "seconds"),
    ],
)
def test_wrong_arguments_are_named(
    c: explorer.Compilation, request_fields: dict[str, Any], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadOption, match=words):
        requests = [Request([1]), Request(**{"prompt": [1], **request_fields})]
        explorer.generate_many(c, requests, **options)


def test_learned_positions_end(tmp_path: Path) -> None:
    saved(tmp_path, *FAMILIES["gpt-2"])
    with pytest.raises(BadOption, match=r"requests\[0\].*64 positions"):
        explorer.generate_many(tmp_path, [Request([1] * 10, 55)])
