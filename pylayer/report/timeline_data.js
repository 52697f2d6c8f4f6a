// A run's events and frames, from what page.py wrote. Times are microseconds from the run's beginning.

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

const number = (value) => value.toLocaleString("en-US");
const time = (us) => {
  const ms = us / 1000;
  return Math.abs(ms) < 1 ? `${+ms.toFixed(3)} ms` : Math.abs(ms) < 1000 ? `${+ms.toPrecision(3)} ms` : `${+(ms / 1000).toFixed(3)} s`;
};
const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

function summed(deltas) {
  const values = new Float64Array(deltas.length);
  let sum = 0;
  deltas.forEach((delta, index) => { values[index] = sum += delta; });
  return values;
}

// The index of the first of sorted values that is larger; of numbers that only grow.
function above(values, limit) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit) high = middle; else low = middle + 1;
  }
  return low;
}

function framesOf(frames, budget) {
  if (!frames) return null;
  const start = summed(frames.start_us), duration = Float64Array.from(frames.duration_us), count = start.length;
  const pipelines = new Float64Array(count), late = new Int32Array(frames.late.length);
  // 0: in time; 1: late for another reason; 2: late because of pipelines.
  const why = new Uint8Array(count);
  frames.late.forEach(([index, own, because], at) => {
    late[at] = index;
    pipelines[index] = own;
    why[index] = because ? 2 : 1;
  });
  const numbers = summed(frames.number), { swapchain } = frames, several = swapchain.some((own) => own !== swapchain[0]);
  const name = (index) => `Frame ${number(numbers[index])}${several ? ` of swapchain ${swapchain[index]}` : ""}`;
  const slowest = Int32Array.from(late).sort((one, other) => duration[other] - duration[one]);
  const highest = budget * Math.max(2, Math.min(4, (late.length ? duration[slowest[0]] : 0) / budget * 1.15));
  return { start, duration, pipelines, late, slowest, highest, why, name, count };
}

// A row's events in the order of their start. `until` is the latest end so far, so that a binary search finds what began
// before a moment and goes on.
function rowsOf(run, start, duration) {
  const members = run.threads.map(() => []);
  run.events.forEach(({ row }, event) => members[row].push(event));
  return run.threads.map((thread, row) => {
    const events = Int32Array.from(members[row]), until = new Float64Array(events.length);
    let latest = 0;
    events.forEach((event, index) => { until[index] = latest = Math.max(latest, start[event] + duration[event]); });
    const known = thread.name && thread.id ? `${thread.name} (${thread.id})` : thread.name;
    const name = known || (thread.id ? `thread ${thread.id}` : "unknown thread");
    return { events, until, name, title: thread.presents ? `${name} · presents frames` : name };
  });
}

function modelOf(run) {
  const { events } = run, budget = run.budget_us;
  const start = Float64Array.from(events, (own) => own.at_ns / 1000), duration = Float64Array.from(events, (own) => own.duration_ns / 1000);
  // One of four colours by the duration. What was found within a frame, and what only waited, have their own.
  const limits = [budget / 4, budget, budget * 4];
  const colour = Uint8Array.from(events, (own, event) => {
    const cost = limits.filter((limit) => duration[event] > limit).length;
    return own.sort === "wait" ? 5 : own.sort === "found" && cost < 2 ? 4 : cost;
  });
  const held = new Map();
  events.forEach(({ frame }, event) => { if (frame >= 0) held.set(frame, [...(held.get(frame) ?? []), event]); });
  return {
    run, start, duration, colour, held, limits, length: run.length_us, budget,
    frame: Int32Array.from(events, (own) => own.frame), name: (event) => events[event].name || events[event].kind,
    rows: rowsOf(run, start, duration), frames: framesOf(run.frames, budget), count: start.length,
    hits: run.hits, mostHits: run.hits.reduce((most, own) => Math.max(most, own[2]), 1),
  };
}
