"""`rearview describe`: what a part is, its settings, its claims as sentences, and what a network costs."""

import pytest

from rearview import attention, models, train
from rearview.bench import presets, synthetic
from rearview.bench.papers import catalogue
from rearview.cli import main
from rearview.core.errors import SettingsError
from rearview.core.settings import settings_from, settings_table
from rearview.data.datasets import borders as rules
from rearview.data.datasets import catalogue as data_sets
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


def test_sizes_of_one_are_spelt_in_the_singular(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "patchtst", "--channels", "1", "--lookback", "5", "--steps", "1"]) == 0
    assert "cost for 1 channel, 5 steps of look-back and 1 step ahead:" in capsys.readouterr().out
    assert main(["describe", "dlinear", "--channels", "2", "--lookback", "1", "--steps", "2"]) == 0
    assert "cost for 2 channels, 1 step of look-back and 2 steps ahead:" in capsys.readouterr().out


def test_a_network_without_attention_has_no_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "dlinear"]) == 0
    printed = capsys.readouterr().out
    assert "cost for 7 channels, 336 steps of look-back and 96 steps ahead:" in printed
    assert "tokens per window" not in printed


def test_a_borrowed_network_says_what_its_cost_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "find_spec", lambda package: None)
    assert main(["describe", "timesnet"]) == 0
    assert "[baselines]'" in capsys.readouterr().out


def test_an_experiment_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    experiment = catalogue.get("rbca", "S5")
    assert main(["describe", "rbca:S5"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"rbca:S5: {experiment.title}"
    assert printed[1].startswith(f"protocol: {experiment.protocol} ")
    assert printed[2] == "presets: official for patchtst (`rearview list presets`)"
    assert printed[-1] == f"runs: {len(experiment.cells)} a seed, made by `rearview reproduce rbca --table S5`"
    for every in catalogue.every():
        assert main(["describe", every.name]) == 0


@pytest.mark.parametrize(
    ("name", "borders", "preparation"),
    [
        ("ETTh2", "ett_hourly: 12 months of 30 days train, 4 select and 4 test; later rows stay unused", None),
        ("Weather", "custom: the first 70 % of the rows train, the last 20 % test, the remainder selects", None),
        ("PEMS07", "pems: the first 60 %", "the file has no dates: rows count from 2017-05-01, the first feature"),
        (
            "ETT2_W",
            "GIFT-Eval's short setting: the last tenth of the rows in whole horizons of 8,",
            "every 15 minutes are",
        ),
        ("SOLAR_D", "GIFT-Eval's short setting", "rows every 10 minutes are summed to longer steps"),
        ("JENA_WEATHER_D", "GIFT-Eval's short setting", "rows every hour are put on a regular grid and averaged"),
        ("LOOP_SEATTLE_D", "GIFT-Eval's short setting", "rows at shorter steps are averaged"),
        ("IOWA_PLOWS_5MIN", "tenths: the last tenth of the rows tests", "rows at shorter steps are averaged"),
        ("Weather-repaired", "custom", "sentinels count as missing"),
        ("SOLAR_D-standin", "GIFT-Eval's short setting", None),
    ],
)
def test_a_data_set_says_how_it_is_prepared_and_cut(
    name: str, borders: str, preparation: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["describe", name]) == 0
    printed = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert printed["borders"].startswith(borders)
    assert (preparation or "") in printed.get("preparation", "")
    assert ("preparation" in printed) == (preparation is not None)


def test_every_rule_of_borders_has_words() -> None:
    for dataset in data_sets.names():
        words = rules.describe(data_sets.get(dataset).rule)
        assert len(words.split()) > 5
        assert "<" not in words
    assert all(": " in rules.describe(name) for name in rules.RULES)
    assert rules.describe(lambda rows, lookback: rules.by_rule("custom", rows, lookback)) == "a rule of its own"


@pytest.mark.parametrize("name", synthetic.NAMES)
def test_a_synthetic_study_is_described(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    study = synthetic.get(name)
    assert main(["describe", name]) == 0
    printed = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert printed[name] == study.title
    assert printed["arms"].split(", ") == list(study.arms(False))
    assert f"steps={study.reduced.steps}, " in printed["reduced size"]
    assert f"steps={study.full.steps}, " in printed["full size"]
    assert f"`rearview reproduce {name}`" in printed["runs"]
    assert ("--full" in printed["runs"]) == (len(study.arms(True)) > len(study.arms(False)))
    assert ("larger" in printed["judged by"]) == study.more_is_better
    assert ("published" in printed) == bool(study.published)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("flipflp", "Did you mean 'flipflop'?"),
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


def test_presets_are_listed_and_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "presets"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == presets.names()
    assert {"official", "rbca", "caps", "tslib"} <= set(presets.names())
    for name, line in zip(presets.names(), listed, strict=True):
        assert line.endswith(f"  {presets.summary(name)}")
        assert main(["describe", f"presets:{name}"]) == 0
        assert capsys.readouterr().out.splitlines() == presets.lines(name)
    assert main(["describe", "presets:rbcq"]) == 1
    assert "There is no source of presets 'rbcq'. Did you mean 'rbca'?" in capsys.readouterr().err


def test_cautions_of_pairs_stand_apart_from_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "pairs"]) == 0
    table, refused, cautions = (part.splitlines() for part in capsys.readouterr().out.split("\n\n"))
    marks = {line.split()[0]: line.split()[1:] for line in table[1:]}
    assert refused[0] == "Refused, and why:"
    assert len(refused) - 1 == sum(found.count("-") for found in marks.values())
    assert cautions[0] == "Possible, with a caution:"
    assert [line.partition(":")[0] for line in cautions[1:]] == ["patchtst with toa", "powerformer with toa"]
    assert marks["patchtst"][table[0].split().index("toa")] == "yes"


def test_adapters_are_listed_and_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "adapters"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == adapters.names() == ["channel_heads", "decorrelate", "lagts", "lift"]
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


def test_every_setting_of_the_training_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "training"]) == 0
    printed = capsys.readouterr().out
    for setting in settings_table(train.Settings):
        line = f"  {setting.name} = {setting.default}  ({setting.kind})  {setting.meaning}"
        assert (line in printed) == (setting.name != "seed")
        assert setting.meaning
    assert "--train epochs=30" in printed


@pytest.mark.parametrize(
    ("word", "known"),
    [("lr", "learning_rate"), ("max_epochs", "epochs"), ("batch_size", "batch"), ("early_stopping", "patience")],
)
def test_a_setting_by_another_name_is_pointed_at(word: str, known: str) -> None:
    with pytest.raises(SettingsError, match=rf"Training has no setting '{word}'\. Did you mean '{known}'\?"):
        settings_from(train.Settings, "Training", {word: 1})


def test_networks_that_take_known_inputs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    every = [*models.names(), *models.external_names()]
    assert sorted(models.KNOWN_INPUTS) == sorted(name for name in every if models.claims(name).uses_marks)
    assert main(["list", "models"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"inputs known in the future (--known) go into: {', '.join(models.KNOWN_INPUTS)}"
    assert main(["describe", "itransformer"]) == 0
    assert "inputs known in the future (known=..., --known)" in capsys.readouterr().out
