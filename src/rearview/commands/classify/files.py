"""The files of a classification run: predictions.csv, model/, report.html, summary.md, run.json."""

from dataclasses import asdict
from pathlib import Path

from rearview.commands.classify.job import Outcome
from rearview.commands.classify.page import prediction_summary, summary
from rearview.commands.run_files import end_facts, write_results
from rearview.estimators.frames import Columns


def write(outcome: Outcome, folder: Path, command: str) -> list[Path]:
    """Write everything to a new folder and return what was written."""
    page = (summary if outcome.labelled else prediction_summary)(outcome, command)
    save = None if outcome.train is None else outcome.classifier.save
    return write_results(folder, {"predictions.csv": prediction_columns(outcome)}, save, page, _facts(outcome))


def prediction_columns(outcome: Outcome) -> Columns:
    """A row for each case: its id or name, its class where that is known, the prediction, how likely each class is."""
    columns: Columns = {"case": list(outcome.test.ids or outcome.test.names)}
    if outcome.labelled:
        columns["class"] = [str(label) for label in outcome.truth]
    columns["predicted"] = [str(label) for label in outcome.predicted]
    for column, label in enumerate(outcome.classifier.classes_):
        columns[f"probability of {label}"] = outcome.probabilities[:, column].round(6)
    return columns


def _facts(outcome: Outcome) -> dict[str, object]:
    """The run as plain data: spec, data, plan, measures."""
    fitted = outcome.classifier.fitted_
    return {
        "protocol": "clean",
        "train": outcome.job.train,
        "test": outcome.job.test,
        **({} if outcome.job.model is None else {"model": str(outcome.job.model)}),
        "request": fitted.spec.to_dict(),
        "plan": fitted.plan.to_dict(),
        "cases": {**fitted.cases, "test": len(outcome.test)},
        **_scores(outcome),
        "predicted": dict(outcome.counts),
        "parameters": fitted.parameters,
        "history": {name: history.to_dict() for name, history in outcome.histories.items()}
        if outcome.standings
        else next(iter(outcome.histories.values())).to_dict(),
        **({"leaderboard": [asdict(one) for one in outcome.standings]} if outcome.standings else {}),
        **end_facts(outcome),
    }


def _scores(outcome: Outcome) -> dict[str, object]:
    """The predictions against the classes, where they are known."""
    if not outcome.labelled:
        return {"classes": [str(label) for label in outcome.classifier.classes_]}
    confusion = outcome.confusion
    return {
        "classes": [str(label) for label in confusion.labels],
        "accuracy": confusion.accuracy,
        "macro_f1": confusion.macro_f1,
        "commonest_class_accuracy": outcome.commonest,
        "confusion": confusion.counts.tolist(),
        "by_class": [asdict(one) for one in confusion.by_class()],
    }
