"use strict";
/* Explanations that a pointer shows as a title, shown by a tap or a key as well. */
(() => {
  const bubble = document.createElement("p");
  bubble.className = "tip";
  bubble.setAttribute("role", "status");
  bubble.hidden = true;
  document.body.append(bubble);

  const hide = () => { bubble.hidden = true; };

  function show(element) {
    const box = element.getBoundingClientRect();
    bubble.textContent = element.title;
    bubble.hidden = false;
    const left = Math.min(box.left, document.documentElement.clientWidth - bubble.offsetWidth - 8);
    Object.assign(bubble.style, { left: `${Math.max(8, left) + scrollX}px`, top: `${box.bottom + scrollY + 6}px` });
  }

  /* Names that are cut short have the whole one as their title. */
  const TOLD = "abbr[title], td[title]:not([title='']), th[title], .bars [title], .subject [title]";
  for (const element of document.querySelectorAll(TOLD)) element.tabIndex = 0;
  document.addEventListener("click", (event) => {
    const element = event.target.closest(TOLD);
    const shown = !bubble.hidden && element && bubble.textContent === element.title;
    if (element && element.title && !shown) show(element);
    else hide();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
    if (event.key === "Enter" && event.target.matches(TOLD)) show(event.target);
  });
  window.addEventListener("resize", hide);
})();
