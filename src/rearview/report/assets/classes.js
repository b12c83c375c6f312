"use strict";
/* The page of a classification: cases by their true class (or the predicted one, where nobody knows it), and the
   curves of training. */
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const { byId, count, draw, fromOne, wholeRange } = Plots;
  const labels = [...new Set(data.examples.map((example) => example.label))];
  const state = { label: labels[0], row: 0 };

  const ofLabel = () => data.examples.filter((example) => example.label === state.label);
  const right = (example) => example.said === example.label;
  const known = data.labelled !== false;
  const percent = (share) => `${(100 * share).toFixed(0)} %`;

  function options(select, entries, chosen) {
    select.replaceChildren(...entries.map(([value, text]) =>
      new Option(Figures.cut(String(text), 60), value, false, value === chosen)));
  }

  function drawExample() {
    const example = ofLabel()[state.row];
    const colours = Figures.theme();
    const many = example.channels.length > colours.hues.length;
    const steps = example.channels[0].map((_, row) => 1 + row * example.every);
    const look = (row) => ({
      color: colours.hues[row % colours.hues.length], width: 1.4,
      dash: row < colours.hues.length ? "solid" : "dot",
    });
    const name = (row) => Figures.cut(example.names[row], 30);
    const traces = example.channels.map((values, row) => Figures.line(steps, values, look(row), name(row)));
    const items = example.channels.map((values, row) => ({ text: name(row), y: Figures.last(values), ...look(row) }));
    draw("examples", traces, {
      items, yName: "value", yRange: Figures.range(example.channels), integer: true,
      xTitle: many ? "step (colours repeat, dotted)" : "step", xRange: wholeRange(steps.at(-1)),
    }, colours, `${example.name} of class ${example.label}, ${count(example.channels.length, "channel")}.`);
    const subject = document.createElement("b");
    subject.textContent = example.name;
    const verdict = known && right(example) ? "classified correctly" : `taken for ${Figures.cut(example.said, 40)}`;
    byId("examples-subject").replaceChildren(subject, ` ${verdict}, held to be ${percent(example.share)} likely.`);
  }

  function showCases() {
    state.row = 0;
    const cases = ofLabel().map((example, row) =>
      [String(row), known ? `${example.name}, ${right(example) ? "right" : `taken for ${example.said}`}` : example.name]);
    options(byId("case"), cases, "0");
    drawExample();
  }

  /* Loss and errors have scales of their own, so each stands in a plot of its own; a dot marks the weights kept. */
  function drawCurves(id, part, yName) {
    const colours = Figures.theme();
    const curves = Object.entries(data.curves).filter(([, curve]) => curve[part].length);
    const look = (row) => ({ color: colours.hues[row % colours.hues.length] });
    const traces = curves.flatMap(([name, curve], row) => {
      const values = curve[part];
      const line = Figures.line(fromOne(values), values, look(row), name);
      if (!curve.best || !Figures.known(values[curve.best - 1])) return [line];
      return [line, {
        x: [curve.best], y: [values[curve.best - 1]], type: "scatter", mode: "markers", hoverinfo: "skip",
        cliponaxis: false, marker: { size: 9, ...look(row), line: { color: colours.paper, width: 2 } },
      }];
    });
    const arrays = curves.map(([, curve]) => curve[part]);
    const items = curves.map(([name], row) => ({ text: name, y: Figures.last(arrays[row]), ...look(row) }));
    const anyDot = curves.some(([, curve]) => curve.best);
    draw(id, traces, {
      items: curves.length > 1 ? items : [], yName, yRange: Figures.range([[0], ...arrays]), integer: true,
      xTitle: anyDot ? "epoch (dot: the weights kept)" : "epoch",
      xRange: wholeRange(Math.max(...arrays.map((values) => values.length))),
    }, colours, `${yName} by epoch.`);
  }

  function drawAll() {
    drawExample();
    const curves = Object.values(data.curves);
    if (!curves.length) return;
    drawCurves("loss", "train", "cross-entropy");
    byId("held").hidden = !curves.some((curve) => curve.validation.length);
    if (!byId("held").hidden) drawCurves("held", "validation", "share misclassified");
  }

  options(byId("label"), labels.map((label) => [label, label]), state.label);
  byId("label").addEventListener("change", (event) => {
    state.label = event.target.value;
    showCases();
  });
  byId("case").addEventListener("change", (event) => {
    state.row = Number(event.target.value);
    drawExample();
  });
  showCases();
  drawAll();
  Plots.redrawOnChange(drawAll);
})();
