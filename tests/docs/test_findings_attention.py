"""Numbers of the findings on attention are those of the rows under results/, counted as the page counts them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from statistics import mean

import pytest

from rearview.bench.analysis import coverage, leaderboard
from rearview.bench.analysis.ablation import Ablation, find_ablations
from rearview.bench.rows.row import ClassificationRow, Row, RunRow
from rearview.commands import report
from rearview.core.grouping import group_by
from rearview.report.results import papers

ROOT = Path(__file__).parents[2]
SETS = ("ETTh1", "ETTh2")


@pytest.fixture(scope="module")
def files() -> report.ResultFiles:
    return report.read(sorted(map(str, (ROOT / "results").glob("*.csv"))))


@pytest.fixture(scope="module")
def runs(files: report.ResultFiles) -> list[RunRow]:
    return [row for made in files.rows.values() for row in leaderboard.latest_runs(made)]


def read_table(page: str, heading: str, number: int = 0) -> list[list[str]]:
    """The cells of a section's table, without emphasis and the line below its heads."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").split(f"\n{heading}\n")[1]
    text = re.split(r"\n#", text)[0]
    lines = re.findall(r"(?:^\|.*\n)+", text, flags=re.M)[number].replace("*", "").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "---" not in line]


def numbers(text: str) -> list[float]:
    return [float(one) for one in re.findall(r"[-+]?\d+(?:\.\d+)?(?:e-\d+)?", text.replace(",", " "))]


def pick(rows: list[RunRow], **wanted: object) -> list[Row]:
    """Forecasting rows with these columns; settings of mechanism and training by name."""

    def fits(row: RunRow) -> bool:
        if not isinstance(row, Row):
            return False
        known = {**json.loads(row.settings), **json.loads(row.training), **json.loads(row.attention_settings)}
        known |= {name: getattr(row, name) for name in row.columns()}
        return all(known.get(name, False) == value for name, value in wanted.items())

    return [row for row in rows if fits(row)]


PATCHTST = {
    "model": "patchtst", "lookback": 336, "horizon": 96, "protocol": "clean", "width": 16, "feed_forward": 128,
}  # fmt: skip
ARMS: dict[str, dict[str, object]] = {
    "softmax": {"attention": "softmax"},
    "prime": {"attention": "prime"},
    "caps": {"attention": "caps"},
    "toa softmax": {"attention": "toa", "kind": "softmax", "bias": None},
    "rbca (power law 0.5)": {"attention": "rbca", "bias": "power_law", "alpha": 0.5},
    "mica (MLP-query)": {"attention": "mica", "local": "softmax"},
    "toa gated, l2": {"attention": "toa", "kind": "gated", "score_norm": "l2"},
    "toa gated, as printed": {"attention": "toa", "kind": "gated", "score_norm": "none"},
}


def test_the_arms_at_the_rate_that_validation_chose(runs: list[RunRow]) -> None:
    alike = pick(runs, **PATCHTST, epochs=30, patience=None, optimiser="adam", weight_decay=0.0)
    checked = 0
    for name, *cells in read_table("findings-attention.md", "### With the rate chosen on validation"):
        if name in ARMS:
            for dataset, tested, validated in zip(SETS, cells[0:4:2], cells[1:4:2], strict=True):
                own = pick(alike, dataset=dataset, **ARMS[name])
                by_rate = group_by(own, lambda row: json.loads(row.training)["learning_rate"])
                assert {rate: len(rows) for rate, rows in by_rate.items()} == dict.fromkeys((1e-4, 3e-4, 1e-3), 3), name
                best = min(by_rate, key=lambda rate: mean(row.validation_loss for row in by_rate[rate]))
                assert numbers(tested) == [best, round(mean(row.mse for row in by_rate[best]), 4)], (name, dataset)
                loss = mean(row.validation_loss for row in by_rate[best])
                assert numbers(validated) == [round(loss, 4)], (name, dataset)
                checked += 1
    assert checked == 2 * len(ARMS)


def test_protocol_and_settings_two_by_two(runs: list[RunRow]) -> None:
    section = "### Protocol, settings, mask and bias: what is worth what"
    _, *lines = read_table("findings-attention.md", section)
    masks = (
        {"attention": "softmax"},
        {"attention": "rbca", "bias": "causal"},
        {"attention": "rbca", "bias": "power_law"},
    )
    assert len(lines) == 4
    for name, *cells in lines:
        protocol = "published:rbca" if "published" in name else "clean"
        optimiser = "adam" if "released" in name else "adamw"
        places = [(dataset, mask) for dataset in SETS for mask in masks]
        for (dataset, mask), cell in zip(places, cells, strict=True):
            wanted = {
                **PATCHTST,
                "protocol": protocol,
                "dataset": dataset,
                "optimiser": optimiser,
                "epochs": 100,
                **mask,
            }
            rate = 1e-3 if (optimiser, dataset) == ("adamw", "ETTh1") else 1e-4
            own = pick(runs, **wanted, learning_rate=rate)
            assert len(own) == 3, (name, dataset, mask)
            assert numbers(cell) == [round(mean(row.mse for row in own), 4)], (name, dataset, mask)


@pytest.fixture(scope="module")
def ablations(files: report.ResultFiles) -> list[Ablation]:
    return find_ablations(
        [board for task, rows in files.rows.items() for board in leaderboard.build_boards(task, rows)]
    )


PLACES = {"six roads": "traffic_6of862", "seven households": "electricity_7of321", "ETTh": "ETTh", "ETTm1": "ETTm1"}


def test_attention_against_the_best_control(ablations: list[Ablation]) -> None:
    _, *lines = read_table("findings.md", "## Does attention earn its place?")
    text = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    assert f"all {ablations[0].comparisons} comparisons" in text
    network, checked = "", 0
    for where, data, _, softmax, best, seeds in lines:
        network = where.split(",")[0].lower() or network
        dataset = next((name for place, name in PLACES.items() if data.startswith(place)), None)
        if network not in ("itransformer", "patchtst") or dataset is None:
            continue
        dataset = data.split(",")[0] if dataset == "ETTh" else dataset
        [own] = [one for one in ablations if one.place.model == network and one.place.dataset.startswith(dataset)]
        arms = {arm.name: arm for arm in own.mechanisms}
        assert intervals(softmax) == spell(arms["softmax"]), data
        if best != "not run":
            assert intervals(best) == spell(
                next(arm for name, arm in arms.items() if name in ("prime", "prime(free=True)"))
            )
        assert int(seeds) == arms["softmax"].seeds
        checked += 1
    assert checked == 7


def intervals(cell: str) -> tuple[float, ...]:
    return tuple(numbers(cell.removeprefix("prime")))


def spell(arm: object) -> tuple[float, ...]:
    against = arm.against  # type: ignore[attr-defined]
    return tuple(round(value, 1) + 0.0 for value in (against.mean, against.low, against.high))


def test_each_printed_number_is_counted_once(files: report.ResultFiles) -> None:
    compared = [
        one
        for task, rows in files.rows.items()
        for one in coverage.compare_all(task, rows)
        if one.verdict in ("reproduced", "better", "worse")
    ]
    counts = papers.judge_numbers(compared)
    some = len({id(one.number) for one in compared if one.verdict == "reproduced"}) - counts["reproduced"]
    made = len({row for one in compared for row in one.rows})
    [line] = [row[1] for row in read_table("findings.md", "## How it was counted") if row[0] == "printed numbers"]
    assert (
        f"{counts.total()} have a run of ours, {counts['reproduced']} are reproduced by every run that compares with "
        f"them, {some} more by some ({made:,} runs)"
    ) in line


def test_gated_classification(runs: list[RunRow]) -> None:
    arms: dict[str, Callable[[dict[str, object]], bool]] = {
        "softmax": lambda settings: True,
        "toa": lambda settings: settings["kind"] == "gated" and bool(settings["sor"]),
    }
    accuracy: dict[tuple[str, str], dict[int, float]] = {}
    for row in runs:
        if isinstance(row, ClassificationRow) and (row.protocol, row.attention in arms) == ("clean", True):
            settings = json.loads(row.settings)
            usual = settings.get("feed_forward") == 256 and settings.get("normalise") == "revin"
            if usual and arms[row.attention](json.loads(row.attention_settings)):
                accuracy.setdefault((row.dataset, row.attention), {})[row.seed] = row.accuracy or 0.0
    sets = sorted({dataset for dataset, _ in accuracy})
    gains = {one: 100 * (mean(accuracy[one, "toa"].values()) - mean(accuracy[one, "softmax"].values())) for one in sets}
    assert len(sets) == 10
    assert {len(seeds) for seeds in accuracy.values()} == {10}
    [line] = [row for row in read_table("findings.md", "## The papers' claims") if "gated improves class" in row[0]]
    others = mean(gain for one, gain in gains.items() if one != "BasicMotions")
    assert f"accuracy {mean(gains.values()):+.1f} points, without BasicMotions {others:+.1f} (" in line[2]
    assert f"better on {sum(gain > 0 for gain in gains.values())} of 10 sets" in line[2]


def test_classification_against_no_attention(runs: list[RunRow]) -> None:
    arms = {"zero": {}, "softmax": {}, "toa": {"kind": "gated", "sor": True}}
    accuracy: dict[str, dict[str, list[float]]] = {arm: {} for arm in arms}
    for row in runs:
        if isinstance(row, ClassificationRow) and (row.protocol, row.seed in (2027, 2028, 2029)) == ("clean", True):
            mechanism, settings = json.loads(row.attention_settings), json.loads(row.settings)
            wanted = arms.get(row.attention)
            if wanted is not None and wanted.items() <= mechanism.items() and settings["feed_forward"] == 256:
                accuracy[row.attention].setdefault(row.dataset, []).append(row.accuracy or 0.0)
    sets = sorted(accuracy["zero"])
    assert len(sets) == 8
    assert {len(accuracy[arm][one]) for arm in arms for one in sets} == {3}
    means = {arm: {one: mean(accuracy[arm][one]) for one in sets} for arm in arms}
    whole = {arm: f"{mean(own.values()):.3f}" for arm, own in means.items()}
    above = {arm: sum(means[arm][one] > means["zero"][one] + 1e-9 for one in sets) for arm in arms}
    table = read_table("findings.md", "## Does attention earn its place?")
    [(_, _, control, softmax, best, _)] = [row for row in table if row[0] == "PatchTST, classification"]
    assert control == f"zero: accuracy {whole['zero']}".replace("zero", "`zero`")
    assert softmax == f"{whole['softmax']}, above it on {above['softmax']} sets of 8"
    assert best.startswith(f"TOA gated {whole['toa']}, above it on {above['toa']},")
