// A timeline: its parts are in the files timeline_*.js. This one has its beginning, and its ways from and to the rest of
// the page: links to a view (#t=start,end in seconds), tables, the legend, colours and sizes.

function legend(t) {
  const limits = t.model.limits.map(time), there = new Set(t.model.colour);
  const names = [`under ${limits[0]}`, `to ${limits[1]}`, `to ${limits[2]}`, `over ${limits[2]}`, `found in a cache, to ${limits[1]}`, "waited"];
  const swatch = (colour, text) => element("li", {}, element("span", { className: `swatch ${colour}` }), text);
  t.find(".legend").append(
    ...(t.model.frames ? [element("li", {}, "Frames:"), swatch("late", "late: the part that was pipelines"), swatch("late-rest", "the rest of it"), swatch("late-other", "late for another reason")] : []),
    element("li", {}, "Pipelines:"),
    ...COLOURS.flatMap((colour, at) => (there.has(at) ? [swatch(colour, names[at])] : [])));
}

function links(t) {
  const { model, state } = t, { events } = model.run, id = t.article.id;
  const values = () => new URLSearchParams(location.hash.slice(1)), mine = () => `run-${values().get("run") ?? "1"}` === id;
  t.link = (whole) => {
    const at = (us) => +(us / 1e6).toFixed(6), own = events[state.selected?.event ?? -1]?.fingerprint;
    const run = id === "run-1" ? "" : `&run=${id.slice(4)}`;
    if (!whole) history.replaceState(null, "", `#t=${at(state.from)},${at(state.to)}${run}${own ? `&p=${own}` : ""}`);
    else if (values().has("t") && mine()) history.replaceState(null, "", `#${id}`);
  };
  // Shows what the address says. Returns false if it says nothing of this run.
  t.follow = () => {
    const [from, to] = (values().get("t") ?? "").split(",").map((own) => parseFloat(own) * 1e6), own = values().get("p");
    if (!(to > from) || !mine()) return false;
    t.show(from, to);
    const event = [...model.start.keys()].find((one) => own && events[one].fingerprint === own && model.start[one] + model.duration[one] > from);
    if (event !== undefined) t.select({ event, frame: -1 }, false);
    t.section.scrollIntoView();
    return true;
  };
  addEventListener("hashchange", t.follow);
}

// Times in tables lead to what happened then.
function tables(t) {
  const { model } = t;
  for (const button of t.article.querySelectorAll("[data-show]")) {
    button.addEventListener("click", () => {
      const [at, took] = button.dataset.show.split(" ").map((own) => Number(own) * 1e6);
      const frame = button.dataset.frame === undefined || !model.frames ? -1 : Math.max(0, above(model.frames.start, at + 1) - 1);
      const close = (event) => Math.abs(model.start[event] - at) <= 2 && model.duration[event] <= took + 2;
      const event = frame < 0 ? [...model.start.keys()].find(close) ?? -1 : -1;
      t.place.scrollIntoView({ block: "nearest" });
      if (event >= 0 || frame >= 0) t.select({ event, frame }, false);
      t.reveal([at, took], true);
    });
  }
}

function looks(t) {
  const { place, view, model, state } = t, rest = t.find(".more"), glance = t.find(".overview canvas");
  const recolour = () => { paint.clear(); view.redraw(); overview(model, glance); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  matchMedia("print").addEventListener("change", recolour);
  new ResizeObserver(() => { view.resize(); overview(model, glance); }).observe(place);
  t.more = () => {
    state.rows = model.rows.length;
    rest.hidden = true;
    view.resize();
  };
  rest.hidden = model.rows.length <= state.rows;
  rest.textContent = `Show all ${model.rows.length} threads`;
  rest.addEventListener("click", t.more);
}

async function timeline(place) {
  const section = place.closest("section"), article = place.closest("article");
  const model = modelOf(await unpacked(place.nextElementSibling.textContent));
  // What is shown, in microseconds, and how many threads; what is selected, and what a search found.
  const state = { from: 0, to: model.length, rows: Math.min(model.rows.length, 12), selected: null, found: null };
  const t = { place, section, article, model, state, view: charts(place, model, article.id, state), find: (name) => section.querySelector(name) };
  for (const part of [movable, selectable, searchable, keys, wheel, hints, pointer, legend, links, tables, looks]) part(t);
  t.draw();
  if (!t.follow()) t.say();
  place.dataset.ready = "";
}
