// Draws a timeline with two uPlot charts: frames above, threads below. uPlot has the canvas, the scales, the axes and the
// cursor; the bars between them are drawn here, at most one for each column of pixels.

const GUTTER = 46, EDGE = 24, FRAMES = 150, AXIS = 26, NAME = 22, BAR = 20, ROW = 47, TEXT = "11px ui-monospace, monospace";
const COLOURS = ["c0", "c1", "c2", "c3", "found", "wait"], FRAME_COLOURS = ["frame", "late-other", "late-rest", "late"];

// Colours are CSS variables, whose values depend on light and dark.
const probe = document.body.appendChild(document.createElement("span"));
probe.hidden = true;
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

// ---- Frames --------------------------------------------------------------------------------------

// Longer frames are cut off, so that one pause does not flatten all others.
const highest = (model) => model.frames.highest;

function frameBars(model, u) {
  const { start, duration, why, pipelines } = model.frames, bars = rectangles(FRAME_COLOURS);
  const { left, top, width, height } = u.bbox, { min, max } = u.scales.x, scale = width / (max - min);
  const base = top + height, tall = height / highest(model), ratio = devicePixelRatio, cell = 2 * ratio;
  // The longest and the worst of the frames that begin in one column of pixels, and how much of that was pipelines.
  let column = -Infinity, longest = 0, worst = 0, until = 0, share = 0;
  const flush = () => {
    if (column === -Infinity) return;
    const wide = until - column, own = wide > 4 * ratio ? wide - ratio : wide;
    const high = Math.min(height, Math.max(ratio, longest * tall));
    bars.add(worst, left + column, base - high, own, high);
    if (worst === 2) bars.add(3, left + column, base - high * share, own, high * share);
  };
  for (let index = Math.max(0, above(start, min) - 1); index < start.length && start[index] < max; index++) {
    const from = Math.max(-ratio, (start[index] - min) * scale), to = Math.min(width + ratio, from + duration[index] * scale);
    const whole = to - from >= cell, own = whole ? from : Math.floor(from / cell) * cell;
    if (own > column) {
      flush();
      column = own;
      longest = worst = until = share = 0;
    }
    longest = Math.max(longest, duration[index]);
    worst = Math.max(worst, why[index]);
    if (why[index] === 2) share = Math.max(share, Math.min(1, pipelines[index] / duration[index]));
    until = Math.max(until, whole ? to : column + cell);
  }
  flush();
  bars.fill(u.ctx);
}

// How long late frames took, above their bars, where there is room; and the length of a frame as a line.
function frameTexts(model, selected, u) {
  const { start, duration, slowest } = model.frames, { ctx } = u, { left, top, width, height } = u.bbox;
  const { min, max } = u.scales.x, scale = width / (max - min), ratio = devicePixelRatio;
  const line = top + height * (1 - model.budget / highest(model));
  ctx.save();
  ctx.strokeStyle = painted("dim");
  ctx.lineWidth = ratio;
  ctx.setLineDash([4 * ratio, 3 * ratio]);
  ctx.strokeRect(left, line, width, 0);
  ctx.setLineDash([]);
  ctx.font = TEXT.replace("11", 11 * ratio);
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.strokeStyle = painted("page");
  ctx.lineWidth = 3 * ratio;
  ctx.fillStyle = painted("text");
  const taken = [];
  // The longest first, each where no other text is.
  for (const index of slowest) {
    const x = left + (start[index] - min) * scale, text = time(duration[index]), wide = text.length * 7 * ratio;
    if (start[index] > max || start[index] + duration[index] < min) continue;
    const high = Math.min(height, duration[index] / highest(model) * height);
    const y = Math.max(top + 11 * ratio, top + height - high - 4 * ratio), inside = top + height - high < y;
    // A bar as high as the chart has its text beside it.
    const at = Math.min(Math.max(x, left), left + width - wide) + (inside ? Math.max(2 * ratio, duration[index] * scale) + 3 * ratio : 0);
    if (taken.some((one) => Math.abs(one - at) < 90 * ratio)) continue;
    ctx.strokeText(text, at, y);
    ctx.fillText(text, at, y);
    if (taken.push(at) > 15) break;
  }
  if (selected?.frame >= 0) {
    const x = left + (start[selected.frame] - min) * scale;
    ctx.strokeStyle = painted("link");
    ctx.lineWidth = 2 * ratio;
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    ctx.strokeRect(x, top + ratio, Math.max(3 * ratio, duration[selected.frame] * scale), height - 2 * ratio);
  }
  ctx.restore();
}

// ---- Threads -------------------------------------------------------------------------------------

// Draws the bars, in a colour of its own what a search did not find; returns those that have room for a name, and marks.
function threadBars(model, rows, found, u) {
  const bars = rectangles([...COLOURS, "faint"]), texts = [], marks = [];
  const { start, duration, colour, frame } = model, { left, top, width } = u.bbox, { min, max } = u.scales.x;
  const scale = width / (max - min), ratio = devicePixelRatio, faint = COLOURS.length, high = BAR * ratio;
  rows.forEach((row, at) => {
    const y = top + (at * ROW + NAME) * ratio;
    let column = -Infinity, worst = -1, mark = -Infinity;
    const flush = () => { if (worst >= 0) bars.add(worst, left + column, y, 2 * ratio, high); worst = -1; };
    for (let index = above(row.until, min); index < row.events.length; index++) {
      const event = row.events[index], from = (start[event] - min) * scale;
      if (start[event] >= max) break;
      const wide = duration[event] * scale, own = found && !found[event] ? faint : colour[event];
      if (from + wide < 0) continue;
      if (frame[event] >= 0 && own !== faint && from - mark > 8 * ratio) marks.push([mark = from, y]);
      if (wide < 2 * ratio) {
        const pixel = Math.floor(from / ratio) * ratio;
        if (pixel >= column + 2 * ratio || worst < 0) { flush(); column = pixel; }
        // Faint ones are the least, and waiting is less than what was compiled.
        const rank = (one) => (one === faint ? -1 : one > 3 ? 0 : one + 1);
        if (worst < 0 || rank(own) > rank(worst)) worst = own;
        continue;
      }
      const x = Math.max(-ratio, from), visible = Math.min(width + ratio, from + wide) - x;
      bars.add(own, left + x, y, visible - (wide > 5 * ratio ? ratio : 0), high);
      if (visible > 34 * ratio) texts.push([event, left + x, y, visible, own]);
    }
    flush();
  });
  bars.fill(u.ctx);
  return { texts, marks };
}

function threadTexts(model, rows, shapes, selected, u) {
  const { ctx } = u, { left, top, width, height } = u.bbox, { min, max } = u.scales.x, ratio = devicePixelRatio;
  const scale = width / (max - min);
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  ctx.font = TEXT.replace("11", 11 * ratio);
  const letter = ctx.measureText("m").width;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  const fills = [...COLOURS.map((own) => painted(`on-${own}`)), painted("dim")];
  for (const [event, x, y, wide, own] of shapes.texts) {
    const room = Math.floor((wide - 8 * ratio) / letter), name = model.name(event), took = time(model.duration[event]);
    const text = name.length + took.length + 2 <= room ? `${name}  ${took}` : name.length <= room ? name : `${name.slice(0, room - 1)}…`;
    ctx.fillStyle = fills[own];
    ctx.fillText(text, x + 4 * ratio, y + BAR / 2 * ratio);
  }
  ctx.fillStyle = painted("late");
  for (const [x, y] of shapes.marks) {
    ctx.beginPath();
    ctx.moveTo(left + x - 4 * ratio, y - 6 * ratio);
    ctx.lineTo(left + x + 4 * ratio, y - 6 * ratio);
    ctx.lineTo(left + x, y - ratio);
    ctx.fill();
  }
  ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  ctx.strokeStyle = painted("page");
  ctx.lineWidth = 3 * ratio;
  ctx.fillStyle = painted("text");
  const title = (text, at) => {
    const y = top + (at * ROW + 8) * ratio;
    ctx.strokeText(text, left + 4 * ratio, y);
    ctx.fillText(text, left + 4 * ratio, y);
  };
  rows.forEach((row, at) => title(row.title, at));
  if (model.hits.length) {
    title("found in the store, each second", rows.length);
    const most = Math.max(...model.hits.map((own) => own[2])), y = top + (rows.length * ROW + NAME + BAR) * ratio;
    const bars = rectangles(["found"]), named = [];
    for (const [at, took, count] of model.hits) {
      const x = left + (at - min) * scale, wide = Math.max(2 * ratio, took * scale - ratio), high = Math.max(2, count / most * BAR) * ratio;
      if (at > max || at + took < min) continue;
      const shown = Math.max(x, left);
      bars.add(0, shown, y - high, Math.min(x + wide, left + width) - shown, high);
      if (x + wide - shown > 64 * ratio) named.push([`${number(count)} found`, shown + 4 * ratio, high]);
    }
    bars.fill(ctx);
    ctx.font = TEXT.replace("11", 11 * ratio);
    for (const [text, x, high] of named) {
      ctx.fillStyle = painted(high > 14 * ratio ? "on-found" : "text");
      ctx.fillText(text, x, high > 14 * ratio ? y - high / 2 : y - high - 7 * ratio);
    }
  }
  const at = selected?.event >= 0 ? rows.findIndex((row) => row.events.includes(selected.event)) : -1;
  if (at >= 0) {
    const x = left + (model.start[selected.event] - min) * scale, wide = Math.max(3 * ratio, model.duration[selected.event] * scale);
    ctx.strokeStyle = painted("link");
    ctx.lineWidth = 3 * ratio;
    ctx.strokeRect(x - ratio, top + (at * ROW + NAME - 1) * ratio, wide + ratio, (BAR + 2) * ratio);
  }
  ctx.restore();
}

// Columns behind the threads: frames that came late because of pipelines.
function lateColumns(model, u) {
  if (!model.frames) return;
  const { start, duration, why, late } = model.frames, { left, top, width, height } = u.bbox, { min, max } = u.scales.x;
  const scale = width / (max - min);
  u.ctx.fillStyle = painted("late-column");
  for (const index of late) {
    const from = Math.max(0, (start[index] - min) * scale), to = Math.min(width, (start[index] + duration[index] - min) * scale);
    if (why[index] === 2 && to - from > 2) u.ctx.fillRect(left + from, top, to - from, height);
  }
}

// The whole run at a glance: when pipelines took time, and which frames came late because of them.
function overview(model, canvas) {
  const ratio = devicePixelRatio, width = canvas.width = canvas.clientWidth * ratio, height = canvas.height = canvas.clientHeight * ratio;
  const context = canvas.getContext("2d"), scale = width / model.length, spent = new Float64Array(Math.ceil(width) + 1);
  model.start.forEach((at, event) => { spent[Math.floor(at * scale)] += model.duration[event]; });
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

// Returns the charts in `place`. `state` has the selection, what a search found, and how many rows are shown.
function charts(place, model, key, state) {
  const made = [], padding = [0, EDGE, 0, 0], shown = () => model.rows.slice(0, state.rows);
  if (model.frames) {
    const ms = axis({ size: GUTTER, splits: () => [0, 1, 2, 3].map((own) => own * model.budget).filter((own) => own < highest(model) * 0.95), grid: { show: false },
      values: (u, splits) => splits.map((us) => (us ? `${Math.round(us / 1000)} ms` : "")), gap: 2 });
    const draw = (u) => { frameBars(model, u); frameTexts(model, state.selected, u); };
    made.push(chart(place, model, key, FRAMES, [timeAxis(), ms], padding, draw, highest(model)));
  }
  const head = model.frames ? 4 : AXIS, high = () => head + ROW * (shown().length + (model.hits.length ? 1 : 0));
  const draw = (u) => {
    lateColumns(model, u);
    threadTexts(model, shown(), threadBars(model, shown(), state.found, u), state.selected, u);
  };
  const top = model.frames ? axis({ scale: "x", side: 0, size: head, values: () => [], ticks: { show: false }, space: 96 }) : timeAxis();
  made.push(chart(place, model, key, high(), [top, { show: false }], [0, EDGE, 0, GUTTER], draw, 1));
  const threads = made.at(-1);
  return {
    wide: () => threads.over.clientWidth,
    left: () => threads.over.getBoundingClientRect().left,
    show: (from, to) => made.forEach((u) => u.setScale("x", { min: from, max: to })),
    redraw: () => made.forEach((u) => u.redraw(true, false)),
    resize: () => made.forEach((u) => u.setSize({ width: place.clientWidth, height: u === threads ? high() : FRAMES })),
    // Returns what is at a point of the window: an event, a frame, or nothing. Near misses count.
    at(x, y, from, to) {
      const scale = (to - from) / this.wide(), box = threads.over.getBoundingClientRect(), moment = from + (x - box.left) * scale;
      if (x < box.left || x > box.right) return null;
      const near = (begin, took) => Math.max(begin - moment, moment - begin - took, 0);
      if (model.frames && y < box.top) {
        const { start, duration } = model.frames;
        let best = -1;
        for (let index = Math.max(0, above(start, moment - 3 * scale) - 1); start[index] < moment + 3 * scale; index++)
          if (near(start[index], duration[index]) < 3 * scale && (best < 0 || duration[index] > duration[best])) best = index;
        return best < 0 ? null : { frame: best, event: -1 };
      }
      const row = shown()[Math.floor((y - box.top) / ROW)];
      if (!row || (y - box.top) % ROW > NAME + BAR + 2) return null;
      let best = -1, distance = 4 * scale;
      for (let index = above(row.until, moment - 4 * scale); index < row.events.length; index++) {
        const event = row.events[index], own = near(model.start[event], model.duration[event]);
        if (model.start[event] > moment + 4 * scale) break;
        if (own < distance || (own === distance && model.duration[event] > model.duration[best])) { best = event; distance = own; }
      }
      return best < 0 ? null : { event: best, frame: -1 };
    },
  };
}
