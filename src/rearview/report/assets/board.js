"use strict";
/* The table of all series: sorted by any column, the largest error first, each row leading to its series. */
const Board = (() => {
  const FIRST_ROWS = 50;
  const NAME = 1;
  const percent = (value) => {
    const rounded = Math.round(100 * value) || 0;
    return `${rounded > 0 ? "+" : ""}${rounded} %`.replace("-", "−");
  };
  const share = (value) => `${(100 * value).toFixed(0)} %`;
  const number = (value) => value.toLocaleString("en", { minimumSignificantDigits: 3, maximumSignificantDigits: 4 });
  const { data } = Choice;
  const { byId } = Plots;
  const rows = data.board.rows;
  const columns = [
    ["Series", "", NAME, (value) => value],
    ["MASE", "backtest error over that of a naive forecast in training; above 1 is worse than naive", 6, number],
    ["Forecast", "mean over the steps", 2, number],
    ["Likely from", "mean lower bound of the narrowest interval", 3, number],
    ["to", "mean upper bound of the narrowest interval", 4, number],
    ["Change", data.board.compared ? `against ${data.board.compared}` : "against the period before", 5, percent],
    ["MAE", "mean absolute error in the backtest, in the unit of the series", 7, number],
    ["Against naive", "MAE beside that of the seasonal naive forecast in the same windows", 8, (value) => percent(value - 1)],
    ["Inside", "actual values inside the widest interval", 9, share],
  ].filter(([, , place]) => rows.some((row) => Figures.known(row[place])));
  const state = { by: rows.some((row) => Figures.known(row[6])) ? 6 : NAME, down: true, all: false, find: "" };

  const known = Figures.known;

  function order(one, other) {
    const [a, b] = [one[state.by], other[state.by]];
    if (!known(a) || !known(b)) return known(b) - known(a);
    const sign = state.down ? -1 : 1;
    return sign * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
  }

  function head([name, meaning, place]) {
    const cell = document.createElement("th");
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "sort", textContent: name, title: meaning });
    cell.scope = "col";
    if (place === state.by) cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    button.addEventListener("click", () => {
      state.down = place === state.by ? !state.down : place !== NAME;
      state.by = place;
      fill();
    });
    cell.append(button);
    return cell;
  }

  function line(row, pick) {
    const entry = document.createElement("tr");
    const name = document.createElement("th");
    name.scope = "row";
    if (row[0] < 0) name.textContent = Figures.cut(row[NAME], 60);
    else {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", className: "link", textContent: Figures.cut(row[NAME], 60) });
      button.addEventListener("click", () => pick(row[0]));
      name.append(button);
    }
    entry.append(name, ...columns.slice(1).map(([, , place, write]) => {
      const cell = document.createElement("td");
      cell.textContent = known(row[place]) ? write(row[place]) : "–";
      return cell;
    }));
    return entry;
  }

  let lead = () => {};

  function fill() {
    const wanted = state.find.toLowerCase();
    const sorted = rows.filter((row) => row[NAME].toLowerCase().includes(wanted)).sort(order);
    const shown = state.all ? sorted : sorted.slice(0, FIRST_ROWS);
    const top = document.createElement("thead");
    const body = document.createElement("tbody");
    const heads = document.createElement("tr");
    heads.append(...columns.map(head));
    top.append(heads);
    body.append(...shown.map((row) => line(row, lead)));
    byId("board-table").replaceChildren(top, body);
    byId("board-more").hidden = shown.length === sorted.length;
    byId("board-more").textContent = `Show all ${sorted.length.toLocaleString("en")}`;
  }

  /* `pick(row)` shows a series in the charts. */
  function start(pick) {
    if (byId("board").hidden) return;
    lead = pick;
    byId("board-subject").textContent = state.by === NAME
      ? "Press a name to see the series, a head to sort."
      : "The largest backtest error first (MASE: above 1 is worse than naive). Press a name to see the series, a head to sort.";
    byId("board-more").addEventListener("click", () => { state.all = true; fill(); });
    byId("board-find").addEventListener("input", (event) => { state.find = event.target.value; fill(); });
    fill();
  }

  return { start };
})();
