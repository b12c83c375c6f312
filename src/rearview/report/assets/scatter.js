"use strict";
/* The few figures of a page without plotly: points and lines of the same traces and layout, as one SVG element. */
const Plotly = (() => {
  const DASHES = { dash: "5 3", dot: "1.5 2.5", dashdot: "5 2 1.5 2" };
  const CORNERS = { square: 4, diamond: 4, "triangle-up": 3, "triangle-down": 3, "triangle-left": 3, "triangle-right": 3,
    pentagon: 5, hexagon: 6, star: 10, cross: 12, x: 12 };
  const TURNS = { square: 45, "triangle-down": 180, "triangle-left": 270, "triangle-right": 90, hexagon: 30, x: 45 };

  function make(name, facts, ...inside) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(facts).forEach(([key, value]) => value !== undefined && element.setAttribute(key, value));
    element.append(...inside);
    return element;
  }

  const text = (words, x, y, anchor, fill) =>
    make("text", { x, y, "text-anchor": anchor, fill, "font-size": 12 }, words);
  const unescaped = (words) => words.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
  const short = (value) => {
    const unit = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([size]) => Math.abs(value) >= size);
    return unit ? `${+(value / unit[0]).toPrecision(3)}${unit[1]}` : `${+value.toPrecision(3)}`;
  };

  /* Round numbers within a range, about as many as wanted. */
  function ticks([low, high], wanted) {
    const rough = (high - low) / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((size) => size * power >= rough) * power;
    const first = Math.ceil(low / step) * step;
    return Array.from({ length: Math.floor((high - first) / step + 1e-9) + 1 }, (_, row) => first + row * step);
  }

  function logTicks([low, high]) {
    const digits = high - low > 2 ? [1] : high - low > 0.9 ? [1, 3] : [1, 1.5, 2, 3, 4, 5, 7];
    const powers = Array.from({ length: Math.ceil(high) - Math.floor(low) + 1 }, (_, row) => Math.floor(low) + row);
    return powers.flatMap((power) => digits.map((digit) => Math.log10(digit) + power))
      .filter((place) => place >= low && place <= high);
  }

  /* A mark of a kind around a point; what is no polygon is a circle. */
  function mark(kind, x, y, size, facts) {
    const base = kind.replace("-open", "");
    const count = CORNERS[base];
    if (!count) return make("circle", { cx: x, cy: y, r: size / 2, ...facts });
    const inner = { star: 0.45, cross: 0.5, x: 0.5 }[base];
    const corners = Array.from({ length: count }, (_, corner) => {
      const near = inner && (base === "star" ? corner % 2 : corner % 3 === 1);
      const angle = ((TURNS[base] || 0) - 90 + (base === "star" ? 36 : 360 / count) * corner) * Math.PI / 180;
      const radius = size * 0.62 * (near ? inner : 1);
      return `${x + radius * Math.cos(angle)},${y + radius * Math.sin(angle)}`;
    });
    return make("polygon", { points: corners.join(" "), ...facts });
  }

  function react(element, traces, layout) {
    const { width, height, xaxis, yaxis, font } = layout;
    const margin = { ...layout.margin, l: 52, r: Math.max(16, layout.margin.r) };
    const log = xaxis.type === "log";
    const scale = (range, from, to) => (value) => from + ((value - range[0]) / (range[1] - range[0])) * (to - from);
    const across = scale(xaxis.range, margin.l, width - margin.r);
    const x = (value) => across(log ? Math.log10(value) : value);
    const y = scale(yaxis.range, height - margin.b, margin.t);
    const parts = ticks(yaxis.range, 5).flatMap((value) => [
      make("line", { x1: margin.l, x2: width - margin.r, y1: y(value), y2: y(value), stroke: yaxis.gridcolor }),
      text(short(value), margin.l - 6, y(value) + 4, "end", font.color),
    ]);
    const places = xaxis.tickvals || (log ? logTicks(xaxis.range) : ticks(xaxis.range, 5));
    places.forEach((place) => parts.push(
      text(short(log ? 10 ** place : place), across(place), height - margin.b + 18, "middle", font.color)));
    parts.push(
      make("line", { x1: margin.l, x2: width - margin.r, y1: height - margin.b, y2: height - margin.b, stroke: xaxis.linecolor }),
      text(unescaped(xaxis.title.text), (margin.l + width - margin.r) / 2, height - 6, "middle", font.color),
      text(layout.annotations.at(-1).text, margin.l, margin.t - 10, "start", font.color),
    );
    traces.forEach((trace) => {
      const points = trace.x.map((value, row) => [x(value), trace.y[row] === null ? null : y(trace.y[row]), row]);
      const seen = points.filter(([, at]) => at !== null);
      if (trace.mode.includes("lines")) {
        const steps = trace.line.shape === "hv"
          ? seen.flatMap(([at, up], row) => (row ? [[at, seen[row - 1][1]], [at, up]] : [[at, up]])) : seen;
        parts.push(make("polyline", {
          points: steps.map(([at, up]) => `${at},${up}`).join(" "), fill: "none", stroke: trace.line.color,
          "stroke-width": trace.line.width, "stroke-dasharray": DASHES[trace.line.dash],
        }));
      }
      if (!trace.mode.includes("markers")) return;
      const { color, symbol = "circle", size, line } = trace.marker;
      seen.forEach(([at, up, row]) => {
        const spread = trace.error_y && trace.error_y.visible ? trace.error_y.array[row] : 0;
        const bar = [y(trace.y[row] - spread), y(trace.y[row] + spread)];
        if (spread) parts.push(make("line", { x1: at, x2: at, y1: bar[0], y2: bar[1], stroke: color }));
        const open = symbol.endsWith("-open");
        const look = { fill: open ? "none" : color, stroke: open ? color : line && line.color, "stroke-width": 1.5 };
        const said = (trace.hovertemplate || trace.name).replace(/<br>/g, "\n").replace(/<extra><\/extra>/, "")
          .replace(/%\{x[^}]*\}/g, short(trace.x[row])).replace(/%\{y[^}]*\}/g, String(+trace.y[row].toPrecision(4)));
        parts.push(mark(symbol, at, up, size, look));
        parts.at(-1).append(make("title", {}, unescaped(said)));
      });
    });
    Object.assign(element, { data: traces, layout });
    element.replaceChildren(make("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, ...parts));
  }

  return { react };
})();
