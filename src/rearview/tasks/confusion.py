"""Scores of a classification, all from one table: how often each class was taken for each.

`Confusion.counts[true, predicted]`. A class that is in the truth but was never trained on can't be predicted: it has a
row like any other, and its cases count as errors.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rearview.core.display import html_table

Labels = NDArray[np.generic]
"""[case]: classes as numbers or text."""


def commonest_accuracy(trained: Labels, truth: Labels) -> float:
    """The accuracy of always predicting the commonest class of training; the mean over classes that tie."""
    labels, counts = np.unique(trained, return_counts=True)
    return float(np.mean([(truth == label).mean() for label in labels[counts == counts.max()]]))


@dataclass(frozen=True, slots=True)
class ClassScore:
    """Scores of one class."""

    label: str
    precision: float
    """Share of the cases taken for this class that are of it; 0 where none was."""
    recall: float
    """Share of the cases of this class that were taken for it; 0 where there is none."""
    f1: float
    """Harmonic mean of both."""
    cases: int
    """Cases of this class."""


@dataclass(frozen=True, slots=True, eq=False)
class Confusion:
    """Counts of true and predicted classes."""

    labels: tuple[object, ...]
    """Every class, those of training first."""
    counts: NDArray[np.int64]
    """[true, predicted]."""

    @staticmethod
    def of(truth: Labels, predicted: Labels, classes: Labels) -> "Confusion":
        """The table of some predictions; `classes` are those trained on, and others that the truth holds follow."""
        known = classes.tolist()
        labels = [*known, *sorted(set(truth.tolist()) - set(known), key=str)]
        place = {label: row for row, label in enumerate(labels)}
        counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
        rows = [place[label] for label in truth.tolist()]
        columns = [place[label] for label in predicted.tolist()]
        np.add.at(counts, (rows, columns), 1)
        return Confusion(tuple(labels), counts)

    def _repr_html_(self) -> str:
        """True classes down, predicted ones across, for notebooks."""
        rows = [
            (name, *(n or "" for n in counts)) for name, counts in zip(self.labels, self.counts.tolist(), strict=True)
        ]
        words = f"accuracy {self.accuracy:.3f}, macro F1 {self.macro_f1:.3f}; true classes down, predicted across"
        return html_table(rows, ["", *map(str, self.labels)], words)

    @property
    def accuracy(self) -> float:
        """Share of cases predicted right."""
        return float(np.trace(self.counts) / self.counts.sum())

    @property
    def macro_f1(self) -> float:
        """Mean of the classes' F1, each class counted alike; classes neither there nor predicted are left out."""
        there = (self.counts.sum(axis=0) + self.counts.sum(axis=1)) > 0
        return float(np.mean([one.f1 for one, counted in zip(self.by_class(), there, strict=True) if counted]))

    def by_class(self) -> tuple[ClassScore, ...]:
        """Precision, recall and F1 of each class."""
        right = np.diag(self.counts)
        predicted, true = self.counts.sum(axis=0), self.counts.sum(axis=1)
        precision = right / np.maximum(predicted, 1)
        recall = right / np.maximum(true, 1)
        f1 = 2 * right / np.maximum(predicted + true, 1)
        return tuple(
            ClassScore(str(label), float(p), float(r), float(f), int(n))
            for label, p, r, f, n in zip(self.labels, precision, recall, f1, true, strict=True)
        )
