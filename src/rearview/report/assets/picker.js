"use strict";
/* A text field that finds one of many names: the combobox pattern, drawn only as far as a person scrolls. */
const Picker = (() => {
  const MOST = 100;
  const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

  /* Calls `picked(row)` when another name is chosen; returns `show(row)`, which sets the field without calling back. */
  function create(input, list, names, picked) {
    const haystack = names.map(folded);
    let chosen = 0;
    let found = [];
    let active = -1;

    function matches(text) {
      const words = folded(text).split(/\s+/).filter(Boolean);
      const rows = [];
      haystack.forEach((name, row) => words.every((word) => name.includes(word)) && rows.push(row));
      return rows;
    }

    function option(row, place) {
      const item = document.createElement("li");
      item.id = `${list.id}-${place}`;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", String(row === chosen));
      item.textContent = names[row];
      item.dataset.row = row;
      return item;
    }

    function remark(text) {
      const item = document.createElement("li");
      item.className = "more";
      item.setAttribute("role", "presentation");
      item.textContent = text;
      return item;
    }

    function open(rows) {
      const from = rows.length > MOST ? Math.max(0, Math.min(rows.indexOf(chosen) - 10, rows.length - MOST)) : 0;
      found = rows.slice(from, from + MOST);
      list.replaceChildren(...found.map(option));
      if (!rows.length) list.append(remark("Nothing has this name."));
      if (found.length < rows.length) list.append(remark(`${rows.length - found.length} more: type to narrow down.`));
      list.hidden = false;
      input.setAttribute("aria-expanded", "true");
      activate(Math.max(0, found.indexOf(chosen)));
    }

    function close() {
      list.hidden = true;
      active = -1;
      input.value = names[chosen];
      input.setAttribute("aria-expanded", "false");
      input.removeAttribute("aria-activedescendant");
    }

    function activate(place) {
      if (list.children[active]) list.children[active].classList.remove("active");
      active = found.length ? (place + found.length) % found.length : -1;
      if (active < 0) return input.removeAttribute("aria-activedescendant");
      const item = list.children[active];
      item.classList.add("active");
      item.scrollIntoView({ block: "nearest" });
      return input.setAttribute("aria-activedescendant", item.id);
    }

    function choose(row) {
      chosen = row;
      close();
      picked(row);
    }

    const keys = {
      ArrowDown: () => (list.hidden ? open(matches("")) : activate(active + 1)),
      ArrowUp: () => (list.hidden ? open(matches("")) : activate(active - 1)),
      Enter: () => !list.hidden && active >= 0 && choose(found[active]),
      Escape: () => close(),
    };

    input.addEventListener("keydown", (event) => {
      if (!keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
    input.addEventListener("input", () => open(matches(input.value)));
    input.addEventListener("focus", () => input.select());
    input.addEventListener("click", () => list.hidden && open(matches("")));
    input.addEventListener("blur", close);
    /* Before the field loses focus, which would close the list under the pointer. */
    list.addEventListener("pointerdown", (event) => event.preventDefault());
    list.addEventListener("click", (event) => {
      const item = event.target.closest("[role=option]");
      if (item) choose(Number(item.dataset.row));
    });

    const show = (row) => { chosen = row; close(); };
    show(0);
    return show;
  }

  return { create };
})();
