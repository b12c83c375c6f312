"use strict";
/* The controls: what the reader does, and what is drawn anew. */
(() => {
  const { data, forecasters, state } = Choice;
  const byId = (id) => document.getElementById(id);
  const grouped = (number) => number.toLocaleString("en");

  /* The table is built only while it is open: a long horizon makes many cells. */
  const fillTable = () => byId("forecast-values").open && Values.fill(byId("forecast-table"));

  function drawPicked() {
    Charts.drawForecast();
    Parts.drawParts();
    Charts.drawBacktest();
    fillTable();
  }

  function drawAll() {
    drawPicked();
    Charts.drawSteps();
    Charts.drawTraining();
    Looks.draw();
  }

  function options(select, entries, chosen) {
    select.replaceChildren(...entries.map(([value, text]) =>
      new Option(Figures.cut(String(text), 60), value, false, value === chosen)));
  }

  function showWindows() {
    const { windows } = Choice.series();
    const text = Figures.stampText(data.time, Figures.wholeDays(windows.map((window) => window.cutoff)));
    if (windows.length === 1) state.window = 0;
    else if (state.window >= windows.length) state.window = -1;
    const each = windows.map((window, row) => [String(row), `after ${text(window.cutoff)}`]);
    const all = windows.length > 1 ? [["-1", `all ${windows.length}`]] : [];
    options(byId("window"), [...all, ...each], String(state.window));
    byId("window").closest(".field").hidden = windows.length < 2;
  }

  function showPosition() {
    byId("series-position").textContent = `${grouped(state.row + 1)} of ${grouped(data.series.length)}`;
    byId("series-previous").disabled = state.row === 0;
    byId("series-next").disabled = state.row === data.series.length - 1;
  }

  function pick(row) {
    state.row = row;
    showPosition();
    showWindows();
    drawPicked();
  }

  /* A control that sets one thing of the state and draws what depends on it. */
  function bind(id, name, read, redraw) {
    byId(id).addEventListener("change", (event) => {
      state[name] = read(event.target);
      redraw();
    });
  }

  function bindSeries() {
    const names = data.series.map((series) => series.id);
    const show = Picker.create(byId("series"), byId("series-list"), names, pick);
    const lead = (row) => {
      show(row);
      pick(row);
    };
    const move = (by) => () => lead(state.row + by);
    Board.start((row) => {
      lead(row);
      byId("forecast").scrollIntoView();
    });
    byId("series-previous").addEventListener("click", move(-1));
    byId("series-next").addEventListener("click", move(1));
    byId("controls").addEventListener("submit", (event) => event.preventDefault());
  }

  function start() {
    byId("series-field").hidden = data.series.length < 2;
    byId("model-field").hidden = forecasters.length < 2;
    byId("controls").hidden = data.series.length < 2 && forecasters.length < 2;
    options(byId("model"), [...forecasters.map((model) => [model, model]), [Choice.ALL, "all models"]], state.model);
    /* Browsers keep what was picked over a reload; the page begins anew. */
    byId("measure").value = state.measure;
    byId("whole-history").checked = state.whole;
    bindSeries();
    bind("model", "model", (select) => select.value, drawPicked);
    bind("window", "window", (select) => Number(select.value), Charts.drawBacktest);
    bind("measure", "measure", (select) => select.value, Charts.drawSteps);
    bind("whole-history", "whole", (box) => box.checked, Charts.drawForecast);
    Looks.bind();
    byId("forecast-values").addEventListener("toggle", fillTable);
    byId("forecast-csv").addEventListener("click", Values.download);
    Plots.redrawOnChange(drawAll);
    showPosition();
    showWindows();
    drawAll();
  }

  start();
})();
