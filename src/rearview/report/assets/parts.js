"use strict";
/* What a series is made of: trend, seasons, effects of inputs, and the known inputs below the forecast. */
const Parts = (() => {
  const MOST_BARS = 31;
  const TICKS = 8;
  const { data } = Choice;
  const { byId, draw, frame } = Plots;

  /* Phases of a season: bars where they are few, else a line; ticked by their names. */
  function drawSeason(name, part, colours) {
    const x = part.y.map((_, place) => place);
    const color = colours.hues[0];
    const every = Math.ceil(x.length / TICKS);
    const shown = x.filter((place) => place % every === 0);
    const hovertemplate = "%{customdata}: %{y:.4~g}<extra></extra>";
    const labels = part.phases.map(Figures.plain);
    const bars = { x, y: part.y, type: "bar", marker: { color } };
    const trace = x.length <= MOST_BARS ? bars : Figures.line(x, part.y, { color }, part.name);
    draw(name, [{ ...trace, customdata: labels, hovertemplate }], {
      items: [], yName: "around the trend", yRange: Figures.range([part.y, [0]]), integer: true, xTitle: "",
      xRange: [-0.6, x.length - 0.4],
      shaped: (layout) => ({
        ...layout, hovermode: "closest",
        xaxis: {
          ...layout.xaxis, tickmode: "array", tickvals: shown, dtick: null,
          ticktext: shown.map((place) => (/^[A-Za-z]+$/.test(labels[place]) ? labels[place].slice(0, 3) : labels[place])),
        },
      }),
    }, colours, `${part.name}: ${part.words}`);
  }

  /* Effects by name: bars that lie, the largest rise on top, each beside its name. */
  function drawNamed(name, part, colours) {
    const labels = part.phases.map((one) => Figures.plain(Figures.cut(one, 28)));
    const y = labels.map((_, place) => place);
    const hovertemplate = "%{customdata}: %{x:.4~g}<extra></extra>";
    const bars = { x: part.y, y, type: "bar", orientation: "h", marker: { color: colours.hues[2] } };
    draw(name, [{ ...bars, customdata: part.phases.map(Figures.plain), hovertemplate }], {
      items: [], yName: part.unit, yRange: [-0.6, y.length - 0.4], integer: true, xTitle: "",
      xRange: Figures.range([part.y, [0]]),
      shaped: (layout) => ({
        ...layout, hovermode: "closest",
        xaxis: { ...layout.xaxis, dtick: null, nticks: 6 },
        yaxis: {
          ...layout.yaxis, tickmode: "array", tickvals: y, ticktext: labels, automargin: true, showgrid: false,
        },
      }),
    }, colours, `${part.name}: ${part.words}`);
  }

  function drawLine(name, part, colours, border, days) {
    const stamps = Figures.expand(data.axes[part.at]);
    const text = Figures.stampText(data.time, days);
    const x = stamps.map(text);
    const trend = part.name === "Trend";
    draw(name, [Figures.line(x, part.y, { color: colours.hues[trend ? 0 : 2], width: trend ? 2 : 1.25 }, part.name)], {
      items: [], yName: trend ? Choice.measured() : `adds to ${Choice.measured()}`,
      yRange: Figures.range(trend ? [part.y] : [part.y, [0]]),
      integer: data.time.integer, days, xTitle: "", xRange: [x[0], x.at(-1)], shapes: [Figures.rule(border, colours)],
    }, colours, `${part.name}: ${part.words}`);
  }

  function drawParts() {
    if (byId("parts").hidden) return;
    const series = Choice.series();
    const parts = series.parts || [];
    const colours = Figures.theme();
    const stamps = Choice.stamps(series);
    const days = Figures.wholeDays(stamps);
    const border = Figures.stampText(data.time, days)(stamps.at(-1));
    const drawn = parts.filter((part) => part.y.length);
    byId("parts-plots").replaceChildren(
      ...drawn.map((part, place) => frame(`part-${place}`, part.name, part.words, "medium")));
    drawn.forEach((part, place) => {
      const name = `part-${place}`;
      if (part.unit) drawNamed(name, part, colours);
      else if (part.phases) drawSeason(name, part, colours);
      else drawLine(name, part, colours, border, days);
    });
    const silent = parts.filter((part) => !part.y.length).map((part) => `${part.name}: ${part.words}`);
    const none = "This series is too short to be taken apart, or one of too many.";
    const about = data.compares ? "As changed minus as planned." : "What the history shows, carried on by the forecast; dotted: where the forecast begins.";
    byId("parts-subject").textContent = parts.length ? [about, ...silent].join(" ") : none;
  }

  /* Below the forecast, on its time axis, so that a rise stands above what caused it. */
  function drawInputs(range) {
    const series = Choice.series();
    const inputs = series.inputs || [];
    const colours = Figures.theme();
    const past = Choice.stamps(series);
    const ahead = Choice.stamps(series.forecast);
    const days = Figures.wholeDays([...past, ...ahead]);
    const x = [...past, ...ahead].map(Figures.stampText(data.time, days));
    /* Plotly has widened the margin of the forecast for its numbers. */
    const left = byId("forecast-plot")._fullLayout._size.l;
    byId("inputs").hidden = !inputs.length;
    byId("inputs").replaceChildren(...inputs.map((one, place) => frame(`input-${place}`, one.name, "", "strip")));
    inputs.forEach((one, place) => {
      const y = [...one.past, ...one.ahead];
      const shape = { ...Figures.line(x, y, { color: colours.hues[3], width: 1.25 }, one.name) };
      shape.line = { ...shape.line, shape: "hv" };
      draw(`input-${place}`, [shape], {
        items: [], beside: range.items, yName: "known input", yRange: Figures.range([y]), integer: data.time.integer,
        days, xTitle: "", xRange: range.x, shapes: [Figures.rule(range.border, colours)],
        shaped: (layout) => ({
          ...layout, margin: { ...layout.margin, l: left }, yaxis: { ...layout.yaxis, nticks: 3, automargin: false },
        }),
      }, colours, `The known input ${one.name}.`);
    });
  }

  return { drawInputs, drawParts };
})();
