"""The figures of the findings: values land where they should, what is missing is said, nothing is invented."""

import csv
import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.usefixtures("benchmark_scripts")
SVG = "{http://www.w3.org/2000/svg}"
TOA = {"bias": None, "kind": "gated", "score_norm": "none", "sor": True}


@pytest.fixture
def figures() -> ModuleType:
    return import_module("figures")


def forecast(
    attention: str, mse: float | str, seed: int = 0, inside: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    row = {
        "dataset": "ETTh1", "protocol": "clean", "lookback": 336, "horizon": 96, "model": "patchtst",
        "attention": attention, "attention_settings": json.dumps(inside or {}), "training": '{"epochs": 30}',
        "settings": "{}", "seed": seed, "mse": mse, "original_mae": mse, "status": "done",
    }  # fmt: skip
    return row | more


def keep(place: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with place.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def drawn(figures: ModuleType, folder: Path, name: str) -> ElementTree.Element:
    assert figures.draw_figures(folder, folder / "figures", [name]) == [f"{folder / 'figures' / name}.svg is drawn."]
    return ElementTree.parse(folder / "figures" / f"{name}.svg").getroot()


def circles(root: ElementTree.Element) -> list[tuple[float, float, str]]:
    """Of each dot: x, y, colour."""
    return [
        (float(dot.attrib["cx"]), float(dot.attrib["cy"]), dot.attrib["stroke"]) for dot in root.iter(f"{SVG}circle")
    ]


def words(root: ElementTree.Element) -> dict[str, tuple[float, float]]:
    """The place of everything that is written."""
    return {str(each.text): (float(each.attrib["x"]), float(each.attrib["y"])) for each in root.iter(f"{SVG}text")}


def test_the_latest_row_of_a_run_counts_in_whichever_file(benchmark_scripts, tmp_path):
    evidence = import_module("_evidence")
    early, late = {"created": "2026-01-02T03:04:05+00:00"}, {"created": "2026-02-02T03:04:05+00:00"}
    keep(tmp_path / "mechanisms.csv", [forecast("prime", 0.5, **late), forecast("softmax", 0.3, **early)])
    keep(tmp_path / "a.csv", [forecast("softmax", 0.4, **late), forecast("rbca", 0.1, **late)])
    keep(tmp_path / "z.csv", [forecast("prime", 0.6, **early), forecast("softmax", 0.2, 1, **late)])
    found = {row["attention"]: row["mse"] for row in evidence.rows(tmp_path, "mechanisms", "mse")}
    assert found == {"prime": "0.5", "softmax": "0.4"}


def test_runs_lie_in_the_strip_of_their_attention_in_the_order_of_their_errors(figures, tmp_path):
    errors = {"softmax": (0.378, 0.380), "prime": (0.376, 0.377), "mica": (0.379, 0.381)}
    keep(
        tmp_path / "mechanisms.csv",
        [forecast(who, mse, seed) for who, both in errors.items() for seed, mse in enumerate(both)],
    )
    root = drawn(figures, tmp_path, "mechanisms")
    said = words(root)
    colours = import_module("_evidence").COLOURS
    where = {who: [x for x, _, colour in circles(root) if colour == colours[who]] for who in errors}
    for who, both in errors.items():
        name = "mica, MLP-query" if who == "mica" else who
        own = [y for _, y, colour in circles(root) if colour == colours[who]]
        assert own == pytest.approx([said[name][1] - 4] * 2)
        assert said[f"{sum(both) / 2:.4f}"][1] == said[name][1]
    places = {mse: x for who, both in errors.items() for mse, x in zip(both, where[who], strict=True)}
    assert sorted(places.values()) == [places[mse] for mse in sorted(places)]
    level = next(line for line in root.iter(f"{SVG}line") if line.get("class") == "level")
    assert float(level.attrib["x1"]) == pytest.approx((places[0.378] + places[0.380]) / 2, abs=0.1)


def test_what_lies_far_off_is_said_and_does_not_squeeze_the_axis(figures, tmp_path):
    keep(
        tmp_path / "mechanisms.csv",
        [forecast("softmax", 0.378), forecast("rbca", 0.379), forecast("toa", 0.7072, inside=TOA)],
    )
    root = drawn(figures, tmp_path, "mechanisms")
    assert "off the axis: 0.7072" in words(root)
    (softmax, *_), (rbca, *_) = circles(root)
    assert rbca - softmax > 20


def test_rows_that_failed_or_came_again_are_not_drawn(figures, tmp_path):
    keep(
        tmp_path / "mechanisms.csv",
        [
            forecast("softmax", 0.5),
            forecast("softmax", 0.378),
            forecast("prime", 0.377),
            forecast("caps", "", status="failed"),
            forecast("rbca", "nan"),
        ],
    )
    root = drawn(figures, tmp_path, "mechanisms")
    assert len(circles(root)) == 2
    assert not {"caps", "rbca, power law", "0.5000"} & set(words(root))


def test_every_cell_has_its_panel(figures, tmp_path):
    cells = [("ETTh1", 96), ("ETTh2", 96), ("ETTh1", 336)]
    rows = [forecast(who, 0.3, dataset=name, horizon=ahead) for name, ahead in cells for who in ("softmax", "caps")]
    keep(tmp_path / "mechanisms.csv", rows)
    said = words(drawn(figures, tmp_path, "mechanisms"))
    assert {f"{name}, horizon {ahead}" for name, ahead in cells} <= set(said)


def test_missing_and_thin_files_are_said(figures, tmp_path):
    said = figures.draw_figures(tmp_path, tmp_path / "figures", list(figures.FIGURES))
    assert all("is left out: there is no" in sentence for sentence in said)
    assert not list((tmp_path / "figures").iterdir())
    keep(tmp_path / "caps.csv", [forecast("caps", 0.378, model="caps_net")])
    keep(tmp_path / "mica.csv", [forecast("mica", 0.378)])
    caps, mica = figures.draw_figures(tmp_path, tmp_path / "figures", ["caps", "mica"])
    assert caps.startswith("caps.svg is left out: there are no two attentions")
    assert mica.startswith("mica.svg is left out: mica.csv has no gate beside softmax")


def test_gates_are_drawn_relative_to_softmax_in_the_same_network(figures, tmp_path):
    gate = {"gate": "shared", "local": "softmax"}
    rows = [
        forecast("softmax", 10.0),
        forecast("mica", 11.0, inside=gate),
        forecast("softmax", 20.0, model="moment"),
        forecast("mica", 19.0, inside=gate, model="moment"),
    ]
    keep(tmp_path / "mica.csv", [row | {"protocol": "published:mica"} for row in rows])
    root = drawn(figures, tmp_path, "mica")
    level = next(float(line.attrib["x1"]) for line in root.iter(f"{SVG}line") if line.get("class") == "level")
    dot = circles(root)[-1][0]
    square = [shape.attrib["points"] for shape in root.iter(f"{SVG}polygon")][-1]
    centre = sum(float(pair.split(",")[0]) for pair in square.split()) / 4
    assert dot - level == pytest.approx(2 * (level - centre), abs=0.5)


def test_strengths_stand_over_one_another_and_softmax_is_a_level(figures, tmp_path):
    keep(tmp_path / "mechanisms.csv", [forecast("softmax", 0.377), forecast("softmax", 0.379, seed=1)])
    swept = {0.1: 0.380, 0.5: 0.381, 1.0: 0.383}
    inside = [{"bias": "power_law", "alpha": alpha} for alpha in swept]
    keep(
        tmp_path / "rbca.csv",
        [forecast("rbca", mse, inside=each) for each, mse in zip(inside, swept.values(), strict=True)],
    )
    root = drawn(figures, tmp_path, "rbca")
    dots = sorted(circles(root))
    assert [y for _, y, _ in dots] == sorted((y for _, y, _ in dots), reverse=True)
    level = next(float(line.attrib["y1"]) for line in root.iter(f"{SVG}line") if line.get("class") == "level")
    assert level > max(y for _, y, _ in dots)


def test_detection_stands_beside_chance(figures, tmp_path):
    row = {
        "dataset": "SMAP", "protocol": "clean", "model": "itransformer", "attention": "softmax",
        "attention_settings": "{}", "settings": '{"normalise": "revin"}', "training": "{}", "balance": 1, "seed": 0,
        "rows": 1000, "anomalous": 128, "adjusted_f1": 0.65, "adjusted_f1_by_chance": 0.95, "auc_pr": 0.11,
    }  # fmt: skip
    theirs = row | {"protocol": "published:tslib", "balance": 0, "auc_pr": ""}
    lost = row | {"attention": "prime", "rows": 0, "anomalous": 0, "adjusted_f1": "", "auc_pr": "", "status": "failed"}
    keep(tmp_path / "detection.csv", [row | {"status": "done"}, theirs | {"status": "done"}, lost])
    root = drawn(figures, tmp_path, "detection")
    said = words(root)
    assert "SMAP: 12.8 % of the test rows are anomalies" in said
    assert {"F1, clean", "F1, published:tslib", "AUC-PR, clean"} <= set(said)
    assert not {"softmax, not balanced", "prime"} & set(said)
    dots = circles(root)[1:]  # the first one stands in the legend
    assert len(dots) == 3
    assert dots[2][0] < next(
        float(line.attrib["x1"]) for line in root.iter(f"{SVG}line") if line.get("class") == "level"
    )


def test_gains_are_taken_seed_by_seed(figures, tmp_path):
    row = forecast("softmax", "", model="patchtst_tslib", dataset="Libras") | {"accuracy": 0.7}
    relu = row | {"attention": "toa", "attention_settings": '{"kind": "relu"}'}
    keep(
        tmp_path / "classification.csv",
        [
            row,
            row | {"seed": 1, "accuracy": 0.5},
            relu | {"accuracy": 0.8},
            relu | {"seed": 1, "accuracy": 0.6},
            relu | {"accuracy": "", "status": "failed"},
            row | {"attention": "hyperglu", "accuracy": "", "status": "failed"},
        ],
    )
    root = drawn(figures, tmp_path, "classification")
    shapes = [shape.attrib["points"] for shape in root.iter(f"{SVG}polygon")][3:]  # after the legend's own
    assert len(shapes) == 2
    assert len(set(shapes)) == 1, "both seeds gain ten points, so they lie on one another"
    assert "60.0" in words(root)


def test_a_step_is_compared_with_the_softmax_of_its_own_time(figures, tmp_path):
    row = {"host": "patchtst-16", "model": "patchtst_tslib", "mode": "captured", "device": "a GPU"}
    steps = [("softmax", 4.0, 10), ("caps", 8.0, 10), ("softmax", 2.0, 12), ("rbca", 3.0, 12)]
    keep(
        tmp_path / "train_step.csv",
        [
            row | {"attention": who, "ms_per_step": ms, "created": f"2026-01-01T{hour}:00:00+00:00"}
            for who, ms, hour in steps
        ],
    )
    root = drawn(figures, tmp_path, "cost")
    (softmax, *_), (rbca, *_), (caps, *_) = circles(root)
    assert (caps - softmax) == pytest.approx(2 * (rbca - softmax), abs=0.2)


def test_curves_of_a_study_are_drawn_by_rate(figures, tmp_path, monkeypatch):
    def run(arm: str, rate: float, size: str, values: Sequence[float]) -> SimpleNamespace:
        curve = [SimpleNamespace(step=100 * at, metric="sparse", value=value) for at, value in enumerate(values, 1)]
        training = json.dumps({"learning_rate": rate})
        row = SimpleNamespace(arm=arm, size=size, training=training, steps=100 * len(values))
        return SimpleNamespace(row=row, curve=curve)

    runs = [
        run("alibi", 1e-5, "full", [0.6, 0.9, 0.9]),
        run("mha", 1e-5, "full", [0.5, 0.5]),
        run("alibi", 1e-5, "full", [0.1]),
        run("mha", 1e-3, "reduced", [1, 1]),
    ]
    monkeypatch.setattr(import_module("_figures_synthetic"), "_read_runs", lambda study, folder: runs)
    root = drawn(figures, tmp_path, "flipflop")
    said = words(root)
    assert "learning rate 0.00001 (the paper's)" in said
    assert not any("0.001" in each for each in said)
    assert said["ALiBi"][1] < said["none"][1]


def test_figures_of_the_kept_results_are_well_formed(figures, benchmark_scripts, tmp_path):
    results = benchmark_scripts.parent / "results"
    said = figures.draw_figures(results, tmp_path, list(figures.FIGURES))
    made = sorted(tmp_path.glob("*.svg"))
    assert len(made) == sum(sentence.endswith("is drawn.") for sentence in said)
    assert len(made) >= 10
    for place in made:
        root = ElementTree.parse(place).getroot()
        assert root.attrib["width"] == "760"
        for text in root.iter(f"{SVG}text"):
            assert 0 <= float(text.attrib["x"]) <= 760


def test_names_beside_lines_do_not_touch_nor_leave_the_axis() -> None:
    spread = import_module("_curves").spread
    found = spread([30, 31, 100, 199, 200, 200], 28, 200)
    assert found[2] == 100
    assert all(after - before >= 14 - 1e-9 for before, after in pairwise(found))
    assert found[0] >= 28
    assert found[-1] <= 200


@pytest.mark.parametrize("ends", [(0.3742, 0.3851), (-23.0, 33.0), (0.0, 1.0), (2.5e-7, 2.9e-7), (1.0, 9e5)])
def test_ticks_are_round_and_inside(ends) -> None:
    svg = import_module("_svg")
    found = svg.ticks(svg.Scale(*ends, 100, 400))
    assert 2 <= len(found) <= 8
    assert all(ends[0] <= value <= ends[1] for value, _ in found)
    assert len({words for _, words in found}) == len(found)


def test_strips_of_panels_are_merged_in_their_order() -> None:
    merge_keys = import_module("_strips").merge_keys
    first = [("", "softmax"), ("a", "one"), ("a", "three"), ("b", "one")]
    second = [("a", "one"), ("a", "two"), ("c", "one"), ("b", "one")]
    assert merge_keys([first, second]) == [*first[:2], ("a", "two"), first[2], ("c", "one"), first[3]]


def test_glance_is_drawn_by_budget_with_softmax_as_the_level(figures, tmp_path):
    def row(attention: str, seed: int, kind: str, updates: int, seconds: float, mase: float) -> dict[str, Any]:
        return {
            "attention": attention, "seed": seed, "kind": kind, "updates": updates, "seconds": seconds,
            "development_mase": mase,
        }  # fmt: skip

    rows = [
        row("softmax", 0, "updates", 1008, 3.0, 1.5), row("softmax", 1, "updates", 1008, 3.0, 1.3),
        row("rbca:learnable=True", 0, "updates", 1008, 5.0, 1.1),
        row("softmax", 0, "time", 3000, 20.1, 0.9), row("rbca:learnable=True", 0, "time", 2000, 21.9, 0.8),
        row("linear", 0, "updates", 9000, 60.0, 0.7),
    ]  # fmt: skip
    keep(tmp_path / "glance_attention.csv", rows)
    root = drawn(figures, tmp_path, "glance")
    written = words(root)
    assert {"After 1,000 updates", "After 20 seconds on one GPU", "1.400", "rbca, learnable=True"} <= set(written)
    assert "After 9,000 updates" not in written, "an attention alone has nothing to stand beside"
    assert len(circles(root)) == 5
    assert written["After 1,000 updates"][0] < written["After 20 seconds on one GPU"][0]


def test_glance_without_rows_is_left_out(figures, tmp_path):
    assert figures.draw_figures(tmp_path, tmp_path, ["glance"]) == [
        "glance.svg is left out: there is no glance_attention.csv."
    ]
