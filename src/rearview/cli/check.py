"""The `check` command."""

from rearview.cli.parse import app, called
from rearview.cli.spec_options import Given, pick_reading, takes
from rearview.estimators.forecast.spec import ForecastColumns


@app.command
@takes(ForecastColumns, leave_out=("fill",))
def check(given: Given, file: str, /, *more: str, json: bool = False) -> int:
    """Say what would be read of a file and repaired in it, or all its problems; nothing is trained.

    Example: rearview check sales.xlsx --sheet 2024

    Args:
        file: A file, a folder of files, or - for standard input, as `rearview forecast` takes it.
        more: Further files; each is a series.
        json: Print one JSON object.
    """
    from rearview.commands.check import check_command

    arguments = [word for word in called.get()[1:] if word != "--json"]
    return check_command([file, *more] if more else file, pick_reading(given), arguments, as_json=json)
