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
