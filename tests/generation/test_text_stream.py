"""Text of words as they arrive: partial characters and possible stop words wait."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pytest

from explorer.frontends.decoders.vocabulary import Vocabulary
from explorer.generation.text_stream import TextStream


class Bytes(Vocabulary):
    """A vocabulary of bytes."""

    def __init__(self) -> None:
        pass

    def decode(self, words: Sequence[int]) -> str:
        return bytes(words).decode(errors="replace")


def pieces(text: str, *stops: str) -> tuple[list[str], TextStream]:
    stream = TextStream(Bytes(), stops)
    shown = []
    for word in text.encode():
        shown.append(stream.add(word))
        if stream.is_stopped:
            break
    shown.append(stream.finish())
    return shown, stream


@pytest.mark.parametrize("text", ["plain", "wörter €5", "🙂🙂", "e\u0301"])
def test_characters_appear_whole(text: str) -> None:
    shown, stream = pieces(text)
    assert "".join(shown) == stream.text == text
    assert not any("\ufffd" in piece for piece in shown)


def test_a_possible_stop_word_waits() -> None:
    shown, stream = pieces("a STO b STOP c", "STOP")
    assert "".join(shown) == stream.text == "a STO b " and stream.is_stopped
    for so_far in accumulate(shown):
        assert not so_far.endswith("S")


def test_the_first_of_several_stop_words_ends_the_text() -> None:
    assert pieces("abcdef", "ef", "cd")[1].text == "ab"
    assert pieces("abcdef", "abcdef")[1].text == ""
    assert pieces("aab", "ab")[1].text == "a"


def test_a_stop_word_that_does_not_come_is_shown_at_the_end() -> None:
    shown, stream = pieces("the STO", "STOP")
    assert "".join(shown) == "the STO" and not stream.is_stopped


def test_words_without_a_vocabulary_have_no_text() -> None:
    stream = TextStream(None, ())
    assert stream.add(5) == "" and stream.ids == [5] and stream.finish() == ""
