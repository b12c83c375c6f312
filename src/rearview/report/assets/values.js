"use strict";
/* The picked forecast as numbers: a table on the page and a file to keep. */
const Values = (() => {
  const { data } = Choice;

  function columns(models) {
    const part = Choice.series().forecast;
    const stamps = Choice.stamps(part);
    const bounds = (model) => part.models[model].intervals.flatMap(([level, low, high]) =>
      [[`${model}-lo-${level}`, low], [`${model}-hi-${level}`, high]]);
    return {
      stamps: stamps.map(Figures.stampText(data.time, Figures.wholeDays(stamps))),
      named: models.flatMap((model) => [[model, part.models[model].mean], ...bounds(model)]),
    };
  }

  function element(kind, content, scope) {
    const made = document.createElement(kind);
    made.append(...[content].flat());
    if (scope) made.scope = scope;
    return made;
  }

  function fill(table) {
    const { stamps, named } = columns(Choice.models(Choice.series().forecast));
    const format = Figures.aligned(named.flatMap(([, values]) => values));
    const head = [element("th", data.time.name, "col"), ...named.map(([name]) => element("th", name, "col"))];
    const rows = stamps.map((stamp, at) => element("tr",
      [element("th", String(stamp), "row"), ...named.map(([, values]) => element("td", format(values[at])))]));
    table.replaceChildren(
      element("caption", `Forecast of ${Figures.cut(Choice.series().id, 90)}`),
      element("thead", element("tr", head)), element("tbody", rows),
    );
  }

  function csv() {
    const { id, forecast } = Choice.series();
    const { stamps, named } = columns(Choice.forecasters.filter((model) => forecast.models[model]));
    const quoted = (value) => (/[",\r\n]/.test(value) ? `"${String(value).replace(/"/g, '""')}"` : String(value));
    const rows = stamps.map((stamp, at) => [id, stamp, ...named.map(([, values]) => values[at] ?? "")]);
    return [["unique_id", "ds", ...named.map(([name]) => name)], ...rows]
      .map((cells) => `${cells.map(quoted).join(",")}\n`).join("");
  }

  function download() {
    const link = document.createElement("a");
    const slug = Choice.series().id.replace(/[^\p{L}\p{N}_-]+/gu, "-").slice(0, 60);
    link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
    link.download = `forecast-${slug}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  return { download, fill };
})();
