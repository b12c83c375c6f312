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
  function drawCurve(id, values, yName, best) {
    const colours = Figures.theme();
    const style = { color: colours.hues[0] };
    const traces = [Figures.line(fromOne(values), values, style, yName)];
    if (best && Figures.known(values[best - 1])) {
      traces.push({
        x: [best], y: [values[best - 1]], type: "scatter", mode: "markers", hoverinfo: "skip", cliponaxis: false,
        marker: { size: 9, color: style.color, line: { color: colours.paper, width: 2 } },
      });
    }
    draw(id, traces, {
      items: [], yName, yRange: Figures.range([[0], values]), integer: true, xTitle: "epoch (dot: the weights kept)",
      xRange: wholeRange(values.length),
    }, colours, `${yName} by epoch.`);
  }

  function drawAll() {
    drawExample();
    if (!Object.keys(data.curves).length) return;
    const { train, validation, best } = Object.values(data.curves)[0];
    drawCurve("loss", train, "cross-entropy", best);
    byId("held").hidden = !validation.length;
    if (validation.length) drawCurve("held", validation, "share misclassified", best);
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
