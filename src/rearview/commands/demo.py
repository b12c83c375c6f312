"""The `demo` command: the main job on generated data."""

from pathlib import Path

from rearview.commands.forecast.console import forecast_into
from rearview.commands.forecast.job import Job
from rearview.core.output_folder import OutputFolder
from rearview.data.synthetic.energy import write_demo
from rearview.estimators.forecast.spec import ForecastSpec

TIME_LIMIT = 90.0


def demo_command(out: Path, horizon: int, seed: int, command: str, *, overwrite: bool = False) -> int:
    """Write the data and forecast them."""
    data = out / "demo.csv"
    job = Job(file=str(data), spec=ForecastSpec(horizon=horizon, seed=seed), time_limit=TIME_LIMIT)
    with OutputFolder.claim(out, "forecast", inputs=[data], overwrite=overwrite) as folder:
        folder.publish(lambda place: write_demo(place / data.name, seed=seed), finished=False, beside=True)
        return forecast_into(folder, job, command)
