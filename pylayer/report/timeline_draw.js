// Draws a timeline with two uPlot charts: frames above, threads below. uPlot has the canvas, the scales, the axes and the
// cursor; the bars between them are drawn here, at most one for each column of pixels.

const GUTTER = 46, EDGE = 24, FRAMES = 150, AXIS = 26, NAME = 22, BAR = 20, ROW = 47, TEXT = "11px ui-monospace, monospace";
const COLOURS = ["c0", "c1", "c2", "c3", "found", "wait"], FRAME_COLOURS = ["frame", "late-other", "late-rest", "late"];

// Colours are CSS variables, whose values depend on light and dark.
const probe = document.body.appendChild(document.createElement("span"));
probe.hidden = true;
probe.style.forcedColorAdjust = "none";
const paint = new Map();
function painted(name) {
  if (!paint.has(name)) {
    probe.style.color = `var(--${name})`;
    paint.set(name, getComputedStyle(probe).color);
  }
  return paint.get(name);
}

function seconds(u, splits, axis, space, step) {
  const digits = Math.max(0, 6 - Math.floor(Math.log10(step) + 1e-9));
  return splits.map((us) => (digits > 3 ? `${(us / 1e3).toFixed(digits - 3)} ms` : `${(us / 1e6).toFixed(digits)} s`));
}

const axis = (more) => ({
  stroke: () => painted("dim"), font: "12px system-ui, sans-serif",
  grid: { stroke: () => painted("grid"), width: 1 }, ticks: { stroke: () => painted("grid"), width: 1, size: 4 }, ...more,
});
const timeAxis = () => axis({ scale: "x", side: 0, size: AXIS, space: 96, values: seconds, gap: 2 });

function chart(place, model, key, height, axes, padding, draw, top) {
  return new uPlot({
    width: place.clientWidth, height, padding, axes, hooks: { drawAxes: [draw] }, legend: { show: false },
    scales: { x: { time: false, auto: false, range: (u, min, max) => [min, max] }, y: { auto: false, range: () => [0, top] } },
    series: [{}, { show: false }],
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false }, sync: { key, setSeries: false } },
  }, [[0, model.length], [null, null]], place);
}

// Rectangles by colour, whose edges lie between pixels: filled like that, a thousand take a millisecond. As one shape, or
// with soft edges, they take ten.
function rectangles(colours) {
  const lists = colours.map(() => []);
  return {
    add: (colour, x, y, wide, high) => lists[colour].push(Math.round(x), Math.round(y), Math.max(1, Math.round(wide)), Math.max(1, Math.round(high))),
    fill(ctx) {
      lists.forEach((list, colour) => {
        ctx.fillStyle = painted(colours[colour]);
        for (let at = 0; at < list.length; at += 4) ctx.fillRect(list[at], list[at + 1], list[at + 2], list[at + 3]);
      });
    },
  };
}

// The whole run at a glance: when pipelines took time, and which frames came late because of them.
function overview(model, canvas) {
  const ratio = devicePixelRatio, width = canvas.width = canvas.clientWidth * ratio, height = canvas.height = canvas.clientHeight * ratio;
  const context = canvas.getContext("2d"), scale = width / model.length, spent = new Float64Array(Math.ceil(width) + 1);
  model.start.forEach((at, event) => {
    const from = Math.floor(at * scale), to = Math.floor((at + model.duration[event]) * scale);
    for (let x = from; x <= to; x++) spent[x] += model.duration[event] / (to - from + 1);
  });
  const most = spent.reduce((one, other) => Math.max(one, other), 1);
  context.fillStyle = painted("bar");
  spent.forEach((own, x) => {
    const high = own && Math.max(ratio, Math.sqrt(own / most) * height);
    context.fillRect(x, height - high, ratio, high);
  });
  context.fillStyle = painted("late");
  for (const index of model.frames?.late ?? [])
    if (model.frames.why[index] === 2) context.fillRect(model.frames.start[index] * scale, 0, 2 * ratio, height);
}

function frameChart(place, model, key, state) {
  const ms = axis({ size: GUTTER, gap: 2, grid: { show: false }, values: (u, splits) => splits.map((us) => (us ? `${Math.round(us / 1000)} ms` : "")),
    splits: () => [0, 1, 2, 3].map((own) => own * model.budget).filter((own) => own < model.frames.highest * 0.95) });
  const draw = (u) => { frameBars(model, u); frameTexts(model, state.selected, u); };
  return chart(place, model, key, FRAMES, [timeAxis(), ms], [0, EDGE, 0, 0], draw, model.frames.highest);
}

// Returns the charts in `place`. `state` has the selection, what a search found, and how many rows are shown.
function charts(place, model, key, state) {
  const frames = model.frames && frameChart(place, model, key, state), rows = () => model.rows.slice(0, state.rows);
  const head = frames ? 4 : AXIS, high = () => head + ROW * (rows().length + (model.hits.length ? 1 : 0));
  const top = frames ? axis({ scale: "x", side: 0, size: head, values: () => [], ticks: { show: false }, space: 96 }) : timeAxis();
  const draw = (u) => drawThreads(model, rows(), state, u);
  const threads = chart(place, model, key, high(), [top, { show: false }], [0, EDGE, 0, GUTTER], draw, 1);
  const made = frames ? [frames, threads] : [threads], box = () => threads.over.getBoundingClientRect();
  return {
    wide: () => threads.over.clientWidth,
    left: () => box().left,
    show: (from, to) => made.forEach((u) => u.setScale("x", { min: from, max: to })),
    redraw: () => made.forEach((u) => u.redraw(true, false)),
    resize: () => made.forEach((u) => u.setSize({ width: place.clientWidth, height: u === threads ? high() : FRAMES })),
    // Returns what is at a point of the window: an event, a frame, or nothing. Near misses count.
    at(x, y, from, to) {
      const { left, right, top } = box(), us = (to - from) / (right - left), moment = from + (x - left) * us;
      if (x < left || x > right) return null;
      const frame = frames && y < top ? frameAt(model, moment, 3 * us) : -1, event = y < top ? -1 : eventAt(model, rows(), moment, y - top, 4 * us);
      return frame < 0 && event < 0 ? null : { frame, event };
    },
  };
}
