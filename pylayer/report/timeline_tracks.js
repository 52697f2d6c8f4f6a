// The track of frames. Frames longer than `highest` are cut off, so that one pause does not flatten all others.

function frameBars(model, u) {
  const { start, duration, why, pipelines } = model.frames, bars = rectangles(FRAME_COLOURS);
  const { left, top, width, height } = u.bbox, { min, max } = u.scales.x, scale = width / (max - min);
  const base = top + height, tall = height / model.frames.highest, ratio = devicePixelRatio, cell = 2 * ratio;
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
  const { start, duration, slowest, why, pipelines } = model.frames, { ctx } = u, { left, top, width, height } = u.bbox;
  const { min, max } = u.scales.x, scale = width / (max - min), ratio = devicePixelRatio;
  const line = top + height * (1 - model.budget / model.frames.highest);
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
  const taken = [];
  // The longest first, each where no other text is.
  for (const index of slowest) {
    const x = left + (start[index] - min) * scale, text = time(duration[index]), wide = text.length * 7 * ratio;
    if (start[index] > max || start[index] + duration[index] < min) continue;
    const high = Math.min(height, duration[index] / model.frames.highest * height);
    const y = Math.max(top + 11 * ratio, top + height - high - 4 * ratio), inside = top + height - high < y;
    // A bar as high as the chart has its text inside or, if it is narrow, beside it.
    const bar = Math.max(2 * ratio, duration[index] * scale), within = inside && bar > wide + 8 * ratio;
    const at = Math.min(Math.max(x, left), left + width - wide) + (within ? 4 * ratio : inside ? bar + 3 * ratio : 0);
    if (taken.some((one) => Math.abs(one - at) < 90 * ratio)) continue;
    // In the part of the bar that has room for it.
    const rest = why[index] === 2 ? high * (1 - Math.min(1, pipelines[index] / duration[index])) : 0, roomy = rest > 16 * ratio;
    ctx.fillStyle = painted(within ? (roomy ? "on-rest" : "on-c3") : "text");
    const line = within ? top + height - high + (roomy ? 0 : rest) + 12 * ratio : y;
    if (!within) ctx.strokeText(text, at, line);
    ctx.fillText(text, at, line);
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

// Returns the longest frame at a moment, or -1. `near`: how many microseconds away it may be.
function frameAt(model, moment, near) {
  const { start, duration } = model.frames;
  let best = -1;
  for (let index = Math.max(0, above(start, moment - near) - 1); start[index] < moment + near; index++)
    if (start[index] + duration[index] > moment - near && (best < 0 || duration[index] > duration[best])) best = index;
  return best;
}

// The rows of threads.

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

// Draws the names of bars that have room for one, and the marks over those that held up a frame.
function barTexts(model, { texts, marks }, u) {
  const { ctx } = u, { left } = u.bbox, ratio = devicePixelRatio;
  ctx.font = TEXT.replace("11", 11 * ratio);
  const letter = ctx.measureText("m").width, fills = [...COLOURS.map((own) => painted(`on-${own}`)), painted("dim")];
  for (const [event, x, y, wide, own] of texts) {
    const room = Math.floor((wide - 8 * ratio) / letter), name = model.name(event), took = time(model.duration[event]);
    const text = name.length + took.length + 2 <= room ? `${name}  ${took}` : name.length <= room ? name : `${name.slice(0, room - 1)}…`;
    ctx.fillStyle = fills[own];
    ctx.fillText(text, x + 4 * ratio, y + BAR / 2 * ratio);
  }
  ctx.fillStyle = painted("late");
  for (const [x, y] of marks) {
    ctx.beginPath();
    ctx.moveTo(left + x - 4 * ratio, y - 6 * ratio);
    ctx.lineTo(left + x + 4 * ratio, y - 6 * ratio);
    ctx.lineTo(left + x, y - ratio);
    ctx.fill();
  }
}

function rowTitles(titles, u) {
  const { ctx } = u, { left, top } = u.bbox, ratio = devicePixelRatio;
  ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  ctx.strokeStyle = painted("page");
  ctx.lineWidth = 3 * ratio;
  ctx.fillStyle = painted("text");
  titles.forEach((text, row) => {
    const y = top + (row * ROW + 8) * ratio;
    ctx.strokeText(text, left + 4 * ratio, y);
    ctx.fillText(text, left + 4 * ratio, y);
  });
}

// Draws how many pipelines were found in each second, in a row of their own.
function hitBars(model, row, u) {
  const { ctx } = u, { left, top, width } = u.bbox, { min, max } = u.scales.x, scale = width / (max - min), ratio = devicePixelRatio;
  const y = top + (row * ROW + NAME + BAR) * ratio, bars = rectangles(["found"]), named = [];
  for (const [at, took, count] of model.hits) {
    if (at > max || at + took < min) continue;
    const from = left + (at - min) * scale, x = Math.max(from, left), until = Math.min(from + Math.max(2 * ratio, took * scale - ratio), left + width);
    const high = Math.max(2, count / model.mostHits * BAR) * ratio;
    bars.add(0, x, y - high, until - x, high);
    if (until - x > 64 * ratio) named.push([`${number(count)} found`, x + 4 * ratio, high]);
  }
  bars.fill(ctx);
  ctx.font = TEXT.replace("11", 11 * ratio);
  for (const [text, x, high] of named) {
    ctx.fillStyle = painted(high > 14 * ratio ? "on-found" : "text");
    ctx.fillText(text, x, high > 14 * ratio ? y - high / 2 : y - high - 7 * ratio);
  }
}

function selectedBar(model, rows, event, u) {
  const row = event >= 0 ? rows.findIndex((own) => own.events.includes(event)) : -1;
  if (row < 0) return;
  const { left, top, width } = u.bbox, { min, max } = u.scales.x, scale = width / (max - min), ratio = devicePixelRatio;
  const x = left + (model.start[event] - min) * scale, wide = Math.max(3 * ratio, model.duration[event] * scale);
  u.ctx.strokeStyle = painted("link");
  u.ctx.lineWidth = 3 * ratio;
  u.ctx.strokeRect(x - ratio, top + (row * ROW + NAME - 1) * ratio, wide + ratio, (BAR + 2) * ratio);
}

function drawThreads(model, rows, state, u) {
  const { ctx } = u, { left, top, width, height } = u.bbox, titles = rows.map((row) => row.title);
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  lateColumns(model, u);
  barTexts(model, threadBars(model, rows, state.found, u), u);
  if (model.hits.length) {
    titles.push("found in the store, each second");
    hitBars(model, rows.length, u);
  }
  rowTitles(titles, u);
  selectedBar(model, rows, state.selected?.event ?? -1, u);
  ctx.restore();
}

// Returns the event at a moment and a height in the chart, or -1. `near`: how many microseconds away it may be.
function eventAt(model, rows, moment, y, near) {
  const row = rows[Math.floor(y / ROW)];
  let best = -1, distance = near;
  if (!row || y % ROW > NAME + BAR + 2) return best;
  for (let index = above(row.until, moment - near); index < row.events.length; index++) {
    const event = row.events[index], away = Math.max(model.start[event] - moment, moment - model.start[event] - model.duration[event], 0);
    if (model.start[event] > moment + near) break;
    if (away < distance || (away === distance && model.duration[event] > model.duration[best])) { best = event; distance = away; }
  }
  return best;
}
