"""How the command line reads lists, settings and mechanisms."""

import pytest

from rearview.bench.runs.tuning import Range
from rearview.cli import main
from rearview.cli.parse import choices, mechanisms, pairs, whole_numbers, words
from rearview.core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("width=64,dropout=0.1", {"width": 64, "dropout": 0.1}),
        ("betas=(0.9,0.95), epochs=3", {"betas": (0.9, 0.95), "epochs": 3}),
        ("local={'name':'rbca','alpha':[1,2]},gate=mlp", {"local": {"name": "rbca", "alpha": [1, 2]}, "gate": "mlp"}),
        ("paths=('a)','b'),on=true,off=none", {"paths": ("a)", "b"), "on": True, "off": None}),
        ("adapters=[lift, none,3],x=[]", {"adapters": ["lift", None, 3], "x": []}),
    ],
)
def test_commas_inside_brackets_belong_to_the_value(text: str, found: dict[str, object]) -> None:
    assert pairs(text, "--set") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a, b,,c", ("a", "b", "c")),
        ("price (EUR, net),b", ("price (EUR, net)", "b")),
        ("a (,b", ("a (", "b")),
        ("a),b", ("a)", "b")),
        ("", ()),
    ],
)
def test_words(text: str, found: tuple[str, ...]) -> None:
    assert words(text) == found


def test_values_to_try() -> None:
    assert choices("", "--try") == {}
    assert choices("alpha=0.25|0.5|1|0.5, bias=a|none", "--try") == {"alpha": (0.25, 0.5, 1), "bias": ("a", None)}
    assert choices("paths=('a','b')|('c',)", "--try") == {"paths": (("a", "b"), ("c",))}
    for text in ("alpha", "alpha=", "alpha=|"):
        with pytest.raises(UsageError, match="--try takes settings with values separated by"):
            choices(text, "--try")


def test_ranges_to_draw_from() -> None:
    assert choices("rate=1e-5..1e-3:log, dropout=0..0.5, depth=-1..3, bias=a|b", "--try") == {
        "rate": Range(1e-5, 1e-3, log=True),
        "dropout": Range(0.0, 0.5),
        "depth": Range(-1.0, 3.0),
        "bias": ("a", "b"),
    }
    assert choices("width=64..256:32, dropout=0..0.5:0.1", "--try") == {
        "width": Range(64.0, 256.0, step=32.0),
        "dropout": Range(0.0, 0.5, step=0.1),
    }
    for text in ("a=1..", "a=..1", "a=2..1", "a=1..1", "a=0..1:lin", "a=0..1:", "a=x..y", "a=0..inf", "a=0..1:nan"):
        with pytest.raises(UsageError, match="--try takes a range as its least and its greatest number"):
            choices(text, "--try")


def test_mechanisms_with_and_without_settings() -> None:
    assert mechanisms("softmax, rbca") == ("softmax", "rbca")
    assert mechanisms("softmax; rbca:alpha=1,bias=causal") == (
        "softmax",
        {"name": "rbca", "alpha": 1, "bias": "causal"},
    )
    assert mechanisms("caps:paths=('riemann','clock')") == ({"name": "caps", "paths": ("riemann", "clock")},)
    assert mechanisms("mica:local={'name':'rbca'}") == ({"name": "mica", "local": {"name": "rbca"}},)
    assert mechanisms("") == (None,)


@pytest.mark.parametrize("text", ["softmax,rbca:alpha=1", "rbca:alpha=1,softmax", "rbca:alpha=1,toa:kind=relu"])
def test_mechanisms_that_run_together_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"by semicolons .* 'softmax; rbca:alpha=1'; got"):
        mechanisms(text)


@pytest.mark.parametrize("text", ["inf", "nan", "96,-inf", "1.5", ""])
def test_what_is_no_whole_number_is_reported(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="--horizon takes whole numbers"):
        whole_numbers(text, "--horizon")
    assert main(["bench", "--dataset", "ETTh1", "--model", "dlinear", "--horizon", text]) == 2
    assert "--horizon takes whole numbers" in capsys.readouterr().err
