"""`rearview reproduce`: whose published settings a table is run with, by itself and as asked for."""

from pathlib import Path

import pytest

from rearview.bench.analysis import paper_comparison
from rearview.cli import main

RESULTS = Path(__file__).parents[2] / "results" / "rbca.csv"
TABLE = ["reproduce", "rbca", "--table", "T1", "--dataset", "ETTh1", "--horizon", "96", "--device", "cpu"]
OWN = "presets: rbca for patchtst; official for patchtst + softmax (quoted), itransformer (quoted)"


def asked_for(swept) -> set[tuple[str, str, str]]:
    """Network, mechanism and presets of every run."""
    return {
        (cell.model, (cell.attention or {}).get("name", ""), cell.presets) for asked in swept for cell in asked.cells
    }


def test_a_table_is_run_with_its_own_presets(swept, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(TABLE) == 0
    assert ("patchtst", "rbca", "rbca") in asked_for(swept)
    assert ("patchtst", "softmax", "official") in asked_for(swept)
    printed = capsys.readouterr().out
    assert OWN in printed
    assert "as asked for" not in printed


def test_all_runs_of_a_table_get_the_presets_asked_for(swept, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*TABLE, "--presets", "toa"]) == 0
    assert {source for *_, source in asked_for(swept)} == {"toa"}
    printed = capsys.readouterr().out
    assert OWN in printed
    assert "presets of these runs, as asked for: toa" in printed


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (
            "rbca --table S5 --presets ofical",
            1,
            "There is no source of presets 'ofical'. Did you mean 'official'? Known: ",
        ),
        ("rbca --compare --presets rbca", 2, "--compare runs nothing, so no run can get other presets"),
        ("rbca --compare --presets rbcq", 1, "There is no source of presets 'rbcq'. Did you mean 'rbca'?"),
        (
            "toa --table T8 --presets toa",
            2,
            "toa:T8: presets are settings of networks that forecast; leave out --presets.",
        ),
        ("harmonic --presets toa", 2, "harmonic is a synthetic study and takes no --presets."),
    ],
)
def test_presets_that_nobody_has_or_that_bear_on_nothing_are_refused(
    arguments, code, sentence, swept, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *arguments.split()]) == code
    assert sentence in capsys.readouterr().err
    assert swept == []


def test_a_table_says_by_which_rule_a_run_stands_beside_a_number_where_settings_differ(capsys, tmp_path):
    """The row was made with PatchTST's own settings, before table S9 went by those of its paper."""
    table = ["reproduce", "rbca", "--table", "S9", "--dataset", "ETTh1", "--horizon", "96", "--protocol", "clean"]
    assert main([*table, "--compare", "--results", str(RESULTS)]) == 0
    printed = capsys.readouterr().out
    settings = "learning_rate=0.0001, optimiser=adam, weight_decay=0.0, decay_all=True, decay_head=True"
    assert f"patchtst + rbca(bias=causal), {settings}  " in printed
    assert paper_comparison.OTHER_SETTINGS in printed
    (tmp_path / "empty.csv").touch()
    assert main([*table, "--compare", "--results", str(tmp_path / "empty.csv")]) == 0
    assert paper_comparison.OTHER_SETTINGS not in capsys.readouterr().out
