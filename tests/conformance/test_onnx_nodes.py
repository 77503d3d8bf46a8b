"""The onnx package's node tests: a case of each operator, and by `make test-all` every case."""

from __future__ import annotations

import pytest

from tests.conformance.onnx_nodes import Outcome, cases, first_of_each, run, without_reason

PARTS = 12  # of all cases, which workers take from each other
# Operators on sequences, strings and trees, or with results of a size that only a run knows.
LIBRARY = (
    "Add ArrayFeatureExtractor Bernoulli Binarizer Compress Identity ImageDecoder LabelEncoder "
    "MaxUnpool MelWeightMatrix NonMaxSuppression NonZero Not Optional OptionalGetElement "
    "OptionalHasElement RandomUniformLike RegexFullMatch SequenceAt SequenceConstruct "
    "SequenceEmpty SequenceInsert SequenceLength Shape SplitToSequence StringConcat "
    "StringNormalizer StringSplit TfIdfVectorizer TreeEnsemble Unique"
)


def checked(names: list[str], part: int) -> list[Outcome]:
    """Run a part of the cases and check that each passes or has a reason not to."""
    chosen = set(names[part::PARTS])
    outcomes = list(run(lambda name: name in chosen))
    assert {o.name for o in outcomes} == chosen
    assert not without_reason(outcomes)
    return outcomes


@pytest.mark.parametrize("part", range(PARTS))
def test_an_operator_gives_what_onnx_says(part: int) -> None:
    names = first_of_each(lambda name: "expanded" not in name)
    assert len(names) >= 209
    for outcome in checked(names, part):
        assert outcome.kind == "refused" or set(LIBRARY.split()).issuperset(outcome.library), (
            outcome
        )


@pytest.mark.few(2)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_function_that_an_operator_expands_to_gives_what_onnx_says(part: int) -> None:
    names = first_of_each(lambda name: "expanded" in name)
    assert len(names) >= 91
    checked(names, part)


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(PARTS))
def test_every_case_gives_what_onnx_says(part: int) -> None:
    names = [str(case.name) for case in cases()]
    assert len(names) >= 1836
    passed = [o for o in checked(names, part) if o.kind == "pass"]
    assert sum(not o.library for o in passed) >= 0.8 * len(passed)
