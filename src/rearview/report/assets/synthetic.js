"use strict";
/* The page of a study: lines, bars, points and maps, each figure with a view to choose. */
(() => {
  const figures = JSON.parse(document.getElementById("report-data").textContent);
  const { byId, draw } = Plots;
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "star"];
  const SIGNS = ["●", "■", "◆", "▲", "✚", "✖", "★"];
  const idOf = (row) => `figure-${row + 1}`;
  const chosen = figures.map(() => 0);

  /* A name keeps its colour and dash in all views of a figure; views of other names begin with the first ones again. */
  function placesOf(figure) {
    const places = new Map();
    figure.views.forEach((view) => {
      const names = (view.series || []).map((one) => one.name);
      const taken = new Set(names.map((name) => places.get(name)));
      names.filter((name) => !places.has(name)).forEach((name) => {
        let place = 0;
        while (taken.has(place)) place += 1;
        taken.add(place);
        places.set(name, place);
      });
    });
    return places;
  }

  const places = figures.map(placesOf);

  function look(colours, figure, name) {
    const place = places[figures.indexOf(figure)].get(name);
    const round = Math.floor(place / colours.hues.length);
    return { color: colours.hues[place % colours.hues.length], dash: DASHES[round % DASHES.length] };
  }

  const label = (figure, view) =>
    `${figure.title}${figure.views.length > 1 ? `, ${view.name}` : ""}: ${figure.y} by ${figure.x}.`;

  function yRange(figure, arrays) {
    const values = arrays.flat().filter(Figures.known);
    if (!figure.log) return Figures.range([[0], ...arrays]);
    const positive = values.filter((value) => value > 0);
    return positive.length ? [Math.min(...positive) * 0.8, Math.max(...positive) * 1.25] : [0.1, 1];
  }

  function drawSeries(figure, view, id) {
    const colours = Figures.theme();
    const [bars, points] = [figure.kind === "bars", figure.kind === "points"];
    const traces = view.series.map((one, row) => {
      const style = look(colours, figure, one.name);
      const line = Figures.line(one.x, one.y, style, one.name);
      if (bars) return { ...line, type: "bar", mode: undefined, marker: { color: style.color } };
      const marker = { color: style.color, size: 11, symbol: SYMBOLS[row % SYMBOLS.length] };
      return points ? { ...line, mode: "markers", marker } : line;
    });
    const items = view.series.map((one, row) => {
      const style = look(colours, figure, one.name);
      if (points) return { text: one.name, plain: true, sign: SIGNS[row % SIGNS.length], color: style.color };
      return { text: one.name, ...(bars ? { fill: style.color } : { y: Figures.last(one.y), ...style }) };
    });
    const xs = view.series.flatMap((one) => one.x);
    const [least, most] = [Math.min(...xs), Math.max(...xs)];
    const margin = (bars || points) && xs.length > 1 ? (most - least) * 0.03 : 0;
    const xRange = figure.xLog ? [Math.log10(least) - 0.1, Math.log10(most) + 0.1] : [least - margin, most + margin];
    draw(id, traces, {
      items, yName: figure.log ? `${figure.y}, log scale` : figure.y, yLog: figure.log, integer: true,
      yRange: yRange(figure, view.series.map((one) => one.y)), xTitle: figure.xLog ? `${figure.x}, log scale` : figure.x,
      xRange,
    }, colours, label(figure, view));
    if (figure.xLog) {
      const axis = { "xaxis.type": "log", "xaxis.tickformat": "~g", "xaxis.dtick": null, "xaxis.range": xRange };
      Plotly.relayout(byId(`${id}-plot`), axis);
    } else if (xs.length && most <= 1) {
      Plotly.relayout(byId(`${id}-plot`), { "xaxis.tickformat": ".2~g", "xaxis.dtick": null });
    }
  }

  /* Pixels along a side of a map that one name takes; beside it, those of names of usual length and of the scale. */
  const ROOM_OF_A_NAME = 14;
  const ROOM_OF_NAMES = 80;
  const ROOM_OF_SCALE = 70;

  /* Red is above 0 and blue below, equally strong at equal distance; half a percent of outliers may saturate. */
  function drawMap(figure, view, id) {
    const colours = Figures.theme();
    const sizes = view.map.flat().map(Math.abs).sort((a, b) => a - b);
    const most = sizes[Math.floor(0.995 * (sizes.length - 1))] || 1;
    const steps = view.map[0].map((_, place) => place * figure.every);
    const trace = {
      type: "heatmap", z: view.map, x: steps, y: steps.slice(0, view.map.length), zmin: -most, zmax: most,
      colorscale: [[0, colours.hues[0]], [0.5, colours.paper], [1, colours.hues[1]]],
      colorbar: { thickness: 10, outlinewidth: 0, tickfont: { size: 11 } },
      hovertemplate: "query %{y}, key %{x}: %{z:.4~g}<extra></extra>",
    };
    const half = view.labels ? 0.5 : 0;
    if (view.labels) {
      const names = view.labels.map(Figures.plain);
      const least = Math.min(...sizes);
      if (view.map.flat().every((value) => value >= 0) && least < most) {
        Object.assign(trace, { zmin: least, zmax: most, colorscale: [[0, colours.paper], [1, colours.hues[1]]] });
      }
      trace.customdata = view.map.map((_, query) => names.map((key) => [names[query], key]));
      trace.hovertemplate = "%{customdata[0]} on %{customdata[1]}: %{z:.4~g}<extra></extra>";
    }
    const element = byId(`${id}-plot`);
    const layout = Figures.layout(element, colours, {
      items: [], yName: figure.y, yRange: [steps.at(-1) + half, -half], xTitle: figure.x,
      xRange: [-half, steps.at(-1) + half], integer: true,
    });
    const side = Math.min(element.clientWidth, 520);
    const free = Math.min(element.clientWidth - ROOM_OF_SCALE - ROOM_OF_NAMES, side);
    const named = Boolean(view.labels) && view.labels.length * ROOM_OF_A_NAME <= free;
    const room = named ? ROOM_OF_NAMES : 0;
    element.setAttribute("aria-label", label(figure, view));
    Plotly.react(element, [trace], {
      ...layout, width: Math.min(element.clientWidth, side + ROOM_OF_SCALE + room), height: side + room,
      margin: { ...layout.margin, r: ROOM_OF_SCALE }, hovermode: "closest",
      ...(named ? nameAxes(layout, steps, view.labels.map((name) => Figures.plain(Figures.cut(name, 12)))) : {}),
    }, { displayModeBar: false });
  }

  /* Names in the place of numbers along both sides of a map. */
  function nameAxes(layout, places, names) {
    const ticks = { tickmode: "array", tickvals: places, ticktext: names, dtick: null, automargin: true };
    return { xaxis: { ...layout.xaxis, ...ticks, tickangle: -90 }, yaxis: { ...layout.yaxis, ...ticks } };
  }

  function drawFigure(row) {
    const figure = figures[row];
    const view = figure.views[chosen[row]];
    (figure.kind === "map" ? drawMap : drawSeries)(figure, view, idOf(row));
  }

  const drawAll = () => figures.forEach((_, row) => drawFigure(row));

  figures.forEach((figure, row) => {
    if (figure.views.length < 2) return;
    const select = byId(`${idOf(row)}-choice`);
    select.replaceChildren(...figure.views.map((view, place) => new Option(Figures.cut(view.name, 60), String(place))));
    select.addEventListener("change", (event) => {
      chosen[row] = Number(event.target.value);
      drawFigure(row);
    });
  });
  drawAll();
  Plots.redrawOnChange(drawAll);
})();
