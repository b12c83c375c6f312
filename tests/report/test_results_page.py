"""The page about result rows, and its tables as files."""

import base64
import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import small_results
from small_results import section

from rearview.bench.rows import result_file as store
from rearview.commands.report import read, summarise
from rearview.core.errors import InputError
from rearview.report.common import text
from rearview.report.common.latex import tex
from rearview.report.common.page import render
from rearview.report.common.summary import BUDGET
from rearview.report.results import files as table_files
from rearview.report.results import papers
from rearview.report.results.page import NAMED, ResultsSummary, encode


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return small_results.write(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def summary(files: tuple[Path, Path]) -> ResultsSummary:
    return summarise(read([str(path) for path in files]), "rearview report study.csv classified.csv")


@pytest.fixture(scope="module")
def page(summary: ResultsSummary) -> str:
    return render(summary)


def test_the_page_has_every_section(page: str):
    for name in ("leaderboards", "cost", "horizons", "ranks", "ablations", "papers", "protocols", "failed", "missing"):
        assert f'<section id="{name}"' in page
    assert "hidden" not in section(page, "papers").split(">")[0]
    assert re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', page.split("<script>")[0]) == []


def test_leaderboards_rank_and_mark_the_best(page: str, summary: ResultsSummary):
    boards = section(page, "leaderboards")
    assert boards.count('class="board"') == len(summary.boards) == 11
    second = boards.split('class="board"')[2]
    assert second.index("patchtst + toa") < second.index("patchtst + rbca") < second.index("patchtst + softmax")
    assert re.search(r"patchtst \+ toa</th><td>336</td><td><b>0\.\d{4}</b> <small>±0\.\d{4}</small>", second)
    assert "rbca:T1" in boards


def test_what_failed_is_listed_escaped_and_what_was_made_good_is_not(page: str):
    told = section(page, "failed")
    assert "RuntimeError: &lt;b&gt;out of&lt;/b&gt; memory &amp; time" in told
    assert "made later" not in told


def test_what_failed_of_other_tasks_is_listed_beside_it_and_counted_nowhere(detected: ResultsSummary, tmp_path: Path):
    path = tmp_path / "detected.csv"
    problem = "Diverged: The validation loss of epoch 1 is nan."
    for one in small_results.detected():
        store.append(path, one)
    nothing = {"f1": None, "auc_pr": None, "adjusted_f1": None, "adjusted_f1_by_chance": None, "values_sha256": ""}
    lost = replace(one, attention_settings='{"kind":"softmax"}', **nothing, status="failed", problem=problem)
    store.append(path, lost)
    store.append(path, replace(one, **nothing, status="failed", problem="it was made before"))
    broken = summarise(read([str(path)]), "rearview report detected.csv")
    assert broken.boards == detected.boards
    assert broken.comparisons == detected.comparisons
    assert len(broken.failures) == 1
    told = section(render(broken), "failed")
    cells = [re.sub("<[^>]+>", "", cell) for cell in re.findall("<t[hd].*?</t[hd]>", told.partition("<tbody>")[2])]
    assert cells == ["itransformer + toa(kind=softmax)", "SMAP", text.ABSENT, "0", "clean", problem]
    assert "it was made before" not in told


def test_cells_that_were_not_run_are_listed(page: str):
    told = section(page, "missing")
    assert "<summary>rearview:mechanisms: 20 cells</summary>" in told
    assert "ETTh1, patchtst + caps, look-back 336: horizon 96, 336" in told
    assert "rearview:mechanisms</th>" in told
    assert re.search(r"Nothing was run of [^<]*mica:T2, [^<]*</p>", told)
    assert "mica:T2</th>" not in told
    assert re.search(r"<summary>mica:T2: \d+ cells</summary>", told)


def test_runs_of_no_paper_leave_out_what_papers_ask(tmp_path: Path):
    path = tmp_path / "own.csv"
    store.append(path, small_results.row(dataset="Ours"))
    page = render(summarise(read([str(path)]), ""))
    assert '<section id="missing" aria-labelledby="missing-title" hidden>' in page
    assert '<section id="papers" aria-labelledby="papers-title" hidden>' in page


def test_every_row_can_be_downloaded_byte_for_byte(page: str, files: tuple[Path, Path]):
    found = dict(re.findall(r'download="([^"]+)" href="data:application/gzip;base64,([^"]+)"', page))
    assert {name: gzip.decompress(base64.b64decode(text)) for name, text in found.items()} == {
        f"{path.name}.gz": path.read_bytes() for path in files
    }


def test_protocols_stand_side_by_side_and_are_explained(page: str):
    told = section(page, "protocols")
    assert "published:rbca in forecasting: " in told
    assert "drops its last partial batch" in told
    assert "published:tslib in classification: " in told
    assert "TEST picks the epoch" in told
    assert "in detection" not in told  # of which there are no rows
    assert "published:tslib in forecasting" not in told


def test_the_marks_of_a_leaderboard_are_explained(tmp_path: Path):
    path = tmp_path / "marked.csv"
    trainings = [{"batch": batch, "epochs": epochs, "patience": 3} for batch, epochs in ((128, 100), (32, 10))]
    for training, mse in zip(trainings, (0.4, 0.5), strict=True):
        store.append(path, small_results.row(training=json.dumps(training), mse=mse))
    told = section(render(summarise(read([str(path)]), "")), "leaderboards")
    marked = re.search(r"patchtst \+ softmax, settings ([0-9a-f]{4})</abbr>", told)
    assert marked
    assert f"<li>patchtst + softmax, settings {marked[1]}: training epochs=100, training batch=128</li>" in told
    assert "<td>1 × 100</td>" in told
    assert "<td>1 × 10</td>" in told


def test_budgets_tell_what_was_searched(tmp_path: Path):
    path = tmp_path / "searched.csv"
    budget = json.dumps({"candidates": [{"alpha": 0.5}, {"alpha": 1.0}], "chosen_by": "validation loss"})
    store.append(path, small_results.row(attention="rbca", budget=budget))
    told = section(render(summarise(read([str(path)]), "")), "leaderboards")
    assert "<td>1 × 2 × 100</td>" in told
    assert "Budget: seeds × settings tried × epochs." in told


def test_a_schedule_that_patience_cut_stands_in_the_budget(tmp_path: Path):
    path = tmp_path / "cut.csv"
    training = json.dumps({"batch": 32, "epochs": 30, "patience": 3, "schedule": "onecycle"})
    for seed, epochs in enumerate((30, 9)):
        store.append(path, small_results.row(training=training, epochs=epochs, seed=seed))
    told = section(render(summarise(read([str(path)]), "")), "leaderboards")
    assert "<td>2 × 30, 1 cut</td>" in told
    assert (
        "Budget: seeds × epochs; cut: patience ended so many runs before the rate of their schedule had fallen." in told
    )


def test_printed_numbers_are_gathered_by_value(page: str):
    board = section(page, "leaderboards").split('class="board"')[1]
    assert re.search(r"<td class=\"words\">0\.37\u00a0rbca:T1, rbca:S9, toa:T7</td>", board)


def test_every_comparison_has_its_leader(page: str, summary: ResultsSummary):
    told = section(page, "leaders")
    assert len(re.findall(r"<tr><th scope=\"row\">", told)) == len(summary.standings) == 2
    assert "Forecasting, clean, by MSE: mechanisms in patchtst</th>" in told
    assert '<td class="words">too few data sets, 7 needed</td>' in told
    assert '<td class="words">1.02 times the parameters</td>' in told
    assert '<td class="words">too few data sets, 6 needed</td>' in told


def test_a_page_opens_with_which_attention_where_how_sure_and_at_what_cost(page: str):
    told = section(page, "answers")
    assert "Steps were timed" not in told
    assert page.index('<section id="answers"') < page.index('<dl class="headline">')
    assert '<table class="named stacks">' in told
    cells = [re.sub("<[^>]+>", "", cell) for cell in re.findall("<t[hd].*?</t[hd]>", told.partition("<tbody>")[2])]
    assert cells[0] == "Forecasting, patchtst ETTh1 96/192/336/720, ETTh2 96/192/336/720"
    assert cells[1] == "toa"
    assert re.fullmatch(r"−\d+\.\d % MSE validation 0.0 %", cells[2])
    assert cells[3] == "better on 2 of 2 data sets, 3 seeds; too few data sets for a test, which needs 7"
    assert cells[4] == "1.02 times the parameters"
    assert 'data-head="How sure"' in told


def test_a_step_that_was_timed_stands_beside_the_gain(files: tuple[Path, Path], tmp_path: Path):
    costs = tmp_path / "step_cost.csv"
    arms = {"softmax": (81728, 1.5), "toa_relu": (83528, 4.5), "rbca": (9, 1.0)}
    lines = [f"{arm},patchtst,ETTh1,336,96,{count},{ms}" for arm, (count, ms) in arms.items()]
    costs.write_text("arm,model,dataset,lookback,horizon,parameters,ms_per_step\n" + "\n".join(lines) + "\n")
    found = summarise(read([str(files[0]), str(costs)]), "")
    page = render(found)
    assert "1.02 times the parameters, 3.00 times the step" in section(page, "answers")
    assert "Steps were timed one at a time" in section(page, "answers")
    table = section(page, "ablations")
    assert re.search(r"patchtst \+ toa</th>.*?<td>1\.02 ×</td><td>3\.00 ×</td></tr>", table)
    assert re.search(rf"patchtst \+ rbca.*?</th>.*?<td>1\.01 ×</td><td>{text.ABSENT}</td></tr>", table)
    assert 'download="step_cost.csv.gz"' in page
    costs.write_text("arm,model,dataset,lookback,horizon,parameters,ms_per_step\nsoftmax,patchtst,ETTh1,a,96,1,2\n")
    with pytest.raises(InputError, match=r"step_cost\.csv holds a line that is no cost of a step"):
        read([str(files[0]), str(costs)])


def test_a_page_about_results_is_small(page: str):
    assert "Plotly.react" in page
    assert "plotly.js" not in page
    assert len(page) < 400_000


def test_ours_and_printed_are_tallied_by_table(page: str, summary: ResultsSummary):
    told = section(page, "papers")
    mine = [one for one in summary.comparisons if (one.table, one.protocol) == ("rbca:T1", "clean")]
    counted = papers.judge_numbers(mine)
    assert 0 < counted.total() == len({id(one.number) for one in mine})
    short = len({id(one.number) for one in mine if one.shortfall})
    runs = len({row for one in mine for row in one.rows})
    words = (counted.total(), *(counted[verdict] for verdict in papers.VERDICTS), runs, short)
    cells = "".join(f"<td>{count}</td>" for count in words)
    assert re.search(rf'rbca:T1</th><td class="words">clean</td>{cells}<td>\d+\.\d %</td>', told)
    assert told.count('<i class="dot ') == sum(one.difference is not None for one in summary.comparisons)


def test_a_printed_number_is_reproduced_once_and_by_every_run(tmp_path: Path):
    path = tmp_path / "twice.csv"
    for batch, mse in ((128, 0.37), (64, 0.5), (32, 0.37)):
        training = json.dumps({"batch": batch, "epochs": 100})
        store.append(path, small_results.row(training=training, mse=mse, mae=0.4))
    found = summarise(read([str(path)]), "")
    mine = [one for one in found.comparisons if one.table == "rbca:T1"]
    assert sorted((one.metric, one.verdict) for one in mine) == [
        ("mae", "reproduced"), ("mae", "reproduced"), ("mae", "reproduced"),
        ("mse", "reproduced"), ("mse", "reproduced"), ("mse", "worse"),
    ]  # fmt: skip
    assert papers.judge_numbers(mine) == {"reproduced": 1, "differs by run": 1}
    assert re.search(r"by every one of the 3 runs that compare, \d+ more by some of them", render(found))


def test_the_verdict_says_whether_it_is_significant(summary: ResultsSummary):
    assert summary.verdict == (
        "In none of 2 networks is an attention significantly better than softmax: too few data sets for a test in 2."
    )


def test_attention_is_held_against_controls_and_a_control_is_no_attention(tmp_path: Path):
    path = tmp_path / "controls.csv"
    errors = {"softmax": 0.50, "toa": 0.40, "zero": 0.30, "uniform": 0.60}
    for name, mse in errors.items():
        for seed in range(3):
            loss = 0.2 if name == "uniform" else 0.3
            facts = {"attention": name, "mse": mse + 0.001 * seed, "validation_loss": loss, "seed": seed}
            store.append(path, small_results.row(**facts))
    told = summarise(read([str(path)]), "")
    page = render(told)
    assert "<b>toa</b>" in section(page, "answers")  # zero has the least error
    words = " ".join(re.sub(r"<[^>]+>", " ", section(page, "controls-held")).split())
    assert "patchtst on ETTh1, 336 steps to 96 uniform MSE 0.6010 softmax −16.6 %" in words
    assert "better: softmax, toa" in words
    assert "## Does attention earn its place?" in table_files.markdown(told)


def test_the_verdict_names_what_is_sure(tmp_path: Path):
    path = tmp_path / "sure.csv"
    for dataset in "abcdef":
        for model, name, mse in (
            ("patchtst", "softmax", 0.5),
            ("patchtst", "toa", 0.4),
            ("itransformer", "softmax", 0.5),
        ):
            store.append(path, small_results.row(model=model, attention=name, dataset=dataset, mse=mse))
    store.append(path, small_results.row(model="itransformer", attention="toa", dataset="a", mse=0.4))
    assert summarise(read([str(path)]), "").verdict == (
        "In 1 of 2 networks an attention is significantly better than softmax: "
        "toa (forecasting, patchtst: −20.0 % MSE). Elsewhere: too few data sets for a test in 1."
    )


def test_accuracy_differs_in_points_and_other_measures_in_percent(tmp_path: Path):
    """A mean of relative changes makes 20 points where softmax has 0.2 count for more than all other sets together."""
    path = tmp_path / "cases.csv"
    for place, base in enumerate((0.2, 0.8, 0.8, 0.8, 0.8, 0.8)):
        softmax, *_, toa = small_results.classified()[:4]
        for one, accuracy in ((softmax, base), (toa, base + (0.2 if place == 0 else 0.03))):
            facts = {"dataset": f"Set {place}", "seed": 0, "protocol": "clean"}
            store.append(path, replace(one, accuracy=accuracy, **facts))
            store.append(path, replace(one, accuracy=0.7, model="transformer", **facts))
    told = summarise(read([str(path)]), "")
    assert "toa (classification, patchtst_tslib: +5.8 points Accuracy)" in told.verdict
    words = " ".join(re.sub(r"<[^>]+>", " ", section(render(told), "answers")).split())
    assert "+5.8 points Accuracy relative +19.8 % (+" in words


def test_the_verdict_is_on_equal_budgets_and_nothing_else_is_ranked_across_networks(
    summary: ResultsSummary, page: str, tmp_path: Path
):
    # Beside PatchTST there is a linear network with fewer seeds.
    short = section(page, "leaders")
    assert "every candidate</th>" not in short
    assert "ranked together only where all had the same budget" in short
    assert re.search(r'mechanisms in patchtst</th>.*?<td class="words">equal</td>', short)
    path = tmp_path / "unlike.csv"
    for model, epochs, mse in (("dlinear", 10, 0.5), ("mlp", 100, 0.4)):
        for horizon in (96, 192):
            training = json.dumps({"batch": 32, "epochs": epochs})
            facts = {"attention": "", "settings": "{}", "training": training}
            store.append(path, small_results.row(model=model, horizon=horizon, mse=mse, **facts))
    told = summarise(read([str(path)]), "").verdict
    assert told.startswith(
        "Forecasting: 2 candidates on 2 blocks, not ranked: they differ in more than their attention"
    )


def test_mechanisms_with_fewer_seeds_are_ranked_and_reported(tmp_path: Path):
    path = tmp_path / "seeds.csv"
    for name, seed, dataset in [("softmax", 0, "ETTh1"), ("toa", 0, "ETTh1"), ("softmax", 1, "ETTh1")]:
        store.append(path, small_results.row(attention=name, seed=seed, dataset=dataset))
    for name in ("softmax", "toa"):
        store.append(path, small_results.row(attention=name, dataset="ETTh2"))
    told = summarise(read([str(path)]), "")
    assert "their budgets differ (seeds 1 to 2)" in told.verdict
    assert "Budgets differ (seeds 1 to 2)." in section(render(told), "ranks")


def test_a_smaller_budget_stands_beside_its_verdict(tmp_path: Path):
    path = tmp_path / "short.csv"
    for epochs in (100, 30):
        training = json.dumps({"batch": 128, "epochs": epochs, "patience": 100})
        store.append(path, small_results.row(training=training, epochs=epochs, mse=0.5, mae=0.5))
    page = render(summarise(read([str(path)]), ""))
    told = section(page, "papers")
    assert '<td class="words">worse <small>(smaller budget)</small></td>' in told
    assert '<td class="words">worse</td>' in told
    faint = re.findall(r'<i class="dot worse faint" [^>]*title="([^"]*)"', told)
    assert faint
    assert all(words.endswith("worse under clean, smaller budget: 30 of 100 epochs") for words in faint)
    assert re.search(r"<b>0 of \d+</b> <span>printed numbers, by every one of the 2 runs that compare</span>", page)


def test_times_of_runs_that_shared_a_device_are_marked(tmp_path: Path):
    path = tmp_path / "crowd.csv"
    moments = {"softmax": "03:04:05", "rbca": "03:04:15", "toa": "09:00:00"}
    for name, moment in moments.items():
        store.append(path, small_results.row(attention=name, created=f"2026-01-02T{moment}+00:00"))
    found = summarise(read([str(path)]), "")
    page = render(found)
    boards = section(page, "leaderboards")
    assert boards.count("<td>1 min 0 s\u00a0*</td><td>2.00 ms\u00a0*</td>") == 2
    assert boards.count("<td>1 min 0 s</td><td>2.00 ms</td>") == 1
    assert "* Other runs shared the device: the time includes waiting." in boards
    assert any(note.startswith("2 of 3 runs ran at the same time as others") for note in found.notes)
    told = encode(found)
    attention = NAMED.index("attention")
    overlaps = {told["words"][words[attention]]: company for words, _, company, *_ in told["entries"]}
    assert overlaps == {"softmax": True, "rbca": True, "toa": False}
    quiet = tmp_path / "quiet.csv"
    store.append(quiet, small_results.row())
    assert "includes waiting" not in render(summarise(read([str(quiet)]), ""))


def test_what_was_left_out_or_mixed_is_reported(summary: ResultsSummary, page: str):
    assert any("different devices" in note for note in summary.notes)
    again = "1 run was made more than once; the latest counts. Two of the same run differ by at most "
    seed = next(row for row in small_results.study() if (row.attention, row.seed) == ("softmax", 0))
    share = f"{100 * (0.9 / seed.mse - 1):.0f}"
    who = "patchtst + softmax on ETTh1 96, look-back 336, seed 0, under clean"
    assert f"{again}{share} %: {who}, with MSE {seed.mse:.4g} and 0.9." in page
    assert "1 row is left out: the run came to an end later, or another file holds the same row." in page


def test_classification_stands_beside_its_paper(summary: ResultsSummary):
    found = [one for one in summary.comparisons if one.number.kind == "classification"]
    assert {one.number.dataset for one in found} == {"ArticularyWordRecognition", "Epilepsy"}
    softmax = next(one for one in found if one.label.endswith("softmax"))
    assert softmax.number.value == 0.98
    assert (softmax.mean, softmax.verdict) == (pytest.approx(0.951), "worse")


def test_tables_are_written_as_markdown_and_latex(summary: ResultsSummary, tmp_path: Path):
    markdown, latex = (path.read_text(encoding="utf-8") for path in table_files.write_tables(tmp_path, summary))
    headings = [line.removeprefix("## ") for line in markdown.splitlines() if line.startswith("## ")]
    assert {"Results by data set", "Beside the papers", "Protocols", "Cells run and not run"} <= set(headings)
    assert "| patchtst + toa (L=336) |" in markdown
    assert re.search(r"\*\*0\.\d{4}\*\* ±", markdown)
    assert re.search(r"<u>0\.\d{4}</u>", markdown)
    tables = latex.count(r"\begin{tabular}{") + latex.count(r"\begin{longtable}{")
    assert tables == latex.count(r"\bottomrule") == latex.count(r"\toprule") > 5
    assert r"\textbf{0." in latex
    assert r"\underline{0." in latex
    assert r"patchtst\_\allowbreak{}tslib" in latex
    widths = {
        line.count(" & ") for line in latex.split(r"\toprule")[1].split(r"\bottomrule")[0].splitlines() if "&" in line
    }
    assert len(widths) == 1


def test_every_form_tells_the_habits_of_the_protocols_at_hand(summary: ResultsSummary, detected: ResultsSummary):
    for found in (summary, detected):
        used = {(board.protocol, board.task.name) for board in found.boards}
        assert len(found.habits) == len(used) > 0
        markdown, latex = table_files.markdown(found), table_files.latex(found)
        for title, habits in found.habits:
            assert f"**{title}**\n\n- {habits[0]}\n" in f"{markdown}\n"
            assert f"\\textbf{{{tex(title)}}}\\par}}\n\\begin{{itemize}}" in latex
            assert all(f"- {habit}\n" in markdown and f"\\item {tex(habit)}\n" in latex for habit in habits)
        assert latex.count(r"\begin{itemize}") == latex.count(r"\end{itemize}") == len(used)
    assert "point-adjusted" not in table_files.markdown(summary)  # a habit of detection, of which it has no rows


def test_rows_without_a_finished_run_are_refused(tmp_path: Path):
    path = tmp_path / "broken.csv"
    store.append(path, small_results.row(status="failed", problem="no memory", mse=float("nan"), mae=float("nan")))
    with pytest.raises(InputError, match="None of 1 runs ended with a result; the first: no memory"):
        summarise(read([str(path)]), "")


def test_runs_that_diverged_are_reported(tmp_path: Path):
    path = tmp_path / "diverged.csv"
    for seed, mse in enumerate((0.4, float("inf"))):
        store.append(path, small_results.row(seed=seed, mse=mse))
    told = summarise(read([str(path)]), "")
    assert any("1 run came to an end without a finite number" in note for note in told.notes)
    assert "<td>1 of 2 × 100</td>" in render(told)
    assert "nothing else was run beside it" in told.verdict


@pytest.fixture(scope="module")
def detected(tmp_path_factory: pytest.TempPathFactory) -> ResultsSummary:
    path = tmp_path_factory.mktemp("detected") / "detected.csv"
    for one in small_results.detected():
        store.append(path, one)
    return summarise(read([str(path)]), "rearview report detected.csv")


def test_the_point_adjusted_f1_is_called_so_and_stands_beside_what_guessing_gets(detected: ResultsSummary):
    page = render(detected)
    told = section(page, "papers")
    assert re.search(r"SMAP <small>Adjusted F1</small></td><td>0\.6684</td><td>1</td><td>0\.9390</td><td>0\.668<", told)
    assert ">F1<" not in told
    assert "itransformer + softmax, SMAP, Adjusted F1: 0.6684, printed 0.668" in told
    assert "by chance 0.939" in told
    board = section(page, "leaderboards").split('class="board"')[1]
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', board)
    assert heads[2:6] == ["AUC-PR", "F1", "Adjusted F1", "Adjusted F1 by chance"]
    assert heads[-1] == "Printed Adjusted F1"
    assert "<b>0.9390" not in board  # guesses lead nothing
    assert "0.8390" in board
    payload = encode(detected)
    measures = list(payload["tasks"]["detection"]["metrics"])
    assert "adjusted_f1_by_chance" not in measures
    assert {len(scores) for *_, scores, _ in payload["entries"]} == {len(measures)}
    for text_of in (table_files.markdown(detected), table_files.latex(detected)):
        assert "Adjusted F1 by chance: the point-adjusted F1 of as many flags thrown at random." in text_of
        assert text_of.count("By chance") >= 2
        assert "0.9390" in text_of


def test_detection_is_ranked_by_the_measure_of_its_protocol_and_headings_name_it(detected: ResultsSummary):
    by_protocol = {one.protocol: (one.measure, one.judgement.names[0]) for one in detected.standings}
    assert by_protocol == {
        "clean": ("AUC-PR", "itransformer + toa"),
        "published:tslib": ("Adjusted F1", "itransformer + softmax"),
    }
    clean, tslib = detected.boards
    assert [board.entries[0].attention for board in (clean, tslib)] == ["toa", "softmax"]
    page = render(detected)
    for name in ("leaders", "ablations"):
        assert "Detection, clean, by AUC-PR: mechanisms in itransformer" in section(page, name)
        assert "Detection, published:tslib, by Adjusted F1: mechanisms in itransformer" in section(page, name)
    assert re.search(r"leads 2 mechanisms in itransformer by AUC-PR on SMAP, the one data set", detected.verdict)
    board = section(page, "leaderboards").split('class="board"')[2]
    assert re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', board)[2:5] == [
        "Adjusted F1",
        "Adjusted F1 by chance",
        "F1",
    ]
    assert encode(detected)["tasks"]["detection"]["decides"] == {
        "clean": "auc_pr", "published:tslib": "adjusted_f1"
    }  # fmt: skip


def test_ranks_name_their_measure_in_every_form(page: str, summary: ResultsSummary):
    title = "Forecasting, clean, by MSE: mechanisms in patchtst"
    assert f"<h3>{title}</h3>" in section(page, "ranks")
    markdown, latex = table_files.markdown(summary), table_files.latex(summary)
    assert f"## Ranks, {title}" in markdown
    for text_of in (markdown, latex):
        assert f"{title}. Over 2 data sets: " in text_of


def test_protocols_are_compared_by_one_measure(detected: ResultsSummary):
    # AUC-PR is not made under published:tslib, so there is nothing to put beside it.
    assert {(one.metric, tuple(one.scores)) for one in detected.protocol_contrasts} == {
        ("adjusted_f1", ("clean", "published:tslib"))
    }  # fmt: skip
    told = section(render(detected), "protocols")
    assert '<td class="words">Adjusted F1</td><td>0.6684</td><td>0.6684 <small>0.0 %</small></td>' in told


def test_cells_of_other_tasks_that_were_not_run_are_listed_by_arm(detected: ResultsSummary, page: str):
    told = section(render(detected), "missing")
    assert "<summary>toa:T5: 73 cells</summary>" in told
    assert "<li>itransformer + softmax; itransformer + toa(kind=relu): PSM, MSL, SMD, SWaT</li>" in told
    assert "toa:T7" not in told  # there are no rows of forecasting
    assert "2 clean, 2 published:tslib" in told
    classified = section(page, "missing")
    assert re.search(r"<summary>toa:T8: 192 cells</summary>", classified)
    assert "toa:T4" not in classified  # means over T8's cells


@pytest.mark.slow
def test_the_page_of_all_our_rows_has_at_most_three_megabytes():
    every = Path(__file__).parents[2] / "results" / "*.csv"
    assert len(render(summarise(read([str(every)]), "")).encode()) <= 3_000_000


def test_a_page_that_is_too_large_explains_a_name_once_in_each_part(summary: ResultsSummary):
    whole, short = summary.content().parts, summary.content(BUDGET - 1).parts
    meanings = [re.findall(r'<abbr title="([^"]*)"', parts["leaderboards"]) for parts in (whole, short)]
    assert sorted(set(meanings[0])) == sorted(meanings[1])
    told = [re.sub(r"</t[dh]>|</?abbr[^>]*>", "", parts["leaderboards"]) for parts in (whole, short)]
    assert told[0] == told[1]
