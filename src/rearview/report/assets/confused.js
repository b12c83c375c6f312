"use strict";
/* The cases most often confused: each in a small plot, below what it was taken for. */
(() => {
  const { confused = [] } = JSON.parse(document.getElementById("report-data").textContent);
  const { byId, count, draw, frame, wholeRange } = Plots;
  const percent = (share) => `${(100 * share).toFixed(0)} %`;
  const cases = confused.flatMap((pair) => pair.cases.map((one) => ({ ...one, times: pair.count })));

  function words({ name, label, said, share, truth, times }) {
    const often = `taken for ${Figures.cut(said, 30)} ${times === 1 ? "once" : `${times} times`}`;
    const beside = truth === null ? "" : `, ${Figures.cut(label, 30)} ${percent(truth)}`;
    return [`${Figures.cut(label, 30)} ${often}`, `${name}: ${Figures.cut(said, 30)} ${percent(share)}${beside}.`];
  }

  function drawCase(one, place) {
    const colours = Figures.theme();
    const steps = one.channels[0].map((_, row) => 1 + row * one.every);
    const look = (row) => ({ color: colours.hues[row % colours.hues.length], width: 1.4 });
    const name = (row) => Figures.cut(one.names[row], 30);
    const several = one.channels.length > 1 && one.channels.length <= colours.hues.length;
    const items = one.channels.map((values, row) => ({ text: name(row), y: Figures.last(values), ...look(row) }));
    draw(`confused-${place}`, one.channels.map((values, row) => Figures.line(steps, values, look(row), name(row))), {
      items: several ? items : [], yName: one.channels.length > 1 ? "value" : name(0), yRange: Figures.range(one.channels), integer: true, xTitle: "step",
      xRange: wholeRange(steps.at(-1)),
    }, colours, `${words(one).join(", ")} ${count(one.channels.length, "channel")}.`);
  }

  if (!cases.length) return;
  byId("confused-plots").replaceChildren(
    ...cases.map((one, place) => frame(`confused-${place}`, ...words(one), "medium")));
  byId("confused-plots").querySelectorAll(".key").forEach((key) => { key.hidden = false; });
  const drawAll = () => cases.forEach(drawCase);
  drawAll();
  Plots.redrawOnChange(drawAll);
})();
