"""Which word is offered in place of one that is not known."""

import pytest

from rearview.core.errors import did_you_mean


@pytest.mark.parametrize(
    ("word", "known", "words"),
    [
        ("rnak", ("rank", "kind"), " Did you mean 'rank'?"),
        ("lr", ("learning_rate", "epochs"), " Did you mean 'learning_rate'?"),
        ("Time", ("time", "load"), " Did you mean 'time'?"),
        ("time", ("time", "load"), ""),
        ("time", ("time", "times"), " Did you mean 'times'?"),
        ("wind", ("load", "price"), ""),
    ],
)
def test_the_nearest_other_word_is_offered(word: str, known: tuple[str, ...], words: str) -> None:
    assert did_you_mean(word, known) == words
