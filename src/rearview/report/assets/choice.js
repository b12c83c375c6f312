"use strict";
/* The page's data, and what the reader has picked of it. */
const Choice = (() => {
  const ALL = "*";
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const saysAnything = (model) => (series) =>
    series.forecast.models[model] || series.windows.some((window) => window.models[model]);
  const forecasters = data.models.filter((model) => data.series.some(saysAnything(model)));
  const state = {
    row: 0, window: -1, whole: false, measure: "mae",
    model: data.compares ? ALL : forecasters.includes(data.lead) ? data.lead : forecasters[0],
  };

  const series = () => data.series[state.row];
  const stamps = (part) => Figures.expand(data.axes[part.at]);

  /* The models to draw: the picked one, or all that have something to say here. */
  function models(part) {
    const here = forecasters.filter((model) => part.models[model]);
    if (state.model === ALL) return here;
    return here.includes(state.model) ? [state.model] : here.slice(0, 1);
  }

  /* What the axis of values is called: the column of a long table, or of a wide one the column that is drawn. */
  const measured = () => Figures.cut(data.measured || series().id, 40);

  return { ALL, data, forecasters, measured, models, series, stamps, state };
})();
