"""Protocols: how a benchmark number is made, declared as data.

`clean` is ours. `published:<paper>` repeats a paper's own habits, so that a difference can be told apart from a habit;
every row made so carries the name. What a protocol changes is stated here in fields that the runner reads and in
sentences that reports print, task by task; a habit that is told but not repeated is marked "not repeated".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rearview.core.errors import SettingsError, did_you_mean

Scale = Literal["standardised", "original"]
FORECASTING, CLASSIFICATION, DETECTION = "forecasting", "classification", "detection"


@dataclass(frozen=True, slots=True)
class Protocol:
    """One way of making a benchmark number."""

    name: str
    summary: str
    habits: Mapping[str, tuple[str, ...]]
    """By task: what a reader of the number must know, a sentence each."""
    drop_last_test: bool | tuple[str, ...] = False
    """Test windows after the last full batch of the training size go unscored; or the networks for which they do."""
    drop_last_validation: bool = False
    """The same for validation windows."""
    scale: Scale = "standardised"
    """The scale of the headline errors."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Training settings that go on top of those published for network and data set."""
    attention: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By mechanism: settings that go on top of its defaults."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By network: settings that go on top of the published ones."""
    presets: str = "official"
    """Whose published settings it goes by unless told otherwise."""
    loss: str = "mse"
    """What training minimises where an experiment says nothing else."""

    def windows(self, count: int, batch: int, part: Literal["validation", "test"], model: str) -> int:
        """How many of `count` windows of a part are looked at, a network training in batches of `batch`."""
        drops = self.drop_last_validation
        if part == "test":
            drops = self.drop_last_test if isinstance(self.drop_last_test, bool) else model in self.drop_last_test
        return count - count % batch if drops and count >= batch else count

    def lines(self) -> list[str]:
        """The protocol for a person."""
        told = [f"{self.name}: {self.summary}"]
        for task, habits in self.habits.items():
            told += ["", f"{task}:", *(f"- {habit}" for habit in habits)]
            if task == FORECASTING:
                told += self._fields(f"{self.presets} presets unless a table or --presets has others")
        return told

    def describe_habits(self, task: str, presets: str | None = None) -> str:
        """What it does in a task, a sentence after another, as a row keeps it; `presets` if others than its own."""
        fields = self._fields(f"{presets or self.presets} presets") if task == FORECASTING else []
        return " ".join([*self.habits[task], *(f"{fact[0].upper()}{fact[1:]}." for fact in fields)])

    def _fields(self, source: str) -> list[str]:
        """What the runner of forecasts reads; `source`: whose settings, in words."""
        facts = [
            f"scale of the errors: {self.scale}; loss: {self.loss}; settings: {source}",
            f"dropped: {self._dropped()}",
        ]
        if self.training:
            facts.append("training on top of the published settings: " + _pairs(self.training))
        for name, settings in (*self.attention.items(), *self.settings.items()):
            facts.append(f"{name} runs with " + _pairs(settings))
        return facts

    def _dropped(self) -> str:
        parts = [("test", self.drop_last_test), ("validation", self.drop_last_validation)]
        dropped = [f"the last partial batch of {part} windows" for part, drops in parts if drops]
        some = "" if isinstance(self.drop_last_test, bool) else f" (test: {', '.join(self.drop_last_test)} only)"
        return (" and ".join(dropped) or "no window") + some


def names() -> list[str]:
    """Every protocol."""
    return list(_PROTOCOLS)


def get(name: str) -> Protocol:
    """The protocol of that name."""
    if name not in _PROTOCOLS:
        raise SettingsError(
            f"There is no protocol {name!r}.{did_you_mean(name, names())} Known: {', '.join(_PROTOCOLS)}."
        )
    return _PROTOCOLS[name]


def _pairs(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items())


_BORDERS = (
    "Borders are the field's: ETT 12/4/4 months of 30 days, other CSV files 70/10/20 %, PEMS 60/20/20 %, the sets of "
    "GIFT-Eval its short setting."
)
_SCALER = "The scaler is fitted on training rows."
_POOLED = "Errors are pooled over all windows, channels and steps on the standardised scale."
_TIES = "An equal validation loss counts as an improvement."
_MEANS = (
    "The released code selects by a mean of batch means, in which a last, smaller batch weighs too much: not repeated, "
    "validation is pooled."
)

_OF_TOA = "runs of it are made under published:tslib, with TOA's sizes and training."

_ALL = (
    Protocol(
        name="clean",
        summary="the default: nothing dropped, everything selected on validation, test touched once",
        habits={
            FORECASTING: (
                _BORDERS,
                _SCALER,
                "No window is dropped.",
                "Weights, epochs and settings are selected on validation; the test part is read once.",
                _POOLED,
            ),
            CLASSIFICATION: (
                "A fifth of TRAIN, class by class, picks the epoch; TEST is read once.",
                "Cases are standardised with the statistics of those that train.",
                "Class codes come from TRAIN.",
                "Shorter cases are padded at the front and the padding is masked.",
            ),
            DETECTION: (
                "Each entity is scaled and scored by itself.",
                "The last 20 % of each entity's training rows, held out, stop the training and draw the threshold; the "
                "test rows are read once.",
                "Overlapping windows are averaged to one score a row.",
                "A channel that never varies in the training rows is scored like any other; `rearview detect` holds it "
                "to its constant instead.",
                "Every measure is taken of the rows as they are; beside the point-adjusted F1 stands that of as many "
                "flags thrown at random.",
            ),
        },
    ),
    Protocol(
        name="published:tslib",
        summary="the Time-Series-Library's own code, whose habits most papers of the field share",
        habits={
            FORECASTING: (
                _BORDERS,
                _SCALER,
                "No window is dropped.",
                _TIES,
                _MEANS,
                "The library prints test errors after every epoch; weights are chosen by validation: not repeated.",
                _POOLED,
            ),
            CLASSIFICATION: (
                "TEST picks the epoch and is what is reported: an upper bound, not an estimate.",
                "TRAIN and TEST are each standardised with their own statistics.",
                "Class codes are made for each file by itself.",
                "Cases are padded at the end to the longest of TRAIN and TEST, and nothing is masked.",
            ),
            DETECTION: (
                "The entities of a set lie one after another as one long series: windows cross from one into the next, "
                "and one scaler, fitted on all training rows, serves all.",
                "Windows have a set's own step (1, or 100 for SMD); rows after the last whole window are never scored.",
                "The last 20 % of the training rows stop the training, although all of them train.",
                "The errors of all windows are concatenated: with step 1 a row counts up to a window's length of "
                "times, and the labels jump back at each window.",
                "The threshold is a percentile of training and test errors together, with the share of flags given for "
                "each set.",
                "Flags are point-adjusted, which is to say edited by the labels, before they are scored; the adjusted "
                "F1 of as many flags thrown at random is kept beside it.",
            ),
        },
        training={
            "optimiser": "adam",
            "learning_rate": 1e-4,
            "batch": 32,
            "epochs": 10,
            "patience": 3,
            "schedule": "type1",
            "ties_improve": True,
        },
    ),
    Protocol(
        name="published:rbca",
        summary="Powerformer's release, which is PatchTST's official code with a mask",
        habits={
            FORECASTING: (
                _BORDERS,
                _SCALER,
                "The test and validation loaders drop their last partial batch (up to 127 windows at batch 128).",
                "A one-cycle object is built for every run, so epoch 1 trains at a twenty-fifth of the rate and beta1 "
                "is 0.95 throughout, unless the schedule is one-cycle itself.",
                _TIES,
                _MEANS,
                "Mask, alpha and look-back are picked by the test error in the paper's tables: not repeated, they are "
                "chosen on validation here.",
                "Tables 1 and S9 need a weight decay that is not in the release (presets rbca); tables S5 to S8 and "
                "S10 are the release's.",
                _POOLED,
            ),
        },
        drop_last_test=True,
        drop_last_validation=True,
        training={"patchtst_compat": True, "ties_improve": True, "drop_last": True},
    ),
    Protocol(
        name="published:caps",
        summary="the release of CAPS: its numerics, its rotation, its decay of the rate",
        habits={
            FORECASTING: (
                _BORDERS,
                _SCALER,
                "No window is dropped.",
                "The CAPS network's rate falls in a straight line from 5e-4 to nearly 0 over 101 epochs, and beta1 "
                "goes from 0.85 to 0.95; other networks keep their own schedules.",
                "The forward pass runs in bfloat16.",
                "Gradients are zeroed before every micro-batch, so accumulation is void: batch is the micro-batch.",
                "Gradients are clipped while still scaled by the loss scaler, which clips nearly all of them: not "
                "repeated, the norm is clipped at 1.",
                "The rotation is no rotation and path 2 is dead at late positions (clip and epsilons of the release).",
                "The text has other widths and weight decays than the release (presets caps), and table 4 counts its "
                "widths.",
                _TIES,
                _POOLED,
            ),
        },
        training={"precision": "bfloat16", "ties_improve": True},
        attention={"caps": {"numerics": "released", "rotation": "released"}, "linear_rope": {"rotation": "released"}},
        # The released numerics see ahead by a rounding's breadth, so the network must not insist on the past alone.
        settings={"caps_net": {"causal": False}},
    ),
    Protocol(
        name="published:toa",
        summary="TOA's text (no code is public): the hosts' official scripts with AdamW, betas 0.9 and 0.95",
        habits={
            FORECASTING: (
                _BORDERS,
                _SCALER,
                "The official loaders drop the last partial batch of validation; PatchTST's that of test too.",
                "AdamW with betas 0.9 and 0.95, no weight decay, rate 1e-4 (DUET 5e-4).",
                _TIES,
                _MEANS,
                _POOLED,
            ),
            CLASSIFICATION: (f"TOA classifies in the Time-Series-Library: {_OF_TOA}",),
            DETECTION: (f"TOA detects anomalies in the Time-Series-Library: {_OF_TOA}",),
        },
        drop_last_test=("patchtst",),
        drop_last_validation=True,
        presets="toa",
        training={"optimiser": "adamw", "betas": (0.9, 0.95), "ties_improve": True, "drop_last": True},
    ),
    Protocol(
        name="published:prime",
        summary="prime attention's text on iTransformer's official code",
        habits={
            FORECASTING: (
                _BORDERS,
                _SCALER,
                "The validation loader drops its last partial batch; the test loader has batch 1 and drops nothing.",
                "Settings are those of the paper's table 4, which differ from iTransformer's own scripts.",
                _TIES,
                _MEANS,
                _POOLED,
            ),
        },
        drop_last_validation=True,
        presets="prime",
        training={"ties_improve": True, "drop_last": True},
    ),
    Protocol(
        name="published:mica",
        summary="MICA's release: mean absolute error, original units, rolling origins of step 1",
        habits={
            FORECASTING: (
                "The last windows of GIFT-Eval's short setting are the test rows, the horizon before them is "
                "validation, and origins roll by one step (GIFT-Eval itself does not overlap its windows).",
                "Every window is standardised by itself and instance-normalised again; only the second is repeated "
                "here, after a scaler fitted on training rows.",
                "Training minimises the absolute error of standardised values.",
                "12,000 updates of 64 windows, laid out in epochs of 500, the rate halved after every 4,000.",
                "Errors are pooled over all windows, channels and steps in original units.",
            ),
        },
        scale="original",
        presets="mica",
        loss="mae",
        training={
            "optimiser": "adam",
            "learning_rate": 1e-3,
            "batch": 64,
            "ties_improve": True,
        },
    ),
)

_PROTOCOLS = {protocol.name: protocol for protocol in _ALL}
