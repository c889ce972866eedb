
"use strict";
/* Narrows the page down, sorts the table, and leads the keyboard through the timeline. Without it the page is whole. */
(() => {
  const all = (what, within = document) => [...within.querySelectorAll(what)];
  const form = document.getElementById("filter");
  const find = form.elements.find;
  const boxes = all("[name=show]", form);
  const body = document.querySelector("#tasks tbody");
  const rows = all("tr", body);
  const drawn = all(".bar, .node, .chips a");
  const edges = all(".edge");
  const words = rows.map((row) => row.textContent.toLowerCase());

  const apply = () => {
    const shown = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    const text = find.value.trim().toLowerCase();
    const out = new Set();
    rows.forEach((row, at) => {
      row.hidden = (shown.size > 0 && !shown.has(row.dataset.s)) || !words[at].includes(text);
      if (row.hidden) out.add(row.dataset.t);
    });
    for (const one of drawn) one.classList.toggle("out", out.has(one.dataset.t));
    for (const one of edges) one.classList.toggle("out", out.has(one.dataset.a) || out.has(one.dataset.b));
    document.getElementById("count").textContent = `${rows.length - out.size} of ${rows.length} tasks`;
  };
  /* The address carries what is shown, so that it can be passed on: #show=failed,blocked&find=parser */
  const remember = () => {
    const said = new URLSearchParams();
    const shown = boxes.filter((box) => box.checked).map((box) => box.value);
    if (shown.length) said.set("show", shown.join(","));
    if (find.value.trim()) said.set("find", find.value.trim());
    const hash = said.toString().replaceAll("%2C", ",");
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  };
  const recall = () => {
    const said = new URLSearchParams(location.hash.slice(1));
    if (said.has("show") || said.has("find")) {
      const shown = (said.get("show") || "").split(",");
      for (const box of boxes) box.checked = shown.includes(box.value);
      find.value = said.get("find") || "";
      apply();
      return;
    }
    const row = document.getElementById(location.hash.slice(1));
    if (row && row.hidden) {
      clear();
      row.scrollIntoView();
    }
  };
  const clear = () => {
    for (const box of boxes) box.checked = false;
    find.value = "";
    apply();
  };
  form.addEventListener("input", () => { apply(); remember(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", recall);
  addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLInputElement && event.target.type === "search";
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      find.focus();
    } else if (event.key === "Escape") {
      clear();
      remember();
    }
  });

  /* A column sorts by its numbers where it has any, else by its words; a third time gives the order of the plan back. */
  const heads = all("#tasks th");
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const next = { ascending: "descending", descending: "none" }[head.getAttribute("aria-sort")] || "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      if (next !== "none") head.setAttribute("aria-sort", next);
      const value = (row) => row.cells[column].dataset.v || row.cells[column].textContent;
      const sign = next === "descending" ? -1 : 1;
      const sorted = next === "none" ? rows : [...rows].sort(
        (a, b) => sign * value(a).localeCompare(value(b), "en", { numeric: true }));
      body.append(...sorted);
    });
  });

  /* What the pointer or the keyboard is at is told below the timeline. */
  const told = document.getElementById("told");
  const region = document.querySelector(".chart .scroll");
  if (region) {
    const lanes = all(".lane", region).map((lane) => all("a", lane)).filter((lane) => lane.length);
    const middle = (one) => { const box = one.getBoundingClientRect(); return box.x + box.width / 2; };
    const tell = (event) => {
      const one = event.target.closest("a");
      const title = one && one.querySelector("title");
      if (title) told.textContent = title.textContent.replaceAll("\n", " · ");
    };
    region.addEventListener("focusin", tell);
    region.addEventListener("pointerover", tell);
    region.addEventListener("keydown", (event) => {
      const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
      if (!step || !lanes.length) return;
      const here = document.activeElement;
      const lane = lanes.findIndex((one) => one.includes(here));
      let next;
      if (lane < 0) next = lanes[lanes.length - 1][0];
      else if (step[1]) next = lanes[lane][lanes[lane].indexOf(here) + step[1]];
      else if (lanes[lane + step[0]]) {
        const place = middle(here);
        next = lanes[lane + step[0]].reduce(
          (best, one) => Math.abs(middle(one) - place) < Math.abs(middle(best) - place) ? one : best);
      }
      if (next) {
        event.preventDefault();
        next.focus();
        next.scrollIntoView({ block: "nearest", inline: "nearest" });
      }
    });
  }

  /* On paper nothing can be unfolded. */
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = all("details.print:not([open])");
    for (const one of folded) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of folded) one.open = false; });

  form.hidden = false;
  apply();
  recall();
})();
