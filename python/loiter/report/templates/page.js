// Draws the charts, and makes tables that can be sorted and searched. All it needs is in the page.
const specs = JSON.parse(document.getElementById("charts").textContent);
const encoded = JSON.parse(document.getElementById("tables-module").textContent);
const { ITable } = await import(`data:text/javascript;base64,${encoded}`);

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const print = window.matchMedia("print");
// The darkest colour of the series, which dark ground would swallow.
const onDark = { "#444444": "#b8bec6" };

function config(isDark) {
  const ink = isDark ? "#e6e9ec" : "#1b1f24", soft = isDark ? "#9aa4af" : "#57606a", rule = isDark ? "#363d45" : "#d8dee4";
  return {
    background: "transparent",
    font: "system-ui, sans-serif",
    axis: { labelColor: ink, titleColor: ink, gridColor: rule, domainColor: rule, tickColor: rule },
    legend: { labelColor: ink, titleColor: ink },
    view: { stroke: null },
    rule: { color: soft },
  };
}

// A value axis becomes logarithmic, with room for all bars. Where values have no logarithm it stays linear near 0.
function logarithmic(spec, isLog, measure) {
  if (!isLog) return spec;
  const rows = spec.data.values;
  const values = rows.map((row) => row[measure]).filter((value) => typeof value === "number");
  const least = Math.min(...values.filter((value) => value > 0));
  const scale = values.every((value) => value > 0) ? { type: "log", domainMin: least / 2 } : { type: "symlog", constant: least || 1 };
  for (const row of rows) if (row.low <= least / 2) row.low = least / 2;
  spec.layer = spec.layer?.filter((layer) => !layer.usermeta?.linear);
  for (const layer of spec.layer ?? []) layer.transform = layer.transform?.filter((step) => !step.filter?.includes("datum.shown"));
  for (const part of [spec, ...(spec.layer ?? [])]) {
    for (const axis of ["x", "y"]) {
      const channel = part.encoding?.[axis];
      if (channel?.type !== "quantitative" || channel.field === "x") continue;
      if (channel.field === "shown") channel.field = "value";
      channel.scale = { ...channel.scale, ...scale };
      // Bars begin at 0 of their own accord, which such an axis does not have.
      if (part.mark?.type === "bar" && scale.type === "log") {
        channel.stack = null;
        part.encoding.y2 = { datum: scale.domainMin };
      }
    }
  }
  return spec;
}

function recoloured(spec, isDark) {
  return JSON.parse(JSON.stringify(spec), (key, value) => (isDark && onDark[value]) || value);
}

const views = {};
async function draw(id) {
  const place = document.querySelector(`[data-chart="${CSS.escape(id)}"]`);
  const isDark = dark.matches && !print.matches;
  const box = document.querySelector(`[data-log="${CSS.escape(id)}"]`);
  const chosen = specs[id].params?.find((param) => param.name === "measure");
  if (chosen) {
    chosen.value = views[id]?.signal("measure") ?? chosen.value;
    specs[id].encoding.y.title = chosen.bind.labels[chosen.bind.options.indexOf(chosen.value)];
  }
  const spec = logarithmic(recoloured(specs[id], isDark), box?.checked ?? false, chosen?.value ?? "value");
  const options = { actions: { source: false, compiled: false, editor: false }, renderer: "svg", config: config(isDark) };
  options.tooltip = { theme: isDark ? "dark" : "light" };
  const had = place.contains(document.activeElement);
  views[id]?.finalize();
  const found = await vegaEmbed(place, spec, options);
  views[id] = found.view;
  found.view.addEventListener("click", (event, item) => item?.datum?.run && show(item.datum.run));
  // The axis and its scale are those of what it shows.
  if (chosen) found.view.addSignalListener("measure", () => draw(id));
  // Who chooses by the keyboard stays there: the choice is drawn anew with its chart.
  if (had) place.querySelector("select")?.focus();
  place.dataset.drawn = "yes";
}

const tables = [...document.querySelectorAll("table.explore")].map((table) => {
  const many = table.tBodies[0].rows.length > 25;
  return new ITable(table, {
    paging: many, pageLength: 25, info: many, order: [], autoWidth: false, lengthMenu: [10, 25, 100, { label: "all", value: -1 }],
    layout: many ? { topStart: "pageLength", topEnd: "search" } : { topStart: null, topEnd: "search", bottomStart: null },
  });
});

// Leads from a bar to the row of its run.
function show(run) {
  for (const made of tables) {
    const table = made.dt;
    const row = table.row((_, __, node) => node.dataset.run === run);
    if (!row.any()) continue;
    table.search("").order([]).page.len(-1).draw();
    const node = row.node();
    node.closest("details")?.setAttribute("open", "");
    document.querySelectorAll("tr.marked").forEach((each) => each.classList.remove("marked"));
    node.classList.add("marked");
    node.scrollIntoView({ block: "center" });
    return;
  }
}

async function drawAll() {
  document.documentElement.classList.toggle("dark", dark.matches && !print.matches);
  await Promise.all(Object.keys(specs).map(draw));
  document.documentElement.dataset.ready = "yes";
}
for (const box of document.querySelectorAll("[data-log]")) box.addEventListener("change", () => draw(box.dataset.log));
dark.addEventListener("change", drawAll);
print.addEventListener("change", drawAll);
await drawAll();
