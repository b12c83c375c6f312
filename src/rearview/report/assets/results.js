"use strict";
/* The page about result rows: one protocol and data set at a time; accuracy against cost, error by horizon. */
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const { byId, draw } = Plots;
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const SYMBOLS = [
    ["circle", "●"], ["square", "■"], ["diamond", "◆"], ["triangle-up", "▲"], ["cross", "✚"], ["x", "✖"], ["star", "★"],
    ["triangle-down", "▼"], ["hexagon", "⬢"], ["triangle-left", "◀"], ["triangle-right", "▶"], ["pentagon", "⬟"],
    ["circle-open", "○"], ["square-open", "□"], ["diamond-open", "◇"], ["star-open", "☆"],
  ];
  /* So many candidates are told apart one by one; more are coloured by mechanism and shaped by network. */
  const MOST_ALONE = 12;
  /* Rows of a board that are shown at first, unless there are but a few more. */
  const MOST_ROWS = 20;
  /* Numbers further above the best than so many times the median distance leave the figure. */
  const OUTLIER = 6;
  const state = { scope: "", dataset: "", model: "", metric: "", horizon: "", cost: "" };
  /* Boards that were opened whole. */
  const whole = new Set();

  /* Words come by number, scores and costs in the order of their names. */
  const zipped = (names, values) => Object.fromEntries(names.map((name, place) => [name, values[place]]));
  const allEntries = data.entries.map(([words, horizon, company, scores, costs]) => {
    const named = zipped(data.named, words.map((word) => data.words[word]));
    const measures = Object.keys(data.tasks[named.task].metrics);
    return { ...named, horizon, company, scores: zipped(measures, scores), costs: zipped(Object.keys(data.costs), costs) };
  });

  const unique = (values) => [...new Set(values)];
  const scopeOf = (entry) => `${entry.task}|${entry.protocol}`;
  const task = () => data.tasks[state.scope.split("|")[0]];
  const inScope = () => allEntries.filter((entry) => scopeOf(entry) === state.scope);
  const onDataset = () => inScope().filter((entry) => entry.dataset === state.dataset);
  const shown = () => onDataset().filter((entry) =>
    (!state.model || entry.model === state.model) && entry.scores[state.metric]);
  const atHorizon = () => shown().filter((entry) => String(entry.horizon) === state.horizon);
  const metricName = () => task().metrics[state.metric];
  /* The measure that candidates are ranked by under the protocol shown. */
  const deciding = () => task().decides[state.scope.split("|")[1]];

  const crowded = () => unique(inScope().map((entry) => entry.name)).length > MOST_ALONE;
  const turn = (list, place) => list[place % list.length];
  const among = (key, value) => unique(inScope().map((entry) => entry[key])).indexOf(value);

  /* A candidate keeps its colour, dash and mark on every figure of a protocol. */
  function look(colours, entry) {
    if (crowded()) {
      const network = among("model", entry.model);
      return { color: hueOf(colours, entry.attention), dash: turn(DASHES, network), symbol: turn(SYMBOLS, network)[0] };
    }
    const place = among("name", entry.name);
    const round = Math.floor(place / colours.hues.length);
    const [symbol, sign] = turn(SYMBOLS, round);
    return { color: turn(colours.hues, place), dash: turn(DASHES, round), symbol, sign, text: entry.short };
  }

  /* Of a mechanism; a network without one is drawn in ink. */
  function hueOf(colours, attention) {
    if (!attention) return colours.ink;
    const place = unique(inScope().map((entry) => entry.attention)).filter(Boolean).indexOf(attention);
    const fresh = turn(colours.hues, place);
    return place < colours.hues.length ? fresh : Figures.faded(fresh, 0.5);
  }

  /* What stands below a figure: every candidate, or the mechanisms and the networks. */
  function keyOf(colours, entries, line) {
    const swatch = (item) => (line ? item : { ...item, plain: true });
    if (!crowded()) {
      const seen = new Map(entries.map((entry) => [entry.name, look(colours, entry)]));
      return [...seen.values()].map(swatch);
    }
    const mechanisms = unique(entries.map((entry) => entry.attention)).map((name) =>
      ({ color: hueOf(colours, name), sign: "●", plain: true, text: name || "no attention" }));
    const networks = unique(entries.map((entry) => entry.model)).map((name) => {
      const place = among("model", name);
      return swatch({ color: colours.quiet, dash: turn(DASHES, place), sign: turn(SYMBOLS, place)[1], text: name });
    });
    const titled = (title, items) => [{ plain: true, text: title }, ...items];
    return [...titled("Attention:", mechanisms), ...titled("Network:", networks)];
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
    offer("scope", "scope", unique(allEntries.map(scopeOf)).map((scope) => [scope, scopeName(scope)]));
    offer("dataset", "dataset", unique(inScope().map((entry) => entry.dataset)).map((name) => [name, name]));
    const networks = unique(onDataset().map((entry) => entry.model));
    offer("model", "model", [["", "all"], ...networks.map((name) => [name, name])]);
    byId("model-field").hidden = networks.length < 2;
    const has = (metric) => onDataset().some((entry) => entry.scores[metric]);
    const measures = Object.entries(task().metrics).filter(([metric]) => has(metric));
    offer("metric", "metric", measures.sort(([a], [b]) => (b === deciding()) - (a === deciding())));
    const horizons = unique(shown().map((entry) => String(entry.horizon)));
    offer("horizon", "horizon", horizons.map((horizon) => [horizon, horizon]));
    byId("horizon-field").hidden = horizons.length < 2;
    const known = (cost) => shown().some((entry) => entry.costs[cost] > 0);
    offer("cost-kind", "cost", Object.entries(data.costs).filter(([cost]) => known(cost)));
  }

  /* Rows by the measure that was picked, those without it last. */
  function ordered(board, rows) {
    const column = [...board.querySelectorAll("thead th")].findIndex((head) => head.textContent === metricName());
    const shownIn = (row) => parseFloat(row.cells[column].textContent.replaceAll(",", ""));
    const place = (row) => {
      const value = column < 0 ? NaN : shownIn(row);
      return Number.isNaN(value) ? Infinity : (task().lower ? value : -value);
    };
    const places = new Map(rows.map((row) => [row, place(row)]));
    /* Infinity less Infinity is no number, so what is equal is said to be. */
    rows.sort((a, b) => (places.get(a) === places.get(b) ? 0 : places.get(a) - places.get(b)));
    board.querySelector("tbody").append(...rows);
    return rows;
  }

  function showBoards() {
    document.querySelectorAll(".board").forEach((board) => {
      board.hidden = board.dataset.scope !== state.scope || board.dataset.dataset !== state.dataset;
      if (board.hidden) return;
      const rows = ordered(board, [...board.querySelectorAll("tr[data-tag]")]);
      const fitting = rows.filter((row) => !state.model || row.dataset.tag === state.model);
      const most = whole.has(board) || fitting.length < 1.25 * MOST_ROWS ? Infinity : MOST_ROWS;
      rows.forEach((row) => { row.hidden = !fitting.includes(row) || fitting.indexOf(row) >= most; });
      const more = board.querySelector(".more");
      more.hidden = most === Infinity;
      more.textContent = `Show all ${fitting.length}`;
    });
  }

  const spread = ([, std, count]) => (std === null ? "one seed" : `± ${Figures.aligned([std])(std)}, ${count} seeds`);
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  function point(entry, style, colours, limits) {
    const score = entry.scores[state.metric];
    const bar = { type: "data", array: [score[1] || 0], visible: score[1] !== null, thickness: 1, width: 3 };
    return {
      x: [entry.costs[state.cost]], y: [Math.min(limits[1], Math.max(limits[0], score[0]))],
      error_y: { ...bar, color: style.color }, type: "scatter", mode: "markers", name: plain(entry.name),
      cliponaxis: false,
      marker: { size: 12, color: style.color, symbol: style.symbol, line: { color: colours.paper, width: 1.5 } },
      hovertemplate: `${plain(entry.short)}<br>${metricName()} ${score[0].toPrecision(4)} (${spread(score)})<br>`
        + `${data.costs[state.cost]} %{x:,.4~g}<br>${plain(entry.device)}${waited(entry) ? ", shared" : ""}`
        + "<extra></extra>",
    };
  }

  /* The range of the figure: from the best on, as far as most candidates reach. */
  function reach(scores) {
    const sign = task().lower ? 1 : -1;
    const far = scores.map(([mean]) => sign * mean).sort((a, b) => a - b);
    const usual = far[Math.floor(far.length / 2)] - far[0];
    const kept = scores.filter(([mean]) => !usual || sign * mean - far[0] <= OUTLIER * usual);
    const ends = kept.flatMap(([mean, std]) => [mean - (std || 0), mean + (std || 0)]);
    return { limits: Figures.range([ends]), left: scores.length - kept.length };
  }

  /* Through the candidates that no other beats in accuracy and in cost at once. */
  function front(entries, colours) {
    const sign = task().lower ? 1 : -1;
    const at = (entry) => sign * entry.scores[state.metric][0];
    const ordered = [...entries].sort((a, b) => a.costs[state.cost] - b.costs[state.cost] || at(a) - at(b));
    const best = [];
    ordered.forEach((entry) => {
      if (!best.length || at(entry) < at(best.at(-1))) best.push(entry);
    });
    return {
      x: best.map((entry) => entry.costs[state.cost]), y: best.map((entry) => entry.scores[state.metric][0]),
      name: "front", type: "scatter", mode: "lines", hoverinfo: "skip", cliponaxis: false,
      line: { color: colours.quiet, width: 1, dash: "dot", shape: "hv" },
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
    const { limits, left } = reach(entries.map((entry) => entry.scores[state.metric]));
    const inside = entries.filter((entry) => entry.scores[state.metric][0] <= limits[1]
      && entry.scores[state.metric][0] >= limits[0]);
    const points = entries.map((entry) => point(entry, look(colours, entry), colours, limits));
    draw("cost", [front(inside, colours), ...points], {
      items: keyOf(colours, entries, false), beside: [],
      yName: metricName(), yRange: limits, integer: true, xTitle: data.costs[state.cost],
      xRange: [Math.min(...costs), Math.max(...costs)], shaped: onLogAxis(Math.min(...costs), Math.max(...costs)),
    }, colours, `${metricName()} against ${data.costs[state.cost]} of ${entries.length} candidates.`);
    byId("cost-subject").textContent = costSubject(entries, left);
  }

  /* Whether what is drawn of a candidate is a time in which it waited for other runs. */
  const waited = (entry) => entry.company && data.times.includes(state.cost);

  function costSubject(entries, left) {
    const better = task().lower ? "lower left" : "upper left";
    const devices = unique(entries.map((entry) => entry.device));
    const mixed = devices.length > 1 && state.cost !== "parameters" ? " Measured on different devices." : "";
    const where = state.horizon === "null" ? state.dataset : `${state.dataset}, horizon ${state.horizon}`;
    const beyond = left ? ` ${Plots.count(left, "candidate")} far worse stand${left === 1 ? "s" : ""} at the edge.` : "";
    const front = "none is both better and cheaper than the dotted line";
    const waiting = entries.filter(waited).length;
    const crowd = waiting ? ` ${waiting} of ${entries.length} shared their device: their times include waiting.` : "";
    return `${where}. Better is ${better}; ${front}.${beyond}${mixed}${crowd}`;
  }

  /* The candidates that were run at several horizons, of which alone there is a line to draw. */
  function alongHorizons() {
    const entries = shown().filter((entry) => entry.horizon !== null);
    const several = (name) => entries.filter((entry) => entry.name === name).length > 1;
    return entries.filter((entry) => several(entry.name));
  }

  function drawHorizons() {
    const colours = Figures.theme();
    const entries = alongHorizons();
    if (!entries.length) return;
    const horizons = unique(entries.map((entry) => entry.horizon)).sort((a, b) => a - b);
    const names = unique(entries.map((entry) => entry.name));
    const styles = names.map((name) => look(colours, entries.find((entry) => entry.name === name)));
    const lines = names.map((name) => horizons.map((horizon) => {
      const found = entries.find((entry) => entry.name === name && entry.horizon === horizon);
      return found ? found.scores[state.metric][0] : null;
    }));
    const shorts = names.map((name) => entries.find((entry) => entry.name === name).short);
    const traces = names.map((name, row) => ({
      ...Figures.line(horizons, lines[row], styles[row], shorts[row]), mode: "lines+markers", connectgaps: true,
      marker: { size: 7, color: styles[row].color, symbol: styles[row].symbol },
    }));
    const end = 0.04 * (horizons.at(-1) - horizons[0]);
    draw("horizons", traces, {
      items: keyOf(colours, entries, true), beside: [], yName: metricName(),
      yRange: Figures.range(lines), integer: true, xTitle: "horizon, steps",
      xRange: [horizons[0] - end, horizons.at(-1) + end],
      shaped: (layout) => {
        Object.assign(layout.xaxis, { tickmode: "array", tickvals: horizons });
        return layout;
      },
    }, colours, `${metricName()} of ${names.length} candidates by horizon.`);
    byId("horizons-subject").textContent =
      `${state.dataset}, means over seeds; ${Plots.count(names.length, "candidate")} with several horizons.`;
  }

  function show() {
    offerAll();
    showBoards();
    /* Widths are read from the page, so what is empty must be hidden before anything is drawn. */
    byId("horizons").hidden = !alongHorizons().length;
    drawCost();
    drawHorizons();
  }

  function listen(id, key) {
    byId(id).addEventListener("change", (event) => {
      /* Who picked no measure sees the one that decides, which may be another under another protocol. */
      if (key === "scope" && state.metric === deciding()) state.metric = "";
      state[key] = event.target.value;
      show();
    });
  }

  Plots.redrawOnChange(show);
  [
    ["scope", "scope"], ["dataset", "dataset"], ["model", "model"], ["metric", "metric"], ["horizon", "horizon"],
    ["cost-kind", "cost"],
  ].forEach(([id, key]) => listen(id, key));
  document.querySelectorAll(".board").forEach((board) => {
    board.querySelector(".more").addEventListener("click", () => {
      whole.add(board);
      showBoards();
    });
  });
  show();
})();
