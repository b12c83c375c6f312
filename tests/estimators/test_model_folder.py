"""Models from elsewhere: nothing is allocated for sizes that contradict each other, and each refusal is a sentence."""

import hashlib
import json
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load, save

from rearview import Classifier, Forecaster
from rearview.core import model_folder
from rearview.core.errors import InputError, RearviewError
from rearview.core.model_folder import CLASSIFIER, DETECTOR, FORECASTER, Kind, checksum

Facts = dict[str, Any]


@pytest.fixture(scope="module")
def fitted() -> Forecaster:
    dates = pd.date_range("2024-01-01", periods=90, freq="D")
    frame = pd.DataFrame({"date": dates, "a": np.sin(np.arange(90) / 3), "b": np.cos(np.arange(90) / 5)})
    settings = {"width": 8, "heads": 2, "feed_forward": 16, "depth": 1}
    return Forecaster("patchtst", horizon=3, lookback=24, settings=settings, training={"epochs": 1}).fit(frame)


@pytest.fixture
def saved(fitted: Forecaster, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "model")
    return tmp_path / "model"


def edit(folder: Path, change: Callable[[Facts, dict[str, torch.Tensor]], None], kind: Kind = FORECASTER) -> None:
    """Change the facts and tensors of a model as a person could, with all checksums in order."""
    path = folder / kind.manifest
    facts = json.loads(path.read_text())
    tensors = load((folder / facts["weights"]).read_bytes())
    change(facts, tensors)
    content = save(tensors)
    (folder / facts["weights"]).write_bytes(content)
    facts["sha256"] = hashlib.sha256(content).hexdigest()
    facts.pop("checksum")
    path.write_text(json.dumps({**facts, "checksum": checksum(facts)}))


def set_model(facts: Facts, name: str, value: object) -> None:
    facts["plan"][f"model.{name}"]["value"] = value


CHANGES: dict[str, tuple[Callable[[Facts, dict[str, torch.Tensor]], object], str]] = {
    "a width": (lambda facts, _: set_model(facts, "width", 20_000), "is damaged .*its facts ask for"),
    "a giant": (lambda facts, _: set_model(facts, "width", 10**12), "width is 1,000,000,000,000"),
    "a depth": (lambda facts, _: set_model(facts, "depth", 100_000), "depth is 100,000; it can be 1,000 at most"),
    "a look-back": (lambda facts, _: facts["shape"].update(lookback=9_000_000), "is damaged"),
    "channels": (lambda facts, _: facts["shape"].update(channels=9_000_000), "asks for 9000000 channels"),
    "a horizon": (lambda facts, _: facts["request"].update(horizon=10**5), "of another horizon"),
    "an infinity": (
        lambda facts, _: facts["shape"].update(lookback=float("inf")),
        "whole number|of another kind|looks back",
    ),
    "NaN": (
        lambda _, tensors: (
            next(t for n, t in tensors.items() if n.startswith("net") and t.is_floating_point())
            .view(-1)[:1]
            .fill_(float("nan"))
        ),
        "not all finite",
    ),
    "a shape": (
        lambda _, tensors: tensors.update({n: t.new_zeros(3) for n, t in [*tensors.items()] if n.startswith("net")}),
        "its weights hold",
    ),
    "a missing tensor": (lambda _, tensors: tensors.pop("mean"), "is missing"),
    "a list": (lambda facts, _: facts.update(plan=[]), "of another kind"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_contradicts_itself_is_refused_before_memory_is_taken(name: str, saved: Path) -> None:
    change, sentence = CHANGES[name]
    edit(saved, change)
    tracemalloc.start()
    with pytest.raises(RearviewError, match=sentence) as refused:
        Forecaster.load(saved)
    assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    tracemalloc.stop()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("fact", "shelf"), [("attention", "attention"), ("model", "models")])
def test_a_plug_in_that_is_not_here_is_named(fact: str, shelf: str, saved: Path) -> None:
    def rename(facts: Facts, _: dict[str, torch.Tensor]) -> None:
        (facts if fact == "model" else facts["request"]).update({"name" if fact == "model" else fact: "fading"})

    edit(saved, rename)
    sentence = (
        rf"^This model was trained with the {fact} 'fading', which is not here: .* \(rearview\.{shelf}\.register\)\.$"
    )
    with pytest.raises(InputError, match=sentence):
        Forecaster.load(saved)


def test_the_memory_of_a_model_that_asks_for_too_much(saved: Path) -> None:
    pytest.importorskip("resource")
    edit(saved, lambda facts, _: set_model(facts, "width", 20_000))
    asked = "import re, resource, sys, rearview as rv\n"
    asked += "try: rv.Forecaster.load(sys.argv[1])\nexcept ValueError as problem: assert 'damaged' in str(problem)\n"
    # What a process says of itself on Linux; its ru_maxrss begins at what its parent had.
    asked += "try: print(re.search('VmHWM:\\\\s+(\\\\d+)', open('/proc/self/status').read())[1])\n"
    asked += "except OSError: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", asked, str(saved)], capture_output=True, text=True, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * unit < 2**30


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"format": Infinity}', "is damaged"),
        ('{"format": 1e400}', "is damaged"),
        ("\0\xff", "is damaged"),
        ('{"format": 1, "weights": 3}', "is damaged"),
        ("{}", "is damaged"),
    ],
)
def test_a_damaged_manifest_is_refused(text: str, sentence: str, saved: Path) -> None:
    (saved / FORECASTER.manifest).write_text(text)
    with pytest.raises(InputError, match=sentence):
        Forecaster.load(saved)


def test_a_manifest_of_any_size_is_not_read(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_folder, "MOST_JSON", 100)
    with pytest.raises(InputError, match="more than the 100"):
        Forecaster.load(saved)


def test_a_header_that_promises_more_than_the_file_has_is_refused(saved: Path) -> None:
    facts = json.loads((saved / FORECASTER.manifest).read_text())
    for header in (b"\xff" * 8, (10**6).to_bytes(8, "little") + b"{}", (2).to_bytes(8, "little") + b"[]"):
        (saved / facts["weights"]).write_bytes(header)
        facts["sha256"] = hashlib.sha256(header).hexdigest()
        facts.pop("checksum", None)
        (saved / FORECASTER.manifest).write_text(json.dumps({**facts, "checksum": checksum(facts)}))
        with pytest.raises(InputError, match=r"weights-.* is damaged"):
            Forecaster.load(saved)


def test_weights_that_are_no_file_of_tensors_are_not_read(saved: Path) -> None:
    facts = json.loads((saved / FORECASTER.manifest).read_text())
    weights = saved / facts["weights"]
    with weights.open("ab") as file:
        file.truncate(2**33)
    tracemalloc.start()
    with pytest.raises(InputError, match=r"weights-.* is damaged"):
        Forecaster.load(saved)
    assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    tracemalloc.stop()
    if Path("/dev/zero").exists():
        weights.unlink()
        weights.symlink_to("/dev/zero")
        with pytest.raises(InputError, match="is not a file"):
            Forecaster.load(saved)


def test_saving_touches_only_the_model_of_its_kind(fitted: Forecaster, saved: Path) -> None:
    other = saved / "weights-0123456789abcdef.safetensors"
    other.write_text("mine")
    (saved / DETECTOR.manifest).write_text("{}")
    fitted.save(saved)
    assert other.read_text() == "mine"
    assert sorted(path.name for path in saved.iterdir())[:2] == [DETECTOR.manifest, FORECASTER.manifest]
    (saved / FORECASTER.manifest).write_text('{"weights": "../elsewhere"}')
    with pytest.raises(InputError, match="is not of a saved forecaster and is not written over"):
        fitted.save(saved)


def cut(name: str) -> Callable[[Facts, dict[str, torch.Tensor]], None]:
    """Leave half of the tensors whose name ends so."""

    def change(facts: Facts, tensors: dict[str, torch.Tensor]) -> None:
        [key] = [one for one in tensors if one.endswith(name)]
        tensors[key] = tensors[key][: len(tensors[key]) // 2].clone()

    return change


ENSEMBLES: dict[str, tuple[Callable[[Facts, dict[str, torch.Tensor]], None], str]] = {
    "weights": (cut("common"), "its common is of shape"),
    "coefficients": (cut(".coefficients"), "its linear model is of another horizon"),
    "pools": (cut(".pools"), "its linear model is of another horizon"),
    "ids": (lambda facts, _: facts.update(ids=[1.5]), "its ids is"),
    "a name": (lambda facts, _: facts["request"].update(model=0.5), "its name is 0.5|model is 0.5"),
    "an alias": (lambda facts, _: facts["reading"].update(alias={}), "its name is"),
    "factors": (lambda facts, _: facts.update(stretch=[["W", 1.0]]), "could not convert"),
    "columns of a member": (lambda facts, _: facts["members"][0].update(columns=[[]]), "its columns is"),
}


@pytest.fixture(scope="module")
def portfolios(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("portfolios")
    steps = np.arange(60)
    frame = pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=60), "a": np.sin(steps), "b": np.cos(steps / 3)})
    Forecaster(horizon=3).fit(frame, quick=True).save(folder / "ensemble")
    cases = np.random.default_rng(0).normal(size=(24, 2, 12))
    Classifier().fit(cases, np.arange(24) % 2).save(folder / "portfolio")
    return folder


@pytest.mark.parametrize("name", [*ENSEMBLES])
def test_an_ensemble_that_contradicts_itself_is_refused(name: str, portfolios: Path, tmp_path: Path) -> None:
    change, sentence = ENSEMBLES[name]
    folder = Path(shutil.copytree(portfolios / "ensemble", tmp_path / "model"))
    Forecaster.load(folder)
    edit(folder, change)
    with pytest.raises(RearviewError, match=sentence):
        Forecaster.load(folder)


@pytest.mark.parametrize(
    ("folder", "name"),
    [("ensemble", "members.0.coefficients"), ("ensemble", "weights"), ("portfolio", "member.0.weights")],
)
def test_a_portfolio_with_numbers_that_are_not_finite_is_refused(
    folder: str, name: str, portfolios: Path, tmp_path: Path
) -> None:
    model = Path(shutil.copytree(portfolios / folder, tmp_path / "model"))
    kind = FORECASTER if folder == "ensemble" else CLASSIFIER
    edit(model, lambda _, tensors: tensors[name].view(-1)[:1].fill_(float("nan")), kind)
    with pytest.raises(InputError, match=f"{name} is not all finite numbers"):
        kind.load(model)


@pytest.mark.parametrize("name", ["shapelets.transform.dilations", "shapelets.transform.channels", "series.centre"])
def test_a_portfolio_of_classifiers_that_contradicts_itself_is_refused(
    name: str, portfolios: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(portfolios / "portfolio", tmp_path / "model"))
    Classifier.load(folder)
    edit(folder, cut(name), CLASSIFIER)
    with pytest.raises(InputError, match=r"does not fit this version|is damaged"):
        Classifier.load(folder)


def test_the_steps_of_a_portfolio_are_bounded(portfolios: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(portfolios / "portfolio", tmp_path / "model"))
    edit(folder, lambda facts, _: facts["portfolio"].update(steps=10**9), CLASSIFIER)
    with pytest.raises(InputError, match="its cases have 1000000000 steps"):
        Classifier.load(folder)
