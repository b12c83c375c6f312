"""The folder of a run: it belongs to the user, and a run replaces what a run of the same command made, as a whole."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from runs import FILES, forecast
from samples import wide

from rearview.cli import main
from rearview.commands.run_files import default_folder, describe_replaced
from rearview.core import output_folder
from rearview.core.errors import InputError
from rearview.core.files import lock_folder, write_atomically
from rearview.core.output_folder import MARK, OUTPUTS, OutputFolder, complete_run

COMMANDS = [*OUTPUTS]
DLINEAR = ("--model", "dlinear", "--windows", "1")


def left(folder: Path, command: str, **facts: object) -> Path:
    (folder / "run.json").write_text(json.dumps({"command": command, **facts}))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def put(folder: Path, **texts: str) -> None:
    """Files by name, with two underscores for a slash."""
    for name, text in texts.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def publish(folder: Path, command: str = "forecast", **texts: str) -> None:
    """A run that writes these files and a run.json."""
    with OutputFolder.claim(folder, command) as output:
        output.publish(lambda place: put(left(place, f"rearview {command}"), **texts))


def test_a_folder_is_named_after_its_file() -> None:
    assert default_folder("data/sales.csv.gz") == Path("rearview-sales")
    assert default_folder("sales.csv", "rearview-detect") == Path("rearview-detect-sales")
    names = ("air.csv", "air.jsonl", "air.parquet", "air.xlsx", "air.tsv", "air.jsonl.gz", "-", "data/")
    words = ("air", "air-jsonl", "air-parquet", "air-xlsx", "air-tsv", "air-jsonl", "stdin", "data")
    assert [default_folder(name) for name in names] == [Path(f"rearview-{word}") for word in words]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("other", ["forecast", "detect", "classify"])
def test_a_run_of_another_command_is_not_written_over(command: str, other: str, tmp_path: Path) -> None:
    left(tmp_path, f"rearview {other} sales.csv --out {tmp_path}")
    if command == other:
        with OutputFolder.claim(tmp_path, command):
            pass
        return
    with pytest.raises(InputError) as refused, OutputFolder.claim(tmp_path, command):
        pass
    assert str(refused.value) == (
        f"{tmp_path} holds a run of `rearview {other}` (see {tmp_path / 'run.json'}), which `rearview {command}` "
        "would write over; name another folder with --out."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_the_demo_is_a_forecast(tmp_path: Path) -> None:
    left(tmp_path, "rearview demo --seed 3")
    (tmp_path / "demo.csv").touch()
    with OutputFolder.claim(tmp_path, "forecast") as output:
        assert output.made == {"demo.csv", "run.json"}
    with pytest.raises(InputError, match="a run of `rearview forecast`"), OutputFolder.claim(tmp_path, "detect"):
        pass


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "{", '{"command": null}', '{"command": "make all"}', '{"command": "rearview list"}']
)
def test_a_run_file_of_something_else_is_no_mark(content: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(content)
    for command in COMMANDS:
        with pytest.raises(InputError, match="is not empty and holds no run"), OutputFolder.claim(tmp_path, command):
            pass
        assert contents(tmp_path) == {"run.json": content.encode()}


@pytest.mark.parametrize("name", ["../other.csv", "/other.csv", "elsewhere/other.csv", ""])
def test_a_mark_can_not_name_files_outside_its_folder(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "other.csv").write_text("mine")
    (out / "elsewhere").symlink_to(tmp_path)
    left(out, "rearview forecast", files=[name, "run.json"])
    with pytest.raises(InputError, match="holds no run"), OutputFolder.claim(out, "forecast"):
        pass
    assert (tmp_path / "other.csv").read_text() == "mine"


def test_a_run_replaces_what_the_run_before_made_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out"
    publish(out, **{"forecast.csv": "1", "backtest.csv": "1", "model__a__weights-1.safetensors": "1"})
    put(out, **{"notes.txt": "mine", "model__readme": "mine", "checkpoints__epoch-1.safetensors": "mine"})
    put(out, **{"checkpoints__mlp-0123456789ab-final.safetensors": "a run's", "model__weights-0.safetensors": "mine"})
    publish(out, **{"forecast.csv": "2", "model__forecaster.json": "2"})
    assert {name: text for name, text in contents(out).items() if name != "run.json"} == {
        "forecast.csv": b"2",
        "model/forecaster.json": b"2",
        "notes.txt": b"mine",
        "model/readme": b"mine",
        "model/weights-0.safetensors": b"mine",
        "checkpoints/epoch-1.safetensors": b"mine",
    }
    assert json.loads((out / "run.json").read_text())["files"] == ["forecast.csv", "model/forecaster.json", "run.json"]


def test_a_folder_of_other_things_is_refused_or_written_to_on_purpose(tmp_path: Path) -> None:
    put(tmp_path, **{"forecast.csv": "mine", "notes.txt": "mine", "checkpoints__a.pt": "mine"})
    put(tmp_path, **{"checkpoints__0123456789ab.safetensors": "mine"})
    before = contents(tmp_path)
    with pytest.raises(InputError, match=r"is not empty .*: checkpoints, forecast.csv, notes.txt; .* --overwrite"):
        publish(tmp_path)
    assert contents(tmp_path) == before
    with OutputFolder.claim(tmp_path, "forecast", overwrite=True) as output:
        output.publish(lambda place: put(place, **{"forecast.csv": "new", "run.json": "{}"}))
    after = contents(tmp_path)
    assert after.pop("forecast.csv") == b"new"
    assert {name: after[name] for name in before if name != "forecast.csv"} == {
        name: text for name, text in before.items() if name != "forecast.csv"
    }


def test_checkpoints_of_others_outlive_runs_and_those_of_portfolios_go(tmp_path: Path) -> None:
    put(tmp_path, checkpoints__0123456789ab="mine", **{"checkpoints__0123456789ab.safetensors": "mine"})
    with (
        pytest.raises(InputError, match="no"),
        OutputFolder.claim(tmp_path, "forecast", overwrite=True),
    ):
        raise InputError("no")
    before = {"checkpoints/0123456789ab", "checkpoints/0123456789ab.safetensors"}
    assert {*contents(tmp_path)} == before  # a run that made nothing leaves no mark
    for overwrite in (True, False):
        with OutputFolder.claim(tmp_path, "forecast", overwrite=overwrite) as output:
            put(tmp_path, **{"checkpoints__auto-0123456789ab__ets-0123456789ab.npz": "a run's"})
            put(tmp_path, **{"checkpoints__auto-0123456789ab__patchtst-final.safetensors": "a run's"})
            output.publish(lambda place: put(left(place, "rearview forecast"), **{"forecast.csv": "1"}))
        assert {*contents(tmp_path)} == {*before, "forecast.csv", "run.json"}


def test_a_run_file_or_a_folder_of_others_is_met_before_anything_is_computed(
    sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "out", **{"run.json": '{"mine": 1}'})
    assert forecast(sales, tmp_path / "out", *DLINEAR, "--overwrite") == 0
    assert "which this one will replace" not in capsys.readouterr().out
    put(tmp_path / "other", **{"report.html__mine": "mine"})
    assert forecast(sales, tmp_path / "other", *DLINEAR, "--overwrite") == 1
    assert "report.html is a folder" in capsys.readouterr().err


def test_a_file_of_the_user_among_those_of_a_run_is_not_written_over(tmp_path: Path) -> None:
    publish(tmp_path, **{"forecast.csv": "1"})
    put(tmp_path, **{"backtest.csv": "mine"})
    with pytest.raises(InputError, match=r"backtest.csv was not made by the run"):
        publish(tmp_path)
    (tmp_path / "backtest.csv").unlink()
    with OutputFolder.claim(tmp_path, "forecast") as output:
        put(tmp_path, **{"backtest.csv": "mine"})
        with pytest.raises(InputError, match=r"came while the run was under way .* are in .*unpublished-") as refused:
            output.publish(lambda place: put(place, **{"backtest.csv": "a run's", "forecast.csv": "2"}))
    aside = Path(str(refused.value).rpartition(" ")[2].rstrip("."))
    assert contents(aside) == {"backtest.csv": b"a run's", "forecast.csv": b"2"}
    assert (tmp_path / "backtest.csv").read_text() == "mine"
    assert (tmp_path / "forecast.csv").read_text() == "1"


def test_a_run_that_leaves_nothing_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no"), OutputFolder.claim(tmp_path / "a" / "b", "forecast"):
        raise InputError("no")
    assert not (tmp_path / "a").exists()


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    with OutputFolder.claim(tmp_path / "out", "forecast"):
        asked = "from rearview.core.output_folder import OutputFolder as O; from pathlib import Path; import sys\n"
        asked += "with O.claim(Path(sys.argv[1]), 'forecast'): pass"
        other = subprocess.run([sys.executable, "-c", asked, str(tmp_path / "out")], capture_output=True, text=True)
    assert f"Another run is writing to {tmp_path / 'out'}" in other.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can't fork")
@pytest.mark.parametrize("step", range(5))
def test_a_run_killed_while_its_files_are_put_in_place_is_completed(step: int, tmp_path: Path) -> None:
    """The process dies at its n-th rename; whoever comes next finds the new run whole, or the old one."""
    out = tmp_path / "out"
    old = {"forecast.csv": "1", "backtest.csv": "1", "model__weights-1.safetensors": "1", "model__forecaster.json": "1"}
    new = {"forecast.csv": "2", "model__weights-2.safetensors": "2", "model__forecaster.json": "2"}
    publish(out, **old)
    child = os.fork()
    if child == 0:
        done = iter(range(step))
        rename = os.replace

        def replace(source: Path, target: Path) -> None:
            if ".part" not in str(source) and next(done, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            rename(source, target)

        output_folder.os.replace = replace  # type: ignore[assignment]
        publish(out, **new)
        os._exit(0)
    os.waitpid(child, 0)
    complete_run(out)
    found = {name: text.decode() for name, text in contents(out).items() if name not in (MARK, "run.json")}
    whole = [{name.replace("__", "/"): text for name, text in one.items()} for one in (old, new)]
    assert found in whole
    publish(out, **new)
    assert sorted(contents(out)) == sorted([*whole[1], "run.json"])


@pytest.mark.parametrize("problem", [KeyboardInterrupt, OSError])
@pytest.mark.parametrize("step", range(4))
def test_a_run_stopped_while_its_files_are_put_in_place_is_completed(
    step: int, problem: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    old, new = ({"backtest.csv": f"{run}", "forecast.csv": f"{run}", "report.html": f"{run}"} for run in (1, 2))
    publish(out, **old)
    calls, rename = iter(range(99)), os.replace

    def replace(source: Path, target: Path) -> None:
        if ".part" not in str(source) and next(calls) == step:
            raise problem
        rename(source, target)

    monkeypatch.setattr(output_folder.os, "replace", replace)
    with pytest.raises(problem):
        publish(out, **new)
    monkeypatch.undo()
    assert {name: text.decode() for name, text in contents(out).items() if name != "run.json"} == new
    assert json.loads((out / "run.json").read_text())["files"] == sorted([*new, "run.json"])


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
    # The folder that one stands in holds the input, and is not written to unless on purpose.
    assert main([*arguments, "--out", "."]) == 1
    assert "is not empty and holds no run" in capsys.readouterr().err
    assert main([*arguments, "--out", ""]) == 2
    assert "--out" in capsys.readouterr().err
    assert os.listdir(".") == ["sales.csv"]


def test_nothing_of_a_forecast_is_touched_by_a_detection(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "sales.csv", tmp_path / "out"
    wide(80).to_csv(file, index=False)
    assert forecast(file, out, "--model", "dlinear", "--train", "epochs=1") == 0
    before = contents(out)
    capsys.readouterr()
    assert main(["detect", str(file), "--out", str(out), "--device", "cpu"]) == 1
    said = capsys.readouterr()
    assert f"{out} holds a run of `rearview forecast`" in said.err
    assert said.out == ""
    assert contents(out) == before


def test_an_input_is_never_the_output(sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert forecast(sales, out, *DLINEAR) == 0
    before, data, model = contents(out), sales.read_bytes(), str(out / "model")
    (tmp_path / "link.csv").symlink_to(out / "forecast.csv")
    for file in (out / "forecast.csv", tmp_path / "link.csv"):
        assert forecast(file, out, *DLINEAR, "--overwrite") == 1
        assert "forecast.csv is an input of this run" in capsys.readouterr().err
    for place, why in (
        (sales, "would write over an input"),
        (out / "model" / "forecaster.json", f"is in {model}, an input"),
    ):
        assert main(["predict", model, str(sales), "--out", str(place)]) == 1
        assert why in capsys.readouterr().err
    for name in ("forecast.csv", "run.json"):
        assert main(["predict", model, str(sales), "--out", str(out / name)]) == 1
        assert f"{out / name}, which belongs to the run in {out}" in capsys.readouterr().err
    assert contents(out) == before
    assert sales.read_bytes() == data


def test_a_run_that_is_replaced_is_named(sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert describe_replaced(out) is None
    for horizon in ("5", "4"):
        assert forecast(sales, out, *DLINEAR, "--horizon", horizon) == 0
        said = capsys.readouterr().out
        assert ("which this one will replace" in said) == (horizon == "4")
    assert sorted(path.name for path in out.iterdir()) == FILES
    before = f"{out} holds the run of `rearview forecast {sales} --out {out} "
    assert before in said
    assert "--horizon 5`, which this one will replace." in said
    # Taken up again, it is the same run.
    assert forecast(sales, out, *DLINEAR, "--horizon", "4", "--resume") == 0
    assert "which this one will replace" not in capsys.readouterr().out
    left(out, "rearview something else")
    assert describe_replaced(out) is None


def test_a_run_of_an_earlier_version_is_replaced(sales: Path, tmp_path: Path) -> None:
    """Its run.json does not list the files, and a summary beside it is somebody else's."""
    out = tmp_path / "out"
    assert forecast(sales, out, *DLINEAR) == 0
    facts = json.loads((out / "run.json").read_text())
    del facts["files"]
    (out / "run.json").write_text(json.dumps(facts))
    put(out, **{"summary.md": "mine"})
    assert forecast(sales, out, *DLINEAR) == 1
    assert (out / "summary.md").read_text() == "mine"
    (out / "summary.md").unlink()
    put(out, **{"model__weights-0.safetensors": "mine"})
    assert forecast(sales, out, "--model", "dlinear", "--horizon", "4", "--windows", "0") == 0
    assert sorted(path.name for path in out.iterdir()) == sorted({*FILES} - {"backtest.csv"})
    assert (out / "model" / "weights-0.safetensors").read_text() == "mine"
    assert len(list((out / "model").iterdir())) == 3


def test_temporary_files_follow_no_link_and_leave_devices_alone(tmp_path: Path) -> None:
    target = tmp_path / "a.csv"
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "a.csv.part").symlink_to(tmp_path / "victim")
    write_atomically(target, "new")
    assert target.read_text() == "new"
    assert (tmp_path / "victim").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.csv.part", "victim"]
    if os.name == "posix":
        fifo = Path("/dev/null")
        write_atomically(fifo, "nothing")
        assert fifo.is_char_device()


def test_what_a_killed_process_left_half_written_goes_later(tmp_path: Path) -> None:
    old, fresh = tmp_path / ".rearview-00.part", tmp_path / ".rearview-01.part"
    for path in (old, fresh):
        path.touch()
    os.utime(old, (0, 0))
    write_atomically(tmp_path / "a", "")
    assert (old.exists(), fresh.exists()) == (False, True)


def test_a_folder_is_held_by_one_process(tmp_path: Path) -> None:
    with lock_folder(tmp_path) as first, lock_folder(tmp_path, wait=False) as second:
        assert (first, second) == (True, False)
    with lock_folder(tmp_path, wait=False) as again:
        assert again


def test_a_place_that_can_not_become_a_folder_is_refused_by_its_reason(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    places = {"link": "a link that leads nowhere", "n" * 300: "can't be a folder", "link/in/it": "leads nowhere"}
    for name, reason in places.items():
        with pytest.raises(InputError, match=reason), OutputFolder.claim(tmp_path / name, "forecast"):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_a_stream_that_leads_to_a_file_stays_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = tmp_path / "dev"
    devices.mkdir()
    (devices / "stdout").symlink_to(tmp_path / "redirected")
    (tmp_path / "redirected").touch()
    monkeypatch.setattr("rearview.core.files._DEVICES", devices)
    write_atomically(devices / "stdout", "rows")
    assert (devices / "stdout").is_symlink()
    assert (tmp_path / "redirected").read_text() == "rows"


def test_letters_that_are_no_text_are_spelt_out(tmp_path: Path) -> None:
    write_atomically(tmp_path / "page", os.fsdecode(b"b\xff"))
    assert (tmp_path / "page").read_text() == "b\\udcff"


@pytest.mark.skipif(os.name != "posix", reason="the size of files is limited by POSIX")
def test_a_run_that_ran_out_of_space_leaves_a_folder_that_the_next_one_takes(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(wide(60).to_csv(index=False))
    words = ["forecast", "x.csv", "--horizon", "3", *DLINEAR, "--train", "epochs=1", "--out", "out"]
    limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
    limit += "from rearview.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", limit, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "No space is left for out" in done.stderr
    assert not (tmp_path / "out").exists()
