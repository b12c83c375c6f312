"""Settings refuse what can't be, in a sentence that names field, value and what is allowed."""

import json

import numpy as np
import pytest

from rearview.core.errors import SettingsError
from rearview.train import Settings


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("epochs", 0, "at least 1"),
        ("epochs", 2.5, "whole number"),
        ("epochs", True, "whole number"),
        ("batch", -1, "at least 1"),
        ("accumulate", 0, "at least 1"),
        ("patience", 0, "at least 1"),
        ("windows_per_epoch", 0, "at least 1"),
        ("updates_per_epoch", 0.5, "at least 1"),
        ("halve_every", 0, "at least 1"),
        ("validation_batch", 0, "at least 1"),
        ("schedule_epochs", 0, "at least 1"),
        ("checkpoint_every", 0, "at least 1"),
        ("seed", -1, "at least 0"),
        ("seed", 2**63, "at least 0"),
        ("learning_rate", 0.0, "above 0"),
        ("learning_rate", float("nan"), "above 0"),
        ("learning_rate", "fast", "above 0"),
        ("weight_decay", -0.1, "at least 0"),
        ("minimum_delta", float("inf"), "at least 0"),
        ("warmup", 1.0, "share"),
        ("pct_start", -0.1, "share"),
        ("divide", 0.5, "at least 1"),
        ("clip", 0.0, "above 0, or None"),
        ("betas", (0.9,), "two numbers"),
        ("betas", (0.9, 1.0), "two numbers"),
        ("drop_last", 1, "True or False"),
        ("tf32", "yes", "True or False"),
        ("capture", 1, "True, False or None"),
        ("optimiser", "sgd", "'adamw', 'adam'"),
        ("schedule", "onecycel", "Did you mean 'onecycle'?"),
        ("anneal", "cubic", "'cosine', 'linear'"),
        ("precision", "float16", "'float32', 'bfloat16'"),
    ],
)
def test_values_out_of_range_are_refused_by_name(field: str, value: object, allowed: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        Settings(**{field: value})
    message = str(refusal.value)
    assert message.startswith(f"{field} must be ")
    assert repr(value) in message
    assert allowed in message


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"schedule": "type1", "warmup": 0.1}, "leave warmup at 0"),
        ({"schedule": "onecycle", "warmup": 0.1}, "leave warmup at 0"),
        ({"schedule": "cosine", "patchtst_compat": True}, "no cosine schedule"),
        ({"schedule": "halving", "halve_every": 5, "patchtst_compat": True}, "no halving by updates"),
        ({"schedule": "halving"}, "needs halve_every"),
        ({"schedule": "halving", "halve_every": 5, "warmup": 0.1}, "leave warmup at 0"),
        ({"updates_per_epoch": 3, "windows_per_epoch": 5}, "give one of them, and None for the other"),
        ({"warmup": 0.1, "patchtst_compat": True}, "warm-up"),
        ({"epochs": 11, "schedule_epochs": 7}, "schedule_epochs=7 ends before the 11 epochs"),
    ],
)
def test_settings_that_contradict_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        Settings(**settings)


def test_numbers_of_numpy_become_plain_ones() -> None:
    settings = Settings(epochs=np.int64(3), learning_rate=np.float32(0.5), betas=[0.8, 0.99])
    assert settings == Settings(epochs=3, learning_rate=0.5, betas=(0.8, 0.99))
    assert json.loads(json.dumps(settings.to_dict()))["betas"] == [0.8, 0.99]


def test_an_update_takes_batch_times_accumulate_windows() -> None:
    assert Settings(batch=5, accumulate=3).windows_per_update == 15
