"use strict";
/* The charts: each draws what is picked into its own plot, key and subject line. */
const Charts = (() => {
  const RECENT_ROWS = 60;
  const CONTEXT_ROWS = 12;
  const NOTE_ROOM = 0.14;
  const { data, state } = Choice;
  const { byId, count, draw, fromOne, wholeRange } = Plots;

  const style = (colours, model) => Figures.modelStyle(data, colours, model);

  /* The line below a heading: the series in bold, then a sentence. */
  function subject(id, sentence) {
    const name = document.createElement("b");
    name.textContent = Figures.cut(Choice.series().id, 90);
    name.title = Choice.series().id;
    byId(id).replaceChildren(name, ` ${sentence}`);
  }

  /* Bands, means, labels and values of the models in one part of the data: a forecast or a backtest window. */
  function said(part, x, models, colours, withBands) {
    const drawn = { bands: [], means: [], items: [], arrays: [] };
    for (const model of models) {
      const words = part.models[model];
      const look = style(colours, model);
      const levels = withBands ? Figures.bounded(words) : [];
      const { bands, mean } = Figures.prediction(x, words, look, model, withBands);
      drawn.bands.push(...bands);
      drawn.means.push(mean);
      drawn.arrays.push(words.mean, ...levels.flatMap(([, low, high]) => [low, high]));
      drawn.items.push({ text: model, y: Figures.last(words.mean), ...look });
      drawn.items.push(...levels.map(([level, , high], index) => ({
        text: `${level} %`, y: Figures.last(high), color: colours.quiet,
        fill: Figures.bandColour(look.color, levels.length - index),
      })));
    }
    return drawn;
  }

  /* The members of a portfolio as thin lines, where its forecast alone is drawn. */
  function membersBehind(part, x, models, colours) {
    const alone = models.length === 1 && models[0] === data.lead;
    const members = alone ? data.members.filter((model) => part.models[model] && model !== data.lead) : [];
    const drawn = said(part, x, members, colours, false);
    return { ...drawn, means: drawn.means.map((mean) => ({ ...mean, line: { ...mean.line, width: 1 }, opacity: 0.75 })) };
  }

  function shaded(part, models) {
    const levels = models.length === 1 ? Figures.bounded(part.models[models[0]]).map(([level]) => `${level} %`) : [];
    return levels.length ? ` Shaded: ${levels.join(" and ")} intervals of ${models[0]}.` : "";
  }

  /* ---- forecast ---- */

  function drawForecast() {
    const series = Choice.series();
    const colours = Figures.theme();
    const models = Choice.models(series.forecast);
    const ahead = Choice.stamps(series.forecast);
    const past = Choice.stamps(series);
    const days = Figures.wholeDays([...past, ...ahead]);
    const text = Figures.stampText(data.time, days);
    const recent = Math.min(past.length, Math.max(RECENT_ROWS, 3 * ahead.length));
    const shown = state.whole ? past.length : recent;
    const x = ahead.map(text);
    const border = past.length ? text(past.at(-1)) : x[0];
    const ours = said(series.forecast, x, models, colours, models.length === 1);
    const members = membersBehind(series.forecast, x, models, colours);
    const history = Figures.line(past.map(text), series.y, { color: colours.ink, width: 1.4 }, "history");
    const xRange = [shown ? text(past[past.length - shown]) : x[0], x.at(-1)];
    draw("forecast", [...ours.bands, ...members.means, history, ...ours.means], {
      items: [...ours.items, ...members.items], yName: Choice.measured(), xTitle: data.time.name, integer: data.time.integer, days,
      yRange: Figures.range([series.y.slice(past.length - shown), ...ours.arrays, ...members.arrays], NOTE_ROOM),
      xRange, shapes: [Figures.rule(border, colours)],
      notes: [
        ...Figures.note("history", border, "right", shown / (shown + ahead.length)),
        ...Figures.note("forecast", border, "left", ahead.length / (shown + ahead.length)),
      ],
    }, colours, `Forecast of ${series.id} by ${models.join(", ")} after its history; the values stand in a table below.`);
    Parts.drawInputs({ x: xRange, border, items: [...ours.items, ...members.items] });
    byId("history-field").hidden = past.length === recent;
    const when = ahead.length > 1 ? `${x[0]} to ${x.at(-1)}` : x[0];
    /* The sentence begins with the name, which stands there already. */
    const words = series.words && data.series.length > 1 ? `${series.words.slice(series.id.length).trim()} ` : "";
    const thin = members.items.length ? ` Thin lines: what ${models[0]} is the weighted mean of.` : "";
    const shading = shaded(series.forecast, models);
    subject("forecast-subject", `${words}${count(ahead.length, "step")}, ${when}.${shading}${thin}`);
  }

  /* ---- backtest ---- */

  /* What happened, from the history and the windows together: either may reach further back. */
  function actuals(series) {
    const values = new Map(Choice.stamps(series).map((stamp, row) => [stamp, series.y[row]]));
    for (const window of series.windows) {
      Choice.stamps(window).forEach((stamp, row) => values.set(stamp, window.y[row]));
    }
    return [...values].sort((a, b) => a[0] - b[0]);
  }

  /* The stretch of it to draw: from some rows before the first window to the end of the last. */
  function stretch(happened, spans) {
    const before = Math.max(CONTEXT_ROWS, Math.round(spans[0].length * (spans.length > 1 ? 0.5 : 2)));
    const first = Math.max(0, happened.findIndex(([stamp]) => stamp >= spans[0][0]) - before);
    const end = Math.max(...spans.map((span) => span.at(-1)));
    const rows = happened.slice(first).filter(([stamp]) => stamp <= end);
    return { stamps: rows.map(([stamp]) => stamp), values: rows.map(([, value]) => value), end };
  }

  function drawBacktest() {
    const series = Choice.series();
    if (byId("backtest").hidden) return;
    const some = series.windows.length > 0;
    byId("backtest-plot").hidden = !some;
    byId("backtest-key").hidden = !some;
    if (some) drawWindows(series, state.window < 0 ? series.windows : [series.windows[state.window]]);
    else subject("backtest-subject", "has no backtest window: it is too short for one, or was left off.");
  }

  function drawWindows(series, windows) {
    const colours = Figures.theme();
    const spans = windows.map(Choice.stamps);
    const apart = spans.every((span, row) => !row || span[0] > spans[row - 1].at(-1));
    const models = [...new Set(windows.flatMap(Choice.models))];
    const { stamps, values, end } = stretch(actuals(series), spans);
    const days = Figures.wholeDays(stamps);
    const text = Figures.stampText(data.time, days);
    const cutoff = text(windows[0].cutoff);
    const bands = models.length === 1 && apart;
    const ours = windows.map((window, row) =>
      said(window, spans[row].map(text), Choice.models(window), colours, bands));
    const truth = Figures.line(stamps.map(text), values, { color: colours.ink, width: 1.4 }, "actual");
    draw("backtest", [...ours.flatMap((each) => each.bands), truth, ...ours.flatMap((each) => each.means)], {
      items: [{ text: "actual", y: Figures.last(values), color: colours.ink }, ...ours.at(-1).items],
      yName: Choice.measured(), xTitle: data.time.name, integer: data.time.integer, days,
      yRange: Figures.range([values, ...ours.flatMap((each) => each.arrays)], NOTE_ROOM),
      xRange: [text(stamps[0]), text(end)],
      shapes: windows.map((window) => Figures.rule(text(window.cutoff), colours)),
      notes: windows.length > 1 ? [] : Figures.note("cutoff", cutoff, "right", 1 - spans[0].length / stamps.length),
    }, colours, `Backtest of ${series.id} by ${models.join(", ")}: ${count(windows.length, "window")}.`);
    const several = `${count(windows.length, "window")}; dotted lines are the cutoffs.`;
    const sentence = windows.length > 1 ? several : `cutoff ${cutoff}.`;
    subject("backtest-subject", sentence + (apart ? shaded(windows.at(-1), models) : ""));
  }

  /* ---- error by step, training ---- */

  function drawSteps() {
    const models = Object.keys(data.steps);
    if (!models.length) return;
    const colours = Figures.theme();
    const name = byId("measure").selectedOptions[0].textContent;
    const errors = models.map((model) => data.steps[model][state.measure]);
    const traces = models.map((model, row) =>
      Figures.line(fromOne(errors[row]), errors[row], style(colours, model), model));
    draw("steps", traces, {
      items: models.map((model, row) => ({ text: model, y: Figures.last(errors[row]), ...style(colours, model) })),
      yName: `${name}, backtest`, yRange: Figures.range([[0], ...errors]), integer: true,
      xTitle: `steps ahead (a step ${data.time.step})`,
      xRange: wholeRange(Math.max(...errors.map((each) => each.length))),
    }, colours, `${name} of ${models.join(", ")} at each step ahead.`);
  }

  const drawTraining = () => Plots.drawTraining(data.curves, style);

  return { drawBacktest, drawForecast, drawSteps, drawTraining };
})();
