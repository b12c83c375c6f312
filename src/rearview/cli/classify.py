"""The `classify` command."""

from rearview.cli.options import Out, Overwrite
from rearview.cli.parse import again, app
from rearview.cli.spec_options import Given, pick, takes
from rearview.estimators.classify.spec import CaseColumns, ClassifierOptions, ClassifySpec


@app.command
@takes(ClassifierOptions, leave_out=("progress",))
def classify(
    given: Given,
    train: str,
    test: str,
    /,
    *,
    labels: str | None = None,
    out: Out = None,
    overwrite: Overwrite = False,
    resume: bool = False,
) -> int:
    """Train on one file of cases, test once on another, and write one HTML page that shows how it went.

    Example: rearview classify UWave_TRAIN.ts UWave_TEST.ts

    Args:
        train: File of the cases to train on, by which classifiers are also weighed: .ts, or long CSV or parquet with an
            id, a time, a class and a column a channel.
        test: File of the cases to test on, read once.
        labels: Column of a long file with the class; default: label or class.
        out: Folder for predictions.csv, model/, report.html, summary.md and run.json; default: rearview-classify-TRAIN.
        resume: Take up a run that was cut off, from its checkpoint in the out folder.
    """
    from rearview.commands.classify.console import classify_command
    from rearview.commands.classify.job import Job
    from rearview.commands.run_files import default_folder

    spec, columns = pick(ClassifySpec, given), pick(CaseColumns, given)
    job = Job(train=train, test=test, resume=resume, spec=spec, labels=labels, columns=columns)
    return classify_command(job, out or default_folder(train, "rearview-classify"), again(), overwrite=overwrite)
