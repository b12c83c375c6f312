"""The `detect` command."""

from dataclasses import fields

from rearview.cli.command import command
from rearview.cli.options import Out, Overwrite
from rearview.cli.parse import command_line
from rearview.cli.spec_options import Given, pick, saved_folder, takes
from rearview.estimators.detect.spec import DetectorOptions
from rearview.estimators.options import TextKeywords


@command(dry_run=True)
@takes(
    DetectorOptions,
    leave_out=("model", "stride", "balance", "join", "fill", "label_col", "progress"),
    first=("fit", "model", "labels", "channels", "drop", "threshold", "quantile", "lookback", "time_col", "out"),
)
def detect(
    given: Given,
    file: str,
    /,
    *,
    fit: str | None = None,
    model: str = "",
    labels: str | None = None,
    out: Out = None,
    overwrite: Overwrite = False,
    resume: bool = False,
) -> int:
    """Find anomalies in a file, and write one HTML page that shows when, how bad, and which channels carry them.

    Example: rearview detect today.csv --fit last-month.csv --labels label

    Args:
        file: Rows to judge, in a file, a folder or - as `rearview forecast` takes them; or an .npz (or three .npy) with
            train, test and test_label.
        fit: File of ordinary rows to learn from; default: the file itself, with a threshold that allows for anomalies.
        model: Folder of a saved detector, which is used as it is; or the name of a network to train alone; default:
            auto, several simple detectors and a network, combined.
        labels: Column with 1 where a row is an anomaly; used to judge the result, never to train.
        out: Folder for anomalies.csv, scores.csv, model/, report.html, summary.md and run.json; default:
            rearview-detect-FILE.
        resume: Take up a run that was cut off, from its checkpoint in the out folder.
    """
    saved = saved_folder(model, given, [each.name for each in fields(TextKeywords)])
    if saved is None and model:
        given["model"] = model
    from rearview.commands.detect.console import detect_command
    from rearview.commands.detect.rows import Job
    from rearview.commands.run_files import default_folder

    job = Job(
        file=file,
        fit=fit,
        model=saved,
        labels=labels,
        resume=resume,
        options=pick(DetectorOptions, given),
        given=frozenset(given),
    )
    return detect_command(job, out or default_folder(file, "rearview-detect"), command_line(), overwrite=overwrite)
