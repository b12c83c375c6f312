r"""Tables for LaTeX: whatever stands in a name is printed as it is, and tables fit the page."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import small_results

from rearview.commands.report import read, summarise
from rearview.report.common import latex
from rearview.report.common.tables import Cell, Table
from rearview.report.results import files

NASTY = r"100% R&D_net #1 {a}$x^2~\y <b> [c] *d* e--f---g | ±1 −2 – 3×4…"


def document(tables: str) -> str:
    packages = ",".join(latex.PACKAGES)
    return f"\\documentclass{{article}}\\usepackage{{{packages}}}\\begin{{document}}\n{tables}\n\\end{{document}}\n"


def compiled(folder: Path, tables: str) -> str:
    """What pdflatex says of a document with these tables; it is refused where LaTeX stops at something."""
    if not shutil.which("pdflatex"):
        pytest.skip("pdflatex is not installed")
    (folder / "page.tex").write_text(document(tables), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    for _ in range(2):  # a long table finds its widths in the second run
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
        assert done.returncode == 0, done.stdout[-2_000:]
    return done.stdout


@pytest.mark.parametrize(
    ("words", "safe"),
    [
        ("50 % of R&D", r"50 \% of R\&D"),
        ("power_law #3", r"power\_law \#3"),
        ("{a} $x$", r"\{a\} \$x\$"),
        (r"C:\new~x^2", r"C:\textbackslash{}new\textasciitilde{}x\textasciicircum{}2"),
        ("a < b > c | d", r"a \textless{} b \textgreater{} c \textbar{} d"),
        ("--try, a---b, 3–4", "-{}-try, a-{}-{}-b, 3--4"),
        ("[c] *d*", "{[}c] {*}d{*}"),
        ("two\n\n lines\tand % more", r"two lines and \% more"),
        ("0.3±0.1 −2 3×4…", r"0.3$\pm$0.1 $-$2 3$\times$4\ldots{}"),
    ],
)
def test_every_sign_is_itself(words: str, safe: str):
    assert latex.tex(words) == safe


def test_names_may_break_within_their_settings():
    assert latex.breakable("toa(score_norm=l2) + x") == (
        r"toa(\allowbreak{}score\_\allowbreak{}norm=\allowbreak{}l2) + x"
    )


def table(name: str, rows: int, numbers: int = 2) -> Table:
    cells = (Cell(name), *(Cell("0.1234", "±0.0005", "best") for _ in range(numbers)))
    heads = ("Candidate", *(f"{place} MSE" for place in range(numbers)))
    return Table(name, heads, (cells,) * rows)


def test_a_small_table_is_set_as_it_is():
    lines = table("patchtst", 3).tex().splitlines()
    assert lines[:5] == [
        r"\begin{table}", r"\centering", r"\caption{patchtst}", r"\begin{tabular}{lrr}", r"\toprule"
    ]  # fmt: skip
    assert (
        lines[7]
        == r"patchtst & \textbf{0.1234} {\scriptsize $\pm$0.0005} & \textbf{0.1234} {\scriptsize $\pm$0.0005} \\"
    )


def test_long_names_break_and_wide_tables_get_smaller_and_then_lie_on_their_side():
    broken = table("patchtst + " + "mechanism " * 9, 3).tex()
    assert re.search(r"tabular\}\{>\{\\raggedright\\arraybackslash\}p\{0\.\d+\\linewidth\}rr\}", broken)
    assert r"\centering\scriptsize" in table("patchtst + softmax", 3, 4).tex()
    wide = table("patchtst + softmax", 3, 8).tex()
    assert wide.startswith(r"\begin{landscape}")
    assert wide.endswith(r"\end{landscape}")


def test_a_long_table_goes_on_over_pages():
    assert "longtable" not in table("a", 40).tex()
    long = table("a", 60).tex()
    assert long.count(r"\begin{longtable}") == long.count(r"\end{longtable}") == long.count(r"\endhead") == 1


def test_a_long_head_above_numbers_is_stacked():
    heads = ("Candidate", "Win/tie/loss against the best", "p")
    set_ = Table("Ranks", heads, ((Cell("a"), Cell("1/2/3"), Cell("0.5")),)).tex()
    assert r"\begin{tabular}[b]{@{}r@{}}Win/tie/loss \\ against \\ the best\end{tabular}" in set_


@pytest.mark.slow
def test_a_report_compiles_and_fits_the_page(tmp_path: Path):
    summary = summarise(read([str(path) for path in small_results.write(tmp_path)]), "rearview report study.csv")
    said = compiled(tmp_path, files.latex(summary))
    wide = [float(points) for points in re.findall(r"Overfull \\hbox \(([\d.]+)pt too wide\)", said)]
    assert max(wide, default=0.0) < 10
    assert "Float too large" not in said


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "numbers"), [(2, 2), (60, 2), (2, 8), (2, 14)])
def test_nasty_names_compile(tmp_path: Path, rows: int, numbers: int):
    compiled(tmp_path, table(NASTY, rows, numbers).tex())
    assert (tmp_path / "page.pdf").stat().st_size > 1_000
