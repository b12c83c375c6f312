"""What rearview says when it refuses: one sentence that names the thing, the reason and the way out."""


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


def did_you_mean(word: str, known: "list[str] | tuple[str, ...]") -> str:
    """' Did you mean 'rank'?' for the known word nearest to `word` in any case, or nothing."""
    import difflib

    spelt = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(word.casefold(), list(spelt), n=1)
    return f" Did you mean {spelt[near[0]]!r}?" if near else ""
