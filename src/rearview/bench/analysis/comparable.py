"""Which runs of a network stand on an equal footing: all that was asked for is the same, the mechanism aside.

A mechanism that trained for longer, or with another loss, shows what that is worth and not what the mechanism is; so a
mechanism is only measured by runs that share its footing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rearview.bench.analysis.candidates import facets_of, spell_settings
from rearview.bench.analysis.leaderboard import Entry
from rearview.bench.analysis.rectangles import Block
from rearview.bench.rows.row import Facts, as_json

MOST_SHOWN = 3
_OF_MECHANISMS = ("attention ", "searched")


@dataclass(frozen=True, slots=True)
class Study:
    """Entries of one network that can be compared mechanism by mechanism."""

    entries: tuple[Entry, ...]
    footing: str
    """What sets it apart from the other studies of the network; empty where there is none."""


def studies(entries: Sequence[Entry]) -> list[Study]:
    """Entries of one network under one protocol, those together that share a footing on some block; the largest first.

    Settings are published per data set, so a study has a footing on each block. Of entries that share none of it on a
    block, but some on another, the larger group is kept.
    """
    facets = {id(entry): footing(entry) for entry in entries}
    footings = {key: as_json(found) for key, found in facets.items()}
    groups = [_largest(group, footings) for group in _connected(entries, footings)]
    groups.sort(key=lambda group: -len(group))
    shared = [_shared([facets[id(entry)] for entry in group]) for group in groups]
    return [Study(tuple(group), _words(own, shared)) for group, own in zip(groups, shared, strict=True)]


def footing(entry: Entry) -> dict[str, object]:
    """All that was asked for, block and mechanism aside."""
    row = entry.rows[0]
    found = {key: value for key, value in facets_of(row).items() if not key.startswith(_OF_MECHANISMS)}
    return {**found, "adapters": getattr(row, "adapters", "[]")}


def block(entry: Entry) -> Block:
    """Where mechanisms of one network are compared."""
    return entry.dataset, entry.horizon, entry.lookback


def _connected(entries: Sequence[Entry], footings: Mapping[int, str]) -> list[list[Entry]]:
    """Candidates that share a footing on some block, and whoever shares one with them."""
    together: dict[str, set[str]] = defaultdict(set)
    for entry in entries:
        together[as_json([block(entry), footings[id(entry)]])].add(entry.label)
    components: list[set[str]] = []
    for labels in together.values():
        touched = [component for component in components if component & labels]
        components = [component for component in components if not component & labels]
        components.append(labels.union(*touched))
    return [[entry for entry in entries if entry.label in component] for component in components]


def _largest(group: Sequence[Entry], footings: Mapping[int, str]) -> list[Entry]:
    """Of each block the entries that share its most common footing."""
    counts: dict[Block, Counter[str]] = defaultdict(Counter)
    for entry in group:
        counts[block(entry)][footings[id(entry)]] += 1
    return [entry for entry in group if counts[block(entry)].most_common(1)[0][0] == footings[id(entry)]]


def _shared(facets: Iterable[Facts]) -> dict[str, object]:
    """What is the same for all."""
    first, *others = facets
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}


def _words(own: Facts, every: Sequence[Facts]) -> str:
    differing = {key: value for key, value in own.items() if any(other.get(key) != value for other in every)}
    training_first = sorted(spell_settings(differing), key=lambda word: not word.startswith("training "))
    words = [word.removeprefix("training ") for word in training_first]
    more = f" and {len(words) - MOST_SHOWN} more" if len(words) > MOST_SHOWN else ""
    return ", ".join(words[:MOST_SHOWN]) + more
