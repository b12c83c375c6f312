"""Detection data: archives and single arrays, entities apart, and names that no cut may carry."""

from pathlib import Path

import numpy as np
import pytest

from rearview.core.errors import InputError, SettingsError
from rearview.data.datasets import detection_sets, labelled_arrays


def arrays(**changed: np.ndarray) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    held = {
        "train": rng.normal(size=(11, 2)) + 1e6,
        "test": rng.normal(size=(7, 2)) + 1e6,
        "test_label": np.array([0, 1, 0, 0, 1, 1, 0], dtype=np.uint8),
        "machine": np.array(["a", "b"]),
        "machine_lengths": np.array([[5, 3], [6, 4]], dtype=np.int32),
    }
    return {name: array for name, array in {**held, **changed}.items() if array is not None}


def test_entities_lie_apart_and_keep_their_values(tmp_path: Path) -> None:
    held = arrays()
    held["test"][4, 1] = np.nan
    np.savez(tmp_path / "x.npz", **held)
    found = labelled_arrays.read(tmp_path / "x.npz")
    assert found.train.ids == found.test.ids == ("a", "b")
    assert found.train.offsets.tolist() == [0, 5, 11]
    assert found.test.offsets.tolist() == [0, 3, 7]
    assert found.test.stamps.tolist() == [0, 1, 2, 0, 1, 2, 3]
    np.testing.assert_allclose(found.test.original(slice(3, 7), 1), held["test"][3:], rtol=0, atol=1e-6)
    assert found.labels.tolist() == held["test_label"].tolist()
    assert found.test.observed is not None
    assert int((~found.test.observed).sum()) == 1


def test_three_npy_files_are_one_data_set(tmp_path: Path) -> None:
    held = arrays(machine=None, machine_lengths=None)
    for part in labelled_arrays.PARTS:
        np.save(tmp_path / f"pump_{part}.npy", held[part])
    found = labelled_arrays.read(tmp_path / "pump_test.npy")
    assert found.train.series == 1
    assert found.train.layout.form == "wide"
    (tmp_path / "pump_test_label.npy").unlink()
    with pytest.raises(InputError, match=r"pump_test_label\.npy is missing"):
        labelled_arrays.read(tmp_path / "pump_train.npy")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"test_label": None}, "no array 'test_label'"),
        ({"test_label": np.zeros(6)}, "6 labels for 7 test rows"),
        ({"test_label": np.full(7, 2)}, "test_label holds 2"),
        ({"test": np.zeros((7, 3))}, "train has 2 channels and test 3"),
        ({"machine_lengths": np.array([[5, 3], [5, 4]])}, "adds up to"),
        ({"train": np.full((11, 2), np.inf)}, "infinite value in row 0, channel 0"),
        ({"train": np.array([["a", "b"]] * 11)}, "must be numbers"),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(changed: dict, words: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **arrays(**changed))
    with pytest.raises(InputError, match=words):
        labelled_arrays.read(tmp_path / "x.npz")


def test_files_that_are_no_archives_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_text("no archive")
    with pytest.raises(InputError, match=r"can't be read as an \.npz archive"):
        labelled_arrays.read(tmp_path / "x.npz")
    with pytest.raises(InputError, match="does not exist"):
        labelled_arrays.read(tmp_path / "y.npz")
    np.save(tmp_path / "odd.npy", np.zeros(3))
    with pytest.raises(InputError, match=r"NAME_train\.npy"):
        labelled_arrays.read(tmp_path / "odd.npy")


def test_every_detection_set_has_a_shape_and_a_source() -> None:
    sets = [detection_sets.get(name) for name in detection_sets.names()]
    assert len(sets) == 7
    assert all(one.train_rows > 10_000 and one.test_rows > 10_000 and one.channels > 10 for one in sets)
    assert all("GitHub" in one.source for one in sets)
    assert detection_sets.get("smap").name == "SMAP"
    with pytest.raises(SettingsError, match="Did you mean 'SMAP'"):
        detection_sets.get("SMAPP")


def test_a_part_of_a_detection_set_can_not_carry_its_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "SMD.npz", **arrays())
    assert detection_sets.available(tmp_path) == ("SMD",)
    with pytest.raises(InputError, match="a part of a data set can't go by its name"):
        detection_sets.load(detection_sets.get("SMD"), tmp_path)
    with pytest.raises(InputError, match="the file of MSL, was not found"):
        detection_sets.load(detection_sets.get("MSL"), tmp_path)


def test_tables_of_numbers_are_read_in_the_forms_the_field_uses(tmp_path: Path) -> None:
    rows = ["timestamp,a,b", "1,0.5,2", "2,,3", "3,1.5,4"]
    (tmp_path / "train.csv").write_text("\n".join(rows))
    (tmp_path / "test.csv").write_text("\n".join(rows))
    (tmp_path / "test_label.csv").write_text("timestamp,label\n1,0\n2,1\n3,0\n")
    found = detection_sets.psm(tmp_path / "test.csv")
    assert found.labels.tolist() == [0, 1, 0]
    assert np.isnan(found.train.original(slice(0, 3), 0)[1, 0])
    (tmp_path / "swat_train2.csv").write_text("a,b,label\n1,2,0\n3,4,0\n")
    (tmp_path / "swat2.csv").write_text("a,b,label\n1,2,0\n3,4,1\n")
    found = detection_sets.swat(tmp_path / "swat2.csv")
    assert (found.labels.tolist(), found.test.columns) == ([0, 1], ("channel 0", "channel 1"))


def test_the_real_sets_have_the_shapes_and_rates_of_their_papers(real_data: Path) -> None:
    found = detection_sets.load(detection_sets.get("ASD"), real_data)
    assert found.test.series == 12
    assert found.labels.mean() == pytest.approx(0.0461, abs=5e-5)
    assert not found.train.findings


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"test": np.full((7, 2), 1e200)}, "test holds a value too large for float32 in row 0, channel 0"),
        ({"machine": np.array(["a", "a"])}, "machine names two entities 'a'"),
        ({"machine_lengths": np.array([[11, 3], [0, 4]])}, "leaves 'b' without training or test rows"),
        ({"machine_lengths": np.array([[13, 3], [-2, 4]])}, "leaves 'b' without training or test rows"),
        ({"machine_lengths": np.array(["5", "6"])}, "machine_lengths must be whole numbers of rows"),
    ],
)
def test_arrays_that_would_be_taken_wrong_are_refused(tmp_path: Path, changed: dict, sentence: str) -> None:
    np.savez(tmp_path / "x.npz", **arrays(**changed))
    with pytest.raises(InputError, match=sentence):
        labelled_arrays.read(tmp_path / "x.npz")


def test_a_file_that_is_no_archive_is_not_said_to_be_a_pickle(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_text("hello")
    with pytest.raises(InputError, match="it is none, or holds objects") as refused:
        labelled_arrays.read(tmp_path / "x.npz")
    assert "allow_pickle" not in str(refused.value)
