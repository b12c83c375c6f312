"""The command line's own part: help, usage, exit codes, the shelves, and what it does not import."""

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import rearview
from rearview import attention, models
from rearview.bench.papers import catalogue as experiments
from rearview.cli import main
from rearview.core.errors import RearviewWarning
from rearview.data.datasets import catalogue, detection_sets

COMMANDS = ("forecast", "predict", "demo", "bench", "list", "describe")
LIGHT = """
import json, sys
from rearview.cli import main
code = main(sys.argv[1:])
heavy = sorted({"torch", "polars", "pandas", "plotly", "pyarrow"} & set(sys.modules))
sys.stderr.write("\\n" + json.dumps([code, heavy]))
"""


def in_a_process(*arguments: str) -> tuple[str, int, list[str]]:
    """What is printed, the exit code and the heavy packages that were imported."""
    done = subprocess.run([sys.executable, "-c", LIGHT, *arguments], capture_output=True, text=True, check=True)
    code, heavy = json.loads(done.stderr.splitlines()[-1])
    return done.stdout, code, heavy


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"rearview {command}" in printed
    assert "!" not in printed


def test_the_help_names_every_command_and_gives_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(command in printed for command in COMMANDS)
    assert "rearview forecast sales.csv --horizon 28" in " ".join(printed.split())
    assert main([]) == 0
    assert capsys.readouterr().out == printed


def test_the_forecast_help_explains_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    main(["forecast", "--help"])
    printed = capsys.readouterr().out
    flags = ("horizon", "pred-len", "lookback", "seq-len", "input-size", "model", "attention", "target", "level")
    flags += ("out", "seed", "device", "freq", "resume", "windows", "future", "known", "id-col", "set", "train")
    for flag in flags:
        assert f"--{flag}" in printed


def test_help_and_shelves_import_nothing_heavy() -> None:
    light = (["--help"], ["forecast", "--help"], ["list", "models"], ["--version"], ["completion", "bash"], ["runs"])
    for arguments in light:
        printed, code, heavy = in_a_process(*arguments)
        assert code == 0
        assert printed
        assert heavy == [], arguments


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == rearview.__version__


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["forecats"], "forecats"),
        (["forecast"], "FILE"),
        (["forecast", "x.csv"], "--horizon"),
        (["forecast", "x.csv", "--horizon", "many"], "many"),
        (["forecast", "x.csv", "--horizon", "3", "--colour", "red"], "--colour"),
        (["forecast", "x.csv", "--horizon", "3", "--loss", "rmse"], "rmse"),
        (["forecast", "x.csv", "--horizon", "3", "--level", "high"], "--level takes numbers"),
        (["forecast", "x.csv", "--horizon", "3", "--sentinels", "minus"], "--sentinels takes numbers"),
        (["forecast", "x.csv", "--horizon", "3", "--set", "width"], "--set takes name=value"),
        (["forecast", "x.csv", "--horizon", "3", "--attention", "linear:eps"], "--attention takes name=value"),
        (["predict", "model"], "FILE"),
        (["list", "nothing"], "nothing"),
        (["describe"], "NAME"),
        (["describe", "softmax", "rbca"], "has no use for rbca; leave out what is too much, and quote a value"),
        (["list", "models", "rows.csv"], "`rearview list` has no use for rows.csv"),
    ],
)
def test_usage_exits_with_2(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("rearview: ")
    assert words in said
    assert "Traceback" not in said
    known = arguments[0] if arguments[0] in ("forecast", "predict", "list", "describe") else None
    assert said.endswith(f"Try: rearview {known} --help\n" if known else "Try: rearview --help\n")


@pytest.mark.parametrize(
    "arguments",
    [
        "reproduce mica --table T5",
        "bench --dataset ETTh1 --model dlinear",
        "ablate --dataset ETTh1 --model patchtst",
    ],
)
def test_one_file_keeps_rows_and_more_are_refused_in_a_sentence(arguments: str, capsys) -> None:
    assert main([*arguments.split(), "--results", "a.csv", "b.csv", "c.csv", "d.csv", "e.csv"]) == 2
    sentence, *rest = capsys.readouterr().err.splitlines()
    assert "--results takes one, and b.csv, c.csv, d.csv and 1 more cannot be used; name one file" in sentence
    assert rest == [f"Try: rearview {arguments.split()[0]} --help"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["forecast", "nowhere.csv", "--horizon", "3"], "nowhere.csv does not exist"),
        (["predict", "nowhere", "new.csv"], "nowhere does not exist; give the folder of a saved model"),
        (["describe", "patchts"], "Did you mean 'patchtst'"),
    ],
)
def test_bad_input_exits_with_1(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_shelves_are_listed_in_full(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for what, *sections in (("attentions", attention.names()), ("models", models.names(), models.external_names())):
        assert main(["list", what]) == 0
        listed = [part.splitlines() for part in capsys.readouterr().out.split("\n\n")]
        if what == "models":
            assert "--known" in " ".join(listed.pop())
        assert all("[baselines]" in part.pop(0) for part in listed[1:])
        assert [[line.split()[0] for line in part] for part in listed] == sections
        assert all(len(line.split()) > 3 for part in listed for line in part)
    assert main(["list", "datasets", "--data-dir", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    archive = {cell.dataset for cell in experiments.get("toa", "T8").cells}
    assert all(name in printed for name in (*catalogue.names(), *detection_sets.names(), *archive))
    published = [name for name in catalogue.names() if not catalogue.get(name).make]
    assert f"0 of {len(published) + len(detection_sets.names()) + len(archive)} found in {tmp_path}" in printed


@pytest.mark.parametrize(
    "name", ["softmax", "patchtst", "seasonal_naive", "timesnet", "ETTh1", "etth1", "national_illness"]
)
def test_describe(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", name]) == 0
    printed = capsys.readouterr().out
    if name in ("softmax", "patchtst", "seasonal_naive", "timesnet"):
        assert printed.startswith(f"{name}: ")
        assert "settings:" in printed
        assert "claims:" in printed
    else:
        assert "borders:" in printed
        assert "source:" in printed


def test_an_interrupt_before_anything_is_done_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rearview.commands import listing

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(listing, "list_command", interrupted)
    assert main(["list", "models"]) == 130
    assert capsys.readouterr().err == "rearview: Interrupted.\n"


def test_warnings_are_reported_as_plain_lines_once_and_those_of_other_packages_as_python_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rearview.commands import listing

    def warned(*_: object) -> int:
        for number in (1, 1, 2):
            warnings.warn(f"Setting {number} is seldom wanted.", RearviewWarning, stacklevel=1)
        warnings.warn("old spelling", UserWarning, stacklevel=1)
        return 0

    monkeypatch.setattr(listing, "list_command", warned)
    shown = warnings.showwarning
    with pytest.warns(UserWarning, match="old spelling") as others:
        assert main(["list", "models"]) == 0
    assert capsys.readouterr().err == "Setting 1 is seldom wanted.\nSetting 2 is seldom wanted.\n"
    assert [str(one.message) for one in others] == ["old spelling"]
    assert warnings.showwarning is shown


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (MemoryError(), r"The memory of this machine does not suffice for `rearview list` \(MemoryError\); use fewer"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "The memory of this machine does not suffice"),
        (RecursionError("maximum recursion depth"), "is nested too deeply"),
        (
            TypeError("a\nb"),
            r"`rearview list` met something that it was not made for in .*\(TypeError: a b\); run with",
        ),
        (
            type("PanicException", (BaseException,), {})("index out of bounds"),
            r"\(PanicException: index out of bounds\)",
        ),
        (OSError(28, "No space left on device", "out/report.html"), "No space is left for out/report.html"),
    ],
)
def test_what_nobody_foresaw_is_told_in_one_sentence(
    problem: BaseException, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rearview.commands import listing

    def break_down(*_: object) -> int:
        raise problem

    monkeypatch.setattr(listing, "list_command", break_down)
    assert main(["list", "models"]) == 1
    said = capsys.readouterr().err
    assert re.match(f"rearview: .*{sentence}.*\n$", said), said
    assert main(["list", "--debug", "models"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="streams are closed by a POSIX shell")
@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&- >&- 2>&-"])
def test_closed_streams_do_no_harm(closed: str, tmp_path: Path) -> None:
    command = f'"{sys.executable}" -m rearview forecast missing.csv --horizon 3 {closed}'
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert not any(tmp_path.iterdir())


SERIES = "date,größe\n" + "".join(f"2024-01-{day:02},{day % 7}\n" for day in range(1, 31))
FORECAST = [
    "forecast",
    "x.csv",
    "--horizon",
    "2",
    "--model",
    "seasonal_naive",
    "--windows",
    "0",
    "--device",
    "cpu",
    "--out",
    "out",
]


def run_in(folder: Path, words: list[str], **environment: str) -> "subprocess.CompletedProcess[bytes]":
    """A command of its own in a folder, with these variables of the environment."""
    (folder / "x.csv").write_text(SERIES, encoding="utf-8")
    asked = [sys.executable, "-m", "rearview", *words]
    every = {**os.environ, **environment}
    return subprocess.run(asked, cwd=folder, capture_output=True, env=every, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(
    "environment",
    [{"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "cp437", "COLUMNS": "1"}],
    ids=["a plain locale", "an old one"],
)
def test_letters_that_a_locale_does_not_have_end_no_run(environment: dict[str, str], tmp_path: Path) -> None:
    done = run_in(tmp_path, [*FORECAST, "--json"], **environment)
    assert done.returncode == 0, done.stderr
    assert "größe" in {row["unique_id"] for row in json.loads(done.stdout.decode())["forecast"]}


@pytest.mark.skipif(os.name != "posix", reason="streams are closed by a POSIX shell")
def test_closed_input_is_empty_input(tmp_path: Path) -> None:
    command = f'"{sys.executable}" -m rearview forecast - --horizon 3 <&-'
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "rearview: standard input is empty: it has no bytes.\n")


def test_a_dash_behind_out_is_standard_output(tmp_path: Path) -> None:
    assert run_in(tmp_path, FORECAST).returncode == 0
    plain, dash = (run_in(tmp_path, ["predict", "out", "x.csv", *more]) for more in ([], ["--out", "-"]))
    assert plain.returncode == dash.returncode == 0
    assert dash.stdout == plain.stdout != b""


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes are of some file systems")
def test_names_that_are_no_text_and_names_of_full_length(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    odd, long = os.fsdecode(b"b\xffd.csv"), "n" * 251 + ".csv"
    for name in (odd, long):
        Path(name).write_text(SERIES, encoding="utf-8")
    asked = FORECAST[2:-2]
    assert main(["forecast", odd, *asked]) == 1
    assert "b\\udcffd.csv has a name that is no text in UTF-8" in capsys.readouterr().err
    assert main(["forecast", long, *asked]) == 0
    assert (tmp_path / f"rearview-{'n' * 200}" / "forecast.csv").exists()


@pytest.mark.parametrize(("given", "expected"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_threads_that_wait_do_not_spin_unless_told_to(given: dict[str, str], expected: str) -> None:
    inherited = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    told = [sys.executable, "-c", "import os, rearview; print(os.environ['OMP_WAIT_POLICY'])"]
    done = subprocess.run(told, env={**inherited, **given}, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected
