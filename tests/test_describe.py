"""`rearview describe`: what a part is, its settings, its claims as sentences, and what a network costs."""

import pytest

from rearview import attention, models
from rearview.bench import experiments
from rearview.cli import main
from rearview.models import adapters
from rearview.models.costs import cost


def test_a_network_is_described_with_its_cost_at_the_sizes_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = [
        "--channels",
        "5",
        "--lookback",
        "96",
        "--steps",
        "24",
        "--attention",
        "rbca:alpha=0.5",
        "--set",
        "width=64",
    ]
    assert main(["describe", "patchtst", *sizes]) == 0
    printed = capsys.readouterr().out
    counted = cost("patchtst", channels=5, lookback=96, steps=24, attention={"name": "rbca", "alpha": 0.5}, width=64)
    assert printed.startswith("patchtst: PatchTST, official form (Nie et al., 2023)")
    assert "  patch = 16  (int)  Time steps of a patch." in printed
    assert "  width = 64  (int, by default 128)" in printed
    built = "built with rbca(alpha=0.5), width=64:"
    assert f"cost for 5 channels, 96 steps of look-back and 24 steps ahead, {built}" in printed
    for line in counted.lines():
        assert f"  {line}" in printed


def test_types_are_spelled_as_a_person_writes_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "rbca"]) == 0
    printed = capsys.readouterr().out
    assert "  alpha = 0.5  (float | int | [float | int, ...] | None)  " in printed
    assert "  order = 1  (1 | 2)  " in printed
    assert "  window = None  (int | 'auto' | None)  " in printed
    parts = [shelf.describe(name) for shelf in (attention, models) for name in shelf.names()]
    kinds = {setting.kind for part in parts for setting in part.settings}
    assert not [kind for kind in kinds if any(word in kind for word in ("typing", "collections", "Literal", "<"))]


def test_a_network_without_attention_has_no_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "dlinear"]) == 0
    printed = capsys.readouterr().out
    assert "cost for 7 channels, 336 steps of look-back and 96 steps ahead:" in printed
    assert "tokens per window" not in printed


def test_a_borrowed_network_says_what_its_cost_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "_is_installed", lambda name: False)
    assert main(["describe", "timesnet"]) == 0
    assert "pip install 'rearview[baselines]'" in capsys.readouterr().out


def test_an_experiment_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    experiment = experiments.get("rbca", "S5")
    assert main(["describe", "rbca:S5"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"rbca:S5: {experiment.title}"
    assert printed[1].startswith(f"protocol: {experiment.protocol} ")
    assert printed[-1] == f"runs: {len(experiment.cells)} a seed, made by `rearview reproduce rbca --table S5`"
    for every in experiments.every():
        assert main(["describe", every.name]) == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("clean", "`rearview describe protocol:clean`"),
        ("rbca:S55", "rbca has no table 'S55'. Did you mean 'S5'"),
        ("etth3", "Did you mean 'ETTh"),
        ("rbcq:S5", "`list experiments`"),
        ("lft", "Did you mean 'lift'?"),
    ],
)
def test_what_is_not_there_is_refused_with_a_way_on(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", name]) == 1
    assert words in capsys.readouterr().err


def test_a_name_of_both_shelves_is_described_as_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "gat"]) == 0
    printed = capsys.readouterr().out
    assert printed.index("As an attention:") < printed.index(attention.summary("gat"))
    assert printed.index("As a model:") < printed.index(models.summary("gat"))


def test_adapters_are_listed_and_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "adapters"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == adapters.names() == ["channel_heads", "decorrelate", "lift"]
    for name, line in zip(adapters.names(), listed, strict=True):
        assert line.endswith(f"  {adapters.summary(name)}")
        assert main(["describe", name]) == 0
        printed = capsys.readouterr().out
        assert printed.startswith(f"{name}: {adapters.summary(name)}\n\nsettings:\n  ")
        assert adapters.describe(name).details in printed
        assert "claims:" not in printed
        assert printed.endswith(f"--set adapters={name}\n")
    assert "  leaders = 4  (int)  Leading channels of each channel" in printed


@pytest.mark.parametrize("shelf", [attention, models])
def test_claims_are_sentences(shelf) -> None:
    for name in shelf.names():
        _, _, claims = str(shelf.describe(name)).partition("claims:\n")
        sentences = claims.splitlines()
        assert sentences
        assert all(sentence.startswith("  ") for sentence in sentences)
        assert all(sentence.endswith(".") or sentence == "  none" for sentence in sentences)
        assert "Claims(" not in claims


def test_a_claim_with_a_value_says_it() -> None:
    assert "  The setting at which the layer is softmax attention: always." in str(attention.describe("softmax"))


def test_what_can_not_be_built_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "itransformer", "--attention", "rbca"]) != 0
    assert "rbca" in capsys.readouterr().err
