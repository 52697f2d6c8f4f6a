// Which part of the run a timeline shows, and what it says of it. `t` is the timeline: timeline.js.

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
