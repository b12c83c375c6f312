"use strict";
/* The page of a detection: what the reader picks (series, channel, segment, threshold), and what is drawn for it. */
(() => {
  const { alignLeft, byId, count, draw, drawTraining, linkZoom } = Plots;
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const SURROUNDINGS = 3;
  const LEAST_ROWS = 60;
  const LOG_FROM = 30;
  const MOST_BARS = 12;
  const EDGE_SHARE = 0.55;
  /* A level of null is the threshold of the run. */
  const state = { entity: 0, segment: -1, channel: null, level: null };

  const entity = () => data.entities[state.entity];
  const isRun = () => state.level === null;
  const brief = (value) => Number(value.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 });
  const threshold = () => (isRun() ? entity().threshold : entity().levels.at[state.level]);
  const segments = () => (isRun() ? entity().segments : segmentsAbove(entity(), threshold()));
  const picked = () => segments()[state.segment];
  const drawnChannels = () =>
    Object.keys(entity().values).map(Number).sort((a, b) => entity().shares[b] - entity().shares[a]);

  /* Rows above another threshold, joined as those of the run; what carries one is known where the run has it too. */
  function segmentsAbove(one, level) {
    const stamps = Figures.expand(data.axes[one.at]);
    const rowOf = (place) => ((stamps[place] - stamps[0]) / (stamps.at(-1) - stamps[0] || 1)) * (one.rows - 1);
    const found = [];
    one.score.forEach((score, place) => {
      if (!Figures.known(score) || score <= level) return;
      const before = found.at(-1);
      const goesOn = before && (place === before.last + 1 || rowOf(place) - rowOf(before.last) - 1 < one.join - 0.5);
      if (!goesOn) found.push({ first: place, last: place, peak: place });
      else Object.assign(before, { last: place, peak: score > one.score[before.peak] ? place : before.peak });
    });
    const same = (part) => one.segments.find((other) => other.first <= part.last && other.last >= part.first);
    return found.map((part) => ({ ...part, shares: same(part)?.shares ?? [] }));
  }

  /* The rows in view: all of them, or a segment with its surroundings. */
  function span(stamps) {
    const part = picked();
    if (!part) return [0, stamps.length - 1];
    const around = Math.max(LEAST_ROWS, SURROUNDINGS * (part.last - part.first + 1));
    return [Math.max(0, part.first - around), Math.min(stamps.length - 1, part.last + around)];
  }

  /* Shaded stretches with an edge, without which a few rows among thousands could not be seen. */
  function stretches(parts, x, hue) {
    return parts.map(([first, last]) => ({
      type: "rect", yref: "paper", y0: 0, y1: 1, x0: x[first], x1: x[last], layer: "below",
      fillcolor: Figures.bandColour(hue, 1), line: { width: 1, color: Figures.faded(hue, EDGE_SHARE) },
    }));
  }

  function drawCharts() {
    const one = entity();
    const colours = Figures.theme();
    const stamps = Figures.expand(data.axes[one.at]);
    const days = Figures.wholeDays(stamps);
    const x = stamps.map(Figures.stampText(data.time, days));
    const [from, to] = span(stamps);
    const found = Figures.bandColour(colours.hues[1], 1);
    const marked = Figures.bandColour(colours.hues[2], 1);
    const shapes = [
      ...stretches(one.labels, x, colours.hues[2]),
      ...stretches(segments().map((part) => [part.first, part.last]), x, colours.hues[1]),
    ];
    const shared = {
      xTitle: data.time.name, integer: data.time.integer, days, xRange: [x[from], x[to]], shapes,
      beside: [{ text: data.channels[state.channel] }, { text: "threshold" }],
    };
    const bands = [
      { text: "anomaly", color: colours.hues[1], fill: found },
      ...(one.labels.length ? [{ text: "marked by a person", color: colours.hues[2], fill: marked }] : []),
    ];
    drawValues(one, x, [from, to], colours, shared, bands);
    drawScore(one, x, [from, to], colours, shared);
    alignLeft("values", "score");
  }

  function drawValues(one, x, [from, to], colours, shared, bands) {
    const name = data.channels[state.channel];
    const values = one.values[state.channel];
    const seen = values.slice(from, to + 1);
    draw("values", [Figures.line(x, values, { color: colours.ink, width: 1.25 }, name)], {
      ...shared, items: [{ text: name, y: Figures.last(seen), color: colours.ink }, ...bands],
      yName: `${name}, original units`, yRange: Figures.range([seen]),
    }, colours, `${name} of ${one.id}, anomalies shaded.`);
  }

  /* The highest row of every segment. */
  function peaks(one, x, style) {
    return {
      x: segments().map((part) => x[part.peak]), y: segments().map((part) => one.score[part.peak]), type: "scatter",
      mode: "markers", hoverinfo: "skip", marker: { size: 6, color: style.color }, name: "peak",
    };
  }

  /* High scores would flatten the rest, so a wide range gets a log scale. */
  function drawScore(one, x, [from, to], colours, shared) {
    const seen = one.score.slice(from, to + 1).filter(Figures.known);
    const largest = Math.max(one.threshold, ...seen);
    const positive = seen.filter((value) => value > 0);
    const yLog = one.threshold > 0 && positive.length > 0 && largest > LOG_FROM * one.threshold;
    const lowest = yLog ? Math.max(Math.min(...positive), one.threshold / 1000) : 0;
    const limit = { color: colours.hues[1], dash: "dash", width: 1.5 };
    const level = Figures.line([x[0], x.at(-1)], [threshold(), threshold()], limit, "threshold");
    const score = yLog ? one.score.map((value) => (value > 0 ? value : null)) : one.score;
    draw("score", [Figures.line(x, score, { color: colours.hues[0], width: 1.25 }, "score"), level, peaks(one, x, limit)], {
      ...shared, yLog, yName: yLog ? "score, log scale" : "score",
      yRange: yLog ? [Math.min(lowest, threshold()) * 0.8, largest * 1.3] : Figures.range([[0, threshold(), one.threshold], seen]),
      items: [
        { text: "score", y: Figures.last(seen), color: colours.hues[0] },
        { text: "threshold", y: threshold(), ...limit },
      ],
    }, colours, `Score of ${one.id} and its threshold.`);
  }

  function bar(name, share) {
    const item = document.createElement("li");
    const label = document.createElement("span");
    const track = document.createElement("span");
    const fill = document.createElement("i");
    const number = document.createElement("span");
    label.textContent = Figures.cut(name, 60);
    label.title = name;
    track.className = "track";
    fill.style.width = `${Math.max(0.5, 100 * share)}%`;
    track.append(fill);
    number.className = "number";
    number.textContent = `${(100 * share).toFixed(0)} %`;
    item.append(label, track, number);
    return item;
  }

  function drawCarriers() {
    const part = picked()?.shares.length ? picked() : null;
    const all = entity().shares.map((share, channel) => [channel, share]).sort((a, b) => b[1] - a[1]);
    const shares = part ? part.shares : all.slice(0, MOST_BARS).filter(([, share]) => share > 0);
    byId("carriers-bars").replaceChildren(...shares.map(([channel, share]) => bar(data.channels[channel], share)));
    const whole = entity().segments.length ? "all anomalous rows" : "all rows";
    const rest = all.length > shares.length ? ", the largest first." : ".";
    const of = part ? `anomaly ${state.segment + 1}` : whole;
    byId("carriers-subject").textContent = `Shares of the error of ${of}${rest}`;
  }

  function say() {
    const one = entity();
    const text = Figures.stampText(data.time, false);
    const stamps = Figures.expand(data.axes[one.at]);
    const part = picked();
    const name = document.createElement("b");
    name.textContent = data.entities.length > 1 ? Figures.cut(one.id, 90) : data.channels[state.channel];
    const limit = brief(threshold());
    const all = segments();
    const place = `${state.segment + 1} of ${all.length}`;
    const carried = part?.shares.length ? `, carried by ${part.shares.map(([channel, share]) =>
      `${Figures.cut(data.channels[channel], 30)} (${(100 * share).toFixed(0)} %)`).join(", ")}` : "";
    const where = part
      ? `anomaly ${place}: ${text(stamps[part.first])} to ${text(stamps[part.last])}${carried}.`
      : `${count(isRun() ? all.length : one.levels.alarms[state.level], "segment")} above the threshold of ${limit}.`;
    const shaded = one.labels.length ? " Shaded: orange what was found, green what a person marked." : "";
    byId("anomalies-subject").replaceChildren(name, ` ${where}${shaded}`);
    byId("segment-position").textContent = part ? place : "";
    byId("segment-previous").disabled = state.segment <= 0;
    byId("segment-next").disabled = state.segment >= all.length - 1;
    byId("segment-all").disabled = !part;
  }

  /* What lies above the threshold, counted over all rows, however few of them are drawn. */
  function sayThreshold() {
    const { days, labels, levels, threshold: run } = entity();
    byId("threshold-field").hidden = !levels;
    byId("threshold-subject").hidden = !levels;
    if (!levels) return;
    const at = state.level ?? levels.run;
    const short = (value) => Number(value.toPrecision(2)).toLocaleString("en");
    const times = isRun() ? "the threshold of the run" : `${short(threshold() / run)} times that of the run`;
    const rate = days ? ` (${short(levels.alarms[at] / days)} a day)` : "";
    const hits = labels.length ? `; ${levels.found[at]} of ${labels.length} marked found` : "";
    byId("threshold-subject").textContent = `At ${brief(threshold())}, ${times}: `
      + `${count(levels.alarms[at], "alarm")}${rate}, ${count(levels.rows[at], "row")} above it${hits}.`;
    byId("threshold").max = String(levels.at.length - 1);
    byId("threshold").value = String(at);
    byId("threshold-reset").disabled = isRun();
  }

  function pickLevel(level) {
    Object.assign(state, { level: level === entity().levels.run ? null : level, segment: -1 });
    drawPicked();
  }

  function drawPicked() {
    say();
    sayThreshold();
    drawCharts();
    drawCarriers();
  }

  function showChannels() {
    const options = drawnChannels();
    if (!options.includes(state.channel)) [state.channel] = options;
    byId("channel").replaceChildren(...options.map((channel) =>
      new Option(Figures.cut(data.channels[channel], 60), String(channel), false, channel === state.channel)));
    byId("channel-field").hidden = options.length < 2;
  }

  /* A segment brings its strongest channel along; -1 is all rows. */
  function pickSegment(number) {
    state.segment = number;
    const strongest = (picked()?.shares ?? []).find(([channel]) => entity().values[channel]);
    if (strongest) [state.channel] = strongest;
    showChannels();
    drawPicked();
  }

  function pickEntity(row) {
    Object.assign(state, { entity: row, channel: null, level: null });
    pickSegment(-1);
  }

  function drawAll() {
    drawPicked();
    if (Object.keys(data.curves).length) drawTraining(data.curves, (colours) => ({ color: colours.hues[0] }));
  }

  function bindTable(show) {
    byId("segments").addEventListener("click", (event) => {
      const button = event.target.closest("[data-segment]");
      if (!button) return;
      const row = Number(button.dataset.entity);
      if (row >= data.entities.length) return;
      Object.assign(state, { entity: row, level: null });
      show(row);
      pickSegment(Number(button.dataset.segment));
      byId("anomalies").scrollIntoView();
    });
  }

  function start() {
    byId("series-field").hidden = data.entities.length < 2;
    const show = Picker.create(byId("series"), byId("series-list"), data.entities.map((one) => one.id), pickEntity);
    byId("controls").addEventListener("submit", (event) => event.preventDefault());
    byId("channel").addEventListener("change", (event) => {
      state.channel = Number(event.target.value);
      drawPicked();
    });
    byId("segment-previous").addEventListener("click", () => pickSegment(state.segment - 1));
    byId("segment-next").addEventListener("click", () => pickSegment(state.segment + 1));
    byId("segment-all").addEventListener("click", () => pickSegment(-1));
    byId("threshold").addEventListener("input", (event) => pickLevel(Number(event.target.value)));
    byId("threshold-reset").addEventListener("click", () => pickLevel(null));
    bindTable(show);
    Plots.redrawOnChange(drawAll);
    showChannels();
    drawAll();
    linkZoom("values", "score");
  }

  start();
})();
