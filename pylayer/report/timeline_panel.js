// What is said of the event or frame that is selected. Every text becomes a text node: nothing of a program is markup.

function element(name, attributes = {}, ...inside) {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...inside);
  return made;
}

const code = (text) => element("code", {}, text);

function facts(rows) {
  const list = element("dl", { className: "facts" });
  for (const [name, ...values] of rows)
    if (values.length) list.append(element("div", {}, element("dt", {}, name), element("dd", {}, ...values)));
  return list;
}

function copier(text) {
  const button = element("button", { type: "button", className: "link" }, "Copy");
  button.addEventListener("click", async () => {
    const range = document.createRange();
    range.selectNodeContents(button.previousElementSibling);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } catch { button.textContent = "Selected"; }
  });
  return button;
}

function frameFacts(model, index, select) {
  const { frames } = model, own = frames.pipelines[index], held = [...(model.held.get(index) ?? [])];
  const took = frames.duration[index], share = frames.why[index] ? `${time(own)} of ${time(took)} (${Math.round(100 * own / took)} %)` : "";
  const why = ["in time", "late, but not because of pipelines", "late because of pipelines"][frames.why[index]];
  const list = element("ul", { className: "plain" });
  held.sort((one, other) => model.duration[other] - model.duration[one]);
  for (const event of held.slice(0, 20)) {
    const row = model.rows[model.run.events[event].row];
    const button = element("button", { type: "button", className: "link" }, model.name(event));
    button.addEventListener("click", () => select({ event, frame: -1 }));
    list.append(element("li", {}, button, ` ${time(model.duration[event])} on ${row.name}`));
  }
  if (held.length > 20) list.append(element("li", {}, `and ${number(held.length - 20)} shorter`));
  return [frames.name(index), `${time(took)}, ${why}`, facts([
    ["At", time(frames.start[index])], ["Took", time(took)], ...(share ? [["Of it pipelines", share]] : []),
    ...(held.length ? [[`${plural(held.length, "pipeline")} held it`, list]] : []),
  ])];
}

function eventFacts(model, event, select) {
  const own = model.run.events[event], { kind, outcome, fingerprint } = own;
  const shaders = own.shaders.map(({ stage, hash, name }) =>
    element("li", {}, `${stage} `, ...(hash ? [code(hash)] : []), name ? ` ${name}` : ""));
  const rows = [["Took", time(model.duration[event])], ["At", time(model.start[event])],
    ["Thread", model.rows[own.row].name], ["Kind", kind], ["Outcome", outcome]];
  if (own.sort !== "wait" && own.pipelines > 1) rows.push(["In one call", plural(own.pipelines, "pipeline")]);
  if (own.stages.length) rows.push(["Stages", own.stages.join(", ")]);
  if (own.entry_point) rows.push(["Entry point", code(own.entry_point)]);
  if (shaders.length) rows.push(["Shaders", element("ul", { className: "plain" }, ...shaders)]);
  if (model.frame[event] >= 0) {
    const button = element("button", { type: "button", className: "link" }, model.frames.name(model.frame[event]));
    button.addEventListener("click", () => select({ event: -1, frame: model.frame[event] }));
    rows.push(["Held up", button, ` for ${time(model.frames.duration[model.frame[event]])}`]);
  } else if (model.frames && fingerprint) rows.push(["Held up", "no frame"]);
  if (fingerprint) rows.push(["Fingerprint", code(fingerprint), " ", copier(fingerprint)]);
  return [model.name(event), `${time(model.duration[event])}, ${outcome}`, facts(rows)];
}
