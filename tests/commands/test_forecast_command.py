"""`rearview forecast`: what it writes, prints and refuses."""

import html
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from runs import FILES, forecast, header, rows
from samples import wide

from rearview import Forecaster
from rearview.cli import main


def bounds(model: str) -> list[str]:
    return [model, *(f"{model}-{side}-{level}" for level in (80, 95) for side in ("lo", "hi"))]


def test_everything_is_written(sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert forecast(sales, out, "--model", "patchtst") == 0
    assert sorted(path.name for path in out.iterdir()) == FILES
    assert header(out / "forecast.csv") == ["unique_id", "ds", *bounds("patchtst")]
    baselines = [name for model in ("patchtst", "seasonal_naive", "dlinear") for name in bounds(model)]
    assert header(out / "backtest.csv") == ["unique_id", "ds", "cutoff", "y", *baselines]
    future = rows(out / "forecast.csv")
    assert [row["unique_id"] for row in future] == ["load"] * 5 + ["wind"] * 5
    assert [row["ds"] for row in future][:2] == ["2024-03-07 16:00:00", "2024-03-07 17:00:00"]
    back = rows(out / "backtest.csv")
    assert len(back) == 2 * 2 * 5
    actual = wide().set_index("date")
    for row in back:
        assert float(row["y"]) == pytest.approx(actual.loc[row["ds"], row["unique_id"]], rel=1e-6)
    report = (out / "report.html").read_text(encoding="utf-8")
    assert "rearview forecast" in report
    assert "the network's own" in html.unescape(report)

    run = json.loads((out / "run.json").read_text())
    assert run["command"].startswith("rearview forecast ")
    assert "--windows 2" in run["command"]
    assert run["interrupted"] is False
    assert run["step"] == "h"
    assert set(run["models"]) == {"patchtst", "seasonal_naive", "dlinear"}
    assert run["models"]["patchtst"]["baseline"] is False
    assert set(run["models"]["patchtst"]["backtest"]) >= {"mse", "mae", "mase", "smape", "rmsse", "pinball", "coverage"}

    printed = capsys.readouterr().out
    for words in (
        "The step is every hour (h).",
        "Backtest, 2 windows of 5 steps",
        "seasonal_naive (baseline)",
        run["verdict"],
        "lookback = 24  (as asked)",
        "Written to",
    ):
        assert words in printed
    assert "beat" in run["verdict"]


def test_the_backtest_table_holds_the_scores_of_backtest_csv(sales: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert forecast(sales, out, "--model", "dlinear") == 0
    back = rows(out / "backtest.csv")
    run = json.loads((out / "run.json").read_text())
    for model in ("dlinear", "seasonal_naive"):
        errors = [float(row["y"]) - float(row[model]) for row in back]
        scores = run["models"][model]["backtest"]
        assert scores["mae"] == pytest.approx(np.mean(np.abs(errors)))
        assert scores["mse"] == pytest.approx(np.mean(np.square(errors)))
        inside = [float(r[f"{model}-lo-80"]) <= float(r["y"]) <= float(r[f"{model}-hi-80"]) for r in back]
        assert scores["coverage"]["80.0"] == pytest.approx(np.mean(inside))


def test_the_command_line_agrees_with_the_library(shops: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert forecast(shops, out, "--model", "patchtst", "--seed", "3") == 0
    settings = {"width": 8, "heads": 2, "feed_forward": 16, "depth": 1}
    model = Forecaster(
        "patchtst", horizon=5, lookback=24, settings=settings, training={"epochs": 2}, seed=3, device="auto"
    )
    expected = model.fit(str(shops)).predict()
    written = pd.read_csv(out / "forecast.csv", float_precision="round_trip")
    np.testing.assert_array_equal(
        written.select_dtypes("number").to_numpy(), expected.drop("unique_id", "ds").to_numpy()
    )
    back = model.cross_validation(str(shops), n_windows=2)
    found = pd.read_csv(out / "backtest.csv", float_precision="round_trip")[["patchtst", "patchtst-hi-95"]].to_numpy()
    np.testing.assert_array_equal(found, back.select("patchtst", "patchtst-hi-95").to_numpy())


def test_backtest_windows_without_a_value_and_a_cut_against_the_data_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "late.csv"
    frame = wide(columns=("load",))
    frame.assign(load=(frame["load"] - 60).where(frame.index < 155)).to_csv(path, index=False)
    assert forecast(path, tmp_path / "out", "--model", "dlinear", "--windows", "1", "--nonnegative") == 0
    printed = capsys.readouterr().out
    assert "No value was observed in 1 backtest window of 5 steps" in printed
    assert "nan" not in printed
    assert "Some values so far are below 0, where --nonnegative cuts forecasts" in printed


def test_several_models_in_one_call(shops: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert forecast(shops, out, "--model", "itransformer,dlinear,itransformer", "--level", "80") == 0
    names = [end for model in ("itransformer", "dlinear") for end in bounds(model)[:3]]
    assert header(out / "forecast.csv") == ["unique_id", "ds", *names]
    assert sorted(path.name for path in (out / "model").iterdir()) == ["dlinear", "itransformer"]
    assert main(["predict", str(out / "model" / "dlinear"), str(shops)]) == 0
    run = json.loads((out / "run.json").read_text())
    assert [name for name, facts in run["models"].items() if facts["baseline"]] == ["seasonal_naive"]
    assert run["models"]["itransformer"]["request"]["settings"]["width"] == 8
    assert run["models"]["dlinear"]["request"]["settings"] == {}
    capsys.readouterr()
    assert forecast(shops, out, "--model", "patchtst,dlinear", "--set", "colour=3") == 1
    assert "None of patchtst, dlinear has a setting 'colour'" in capsys.readouterr().err


def test_known_inputs_and_their_future(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, future = tmp_path / "data.csv", tmp_path / "future.csv"
    wide().to_csv(data, index=False)
    wide(10, start="2024-03-07 16:00")[["date", "wind"]].to_csv(future, index=False)
    asked = ["--target", "load", "--known", "wind"]
    out = tmp_path / "out"
    assert forecast(data, out, *asked, "--future", str(future)) == 0
    assert len(rows(out / "forecast.csv")) == 5
    printed = capsys.readouterr().out
    assert "model = itransformer  (there are input columns, and it mixes columns)" in printed
    assert "The baselines forecast without 'wind', known in the future, for which they have no place." in printed
    assert "the seasonal naive forecast: MASE" in " ".join(printed.split())
    assert {"itransformer", "seasonal_naive", "dlinear"} <= set(header(out / "backtest.csv"))
    assert main(["predict", str(out / "model"), str(data), "--future", str(future)]) == 0
    assert capsys.readouterr().out == (out / "forecast.csv").read_text()

    # Refused before anything is trained.
    assert forecast(data, tmp_path / "other", *asked) == 1
    said = capsys.readouterr()
    assert "--future FILE" in said.err
    assert "backtest over" not in said.out
    assert forecast(data, tmp_path / "other", *asked, "--model", "patchtst", "--future", str(future)) == 1
    assert "patchtst has no place" in capsys.readouterr().err
    assert not (tmp_path / "other" / "forecast.csv").exists()


def test_without_a_backtest_the_verdict_says_so(sales: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert forecast(sales, out, "--windows", "0") == 0
    run = json.loads((out / "run.json").read_text())
    assert run["verdict"].startswith("There was no backtest, as asked")
    assert not (out / "backtest.csv").exists()
    short = tmp_path / "short.csv"
    wide(14).to_csv(short, index=False)
    assert main(["forecast", str(short), "--horizon", "5", "--out", str(out), "--model", "dlinear"]) == 0
    run = json.loads((out / "run.json").read_text())
    assert run["verdict"].startswith("The data is too short for a backtest")


def test_an_old_backtest_does_not_outlive_its_run(sales: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert forecast(sales, out, "--model", "patchtst,dlinear") == 0
    assert forecast(sales, out, "--model", "dlinear", "--windows", "0") == 0
    assert not (out / "backtest.csv").exists()
    assert main(["predict", str(out / "model"), str(sales)]) == 0
    assert not list((out / "model").glob("*/*"))


def test_refit(sales: Path, tmp_path: Path) -> None:
    for name, flags in (("once", []), ("again", ["--refit"])):
        assert forecast(sales, tmp_path / name, "--model", "dlinear", *flags) == 0
    once, again = (rows(tmp_path / name / "backtest.csv") for name in ("once", "again"))
    assert [row["dlinear"] for row in once[:10]] == [row["dlinear"] for row in again[:10]]
    assert [row["dlinear"] for row in once[10:]] != [row["dlinear"] for row in again[10:]]


@pytest.mark.parametrize("model", ["seasonal_naive", "dlinear"])
@pytest.mark.parametrize("value", ["3.5", "same"])
def test_a_constant_series_has_a_verdict(tmp_path: Path, model: str, value: str) -> None:
    path = tmp_path / "flat.csv"
    wide(60, ("load",)).assign(load=3.5 if value == "3.5" else list(range(12)) * 5).to_csv(path, index=False)
    season = [] if value == "3.5" else ["--season", "12"]
    assert forecast(path, tmp_path / "out", "--model", model, *season, "--lookback", "12") == 0
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert "nan" not in run["verdict"].lower()


def test_odd_names_of_files_and_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a folder, with; odd été"
    folder.mkdir()
    path = folder / "-- data 'x'.csv"
    wide(60, ("[red]load[/red]", "wind, m/s")).to_csv(path, index=False)
    out = folder / "[bold] out"
    assert forecast(path, out, "--model", "dlinear", "--drop", "[red]load[/red]") == 0
    assert {row["unique_id"] for row in rows(out / "forecast.csv")} == {"wind, m/s"}
    assert "[bold] out" in capsys.readouterr().out.replace("\n", "")
    assert forecast(path, out, "--model", "dlinear") == 0
    assert {row["unique_id"] for row in rows(out / "forecast.csv")} == {"[red]load[/red]", "wind, m/s"}


def test_the_folder_is_named_after_the_file(sales: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sales.parent)
    asked = ["--h", "5", "--input-size", "24", "--model", "dlinear", "--train", "epochs=1", "--windows", "1"]
    assert main(["forecast", "sales.csv", *asked]) == 0
    assert (sales.parent / "rearview-sales" / "forecast.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "patchts"], "Did you mean 'patchtst'"),
        (["--train", "epochz=3"], "Did you mean 'epochs'"),
        (["--set", "widht=3"], "Did you mean 'width'"),
        (["--set", "width=abc"], "must be a whole number"),
        (["--set", "heads=3"], "3 heads"),
        (["--attention", "softmx"], "Did you mean 'softmax'"),
        (["--attention", ":eps=3"], "name before the colon"),
        (["--attention", "linear:epz=3"], "has no setting 'epz'"),
        (["--level", "0.8"], "did you mean 80"),
        (["--level", "101"], "between 0 and 100"),
        (["--device", "tpu9"], "no device"),
        (["--freq", "fortnight"], "not a step that rearview knows"),
        (["--windows", "-1"], "windows is -1"),
        (["--windows", "99"], "ask for fewer windows"),
        (["--season", "0"], "season is 0"),
        (["--seed", "-3"], "seed is -3"),
        (["--target", "lood"], "Did you mean 'load'"),
        (["--time-col", "when"], "no column 'when'"),
        (["--lookback", "900"], "is not long enough"),
        (["--future", "nothing.csv"], "no column is named as known"),
        (["--known", "wind"], "give their next 5 steps"),
        (["--transform", "log1p", "--sentinels", "none"], "needs values above -1"),
    ],
)
def test_mistakes_exit_with_1_and_a_sentence(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sales.csv"
    wide(80).assign(wind=lambda one: one["wind"] - 130).to_csv(path, index=False)
    model = [] if "--model" in arguments else ["--model", "patchtst"]
    assert forecast(path, tmp_path / "out", *model, *arguments) == 1
    said = capsys.readouterr().err
    assert words in said
    assert said.startswith("rearview: ")
    assert said.rstrip().endswith((".", "?"))
    assert "Traceback" not in said
    assert not (tmp_path / "out" / "forecast.csv").exists()


def test_an_out_that_is_a_file_is_refused_before_training(
    sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    for out in (taken, taken / "deeper"):
        assert forecast(sales, out) == 1
        said = capsys.readouterr()
        assert f"{taken} is a file; name a folder." in said.err
        assert said.out == ""
    assert taken.read_text() == "mine"


def test_quantiles_huber_and_attention_settings(sales: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = ["--intervals", "quantile", "--loss", "huber", "--attention", "linear:eps=1e-5", "--level", "50,90"]
    assert forecast(sales, out, "--model", "patchtst", *asked) == 0
    run = json.loads((out / "run.json").read_text())
    assert run["models"]["patchtst"]["request"]["attention"] == {"name": "linear", "eps": 1e-5}
    levels = [50, 90]
    expected = ["patchtst", *(f"patchtst-{side}-{level}" for level in levels for side in ("lo", "hi"))]
    assert header(out / "forecast.csv")[2:] == expected


def test_a_loss_with_settings(sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert forecast(sales, tmp_path / "out", "--model", "dlinear", "--loss", "fredf:time_share=0.2") == 0
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["models"]["dlinear"]["request"]["loss"] == {"name": "fredf", "time_share": 0.2}
    capsys.readouterr()
    assert forecast(sales, tmp_path / "none", "--model", "dlinear", "--loss", "fredf:share=0.2") == 2
    assert "--loss: fredf has no setting 'share'. Did you mean 'time_share'?" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_interrupted_between_models_keeps_what_is_finished(
    sales: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rearview.commands.forecast import job

    plain: Any = job._Task.run

    def stopping(self: Any, *rest: Any) -> Any:
        if self.name == "dlinear":
            raise KeyboardInterrupt
        return plain(self, *rest)

    monkeypatch.setattr(job._Task, "run", stopping)
    out = tmp_path / "out"
    assert forecast(sales, out, "--model", "patchtst,dlinear") == 130
    assert header(out / "forecast.csv")[2] == "patchtst"
    run = json.loads((out / "run.json").read_text())
    assert run["interrupted"] is True
    assert list(run["models"]) == ["patchtst", "seasonal_naive"]
    assert "--resume takes the run up again" in capsys.readouterr().out
    assert forecast(sales, tmp_path / "none", "--model", "dlinear") == 130
    assert not (tmp_path / "none" / "forecast.csv").exists()


def test_an_interrupted_portfolio_says_so_and_is_taken_up_again(
    sales: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rearview.estimators.auto import fit as portfolio

    plain: Any = portfolio.Contest.backtest

    def stopping(contest: Any, attempt: Any, *rest: Any) -> None:
        if attempt.candidate.name == "ridge":
            raise KeyboardInterrupt
        plain(contest, attempt, *rest)

    asked = ["forecast", str(sales), "--out", str(tmp_path / "out"), "--horizon", "5", "--windows", "2", "--quick"]
    with monkeypatch.context() as patched:
        patched.setattr(portfolio.Contest, "backtest", stopping)
        assert main(asked) == 130
    assert "--resume takes the run up again" in capsys.readouterr().out
    assert header(tmp_path / "out" / "forecast.csv")[2] == "auto"
    assert json.loads((tmp_path / "out" / "run.json").read_text())["interrupted"] is True
    assert main([*asked, "--resume"]) == 0
    assert "no checkpoint" not in capsys.readouterr().out


def test_a_forecast_that_is_cut_off_is_that_of_the_cheapest_member(
    sales: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rearview.estimators.auto.ensemble import Ensemble

    plain: Any = Ensemble.predict
    asked = ["forecast", str(sales), "--out", str(tmp_path / "out"), "--horizon", "5", "--windows", "2", "--quick"]

    def stopping(ensemble: Any, *rest: Any) -> Any:
        if [member.name for member in ensemble.members] != ["seasonal_naive"]:
            raise KeyboardInterrupt
        return plain(ensemble, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Ensemble, "predict", stopping)
        assert main(asked) == 130
    said = capsys.readouterr().out
    assert "The forecast is that of seasonal_naive." in said
    assert "--resume takes the run up again" in said
    facts = json.loads((tmp_path / "out" / "run.json").read_text())
    assert facts["interrupted"] is True
    assert [one["name"] for one in facts["models"]["auto"]["leaderboard"] if one["weight"]] == ["seasonal_naive"]
    assert main([*asked, "--resume"]) == 0
    assert "The forecast is that of seasonal_naive." not in capsys.readouterr().out


def test_members_are_on_the_page_and_on_request_in_the_files(
    sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    asked = ["forecast", str(sales), "--out", str(out), "--horizon", "5", "--windows", "2", "--quick"]
    assert main([*asked, "--members"]) == 0
    board = json.loads((out / "run.json").read_text())["models"]["auto"]["leaderboard"]
    members = [one["name"] for one in board if one["weight"]]
    assert members
    bounds = [f"auto-{side}-{level}" for level in (80, 95) for side in ("lo", "hi")]
    assert header(out / "forecast.csv")[2:] == ["auto", *bounds, *members]
    capsys.readouterr()
    assert main(["predict", str(out), str(sales), "--members"]) == 0
    assert capsys.readouterr().out == (out / "forecast.csv").read_text()
    data = (out / "report.html").read_text().split('id="report-data">')[1].split("</script>")[0]
    drawn = json.loads(data)
    assert drawn["members"] == members
    assert all(set(members) < set(series["forecast"]["models"]) for series in drawn["series"])
    assert main(asked) == 0
    assert header(out / "forecast.csv")[2:] == ["auto", *bounds]


def test_resume_without_a_checkpoint_is_said(sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert forecast(sales, tmp_path / "out", "--model", "dlinear", "--resume") == 0
    assert "no checkpoint of this run to resume" in capsys.readouterr().out
    made = json.loads((tmp_path / "out" / "run.json").read_text())["command"]
    assert made.startswith("rearview forecast ")
    assert "--resume" not in made


def test_the_demo_writes_its_data_and_runs_the_main_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rearview.commands import demo

    asked: list[Any] = []
    monkeypatch.setattr(
        demo,
        "forecast_into",
        lambda folder, job, command: asked.extend((folder, job, command, pd.read_csv(job.file))) or 0,
    )
    out = tmp_path / "new" / "demo"
    assert main(["demo", "--out", str(out), "--seed", "3"]) == 0
    folder, job, command, data = asked
    assert folder.path == out
    assert command == f"rearview demo --out {out} --seed 3"
    assert data.shape == (2 * 365 * 24, 8)
    assert job.spec.seed == 3


def test_an_attention_nobody_has_a_place_for_is_refused_or_noted(
    sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert forecast(sales, tmp_path / "out", "--model", "dlinear", "--attention", "rbca") == 1
    assert "dlinear has no attention to replace" in capsys.readouterr().err
    assert forecast(sales, tmp_path / "out", "--model", "patchtst,dlinear", "--attention", "rbca") == 0
    assert "dlinear: no attention to replace" in " ".join(capsys.readouterr().out.split())


def test_a_backtest_of_some_series_alone_has_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rearview.estimators.auto import fit

    monkeypatch.setattr(fit, "MOST_BACKTESTED", 2)
    days = pd.date_range("2024-01-01", periods=40, freq="D").astype(str)
    lines = [f"s{series},{day},{10 + series + row % 7}" for series in range(5) for row, day in enumerate(days)]
    (tmp_path / "long.csv").write_text("\n".join(["unique_id,ds,y", *lines]))
    assert (
        main(["forecast", str(tmp_path / "long.csv"), "--horizon", "3", "--quick", "--out", str(tmp_path / "out")]) == 0
    )
    assert (tmp_path / "out" / "report.html").exists()


def test_members_that_run_out_of_time_are_named_and_every_series_has_a_forecast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rearview.estimators.auto import deadline, fit

    monkeypatch.setattr(deadline, "MANY", 2)
    monkeypatch.setattr(fit, "count_seconds_left", lambda *_: 0.0)
    days = pd.date_range("2024-01-01", periods=40, freq="D").astype(str)
    values = np.random.default_rng(0).normal(size=(5, 40)).cumsum(axis=1)
    lines = [f"s{series},{day},{values[series, row]}" for series in range(5) for row, day in enumerate(days)]
    (tmp_path / "long.csv").write_text("\n".join(["unique_id,ds,y", *lines]))
    out = tmp_path / "out"
    assert main(["forecast", str(tmp_path / "long.csv"), "--horizon", "3", "--quick", "--out", str(out)]) == 0
    made = pd.read_csv(out / "forecast.csv")
    assert len(made) == 5 * 3
    assert np.isfinite(made[bounds("auto")].to_numpy()).all()
    notes = json.loads((out / "run.json").read_text())["notes"]
    assert "glance: no time left for 4 of 5 series, where the others weigh more." in notes
    assert "; no time left for 4 of 5 series" in (out / "report.html").read_text()
    again = Forecaster.load(out / "model").predict()
    np.testing.assert_allclose(again["auto"], made["auto"], rtol=1e-5)


def test_members_of_a_portfolio_are_forecast_with_by_name(sales: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = ["--horizon", "5", "--windows", "2", "--model", "theta,ridge"]
    assert main(["forecast", str(sales), "--out", str(out), *asked]) == 0
    assert header(out / "forecast.csv") == ["unique_id", "ds", *bounds("theta"), *bounds("ridge")]
    run = json.loads((out / "run.json").read_text())
    assert {name: model["baseline"] for name, model in run["models"].items()} == {
        "theta": False,
        "ridge": False,
        "seasonal_naive": True,
    }
    assert "beat" in run["verdict"] or "level with" in run["verdict"]
