"use strict";
/* From the page's data to Plotly figures. Colours, margins, axes and labels are decided here and nowhere else. */
const Figures = (() => {
  const DAY = 86400000;
  const NARROW = 640;
  const LABEL_GAP = 15;
  const LONGEST_LABEL = 26;
  const NOTE_WIDTH = 90;
  const MOST_TICKS = 9;
  const BELOW = 46;
  const TICK_LINE = 16;
  const BAND_SHARE = 0.16;
  const DASHES = ["dash", "dot", "dashdot", "longdash"];
  const FORMAT = new Intl.NumberFormat("en", { maximumSignificantDigits: 6 });

  /* Numbers that stand below one another: equal decimals, about six digits for the largest. */
  function aligned(values) {
    const largest = Math.max(0, ...values.filter(known).map(Math.abs));
    const decimals = largest ? Math.min(8, Math.max(0, 5 - Math.floor(Math.log10(largest)))) : 0;
    const format = new Intl.NumberFormat("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
    return (value) => (known(value) ? format.format(value) : "–");
  }

  const known = (value) => value !== null && value !== undefined;
  const number = (value) => (known(value) ? FORMAT.format(value) : "–");
  /* Plotly reads a little HTML in its texts, so names from the data are escaped for it as well. */
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  const narrow = () => window.innerWidth <= NARROW;

  /* ---- time ---- */

  function expand(axis) {
    return axis.at || Array.from({ length: axis.count }, (_, row) => axis.start + row * axis.step);
  }

  /* A stamp as a person and Plotly read it; whole days go without the time. */
  function stampText(time, days) {
    return (value) => {
      if (time.integer) return value;
      const text = new Date(value).toISOString();
      return days ? text.slice(0, 10) : text.slice(0, value % 60000 ? 19 : 16).replace("T", " ");
    };
  }

  const wholeDays = (stamps) => stamps.every((value) => value % DAY === 0);

  /* ---- colours and lines ---- */

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(`--${name}`).trim();
    return {
      ink: read("ink"), quiet: read("quiet"), grid: read("grid"), rule: read("rule"), paper: read("paper"),
      raised: read("raised"), hues: [1, 2, 3, 4, 5, 6].map((hue) => read(`hue-${hue}`)),
      font: getComputedStyle(document.body).fontFamily,
    };
  }

  /* A model keeps its colour in every figure; baselines are dashed, so that colour alone tells nothing apart. */
  function modelStyle(data, colours, model) {
    const place = data.models.indexOf(model);
    const baseline = data.baselines.indexOf(model);
    const dash = baseline < 0 ? "solid" : DASHES[baseline % DASHES.length];
    return { color: colours.hues[place % colours.hues.length], dash };
  }

  function faded(colour, share) {
    const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    return `rgba(${parts.join(",")},${share})`;
  }

  /* What nested bands look like where `depth` of them lie over one another. */
  const bandColour = (colour, depth) => faded(colour, 1 - (1 - BAND_SHARE) ** depth);

  /* A line that leaves gaps open; a value between two gaps, which a line can't show, becomes a dot. */
  function line(x, y, style, name, hover) {
    const alone = y.map((value, row) => known(value) && !known(y[row - 1]) && !known(y[row + 1]));
    return {
      x, y, name: plain(name), type: "scatter", mode: alone.includes(true) ? "lines+markers" : "lines",
      line: { color: style.color, dash: style.dash || "solid", width: style.width || 1.75 },
      marker: { color: style.color, size: alone.map((yes) => (yes ? 5 : 0)), line: { width: 0 } },
      cliponaxis: false, hovertemplate: `${hover || `${plain(name)}: %{y:.6~g}`}<extra></extra>`,
    };
  }

  /* The area between two bounds, in pieces where a bound is missing; a single step becomes a bar. */
  function band(x, low, high, fill) {
    const area = { x: [], y: [] };
    const bars = { x: [], y: [] };
    for (let from = 0; from < x.length; from += 1) {
      if (!known(low[from]) || !known(high[from])) continue;
      let to = from;
      while (to + 1 < x.length && known(low[to + 1]) && known(high[to + 1])) to += 1;
      if (to === from) {
        bars.x.push(x[from], x[from], null);
        bars.y.push(low[from], high[from], null);
      } else {
        area.x.push(...x.slice(from, to + 1), ...x.slice(from, to + 1).reverse(), null);
        area.y.push(...high.slice(from, to + 1), ...low.slice(from, to + 1).reverse(), null);
      }
      from = to;
    }
    const shared = { type: "scatter", mode: "lines", hoverinfo: "skip", showlegend: false };
    const traces = [];
    if (area.x.length) traces.push({ ...shared, ...area, fill: "toself", fillcolor: fill, line: { width: 0 } });
    if (bars.x.length) traces.push({ ...shared, ...bars, line: { width: 10, color: fill } });
    return traces;
  }

  /* The intervals with a finite bound somewhere; too few residuals make a level unbounded. */
  const bounded = (said) =>
    said.intervals.filter(([, low, high]) => low.some((value, row) => known(value) && known(high[row])));

  /* Mean and intervals of one model, widest interval first; the mean's hover text names the intervals. */
  function prediction(x, said, style, name, withBands) {
    const levels = bounded(said);
    const fill = faded(style.color, BAND_SHARE);
    const bands = (withBands ? [...levels].reverse() : []).flatMap(([, low, high]) => band(x, low, high, fill));
    const mean = line(x, said.mean, style, name, `${plain(name)}: %{y:.6~g}%{customdata}`);
    mean.customdata = said.mean.map((_, row) =>
      levels.map(([level, low, high]) => `<br>${level} %: ${number(low[row])} to ${number(high[row])}`).join(""));
    return { bands, mean };
  }

  /* ---- ranges and labels ---- */

  /* Room above is for notes inside the plot. */
  function range(arrays, above = 0.06) {
    let low = Infinity;
    let high = -Infinity;
    for (const values of arrays) {
      for (const value of values) {
        if (!known(value)) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    if (low > high) return [0, 1];
    const span = high - low || Math.abs(high) || 1;
    return [low - span * 0.06, high + span * above];
  }

  const last = (values) => values.filter(known).at(-1);

  /* Names at the right end of their lines, moved apart where they would touch. */
  function endLabels(items, limits, plotHeight) {
    const scale = plotHeight / (limits[1] - limits[0]);
    const placed = items.filter((item) => known(item.y))
      .map((item) => ({ ...item, want: (item.y - limits[0]) * scale }))
      .sort((a, b) => b.want - a.want);
    placed.forEach((item, row) => {
      item.at = row ? Math.min(item.want, placed[row - 1].at - LABEL_GAP) : item.want;
    });
    for (let row = placed.length - 1, floor = 0; row >= 0; row -= 1, floor += LABEL_GAP) {
      placed[row].at = Math.max(placed[row].at, floor);
    }
    return placed.map((item) => ({
      text: plain(cut(item.text, LONGEST_LABEL)), font: { color: item.color, size: 12 }, showarrow: false,
      x: 1, xref: "paper", xanchor: "left", xshift: 6,
      y: item.y, yref: "y", yanchor: "middle", yshift: item.at - item.want,
    }));
  }

  const pen = document.createElement("canvas").getContext("2d");

  function labelRoom(items, font) {
    pen.font = `12px ${font}`;
    return 14 + Math.max(0, ...items.map((item) => pen.measureText(cut(item.text, LONGEST_LABEL)).width));
  }

  /* A word at the top of the plot beside a vertical rule; left out where its share of the width has no room for it. */
  function note(text, x, place, share) {
    if (share * window.innerWidth < NOTE_WIDTH) return [];
    return [{
      text, x, xanchor: place, xshift: place === "left" ? 5 : -5, y: 1, yref: "paper", yanchor: "top", showarrow: false,
      font: { size: 12 },
    }];
  }

  const rule = (x, colours) => ({
    type: "line", x0: x, x1: x, y0: 0, y1: 1, yref: "paper", line: { color: colours.quiet, width: 1, dash: "dot" },
  });

  /* Few integers are ticked one by one, or Plotly would tick halves and print them as the same whole number twice. */
  function timeTicks(xRange, integer, days) {
    if (!integer) return { hoverformat: days ? "%Y-%m-%d" : "%Y-%m-%d %H:%M" };
    return xRange[1] - xRange[0] < MOST_TICKS ? { tickformat: "d", dtick: 1 } : { tickformat: "d" };
  }

  /* The one layout: `items` are labelled at the right where there is room, and by the key above the plot elsewhere.
     Plots one above the other give `beside`, the items of both, so that their axes end in one line. */
  function layout(element, colours, { items, beside, yName, yRange, yLog, xTitle, xRange, integer, days, shapes, notes }) {
    const small = narrow();
    /* Dates are ticked in two lines. */
    const below = integer ? BELOW : BELOW + TICK_LINE;
    const sizes = { small: 300, medium: 220, strip: 120 };
    const height = (sizes[element.dataset.size] || (small ? 300 : 380)) + below - BELOW;
    const margin = { t: 26, b: below, l: 30, r: small ? 8 : labelRoom(beside || items, colours.font) };
    const limits = yLog ? yRange.map(Math.log10) : yRange;
    const labels = small ? [] : endLabels(items.map((item) => ({ ...item, y: yLog ? Math.log10(item.y) : item.y })),
      limits, height - margin.t - margin.b);
    const axis = { gridcolor: colours.grid, zeroline: false, tickfont: { size: 12 }, ticks: "" };
    const name = {
      text: yName, x: 0, xref: "paper", xanchor: "left", y: 1, yref: "paper", yanchor: "bottom", yshift: 6,
      showarrow: false, font: { size: 12 },
    };
    return {
      width: element.clientWidth, height, margin, showlegend: false, separators: ".,",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: colours.font, size: 12, color: colours.quiet },
      hovermode: "x unified", hoverdistance: 40, dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      hoverlabel: {
        bgcolor: colours.raised, bordercolor: colours.rule, font: { color: colours.ink, size: 12 }, align: "left",
      },
      xaxis: {
        ...axis, type: integer ? "linear" : "date", range: xRange, showgrid: false,
        linecolor: colours.rule, showline: true, nticks: small ? 5 : MOST_TICKS,
        spikecolor: colours.quiet, spikethickness: 1, spikedash: "solid",
        title: { text: plain(xTitle), font: { size: 12 }, standoff: 8 }, ...timeTicks(xRange, integer, days),
      },
      yaxis: {
        ...axis, type: yLog ? "log" : "linear", range: limits, fixedrange: true, nticks: 6, separatethousands: true,
        exponentformat: yLog && yRange[0] < 1e-3 ? "power" : "B", automargin: true,
      },
      shapes: shapes || [], annotations: [...labels, ...(notes || []), name],
    };
  }

  return {
    aligned, bandColour, bounded, cut, expand, faded, known, last, layout, line, modelStyle, note, plain, prediction, range,
    rule, stampText, theme, wholeDays,
  };
})();
