"""The `demo` command: the main job on generated data."""

from pathlib import Path

from rearview.commands.forecast.console import forecast_into
from rearview.commands.forecast.job import Job
from rearview.core.output_folder import OutputFolder
from rearview.data.synthetic.energy import write_demo
from rearview.estimators.forecast.spec import ForecastSpec


def demo_command(out: Path, horizon: int, seed: int, command: str, *, overwrite: bool = False) -> int:
    """Write the data and forecast them with a small network."""
    data = out / "demo.csv"
    spec = ForecastSpec(
        horizon=horizon,
        lookback=168,
        seed=seed,
        settings={"width": 32, "heads": 4, "feed_forward": 64},
        training={"epochs": 6, "windows_per_epoch": 1280},
    )
    job = Job(file=str(data), spec=spec, models=("patchtst",), windows=5)
    with OutputFolder.claim(out, "forecast", inputs=[data], overwrite=overwrite) as folder:
        folder.publish(lambda place: write_demo(place / data.name, seed=seed), finished=False, beside=True)
        return forecast_into(folder, job, command)
