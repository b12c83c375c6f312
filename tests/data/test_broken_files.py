"""Generated files: every fault that must be refused is named, every fault that can be repaired is counted."""

from pathlib import Path

import pytest
from broken import refused, repaired
from drafts import Case

from rearview.core.errors import RearviewError
from rearview.data.panel import Panel
from rearview.data.panel_checks import check_length, check_targets
from rearview.data.panel_reader import load

REFUSED, REPAIRED = refused(200, seed=0), repaired(50, seed=0)


def read_and_check(case: Case, path: Path) -> Panel:
    """What the forecaster does before it trains."""
    panel = load(path, **case.options)
    check_targets(panel)
    check_length(panel, case.lookback, case.horizon)
    return panel


def test_broken_files_are_generated_from_a_seed_in_every_format() -> None:
    assert len({case.name for case in REFUSED}) == 200
    assert len({case.name for case in REPAIRED}) == 50
    pairs = [case for case in REFUSED if len(case.expected) == 2]
    assert len(pairs) >= 45
    for cases in (REFUSED, REPAIRED):
        assert {case.suffix for case in cases} >= {".csv", ".tsv", ".csv.gz", ".parquet"}
    assert [case.content for case in refused(200, seed=0)] == [case.content for case in REFUSED]
    assert [case.content for case in refused(200, seed=1)] != [case.content for case in REFUSED]


@pytest.mark.parametrize("case", [case for case in REFUSED if case.horizon], ids=lambda case: case.name)
def test_a_broken_file_is_refused_with_its_fault_named(case: Case, tmp_path: Path) -> None:
    path = case.write(tmp_path)
    with pytest.raises(RearviewError) as refusal:
        read_and_check(case, path)
    message = str(refusal.value)
    assert all(part in message for fragments in case.expected for part in fragments), message
    assert path.name in message
    assert message.endswith((".", ")."))
    assert "!" not in message


@pytest.mark.parametrize("case", REPAIRED, ids=lambda case: case.name)
def test_a_broken_file_is_repaired_and_the_repairs_are_counted(case: Case, tmp_path: Path) -> None:
    panel = read_and_check(case, case.write(tmp_path))
    found = {finding.what: finding.count for finding in panel.findings if finding.kind != "inferred"}
    assert found == case.counts
