// Tables that can be sorted, and the start of all timelines.

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
document.documentElement.setAttribute("data-js", "");
document.querySelectorAll("table").forEach(sortable);
for (const place of document.querySelectorAll(".timeline")) timeline(place);
