"""The folder of a run: its name, and that no command writes over the run of another one."""

import json
from pathlib import Path

import pytest
from runs import forecast
from samples import wide

from rearview.cli import main
from rearview.commands.output_folder import KINDS, check_folder, default_folder, describe_replaced
from rearview.core.errors import InputError

COMMANDS = [*KINDS, "report"]


def left(folder: Path, command: str) -> Path:
    (folder / "run.json").write_text(json.dumps({"command": command}))
    return folder


def test_a_folder_is_named_after_its_file() -> None:
    assert default_folder("data/sales.csv.gz") == Path("rearview-sales")
    assert default_folder("sales.csv", "rearview-detect") == Path("rearview-detect-sales")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("other", KINDS)
def test_a_run_of_another_command_is_not_written_over(command: str, other: str, tmp_path: Path) -> None:
    left(tmp_path, f"rearview {other} sales.csv --out {tmp_path}")
    if command == other:
        check_folder(tmp_path, command)
        return
    with pytest.raises(InputError) as refused:
        check_folder(tmp_path, command)
    assert str(refused.value) == (
        f"{tmp_path} holds a run of `rearview {other}` (see {tmp_path / 'run.json'}), which `rearview {command}` "
        "would write over; name another folder with --out."
    )


@pytest.mark.parametrize("place", ["model", "model/patchtst"])
@pytest.mark.parametrize("other", KINDS)
def test_a_model_of_another_kind_is_not_written_over(other: str, place: str, tmp_path: Path) -> None:
    manifest = tmp_path / place / KINDS[other].manifest
    manifest.parent.mkdir(parents=True)
    manifest.touch()
    check_folder(tmp_path, other)
    for command in set(COMMANDS) - {other}:
        with pytest.raises(InputError, match=f"holds a run of `rearview {other}`") as refused:
            check_folder(tmp_path, command)
        assert str(manifest) in str(refused.value)


def test_the_demo_is_a_forecast(tmp_path: Path) -> None:
    left(tmp_path, "rearview demo --seed 3")
    check_folder(tmp_path, "forecast")
    with pytest.raises(InputError, match="a run of `rearview forecast`"):
        check_folder(tmp_path, "detect")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "{", '{"command": null}', '{"command": "make all"}', '{"command": "rearview list"}']
)
def test_a_file_that_names_no_run_is_no_obstacle(content: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(content)
    for command in COMMANDS:
        check_folder(tmp_path, command)


@pytest.mark.parametrize(
    ("arguments", "other"),
    [
        (["forecast", "sales.csv", "--horizon", "5"], "detect"),
        (["demo"], "classify"),
        (["detect", "sales.csv"], "classify"),
        (["classify", "train.ts", "test.ts"], "forecast"),
        (["report", "results.csv"], "forecast"),
    ],
)
def test_every_command_looks_before_it_reads_its_files(
    arguments: list[str],
    other: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left(tmp_path, f"rearview {other} sales.csv")
    elsewhere = tmp_path.with_name(f"{tmp_path.name}-elsewhere")
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    Path("sales.csv").write_text("date,load\n2024-01-01,too short and no number\n")
    assert main([*arguments, "--out", str(tmp_path)]) == 1
    assert f"{tmp_path} holds a run of `rearview {other}`" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_nothing_of_a_forecast_is_touched_by_a_detection(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "sales.csv", tmp_path / "out"
    wide(80).to_csv(file, index=False)
    assert forecast(file, out, "--model", "dlinear", "--train", "epochs=1") == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main(["detect", str(file), "--out", str(out), "--device", "cpu"]) == 1
    said = capsys.readouterr()
    assert f"{out} holds a run of `rearview forecast`" in said.err
    assert said.out == ""
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_run_that_is_replaced_is_named(sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert describe_replaced(out) is None
    for horizon in ("5", "4"):
        assert forecast(sales, out, "--model", "dlinear", "--windows", "1", "--horizon", horizon) == 0
        said = capsys.readouterr().out
        assert ("which this one will replace" in said) == (horizon == "4")
    before = f"{out} holds the run of `rearview forecast {sales} --out {out} "
    assert before in said
    assert "--horizon 5`, which this one will replace." in said
    # Taken up again, it is the same run.
    assert forecast(sales, out, "--model", "dlinear", "--windows", "1", "--horizon", "4", "--resume") == 0
    assert "which this one will replace" not in capsys.readouterr().out
    left(out, "rearview something else")
    assert describe_replaced(out) is None
