"""Is a graph compiled right? Ours, our interpreter and onnxruntime are held against each other."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

import explorer
from explorer.compiler.compilation import Compilation
from explorer.errors import BoundError, IronworksError, ShapeError, UnsupportedOperator
from explorer.frontends.model import Model
from explorer.ops.interpreter.evaluate import evaluate
from tests.fuzz.blame import nodes_seen_otherwise
from tests.fuzz.compare import compare
from tests.fuzz.exact import Bound, bounds
from tests.fuzz.oracle import NoAnswer, Oracle
from tests.fuzz.settings import PLAIN, Setting
from tests.strategies.onnx.symbolic import with_dims

Arrays = Mapping[str, np.ndarray]
Bounds = dict[str, Bound]
LONGEST_SENTENCE = 1500


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong: `kind` is "wrong", "internal", "refused" or "memory", or "oracle" where
    others see an operator otherwise; `at` is the step, operator or line that is blamed.
    """

    kind: str
    at: str
    story: str
    setting: str = ""


def crash(problem: BaseException, setting: str = "") -> Failure:
    """An exception as a failure: ours is a refusal, any other is internal."""
    frames = traceback.extract_tb(problem.__traceback__)
    ours = [f for f in frames if "explorer" in f.filename]
    ours = ours or [f for f in frames if "tests" in f.filename] or frames
    at = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else "?"
    kind = "refused" if isinstance(problem, IronworksError) else "internal"
    if isinstance(problem, MemoryError):
        kind = "memory"
    name = type(problem).__name__
    return Failure(kind, f"{name} at {at}", f"{name}: {problem}"[:600], setting)


def sentence_judged(error: IronworksError) -> list[Failure]:
    """An error is one printable sentence of bounded length."""
    said = str(error)
    if not said.strip() or len(said) > LONGEST_SENTENCE:
        return [Failure("sentence", type(error).__name__, f"{len(said)} characters: {said[:80]!r}")]
    if not said.isprintable():
        return [Failure("sentence", type(error).__name__, f"not printable: {said[:200]!r}")]
    return []


@dataclass
class Verdict:
    """Everything that was found about one model."""

    failures: list[Failure]
    unsupported: str = ""
    judged_by: str = ""


def typed(model: Model) -> Compilation:
    """The program as it was imported, with shapes."""
    return explorer.compile(model, until="typed", target=PLAIN.device)


def judge(
    path: Path, feeds: Sequence[Arrays], settings: Sequence[Setting], blames: bool = True
) -> Verdict:
    """Compile and run a model by every setting and compare all that can be compared. `blames`: the
    operator is looked for where the oracle sees something else than the interpreter, in files.
    """
    try:
        model = explorer.load(path)
        program = typed(model).snapshot("infer shapes").after
    except UnsupportedOperator as problem:
        return Verdict([], unsupported=str(problem))
    except Exception as problem:
        return refusal_judged(crash(problem), Oracle(onnx.load(path)), feeds)
    proto = onnx.load(path)
    oracle = Oracle(proto)
    verdict = Verdict([])
    known: list[Bounds | None] = []
    for given in feeds:
        try:
            answers = oracle(given)
            verdict.judged_by = oracle.by
        except NoAnswer:
            answers = {}
        try:
            right: Bounds | None = bounds(program, given)
        except (BoundError, UnsupportedOperator):  # no extent of 0, or no form of the reference
            right = None
        except Exception as problem:
            right = None
            if answers and not refused_alike(problem, proto, given, path):
                verdict.failures.append(crash(problem))
        known.append(right)
        if right is None or not answers:
            continue
        wrong = compare(answers, right)
        if wrong and blames and oracle.by == "onnxruntime":
            seen = nodes_seen_otherwise(proto, given, wrong)
            verdict.failures += [Failure("oracle", at, story) for at, story in seen]
    for setting in settings:
        verdict.failures += judged(model, setting, feeds, known)
    return verdict


def refused_alike(problem: Exception, proto: onnx.ModelProto, given: Arrays, path: Path) -> bool:
    """Return True if the model with numbers for its symbols is refused, too, or where a symbol of 1
    meets another extent: it is held against that, where a number is stretched.
    """
    if not isinstance(problem, IronworksError) or not any(
        d.dim_param for v in proto.graph.input for d in v.type.tensor_type.shape.dim
    ):
        return False
    if isinstance(problem, ShapeError) and any(1 in a.shape for a in given.values()):
        return True
    numbers = path.with_name("numbers.onnx")
    onnx.save(with_dims(proto, {name: a.shape for name, a in given.items()}), numbers)
    try:
        evaluate(typed(explorer.load(numbers)).program, given)
    except IronworksError:
        return True
    return False


def refusal_judged(failure: Failure, oracle: Oracle, feeds: Sequence[Arrays]) -> Verdict:
    """A model that is refused: rightly where nobody else answers it either."""
    for given in feeds:
        try:
            oracle(given)
        except NoAnswer:
            continue
        return Verdict([failure], judged_by=oracle.by)
    return Verdict([failure] if failure.kind != "refused" else [])


def judged(
    model: Model,
    setting: Setting,
    feeds: Sequence[Arrays],
    known: Sequence[Bounds | None],
) -> list[Failure]:
    """What is wrong with a model by one setting: its steps, then its answers."""
    try:
        c = explorer.compile(
            model,
            setting.device,
            setting.options,
            until=setting.until,
            check=setting.name == PLAIN.name,
        )
    except UnsupportedOperator:
        return []
    except Exception as problem:
        return [crash(problem, setting.name)]
    failures = [
        Failure("wrong", f"step {s.name}", f"check=True blames it: {s.checked}", setting.name)
        for s in c.snapshots
        if isinstance(s.checked, str)
    ][:1]
    package = "onnx" in setting.options.relax.dispatch  # the package's own evaluator, as asked
    for given, right in zip(feeds, known):
        if right is None:
            continue
        try:
            runs = c.stage.name == "EMITTED"
            with np.errstate(all="ignore"):
                found = c.run(given) if runs else evaluate(c.program, given)
        except Exception as problem:
            if package and package_deviates(model, given, right):
                return failures
            if refused_alike(problem, onnx.load(model.path), given, Path(model.path)):
                continue
            return [*failures, crash(problem, setting.name)]
        wrong = compare(found, right)
        if wrong:
            if package and package_deviates(model, given, right):
                return failures
            at = blamed_step(c, given, right)
            story = f"{setting.name}: {wrong}"
            return [*failures, Failure("wrong", f"step {at}", story, setting.name)]
    return failures


def package_deviates(model: Model, given: Arrays, right: Mapping[str, Bound]) -> bool:
    """Whether the onnx package itself has another answer to a model, or none."""
    try:
        return bool(compare(Oracle(onnx.load(model.path)).reference(given), right))
    except NoAnswer:
        return True


def blamed_step(c: Compilation, given: Arrays, right: Mapping[str, Bound]) -> str:
    """The first step whose program has other values; the code itself where none has."""
    for s in c.snapshots:
        try:
            with np.errstate(all="ignore"):
                problem = compare(evaluate(s.after, given), right)
        except Exception as raised:
            problem = f"{type(raised).__name__}: {raised}"
        if problem:
            return s.name
    return "generate code"
