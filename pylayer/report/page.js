// Draws the figures, which stand as JSON behind their places, and moves through timelines. What Plotly shows as text was
// escaped where the figures were made (drawing.py).
"use strict";
(() => {
  document.documentElement.setAttribute("data-js", "");

  // Colours are names of CSS variables, whose values depend on light and dark.
  const probe = document.body.appendChild(document.createElement("span"));
  probe.hidden = true;
  function painted(key, value) {
    if (!key.endsWith("color") || !String(value).startsWith("--")) return value;
    probe.style.color = `var(${value})`;
    return getComputedStyle(probe).color;
  }

  // A finger scrolls the page and does not zoom.
  const dragmode = matchMedia("(pointer: coarse)").matches ? false : "zoom";
  const boxes = (place) => place.closest("section").querySelectorAll(".legend input");
  function draw(place) {
    const { data, layout } = JSON.parse(place.nextElementSibling.textContent, painted);
    boxes(place).forEach((box, trace) => { data[trace].visible = box.checked; });
    if (place.layout) layout.xaxis.range = place.layout.xaxis.range;
    Plotly.react(place, data, { ...layout, dragmode }, { displayModeBar: false, doubleClick: "reset", responsive: true });
  }
  function redraw() {
    document.querySelectorAll(".chart").forEach(draw);
  }
  redraw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  matchMedia("print").addEventListener("change", redraw);

  // ---- Timelines ---------------------------------------------------------------------------------

  const time = (s) => (s < 1 ? `${+(s * 1000).toPrecision(3)} ms` : `${+s.toPrecision(4)} s`);

  function zoom(place, from, to) {
    const length = Number(place.dataset.length);
    const span = Math.min(length, Math.max(to - from, 0.00005));
    const begin = Math.max(0, Math.min(from, length - span));
    Plotly.relayout(place, { "xaxis.range": [begin, begin + span] });
  }

  const moves = { earlier: [-0.5, -0.5], later: [0.5, 0.5], in: [0.25, -0.25], out: [-0.5, 0.5], all: [-Infinity, Infinity] };
  for (const place of document.querySelectorAll(".chart.timeline")) {
    const section = place.closest("section"), status = section.querySelector(".shown");
    const length = Number(place.dataset.length);
    const say = () => {
      const [from, to] = place.layout.xaxis.range;
      const whole = from <= 0 && to >= length;
      status.textContent = whole ? `The whole run: ${time(length)}.` : `Shown: ${time(from)} to ${time(to)} of ${time(length)}.`;
    };
    place.on("plotly_relayout", say);
    say();
    boxes(place).forEach((box, trace) => {
      box.addEventListener("change", () => Plotly.restyle(place, { visible: box.checked }, [trace]));
    });
    for (const button of section.querySelectorAll("[data-move]")) {
      button.addEventListener("click", () => {
        const [from, to] = place.layout.xaxis.range, [left, right] = moves[button.dataset.move];
        zoom(place, Math.max(from + left * (to - from), -length), Math.min(to + right * (to - from), 2 * length));
      });
    }
  }
  for (const button of document.querySelectorAll("[data-show]")) {
    button.addEventListener("click", () => {
      const place = button.closest("article").querySelector(".chart.timeline");
      if (!place) return;
      const [at, took] = button.dataset.show.split(" ").map(Number);
      const room = Math.max(took / 2, 0.01);
      place.scrollIntoView({ block: "nearest" });
      zoom(place, at - room, at + took + room);
    });
  }

  // ---- Tables ------------------------------------------------------------------------------------

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    if (body.rows.length < 2) return;
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const first = head.classList.contains("number") ? "descending" : "ascending";
        const order = head.ariaSort === first ? (first === "ascending" ? "descending" : "ascending") : first;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        const key = (row) => row.cells[column].dataset.by ?? row.cells[column].textContent.trim();
        const sign = order === "ascending" ? 1 : -1;
        const numbers = head.classList.contains("number");
        const compare = numbers
          ? (a, b) => (Number(key(a)) || 0) - (Number(key(b)) || 0)
          : (a, b) => key(a).localeCompare(key(b));
        body.append(...[...body.rows].sort((a, b) => sign * compare(a, b)));
      });
    });
  }
  document.querySelectorAll("table[data-sort]").forEach(sortable);
})();
