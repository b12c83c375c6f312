"""The `detect` command."""

from dataclasses import fields
from pathlib import Path

from rearview.cli.options import Out, Overwrite
from rearview.cli.parse import again, app
from rearview.cli.spec_options import Given, pick, takes
from rearview.core.errors import UsageError
from rearview.estimators.detect.spec import DetectorOptions
from rearview.estimators.options import TextKeywords


@app.command
@takes(DetectorOptions, leave_out=("model", "stride", "balance", "join", "fill", "label_col", "progress"))
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
        out: Folder for anomalies.csv, scores.csv, model/, report.html and run.json; default: rearview-detect-FILE.
        resume: Take up a run that was cut off, from its checkpoint in the out folder.
    """
    saved = Path(model) if model and (Path(model).is_dir() or len(Path(model).parts) > 1) else None
    if saved is None and model:
        given["model"] = model
    usable = ("seed", "device", *(each.name for each in fields(TextKeywords)))
    unused = [name for name in given if name not in usable]
    if saved is not None and unused:
        raise UsageError(f"--model {model} is used as it was saved; leave out the setting {unused[0]}.")
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
    return detect_command(job, out or default_folder(file, "rearview-detect"), again(), overwrite=overwrite)
