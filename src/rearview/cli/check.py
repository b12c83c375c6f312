"""The `check` command."""

from rearview.cli.command import command
from rearview.cli.parse import called
from rearview.cli.spec_options import Given, pick_reading, takes
from rearview.estimators.forecast.spec import ForecastColumns


@command()
@takes(ForecastColumns, leave_out=("fill",))
def check(given: Given, file: str, /, *more: str) -> int:
    """Say what would be read of a file and repaired in it, or all its problems; nothing is trained.

    Example: rearview check sales.xlsx --sheet 2024

    Args:
        file: A file, a folder of files, or - for standard input, as `rearview forecast` takes it.
        more: Further files; each is a series.
    """
    from rearview.commands.check import check_command

    return check_command([file, *more] if more else file, pick_reading(given), called.get()[1:])
