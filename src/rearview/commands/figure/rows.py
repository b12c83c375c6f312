"""Figures that are views of rows and of printed numbers: gains, ranks, loss curves, cost over density."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rearview.attention.shared.graph import expander_pairs
from rearview.bench.analysis.candidates import name_candidates
from rearview.bench.analysis.comparable import SOFTMAX, find_rectangles
from rearview.bench.analysis.leaderboard import latest_runs
from rearview.bench.analysis.paper_comparison import find_rows
from rearview.bench.analysis.significance import Scores, average_ranks, judge
from rearview.bench.papers import catalogue, costs, published
from rearview.bench.papers.published import Number
from rearview.bench.rows.identity import identity
from rearview.bench.rows.row import Row
from rearview.bench.tasks import FORECASTING
from rearview.commands import report
from rearview.commands.figure.drawing import Drawing, FigureOptions, FigureSpec, draw_figure, tabulate
from rearview.core.errors import InputError
from rearview.core.grouping import group_by
from rearview.core.wording import quantity
from rearview.report.common import text
from rearview.report.results import figures as page_figures
from rearview.report.results.study import Diagram, Figure, Series, View

PRINTED, OURS = "printed", "ours"
Errors = dict[str, dict[str, float]]
"""Arm -> data set -> error."""


def read_rows(options: FigureOptions) -> list[Row]:
    """The latest row of every finished forecasting run; none where no file is named."""
    if not options.results:
        return []
    rows = report.read(options.results).rows.get(FORECASTING, [])
    wanted = (options.dataset or "").casefold()
    # A file of one's own has a part of its checksum behind its name.
    return [
        row
        for row in latest_runs(rows)
        if isinstance(row, Row) and wanted in ("", name := row.dataset.casefold(), name.partition("@")[0])
    ]


def draw_gains(declared: FigureSpec, options: FigureOptions) -> Drawing:
    """How much less error gates leave than the network without them, data set by data set, as printed and by rows."""
    errors = _gate_errors(declared, read_rows(options))
    gains = {source: own for source, both in errors.items() if (own := _gains(both))}
    views, lines = [], []
    for source, own in gains.items():
        series = []
        for arm, by_set in own.items():
            values = np.sort(np.array(list(by_set.values())))
            series.append(Series(arm, (np.arange(len(values)) + 0.5) / len(values), values))
            low, middle, high = (f"{value:+.1f} %" for value in np.percentile(values, (0, 50, 100)))
            better = f"{int((values > 0).sum())} of {len(values)}"
            lines.append([f"{arm}, {source}", better, middle, low, high])
        views.append(View(source, tuple(series)))
    sentences = []
    for source, own in gains.items():
        most = max(map(len, own.values()))
        medians = {arm: float(np.median(list(by_set.values()))) for arm, by_set in own.items() if len(by_set) == most}
        best = max(medians, key=lambda arm: medians[arm])
        sets = quantity(most, "data set")
        sentences.append(f"{source}: the best median gain is {medians[best]:+.1f} % ({best}, over {sets})")
    heads = ["gate", "better on", "median", "least", "most"]
    return Drawing(
        verdict=_sentence(sentences),
        table=tabulate("Error taken off", heads, lines),
        figures=(draw_figure("gains", views),),
        notes=_source_note(options, len(gains)),
    )


def _gate_errors(declared: FigureSpec, rows: Sequence[Row]) -> dict[str, tuple[Errors, Errors]]:
    """By source: the errors of arms with gates, and of their networks without."""
    made: dict[str, tuple[Errors, Errors]] = {
        source: (defaultdict(dict), defaultdict(dict)) for source in (PRINTED, OURS)
    }
    for number in published.select("mica", "T2"):
        if number.metric == "mae" and number.variant == "softmax" and number.value:
            made[PRINTED][1][number.model][number.dataset] = number.value
    for table in declared["tables"]:
        for number in published.select("mica", table):
            if number.metric == "mae" and number.attention and number.attention["name"] == "mica" and number.value:
                made[PRINTED][0][_gate_name(number)][number.dataset] = number.value
        for cell in catalogue.get("mica", table).cells:
            if cell.mechanism == "mica":
                own, plain = (find_rows(one, rows) for one in (cell, replace(cell, attention=SOFTMAX)))
                for errors, name, matches in ((0, _gate_name(cell.numbers[0]), own), (1, cell.model, plain)):
                    if values := [row.original_mae for row in matches if isinstance(row, Row)]:
                        made[OURS][errors][name][cell.dataset] = float(np.mean(values))
    return made


def _gate_name(number: Number) -> str:
    assert number.attention is not None
    side = ", others alone" if number.attention.get("exclude_self") else ""
    return f"{number.model} {number.attention['gate']}{side}"


def _gains(errors: tuple[Errors, Errors]) -> Errors:
    """Percent of the plain network's error that an arm takes off, by data set that both have."""
    own, plain = errors
    gains: Errors = {}
    for arm, by_set in own.items():
        base = plain.get(arm.partition(" ")[0], {})
        if shared := [name for name in by_set if name in base]:
            gains[arm] = {name: 100 * (1 - by_set[name] / base[name]) for name in shared}
    return gains


def draw_differences(declared: FigureSpec, options: FigureOptions) -> Drawing:
    """Average ranks of the gates of a network, with bars over those that do not differ, as printed and by rows."""
    diagrams, lines, sentences, notes = [], [], [], []
    level = declared["level"]
    for source, (errors, _) in _gate_errors(declared, read_rows(options)).items():
        names, scores = _share({arm.partition(" ")[2]: by_set for arm, by_set in errors.items()})
        if not names:
            continue
        judgement = judge(scores, names, alpha=level)
        sets = quantity(judgement.blocks, "data set")
        if judgement.too_few:
            notes.append(
                f"Not drawn: ours has {quantity(len(names), 'gate')} on {sets}, and no difference between so many "
                f"could be significant at {level:g} on fewer than {judgement.needed}."
            )
            continue
        overall = "" if judgement.friedman is None else f"Friedman's p = {judgement.friedman.p_value:.2g}, "
        differing = f"{len(judgement.significant)} of {len(judgement.pairs)}"
        about = f"{overall}{sets}. A bar joins gates of which no two differ at {level:g} (Wilcoxon, after Holm)."
        diagrams.append(Diagram(f"Average ranks, {source}", about, page_figures.draw_ranks(judgement)))
        lines += [
            [f"{name}, {source}", f"{rank:.2f}"] for name, rank in zip(judgement.names, judgement.ranks, strict=True)
        ]
        sentences.append(
            f"{source}: {judgement.names[0]} has the best average rank, {judgement.ranks[0]:.2f} of {len(names)}, over "
            f"{sets}; {overall}pairs that differ at {level:g} (Wilcoxon, after Holm): {differing}"
        )
    return Drawing(
        verdict=_sentence(sentences),
        table=tabulate("Ranks of gates", ["gate", "average rank"], lines),
        figures=(),
        diagrams=tuple(diagrams),
        notes=tuple(notes) or _source_note(options, len(diagrams)),
    )


def draw_ranks(declared: FigureSpec, options: FigureOptions) -> Drawing:
    """Average rank of each network over the data sets, over the GFLOPs of one window."""
    rows = read_rows(options)
    printed: Errors = defaultdict(dict)
    ours: Errors = defaultdict(dict)
    for number in published.select("mica", declared["errors"]):
        if number.metric == "mae" and number.value and number.backbone not in declared["without"]:
            printed[_arm_name(number)][number.dataset] = number.value
    for cell in catalogue.get("mica", declared["errors"]).cells:
        matches = [] if cell.numbers[0].backbone in declared["without"] else find_rows(cell, rows)
        if values := [row.original_mae for row in matches if isinstance(row, Row)]:
            ours[_arm_name(cell.numbers[0])][cell.dataset] = float(np.mean(values))
    tables = declared["costs"]
    compared = (one for table in tables for one in costs.compare(costs.cells("mica", table), ()))
    flops = {
        PRINTED: _flops_by_arm((one, one.value) for table in tables for one in published.select("mica", table)),
        OURS: _flops_by_arm((one.number, one.ours) for one in compared),
    }
    views, lines, sentences = [], [], []
    for source, errors in ((PRINTED, printed), (OURS, ours)):
        ranks, sets = _rank(errors)
        if not ranks:
            continue
        points = [Series(arm, np.array([flops[source][arm]]), np.array([rank])) for arm, rank in ranks.items()
                  if arm in flops[source]]  # fmt: skip
        views.append(View(source, tuple(points)))
        for arm, rank in ranks.items():
            gflops = flops[source].get(arm)
            lines.append([f"{arm}, {source}", f"{rank:.2f}", text.ABSENT if gflops is None else f"{gflops:.3f}"])
        best = min(ranks, key=lambda arm: ranks[arm])
        sentences.append(
            f"{source}: {best} has the best average rank, {ranks[best]:.2f} of {len(ranks)}, over "
            f"{quantity(sets, 'data set')}"
        )
    return Drawing(
        verdict=_sentence(sentences),
        table=tabulate("Ranks and costs", ["network", "average rank", "GFLOPs"], lines),
        figures=(draw_figure("ranks", views),),
        notes=_source_note(options, len(views)),
    )


def _arm_name(number: Number) -> str:
    return f"{number.backbone} with MICA" if number.variant.startswith("mica") else number.backbone


def _flops_by_arm(counts: Iterable[tuple[Number, float | None]]) -> dict[str, float]:
    """GFLOPs of plain networks and of those with MICA's usual gate; the first count of an arm holds."""
    flops: dict[str, float] = {}
    for number, value in counts:
        plain = number.variant in ("own", "softmax") and not number.needs.get("adapters")
        if number.metric == "gflops" and value and (plain or number.variant.startswith("mica_mlpq_incl")):
            flops.setdefault(_arm_name(number), value)
    return flops


def _rank(errors: Errors) -> tuple[dict[str, float], int]:
    """(average rank of each arm, number of data sets), over the widest set of arms that share their data sets."""
    names, scores = _share(errors)
    return (dict(zip(names, average_ranks(scores).tolist(), strict=True)), len(scores)) if names else ({}, 0)


def _share(errors: Errors) -> tuple[Sequence[str], Scores]:
    """(arms, their errors [data set, arm]) of the widest set of arms that share their data sets; none without two."""
    shared = find_rectangles({arm: [(name, None) for name in by_set] for arm, by_set in errors.items()})
    if not shared:
        return (), np.empty((0, 0))
    names, sets = shared[0].names, [block[0] for block in shared[0].blocks]
    return names, np.array([[errors[arm][name] for arm in names] for name in sets])


def draw_curves(declared: FigureSpec, options: FigureOptions) -> Drawing:
    """Training and validation loss of each run over epochs, averaged over seeds."""
    rows = [row for row in read_rows(options) if row.curve]
    if not rows:
        raise InputError(
            "No row holds a curve; name files whose runs were made since rows keep them (column `curve`) with "
            "--results, as `rearview bench` and `rearview reproduce` write them."
        )
    gathered: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row, named in zip(rows, name_candidates(rows), strict=True):
        gathered[f"{named.dataset} {row.lookback}-{row.horizon}, {row.protocol}"][named.label].append(row)
    views, lines = [], []
    for place, arms in gathered.items():
        series = []
        for arm, same in arms.items():
            curves = [json.loads(row.curve) for row in same]
            for part in ("train", "validation"):
                length = min(len(curve[part]) for curve in curves)
                if length:
                    mean = np.mean([curve[part][:length] for curve in curves], axis=0)
                    series.append(Series(f"{arm}, {part}", np.arange(1.0, length + 1), mean))
                    if part == "validation":
                        best = int(mean.argmin())
                        lines.append(
                            [f"{place}, {arm}", str(len(same)), f"{mean[best]:.4f}", str(best + 1), str(length)]
                        )
        views.append(View(place, tuple(series)))
    figure = draw_figure("curves", views)
    verdict = _judge_curves(len(rows), len(gathered), lines)
    heads = ["run", "seeds", "least validation loss", "at epoch", "of"]
    return Drawing(verdict=verdict, table=tabulate("Curves", heads, lines), figures=(figure,))


def _judge_curves(runs: int, places: int, lines: Sequence[Sequence[str]]) -> str:
    """When validation losses are least, and in one place also whose; losses of different data don't compare."""
    verdict = f"{quantity(runs, 'run')} with curves, {quantity(len(lines), 'candidate')}"
    if places > 1:
        verdict += f" over {quantity(places, 'combination')} of data set, look-back, horizon and protocol"
    ends = [(int(best), int(length)) for *_, best, length in lines]
    last = sum(best == length > 1 for best, length in ends)
    early = sum(2 * best <= length for best, length in ends)
    verdict += f": the validation loss is least in the last epoch for {last}, and within the first half for {early}."
    if places == 1 and lines:
        name, _, loss, best, length = min(lines, key=lambda line: float(line[2]))
        verdict += f" The least mean is {loss}, {name}, at epoch {best} of {length}."
    return verdict


DENSITY_SETTINGS = {"density", "primed", "expander"}
"""The settings of gat that tell the runs of one comparison over density apart."""
APART = {"seed", "settings", "attention_settings"}
"""The columns that say which of those runs a row is."""
MEMORY, TIME, ERROR = "Peak memory", "Time of a training window", "Test error"


def draw_density(declared: FigureSpec, options: FigureOptions) -> Drawing:
    """Memory, time and error of graph attention over the density of its graph, plain and primed."""
    alike, others = _density_rows(read_rows(options))
    made: dict[bool, dict[float, list[Row]]] = {False: defaultdict(list), True: defaultdict(list)}
    expander: dict[bool, list[Row]] = {False: [], True: []}
    for row in alike:
        settings: Mapping[str, Any] = json.loads(row.settings)
        primed = bool(settings.get("primed"))
        (expander[primed] if settings.get("expander") else made[primed][settings.get("density", 1.0)]).append(row)
    if not all(made.values()):
        raise InputError(
            "There are no rows of gat, plain and primed, to draw; make some with `rearview reproduce prime --table "
            "density` and name their file with --results."
        )
    measures: dict[str, tuple[str, Callable[[Row], float]]] = {
        MEMORY: ("MiB", lambda row: (row.peak_memory_bytes or np.nan) / 2**20),
        TIME: ("ms", lambda row: 1000 / (row.windows_per_second or np.nan)),
        ERROR: ("MSE", lambda row: row.mse),
    }
    figures, columns, spare = [], {}, []
    for title, (unit, measure) in measures.items():
        series = []
        for primed, by_density in made.items():
            densities = np.array(sorted(by_density))
            means = np.array([_mean(measure, by_density[one]) for one in densities.tolist()])
            series.append(Series("primed" if primed else "plain", densities, means))
            columns[title, primed] = dict(zip(densities.tolist(), means.tolist(), strict=True))
            spare.append(text.number(_mean(measure, expander[primed])))
        about = "Of a random graph; density 1 is attention between all pairs."
        figures.append(Figure(title, about, "lines", (View("", tuple(series)),), "density", unit))
    every = sorted({*made[False], *made[True]})
    lines = [
        [f"{density:g}", *(text.number(columns[title, primed].get(density, np.nan)) for title in measures
                            for primed in (False, True))]
        for density in every
    ]  # fmt: skip
    notes = ["Memory is torch's on a GPU and the whole process's on a CPU, where times include waiting."]
    if any(expander.values()):
        channels = alike[0].channels
        linked = len(expander_pairs(channels)) / (channels * (channels - 1))
        lines.append([f"expander ({linked:.2g})", *spare])
        notes.append(f"The expander graph links {text.percent(linked)} of the pairs of {channels} channels.")
    if others:
        notes.append(f"{quantity(others, 'row')} of gat with other data or settings left out.")
    heads = ["density", *(f"{unit}, {who}" for unit, _ in measures.values() for who in ("plain", "primed"))]
    return Drawing(
        verdict=_judge_density(columns),
        table=tabulate("Graph attention by density", heads, lines),
        figures=tuple(figures),
        notes=tuple(notes),
        facts=(("Data", f"{alike[0].dataset}, {alike[0].lookback} steps to {alike[0].horizon}"),),
    )


def _density_rows(rows: Sequence[Row]) -> tuple[list[Row], int]:
    """(rows of gat that agree in all but graph, primers and seed; the number of other rows of gat).

    Of several such sets it is the one with the most graphs, plain and primed.
    """
    graphs = [row for row in rows if row.model == row.attention == "gat" and not json.loads(row.settings).get("edges")]

    def comparison(row: Row) -> tuple[object, ...]:
        complete = identity(row.configuration)
        settings = json.loads(str(complete["settings"])).items()
        kept = tuple(str(value) for name, value in complete.items() if name not in APART)
        return *kept, *(f"{name}={value}" for name, value in settings if name not in DENSITY_SETTINGS)

    def spread(same: Sequence[Row]) -> tuple[int, int]:
        return len({row.settings for row in same}), len(same)

    groups = list(group_by(graphs, comparison).values())
    alike = max(groups, key=spread, default=[])
    return alike, len(graphs) - len(alike)


def _mean(measure: Callable[[Row], float], rows: Sequence[Row]) -> float:
    return float(np.mean([measure(row) for row in rows])) if rows else np.nan


def _judge_density(columns: Mapping[tuple[str, bool], Mapping[float, float]]) -> str:
    """The least density at which primed attention is as good as plain attention over all pairs, and what it costs."""
    plain, primed = columns[ERROR, False], columns[ERROR, True]
    full = max(plain)
    equal = [density for density in sorted(primed) if primed[density] <= plain[full]]
    if not equal:
        return (
            f"At no density is primed attention as good as plain attention at {full:g} (MSE {plain[full]:.4f}; primed "
            f"at best {min(primed.values()):.4f}). The paper has them equal at 0.6."
        )
    ratios = {
        word: columns[title, True][equal[0]] / columns[title, False][full]
        for title, word in ((MEMORY, "memory"), (TIME, "time"))
    }
    costs = " and ".join(f"{ratio:.2f} times the {word}" for word, ratio in ratios.items() if np.isfinite(ratio))
    return (
        f"Primed attention is as good as plain attention at {full:g} (MSE {plain[full]:.4f}) from a density of "
        f"{equal[0]:g} on ({primed[equal[0]]:.4f}); the paper has 0.6."
        + (f" There it takes {costs}, where the paper has less of both." if costs else "")
    )


def _sentence(parts: Sequence[str]) -> str:
    words = "; ".join(parts)
    return f"{words[:1].upper()}{words[1:]}."


def _source_note(options: FigureOptions, sources: int) -> tuple[str, ...]:
    if sources > 1:
        return ()
    hint = "these files hold no rows of them" if options.results else "--results names files of rows"
    return (f"Printed numbers alone: {hint}, and `rearview reproduce mica` makes them.",)
