"use strict";
/* The page about result rows: one protocol and data set at a time; accuracy against cost, error by horizon. */
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const { byId, draw } = Plots;
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const SYMBOLS = [["circle", "●"], ["square", "■"], ["diamond", "◆"], ["triangle-up", "▲"], ["cross", "✚"], ["x", "✖"]];
  const state = { scope: "", dataset: "", metric: "", horizon: "", cost: "" };

  const unique = (values) => [...new Set(values)];
  const scopeOf = (entry) => `${entry.task}|${entry.protocol}`;
  const task = () => data.tasks[state.scope.split("|")[0]];
  const inScope = () => data.entries.filter((entry) => scopeOf(entry) === state.scope);
  const shown = () => inScope().filter((entry) => entry.dataset === state.dataset && entry.scores[state.metric]);
  const atHorizon = () => shown().filter((entry) => String(entry.horizon) === state.horizon);
  const metricName = () => task().metrics[state.metric];

  /* A candidate keeps its colour, dash and mark on every figure of the page. */
  function look(colours, name) {
    const place = data.names.indexOf(name);
    const round = Math.floor(place / colours.hues.length);
    const [symbol, sign] = SYMBOLS[round % SYMBOLS.length];
    const color = colours.hues[place % colours.hues.length];
    return { color, dash: DASHES[round % DASHES.length], symbol, text: `${sign} ${name}` };
  }

  function scopeName(scope) {
    const [name, protocol] = scope.split("|");
    return Object.keys(data.tasks).length > 1 ? `${protocol}, ${name}` : protocol;
  }

  /* Fills a select and keeps the choice where it is still offered. */
  function offer(id, key, entries) {
    const values = entries.map(([value]) => value);
    if (!values.includes(state[key])) state[key] = values[0] ?? "";
    byId(id).replaceChildren(...entries.map(([value, text]) =>
      new Option(Figures.cut(String(text), 40), value, false, value === state[key])));
  }

  function offerAll() {
    offer("scope", "scope", unique(data.entries.map(scopeOf)).map((scope) => [scope, scopeName(scope)]));
    offer("dataset", "dataset", unique(inScope().map((entry) => entry.dataset)).map((name) => [name, name]));
    const has = (metric) => inScope().some((entry) => entry.dataset === state.dataset && entry.scores[metric]);
    offer("metric", "metric", Object.entries(task().metrics).filter(([metric]) => has(metric)));
    const horizons = unique(shown().map((entry) => String(entry.horizon)));
    offer("horizon", "horizon", horizons.map((horizon) => [horizon, horizon]));
    byId("horizon-field").hidden = horizons.length < 2;
    const known = (cost) => shown().some((entry) => entry.costs[cost] > 0);
    offer("cost-kind", "cost", Object.entries(data.costs).filter(([cost]) => known(cost)));
  }

  function showBoards() {
    document.querySelectorAll(".board").forEach((board) => {
      board.hidden = board.dataset.scope !== state.scope || board.dataset.dataset !== state.dataset;
    });
  }

  const spread = ([, std, count]) => (std === null ? "one seed" : `± ${Figures.aligned([std])(std)}, ${count} seeds`);
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  function point(entry, style, colours) {
    const score = entry.scores[state.metric];
    const bar = { type: "data", array: [score[1] || 0], visible: score[1] !== null, thickness: 1, width: 3 };
    return {
      x: [entry.costs[state.cost]], y: [score[0]], error_y: { ...bar, color: style.color }, type: "scatter",
      mode: "markers", name: plain(entry.name), cliponaxis: false,
      marker: { size: 11, color: style.color, symbol: style.symbol, line: { color: colours.paper, width: 1.5 } },
      hovertemplate: `${plain(entry.name)}<br>${metricName()} %{y:.4~g} (${spread(score)})<br>`
        + `${data.costs[state.cost]} %{x:,.4~g}<br>${plain(entry.device)}<extra></extra>`,
    };
  }

  function onLogAxis(low, high) {
    const edge = Math.max(0.12, 0.08 * Math.log10(high / low));
    return (layout) => {
      Object.assign(layout.xaxis, {
        type: "log", range: [Math.log10(low) - edge, Math.log10(high) + edge], tickformat: "~s", dtick: null,
        /* Within one power of ten plotly ticks every digit, which touch. */
        ...(high / low < 30 ? { nticks: 5 } : { dtick: 1 }),
      });
      layout.hovermode = "closest";
      return layout;
    };
  }

  function drawCost() {
    const colours = Figures.theme();
    const entries = atHorizon().filter((entry) => entry.costs[state.cost] > 0);
    byId("cost").hidden = !entries.length;
    if (!entries.length) return;
    const costs = entries.map((entry) => entry.costs[state.cost]);
    const styles = entries.map((entry) => look(colours, entry.name));
    const scores = entries.map((entry) => entry.scores[state.metric]);
    const reach = scores.flatMap(([mean, std]) => [mean - (std || 0), mean + (std || 0)]);
    const better = task().lower ? "lower left" : "upper left";
    draw("cost", entries.map((entry, row) => point(entry, styles[row], colours)), {
      items: styles.map((style) => ({ ...style, dash: "solid" })), beside: [],
      yName: metricName(), yRange: Figures.range([reach]), integer: true, xTitle: data.costs[state.cost],
      xRange: [Math.min(...costs), Math.max(...costs)], shaped: onLogAxis(Math.min(...costs), Math.max(...costs)),
    }, colours, `${metricName()} against ${data.costs[state.cost]} of ${entries.length} candidates.`);
    const devices = unique(entries.map((entry) => entry.device));
    const mixed = devices.length > 1 && state.cost !== "parameters" ? " Measured on different devices." : "";
    const where = state.horizon === "null" ? state.dataset : `${state.dataset}, horizon ${state.horizon}`;
    byId("cost-subject").textContent = `${where}. Better is ${better}.${mixed}`;
  }

  function drawHorizons() {
    const colours = Figures.theme();
    const entries = shown().filter((entry) => entry.horizon !== null);
    const horizons = unique(entries.map((entry) => entry.horizon)).sort((a, b) => a - b);
    byId("horizons").hidden = horizons.length < 2;
    if (horizons.length < 2) return;
    const names = unique(entries.map((entry) => entry.name));
    const styles = names.map((name) => look(colours, name));
    const lines = names.map((name) => horizons.map((horizon) => {
      const found = entries.find((entry) => entry.name === name && entry.horizon === horizon);
      return found ? found.scores[state.metric][0] : null;
    }));
    const traces = names.map((name, row) => ({
      ...Figures.line(horizons, lines[row], styles[row], name), mode: "lines+markers", connectgaps: true,
      marker: { size: 7, color: styles[row].color, symbol: styles[row].symbol },
    }));
    const end = 0.04 * (horizons.at(-1) - horizons[0]);
    draw("horizons", traces, {
      items: styles, beside: [], yName: metricName(),
      yRange: Figures.range(lines), integer: true, xTitle: "horizon, steps",
      xRange: [horizons[0] - end, horizons.at(-1) + end],
      shaped: (layout) => {
        Object.assign(layout.xaxis, { tickmode: "array", tickvals: horizons });
        return layout;
      },
    }, colours, `${metricName()} of ${names.length} candidates by horizon.`);
    byId("horizons-subject").textContent = `${state.dataset}, means over seeds.`;
  }

  function show() {
    offerAll();
    showBoards();
    /* Widths are read from the page, so what is empty must be hidden before anything is drawn. */
    byId("horizons").hidden = unique(shown().map((entry) => entry.horizon)).length < 2;
    drawCost();
    drawHorizons();
  }

  function listen(id, key) {
    byId(id).addEventListener("change", (event) => {
      state[key] = event.target.value;
      show();
    });
  }

  let width = window.innerWidth;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  window.addEventListener("resize", () => {
    /* Phones change the window's height while scrolling; only a new width needs new figures. */
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    requestAnimationFrame(show);
  });
  [["scope", "scope"], ["dataset", "dataset"], ["metric", "metric"], ["horizon", "horizon"], ["cost-kind", "cost"]]
    .forEach(([id, key]) => listen(id, key));
  show();
})();
