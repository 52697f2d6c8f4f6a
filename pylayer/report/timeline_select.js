// What is selected in a timeline, and how to get from there to the next.

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
