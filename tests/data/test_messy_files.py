"""The collection of messy files: each is read as a person would, or refused with every problem named at once."""

from pathlib import Path

import numpy as np
import pytest
from messy import KINDS, MessyFile, messy_files

from rearview.data.infer.problems import MessyData
from rearview.data.panel_reader import load

FILES = messy_files(60, seed=0)


def test_the_collection_is_made_from_a_seed_and_has_every_kind_alone_and_by_threes() -> None:
    names = [file.name.split(" + ") for file in FILES]
    assert len({file.name for file in FILES}) == 60
    assert {kinds[0] for kinds in names if len(kinds) == 1} == set(KINDS)
    assert sum(len(kinds) == 3 for kinds in names) == 60 - len(KINDS) >= 30
    assert [file.content for file in messy_files(60, seed=0)] == [file.content for file in FILES]
    assert [file.content for file in messy_files(60, seed=1)] != [file.content for file in FILES]
    assert sum(not file.problems for file in FILES) >= 35


def check(file: MessyFile, folder: Path) -> None:
    path = folder / "messy.csv"
    path.write_bytes(file.content)
    if file.problems:
        with pytest.raises(MessyData) as refusal:
            load(path, **file.options)
        met = refusal.value.problems
        for what, place, column, value in file.problems:
            one = next((one for one in met if (one.what, one.place, one.column) == (what, place, column)), None)
            assert one is not None, f"{what} in {place} is missing from:\n{refusal.value}"
            assert value is None or one.value == value
            assert one.message in str(refusal.value) or f"{place}" in str(refusal.value)
        assert len(met) == len(file.problems), str(refusal.value)
        return
    panel = load(path, **file.options)
    assert panel.ids == file.expected.ids
    for series, (begin, end) in enumerate(panel.bounds()):
        np.testing.assert_array_equal(panel.stamps[begin:end], file.expected.stamps)
        cells = file.expected.values[panel.ids[series]]
        np.testing.assert_allclose(panel.original(slice(begin, end), series), cells, rtol=1e-6, atol=0.01)
    told = {finding.what for finding in panel.findings if finding.kind == "repaired"}
    german = {"thousands", "decimal comma"}
    unsorted = {"unsorted"}  # a row that stands twice stands at the end
    assert {"notation" if what in german else what for what in told} - unsorted == file.repairs


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_messy_file_is_read_as_a_person_would_or_refused_with_all_its_problems(
    file: MessyFile, tmp_path: Path
) -> None:
    check(file, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_other_seeds_are_read_as_well(seed: int, tmp_path: Path) -> None:
    for file in messy_files(60, seed=seed):
        check(file, tmp_path)
