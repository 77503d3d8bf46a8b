"""The assignment of a work log and its rubric: hypothesis, evidence, conclusion."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from explorer.errors import BadOption


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a criterion: its points, the condition for it, and an example."""

    points: int
    condition: str
    example: str


@dataclass(frozen=True, slots=True)
class Criterion:
    """A criterion of the rubric; its levels fall.

    If the condition of the last one holds, it counts; otherwise the first whose condition holds.
    """

    name: str
    question: str
    levels: tuple[Level, ...]


RUBRIC = (
    Criterion(
        "hypothesis",
        "Can a measurement refute the claim, and does it say why it should hold?",
        (
            Level(
                3,
                "It names the change, the quantity, its direction **and** size or bound, and a "
                "cause: what the program or the machine then does less or more of.",
                "Fusing the bias into the product makes small_nerf 1.2 to 1.5 times faster: it "
                "saves one write and one read of 64 KB.",
            ),
            Level(
                2,
                "It names the change, the quantity and its direction, and **either** a size "
                "**or** a cause.",
                "Fusing the bias makes small_nerf faster, because it saves a read.",
            ),
            Level(
                1,
                "It names the change and the quantity with its direction, and neither size nor "
                "cause.",
                "Fusing the bias makes small_nerf faster.",
            ),
            Level(
                0,
                "The change, the quantity or the direction is missing, or it was written after its "
                "measurement. *Faster* and *performance improves* name time; *good*, *best* and "
                "*does not matter* name no quantity. *No change* is a direction.",
                "Let us see what fusion does.",
            ),
        ),
    ),
    Criterion(
        "evidence",
        "Do entries of the log test the claim, and nothing else?",
        (
            Level(
                3,
                "Two measured programs differ in the named change alone, their comparison has an "
                "interval, **and** another entry tests the named cause (a count, a what-if or a "
                "time), or the claim at another size or model.",
                "Entry 4 against 3 (only welder.policy differs), and entry 6 the same for "
                "twice the rows.",
            ),
            Level(
                2,
                "Two measured programs differ in the named change alone, and their comparison has "
                "an interval.",
                "Entry 4 against 3: only welder.policy differs.",
            ),
            Level(
                1,
                "Both programs were measured, but more than the named change differs, or no entry "
                "compares them with an interval.",
                "Entry 4 has another policy and another number of threads than entry 3.",
            ),
            Level(
                0,
                "The program with the named change, or the program without it, was not measured.",
                "The time of another model.",
            ),
        ),
    ),
    Criterion(
        "conclusion",
        "Does the text say what the entries show, and no more?",
        (
            Level(
                3,
                "Level 2, **and** it gives the interval and names a limit: a size, a machine or a "
                "cause that it calls untested, or that it holds for this one alone.",
                "Faster, 1.31 (1.27 to 1.36): as predicted, at 1,000 rows on this machine; where "
                "the weights leave the cache I did not test it.",
            ),
            Level(
                2,
                "It gives the verdict of a comparison that it rests on, says whether the "
                "hypothesis held, and claims no more than was measured. A bound holds if the "
                "ratio does.",
                "Faster, 1.31 (1.27 to 1.36), as predicted.",
            ),
            Level(
                1,
                "No entry has the verdict, the verdict or the fate of the hypothesis is not told, "
                "or it claims more than was measured: another model, one of several changes, or, "
                "without *perhaps*, a cause that no entry tests.",
                "Fusion is always faster.",
            ),
            Level(
                0,
                "It contradicts the entries, or claims something of a change that was not "
                "measured.",
                "Faster, where the verdict is *not distinguishable*.",
            ),
        ),
    ),
)

HEAD = """# Assignment: one question, and a log of how you answered it

Ask a question about one decision of the compiler, and answer it by measuring. Hand in
`worklog.jsonl` and one page of text. Begin the log before anything else:

```python
import explorer
from explorer import course

log = course.worklog("worklog.jsonl")
log.hypothesis("...")  # before you measure

base = explorer.compile("zoo:small_nerf")
changed = base.with_options(...)  # the one change
inputs = base.random_inputs()

first = log.measure(base, inputs)
log.decision("...", changed)
second = log.measure(changed, inputs)  # against the first one, in turns
log.conclusion("...", evidence=[second.n])
print(log.last_hash)  # send it to your teacher when you are halfway, and when you are done
```

A refuted hypothesis costs no points. Leave failed attempts in the log: entries cannot be removed
unnoticed. An explorer with `explore(base, log=log)` writes its steps into the same log.

Your teacher runs `python -m explorer.course worklog worklog.jsonl --rerun`, and asks you about one
entry. Say in the text which assistants you used, for what, and what you checked yourself.

## Rubric

For each criterion: if the condition of 0 points holds, give 0. Otherwise take the first level, from
the top, whose condition holds. Only the log counts, not its style. If the log has several
hypotheses, grade the one that the last conclusion is about.
"""


def template() -> str:
    """Return the assignment with its rubric as Markdown."""
    parts = [HEAD]
    for criterion in RUBRIC:
        rows = [f"| {v.points} | {v.condition} | {v.example} |" for v in criterion.levels]
        parts.append(f"### {criterion.name.capitalize()}\n\n{criterion.question}\n")
        parts.append("\n".join(("| points | condition | example |", "|---|---|---|", *rows, "")))
    return "\n".join(parts)


def write_template(path: str | Path) -> Path:
    """Write the assignment to a new file and return its path.

    Raises:
        BadOption: the file exists, or it cannot be written.
    """
    file = Path(path)
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(template())
    except OSError as problem:
        raise BadOption(
            f"the template cannot be written to {file}: {problem.strerror}",
            where=str(file),
            try_="the name of a new file",
        ) from problem
    return file
