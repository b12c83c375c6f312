"""Rows name the plug-ins that brought a mechanism or a network, with their versions."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from small import HORIZON, LOOKBACK, row

from rearview import __version__, attention, bench, models
from rearview.bench.papers.catalogue import Cell
from rearview.bench.rows import result_file
from rearview.bench.runs import provenance
from rearview.bench.runs.runner import failed_row
from rearview.bench.runs.sweep import SweepPlan, sweep
from rearview.commands import report
from rearview.core import registry
from rearview.core.errors import RearviewWarning

SETTINGS = {"width": 8, "heads": 2, "feed_forward": 8, "depth": 1}
QUICK = {"epochs": 1, "windows_per_epoch": 32}
FADING = Cell("Small", "patchtst", {"name": "fading"}, LOOKBACK, HORIZON, settings=SETTINGS)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Installs a version of a package that brings the attention `fading` and the network `lines`."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "acme_fading.py").write_text('"""Softmax by another name."""\nfrom rearview.attention.softmax import *\n')
    (site / "acme_lines.py").write_text(
        '"""DLinear by another name."""\nfrom rearview.models.attention_free.dlinear import Network, Settings\n'
    )
    monkeypatch.syspath_prepend(site)

    def put(version: str) -> None:
        for old in site.glob("*.dist-info"):
            (old / "METADATA").unlink()
            (old / "entry_points.txt").unlink()
            old.rmdir()
        info = site / f"acme_fading-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme-fading\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(
            "[rearview.attention]\nfading = acme_fading\n[rearview.models]\nlines = acme_lines\n"
        )
        registry._find_plug_ins.cache_clear()

    yield put
    registry._find_plug_ins.cache_clear()
    for name in ("acme_fading", "acme_lines"):
        sys.modules.pop(name, None)


@pytest.fixture
def plan(folder: Path) -> SweepPlan:
    return SweepPlan(results=folder / "rows.csv", data_dir=folder, device="cpu", training=QUICK)


def test_parts_of_plug_ins_have_a_distribution_and_others_none(install: Callable[[str], None]) -> None:
    install("1.1")
    assert attention.distribution("fading") == models.distribution("lines") == "acme-fading 1.1"
    assert attention.distribution("softmax") == models.distribution("patchtst") == attention.distribution("none") == ""
    both = {"model": "lines", "attention": "mica", "attention_settings": '{"local":"fading","tokens":3}'}
    assert provenance.version(both) == f"{__version__} + acme-fading 1.1"
    assert provenance.version({"model": "dlinear", "attention": "", "attention_settings": "{}"}) == __version__
    assert failed_row(replace(FADING, seed=0), "cpu", ValueError("no")).plug_ins == ("acme-fading 1.1",)


def test_a_row_of_before_an_upgrade_is_not_passed_for_a_new_one(
    install: Callable[[str], None], plan: SweepPlan
) -> None:
    told: list[str] = []
    install("1.1")
    [first] = sweep([FADING], plan, say=told.append)
    assert first.version == f"{__version__} + acme-fading 1.1"
    sweep([FADING], plan, say=told.append)
    assert told[-1].endswith(f"; a row of {first.created}, --again makes it anew")

    install("1.2")
    assert sweep([FADING], plan, say=told.append) == [first]
    words = "by acme-fading 1.1 (installed: acme-fading 1.2), --again makes it anew"
    assert told[-1].endswith(f"; a row of {first.created} {words}")
    with pytest.warns(RearviewWarning, match=r"was made by acme-fading 1\.1 .*resume=False makes the run anew"):
        bench.run(
            "Small", "patchtst", attention="fading", lookback=LOOKBACK, horizon=HORIZON, settings=SETTINGS,
            training=QUICK, data_dir=plan.data_dir, device="cpu", results=plan.results, resume=True,
        )  # fmt: skip
    [again] = sweep([FADING], replace(plan, again=True), say=told.append)
    assert again.plug_ins == ("acme-fading 1.2",)
    assert bench.read(plan.results) == [first, again]

    other = replace(first, seed=1)
    bench.append(plan.results, other)
    notes = report.summarise(report.read([str(plan.results)]), "rearview report").notes
    assert "Rows of acme-fading were made by several of its versions (1.1, 1.2), which count as one." in notes


def test_older_rows_name_no_plug_in_and_are_read(install: Callable[[str], None], folder: Path) -> None:
    install("1.2")
    old = row(attention="fading")
    assert old.plug_ins == ()
    bench.append(folder / "rows.csv", old)
    assert result_file.read(folder / "rows.csv") == [old]
    words = " by a plug-in whose version it does not say (installed: acme-fading 1.2)"
    assert provenance.describe_upgrade(old) == words
    assert provenance.describe_upgrade(row()) == ""
