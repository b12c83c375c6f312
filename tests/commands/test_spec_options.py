"""Options of commands come from the fields of specs: all of them arrive, under their aliases, with what they mean."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rearview.cli import main
from rearview.cli.parse import app
from rearview.commands.classify import console as classify_console
from rearview.commands.detect import console as detect_console
from rearview.commands.forecast import console as forecast_console
from rearview.data.read_options import ReadOptions
from rearview.estimators.classify.spec import ClassifySpec
from rearview.estimators.detect.spec import DetectorOptions
from rearview.estimators.forecast.spec import ForecastSpec

TASKS = {"forecast": forecast_console, "detect": detect_console, "classify": classify_console}


def job_of(monkeypatch: pytest.MonkeyPatch, command: str, *arguments: str) -> Any:
    """The job that a command line asks for, which is not done."""
    jobs: list[Any] = []
    monkeypatch.setattr(TASKS[command], f"{command}_command", lambda job, *_, **__: jobs.append(job) or 0)
    assert main([command, *arguments]) == 0
    return jobs[0]


def test_every_option_of_a_forecast_arrives(monkeypatch: pytest.MonkeyPatch, sales: Path) -> None:
    text = (
        "--pred-len 6 --seq-len 24 --season 12 --attention rbca:alpha=0.5 --loss huber:delta=2 --intervals quantile "
        "--level 50,90 --transform log1p --nonnegative --set width=8,depth=1 --train epochs=2 --seed 3 --device cpu "
        "--id-col a,b --time-col date --drop c --freq h --sentinels none --target x,y --target-col z --known k,l "
        "--together --model patchtst,mlp --windows 2 --refit --resume"
    )
    job = job_of(monkeypatch, "forecast", str(sales), *text.split())
    assert job.spec == ForecastSpec(
        attention={"name": "rbca", "alpha": 0.5},
        horizon=6,
        lookback=24,
        season=12,
        loss={"name": "huber", "delta": 2.0},
        intervals="quantile",
        level=(50, 90),
        transform="log1p",
        nonnegative=True,
        settings={"width": 8, "depth": 1},
        training={"epochs": 2},
        seed=3,
        device="cpu",
    )
    assert job.reading == ReadOptions.of(
        id_col=["a", "b"],
        time_col="date",
        drop="c",
        freq="h",
        sentinels=(),
        target=["x", "y"],
        target_col="z",
        known=["k", "l"],
        together=True,
    )
    assert (job.models, job.windows, job.refit, job.resume) == (("patchtst", "mlp"), 2, True, True)


@pytest.mark.parametrize(("text", "sentinels"), [("auto", "auto"), ("none", ()), ("0,-99", (0.0, -99.0))])
def test_sentinels_are_found_kept_or_named(
    text: str, sentinels: object, monkeypatch: pytest.MonkeyPatch, sales: Path
) -> None:
    job = job_of(monkeypatch, "forecast", str(sales), "--h", "3", "--sentinels", text)
    assert job.reading.sentinels == sentinels


def test_a_forecast_without_options_leaves_everything_open(monkeypatch: pytest.MonkeyPatch, sales: Path) -> None:
    job = job_of(monkeypatch, "forecast", str(sales), "--horizon", "3", "--target", "", "--attention", "")
    assert job.spec == ForecastSpec(horizon=3)
    assert job.reading == ReadOptions()


def test_every_option_of_a_detection_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "--input-size 20 --mode forecast --threshold 3.5 --quantile 0.9 --risk 0.01 --channels c1,c2 --drop d "
        "--sentinels none --freq 5min --time-col t --id-col m --attention toa --set width=8 --train epochs=1 --seed 2"
    )
    job = job_of(monkeypatch, "detect", "new.csv", *text.split(), "--labels", "label", "--fit", "old.csv")
    options, given = vars(job.options), set(job.given)
    assert {name: options[name] for name in given} == {
        "lookback": 20, "mode": "forecast", "threshold": 3.5, "quantile": 0.9, "risk": 0.01, "channels": ("c1", "c2"),
        "drop": ("d",), "sentinels": (), "freq": "5min", "time_col": "t", "id_col": ("m",), "attention": "toa",
        "settings": {"width": 8}, "training": {"epochs": 1}, "seed": 2,
    }  # fmt: skip
    assert {each.name for each in fields(DetectorOptions)} > given
    for text, threshold in (("pot", "pot"), ("0", 0.0)):
        assert job_of(monkeypatch, "detect", "new.csv", "--threshold", text).options.threshold == threshold
    assert job_of(monkeypatch, "detect", "new.csv").given == frozenset()


def test_every_option_of_a_classification_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "--model itransformer --lookback 16 --fill mean --validation 0 --id-col who --time-col tick --labels kind"
    job = job_of(monkeypatch, "classify", "a.csv", "b.csv", *text.split())
    assert job.spec == ClassifySpec(model="itransformer", lookback=16, fill="mean", validation=0.0)
    assert (job.columns.id_col, job.columns.time_col, job.labels) == ("who", "tick", "kind")


@pytest.mark.parametrize("command", TASKS)
def test_help_tells_what_every_option_means(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # One of this width: the parser keeps the console of whichever help was printed first.
    monkeypatch.setattr(app, "_console", Console(width=240))
    assert main([command, "--help"]) == 0
    printed = capsys.readouterr().out
    flags = re.findall(r"(--[a-z][a-z-]*)", printed)
    assert {"--lookback", "--seq-len", "--input-size", "--set", "--train", "--seed", "--device"} <= set(flags)
    rows = [line.strip("│ *\n") for line in printed.splitlines() if re.match(r"│ \*?\s*--", line)]
    meanings = [re.sub(r"^(--[a-z-]+ ?)+([A-Z]+ )?", "", row).strip() for row in rows]
    assert len(rows) >= 14
    assert not [row for row, meaning in zip(rows, meanings, strict=True) if len(meaning) < 10]
