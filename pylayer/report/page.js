// The report's charts, its switches and its tables. No text of a run becomes markup here: it goes through textContent.
"use strict";
(() => {
  const root = document.documentElement;
  root.setAttribute("data-js", "");
  const data = JSON.parse(document.getElementById("data").textContent);

  // ---- Colours -----------------------------------------------------------------------------------

  const choice = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  function colour(name) {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  }
  const redraws = [];
  function repaint() {
    if (choice.value === "auto") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", choice.value);
    redraws.forEach((redraw) => redraw());
  }
  choice.addEventListener("change", () => {
    try { localStorage.setItem("pylayer-report-theme", choice.value); } catch { /* a file may have no storage */ }
    repaint();
  });
  dark.addEventListener("change", repaint);
  try { choice.value = localStorage.getItem("pylayer-report-theme") || "auto"; } catch { /* as above */ }
  if (choice.selectedIndex < 0) choice.value = "auto";
  if (choice.value !== "auto") root.setAttribute("data-theme", choice.value);

  // ---- Text --------------------------------------------------------------------------------------

  function time(ms) {
    const size = Math.abs(ms);
    if (size >= 60000) return `${Math.floor(ms / 60000)} min ${((ms % 60000) / 1000).toFixed(size < 600000 ? 1 : 0)} s`;
    if (size >= 1000) return `${(ms / 1000).toFixed(size < 10000 ? 2 : 1)} s`;
    return `${size >= 100 ? ms.toFixed(0) : size >= 1 || !size ? ms.toFixed(1) : ms.toFixed(3)} ms`;
  }
  // On an axis: as many digits as neighbouring marks need.
  function mark(ms, span) {
    if (!ms) return "0";
    if (span >= 180000) return `${+(ms / 60000).toFixed(2)} min`;
    if (span >= 2000) return `${+(ms / 1000).toFixed(2)} s`;
    return `${+ms.toFixed(span < 2 ? 3 : 1)} ms`;
  }
  function bytes(count) {
    for (const unit of ["B", "KiB", "MiB"]) {
      if (count < 1024) return `${+count.toFixed(count < 100 && unit !== "B" ? 1 : 0)} ${unit}`;
      count /= 1024;
    }
    return `${count.toFixed(1)} GiB`;
  }
  function paragraph(text) {
    const line = document.createElement("p");
    line.textContent = text;
    return line;
  }
  function tip(lines) {
    const box = document.createElement("div");
    box.className = "tip";
    box.append(...lines.map(paragraph));
    return box;
  }

  // ---- What charts share -------------------------------------------------------------------------

  const narrow = () => window.innerWidth < 560;
  function base() {
    const text = colour("text"), line = colour("line"), dim = colour("dim");
    const axis = () => ({
      axisLine: { lineStyle: { color: dim } },
      axisTick: { lineStyle: { color: dim } },
      axisLabel: { color: text, hideOverlap: true },
      splitLine: { lineStyle: { color: line } },
      nameTextStyle: { color: text },
    });
    const tooltip = {
      confine: true, backgroundColor: colour("box"), borderColor: line, textStyle: { color: text },
      extraCssText: "max-width: min(20rem, 90vw); white-space: normal;",
    };
    return { axis, tooltip, text, line, dim };
  }
  function draw(place, option, height) {
    if (height) place.style.height = `${height()}px`;
    const chart = echarts.init(place, null, { renderer: "svg" });
    const redraw = () => {
      if (height) place.style.height = `${height()}px`;
      chart.resize();
      chart.setOption({ animation: false, backgroundColor: "transparent", ...option() }, { replaceMerge: ["series"] });
    };
    redraw();
    redraws.push(redraw);
    let width = place.clientWidth;
    new ResizeObserver(() => {
      if (place.clientWidth !== width) { width = place.clientWidth; redraw(); }
    }).observe(place);
    return chart;
  }

  // ---- Timeline ----------------------------------------------------------------------------------

  function timeline(holder, run) {
    const { events, stalls } = run;
    const length = Math.max(run.length_ms, 0.001);
    const kinds = [...new Set(events.kind)].sort((a, b) => a - b);
    const hidden = new Set();
    const place = holder.querySelector(".chart");
    const status = holder.querySelector(".shown");
    const threads = run.threads;
    const rowHeight = () => Math.max(narrow() ? 30 : 22, Math.min(44, 300 / Math.max(1, threads.length)));
    const height = () => Math.round(threads.length * rowHeight() + 250);

    // Compilations and hits, in intervals over the whole run.
    const bins = Math.max(1, Math.min(240, Math.ceil(length / 5)));
    const width = length / bins;
    const compiling = new Float64Array(bins);
    for (let i = 0; i < events.at.length; i++) {
      if (!data.compiles[events.outcome[i]]) continue;
      let from = events.at[i];
      const end = from + events.ms[i];
      for (let bin = Math.max(0, Math.floor(from / width)); bin < bins && from < end; bin++) {
        const until = Math.min(end, (bin + 1) * width);
        compiling[bin] += Math.max(0, until - from);
        from = until;
      }
    }
    // Hits are counted in intervals of about a second, each kind by itself: a level for each interval.
    const intervals = new Map();
    for (const [at, ms, count] of run.hits) {
      const own = intervals.get(at) ?? [at, at, 0];
      intervals.set(at, [at, Math.min(length, Math.max(own[1], at + ms)), own[2] + count]);
    }
    const hits = [...intervals.values()];

    function describe(i) {
      const lines = [
        `${data.kinds[events.kind[i]]}: ${time(events.ms[i])}`,
        `at ${time(events.at[i])}, ${threads[events.thread[i]]}`,
        data.outcomes[events.outcome[i]],
      ];
      if (events.count[i] > 1) lines.push(`${events.count[i]} pipelines in one call`);
      if (events.fingerprint[i]) lines.push(`fingerprint ${events.fingerprint[i]}`);
      const stages = data.stages[events.stages[i]];
      if (stages) lines.push(stages);
      const entry = run.texts[events.text[i]];
      if (entry) lines.push(`entry point ${entry}`);
      return lines;
    }

    // Of bars that would fall on the same pixel of the same row only one is drawn.
    function bar(color) {
      let last = new Map();
      return (params, api) => {
        if (params.dataIndexInside === 0) last = new Map();
        const row = api.value(0);
        const [left, middle] = api.coord([api.value(1), row]);
        const right = api.coord([api.value(2), row])[0];
        const area = params.coordSys;
        const from = Math.max(left, area.x), to = Math.min(Math.max(right, left + 1), area.x + area.width);
        if (to <= from || (right - left < 1 && Math.floor(left) === last.get(row))) return undefined;
        last.set(row, Math.floor(left));
        const tall = Math.min(20, api.size([0, 1])[1] * 0.55);
        return {
          type: "rect",
          shape: { x: from, y: middle - tall / 2, width: Math.max(1, to - from), height: tall },
          style: { fill: color, stroke: color, lineWidth: 0.5 },
        };
      };
    }
    function stallMark(color) {
      let last = new Map();
      return (params, api) => {
        if (params.dataIndexInside === 0) last = new Map();
        const row = api.value(0);
        const [left, middle] = api.coord([api.value(1), row]);
        const right = api.coord([api.value(2), row])[0];
        const area = params.coordSys;
        const from = Math.max(left, area.x), to = Math.min(right, area.x + area.width);
        if (to < from || left > area.x + area.width) return undefined;
        if (right - left < 3 && Math.abs(left - (last.get(row) ?? -9)) < 3) return undefined;
        last.set(row, left);
        const tall = Math.min(20, api.size([0, 1])[1] * 0.55), top = middle - tall / 2 - 3;
        const x = Math.min(Math.max((from + to) / 2, area.x + 5), area.x + area.width - 5);
        return {
          type: "group",
          children: [
            { type: "rect", shape: { x: from, y: top, width: Math.max(1, to - from), height: 2 }, style: { fill: color } },
            { type: "polygon", shape: { points: [[x - 5, top - 6], [x + 5, top - 6], [x, top + 1]] }, style: { fill: color } },
          ],
        };
      };
    }

    // An amount in an interval: a bar, or a line at its height.
    function level(color, filled) {
      return (params, api) => {
        const from = api.coord([api.value(0), api.value(2)]), to = api.coord([api.value(1), 0]);
        const area = params.coordSys;
        const begin = Math.max(from[0], area.x), end = Math.min(to[0], area.x + area.width);
        if (end <= begin) return undefined;
        const gap = filled && end - begin > 3 ? 1 : 0;
        const tall = filled ? Math.max(1, to[1] - from[1]) : 2.5;
        return { type: "rect", shape: { x: begin, y: from[1], width: Math.max(1, end - begin - gap), height: tall }, style: { fill: color } };
      };
    }

    let shown = [0, length];
    function option() {
      const { axis, tooltip, text, line } = base();
      const small = narrow();
      const left = small ? 84 : 150, right = small ? 42 : 56;
      const rows = threads.length * rowHeight();
      const byKind = kinds.map((kind) => ({
        type: "custom", name: data.kinds[kind], renderItem: bar(colour(`k${kind % 10}`)), encode: { x: [1, 2], y: 0 },
        data: hidden.has(kind) ? [] : [...events.at.keys()].filter((i) => events.kind[i] === kind)
          .map((i) => [events.thread[i], events.at[i], events.at[i] + events.ms[i], i]),
        tooltip: { formatter: (item) => tip(describe(item.value[3])) },
      }));
      const x = (grid) => ({
        ...axis(), type: "value", min: 0, max: length, gridIndex: grid, splitNumber: small ? 3 : 8,
        axisLabel: { color: text, hideOverlap: true, showMaxLabel: false, formatter: (value) => mark(value, shown[1] - shown[0]) },
      });
      const y = axis();
      return {
        tooltip: { ...tooltip, trigger: "item" },
        grid: [
          { left, right, top: 24, height: rows },
          { left, right, top: rows + 70, height: 100 },
        ],
        xAxis: [x(0), x(1)],
        yAxis: [
          {
            ...axis(), type: "category", data: threads.map((name, i) => i), inverse: true, splitLine: { show: true, lineStyle: { color: line } },
            axisLabel: { color: text, width: left - 12, overflow: "truncate", lineHeight: 13, interval: 0, formatter: (i) => (small ? threads[i].replace(" (", "\n(") : threads[i]) },
          },
          { ...y, type: "value", gridIndex: 1, name: small ? "ms" : "ms compiled", nameLocation: "end", minInterval: 1, splitNumber: 3 },
          { ...y, type: "value", gridIndex: 1, name: "hits", show: hits.length > 0, position: "right", splitLine: { show: false }, boundaryGap: [0, "10%"], minInterval: 1, splitNumber: 3 },
        ],
        dataZoom: [
          {
            type: "slider", xAxisIndex: [0, 1], startValue: shown[0], endValue: shown[1], height: 20, bottom: 6, left, right,
            filterMode: "weakFilter", textStyle: { color: text }, borderColor: line, showDataShadow: false, brushSelect: false,
            labelFormatter: "",
          },
          // A wheel without Ctrl, and a finger, scroll the page.
          {
            type: "inside", xAxisIndex: [0, 1], filterMode: "weakFilter", zoomOnMouseWheel: "ctrl",
            moveOnMouseMove: !matchMedia("(pointer: coarse)").matches, preventDefaultMouseMove: false,
          },
        ],
        series: [
          ...byKind,
          {
            type: "custom", name: "stalls", renderItem: stallMark(colour("stall")), encode: { x: [1, 2], y: 0 }, z: 5,
            data: stalls.map((stall, i) => [stall.thread, stall.at, stall.at + stall.ms, i]),
            tooltip: { formatter: (item) => tip(stallText(item.value[3])) },
          },
          {
            type: "custom", name: "compiling", xAxisIndex: 1, yAxisIndex: 1, encode: { x: [0, 1], y: 2 },
            data: Array.from(compiling, (ms, i) => [i * width, (i + 1) * width, ms]).filter((own) => own[2] > 0),
            renderItem: level(colour("bar"), true),
            tooltip: { formatter: (item) => tip([`${time(item.value[2])} compiled`, `from ${time(item.value[0])} to ${time(item.value[1])}`]) },
          },
          {
            type: "custom", name: "hits", xAxisIndex: 1, yAxisIndex: 2, encode: { x: [0, 1], y: 2 }, data: hits,
            renderItem: level(colour("found"), false),
            tooltip: { formatter: (item) => tip([`${item.value[2]} hits`, `from ${time(item.value[0])} to ${time(item.value[1])}`]) },
          },
        ],
      };
    }

    const legend = holder.querySelector(".legend");
    for (const kind of kinds) {
      const label = document.createElement("label"), box = document.createElement("input"), swatch = document.createElement("span");
      box.type = "checkbox";
      box.checked = true;
      swatch.className = `swatch k${kind % 10}`;
      swatch.setAttribute("aria-hidden", "true");
      box.addEventListener("change", () => {
        if (box.checked) hidden.delete(kind); else hidden.add(kind);
        chart.setOption(option(), { replaceMerge: ["series"] });
      });
      label.append(box, swatch, data.kinds[kind]);
      legend.append(label);
    }

    const chart = draw(place, option, height);
    const buttons = Object.fromEntries([...holder.querySelectorAll("[data-do]")].map((button) => [button.dataset.do, button]));
    function say(text) {
      const whole = shown[0] <= 0 && shown[1] >= length;
      status.textContent = text || (whole ? `The whole run: ${time(length)}.` : `Shown: ${time(shown[0])} to ${time(shown[1])} of ${time(length)}.`);
    }
    function zoom(from, to, text) {
      const span = Math.min(length, Math.max(to - from, Math.min(length, 0.05)));
      const begin = Math.max(0, Math.min(from, length - span));
      shown = [begin, begin + span];
      chart.dispatchAction({ type: "dataZoom", dataZoomIndex: 0, startValue: shown[0], endValue: shown[1] });
      say(text);
    }
    function show(at, ms, text) {
      const room = Math.max(ms * 1.5, 20);
      zoom(at - room / 2, at + ms + room / 2, text);
    }
    chart.on("datazoom", () => {
      const { startValue, endValue } = chart.getOption().dataZoom[0];
      if (Math.abs(startValue - shown[0]) + Math.abs(endValue - shown[1]) > length * 1e-9) {
        shown = [startValue, endValue];
        say();
        chart.setOption({ xAxis: [{}, {}] });
      }
    });

    function stallText(i) {
      const stall = stalls[i];
      const pipelines = stall.pipelines ? `${stall.pipelines} ${stall.pipelines === 1 ? "pipeline" : "pipelines"}, ` : "";
      return [
        `Stall ${i + 1} of ${stalls.length}: ${time(stall.ms)}`,
        `at ${time(stall.at)}, ${threads[stall.thread]}`,
        `${pipelines}${pipelines && "longest "}${stall.longest}`,
      ];
    }
    let current = -1;
    function stall(i) {
      current = Math.max(0, Math.min(stalls.length - 1, i));
      show(stalls[current].at, stalls[current].ms, `${stallText(current).join("; ")}.`);
    }
    const [from, to] = [() => shown[0], () => shown[1]];
    const actions = {
      earlier: () => zoom(from() - (to() - from()) / 2, to() - (to() - from()) / 2),
      later: () => zoom(from() + (to() - from()) / 2, to() + (to() - from()) / 2),
      in: () => zoom(from() + (to() - from()) / 4, to() - (to() - from()) / 4),
      out: () => zoom(from() - (to() - from()) / 2, to() + (to() - from()) / 2),
      all: () => zoom(0, length),
      "stall-before": () => stall(current < 0 ? stalls.length - 1 : current - 1),
      "stall-next": () => stall(current + 1),
    };
    for (const [name, button] of Object.entries(buttons)) button.addEventListener("click", actions[name]);
    say();
    return {
      show(at, ms, text) {
        holder.scrollIntoView({ block: "nearest" });
        show(at, ms, text);
      },
    };
  }

  // ---- Hits and misses by kind -------------------------------------------------------------------

  function kindChart(holder, run) {
    const names = run.kinds.map((own) => own.kind);
    draw(holder.querySelector(".chart"), () => {
      const { axis, tooltip, text } = base();
      const series = (name, key, color) => ({
        type: "bar", name, stack: "all", data: run.kinds.map((own) => own[key]), itemStyle: { color }, barMaxWidth: 26,
      });
      return {
        tooltip: { ...tooltip, trigger: "axis", axisPointer: { type: "shadow" }, formatter: (items) => tip([items[0].name, ...items.map((item) => `${item.seriesName}: ${item.value}`)]) },
        legend: { top: 0, left: 0, textStyle: { color: text }, selectedMode: false },
        grid: { left: narrow() ? 96 : 170, right: 30, top: 34, bottom: 30 },
        xAxis: { ...axis(), type: "value", minInterval: 1, splitNumber: narrow() ? 3 : 6 },
        yAxis: { ...axis(), type: "category", data: names, inverse: true, axisLabel: { color: text, interval: 0, width: narrow() ? 86 : 160, overflow: "break" } },
        series: [series("hits", "hits", colour("found")), series("compiled", "compiled", colour("k0"))],
      };
    }, () => 80 + names.length * 40);
  }

  // ---- The store over runs -----------------------------------------------------------------------

  function historyChart(holder, run) {
    const rows = run.history;
    const highest = Math.max(...rows.map((own) => own.stored));
    const unit = 1024 ** Math.min(3, Math.max(0, Math.floor(Math.log2(Math.max(1, highest)) / 10)));
    const unitName = { 1: "B", 1024: "KiB", 1048576: "MiB", 1073741824: "GiB" }[unit];
    draw(holder.querySelector(".chart"), () => {
      const { axis, tooltip, text } = base();
      return {
        tooltip: {
          ...tooltip, trigger: "axis", axisPointer: { type: "shadow" },
          formatter: (items) => {
            const own = rows[items[0].dataIndex];
            return tip([`${own.when}${own.this ? ", this run" : ""}`, `${own.hits} hits, ${own.compiled} compiled`, `${bytes(own.added)} stored by it, ${bytes(own.stored)} by all runs so far`]);
          },
        },
        legend: { top: 0, left: 0, textStyle: { color: text }, selectedMode: false },
        grid: { left: 56, right: narrow() ? 56 : 64, top: 56, bottom: 30 },
        xAxis: { ...axis(), type: "category", data: rows.map((own) => own.label), axisLabel: { color: text, hideOverlap: true } },
        yAxis: [
          { ...axis(), type: "value", name: "pipelines", nameTextStyle: { color: text, align: "left" }, minInterval: 1, splitNumber: 4 },
          { ...axis(), type: "value", name: unitName, splitLine: { show: false }, splitNumber: 4 },
        ],
        series: [
          { type: "bar", name: "hits", stack: "run", data: rows.map((own) => own.hits), itemStyle: { color: colour("found") }, barMaxWidth: 36 },
          { type: "bar", name: "compiled", stack: "run", data: rows.map((own) => own.compiled), itemStyle: { color: colour("k0") }, barMaxWidth: 36 },
          { type: "line", name: "stored so far", yAxisIndex: 1, data: rows.map((own) => own.stored / unit), itemStyle: { color: colour("k1") }, lineStyle: { color: colour("k1") }, symbolSize: 7 },
        ],
      };
    });
  }

  // ---- Tables ------------------------------------------------------------------------------------

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    if (body.rows.length < 2) return;
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const first = head.classList.contains("number") ? "descending" : "ascending";
        const order = head.ariaSort === first ? (first === "ascending" ? "descending" : "ascending") : first;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        const key = (row) => row.cells[column].dataset.by ?? row.cells[column].textContent.trim();
        const sign = order === "ascending" ? 1 : -1;
        const numbers = head.classList.contains("number");
        const compare = numbers
          ? (a, b) => (Number(key(a)) || 0) - (Number(key(b)) || 0)
          : (a, b) => key(a).localeCompare(key(b));
        body.append(...[...body.rows].sort((a, b) => sign * compare(a, b)));
      });
    });
  }

  document.querySelectorAll("table[data-sort]").forEach(sortable);
  const timelines = [];
  const charts = { timeline: (holder, run, i) => { timelines[i] = timeline(holder, run); }, kinds: kindChart, history: historyChart };
  for (const holder of document.querySelectorAll("[data-chart]")) {
    const i = Number(holder.dataset.run);
    charts[holder.dataset.chart](holder, data.runs[i], i);
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-show]");
    if (!button) return;
    const [run, at, ms] = button.dataset.show.split(" ").map(Number);
    const heads = button.closest("table").tHead.rows[0].cells;
    const said = (cell) => (cell.querySelector("button") ?? cell).textContent.trim();
    const text = [...button.closest("tr").cells].map((cell, i) => `${heads[i].textContent.trim()}: ${said(cell)}`).join("; ");
    timelines[run]?.show(at, ms, `${text}.`);
  });
  addEventListener("beforeprint", () => redraws.forEach((redraw) => redraw()));
  addEventListener("afterprint", () => redraws.forEach((redraw) => redraw()));
})();
