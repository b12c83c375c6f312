"""The errors and warnings of rearview: one sentence that names the thing, the reason and the way out."""

import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_MOST_DETAIL = 300
"""Letters of another library's message that are repeated."""


class RearviewError(ValueError):
    """A mistake of the caller's that can be put in one sentence; the command line prints it without a traceback."""

    exit_code = 1


class InputError(RearviewError):
    """The data can't be used as it is: the message names file, row, column, series and value, and what to do."""


class SettingsError(RearviewError):
    """A setting is unknown, out of range, or does not fit the data or the model."""


class UsageError(RearviewError):
    """The command line was called wrongly."""

    exit_code = 2


class RearviewWarning(UserWarning):
    """Something to know that stops nothing: the message names it, the reason and the way out."""


def describe_unforeseen(problem: BaseException, what: str) -> str:
    """A sentence on something that nobody foresaw: what was done, what went wrong and where, and what to do."""
    detail = " ".join(str(problem).split())
    detail = f"{type(problem).__name__}: {detail[:_MOST_DETAIL]}" if detail else type(problem).__name__
    debug = "run with --debug for the traceback"
    if isinstance(problem, MemoryError) or "can't allocate memory" in str(problem) or "out of memory" in str(problem):
        return (
            f"The memory of this machine does not suffice for `{what}` ({detail}); use fewer rows, columns or series, "
            f"a smaller batch or network, or {debug}."
        )
    if isinstance(problem, RecursionError):
        return f"Something in the input of `{what}` is nested too deeply ({detail}); {debug}."
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if "rearview" in frame.filename]
    where = f" in {Path(frames[-1].filename).stem}, line {frames[-1].lineno}" if frames else ""
    return f"`{what}` met something that it was not made for{where} ({detail}); {debug}, and please report it."


@contextmanager
def collect_warnings(tell: Callable[[str], None] | None = None) -> Iterator[list[str]]:
    """Collect the sentences of rearview's own warnings, each once, in a list that grows as they come.

    With `tell`, each goes there instead of being shown; warnings of other packages are shown as usual.
    """
    sentences: list[str] = []
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            own = issubclass(category, RearviewWarning)
            if own and str(message) in sentences:
                return
            if own:
                sentences.append(str(message))
            if own and tell is not None:
                tell(str(message))
            else:
                others(message, category, *place, **more)

        warnings.showwarning = show
        yield sentences


_CALLED_ELSEWHERE = {
    "lr": "learning_rate", "max_epochs": "epochs", "n_epochs": "epochs", "num_epochs": "epochs",
    "train_epochs": "epochs", "batch_size": "batch", "early_stopping": "patience", "optimizer": "optimiser",
    "scheduler": "schedule", "lradj": "schedule", "gradient_clip_val": "clip", "max_grad_norm": "clip",
    "accumulate_grad_batches": "accumulate", "d_model": "width", "hidden_size": "width", "n_heads": "heads",
    "num_heads": "heads", "e_layers": "depth", "n_layers": "depth", "num_layers": "depth", "d_ff": "feed_forward",
    "patch_len": "patch",
}  # fmt: skip
"""Other libraries' names of our settings, where the spelling is too far off to be guessed."""


def did_you_mean(word: str, known: "list[str] | tuple[str, ...]") -> str:
    """' Did you mean 'rank'?' for the known word that `word` is called elsewhere or is nearest to, or nothing.

    The word itself is no answer: whoever asks knows it, and refuses it for another reason than its spelling.
    """
    import difflib

    spelt = {one.casefold(): one for one in known if one != word}
    elsewhere = _CALLED_ELSEWHERE.get(word.casefold())
    near = [elsewhere] if elsewhere in spelt else difflib.get_close_matches(word.casefold(), list(spelt), n=1)
    return f" Did you mean {spelt[near[0]]!r}?" if near else ""


def unknown(what: str, name: str, known: "list[str] | tuple[str, ...]") -> SettingsError:
    """The refusal of a name that is none of those known."""
    return SettingsError(f"There is no {what} {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}.")
