"""Checkpoints: whole or not there, refused when damaged or another run's, and resumed to the same bit."""

import json
import os
from pathlib import Path

import pytest
import torch
from torch import nn
from toys import INPUTS, TRAIN, VALIDATION, Squares, Table, network, same_weights, without_seconds

from rearview import train
from rearview.core.errors import InputError, RearviewWarning, SettingsError
from rearview.train import checkpoint

SETTINGS = {
    "epochs": 12,
    "batch": 4,
    "accumulate": 2,
    "learning_rate": 0.1,
    "schedule": "onecycle",
    "clip": 1.0,
    "patience": 2,
    "checkpoint_every": 2,
}
"""Six updates an epoch, validation in two gathers: 12 + 2 gathers, checkpoints after updates 2 and 4 and at its end."""


class Crash(Exception):
    pass


def run(path: Path | None, crash_at: int | None = None, resume: bool = True, **changes: object):
    """Train the toys with everything on that makes resuming hard; crash at a gather if told to."""

    def watch(gathers: int) -> None:
        if gathers == crash_at:
            raise Crash

    model, table = network(), Table(watch)
    settings = train.Settings(**{**SETTINGS, **changes})
    resume = resume and path is not None
    history = train.fit(
        model, Squares(), table, TRAIN, VALIDATION, settings, checkpoint=path, resume=resume, progress=train.Silent()
    )
    return model, history, table.gathers


@pytest.mark.parametrize("crashes", [[1], [8], [9], [12], [13], [14], [15], [30, 3, 11], [5] * 6, [90]])
def test_a_crashed_run_resumes_to_the_same_bit(tmp_path: Path, crashes: list[int]) -> None:
    whole, expected, _ = run(None)
    path = tmp_path / "run.safetensors"
    for gather in crashes:
        with pytest.raises(Crash):
            run(path, crash_at=gather)
    model, history, _ = run(path)
    assert expected.ended == "patience"
    assert without_seconds(history) == without_seconds(expected)
    assert same_weights(model.state_dict(), whole.state_dict())


def test_resuming_skips_what_was_done(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    _, _, gathers = run(None)
    with pytest.raises(Crash):
        run(path, crash_at=14 + 9)
    _, _, rest = run(path)
    assert rest == gathers - 14 - 8


def test_a_finished_run_returns_at_once_with_its_result(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "run.safetensors"
    model, history, _ = run(path)
    again, same, gathers = run(path)
    assert gathers == 0
    assert without_seconds(same) == without_seconds(history)
    assert same.seconds >= history.epochs[-1].seconds
    assert same_weights(again.state_dict(), model.state_dict())
    assert not again.training


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    whole, expected, _ = run(None)
    path = tmp_path / "run.safetensors"

    def watch(gathers: int) -> None:
        if gathers == 20:
            raise KeyboardInterrupt

    settings = train.Settings(**SETTINGS)
    stopped = train.fit(network(), Squares(), Table(watch), TRAIN, VALIDATION, settings, checkpoint=path)
    assert stopped.ended == "interrupted"
    model, history, _ = run(path)
    assert without_seconds(history) == without_seconds(expected)
    assert same_weights(model.state_dict(), whole.state_dict())


def test_without_resume_the_file_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    run(path, seed=3)
    _, history, gathers = run(path, resume=False)
    assert gathers > 0
    assert without_seconds(history) == without_seconds(run(None)[1])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"learning_rate": 0.5}, r"was written with learning_rate=0.1, but this run asks for learning_rate=0.5"),
        ({"seed": 1, "batch": 8}, r"batch=4, seed=0, but this run asks for batch=8, seed=1"),
    ],
)
def test_other_settings_are_refused(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    run(tmp_path / "run.safetensors")
    with pytest.raises(SettingsError, match=words):
        run(tmp_path / "run.safetensors", **changes)


def test_another_rhythm_of_checkpoints_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    with pytest.raises(Crash):
        run(path, crash_at=20)
    assert without_seconds(run(path, checkpoint_every=None)[1]) == without_seconds(run(None)[1])


def test_another_model_or_other_windows_are_refused(tmp_path: Path) -> None:
    path, settings = tmp_path / "run.safetensors", train.Settings(**SETTINGS)
    run(path)

    def resume(model: nn.Module, windows: torch.Tensor, held_out: torch.Tensor | None) -> None:
        train.fit(model, Squares(), Table(), windows, held_out, settings, checkpoint=path, resume=True)

    with pytest.raises(SettingsError, match=r"another model: their 0.bias differs in shape or is missing"):
        resume(network(norm=False), TRAIN, VALIDATION)
    with pytest.raises(SettingsError, match="with 47 training windows, but this run has 40"):
        resume(network(), TRAIN[:40], VALIDATION)
    with pytest.raises(SettingsError, match="with 47 training windows, but this run has others"):
        resume(network(), TRAIN.flip(0), VALIDATION)
    with pytest.raises(SettingsError, match="with 23 validation windows, but this run has 0"):
        resume(network(), TRAIN, None)


def test_resume_needs_a_path() -> None:
    with pytest.raises(SettingsError, match="give its path as checkpoint"):
        train.fit(network(), Squares(), Table(), TRAIN, None, train.Settings(), resume=True)


def test_a_shared_tensor_is_stored_once_and_restored(tmp_path: Path) -> None:
    from safetensors import safe_open

    model = nn.Sequential(nn.Linear(INPUTS, INPUTS), nn.Linear(INPUTS, INPUTS), nn.Linear(INPUTS, 3))
    model[1].weight = model[0].weight
    path = tmp_path / "run.safetensors"
    settings = train.Settings(epochs=2)
    train.fit(model, Squares(), Table(), TRAIN, VALIDATION, settings, checkpoint=path)
    with safe_open(path, framework="pt") as file:
        names = set(file.keys())
    assert {"model/0.weight", "best/0.weight"} <= names
    assert not {"model/1.weight", "best/1.weight"} & names
    again = nn.Sequential(nn.Linear(INPUTS, INPUTS), nn.Linear(INPUTS, INPUTS), nn.Linear(INPUTS, 3))
    again[1].weight = again[0].weight
    train.fit(again, Squares(), Table(), TRAIN, VALIDATION, settings, checkpoint=path, resume=True)
    assert same_weights(again.state_dict(), model.state_dict())
    assert again[1].weight is again[0].weight


def test_tensors_of_every_make_come_back(tmp_path: Path) -> None:
    whole = torch.arange(12.0).view(3, 4)
    tensors = {
        "whole": whole,
        "same": whole,
        "row": whole[1],
        "transposed": whole.T,
        "spread": torch.ones(1).expand(5),
        "count": torch.tensor(3),
        "half": torch.ones(2, dtype=torch.bfloat16),
        "none": torch.zeros(0, 3),
        "nothing": torch.zeros(0, 3),
    }
    path = tmp_path / "file.safetensors"
    checkpoint.write(path, tensors, {"list": [1, None, 0.1]})
    back, facts = checkpoint.read(path)
    assert facts == {"list": [1, None, 0.1]}
    assert same_weights(back, tensors)
    assert {name: value.dtype for name, value in back.items()} == {name: t.dtype for name, t in tensors.items()}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "run.safetensors"
    run(path)
    return path


@pytest.mark.parametrize("keep", [0, 7, 100, 0.5, 0.999])
def test_a_cut_file_is_refused(written: Path, keep: float) -> None:
    content = written.read_bytes()
    written.write_bytes(content[: keep if isinstance(keep, int) else int(len(content) * keep)])
    with pytest.raises(InputError, match=r"run.safetensors is damaged .* delete the file to start afresh"):
        run(written)


def test_one_flipped_bit_is_found(written: Path) -> None:
    content = bytearray(written.read_bytes())
    content[-100] ^= 1
    written.write_bytes(bytes(content))
    with pytest.raises(InputError, match="its checksum does not match"):
        run(written)


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path = tmp_path / "foreign.safetensors"
    save_file({"weight": torch.zeros(3)}, path)
    with pytest.raises(InputError, match="no complete checkpoint"):
        run(path)


def test_a_newer_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.safetensors"
    with monkeypatch.context() as later:
        later.setattr(checkpoint, "FORMAT", 2)
        run(path)
    with pytest.raises(InputError, match="has format 2, but this version of rearview reads up to 1"):
        run(path)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_litter(written: Path, monkeypatch, call: str) -> None:
    before = written.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="no space left"):
        checkpoint.write(written, {"weight": torch.zeros(3)}, {})
    assert written.read_bytes() == before
    assert os.listdir(written.parent) == [written.name]


def test_a_full_disk_does_not_cost_the_run(tmp_path: Path, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.warns(RearviewWarning, match=r"could not be written \(no space left\); training goes on"):
        _, history, _ = run(tmp_path / "run.safetensors")
    assert without_seconds(history) == without_seconds(run(None)[1])


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="can't be made"):
        run(tmp_path / "file" / "run.safetensors")


def test_the_header_is_plain_json(written: Path) -> None:
    from safetensors import safe_open

    with safe_open(written, framework="pt") as file:
        header = json.loads(file.metadata()["rearview.train"])
    facts = json.loads(header["body"])["facts"]
    assert header["format"] == 1
    assert facts["run"]["settings"]["learning_rate"] == 0.1
    assert "checkpoint_every" not in facts["run"]["settings"]
    assert facts["ended"] == "patience"


def test_copies_of_weights_share_what_the_model_shares() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    copies = checkpoint.BestSoFar().after(train.Epoch(1, 1.0, 1.0, 1e-3, 0.0), model, train.Settings()).best
    assert copies is not None
    assert copies["0.weight"].data_ptr() == copies["1.weight"].data_ptr() != model[0].weight.data_ptr()
