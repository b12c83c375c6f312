"""The `demo` command: the main job on generated data."""

from pathlib import Path

from rearview.commands.forecast.console import forecast_command
from rearview.commands.forecast.job import Job
from rearview.commands.output_folder import check_folder
from rearview.data.synthetic.energy import write_demo
from rearview.estimators.forecast.spec import ForecastSpec


def demo_command(out: Path, horizon: int, seed: int, command: str) -> int:
    """Write the data and forecast them with a small network."""
    check_folder(out, "forecast")
    out.mkdir(parents=True, exist_ok=True)
    data = write_demo(out / "demo.csv", seed=seed)
    spec = ForecastSpec(
        horizon=horizon,
        lookback=168,
        seed=seed,
        settings={"width": 32, "heads": 4, "feed_forward": 64},
        training={"epochs": 6, "windows_per_epoch": 1280},
    )
    return forecast_command(Job(file=str(data), spec=spec, models=("patchtst",), windows=5), out, command)
