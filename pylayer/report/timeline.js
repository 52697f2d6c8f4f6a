// Moves through a timeline: pointer, wheel, keys, search, tables, and links to a view (#t=start,end in seconds).

const MIN_SPAN = 20;
const KEYS = { w: "in", "+": "in", "=": "in", s: "out", "-": "out", a: "earlier", d: "later", 0: "all", Home: "all",
  f: "fit", Enter: "fit", ArrowRight: "next", ArrowLeft: "previous", ArrowDown: "down", ArrowUp: "up",
  n: "late", p: "late-before", "/": "search", "?": "help", Escape: "clear", PageUp: "earlier", PageDown: "later" };

async function timeline(place) {
  const section = place.closest("section"), article = place.closest("article"), find = (name) => section.querySelector(name);
  const model = modelOf(await unpacked(place.nextElementSibling.textContent));
  const state = { from: 0, to: model.length, rows: Math.min(model.rows.length, 12), selected: null, found: null };
  const status = find(".shown"), tip = find(".tip"), panel = find(".panel"), thumb = find(".overview span");
  const view = charts(place, model, article.id, state);
  const moves = {};
  let waiting = 0, said = 0;

  // ---- What is shown -----------------------------------------------------------------------------

  function say() {
    const { from, to } = state, whole = to - from >= model.length;
    const shown = whole ? `The whole run: ${time(model.length)}.` : `Shown: ${time(from)} to ${time(to)} of ${time(model.length)}.`;
    status.textContent = `${shown} In it ${inside(from, to)}.`;
    const values = new URLSearchParams(location.hash.slice(1)), mine = values.get("run") ?? "1";
    if (!whole) history.replaceState(null, "", link());
    else if (values.has("t") && `run-${mine}` === article.id) history.replaceState(null, "", "#" + article.id);
  }
  function inside(from, to) {
    let count = 0, spent = 0;
    for (let event = 0; event < model.count && model.start[event] < to; event++) {
      const own = Math.min(to, model.start[event] + model.duration[event]) - Math.max(from, model.start[event]);
      if (own > 0 && model.colour[event] < 5) { count++; spent += own; }
    }
    const pipelines = `${plural(count, "pipeline")}${count ? ` in ${time(spent)}` : ""}`;
    if (!model.frames) return pipelines;
    const late = model.frames.late.reduce((sum, own) => sum + (model.frames.start[own] >= from && model.frames.start[own] < to), 0);
    return `${pipelines}, ${plural(late, "late frame")}`;
  }
  function link() {
    const at = (us) => +(us / 1e6).toFixed(6), run = article.id.slice(4), event = state.selected?.event ?? -1;
    const own = event >= 0 ? model.run.events.pipeline[event] : -1;
    return `#t=${at(state.from)},${at(state.to)}${run === "1" ? "" : `&run=${run}`}${own >= 0 ? `&p=${model.run.pipelines.fingerprint[own]}` : ""}`;
  }
  function draw() {
    waiting = 0;
    view.show(state.from, state.to);
    thumb.style.left = `${100 * state.from / model.length}%`;
    thumb.style.width = `max(3px, ${100 * (state.to - state.from) / model.length}%)`;
  }
  function later() {
    waiting ||= requestAnimationFrame(draw);
    clearTimeout(said);
    said = setTimeout(say, 150);
  }
  function show(from, to) {
    const span = Math.min(model.length, Math.max(to - from, MIN_SPAN));
    // A view that is too short or too long keeps its middle.
    state.from = Math.max(0, Math.min((from + to - span) / 2, model.length - span));
    state.to = state.from + span;
    later();
  }
  function zoom(factor, around = (state.from + state.to) / 2) {
    const span = Math.min(model.length, Math.max(MIN_SPAN, (state.to - state.from) * factor));
    const share = (around - state.from) / (state.to - state.from);
    show(around - share * span, around - share * span + span);
  }
  const pan = (share) => show(state.from + share * (state.to - state.from), state.to + share * (state.to - state.from));
  const moment = (x) => state.from + (x - view.left()) / view.wide() * (state.to - state.from);
  // Moves only if a part of it is not in the view, and closer only where it would be a few pixels.
  function reveal(from, took, fit = false) {
    const span = state.to - state.from, room = Math.max(took / 2, 10_000);
    if (fit || took > span || took / span < 0.01) show(from - room, from + took + room);
    else if (from < state.from || from + took > state.to) show(from + took / 2 - span / 2, from + took / 2 + span / 2);
    else later();
  }

  // ---- What is selected --------------------------------------------------------------------------

  const extent = (own) => (own.event >= 0 ? [model.start[own.event], model.duration[own.event]]
    : [model.frames.start[own.frame], model.frames.duration[own.frame]]);
  function select(own, move = true, fit = false) {
    state.selected = own;
    panel.hidden = !own;
    if (own) {
      const row = own.event >= 0 ? model.run.events.thread[own.event] : -1;
      if (row >= state.rows) more();
      const [title, detail, list] = own.event >= 0 ? eventFacts(model, own.event, select) : frameFacts(model, own.frame, select);
      const close = element("button", { type: "button", className: "close", ariaLabel: "Close" }, "×");
      close.addEventListener("click", () => { select(null); place.focus(); });
      panel.replaceChildren(element("h4", {}, title), close, element("p", { className: "dim" }, detail), list);
      if (move) reveal(...extent(own), fit);
    }
    view.redraw();
    later();
  }
  function step(by) {
    const own = state.selected;
    if (own?.frame >= 0) return select({ frame: Math.min(model.frames.count - 1, Math.max(0, own.frame + by)), event: -1 });
    const row = model.rows[own ? model.run.events.thread[own.event] : 0];
    if (!row) return;
    const events = state.found ? row.events.filter((event) => state.found[event] || event === own?.event) : row.events;
    const at = own ? events.indexOf(own.event) + by : events.findIndex((event) => model.start[event] >= state.from);
    if (events[at] !== undefined) select({ event: events[at], frame: -1 });
  }
  // To the frame above, or to the event of the next thread that is nearest in time.
  function turn(by) {
    const own = state.selected, row = own ? (own.frame >= 0 ? -1 : model.run.events.thread[own.event]) : -1 - (by < 0);
    const at = own ? extent(own)[0] : state.from, to = row + by;
    if (to === -1 && model.frames) return select({ frame: Math.max(0, above(model.frames.start, at) - 1), event: -1 });
    const events = model.rows[to]?.events;
    if (!events) return;
    const far = (event) => Math.abs(model.start[event] - at);
    select({ event: events.reduce((best, event) => (far(event) < far(best) ? event : best)), frame: -1 });
  }
  // The next frame that came late because of pipelines; without frames, the next compile longer than a frame.
  function late(by) {
    const at = state.selected ? extent(state.selected)[0] : by > 0 ? -1 : Infinity, { frames } = model;
    const all = frames ? [...frames.late].filter((own) => frames.why[own] === 2)
      : [...model.start.keys()].filter((event) => model.duration[event] > model.budget);
    const when = frames ? frames.start : model.start;
    const own = by > 0 ? all.find((one) => when[one] > at) : all.findLast((one) => when[one] < at);
    if (own !== undefined) select(frames ? { frame: own, event: -1 } : { event: own, frame: -1 }, true, true);
  }

  // ---- Search ------------------------------------------------------------------------------------

  const search = find("input[type=search]"), result = find(".result");
  let matches = [];
  function look() {
    const word = search.value.trim().toLowerCase(), { events, pipelines, names } = model.run;
    matches = [];
    state.found = null;
    if (word) {
      const has = (text) => text.toLowerCase().includes(word);
      const named = names.map(has), threads = model.rows.map((row) => has(row.name)), kinds = model.run.what.map(([kind]) => has(kind));
      const own = pipelines.fingerprint.map((text, index) => text.startsWith(word) || named[pipelines.name[index]] ||
        pipelines.shaders[index].some((shader) => pipelines.shader[shader][1].startsWith(word)));
      state.found = Uint8Array.from(events.thread, (thread, event) =>
        threads[thread] || kinds[events.what[event]] || named[events.entry[event]] || own[events.pipeline[event]] ? 1 : 0);
      state.found.forEach((is, event) => { if (is) matches.push(event); });
    }
    result.textContent = word ? (matches.length ? `${number(matches.length)} found` : "Nothing found") : "";
    view.redraw();
  }
  function go(by) {
    if (!matches.length) return;
    const now = matches.indexOf(state.selected?.event), at = (now + (now < 0 && by < 0 ? 0 : by) + matches.length) % matches.length;
    select({ event: matches[at], frame: -1 });
    result.textContent = `${number(at + 1)} of ${number(matches.length)}`;
  }
  search.addEventListener("input", look);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); go(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { search.value = ""; look(); place.focus(); }
  });

  // ---- Keys and buttons --------------------------------------------------------------------------

  Object.assign(moves, {
    in: () => zoom(0.5), out: () => zoom(2), earlier: () => pan(-0.5), later: () => pan(0.5), all: () => show(0, model.length),
    fit: () => state.selected && reveal(...extent(state.selected), true), next: () => step(1), previous: () => step(-1),
    down: () => turn(1), up: () => turn(-1), late: () => late(1), "late-before": () => late(-1),
    search: () => search.focus(), help: () => { find(".keys").open = !find(".keys").open; }, clear: () => select(null), found: () => go(1), "found-before": () => go(-1),
  });
  place.addEventListener("keydown", (event) => {
    const move = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    moves[move]();
  });
  for (const button of section.querySelectorAll("[data-move]")) button.addEventListener("click", () => moves[button.dataset.move]());
  const rest = find(".more");
  function more() {
    state.rows = model.rows.length;
    rest.hidden = true;
    view.resize();
  }
  rest.hidden = model.rows.length <= state.rows;
  rest.textContent = `Show all ${model.rows.length} threads`;
  rest.addEventListener("click", more);

  // ---- Pointer -----------------------------------------------------------------------------------

  place.addEventListener("wheel", (event) => {
    const across = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey, unit = event.deltaMode ? 30 : 1;
    // What cannot be zoomed out any more scrolls the page.
    if (!across && event.deltaY > 0 && state.to - state.from >= model.length) return;
    event.preventDefault();
    if (across) pan((event.deltaX || event.deltaY) * unit / view.wide());
    else zoom(Math.exp(Math.max(-200, Math.min(200, event.deltaY * unit)) * (event.ctrlKey ? 0.01 : 0.003)), moment(event.clientX));
  }, { passive: false });

  const fingers = new Map();
  let moved = 0;
  place.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    fingers.set(event.pointerId, event.clientX);
    moved = fingers.size > 1 ? 99 : 0;
  });
  place.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) return hover(event);
    const before = [...fingers.values()];
    fingers.set(event.pointerId, event.clientX);
    const now = [...fingers.values()], span = state.to - state.from;
    moved += Math.abs(now[0] - before[0]);
    if (moved < 4) return;
    tip.hidden = true;
    place.classList.add("dragged");
    if (!place.hasPointerCapture(event.pointerId)) place.setPointerCapture(event.pointerId);
    if (now.length === 2) {
      const apart = (own) => Math.max(10, Math.abs(own[0] - own[1])), middle = (own) => (own[0] + own[1]) / 2;
      const at = moment(middle(before));
      zoom(apart(before) / apart(now), at);
      pan((middle(before) - middle(now)) / view.wide());
    } else show(state.from + (before[0] - now[0]) / view.wide() * span, state.to + (before[0] - now[0]) / view.wide() * span);
  });
  const up = (event) => {
    if (!fingers.delete(event.pointerId)) return;
    place.classList.remove("dragged");
    if (event.type === "pointerup" && moved < 4) select(view.at(event.clientX, event.clientY, state.from, state.to), false);
  };
  place.addEventListener("pointerup", up);
  place.addEventListener("pointercancel", up);
  place.addEventListener("dblclick", () => state.selected && moves.fit());
  place.addEventListener("pointerleave", () => { tip.hidden = true; });
  function hover(event) {
    const own = event.pointerType === "touch" ? null : view.at(event.clientX, event.clientY, state.from, state.to);
    tip.hidden = !own;
    if (!own) return;
    const [title, detail] = own.event >= 0 ? eventFacts(model, own.event, select) : frameFacts(model, own.frame, select);
    tip.replaceChildren(element("strong", {}, title), element("br"), detail);
    const box = place.getBoundingClientRect(), left = event.clientX - box.left;
    tip.style.top = `${event.clientY - box.top + 18}px`;
    tip.style.left = `${Math.max(0, Math.min(left, box.width - tip.offsetWidth))}px`;
  }
  const bar = find(".overview"), glance = bar.querySelector("canvas");
  const seek = (event) => {
    const box = bar.getBoundingClientRect(), at = (event.clientX - box.left) / box.width * model.length, half = (state.to - state.from) / 2;
    show(at - half, at + half);
  };
  bar.addEventListener("pointerdown", (event) => { bar.setPointerCapture(event.pointerId); seek(event); });
  bar.addEventListener("pointermove", (event) => event.buttons && seek(event));

  // ---- From outside ------------------------------------------------------------------------------

  const limits = model.limits.map(time);
  const names = [`under ${limits[0]}`, `to ${limits[1]}`, `to ${limits[2]}`, `over ${limits[2]}`, "found in a cache, slowly", "waited"];
  const there = new Set(model.colour);
  const swatch = (colour, text) => element("li", {}, element("span", { className: `swatch ${colour}` }), text);
  find(".legend").append(
    ...(model.frames ? [element("li", {}, "Frames:"), swatch("late", "late: the part that was pipelines"), swatch("late-other", "late for another reason")] : []),
    element("li", {}, "Pipelines:"),
    ...COLOURS.flatMap((colour, at) => (there.has(at) ? [swatch(colour, names[at])] : [])));

  function follow() {
    const values = new URLSearchParams(location.hash.slice(1)), [from, to] = (values.get("t") ?? "").split(",").map(parseFloat);
    if (!(to > from) || `run-${values.get("run") ?? "1"}` !== article.id) return false;
    show(from * 1e6, to * 1e6);
    const own = model.run.pipelines.fingerprint.indexOf(values.get("p")), { pipeline } = model.run.events;
    const inside = [...model.start.keys()].find((event) => pipeline[event] === own && own >= 0 && model.start[event] + model.duration[event] > from * 1e6);
    if (inside !== undefined) select({ event: inside, frame: -1 }, false);
    section.scrollIntoView();
    return true;
  }
  addEventListener("hashchange", follow);
  for (const button of article.querySelectorAll("[data-show]")) {
    button.addEventListener("click", () => {
      const [at, took] = button.dataset.show.split(" ").map((own) => Number(own) * 1e6);
      const frame = button.dataset.frame === undefined || !model.frames ? -1 : Math.max(0, above(model.frames.start, at + 1) - 1);
      const close = (event) => Math.abs(model.start[event] - at) <= 2 && model.duration[event] <= took + 2;
      const event = frame < 0 ? [...model.start.keys()].find(close) ?? -1 : -1;
      place.scrollIntoView({ block: "nearest" });
      if (event >= 0 || frame >= 0) select({ event, frame }, false);
      reveal(at, took, true);
    });
  }
  const recolour = () => { paint.clear(); view.redraw(); overview(model, glance); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  matchMedia("print").addEventListener("change", recolour);
  new ResizeObserver(() => { view.resize(); overview(model, glance); }).observe(place);
  draw();
  if (!follow()) say();
  place.dataset.ready = "";
}
