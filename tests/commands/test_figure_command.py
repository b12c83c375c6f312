"""`rearview figure`: masks and correlations, trained networks, views of rows, each with a table and a page."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from rearview import bench
from rearview.bench.papers import catalogue
from rearview.cli import main
from rearview.commands.figure import command, plain, rows, trained
from rearview.commands.figure.command import find
from rearview.commands.figure.drawing import FigureOptions
from rearview.core.errors import InputError, SettingsError

LOOKBACK, HORIZON, ROWS = 24, 6, 420
QUICK = {"epochs": 1, "windows_per_epoch": 16, "batch": 8}
SMALL = {"width": 8, "heads": 2, "depth": 2, "feed_forward": 16}
WALK_AHEAD = 3
"""Steps by which the second channel follows the first."""


@pytest.fixture
def waves(tmp_path: Path) -> str:
    """A file of three channels: a slow walk, the same some steps later, and noise."""
    draw = np.random.default_rng(5)
    walk = draw.standard_normal(ROWS + WALK_AHEAD).cumsum()
    cells = np.c_[walk[WALK_AHEAD:], walk[:-WALK_AHEAD], draw.standard_normal(ROWS)]
    stamps = np.datetime64("2021-03-01T00:00") + np.arange(ROWS) * np.timedelta64(1, "h")
    lines = [",".join([str(stamp), *(f"{cell:.4f}" for cell in row)]) for stamp, row in zip(stamps, cells, strict=True)]
    path = tmp_path / "waves.csv"
    path.write_text("\n".join(["date,first,second,noise", *lines]) + "\n")
    return str(path)


def plan(model: str, *attention: object, **more: object) -> dict[str, object]:
    return {
        "model": model, "lookback": LOOKBACK, "horizon": HORIZON, "attention": attention, "settings": SMALL, **more
    }  # fmt: skip


def options(path: str, **more: object) -> FigureOptions:
    return FigureOptions(dataset=path, training=QUICK, device="cpu", **more)


def test_masks_are_one_command(tmp_path, capsys):
    assert main(["figure", "RBCA:fs1", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    # exp f(1) of a power law is 2^-alpha.
    assert re.search(r"^power_law, alpha=1.0 +0\.5000", printed, re.MULTILINE)
    assert "power_law, alpha=1.0 forgets fastest" in printed
    text = (tmp_path / "rbca-FS1.html").read_text(encoding="utf-8")
    found = json.loads(re.search(r'id="report-data">(.*?)</script>', text, re.DOTALL)[1])
    assert [one["title"] for one in found] == ["Added to the scores", "Left of a weight"]
    assert found[0]["views"][0]["series"][4]["y"][1] == pytest.approx(-np.log(2), abs=1e-4)
    assert "rearview figure RBCA:fs1" in text


def test_maps_of_masks_hide_the_future():
    drawn = plain.draw_masks(
        {"tokens": 7, "maps": True, "biases": [{"bias": "power_law", "alpha": 1.0}]}, FigureOptions()
    )
    *_, masked = drawn.figures[-1].views
    assert not np.triu(masked.map, 1).any()
    np.testing.assert_allclose(masked.map.sum(1), 1)


def test_correlation_over_separation_is_that_of_its_definition():
    x = np.random.default_rng(2).standard_normal((101, 2)).cumsum(0)
    found = plain.correlate(np.c_[x, np.full(101, 3.7)], 13)
    centred = x - x.mean(0)
    for lag in (0, 1, 13):
        pairs = centred[: 101 - lag] * centred[lag:]
        np.testing.assert_allclose(found[:2, lag], pairs.mean(0) / centred.var(0), rtol=1e-10)
    assert np.isnan(found[2]).all()


def test_correlation_of_a_file(waves):
    drawn = plain.draw_correlation({"separation": 29, "datasets": ["Weather"]}, FigureOptions(dataset=waves))
    assert [one.name for one in drawn.figures[0].views[0].series] == ["first", "second", "noise"]
    assert drawn.figures[0].views[0].series[0].y[0] == 1
    assert abs(drawn.figures[0].views[0].series[2].y[1]) < 0.2


def test_maps_and_their_difference(waves):
    drawn = trained.draw_maps(plan("itransformer", "softmax", "prime"), options(waves))
    views = {view.name: view for view in drawn.figures[0].views}
    assert len(views) == 6
    before, after, moved = (views[f"layer 2, {name}"] for name in ("softmax", "prime", "prime - softmax"))
    np.testing.assert_allclose(after.map - before.map, moved.map)
    np.testing.assert_allclose(before.map.sum(1), 1, rtol=1e-6)
    assert before.labels[:3] == ("first", "second", "noise")
    assert len(before.labels) == len(before.map)
    assert "prime moves" in drawn.verdict


def test_the_title_says_where_another_data_set_was_drawn(tmp_path, monkeypatch):
    drawing = rows.Drawing(verdict="So.", table=rows.tabulate("T", ["a"], [["b"]]), figures=())
    monkeypatch.setitem(command.KINDS, "maps", (lambda declared, options: drawing, command.TRAINING))
    titles = []
    monkeypatch.setattr(command, "write", lambda path, summary: titles.append(summary.title) or path)
    for given in ([], ["--dataset", "weather"], ["--dataset", "ETTh2"]):
        assert main(["figure", "prime:F5", *given, "--out", str(tmp_path)]) == 0
    plain_title = "prime:F5: Attention maps of softmax, prime and their difference, Weather"
    assert titles == [plain_title, plain_title, f"{plain_title} (here ETTh2)"]


def test_maps_refuse_operators_that_add_up(waves):
    with pytest.raises(SettingsError, match="several operators"):
        trained.draw_maps(plan("patchtst", "softmax", "mica"), options(waves))


def test_weights_with_and_without_the_mask(waves):
    asked = plan("patchtst", "softmax", {"name": "rbca", "alpha": 2.0})
    asked["settings"] = {**SMALL, "patch": 4, "stride": 2}
    arms = trained.train_arms(asked, options(waves))
    network = arms[1].trial.network
    batch = arms[1].windows(trained.FEW_WINDOWS)
    with torch.no_grad():
        weights = network.eval().weights(batch.past)
    for layer, own in zip(trained.read_layers(arms[1]), weights, strict=True):
        np.testing.assert_allclose(layer.weights, own.flatten().numpy(), rtol=1e-5)
        assert layer.causal_share(layer.weights) == 1
        assert layer.causal_share(layer.bare) < 1
        # The mask times the bare weights, row by row, is what the layer has; the last layer adds up both masks.
    first = trained.read_layers(arms[1])[0]
    age, tokens = first.age.reshape(-1, own.shape[-1], own.shape[-1]), own.shape[-1]
    masked = first.bare.reshape(age.shape) * np.where(age >= 0, (1.0 + np.abs(age)) ** -2.0, 0)
    np.testing.assert_allclose((masked / masked.sum(-1, keepdims=True)).ravel(), first.weights, rtol=1e-4, atol=1e-9)
    assert tokens > 3
    drawn = trained.draw_ages(asked, options(waves))
    assert [figure.title for figure in drawn.figures] == [
        "Weight by age", "Distribution of weights", "Distribution of scores",
    ]  # fmt: skip
    assert "the scores alone put" in drawn.verdict


def test_forecasts_beside_what_came(waves):
    asked = plan("patchtst", "softmax", {"name": "rbca", "alpha": 1.0})
    asked["settings"] = {**SMALL, "patch": 4, "stride": 2}
    drawn = trained.draw_forecasts(asked, options(waves))
    assert len(drawn.figures[0].views) == trained.DRAWN * trained.COLUMNS
    truth, first, second = drawn.figures[0].views[0].series
    assert (truth.name, first.name, second.name) == ("what came", "softmax", "rbca(alpha=1.0)")
    assert (len(truth.x), len(first.x)) == (2 * HORIZON, HORIZON)
    assert len(drawn.table.rows) == 2


def test_paths_of_caps_and_the_error_without_each(waves):
    asked = plan("caps_net", "caps", paths=["riemann", "prefix", "clock"])
    training = {"epochs": 3, "windows_per_epoch": 96, "batch": 8, "learning_rate": 0.03}
    drawn = trained.draw_paths(asked, FigureOptions(dataset=waves, training=training, device="cpu"))
    assert [row[0].text for row in drawn.table.rows] == [
        "every path",
        "without riemann",
        "without prefix",
        "without clock",
    ]
    assert [one.name for one in drawn.figures[0].views[0].series] == ["riemann", "prefix", "clock"]
    assert len({row[1].text for row in drawn.table.rows}) > 1
    lost = [float(row[1].text) / float(drawn.table.rows[0][1].text) for row in drawn.table.rows[1:]]
    sentence = "No path is missed" if max(lost) < trained.MISSED else "The forecast rests most on "
    assert drawn.verdict.startswith(sentence)


def test_a_path_is_missed_only_where_the_error_grows_without_it():
    assert trained.describe_loss({"riemann": 1.02, "clock": 1.5}) == (
        "The forecast rests most on clock: without it the test error is 1.50 times as large."
    )
    assert trained.describe_loss({"riemann": 0.99, "clock": 1.001}).startswith("No path is missed (without clock ")


def test_ranks_over_cost_are_the_papers():
    drawn = rows.draw_ranks(find("mica:F3").draw, FigureOptions())
    found = {row[0].text: row[1].text for row in drawn.table.rows}
    printed = [one for one in catalogue.published.select("mica", "T2") if one.metric == "rank"]
    assert len(found) == len(printed) == 12
    for one in printed:
        name = f"{one.backbone} with MICA" if one.variant.startswith("mica") else one.backbone
        assert float(found[f"{name}, printed"]) == pytest.approx(one.value, abs=0.006), name


def test_gains_are_those_of_printed_numbers_and_of_rows(tmp_path):
    asked = {"tables": ["T13"]}
    made = tmp_path / "rows.csv"
    common = {"protocol": "published:mica", "horizon": 48, "lookback": 96, "dataset": "ETT1_H", "loss": "mae"}
    gate = json.dumps({"exclude_self": False, "gate": "mlp_query", "weighting": "uniform"})
    for attention, settings, error in (("softmax", '{"rotary":false}', 8.0), ("mica", gate, 6.0)):
        row = bench_row(**common, attention=attention, attention_settings=settings, original_mae=error)
        bench.append(made, row)
    drawn = rows.draw_gains(asked, FigureOptions(results=(str(made),)))
    found = {row[0].text: [cell.text for cell in row[1:]] for row in drawn.table.rows}
    assert found["patchtst mlp_query, ours"] == ["1 of 1", "+25.0 %", "+25.0 %", "+25.0 %"]
    assert found["patchtst mlp_query, printed"][0] == "12 of 13"


@pytest.mark.parametrize(
    ("name", "gates", "ends"),
    [("mica:F13", "layerwise, channelwise, shared", (4.77, 6.0)), ("mica:F15", "mlp, mlp_query", (3.23, 4.54))],
)
def test_critical_differences_are_those_of_the_printed_numbers(name, gates, ends, tmp_path, capsys):
    drawn = rows.draw_differences(find(name).draw, FigureOptions())
    found = {row[0].text.removesuffix(", printed"): float(row[1].text) for row in drawn.table.rows}
    assert len(found) == 12
    # The text names the ranks of the best gates: 4.7 to 6.2 and 3.2 to 4.5.
    best = [rank for arm, rank in found.items() if arm.partition(", ")[0] in gates.split(", ")]
    assert min(best) == min(found.values()) == ends[0]
    assert sorted(found.values())[3 if name == "mica:F15" else 4] == ends[1]
    assert "of 66" in drawn.verdict
    assert "at 0.2" in drawn.verdict
    assert main(["figure", name, "--out", str(tmp_path)]) == 0
    page = (tmp_path / f"{name.replace(':', '-')}.html").read_text()
    assert page.count('<svg class="critical"') == 1
    assert page.count('class="bar" x1') >= 1


@pytest.mark.parametrize(("sets", "diagrams"), [(3, 1), (4, 2)])
def test_critical_differences_of_rows_need_sets(sets, diagrams, tmp_path):
    made = tmp_path / "rows.csv"
    cells = catalogue.get("mica", "T13").cells
    for name in list(dict.fromkeys(cell.dataset for cell in cells))[:sets]:
        for cell in cells:
            spec = dict(cell.attention)
            if cell.dataset == name and spec["gate"] in ("mlp", "shared") and not spec["exclude_self"]:
                del spec["name"]
                error = 2.0 if spec["gate"] == "mlp" else 3.0
                bench.append(
                    made,
                    bench_row(
                        protocol="published:mica", horizon=cell.horizon, lookback=cell.lookback, dataset=name,
                        loss="mae", attention="mica", attention_settings=json.dumps(spec), original_mae=error,
                    ),
                )  # fmt: skip
    drawn = rows.draw_differences(find("mica:F15").draw, FigureOptions(results=(str(made),)))
    assert len(drawn.diagrams) == diagrams
    if diagrams == 2:
        assert [cell.text for cell in drawn.table.rows[-2]] == ["mlp, ours", "1.00"]
        assert "pairs that differ at 0.2 (Wilcoxon, after Holm): 1 of 1." in drawn.verdict
    else:
        assert drawn.notes == (
            "Not drawn: ours has 2 gates on 3 data sets, and no difference between so many could be significant at 0.2 "
            "on fewer than 4.",
        )


def test_files_of_rows_are_named_on_the_command_line(tmp_path, capsys):
    for seed, (name, error) in enumerate((("one.csv", 0.25), ("two.csv", 0.75))):
        for primed in (False, True):
            settings = json.dumps({"density": 0.5, "primed": primed})
            row = bench_row(model="gat", attention="gat", settings=settings, mse=error, seed=seed)
            bench.append(tmp_path / name, row)
    one, two, pattern = (str(tmp_path / name) for name in ("one.csv", "two.csv", "*.csv"))
    for results, error in (([one], "0.2500"), ([pattern], "0.5000"), ([one, two], "0.5000")):
        assert main(["figure", "prime:F4", "--results", *results, "--out", str(tmp_path / "page")]) == 0
        assert error in capsys.readouterr().out


def bench_row(**changes: object) -> bench.Row:
    from small import row

    return row(**changes)


def test_rows_keep_curves_and_a_figure_draws_them(waves, tmp_path):
    made = tmp_path / "rows.csv"
    for seed in (0, 1):
        row = bench.run(
            waves, "dlinear", horizon=HORIZON, lookback=LOOKBACK, seed=seed, results=made, device="cpu",
            training={"epochs": 3, "windows_per_epoch": 16, "batch": 8},
        )  # fmt: skip
    curve = json.loads(row.curve)
    assert len(curve["train"]) == len(curve["validation"]) == 3
    assert min(curve["validation"]) == pytest.approx(row.validation_loss, rel=1e-5)
    assert [json.loads(one.curve) for one in bench.read(made)][1] == curve
    drawn = rows.draw_curves({}, FigureOptions(results=(str(made),)))
    assert [cell.text for cell in drawn.table.rows[0]][1] == "2"
    assert [len(one.y) for one in drawn.figures[0].views[0].series] == [3, 3]
    with pytest.raises(InputError, match="No row holds a curve"):
        rows.draw_curves({}, FigureOptions())


def test_curves_say_when_validation_is_least(tmp_path):
    made = tmp_path / "rows.csv"
    courses = {"softmax": (3.0, 2.0, 1.5), "rbca": (1.25, 2.0, 3.0), "caps": (2.0, 1.0, 4.0)}
    for attention, course in courses.items():
        curve = json.dumps({"train": course, "validation": course})
        bench.append(made, bench_row(attention=attention, curve=curve))
    counts = "the validation loss is least in the last epoch for 1, and within the first half for 1."
    verdict = rows.draw_curves({}, FigureOptions(results=(str(made),))).verdict
    assert verdict.startswith(f"3 runs with curves, 3 candidates: {counts} The least mean is 1.0000, ")
    assert verdict.endswith("at epoch 2 of 3.")
    bench.append(made, bench_row(dataset="Other", curve=json.dumps({"train": [0.5], "validation": [0.5]})))
    verdict = rows.draw_curves({}, FigureOptions(results=(str(made),))).verdict
    places = "over 2 combinations of data set, look-back, horizon and protocol"
    assert verdict == f"4 runs with curves, 4 candidates {places}: {counts}", "losses of other data don't compare"


@pytest.mark.parametrize(
    ("asked", "runs"), [(None, 3), ("Sales.csv", 2), ("sales.csv@0f1e", 1), ("small", 1), ("b", 0)]
)
def test_rows_of_a_file_are_chosen_by_its_name(asked, runs, tmp_path):
    made = tmp_path / "rows.csv"
    for name in ("sales.csv@0f1e", "sales.csv@77aa", "Small"):
        bench.append(made, bench_row(dataset=name))
    assert len(rows.read_rows(FigureOptions(dataset=asked, results=(str(made),)))) == runs


def gat_row(error: float = 0.3, **changes: object) -> bench.Row:
    """A row of graph attention; settings of the network by name, other columns under `columns`."""
    columns = {"channels": 7, "peak_memory_bytes": 2**20, "windows_per_second": 50.0, **changes.pop("columns", {})}
    settings = {"width": 13, "density": 1.0, "primed": False, "expander": False, **changes}
    mechanism = json.dumps({"primed": settings["primed"]})
    return bench_row(
        model="gat", attention="gat", attention_settings=mechanism, settings=json.dumps(settings), mse=error, **columns
    )


def draw_density(folder, *given: bench.Row):
    made = folder / "rows.csv"
    for one in given:
        bench.append(made, one)
    return rows.draw_density({}, FigureOptions(results=(str(made),)))


def test_density_tells_where_primed_attention_is_as_good(tmp_path):
    errors = {(0.5, False): 0.3, (1.0, False): 0.2, (0.5, True): 0.25, (0.75, True): 0.2, (1.0, True): 0.1}
    primed_costs = {"peak_memory_bytes": 3 * 2**20, "windows_per_second": 20.0}
    drawn = draw_density(
        tmp_path,
        *(
            gat_row(error, density=density, primed=primed, columns=primed_costs if primed else {})
            for (density, primed), error in errors.items()
        ),
    )
    assert "from a density of 0.75 on (0.2000)" in drawn.verdict
    assert "There it takes 3.00 times the memory and 2.50 times the time" in drawn.verdict
    assert [row[0].text for row in drawn.table.rows] == ["0.5", "0.75", "1"]
    assert drawn.table.rows[0][3].text == "20.00"  # milliseconds a window
    assert len(drawn.notes) == 1
    with pytest.raises(InputError, match="--table density"):
        rows.draw_density({}, FigureOptions())


def test_an_expander_graph_stands_beside_random_ones_with_its_density(tmp_path):
    drawn = draw_density(
        tmp_path,
        gat_row(0.5, density=0.25),
        gat_row(0.7, density=0.25, primed=True),
        gat_row(0.11, expander=True),
        gat_row(0.13, expander=True, primed=True),
    )
    *_, (name, *_, plain, primed) = drawn.table.rows
    assert (name.text, plain.text, primed.text) == ("expander (0.43)", "0.1100", "0.1300")  # 18 of 42 pairs
    assert "links 42.9 % of the pairs of 7 channels" in drawn.notes[1]
    assert [one.x.tolist() for one in drawn.figures[0].views[0].series] == [[0.25], [0.25]], "no line joins the two"


def test_densities_of_other_data_and_settings_are_not_averaged(tmp_path):
    others = (gat_row(0.9, width=17), gat_row(0.8, columns={"dataset": "Other"}), gat_row(0.7, columns={"horizon": 5}))
    wanted = [
        gat_row(0.2 + density, density=density, primed=primed) for density in (0.1, 1.0) for primed in (False, True)
    ]
    drawn = draw_density(tmp_path, *others, *wanted, gat_row(1.4, columns={"seed": 5}))
    assert [row[-2].text for row in drawn.table.rows] == ["0.3000", "1.300"]  # 1.3 of seeds 3 and 5
    assert drawn.notes[-1] == "3 rows of gat with other data or settings left out."
    assert drawn.facts == (("Data", "Small, 29 steps to 7"),)


@pytest.mark.parametrize(
    ("arguments", "sentence", "code"),
    [
        ("prime:F55", "There is no figure 'prime:F55'. Did you mean", 1),
        ("rbca:F1", "rbca:F1 (The mechanism in a block) is not drawn by this command: a drawing of the method", 1),
        ("prime:F1", "`rearview reproduce prime --table lookback` makes it", 1),
        ("rbca:FS1 --seed 3 --train epochs=1", "rbca:FS1 has no use for --train and --seed", 2),
        ("mica:F3 --dataset ETTh1", "mica:F3 has no use for --dataset; it takes --results.", 2),
    ],
)
def test_what_can_not_be_drawn_is_said(arguments, sentence, code, tmp_path, capsys):
    assert main(["figure", *arguments.split(), "--out", str(tmp_path)]) == code
    assert sentence in capsys.readouterr().err
