"""The .ts reader: what the archives hold, read right, and what contradicts itself, refused with its line."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from rearview.core.errors import InputError
from rearview.data.io import ts

HEAD = "# a comment\n@problemName tiny\n@timeStamps false\n@univariate false\n"
CLASSES = "@classLabel true up down\n"


def written(tmp_path, text):
    path = tmp_path / "tiny.ts"
    path.write_text(text, encoding="utf-8")
    return path


def test_channels_classes_and_gaps_are_read(tmp_path):
    path = written(tmp_path, HEAD + CLASSES + "@data\n\n1,2,?:4,5,6:up\n# between\n-1e3,NaN,0.5:7, 8 ,9:down\n")
    cases = ts.read(path)
    assert cases.labels.tolist() == ["up", "down"]
    assert cases.classes == ("up", "down")
    assert cases.names == ("line 8", "line 10")
    np.testing.assert_array_equal(cases.series[0], [[1, 2, np.nan], [4, 5, 6]])
    np.testing.assert_array_equal(cases.series[1], [[-1000, np.nan, 0.5], [7, 8, 9]])


@pytest.mark.parametrize(("mark", "end"), [(b"", b"\r\n"), (b"\xef\xbb\xbf", b"\n")])
def test_files_of_other_systems_are_read(tmp_path, mark, end):
    path = tmp_path / "tiny.ts"
    path.write_bytes(mark + (HEAD + CLASSES + "@data\n1,2:3,4:up\n").encode().replace(b"\n", end))
    assert ts.read(path).labels.tolist() == ["up"]


def test_unequal_lengths_are_kept(tmp_path):
    cases = ts.read(written(tmp_path, HEAD + "@equalLength false\n" + CLASSES + "@data\n1,2:3,4:up\n1:3:down\n"))
    assert cases.lengths.tolist() == [2, 1]


def test_tags_are_read_in_any_case_and_a_file_can_have_no_classes(tmp_path):
    cases = ts.read(written(tmp_path, "@PROBLEMNAME tiny\n@ClassLabel false\n@DATA\n1,2,3\n4,5,6\n"))
    assert cases.labels is None
    assert cases.channels == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (HEAD + CLASSES + "1,2:up\n", "line 6: '1,2:up' stands before @data"),
        (HEAD + CLASSES, "no line @data"),
        (
            "case,time,a,class\n1,1,0.5,up\n",
            r"no \.ts file, .*line 1 is 'case,time,a,class'\. Write the cases as \.ts .*",
        ),
        ("\n0.5,1.5:up\n", r"no \.ts file, .*its line 2 is '0\.5,1\.5:up'.*as \.csv or \.parquet\."),
        (HEAD + CLASSES + "@data\n", "no case behind @data"),
        ("@timeStamps true\n@data\n(0,1),(1,2)\n", "line 1: its values come with time stamps"),
        (HEAD + CLASSES + "@data\n(0,1),(1,2):(0,1):up\n", r"line 7: values come with time stamps, as in \(0"),
        ("@timeStamps maybe\n@data\n1\n", "@timeStamps must say true or false, not 'maybe'"),
        ("@dimensions two\n@data\n1\n", "@dimensions must say a whole number, not 'two'"),
        ("@classLabel true\n@data\n1\n", "must be followed by the classes"),
        ("@targetLabel true\n@data\n1:0.5\n", "a number to predict"),
        (HEAD + CLASSES + "@data\n1,2:3,4:sideways\n", "line 7: the class 'sideways' is not among"),
        (HEAD + CLASSES + "@data\n1,2:3,4\n", "line 7 ends with values where a class of @classLabel .* is expected"),
        (HEAD + CLASSES + "@data\n1,2:3,4,5:up\n", "channel 2 has 3 values, but channel 1 has 2"),
        (HEAD + CLASSES + "@data\n1,2:3,x:up\n", "channel 2, value 2 is 'x', which is no number"),
        (HEAD + CLASSES + "@data\n1,2:3,:up\n", "value 2 is ''"),
        (HEAD + CLASSES + "@data\nup\n", "has a class but no values"),
        (HEAD + CLASSES + "@data\n1,2:3,4:up\n1,2:down\n", "line 8 has 1 of 2 channels; is the file cut off"),
        (HEAD + "@dimensions 3\n" + CLASSES + "@data\n1:2:up\n", "has 2 of 3 channels; is the file cut off"),
        (HEAD + "@dimensions 3\n" + CLASSES + "@data\n1:2.5\n", "has 2 of 3 channels; is the file cut off"),
        (HEAD + CLASSES + "@data\n1:2:up\n1:2:3:up\n", "line 8 has 3 channels where 2 are expected"),
        ("@univariate true\n" + CLASSES + "@data\n1:2:up\n", "has 2 channels, but @univariate says there is one"),
        (
            HEAD + "@equalLength true\n@seriesLength 3\n" + CLASSES + "@data\n1,2:1,2:up\n",
            "has 2 steps where 3 are expected",
        ),
        (HEAD + "@equalLength true\n" + CLASSES + "@data\n1,2:1,2:up\n1:1:up\n", "has 1 steps where 2 are expected"),
    ],
)
def test_a_file_that_can_not_be_read_right_is_refused(tmp_path, text, sentence):
    with pytest.raises(InputError, match=sentence):
        ts.read(written(tmp_path, text))


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"is a folder; name the \.ts file in it"):
        ts.read(tmp_path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"none\.ts does not exist"):
        ts.read(tmp_path / "none.ts")


GOLDEN = Path(__file__).parents[1] / "golden"
AEON = json.loads((GOLDEN / "ts_aeon.json").read_text(encoding="utf-8"))
"""What aeon 1.6.0 read from each file: how many cases, and digests of their numbers and classes."""
MADE_UP = "ts_gaps"
"""The file that stands here; the others are those of ten sets of the archive."""


def digested(cases):
    """What is stored of aeon's cases, of ours."""
    numbers = hashlib.sha256()
    for case in cases.series:
        numbers.update(np.array(case.shape, dtype=np.int64).tobytes())
        numbers.update(np.ascontiguousarray(case, dtype=np.float64).tobytes())
    # aeon writes classes in lower case; the file's own spelling is kept here.
    classes = hashlib.sha256("\n".join(label.lower() for label in cases.labels).encode())
    return {"cases": len(cases), "values": numbers.hexdigest(), "classes": classes.hexdigest()}


@pytest.mark.parametrize("name", [name for name in AEON if name != MADE_UP])
def test_the_archive_reads_as_aeon_reads_it(real_data, name):
    assert digested(ts.read(real_data / "uea" / name.rpartition("_")[0] / f"{name}.ts")) == AEON[name]


def test_missing_values_and_unequal_lengths_read_as_aeon_reads_them():
    cases = ts.read(GOLDEN / f"{MADE_UP}.ts")
    assert cases.missing == 18
    assert cases.lengths.tolist() == [4, 2, 7, 1, 3]
    assert digested(cases) == AEON[MADE_UP]


def test_the_archive_has_the_shape_it_is_known_for(real_data):
    cases = ts.read(real_data / "uea" / "JapaneseVowels" / "JapaneseVowels_TRAIN.ts")
    assert (len(cases), cases.channels, len(cases.classes)) == (270, 12, 9)
    assert (cases.lengths.min(), cases.lengths.max()) == (7, 26)
