// Which part of the run a timeline shows, what is selected in it, and how to get from there to the next. `t` is the
// timeline: timeline.js.

const MIN_SPAN = 20;

// Returns how many pipelines and late frames are in a part of the run, in words.
function inside(model, from, to) {
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

function movable(t) {
  const { model, state, view } = t, status = t.find(".shown"), thumb = t.find(".overview span");
  let waiting = 0, said = 0;
  t.say = () => {
    const { from, to } = state, whole = to - from >= model.length;
    const shown = whole ? `The whole run: ${time(model.length)}.` : `Shown: ${time(from)} to ${time(to)} of ${time(model.length)}.`;
    status.textContent = `${shown} In it ${inside(model, from, to)}.`;
    t.link(whole);
  };
  t.draw = () => {
    waiting = 0;
    view.show(state.from, state.to);
    thumb.style.left = `${100 * state.from / model.length}%`;
    thumb.style.width = `max(3px, ${100 * (state.to - state.from) / model.length}%)`;
  };
  t.later = () => {
    waiting ||= requestAnimationFrame(t.draw);
    clearTimeout(said);
    said = setTimeout(t.say, 150);
  };
  t.show = (from, to) => {
    const span = Math.min(model.length, Math.max(to - from, MIN_SPAN));
    // A view that is too short or too long keeps its middle.
    state.from = Math.max(0, Math.min((from + to - span) / 2, model.length - span));
    state.to = state.from + span;
    t.later();
  };
  t.zoom = (factor, around = (state.from + state.to) / 2) => {
    const span = Math.min(model.length, Math.max(MIN_SPAN, (state.to - state.from) * factor));
    const from = around - (around - state.from) / (state.to - state.from) * span;
    t.show(from, from + span);
  };
  t.pan = (share) => t.show(state.from + share * (state.to - state.from), state.to + share * (state.to - state.from));
  t.moment = (x) => state.from + (x - view.left()) / view.wide() * (state.to - state.from);
  // Moves only if a part of it is not in the view, and closer only where it would be a few pixels.
  t.reveal = ([from, took], fit = false) => {
    const span = state.to - state.from, room = Math.max(took / 2, 10_000);
    if (fit || took > span || took / span < 0.01) t.show(from - room, from + took + room);
    else if (from < state.from || from + took > state.to) t.show(from + took / 2 - span / 2, from + took / 2 + span / 2);
    else t.later();
  };
}

function selectable(t) {
  const { model, state } = t, panel = t.find(".panel");
  t.extent = (own) => (own.event >= 0 ? [model.start[own.event], model.duration[own.event]]
    : [model.frames.start[own.frame], model.frames.duration[own.frame]]);
  t.said = (own) => (own.event >= 0 ? eventFacts(model, own.event, t.select) : frameFacts(model, own.frame, t.select));
  t.select = (own, move = true, fit = false) => {
    state.selected = own;
    panel.hidden = !own;
    if (own) {
      if (own.event >= 0 && model.run.events[own.event].row >= state.rows) t.more();
      const [title, detail, list] = t.said(own);
      const close = element("button", { type: "button", className: "close", ariaLabel: "Close" }, "×");
      close.addEventListener("click", () => { t.select(null); t.place.focus(); });
      panel.replaceChildren(element("h4", {}, title), close, element("p", { className: "dim" }, detail), list);
      if (move) t.reveal(t.extent(own), fit);
    }
    t.view.redraw();
    t.later();
  };
  const event = (own) => own !== undefined && t.select({ event: own, frame: -1 });
  const frame = (own, fit = false) => t.select({ event: -1, frame: own }, true, fit);
  // To the next frame, or to the next event of the thread, or the next that a search found there.
  t.step = (by) => {
    const own = state.selected;
    if (own?.frame >= 0) return frame(Math.min(model.frames.count - 1, Math.max(0, own.frame + by)));
    const events = model.rows[own ? model.run.events[own.event].row : 0]?.events ?? [];
    const listed = state.found ? events.filter((one) => state.found[one] || one === own?.event) : events;
    event(listed[own ? listed.indexOf(own.event) + by : listed.findIndex((one) => model.start[one] >= state.from)]);
  };
  // To the frame above, or to the event of the next thread that is nearest in time.
  t.turn = (by) => {
    const own = state.selected, row = own?.event >= 0 ? model.run.events[own.event].row : own ? -1 : -1 - (by < 0);
    const at = own ? t.extent(own)[0] : state.from, far = (one) => Math.abs(model.start[one] - at);
    if (row + by === -1 && model.frames) frame(Math.max(0, above(model.frames.start, at) - 1));
    else event(model.rows[row + by]?.events.reduce((best, one) => (far(one) < far(best) ? one : best)));
  };
  // To the next frame that came late because of pipelines; without frames, to the next compile longer than a frame.
  t.late = (by) => {
    const { frames } = model, at = state.selected ? t.extent(state.selected)[0] : by > 0 ? -1 : Infinity;
    const all = frames ? [...frames.late].filter((own) => frames.why[own] === 2)
      : [...model.start.keys()].filter((own) => model.duration[own] > model.budget);
    const when = frames ? frames.start : model.start;
    const own = by > 0 ? all.find((one) => when[one] > at) : all.findLast((one) => when[one] < at);
    if (own !== undefined) t.select(frames ? { event: -1, frame: own } : { event: own, frame: -1 }, true, true);
  };
}

// Marks and goes through what has a word in its name, kind, thread, fingerprint or code's hash.
function searchable(t) {
  const { model, state } = t, { events } = model.run;
  const search = t.find("input[type=search]"), result = t.find(".result");
  let matches = [];
  t.search = () => {
    const word = search.value.trim().toLowerCase(), has = (text) => text.toLowerCase().includes(word);
    matches = [];
    state.found = null;
    if (word) {
      const threads = model.rows.map((row) => has(row.name));
      state.found = Uint8Array.from(events, (own) => (threads[own.row] || [own.kind, own.entry_point, own.name].some(has) ||
        [own.fingerprint, ...own.shaders.map(({ hash }) => hash)].some((text) => text.startsWith(word)) ? 1 : 0));
      state.found.forEach((is, event) => { if (is) matches.push(event); });
    }
    result.textContent = word ? (matches.length ? `${number(matches.length)} found` : "Nothing found") : "";
    t.view.redraw();
  };
  t.found = (by) => {
    if (!matches.length) return;
    const now = matches.indexOf(state.selected?.event), at = (now + (now < 0 && by < 0 ? 0 : by) + matches.length) % matches.length;
    t.select({ event: matches[at], frame: -1 });
    result.textContent = `${number(at + 1)} of ${number(matches.length)}`;
  };
  search.addEventListener("input", t.search);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); t.found(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { search.value = ""; t.search(); t.place.focus(); }
  });
}
