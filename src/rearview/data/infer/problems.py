"""Problems of reading, which refuse the data together, and repairs, which become findings."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rearview.core.errors import InputError
from rearview.data.panel import Finding

MISSING_COLUMN = "missing column"
"""The key of a column that a model was trained on and new rows have not."""
MOST_NAMED = 10
"""Cells of one column and one kind that are named one by one; the others are counted."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that has no reading, or several: where it stands and what settles it."""

    what: str
    """A short key such as "number", "stamp", "duplicates"."""
    message: str
    """The sentence a person reads: what, where, what to do."""
    place: str | None = None
    """'line 7' or 'row 5'."""
    column: str | None = None
    value: str | None = None
    flag: str | None = None
    """The option that settles it, as the command line takes it."""
    count: int = 1
    """The number of rows or cells concerned."""


@dataclass(frozen=True, slots=True)
class Repair(Finding):
    """One thing that was read in the one way it can be read, with the first place that shows it."""

    place: str | None = None
    column: str | None = None
    value: str | None = None
    """The cell as it is written."""
    reading: str | None = None
    """The cell as it is read."""


def number_problems(source: str, problems: Sequence[Problem]) -> list[str]:
    """Problems as lines below a sentence that names the source, which is not named again."""
    short = [problem.message.removeprefix(f"{source}, ").removeprefix(f"{source}: ") for problem in problems]
    short = [f"It{text.removeprefix(source)}" if text.startswith(f"{source} ") else text for text in short]
    return [f"  {number}. {sentence}" for number, sentence in enumerate(short, start=1)]


class MessyData(InputError):
    """Data that can't be read, with every problem that was met."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        """One problem is a sentence of its own; several are numbered."""
        self.source, self.problems = source, tuple(problems)
        message = problems[0].message
        if len(problems) > 1:
            message = "\n".join([f"{source} has {len(problems)} problems:", *number_problems(source, problems)])
        super().__init__(message)


@dataclass(slots=True)
class Problems:
    """The problems of one source while it is read."""

    source: str
    met: list[Problem] = field(default_factory=list)

    def add(self, problem: Problem) -> None:
        """Keep a problem; one that was met before is not said twice."""
        if problem not in self.met:
            self.met.append(problem)

    def add_error(self, error: InputError, what: str) -> None:
        """Keep what a part of the reading refused."""
        for problem in error.problems if isinstance(error, MessyData) else (Problem(what, str(error)),):
            self.add(problem)

    def refuse(self) -> None:
        """Raise all problems at once, where there are any."""
        if self.met:
            raise MessyData(self.source, self.met)
