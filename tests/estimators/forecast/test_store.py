"""A saved forecaster says the same again, holds no code, and is refused when it was touched."""

import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from samples import forecaster, long, numbers, wide

import rearview
from rearview import Forecaster
from rearview.core.errors import InputError, SettingsError
from rearview.core.model_folder import FORECASTER, checksum


@pytest.fixture(scope="module")
def original() -> Forecaster:
    return forecaster().fit(wide())


@pytest.fixture
def saved(original: Forecaster, tmp_path: Path) -> Path:
    original.save(tmp_path / "model")
    return tmp_path / "model"


def weights(folder: Path) -> Path:
    return next(folder.glob("weights-*.safetensors"))


def change(folder: Path, **facts: Any) -> None:
    """Facts changed in the JSON by someone who knows how its checksum is made."""
    path = folder / FORECASTER.manifest
    content = {**json.loads(path.read_text()), **facts}
    content.pop("checksum")
    path.write_text(json.dumps({**content, "checksum": checksum(content)}))


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("patchtst", {"attention": {"name": "linear"}, "alias": "ours"}),
        ("itransformer", {"intervals": "quantile", "level": [50]}),
        ("dlinear", {"transform": "log1p", "nonnegative": True, "freq": "h"}),
        ("seasonal_naive", {"season": 12}),
        ("dlinear", {"intervals": "none", "target": "wind", "sentinels": [7.0], "drop": ["load"]}),
    ],
)
def test_predictions_are_equal_bit_for_bit(model: str, asked: dict[str, Any], tmp_path: Path) -> None:
    fitted = forecaster(model, **asked).fit(wide())
    fitted.save(tmp_path / "model")
    loaded = Forecaster.load(tmp_path / "model")
    assert loaded.predict().equals(fitted.predict())
    later = pd.concat([wide(), wide(9, start="2024-03-07 16:00")])
    assert loaded.predict(later).equals(fitted.predict(later))
    assert loaded.spec == fitted.spec
    assert loaded.reading == fitted.reading
    assert loaded.fitted.plan == fitted.fitted.plan
    assert loaded.fitted.history == fitted.fitted.history


@pytest.mark.parametrize("kind", ["integer ids", "time zone", "missing", "integer time", "together"])
def test_every_layout_comes_back(kind: str, tmp_path: Path) -> None:
    frame, asked = long({3: 160, 8: 20}), {}
    if kind == "time zone":
        frame["ds"] = frame["ds"].dt.tz_localize("Asia/Kolkata")
    elif kind == "missing":
        frame.loc[frame.index % 7 == 0, "y"] = np.nan
    elif kind == "integer time":
        frame["ds"] = frame.groupby("unique_id").cumcount()
    elif kind == "together":
        asked = {"together": True}
    fitted = forecaster("dlinear", **asked).fit(frame)
    fitted.save(tmp_path / "model")
    loaded = Forecaster.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(), fitted.predict())
    pd.testing.assert_frame_equal(loaded.predict(frame), fitted.predict(frame))


def test_the_folder_holds_json_and_safetensors_alone(saved: Path) -> None:
    assert sorted(path.suffix for path in saved.iterdir()) == [".json", ".safetensors"]
    facts = json.loads((saved / FORECASTER.manifest).read_text())
    assert facts["version"] == rearview.__version__
    assert facts["columns"] == ["load", "wind"]
    assert facts["step"] == "h"
    assert facts["request"]["horizon"] == 5
    content = weights(saved).read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    assert "network.head.weight" in json.loads(content[8 : 8 + size])


def test_loading_never_unpickles(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("something was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    assert np.isfinite(numbers(Forecaster.load(saved).predict())).all()


def test_changed_weights_are_refused(saved: Path) -> None:
    content = bytearray(weights(saved).read_bytes())
    content[-1] ^= 1
    weights(saved).write_bytes(content)
    with pytest.raises(InputError, match=r"weights-.*is damaged"):
        Forecaster.load(saved)


def test_a_changed_setting_is_refused(saved: Path) -> None:
    path = saved / FORECASTER.manifest
    path.write_text(path.read_text().replace('"horizon": 5', '"horizon": 6'))
    with pytest.raises(InputError, match=r"forecaster\.json is damaged"):
        Forecaster.load(saved)


def test_a_newer_format_is_refused_before_anything_is_read_from_it(saved: Path) -> None:
    newer = {"format": FORECASTER.format + 1, "version": "9.9", "other": "things"}
    (saved / FORECASTER.manifest).write_text(json.dumps(newer))
    with pytest.raises(InputError, match=r"written by rearview 9\.9 in format 3.*reads up to 2; update rearview"):
        Forecaster.load(saved)


@pytest.mark.parametrize("content", ["", "[]", "null", "{", '{"format": "x"}', "{}", "\x00\x01"])
def test_a_damaged_manifest_is_refused(saved: Path, content: str) -> None:
    (saved / FORECASTER.manifest).write_text(content)
    with pytest.raises(InputError, match=r"forecaster\.json is damaged .*save the model again"):
        Forecaster.load(saved)


def test_a_manifest_that_is_no_text_is_refused(saved: Path) -> None:
    (saved / FORECASTER.manifest).write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(InputError, match="damaged"):
        Forecaster.load(saved)


def test_half_a_folder_is_refused(saved: Path) -> None:
    half = weights(saved).read_bytes()
    weights(saved).write_bytes(half[: len(half) // 2])
    with pytest.raises(InputError, match="is damaged"):
        Forecaster.load(saved)
    weights(saved).unlink()
    with pytest.raises(InputError, match=r"is missing; copy the whole folder"):
        Forecaster.load(saved)
    (saved / FORECASTER.manifest).unlink()
    with pytest.raises(InputError, match="holds no saved forecaster"):
        Forecaster.load(saved)


@pytest.mark.parametrize(
    "facts",
    [
        {"name": "nothing"},
        {"shape": {"channels": 2, "lookback": 48, "steps": 5}},
        {"shape": {"colour": 3}},
        {"request": {}},
        {"plan": {}},
        {"quantiles": None},
        {"weights": "/etc/passwd"},
        {"tail": {"ids": [], "columns": [], "layout": {"form": "wide"}}},
        {"step": "blue"},
        {"reading": {"hobby": "x"}},
        {"reading": {"hobby": "x", "whole_ids": False}},
        {"sha256": None},
        {"history": {"epochs": 3}},
    ],
    ids=lambda facts: next(iter(facts)),
)
def test_a_forged_manifest_is_refused_in_a_sentence(saved: Path, facts: dict[str, Any]) -> None:
    change(saved, **facts)
    with pytest.raises((InputError, SettingsError)) as refusal:
        Forecaster.load(saved)
    assert str(refusal.value).endswith(".")


def test_the_folder_that_was_meant_is_named(saved: Path) -> None:
    with pytest.raises(InputError, match=f"There is one in {saved}"):
        Forecaster.load(saved.parent)


def test_saving_over_a_model_replaces_it(saved: Path, original: Forecaster) -> None:
    other = forecaster("dlinear").fit(wide())
    old = weights(saved).name
    other.save(saved)
    assert len(list(saved.iterdir())) == 2
    assert weights(saved).name != old
    assert Forecaster.load(saved).predict().equals(other.predict())
    original.save(saved)
    assert Forecaster.load(saved).predict().equals(original.predict())


@pytest.mark.parametrize("moment", [1, 2])
def test_a_save_that_is_cut_off_leaves_the_model_that_was_there(
    saved: Path, original: Forecaster, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    other = forecaster("dlinear").fit(wide())
    plain, calls = os.replace, 0

    def failing(*paths: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == moment:
            raise OSError("the disk is full")
        plain(*paths)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="disk is full"):
        other.save(saved)
    monkeypatch.undo()
    assert Forecaster.load(saved).predict().equals(original.predict())


def test_a_copied_folder_works(saved: Path, original: Forecaster, tmp_path: Path) -> None:
    copy = shutil.copytree(saved, tmp_path / "a copy")
    shutil.rmtree(saved)
    assert Forecaster.load(copy).predict().equals(original.predict())


def test_the_device_of_the_saving_machine_need_not_exist_here(saved: Path) -> None:
    facts = json.loads((saved / FORECASTER.manifest).read_text())
    change(saved, request={**facts["request"], "device": "cuda:7"})
    assert np.isfinite(numbers(Forecaster.load(saved, device="cpu").predict())).all()
