"""The folder that a run writes to: claimed before anything is computed, filled in one step when the run is done.

The folder is the user's. A run writes to one that is missing, empty or marked as a run of the same command, removes
only what such a run made, and refuses any other. The mark of a finished run is its run.json, which names the files; a
run that writes none, and one that is under way, has the file `.rearview.json`.

Files are written to a folder inside, and renamed to their places once all are there. `.rearview.json` lists the renames
before the first of them: when a run is killed in between, whoever uses the folder next completes them.
"""

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from rearview.core.errors import InputError
from rearview.core.files import PART, flush_folder, lock_folder, write_atomically
from rearview.core.model_folder import KINDS

MARK = ".rearview.json"
STAGING = ".rearview-staging-"
MODEL = "model"
"""The folder of the models that a run saves: one in it, or several in folders of their own."""
OUTPUTS: Mapping[str, tuple[str, ...]] = {
    "forecast": ("forecast.csv", "backtest.csv", "report.html", "summary.md", "run.json"),
    "detect": ("anomalies.csv", "scores.csv", "report.html", "summary.md", "run.json"),
    "classify": ("predictions.csv", "report.html", "summary.md", "run.json"),
    "report": ("report.html", "tables.md", "tables.tex"),
}
"""Command -> the files that its runs may write beside their models."""
_SAME = {"demo": "forecast"}
"""Commands whose runs are those of another."""
CHECKPOINTS = "checkpoints"
"""The folder of what a run needs to be taken up again: files of networks, and folders of portfolios."""
_CHECKPOINT = re.compile(r"(\w+-)?[0-9a-f]{12}(-backtest-\d+|-final)?\.safetensors")
_PORTFOLIO = re.compile(r"\w+-[0-9a-f]{12}")
_SHOWN = 3

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mark:
    """The record of a run in its output folder; paths are relative to the folder."""

    command: str
    files: tuple[str, ...]
    """The files that runs made."""
    staging: str | None = None
    """The folder inside that holds the files of a run until they are renamed to their places."""
    moves: tuple[str, ...] = ()
    """The files to be renamed, in this order; empty while they are written."""
    stale: tuple[str, ...] = ()
    """The files to be removed then."""
    foreign: tuple[str, ...] = ()
    """Names found among the checkpoints before the first run."""

    def write(self, folder: Path) -> None:
        """Write the mark of a run that is under way."""
        facts = {**asdict(self), "command": f"rearview {self.command}"}
        write_atomically(folder / MARK, json.dumps(facts, indent=1) + "\n")


@dataclass(slots=True, eq=False)
class OutputFolder:
    """A folder that a run has claimed."""

    path: Path
    command: str
    made: frozenset[str]
    """The files that earlier runs made here."""
    inputs: tuple[Path, ...]
    overwrite: bool
    foreign: tuple[str, ...]
    """Names found among the checkpoints before the first run here."""

    @classmethod
    @contextlib.contextmanager
    def claim(
        cls, path: Path, command: str, *, inputs: Iterable[str | Path | None] = (), overwrite: bool = False
    ) -> "Iterator[OutputFolder]":
        """Hold a folder for a run of a command until the block ends; a folder that it may not write to is refused.

        `overwrite` allows a folder of other things, of which those with the names of the run's files are replaced. An
        input is never replaced. A folder that was made for the run goes again where the run leaves nothing in it.
        """
        check_place(path)
        new = [folder for folder in (path.absolute(), *path.absolute().parents) if not folder.exists()]
        make_folder(path)
        if not (path / CHECKPOINTS).exists():
            new = [path / CHECKPOINTS, *new]
        with lock_folder(path, wait=False) as ours:
            if not ours:
                raise InputError(
                    f"Another run is writing to {path}; wait for its end, or name another folder with --out."
                )
            try:
                _complete_moves(path)
                output = cls._checked(path, command, inputs, overwrite)
                Mark(command, tuple(sorted(output.made)), foreign=output.foreign).write(path)
                yield output
            finally:
                _leave(path, new)

    @classmethod
    def _checked(cls, path: Path, command: str, inputs: Iterable[str | Path | None], overwrite: bool) -> "OutputFolder":
        """A folder that is there and that a run of a command may write to; any other is refused."""
        mark = read_mark(path)
        if not overwrite:
            _check_owner(path, command, mark)
        given = tuple(Path(one) for one in inputs if one is not None)
        foreign = mark.foreign if mark else tuple(sorted(one.name for one in (path / CHECKPOINTS).glob("*")))
        output = cls(path, command, frozenset(mark.files if mark else ()), given, overwrite, foreign)
        output._check_names()
        return output

    def publish(self, write: Callable[[Path], T], *, finished: bool = True, beside: bool = False) -> T:
        """Let `write` fill a folder, then put what it holds in place at once; what the run before made goes.

        The checkpoints of a run that is finished go, too. With `beside`, what is there stays as it is.
        """
        staging = self.path / f"{STAGING}{secrets.token_hex(8)}"
        Mark(self.command, tuple(sorted(self.made)), staging.name, foreign=self.foreign).write(self.path)
        staging.mkdir()
        try:
            result = write(staging)
        except BaseException as problem:
            shutil.rmtree(staging, ignore_errors=True)
            if isinstance(problem, OSError) and problem.filename is not None:
                place = str(problem.filename).replace(str(staging), str(self.path))
                raise type(problem)(problem.errno, problem.strerror, place) from problem
            raise
        # Tensors before the files that name them.
        names = (one.relative_to(staging).as_posix() for one in staging.rglob("*") if one.is_file())
        files = sorted(names, key=lambda name: (not name.endswith(".safetensors"), name))
        self._check_newcomers(staging, files)
        read = [name for name in self.made if any(_is_within(self.path / name, one) for one in self.inputs)]
        stale = set() if beside else self.made - {*files, *read}
        if "run.json" in files:
            facts = json.loads((staging / "run.json").read_text(encoding="utf-8"))
            facts["files"] = sorted({*files, *self.made} - stale)
            text = json.dumps({**facts, **({"foreign": self.foreign} if self.foreign else {})}, indent=1)
            write_atomically(staging / "run.json", text + "\n")
        every = tuple(sorted(self.made | {*files}))
        Mark(self.command, every, staging.name, tuple(files), tuple(sorted(stale)), self.foreign).write(self.path)
        _complete_moves(self.path)
        self.made = frozenset({*every} - stale)
        if finished:
            self._remove_checkpoints()
        return result

    def _check_names(self) -> None:
        """Refuse an input that the run would write over, and files of others under the names of its own."""
        for folder in (self.path / MODEL, self.path / CHECKPOINTS):
            if folder.is_symlink():
                raise InputError(f"{folder} is a link, which a run does not follow; name another folder.")
        for name in (*OUTPUTS[self.command], *_manifests_of(self.path)):
            place = self.path / name
            if any(one.is_file() and _is_within(one, place) for one in self.inputs):
                raise InputError(
                    f"{place} is an input of this run, which would write over it; name another folder with --out."
                )
            if place.is_dir():
                raise InputError(f"{place} is a folder, where this run would write a file; name another with --out.")
            if not self.overwrite and place.exists() and name not in self.made:
                raise InputError(
                    f"{place} was not made by the run that {self.path} holds, and this run would write over it; move "
                    "it, name another folder with --out, or say --overwrite."
                )

    def _check_newcomers(self, staging: Path, files: Iterable[str]) -> None:
        """Refuse to write over a file that came while the run was under way; what the run made stays beside it."""
        for name in files:
            if not self.overwrite and name not in self.made and (self.path / name).exists():
                aside = staging.rename(self.path / staging.name.replace(STAGING, "unpublished-"))
                raise InputError(
                    f"{self.path / name} came while the run was under way and is not written over; the files of the "
                    f"run are in {aside}."
                )

    def _remove_checkpoints(self) -> None:
        folder = self.path / CHECKPOINTS
        for one in _own_checkpoints(self.path, self.foreign):
            if one.is_dir():
                for part in (path for ending in ("*.npz", "*.safetensors", PART) for path in one.glob(ending)):
                    part.unlink(missing_ok=True)
                _remove_if_empty(one)
            else:
                one.unlink(missing_ok=True)
        _remove_if_empty(folder)


def check_folder(
    path: Path, command: str, *, inputs: Iterable[str | Path | None] = (), overwrite: bool = False
) -> None:
    """Refuse a folder that `OutputFolder.claim` would refuse; nothing is written."""
    check_place(path)
    if path.is_dir():
        OutputFolder._checked(path, command, inputs, overwrite)


def check_place(out: Path, folder: Path | None = None) -> None:
    """Refuse what `--out` names if its folder is not, and can't become, one that can be written to."""
    first = (folder or out).absolute()
    try:
        there = next(path for path in (first, *first.parents) if path.exists() or path.is_symlink())
    except OSError as problem:  # a name that is too long, say
        raise InputError(f"--out is {out}, which can't be a folder ({problem.strerror}); name another.") from None
    if not there.exists():
        raise InputError(f"--out is {out}, but {there} is a link that leads nowhere; name another folder.")
    if not there.is_dir():
        raise InputError(f"--out is {out}, but {there} is a file; name a folder.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"--out is {out}, but {there} can't be written to; name another folder.")


def make_folder(path: Path) -> None:
    """Make a folder and those above it; one that can't be made is refused."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        if problem.errno == errno.ENOSPC:
            raise
        raise InputError(f"--out is {path}, which can't be made ({problem.strerror}); name another folder.") from None


def check_file(out: Path, inputs: Iterable[str | Path | None] = (), flag: str = "--out") -> None:
    """Refuse a file that can't be written where it is named, that is or belongs to an input, or that a run made."""
    if out.is_dir():
        raise InputError(f"{flag} is {out}, which is a folder; name a file, such as {out / 'next.csv'}.")
    check_place(out, out.absolute().parent)
    for one in inputs:
        if one is not None and Path(one).exists() and _is_within(out, Path(one)):
            where = f"is in {one}," if Path(one).is_dir() else "would write over"
            raise InputError(f"{flag} is {out}, which {where} an input of this run; name another file.")
    mark = read_mark(out.absolute().parent)
    if mark is not None and out.name in mark.files:
        raise InputError(f"{flag} is {out}, which belongs to the run in {out.absolute().parent}; name another file.")


def find_model(folder: Path) -> Path:
    """The folder of the model that a folder is or, as that of a run, holds; the folder itself where it is neither."""
    places = (folder, folder / MODEL)
    return next((place for place in places if any((place / kind.manifest).is_file() for kind in KINDS)), folder)


def read_mark(folder: Path) -> Mark | None:
    """The mark of the run in a folder; None: it has none, or not one of this library."""
    return _parse_mark(folder, MARK) or _parse_mark(folder, "run.json")


def has_finished_run(folder: Path) -> bool:
    """Whether a folder holds the run.json of a run, not one of somebody else's."""
    return _parse_mark(folder, "run.json") is not None


def complete_run(folder: Path) -> None:
    """Complete a run that was killed while its files were renamed to their places, unless one is under way there."""
    if not (folder / MARK).is_file() or not os.access(folder, os.W_OK):
        return
    with lock_folder(folder, wait=False) as ours:
        if ours:
            _complete_moves(folder)


def _complete_moves(folder: Path) -> None:
    """Do the renames and removals that a mark lists; files that were still being written go."""
    mark = _parse_mark(folder, MARK)
    if mark is None or mark.staging is None:
        return
    staging = folder / mark.staging
    for name in mark.moves:
        if (staging / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(staging / name, folder / name)
    for name in mark.stale:
        (folder / name).unlink(missing_ok=True)
        _remove_if_empty((folder / name).parent)
    flush_folder(folder)
    shutil.rmtree(staging, ignore_errors=True)
    Mark(mark.command, (*sorted({*mark.files} - {*mark.stale}),), foreign=mark.foreign).write(folder)


def _check_owner(path: Path, command: str, mark: Mark | None) -> None:
    """Refuse a folder that is neither empty nor that of a run of the same command."""
    if mark is not None and mark.command != command:
        place = path / ("run.json" if (path / "run.json").exists() else MARK)
        raise InputError(
            f"{path} holds a run of `rearview {mark.command}` (see {place}), which `rearview {command}` would write "
            "over; name another folder with --out."
        )
    others = sorted(one.name for one in path.iterdir())
    if mark is None and others:
        more = f" and {len(others) - _SHOWN:,} more" if len(others) > _SHOWN else ""
        raise InputError(
            f"{path} is not empty and holds no run of `rearview {command}`: {', '.join(others[:_SHOWN])}{more}; name "
            f"another folder with --out, or say --overwrite to write there, which replaces "
            f"{', '.join(OUTPUTS[command])} and leaves the rest."
        )


def _leave(path: Path, new: Iterable[Path]) -> None:
    """Take the mark of a run that is over away, and the folders that were made for it where it left nothing.

    A run that was stopped while its files were renamed is completed; where that fails, the mark stays for the next one.
    """
    with contextlib.suppress(OSError):
        _complete_moves(path)
    mark = _parse_mark(path, MARK)
    if mark is not None and mark.moves:
        return
    nothing = mark is not None and not mark.files and not _own_checkpoints(path, mark.foreign)
    if _parse_mark(path, "run.json") or nothing:
        (path / MARK).unlink(missing_ok=True)
    for folder in new:
        _remove_if_empty(folder)


def _own_checkpoints(path: Path, foreign: Iterable[str]) -> list[Path]:
    """The checkpoints that runs left behind."""
    own = [one for one in (path / CHECKPOINTS).glob("*") if one.name not in foreign and not one.is_symlink()]
    return [one for one in own if (_PORTFOLIO if one.is_dir() else _CHECKPOINT).fullmatch(one.name) or one.match(PART)]


def _parse_mark(folder: Path, name: str) -> Mark | None:
    """The mark in a file; None where it is missing, damaged or somebody else's."""
    try:
        facts = json.loads((folder / name).read_text(encoding="utf-8"))
        words = str(facts["command"]).split()
        command = _SAME.get(words[1], words[1]) if len(words) > 1 and words[0] == "rearview" else ""
        if command not in OUTPUTS:
            return None
        if "files" not in facts:
            return Mark(command, (*_files_of_earlier_run(folder, command, demo=words[1] == "demo"),))
        files, moves, stale = (_check_paths(folder, facts.get(key, ())) for key in ("files", "moves", "stale"))
        staging = facts.get("staging")
        if staging is not None and not re.fullmatch(re.escape(STAGING) + "[0-9a-f]{16}", staging):
            return None
        return Mark(command, files, staging, moves, stale, tuple(map(str, facts.get("foreign", ()))))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _check_paths(folder: Path, names: Iterable[str]) -> tuple[str, ...]:
    """Paths that lie in the folder itself, whatever a mark from elsewhere names and links lead to."""
    root = folder.resolve()
    for name in names:
        pure = PurePosixPath(name)
        parent = (folder / pure).parent.resolve()
        if pure.is_absolute() or ".." in pure.parts or not pure.name or not (parent == root or root in parent.parents):
            raise ValueError(f"{name} is not in {folder}")
    return tuple(names)


def _files_of_earlier_run(folder: Path, command: str, *, demo: bool) -> list[str]:
    """The files of a run by a version that did not list them: those of known names, and models."""
    # Versions that did not list their files wrote no summary: one that is there is somebody else's.
    names = [name for name in OUTPUTS[command] if name != "summary.md"] + (["demo.csv"] if demo else [])
    files = [name for name in names if (folder / name).is_file()]
    for manifest in _manifests_of(folder):
        files.append(manifest)
        weights = Path(str(json.loads((folder / manifest).read_text(encoding="utf-8")).get("weights"))).name
        if (folder / manifest).with_name(weights).is_file():
            files.append(PurePosixPath(manifest).with_name(weights).as_posix())
    return files


def _manifests_of(folder: Path) -> list[str]:
    places = (*(folder / MODEL).glob("*.json"), *(folder / MODEL).glob("*/*.json"))
    known = {kind.manifest for kind in KINDS}
    return [one.relative_to(folder).as_posix() for one in places if one.name in known]


def _is_within(path: Path, other: Path) -> bool:
    """Whether a path is another one or lies below it, wherever links lead."""
    path, other = path.resolve(), other.resolve()
    return path == other or other in path.parents


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
