"""The classifier: which class a series belongs to, with scikit-learn's interface but without scikit-learn.

classifier = Classifier()                  # a portfolio; Classifier("patchtst") is one network
classifier.fit(X, y)                       # X [case, channel, time], a list of unequal arrays, or a long frame
classifier.predict(X_new)
classifier.leaderboard()                   # what each member is worth, by cross-validation
classifier.score(X_test, y_test)
classifier.save("model/")
"""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from rearview import train
from rearview.core.errors import InputError, SettingsError, did_you_mean
from rearview.core.wording import listing, quantity
from rearview.data.cases.case_reader import as_cases, is_ts
from rearview.data.cases.case_set import Cases, Labels
from rearview.data.panel import Finding
from rearview.data.read_options import Fill, Sentinels
from rearview.estimators import base
from rearview.estimators.base import Estimator, Session, load_views
from rearview.estimators.classify import fit as network_fit
from rearview.estimators.classify import storage
from rearview.estimators.classify.fit import Fitted, Likelihoods, Prepared
from rearview.estimators.classify.portfolio import portfolio
from rearview.estimators.classify.portfolio.portfolio import Portfolio, PreparedPortfolio
from rearview.estimators.classify.spec import AUTO, ClassifierOptions, ClassifySpec
from rearview.estimators.frames import Frame, leaderboard_frame
from rearview.estimators.options import Attention
from rearview.tasks.confusion import Confusion

if TYPE_CHECKING:
    from plotly.graph_objects import Figure
    from sklearn.utils import Tags


class NotFittedError(SettingsError, AttributeError):
    """The classifier has not been fitted; also an AttributeError, as in scikit-learn."""


def prepare(cases: Cases, spec: ClassifySpec) -> Prepared | PreparedPortfolio:
    """Check the cases and plan a network or a portfolio; what can't be trained is refused."""
    return portfolio.prepare(cases, spec) if spec.model == AUTO else network_fit.prepare(cases, spec)


def predict(fitted: Fitted | Portfolio, cases: Cases) -> Likelihoods:
    """How likely each class is for each case."""
    return fitted.predict(cases) if isinstance(fitted, Portfolio) else network_fit.predict(fitted, cases)


class Classifier(Estimator[Fitted | Portfolio]):
    """Classifies series with a portfolio of classifiers, or with one trained network."""

    classes_: Labels
    """The classes, sorted; columns of `predict_proba` are in this order."""
    n_features_in_: int
    """Channels of a case; for a 2-D array, whose cases have one channel, its columns."""
    # Settings as given: nothing is checked or copied before `fit`, as scikit-learn requires.
    model: str
    attention: Attention
    lookback: int | None
    fill: Fill
    validation: float
    settings: Mapping[str, object] | None
    training: Mapping[str, object] | None
    seed: int
    device: str
    id_col: str | None
    time_col: str | None
    sentinels: Sentinels | None
    progress: train.Progress | bool | None
    _trained_on: Cases | None = None

    @base.takes(ClassifierOptions)
    def __init__(self, options: ClassifierOptions) -> None:
        """How to classify; anything you omit is chosen from the cases, with a reason (`fitted_.plan`)."""
        vars(self).update(self._given)

    def fit(
        self, X: object, y: object = None, *, checkpoint: Path | str | None = None, resume: bool = False
    ) -> "Classifier":
        """Learn from cases and their classes; with `checkpoint` a run that was cut off is taken up by `resume=True`.

        `X` [case, channel, time] ([case, time]: one channel), a list of arrays [channel, time] of unequal length, or a
        long frame or file (CSV, parquet) with an id, a time and a column a channel. `y` holds a class for each case;
        for a frame in the order in which ids first appear, by id (a mapping), or as the name of a column. A .ts file
        holds its classes itself.
        """
        if y is None and not isinstance(X, Cases) and not is_ts(X):
            raise SettingsError("fit requires y to be passed, but the target y is None: give a class for each case.")
        started, spec = time.perf_counter(), self.spec
        base.resolve_device(spec.device)
        cases = self._cases(X, y)
        path = None if checkpoint is None else Path(checkpoint)
        self.adopt(prepare(cases, spec).train(Session(path, resume, self.progress)))
        self._trained_on = cases
        self.remember_fit(started, X, y)
        self.n_features_in_ = int(X.shape[1]) if isinstance(X, np.ndarray) and X.ndim == 2 else cases.channels
        if not isinstance(X, Cases):  # callers that pass cases handle findings and notes themselves
            base.warn(finding.message for finding in self.findings if finding.kind == "warning")
        return self

    def predict(self, X: object) -> Labels:
        """The likeliest class of each case."""
        likely = self.likelihoods(X).probabilities
        return self.classes_[likely.argmax(axis=1)]

    def predict_proba(self, X: object) -> NDArray[np.float64]:
        """[case, class]: how likely each class is, in the order of `classes_`."""
        return self.likelihoods(X).probabilities

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Share of cases predicted right; a class that training did not have counts as an error, with a warning.

        Where it had none of them, `y` is refused: they are spelt otherwise, or of another type.
        """
        cases = self.read(X, y)
        if cases.labels is None:
            raise SettingsError("score needs the true classes; give y.")
        _refuse_unknown_classes(cases.labels, self.classes_)
        likelihoods = predict(self.fitted_, cases)
        if not isinstance(X, Cases):
            base.warn((*unknown_classes(cases, self.classes_), *likelihoods.notes))
        right = self.classes_[likelihoods.probabilities.argmax(axis=1)] == cases.labels
        return float(np.average(right, weights=_weights(sample_weight, cases)))

    def confusion(self, X: object, y: object = None) -> Confusion:
        """How often each class was taken for each, with accuracy, macro F1 and the scores of every class."""
        cases = self.read(X, y)
        if cases.labels is None:
            raise SettingsError("A confusion table needs the true classes; give y.")
        _refuse_unknown_classes(cases.labels, self.classes_)
        return Confusion.of(cases.labels, self.predict(cases), self.classes_)

    def leaderboard(self) -> Frame:
        """Every member of the portfolio, the best first, and the vote: weight, accuracy and log loss on training cases
        that its fit did not see, seconds. A polars frame, or pandas where polars is missing."""
        if isinstance(self.fitted_, Fitted):
            raise SettingsError(f"{self.fitted_.spec.model} is one network; model='auto' has a leaderboard.")
        return leaderboard_frame(self.fitted_.standings)

    def plot(self, X: object = None, y: object = None, *, kind: str = "confusion") -> "Figure":
        """A plotly figure: which classes are taken for which, or with kind="cases" the cases most often confused.

        Without cases it shows those of training, classified by fits of the portfolio that did not see them.
        """
        return load_views("classify").plot(self, X, y, kind)

    def report(self, path: Path | str, X: object, y: object = None) -> Path:
        """Write the page of `rearview classify` on test cases and their classes to a file, and return its path."""
        return load_views("classify").report(self, path, X, y)

    def likelihoods(self, X: object) -> Likelihoods:
        """Probabilities with the notes that go with them."""
        likelihoods = predict(self.fitted_, self.read(X))
        if not isinstance(X, Cases):
            base.warn(likelihoods.notes)
        return likelihoods

    def read(self, X: object, y: object = None) -> Cases:
        """Cases as this classifier reads them: of a frame those columns that it was trained on."""
        return self._cases(X, y, self.fitted_.columns)

    def adopt(self, fitted: Fitted | Portfolio) -> None:
        """Use a model that was fitted elsewhere."""
        self._fitted = fitted
        self.classes_ = fitted.classes
        self.n_features_in_ = fitted.channels

    def save(self, folder: Path | str) -> None:
        """Write the fitted classifier to a folder: settings as JSON, numbers as safetensors."""
        marks = self.sentinels if self.sentinels == "auto" else [*(self.sentinels or ())]
        reading = {"id_col": self.id_col, "time_col": self.time_col, "sentinels": marks}
        storage.save(Path(folder), self.fitted_, reading)

    @classmethod
    def load(cls, folder: Path | str, *, device: str | None = None) -> "Classifier":
        """The classifier that `save` wrote; a damaged or newer one is refused."""
        fitted, reading = storage.load(Path(folder), device)
        classifier = cls(**fitted.spec.to_dict(), **reading)
        classifier.adopt(fitted)
        classifier._origin = f"rv.Classifier.load({str(folder)!r})"
        return classifier

    @property
    def fitted_(self) -> Fitted | Portfolio:
        """What was fitted, and how it was made."""
        if self._fitted is None:
            raise _not_fitted()("This classifier has not been fitted; call fit(X, y) or load(folder) first.")
        return self._fitted

    @property
    def trained_on(self) -> Cases | None:
        """The cases of training; they are not saved, so a classifier that was loaded has none."""
        return self._trained_on

    def _describe(self) -> list[tuple[str, object]]:
        fitted, classes = self.fitted_, [str(label) for label in self.classes_]
        return [
            ("model", "a portfolio" if isinstance(fitted, Portfolio) else fitted.spec.model),
            ("classes", f"{len(classes):,}: {', '.join(classes[:8])}{' ...' if len(classes) > 8 else ''}"),
            ("cases", f"{fitted.cases['train']:,} to train on, {quantity(fitted.channels, 'channel')}"),
        ]

    def _list_members(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        if not isinstance(self.fitted_, Portfolio):
            return (), ()
        return ("member", "weight", "accuracy", "log loss", "seconds", "what it reads"), [
            (
                one.name,
                f"{one.weight:.2f}" if one.weight else "–",
                f"{one.accuracy:.3f}",
                f"{one.log_loss:.3f}",
                f"{one.seconds:.1f}",
                one.meaning,
            )
            for one in self.fitted_.standings
        ]

    @property
    def spec(self) -> ClassifySpec:
        """The settings of network and training, checked."""
        return ClassifySpec.pick(self)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was repaired and warned of in training."""
        return self.fitted_.findings

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Every setting by name, as scikit-learn asks for it."""
        return {name: getattr(self, name) for name in self._given}

    def set_params(self, **params: object) -> Self:
        """Change settings by name; they count from the next `fit` on."""
        for name, value in params.items():
            if name not in self._given:
                near = did_you_mean(name, list(self._given))
                raise SettingsError(f"Invalid parameter {name!r} for estimator {self!r}.{near}")
            setattr(self, name, value)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    def __sklearn_tags__(self) -> "Tags":
        """What scikit-learn asks of an estimator; it is installed where this is called."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(three_d_array=True, allow_nan=True),
        )

    def _cases(self, X: object, y: object, columns: tuple[str, ...] = ()) -> Cases:
        return as_cases(
            X,
            y,
            id_col=self.id_col,
            time_col=self.time_col,
            columns=columns,
            sentinels=self.sentinels,
        )


def is_among(labels: Labels, classes: Labels) -> NDArray[np.bool_]:
    """[case]: whether its class is among `classes`; text is never equal to a number."""
    some = set(classes.tolist())
    return np.array([label in some for label in labels.tolist()], dtype=bool)


def _refuse_unknown_classes(labels: Labels, classes: Labels) -> None:
    if not is_among(labels, classes).any():
        raise InputError(
            f"None of the classes in y is one that the classifier was trained on: y holds "
            f"{listing(np.unique(labels).tolist())}, and training had {listing(classes.tolist())}; give y as it was in "
            "training, spelt alike and of the same type."
        )


def unknown_classes(cases: Cases, classes: Labels) -> list[str]:
    """A sentence where cases are of classes that training did not have."""
    assert cases.labels is not None
    is_unknown = ~is_among(cases.labels, classes)
    count = int(is_unknown.sum())
    if not count:
        return []
    names = listing([str(label) for label in np.unique(cases.labels[is_unknown])], most=5)
    are, they = ("is", "the case counts as an error") if count == 1 else ("are", "they count as errors")
    return [
        f"{count} of {len(cases)} cases of {cases.source} {are} of a class that training did not have ({names}): it "
        f"can't be predicted, and {they}."
    ]


def _weights(given: object, cases: Cases) -> NDArray[np.float64] | None:
    """A weight for each case; weights without a weighted mean are refused."""
    if given is None:
        return None
    try:
        weights = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InputError(
            f"sample_weight does not hold numbers ({problem}); give one weight for each case."
        ) from problem
    if weights.shape != (len(cases),):
        raise InputError(
            f"sample_weight has the shape {weights.shape}, but {cases.source} holds {len(cases)} cases; give one "
            "weight for each case."
        )
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise InputError("sample_weight holds a weight below 0, NaN or infinity; a weight is a number from 0 up.")
    if not weights.any():
        raise InputError("sample_weight is 0 for every case, so that no case counts; give at least one a weight.")
    return weights


def _not_fitted() -> type[NotFittedError]:
    """The error of an unfitted classifier; where scikit-learn is imported, also a subclass of its own error."""
    theirs = sys.modules.get("sklearn.exceptions")
    if theirs is None:
        return NotFittedError
    return type("NotFittedError", (NotFittedError, theirs.NotFittedError), {})
