"use strict";
/* What every page's charts share: a plot with its key, and the curves of training. */
const Plots = (() => {
  const DASH_ARRAYS = { dash: "5 3", dot: "1.5 2.5", dashdot: "5 2 1.5 2", longdash: "8 3" };

  const byId = (id) => document.getElementById(id);
  const count = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;

  /* `parts.shaped`, where given, changes the layout that all figures share. */
  function draw(name, traces, parts, colours, label) {
    const element = byId(`${name}-plot`);
    const config = { displayModeBar: false, doubleClick: "reset" };
    element.setAttribute("aria-label", label);
    byId(`${name}-key`).replaceChildren(...parts.items.map(keyEntry));
    const layout = Figures.layout(element, colours, parts);
    Plotly.react(element, traces, parts.shaped ? parts.shaped(layout) : layout, config);
  }

  /* A line or a filled swatch, unless `plain`; then `sign`, where there is one; then the name. */
  function keyEntry(item) {
    const entry = document.createElement("li");
    const sign = document.createElement("b");
    Object.assign(sign.style, { color: item.color || "" });
    sign.textContent = item.sign || "";
    entry.append(...(item.plain ? [] : [swatchOf(item)]), ...(item.sign ? [sign, " "] : []), Figures.cut(item.text, 40));
    return entry;
  }

  function swatchOf(item) {
    const space = "http://www.w3.org/2000/svg";
    const swatch = document.createElementNS(space, "svg");
    const mark = document.createElementNS(space, item.fill ? "rect" : "line");
    const dashes = DASH_ARRAYS[item.dash] || "none";
    const shape = item.fill
      ? { width: 24, height: 12, fill: item.fill }
      : { x1: 0, x2: 24, y1: 6, y2: 6, stroke: item.color, "stroke-width": 2, "stroke-dasharray": dashes };
    Object.entries(shape).forEach(([name, value]) => mark.setAttribute(name, value));
    swatch.setAttribute("viewBox", "0 0 24 12");
    swatch.append(mark);
    return swatch;
  }

  /* A heading, a sentence and an empty plot of that name. */
  function frame(name, title, sentence, size) {
    const box = document.createElement("div");
    const heading = document.createElement("h3");
    const words = document.createElement("p");
    const key = document.createElement("ul");
    const plot = document.createElement("div");
    heading.textContent = Figures.cut(title, 60);
    words.textContent = sentence;
    Object.assign(key, { id: `${name}-key`, className: "key", hidden: true });
    Object.assign(plot, { id: `${name}-plot`, className: "plot" });
    plot.dataset.size = size;
    plot.setAttribute("role", "img");
    box.append(heading, ...(sentence ? [words] : []), key, plot);
    return box;
  }

  /* Plots one above the other begin at one left edge: Plotly widens each margin for its own numbers. */
  function alignLeft(...names) {
    const plots = names.map((name) => byId(`${name}-plot`));
    const left = Math.max(...plots.map((plot) => plot._fullLayout._size.l));
    plots.filter((plot) => plot._fullLayout._size.l < left).forEach((plot) => Plotly.relayout(plot, { "margin.l": left }));
  }

  /* What is zoomed in one of them is zoomed in all. */
  function linkZoom(...names) {
    const plots = names.map((name) => byId(`${name}-plot`));
    plots.forEach((plot) => plot.on("plotly_relayout", () => {
      const range = [...plot.layout.xaxis.range];
      plots.filter((other) => String(other.layout.xaxis.range) !== String(range))
        .forEach((other) => Plotly.relayout(other, { "xaxis.range": range }));
    }));
  }

  /* Draws again in other colours and at another width. */
  function redrawOnChange(drawAll) {
    let width = window.innerWidth;
    let waiting = 0;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    window.addEventListener("resize", () => {
      /* Phones change the window's height while scrolling; only a new width needs new figures. */
      if (window.innerWidth === width) return;
      width = window.innerWidth;
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(drawAll);
    });
  }

  const wholeRange = (longest) => (longest > 1 ? [1, longest] : [0.5, 1.5]);
  const fromOne = (values) => values.map((_, row) => row + 1);

  /* One model's losses: training dotted, validation solid, a dot where the kept weights are. */
  function lossCurve(model, { train, validation, best }, several, { color }, colours) {
    const held = validation.length ? validation : train;
    const label = (what) => (several ? `${model}, ${what}` : what);
    const lines = [["training", train, { color, dash: "dot", width: 1.25 }], ["validation", validation, { color }]]
      .filter(([, values]) => values.length);
    const traces = lines.map(([what, values, look]) => Figures.line(fromOne(values), values, look, label(what)));
    if (best && Figures.known(held[best - 1])) {
      traces.push({
        x: [best], y: [held[best - 1]], type: "scatter", mode: "markers", hoverinfo: "skip", cliponaxis: false,
        marker: { size: 9, color, line: { color: colours.paper, width: 2 } },
      });
    }
    const items = lines.map(([what, values, look]) => ({ text: label(what), y: Figures.last(values), ...look }));
    return { traces, items, arrays: lines.map(([, values]) => values) };
  }

  /* `style(colours, model)` says how a model looks. */
  function drawTraining(all, style) {
    const models = Object.keys(all);
    const colours = Figures.theme();
    const curves = models.map((model) =>
      lossCurve(model, all[model], models.length > 1, style(colours, model), colours));
    const arrays = curves.flatMap((curve) => curve.arrays);
    if (!arrays.length) return;
    const values = arrays.flat().filter(Figures.known);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const yLog = low > 0 && high > 20 * low;
    draw("training", curves.flatMap((curve) => curve.traces), {
      items: curves.flatMap((curve) => curve.items), yName: yLog ? "loss, log scale" : "loss", yLog, integer: true,
      yRange: yLog ? [low * 0.9, high * 1.1] : Figures.range(arrays), xTitle: "epoch (dot: the weights kept)",
      xRange: wholeRange(Math.max(...arrays.map((each) => each.length))),
    }, colours, `Loss of ${models.join(", ")} by epoch.`);
  }

  return {
    alignLeft, byId, count, draw, drawTraining, frame, fromOne, linkZoom, redrawOnChange, wholeRange,
  };
})();
