"""The synthetic studies: their networks and measures, and how runs are kept."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rearview import attention
from rearview.bench import synthetic
from rearview.bench.rows import result_file
from rearview.bench.synthetic import components, flipflop, harmonic, runner
from rearview.bench.synthetic.runner import CurvePoint
from rearview.bench.synthetic.study import StudyRun
from rearview.core.errors import InputError, SettingsError
from rearview.data.synthetic.flipflop import IGNORE, READ, WRITE, hide_answers
from rearview.data.synthetic.flipflop import draw_strings as flipflop_strings
from rearview.data.synthetic.harmonic import REGIMES, draw_signals

QUICK = {
    "flipflop": {"length": 22, "width": 8, "steps": 4, "stretch": 2, "batch": 3, "tested": 7},
    "harmonic": {"length": 28, "width": 6, "steps": 4, "stretch": 2, "batch": 3, "tested": 13},
    "operators": {"length": 28, "width": 6, "steps": 4, "stretch": 2, "batch": 3, "tested": 13},
    "components": {"lookback": 17, "horizon": 5, "width": 8, "steps": 4, "stretch": 2, "batch": 3, "tested": 7},
}
ARMS = {
    "flipflop": ("mha", "butterworth"),
    "harmonic": ("softmax", "toa_gated"),
    "operators": ("transients/toa_gated", "continuation/fixed"),
    "components": ("all/all", "trend/clock"),
}


def make(name, out, **changes):
    return synthetic.run(name, out=out, arms=ARMS[name], device="cpu", changes={**QUICK[name], **changes})


@pytest.mark.parametrize("name", synthetic.NAMES)
def test_a_study_keeps_rows_curves_and_figures(name, tmp_path):
    rows = make(name, tmp_path)
    assert [row.arm for row in rows] == list(ARMS[name])
    study = synthetic.get(name)
    assert result_file.read(tmp_path / f"{name}.csv", study.row) == rows
    for row, run in zip(rows, synthetic.read_runs(name, tmp_path), strict=True):
        assert run.row == row
        assert (row.steps, row.ended, row.size, row.device.split()[0]) == (4, "steps", "changed", "cpu")
        seen = [point for point in run.curve if point.metric == study.metric]
        assert [point.step for point in seen] == [2, 4]
        assert seen[-1].value == getattr(row, study.metric)
        assert run.arrays


@pytest.mark.parametrize("name", synthetic.NAMES)
def test_a_run_that_is_kept_is_not_made_again_and_equals_its_repetition(name, tmp_path):
    rows = make(name, tmp_path / "one")
    assert make(name, tmp_path / "one") == rows
    assert len(result_file.read(tmp_path / "one" / f"{name}.csv", synthetic.get(name).row)) == len(rows)
    losses = [row.train_loss for row in rows]
    assert [row.train_loss for row in make(name, tmp_path / "two")] == losses
    assert [row.train_loss for row in make(name, tmp_path / "one", learning_rate=0.1)] != losses


def test_a_run_out_of_time_says_so_and_is_made_again(tmp_path):
    options = {"out": tmp_path, "arms": ("mha",), "device": "cpu", "changes": {**QUICK["flipflop"], "steps": 6}}
    cut = synthetic.run("flipflop", seconds=0, **options)[0]
    assert (cut.steps, cut.ended) == (2, "seconds")
    whole = synthetic.run("flipflop", **options)[0]
    assert (whole.steps, whole.ended) == (6, "steps")
    (run,) = synthetic.read_runs("flipflop", tmp_path)
    assert run.row == whole
    assert [point.step for point in run.curve if point.metric == "sparse"] == [2, 4, 6]
    assert len({point.began for point in result_file.read(tmp_path / "flipflop-looks.csv", CurvePoint)}) == 2


def test_a_killed_process_is_reported_and_the_others_go_on(tmp_path, monkeypatch):
    def spread(work, orders, workers):
        yield orders[1], work(orders[1])
        yield orders[0], None

    monkeypatch.setattr(runner, "spread", spread)
    told = []
    options = {"out": tmp_path, "device": "cpu", "workers": 2, "changes": QUICK["flipflop"], "say": told.append}
    [row] = synthetic.run("flipflop", arms=ARMS["flipflop"], **options)
    assert row.arm == ARMS["flipflop"][1]
    assert told[1].startswith("flipflop mha seed 0: failed: The process that made this run was killed")
    monkeypatch.setattr(runner, "spread", lambda work, orders, workers: ((order, None) for order in orders))
    with pytest.raises(InputError, match="No run of flipflop came to an end"):
        synthetic.run("flipflop", arms=("mha",), **options)


def test_two_commands_make_one_row(tmp_path, monkeypatch):
    """The second does not see the first's row before it has trained."""
    rows = make("flipflop", tmp_path)
    kept = result_file.known_rows
    monkeypatch.setattr(result_file, "known_rows", lambda path, kind: kept(path, kind) and [])
    assert make("flipflop", tmp_path) == rows
    assert result_file.read(tmp_path / "flipflop.csv", synthetic.get("flipflop").row) == rows


def test_rows_without_their_figures_are_reported(tmp_path):
    make("harmonic", tmp_path)
    next((tmp_path / "harmonic").glob("softmax-*.npz")).unlink()
    with pytest.raises(InputError, match="rows and these files go together"):
        synthetic.read_runs("harmonic", tmp_path)


@pytest.mark.slow
def test_arms_run_in_processes_of_their_own(tmp_path):
    told = []
    rows = synthetic.run(
        "flipflop", out=tmp_path, arms=ARMS["flipflop"], device="cpu", workers=2, changes=QUICK["flipflop"],
        say=told.append,
    )  # fmt: skip
    assert [row.arm for row in rows] == list(ARMS["flipflop"])
    # Whichever process ends first speaks first.
    assert sorted(sentence.split()[1] for sentence in told) == sorted(ARMS["flipflop"])
    assert len(result_file.read(tmp_path / "flipflop.csv", flipflop.STUDY.row)) == 2


def test_wrong_names_and_sizes_are_refused(tmp_path):
    with pytest.raises(SettingsError, match=r"no synthetic study 'flipflip'\. Did you mean 'flipflop'"):
        synthetic.get("flipflip")
    with pytest.raises(SettingsError, match=r"no flipflop arm 'alibbi'.*mha"):
        synthetic.run("flipflop", out=tmp_path, arms=("alibbi",))
    with pytest.raises(SettingsError, match="must be a multiple of it"):
        synthetic.get("harmonic").resize(False, {"steps": 250})
    with pytest.raises(SettingsError, match="stretch is 0; steps must be a multiple"):
        make("flipflop", tmp_path, stretch=0)
    with pytest.raises(SettingsError, match=r"tested is 2; so few signals are not of all regimes \(stationary, "):
        make("harmonic", tmp_path, tested=2)
    with pytest.raises(SettingsError, match="no setting 'step'"):
        synthetic.get("harmonic").resize(False, {"step": 200})
    with pytest.raises(SettingsError, match="workers is 0"):
        synthetic.run("flipflop", out=tmp_path, workers=0)
    assert not list(tmp_path.iterdir())


def test_the_declared_sizes_are_the_papers():
    full = flipflop.STUDY.full
    assert (full.length, full.width, full.heads, full.depth, full.batch) == (512, 512, 4, 2, 32)
    assert (full.learning_rate, full.weight_decay, full.steps) == (1e-5, 0.1, 11_000)
    assert (harmonic.STUDY.full.length, harmonic.STUDY.full.heads, harmonic.STUDY.full.depth) == (672, 2, 2)
    assert harmonic.STUDY.published == {"softmax": "0.0972", "toa_relu": "0.0035", "toa_gated": "0.0028"}


def test_heads_fade_at_rates_of_their_own():
    site = attention.Site(groups=1, tokens=8, width=8, heads=4, causal=True)
    rates = {}
    for arm, spec in flipflop.STUDY.arms(False).items():
        name, chosen = attention.split(spec)
        if name == "rbca":
            rates[arm] = attention.create(name, site, **chosen).decay.rates
    assert rates["alibi"] == pytest.approx((0.25, 0.0625, 0.015625, 0.00390625))
    assert rates["power_law"] == pytest.approx((0.25, 0.5, 0.75, 1.0))
    assert rates["similarity_power_law"] == pytest.approx((0.1, 0.5, 1.0, 2.0))
    assert rates["butterworth"] == pytest.approx((5, 10, 15, 20))


@pytest.mark.parametrize("arm", flipflop.STUDY.arms(False))
def test_a_reader_never_sees_the_answer(arm):
    size = flipflop.STUDY.resize(False, QUICK["flipflop"])
    reader = flipflop.Reader(size, flipflop.STUDY.arms(False)[arm]).eval()
    text = flipflop_strings(3, 22, 0.5, generator=torch.Generator().manual_seed(0))
    other = text.clone()
    other[:, 11:] = other[:, 11:].flip(0)
    other[:, 11] = 1 - other[:, 11]
    # Pair 5 is symbols 10 and 11: its answer is given at symbol 10.
    assert torch.equal(reader(text)[:, :6], reader(other)[:, :6])


def test_only_reads_are_scored():
    text = torch.tensor([[WRITE, 1, IGNORE, 0, READ, 1, IGNORE, 1, READ, 1]])
    logits = torch.zeros(1, 5, 2)
    logits[0, 2] = torch.tensor([0.0, math.log(3)])
    trial = flipflop.FlipFlopTrial(flipflop.STUDY.resize(False, QUICK["flipflop"]), "mha", "cpu")
    total, number = trial.loss(lambda batch: logits, text)
    assert number.item() == 2
    assert total.item() == pytest.approx(-math.log(0.75) + math.log(2))


def test_attention_of_the_last_read_is_sorted_by_what_it_falls_on():
    text = torch.tensor([[WRITE, 1, WRITE, 0, IGNORE, 1, READ, 0]])
    weights = torch.tensor([0.05, 0.11, 0.2, 0.51, 0.03, 0.0, 0.1, 0.0]).view(1, 1, 1, 8)

    class Known(torch.nn.Module):
        def read_weights(self, text):
            return weights.expand(1, len(text), 2, 8)

    arrays = flipflop.read_attention(Known(), text)
    assert arrays["means"][0, 0] == pytest.approx([0.51, 0.2, 0.11, 0.05])
    assert arrays["shares"].shape == (1, 2, 4, flipflop.BINS)
    assert [int(row.argmax()) for row in arrays["shares"][0, 1]] == [10, 4, 2, 1]
    assert np.allclose(arrays["shares"].sum(-1), 1)


def test_an_operator_that_passes_everything_on_has_gain_one():
    class Identity(torch.nn.Module):
        def forward(self, noisy):
            return noisy

        def operators(self, noisy):
            return torch.eye(28).expand(2, len(noisy), 3, 28, 28)

        def offsets(self):
            return None

    arrays, negative = harmonic.read_operators(
        Identity(), draw_signals(40, 28, generator=torch.Generator().manual_seed(2))
    )
    assert np.allclose(arrays["responses"], 1, atol=1e-5)
    assert arrays["responses"].shape == (2, 3, 15)
    assert negative == 0
    assert "offsets" not in arrays
    assert np.array_equal(arrays["restored"], arrays["noisy"])


def test_convex_weights_pass_the_mean_and_signed_operators_can_take_it_off():
    size = harmonic.STUDY.resize(False, QUICK["harmonic"])
    torch.manual_seed(0)
    network = harmonic.Restorer(size, harmonic.STUDY.spec("toa_softmax"))
    tested = draw_signals(40, 28, generator=torch.Generator().manual_seed(2))
    offsets = [block.attend.value_offset for block in network.stack.blocks]
    for value, mean, signed in ((0.0, 1.0, False), (-1 / 28, 0.0, True)):
        with torch.no_grad():
            for offset in offsets:
                offset.fill_(value)
        arrays, negative = harmonic.read_operators(network, tested)
        assert arrays["responses"][..., 0] == pytest.approx(mean, abs=1e-5)
        assert (negative > 0) == signed
        assert np.allclose(arrays["offsets"], value, atol=1e-4)


def test_errors_are_measured_by_regime():
    size = harmonic.STUDY.resize(False, {**QUICK["harmonic"], "tested": 30, "batch": 30})
    trial = harmonic.HarmonicTrial(size, "softmax", "cpu")
    off = torch.tensor([0.0, 1.0, 2.0])[trial.tested.regime][:, None]
    trial.network = lambda noisy: trial.tested.clean + off
    errors = trial.measure()
    assert [errors[f"mse_{regime}"] for regime in REGIMES] == pytest.approx([0, 1, 4], abs=1e-6)
    assert errors["mse"] == pytest.approx(off.square().mean().item())


def test_operators_are_thinned_evenly():
    drawn = harmonic.thin(torch.arange(672.0).expand(1, 1, 672, 672))
    assert drawn.shape == (1, 1, 112, 112)
    assert drawn[0, 0, 0].tolist() == list(range(0, 672, 6))


def trained_on_components(arm):
    size = components.STUDY.resize(False, QUICK["components"])
    return components.STUDY.make(StudyRun("components", arm, size, 0, "cpu"))


def test_shares_of_paths_add_up_and_silence_is_reported_of_paths_that_are_there():
    row, _ = trained_on_components("all/all")
    assert row.share_riemann + row.share_prefix + row.share_clock == pytest.approx(1)
    assert None not in (row.without_riemann, row.without_prefix, row.without_clock)
    alone, arrays = trained_on_components("shocks/prefix")
    assert (alone.share_prefix, alone.share_clock, alone.without_prefix) == (1, None, None)
    assert (alone.parts, alone.paths) == ("shocks", "prefix")
    assert arrays["paths"].tolist() == ["prefix"]


def test_a_silenced_path_is_heard_again():
    from rearview import models

    network = models.create("caps_net", channels=1, lookback=17, steps=5, width=8, heads=2).eval()
    past = torch.randn(3, 1, 17, generator=torch.Generator().manual_seed(1))
    whole = network(past)
    found = network.weights(past)[0]
    with components.silence(network, "prefix"):
        assert set(network.weights(past)[0]) == {"riemann", "clock"}
        assert torch.equal(network.weights(past)[0]["clock"], found["clock"])
        assert not torch.equal(network(past), whole)
    assert torch.equal(network(past), whole)


def test_weights_are_taken_by_age():
    window = torch.arange(2.0).view(1, 1, 2)
    layer = {"clock": torch.tensor([[1.0, 0, 0], [2, 3, 0], [-4, 5, 6]]).view(1, 1, 1, 3, 3)}

    class Known(torch.nn.Module):
        def forward(self, past, *marks):
            return past[..., -1:]

        def weights(self, past, *marks):
            return [layer]

    tested = SimpleNamespace(past=window, future=torch.zeros(1, 1, 1), past_marks=None, future_marks=None)
    arrays = components.read_attention(Known(), tested, ("clock",))
    assert arrays["by_age"].tolist() == [[6, 5, 4]]


def test_arms_are_called_after_parts_and_paths():
    few, many = components.STUDY.arms(False), components.STUDY.arms(True)
    assert len(few) == 16
    assert len(many) == 28
    assert many["all/riemann+clock"] == {"name": "caps", "paths": ("riemann", "clock")}
    assert set(few) < set(many)


def test_a_cpu_computes_in_float32_whatever_the_size_says():
    full = flipflop.STUDY.full
    assert full.training(0, "cuda").precision == "bfloat16"
    assert full.training(0, "cpu").precision == "float32"
    assert replace(full, steps=200).training(3, "cpu").epochs == 2


def test_a_blank_hides_every_answer_and_is_where_it_is_asked_for():
    text = torch.tensor([[2, 1, 3, 0, 4, 1, 4, 1]])
    assert hide_answers(text).tolist() == [[2, 1, 3, 0, 4, 5, 4, 5]]
    size = flipflop.STUDY.resize(False, {**QUICK["flipflop"], "length": 8})
    trial = flipflop.FlipFlopTrial(size, "mha_blank", "cpu")
    other = torch.tensor([[2, 1, 3, 0, 4, 0, 4, 0]])
    assert torch.equal(trial.network(text), trial.network(other))
    assert not torch.equal(trial.network(text), trial.network(torch.tensor([[2, 0, 3, 0, 4, 0, 4, 0]])))
    plain = flipflop.FlipFlopTrial(size, "mha", "cpu")
    assert not torch.equal(plain.network(text), plain.network(other))


@pytest.mark.parametrize(
    ("arm", "looks_ahead"), [("mha_blank", False), ("power_law_blank", False), ("mha_unmasked", True)]
)
def test_only_the_arm_without_a_mask_looks_ahead(arm, looks_ahead):
    size = flipflop.STUDY.resize(False, {**QUICK["flipflop"], "length": 8})
    network = flipflop.FlipFlopTrial(size, arm, "cpu").network.eval()
    text, later = torch.tensor([[2, 1, 4, 1, 3, 0, 4, 1]]), torch.tensor([[2, 1, 4, 1, 3, 1, 4, 1]])
    assert bool((network(text) - network(later))[:, :2].abs().max() > 1e-7) == looks_ahead
    weights = network.read_weights(text)
    assert weights.shape == (2, 1, 4, 8)
    assert weights.sum(-1).allclose(torch.ones(2, 1, 4))


@pytest.mark.parametrize("full", [False, True])
def test_arms_with_blanks_and_without_a_mask_are_made_at_both_sizes(full):
    arms = flipflop.STUDY.arms(full)
    assert "mha_unmasked" in arms
    plain = [arm for arm in arms if not arm.endswith(("_blank", "_unmasked"))]
    assert [arm for arm in arms if arm.endswith("_blank")] == [f"{arm}_blank" for arm in plain]
    assert len(plain) == 5
