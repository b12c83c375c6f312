"""Classification benchmarks: rows that stand by themselves, protocols that do as they say, a table beside TOA's."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "estimators" / "classify"))
from small_labelled import classified
from small_sets import unequal, waves, write_ts

from rearview import bench
from rearview.bench import protocols
from rearview.bench.rows.result_file import read
from rearview.bench.rows.row import ClassificationRow
from rearview.bench.runs import classification, runner
from rearview.core.errors import InputError, SettingsError
from rearview.models.blocks.encoder import Encoder

SMALL = {"settings": {"width": 16, "heads": 2, "depth": 1, "feed_forward": 32}, "training": {"epochs": 3}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("archive")
    X, y = waves(30)
    X_test, y_test = waves(15, steps=44, seed=7)
    (place / "uea" / "Waves").mkdir(parents=True)
    write_ts(place / "uea" / "Waves" / "Waves_TRAIN.ts", unequal(X), y)
    write_ts(place / "uea" / "Waves" / "Waves_TEST.ts", unequal(X_test, seed=8), y_test)
    return place


@pytest.mark.parametrize("protocol", ["clean", "published:tslib"])
def test_a_row_says_what_was_run_and_is_not_made_twice(folder, tmp_path, protocol):
    results = tmp_path / "classification.csv"
    asked = {"attention": {"name": "toa", "kind": "relu"}, "protocol": protocol, "data_dir": folder, "device": "cpu"}
    row = bench.classify("waves", **asked, **SMALL, results=results)
    assert (row.dataset, row.model, row.attention) == ("Waves", "patchtst_tslib", "toa")
    assert json.loads(row.attention_settings)["kind"] == "relu"
    assert json.loads(row.training)["optimiser"] == "radam"
    assert 0 <= row.accuracy <= 1
    assert row.habits == protocols.get(protocol).describe_habits(protocols.CLASSIFICATION)
    assert row.windows_per_second > 0
    assert row.peak_memory_bytes > 2**20
    assert row.latency_ms > 0
    assert read(results, ClassificationRow) == [row]
    again = bench.classify("waves", **asked, **SMALL, results=results, resume=True)
    assert again == row
    other = bench.classify("waves", **asked, **SMALL, results=results, resume=True, seed=1)
    assert other.seed == 1
    assert len(read(results, ClassificationRow)) == 2


def test_a_run_that_another_command_ended_meanwhile_is_one_row(folder, tmp_path, monkeypatch):
    asked = {"data_dir": folder, "device": "cpu", "results": tmp_path / "rows.csv", "resume": True}
    row = bench.classify("waves", **asked, **SMALL)
    monkeypatch.setattr(runner.result_file, "known_rows", lambda path, kind: [])
    assert bench.classify("waves", **asked, **SMALL) == row
    assert read(tmp_path / "rows.csv", ClassificationRow) == [row]


def test_a_row_names_the_networks_own_mechanism_and_is_known_at_any_speed(folder, tmp_path, monkeypatch):
    asked = {"data_dir": folder, "device": "cpu", "results": tmp_path / "rows.csv", "resume": True}
    small = {**SMALL, "settings": {**SMALL["settings"], "channel_dropout": False}}
    row = bench.classify("waves", "caps_net", **asked, **small)
    assert row.attention == "caps"
    other = bench.classify("waves", "caps_net", attention="softmax", **asked, **small)
    assert other.attention == "softmax"
    monkeypatch.setattr(classification, "_fit_clean", None)  # nothing is trained for a row that is there
    quick = {**small, "training": {**small["training"], "validation_batch": 7}}
    assert bench.classify("waves", "caps_net", **asked, **quick) == row


def test_the_protocols_differ_as_they_say(folder):
    asked = {"data_dir": folder, "device": "cpu", **SMALL}
    clean = bench.classify("Waves", **asked)
    theirs = bench.classify("Waves", protocol="published:tslib", **asked)
    assert (clean.lookback, theirs.lookback) == (40, 44)
    assert (clean.train_cases, clean.validation_cases, clean.test_cases) == (24, 6, 15)
    assert (theirs.train_cases, theirs.validation_cases) == (30, 15)
    assert "TEST is read once" in clean.habits
    assert "TEST picks the epoch" in theirs.habits
    # Selected on the test set, the test error is the criterion itself.
    assert theirs.validation_criterion == pytest.approx(1 - theirs.accuracy)
    assert json.loads(theirs.training)["ties_improve"]


def test_the_published_protocol_shows_the_network_what_the_library_does(folder, monkeypatch):
    seen = []
    source = classification.CaseTensors
    monkeypatch.setattr(classification, "CaseTensors", lambda *parts: seen.append(source(*parts)) or seen[-1])
    bench.classify("Waves", protocol="published:tslib", data_dir=folder, device="cpu", **SMALL)
    [data] = seen
    assert data.mask is None
    train, test = data.values[:30], data.values[30:]
    for part in (train, test):
        real = torch.cat([case[:, case.abs().sum(0) > 0] for case in part], dim=1)
        torch.testing.assert_close(real.mean(1), torch.zeros(2), atol=1e-5, rtol=0)
        torch.testing.assert_close(real.std(1, correction=0), torch.ones(2), atol=1e-4, rtol=0)
    shortest = min(train, key=lambda case: int((case.abs().sum(0) > 0).sum()))
    assert shortest[:, -1].abs().sum() == 0
    assert shortest[:, 0].abs().sum() > 0


@pytest.mark.parametrize("protocol", ["clean", "published:tslib"])
def test_networks_are_prepared_with_training_cases_alone(folder, monkeypatch, protocol):
    """Prime attention reads how channels lead and lag from the training cases before it trains."""
    shown, sources = [], []

    def watch(network, windows):
        shown.append(windows)
        before = {name: weight.clone() for name, weight in network.named_buffers()}
        original(network, windows)
        changed = [name for name, weight in network.named_buffers() if not torch.equal(weight, before[name])]
        assert any("primer" in name for name in changed)

    original, source = Encoder.prepare, classification.CaseTensors
    monkeypatch.setattr(Encoder, "prepare", watch)
    monkeypatch.setattr(classification, "CaseTensors", lambda *parts: sources.append(source(*parts)) or sources[-1])
    asked = {"model": "itransformer", "attention": "prime", "data_dir": folder, "device": "cpu", **SMALL}
    row = bench.classify("Waves", protocol=protocol, **asked)
    (learned,) = shown
    assert len(learned) == row.train_cases
    for both in sources:  # the cases of TEST come after those of TRAIN
        assert torch.equal(learned, both.values[:30])


def test_what_is_not_there_is_refused(folder):
    with pytest.raises(SettingsError, match="no protocol 'published:nobody' for classification"):
        bench.classify("Waves", protocol="published:nobody", data_dir=folder)
    with pytest.raises(InputError, match=r"Missing_TRAIN\.ts"):
        bench.classify("Missing", data_dir=folder)


def row(dataset, attention, settings, seed, accuracy, protocol="clean"):
    """A row with what the table reads."""
    facts = {"dataset": dataset, "attention": attention, "seed": seed, "accuracy": accuracy, "protocol": protocol}
    return classified(attention_settings=json.dumps(settings), **facts)


@pytest.mark.usefixtures("benchmark_scripts")
def test_the_table_stands_beside_the_papers():
    import _classification_table as classification_table

    gated = {"kind": "gated", "sor": True}
    sets = {"BasicMotions": (0.6, 0.7), "Libras": (0.5, 0.8), "LSST": (0.4, 0.3)}
    rows = []
    for name, (soft, toa) in sets.items():
        for seed, shift in ((1, -0.1), (2, 0.1)):
            rows += [row(name, "softmax", {}, seed, soft + shift), row(name, "toa", gated, seed, toa + shift)]
    rows.append(row("PenDigits", "softmax", {}, 1, 0.9))
    rows.append(row("Libras", "softmax", {}, 1, 0.0, protocol="published:tslib"))
    rows.append(replace(row("Libras", "softmax", {}, 1, None), status="failed"))
    rows.append(replace(row("LSST", "hyperglu", {}, 1, None), status="failed"))
    found = classification_table.cells(rows, "clean")
    cell = next(one for one in found if (one.dataset, one.mechanism) == ("BasicMotions", "toa_gated"))
    assert (cell.accuracy, cell.seeds, cell.published) == (pytest.approx(0.7), 2, 0.7250)
    assert cell.std == pytest.approx(0.1)
    best, other = classification_table.standings(found)
    assert (best.mechanism, best.sets, best.wins, best.losses) == ("toa_gated", 3, 2, 1)
    assert (best.rank, other.rank) == (pytest.approx(4 / 3), pytest.approx(5 / 3))
    assert other.p_value == 1.0
    assert best.p_value == pytest.approx(0.75)  # 6 of 8 sign patterns go as far
    text = "\n".join(classification_table.lines(rows, "clean"))
    assert "0.7000 (0.7250)" in text
    assert "toa_gated: mean rank 1.33" in text
