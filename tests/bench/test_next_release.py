"""The commands of the next release of glance in benchmarks/README.md parse, and their networks can be built."""

import argparse
import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest

from rearview.core.settings import settings_from
from rearview.models.patch_hosts.glance import Network, Settings
from rearview.pretrained import weights
from rearview.pretrained.training import SHAPE, SHIPPED, TWO_GRAINS, adopt_weights

README = Path(__file__).parents[2] / "benchmarks" / "README.md"
PARSE = argparse.ArgumentParser.parse_args
SCRIPTS = {
    "compare_coupled": 1, "compare_glance": 5, "gift": 4, "glance_intervals": 1, "release_glance": 1, "train_glance": 4,
    "zero_shot_latency": 1,
}  # fmt: skip


class Parsed(Exception):
    """Raised in the place of what a script would do next."""


def list_commands() -> list[list[str]]:
    """Script and arguments of each line that runs a benchmark."""
    section = README.read_text(encoding="utf-8").split("## The next release of glance")[1].split("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    return [words[1:] for words in lines if len(words) > 1 and words[1].startswith("benchmarks/")]


def parse(words: list[str], monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """The options of a command, as its script reads them."""
    options = []

    def stop(parser: argparse.ArgumentParser) -> None:
        options.append(PARSE(parser))
        raise Parsed

    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    with pytest.raises(Parsed):
        importlib.import_module(Path(words[0]).stem).main()
    return options[0]


def build(attention: str, settings: str) -> Network:
    script = importlib.import_module("train_glance")
    sizes = settings_from(Settings, "glance", {**TWO_GRAINS, **script.parse_pairs(settings)})
    return Network(SHAPE, sizes, script.parse_attention(attention))


@pytest.mark.usefixtures("benchmark_scripts")
def test_every_command_parses_and_its_network_can_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = list_commands()
    counts = {name: sum(Path(words[0]).stem == name for words in commands) for name in SCRIPTS}
    assert counts == SCRIPTS
    assert sum(counts.values()) == len(commands)
    made = {SHIPPED: weights.load(weights.read_card())}
    for words in commands:
        options = parse(words, monkeypatch)
        if words[0].endswith("train_glance.py"):
            network = made[str(options.out)] = build(options.attention, options.settings)
            if options.start:
                adopt_weights(network, made[options.start].state_dict())
        if words[0].endswith("compare_glance.py"):
            for arm in options.attentions.split(";"):
                build(arm.partition("@")[0].strip(), options.settings)


@pytest.mark.usefixtures("benchmark_scripts")
def test_a_run_in_two_parts_is_asked_for_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    trainings = [parse(words, monkeypatch) for words in list_commands() if words[0].endswith("train_glance.py")]
    parts = [one for one in trainings if str(one.out) == "RUN"]
    assert [part.finish for part in parts] == [False, True]
    assert {**vars(parts[0]), "finish": True} == vars(parts[1])
