"use strict";
/* Where a network looks: a small map for each head, the picked one large with its axes, and weight by age. */
const Looks = (() => {
  const LEVELS = 254;
  const SIDE = 480;
  const BAR_ROOM = 64;
  const LABEL_ROOM = 112;
  const LINE_HEIGHT = 17;
  const STAMP_WIDTH = 92;
  const LONGEST_NAME = 20;
  const STAMP = /^(\d{4}-\d\d-\d\d)(?: (\d\d:\d\d.*))?$|^-?\d+$/;
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const { data } = Choice;
  const { views, axes } = data.looks;
  const { byId, draw: plot } = Plots;
  const chosen = { view: 0, map: 0 };

  const view = () => views[chosen.view];
  const picked = () => view().maps[chosen.map];
  const short = (value) => Number(value.toPrecision(2)).toString().replace("-", "−");
  /* From the least weight to the largest; beside that one, less than a thousandth of it is 0. */
  function span(map) {
    const least = Math.max(...map.span.map(Math.abs)) / 1000;
    return map.span.map((value) => short(Math.abs(value) < least ? 0 : value)).join(" to ");
  }
  const capital = (text) => text[0].toUpperCase() + text.slice(1);

  /* The weights, row by row; a cell's byte says how far it is from the lowest number to the highest. */
  function weights({ cells, scale: [low, high] }) {
    return Array.from(atob(cells), (letter) => low + (letter.charCodeAt(0) / LEVELS) * (high - low));
  }

  /* Weights above 0 in one hue, those below in another, 0 in the colour of the page. The ends of the colours leave half
     a percent of outliers beyond them. */
  function colouring({ scale: [low] }, values, colours) {
    const sizes = values.map(Math.abs).sort((a, b) => a - b);
    const most = sizes[Math.ceil(0.995 * (sizes.length - 1))] || sizes.at(-1) || 1;
    const [below, zero, above] = [colours.hues[0], colours.paper, colours.hues[1]];
    const stops = low < 0 ? [[0, below], [0.5, zero], [1, above]] : [[0, zero], [1, above]];
    return { ends: [low < 0 ? -most : 0, most], stops };
  }

  /* ---- the small maps ---- */

  const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

  function between(stops, share) {
    const upper = Math.max(1, stops.findIndex(([at]) => at >= share));
    const [[from, low], [to, high]] = [stops[upper - 1], stops[upper]];
    return low.map((part, place) => part + (high[place] - part) * ((share - from) / (to - from)));
  }

  function paint(canvas, map, colours) {
    const values = weights(map);
    const { ends: [low, high], stops } = colouring(map, values, colours);
    const mixed = stops.map(([at, colour]) => [at, channels(colour)]);
    const share = (value) => Math.min(1, Math.max(0, (value - low) / (high - low)));
    Object.assign(canvas, { width: axes[map.columns].cells.length, height: axes[map.rows].cells.length });
    const image = new ImageData(canvas.width, canvas.height);
    values.forEach((value, cell) => image.data.set([...between(mixed, share(value)), 255], 4 * cell));
    canvas.getContext("2d").putImageData(image, 0, 0);
  }

  function smallMap(map, place) {
    const button = document.createElement("button");
    const canvas = document.createElement("canvas");
    const range = document.createElement("small");
    button.type = "button";
    button.setAttribute("aria-pressed", String(place === chosen.map));
    range.textContent = span(map);
    button.append(canvas, capital(map.name), range);
    button.addEventListener("click", () => pick(place));
    paint(canvas, map, Figures.theme());
    return button;
  }

  /* ---- the picked map ---- */

  /* As many names as fit, evenly spaced; where columns have several cells each, theirs stand where these begin. */
  function ticks({ cells, runs }, room, width) {
    const all = runs.length ? runs : cells.map((name, place) => [place, name]);
    const every = Math.ceil((all.length - 1) / Math.max(1, Math.floor(room / width) - 1)) || 1;
    const kept = all.filter((_, row) => row % every === 0);
    return {
      tickmode: "array", tickangle: 0, tickvals: kept.map(([place]) => place),
      ticktext: kept.map(([, name]) => Figures.plain(Figures.cut(name, LONGEST_NAME))),
    };
  }

  /* Below the map stamps stand upright, the time under the date; names, which may be long, lean. */
  function ticksBelow(axis, room) {
    if (!axis.cells.every((name) => STAMP.test(name))) return { ...ticks(axis, room, LINE_HEIGHT), tickangle: -45 };
    const found = ticks(axis, room, STAMP_WIDTH);
    return { ...found, ticktext: found.ticktext.map((text) => text.replace(" ", "<br>")) };
  }

  function drawMap() {
    const map = picked();
    const colours = Figures.theme();
    const element = byId("look-plot");
    const side = Math.min(element.clientWidth, SIDE + BAR_ROOM);
    const room = side - LABEL_ROOM - BAR_ROOM;
    const [rows, columns] = [axes[map.rows], axes[map.columns]];
    const values = weights(map);
    const { ends: [zmin, zmax], stops } = colouring(map, values, colours);
    const width = columns.cells.length;
    const hover = (row) => columns.cells.map((column) => Figures.plain(Figures.cut(`${row} → ${column}`, 80)));
    const layout = Figures.layout(element, colours, {
      items: [], yName: "query: who looks", xTitle: "key: what is looked at", integer: true,
      yRange: [rows.cells.length - 0.5, -0.5], xRange: [-0.5, width - 0.5],
    });
    const trace = {
      type: "heatmap", z: rows.cells.map((_, row) => values.slice(row * width, (row + 1) * width)),
      zmin, zmax, colorscale: stops,
      colorbar: { thickness: 10, outlinewidth: 0, tickfont: { size: 11 }, nticks: 6 },
      text: rows.cells.map(hover), hovertemplate: "%{text}<br>%{z:.3~g}<extra></extra>",
    };
    const axis = { fixedrange: true, showgrid: false, dtick: null, tickformat: "" };
    element.setAttribute("aria-label", `Attention weights, ${view().name}, ${map.name}: ${span(map)}.`);
    byId("look-title").textContent = `${capital(map.name)}: weights from ${span(map)}`;
    Plotly.react(element, [trace], {
      ...layout, width: side, height: side - BAR_ROOM, margin: { ...layout.margin, r: BAR_ROOM },
      hovermode: "closest", dragmode: false,
      xaxis: { ...layout.xaxis, ...axis, ...ticksBelow(columns, room), automargin: true },
      yaxis: { ...layout.yaxis, ...axis, ...ticks(rows, room, LINE_HEIGHT) },
    }, { displayModeBar: false });
  }

  /* ---- weight by age ---- */

  function drawAges() {
    const { ages } = view();
    byId("ages").hidden = !ages.length;
    if (!ages.length) return;
    const colours = Figures.theme();
    const look = (place) => ({
      color: colours.hues[place % colours.hues.length],
      dash: DASHES[Math.floor(place / colours.hues.length) % DASHES.length],
    });
    const xs = ages.flatMap((curve) => curve.x);
    const values = ages.map((curve) => curve.y);
    plot("ages", ages.map((curve, place) => Figures.line(curve.x, curve.y, look(place), curve.name)), {
      items: ages.map((curve, place) => ({ text: curve.name, y: Figures.last(curve.y), ...look(place) })),
      yName: "mean weight", yRange: Figures.range([[0], ...values]), integer: true,
      xTitle: `steps back from query to key (a step ${data.time.step})`, xRange: [Math.min(...xs), Math.max(...xs)],
      shapes: Math.min(...xs) < 0 ? [Figures.rule(0, colours)] : [],
    }, colours, `Mean attention weight by age, ${view().name}.`);
  }

  /* ---- the section ---- */

  function pick(place) {
    chosen.map = place;
    [...byId("look-maps").children].forEach((button, row) =>
      button.setAttribute("aria-pressed", String(row === place)));
    drawMap();
  }

  function draw() {
    if (!views.length) return;
    const name = document.createElement("b");
    name.textContent = Figures.cut(view().name, 90);
    const told = "in the last window before the forecast: a row is a token that looks, a column one that is looked at. "
      + "Each map has colours of its own, which half a percent of its cells may exceed; its numbers stand below it.";
    byId("look-subject").replaceChildren(name, ` ${told} ${view().about}`);
    byId("look-maps").replaceChildren(...view().maps.map(smallMap));
    drawMap();
    drawAges();
  }

  function bind() {
    byId("look-field").hidden = views.length < 2;
    byId("look").replaceChildren(...views.map((one, place) => new Option(Figures.cut(one.name, 60), String(place))));
    byId("look").addEventListener("change", (event) => {
      Object.assign(chosen, { view: Number(event.target.value), map: 0 });
      draw();
    });
  }

  return { bind, draw };
})();
