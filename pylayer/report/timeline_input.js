// Keys, buttons, wheel, pointer and fingers of a timeline.

const KEYS = { w: "in", "+": "in", "=": "in", s: "out", "-": "out", a: "earlier", d: "later", 0: "all", Home: "all",
  f: "fit", Enter: "fit", ArrowRight: "next", ArrowLeft: "previous", ArrowDown: "down", ArrowUp: "up",
  n: "late", p: "late-before", "/": "search", "?": "help", Escape: "clear", PageUp: "earlier", PageDown: "later" };

function keys(t) {
  const moves = {
    in: () => t.zoom(0.5), out: () => t.zoom(2), earlier: () => t.pan(-0.5), later: () => t.pan(0.5),
    all: () => t.show(0, t.model.length), fit: () => t.state.selected && t.reveal(t.extent(t.state.selected), true),
    next: () => t.step(1), previous: () => t.step(-1), down: () => t.turn(1), up: () => t.turn(-1),
    late: () => t.late(1), "late-before": () => t.late(-1), found: () => t.found(1), "found-before": () => t.found(-1),
    search: () => t.find("input[type=search]").focus(), help: () => { t.find(".keys").open = !t.find(".keys").open; },
    clear: () => t.select(null),
  };
  t.place.addEventListener("keydown", (event) => {
    const move = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    moves[move]();
  });
  t.place.addEventListener("dblclick", moves.fit);
  for (const button of t.section.querySelectorAll("[data-move]")) button.addEventListener("click", () => moves[button.dataset.move]());
}

function wheel(t) {
  t.place.addEventListener("wheel", (event) => {
    const across = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey, unit = event.deltaMode ? 30 : 1;
    // What cannot be zoomed out any more scrolls the page.
    if (!across && event.deltaY > 0 && t.state.to - t.state.from >= t.model.length) return;
    event.preventDefault();
    const far = Math.max(-200, Math.min(200, event.deltaY * unit)) * (event.ctrlKey ? 0.01 : 0.003);
    if (across) t.pan((event.deltaX || event.deltaY) * unit / t.view.wide());
    else t.zoom(Math.exp(far), t.moment(event.clientX));
  }, { passive: false });
}

// Says what is under the pointer.
function hints(t) {
  const tip = t.find(".tip");
  t.hint = (event) => {
    const own = event && event.pointerType !== "touch" ? t.view.at(event.clientX, event.clientY, t.state.from, t.state.to) : null;
    tip.hidden = !own;
    if (!own) return;
    const [title, detail] = t.said(own), box = t.place.getBoundingClientRect();
    tip.replaceChildren(element("strong", {}, title), element("br"), detail);
    tip.style.top = `${event.clientY - box.top + 18}px`;
    tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left, box.width - tip.offsetWidth))}px`;
  };
  t.place.addEventListener("pointerleave", () => t.hint(null));
}

// One finger or button drags, two fingers zoom and drag. What does not move selects.
function pointer(t) {
  const { place, state, view } = t, fingers = new Map();
  let moved = 0;
  place.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    fingers.set(event.pointerId, event.clientX);
    moved = fingers.size > 1 ? 99 : 0;
  });
  place.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) return t.hint(event);
    const before = [...fingers.values()];
    fingers.set(event.pointerId, event.clientX);
    const now = [...fingers.values()], middle = (own) => own.reduce((sum, x) => sum + x) / own.length;
    moved += Math.abs(now[0] - before[0]);
    if (moved < 4) return;
    t.hint(null);
    place.classList.add("dragged");
    if (!place.hasPointerCapture(event.pointerId)) place.setPointerCapture(event.pointerId);
    const apart = (own) => Math.max(10, Math.abs(own[0] - own[1]));
    if (now.length === 2) t.zoom(apart(before) / apart(now), t.moment(middle(before)));
    t.pan((middle(before) - middle(now)) / view.wide());
  });
  const up = (event) => {
    if (!fingers.delete(event.pointerId)) return;
    place.classList.remove("dragged");
    if (event.type === "pointerup" && moved < 4) t.select(view.at(event.clientX, event.clientY, state.from, state.to), false);
  };
  place.addEventListener("pointerup", up);
  place.addEventListener("pointercancel", up);
  const bar = t.find(".overview");
  const seek = (event) => {
    const box = bar.getBoundingClientRect(), at = (event.clientX - box.left) / box.width * t.model.length, half = (state.to - state.from) / 2;
    t.show(at - half, at + half);
  };
  bar.addEventListener("pointerdown", (event) => { bar.setPointerCapture(event.pointerId); seek(event); });
  bar.addEventListener("pointermove", (event) => event.buttons && seek(event));
}
