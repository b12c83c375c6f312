"""The `classify` command."""

from dataclasses import fields
from pathlib import Path

from rearview.cli.command import command
from rearview.cli.options import Out, Overwrite
from rearview.cli.parse import command_line
from rearview.cli.spec_options import Given, pick, saved_folder, takes
from rearview.core.errors import UsageError
from rearview.estimators.classify.spec import AUTO, CaseColumns, ClassifierOptions, ClassifySpec


@command(dry_run=True)
@takes(
    ClassifierOptions,
    leave_out=("progress",),
    first=("model", "labels", "id_col", "time_col", "lookback", "seed", "device", "out", "overwrite", "resume"),
)
def classify(
    given: Given,
    train: str,
    test: str | None = None,
    /,
    *,
    labels: str | None = None,
    out: Out = None,
    overwrite: Overwrite = False,
    resume: bool = False,
) -> int:
    """Train on one file of cases and test once on another, or classify new cases with a saved classifier; one HTML
    page shows the result.

    Examples: rearview classify UWave_TRAIN.ts UWave_TEST.ts; rearview classify --model rearview-classify-UWave/model
    new.csv

    Args:
        train: File of the cases to train on, by which classifiers are also weighed: .ts, or long CSV or parquet with an
            id, a time, a class and a column a channel. With the folder of a saved classifier as --model, new cases,
            whose classes need not be known.
        test: File of the cases to test on, read once.
        labels: Column of a long file with the class; default: label or class.
        out: Folder for predictions.csv, model/ (of a training), report.html, summary.md and run.json; default:
            rearview-classify-TRAIN.
        resume: Take up a run that was cut off, from its checkpoint in the out folder.
    """
    saved = saved_folder(str(given.get("model", "")), given, (*(each.name for each in fields(CaseColumns)), "model"))
    if saved is not None and test is not None:
        raise UsageError(f"--model {saved} is used on one file of new cases; leave out {test}.")
    if saved is None and test is None:
        from rearview.commands.benchmark_sets import describe_set

        known = "" if Path(train).exists() else describe_set(train)
        raise UsageError(
            known
            or f"A file to test on is missing beside {train}, which is to train on; to classify new cases, name the "
            "folder of a saved classifier with --model."
        )
    from rearview.commands.classify.console import classify_command
    from rearview.commands.classify.job import Job
    from rearview.commands.run_files import default_folder

    spec = pick(ClassifySpec, {**given, "model": AUTO} if saved is not None else given)
    job = Job(
        train=None if saved is not None else train,
        test=test or train,
        model=saved,
        resume=resume,
        spec=spec,
        labels=labels,
        columns=pick(CaseColumns, given),
    )
    return classify_command(job, out or default_folder(train, "rearview-classify"), command_line(), overwrite=overwrite)
