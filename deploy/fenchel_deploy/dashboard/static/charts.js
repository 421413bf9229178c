// Draws the charts of a document with Plotly. Colours come from page.css; texts of others are escaped, because Plotly
// takes markup in texts for markup.
"use strict";

const Charts = (() => {
  const MAP_WORDS = ["left out", "not asked", "took part"];

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }
  const series = (chart, number) => colour(`--series-${(chart.slots.length ? chart.slots[number] : number) % 10}`);
  const escaped = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  // 1, 2 and 5 times powers of ten where the range is short; powers of ten, as few as fit, where it is long.
  function logTicks(least, most) {
    const first = Math.floor(Math.log10(least)), last = Math.ceil(Math.log10(most));
    const decades = last - first, stride = Math.max(1, Math.ceil(decades / 7)), found = [];
    for (let power = first; power <= last; power += stride) {
      for (const factor of decades <= 2 ? [1, 2, 5] : [1]) found.push(factor * 10 ** power);
    }
    const near = found.filter((value) => value >= least / 1.5 && value <= most * 1.5);
    return near.length < 4 && most < 10 * least ? evenTicks(least, most) : near;
  }

  // 1, 2 and 5 times a power of ten, about five to seven of them.
  function evenTicks(least, most) {
    const rough = ((most - least) || Math.abs(most) || 1) / 5, ten = 10 ** Math.floor(Math.log10(rough));
    const step = ten * [1, 2, 5, 10].find((factor) => factor * ten >= 0.85 * rough), found = [];
    for (let place = Math.ceil(least / step - 1e-6); place <= most / step + 1e-6; place += 1) found.push(Number((place * step).toPrecision(12)));
    return found;
  }

  // Long names are cut: their whole is in the table and under the pointer. Of many names every second, fifth, tenth… is
  // written, from the first one on.
  const short = (name) => escaped([...String(name)].length > 20 ? `${[...String(name)].slice(0, 19).join("")}…` : name);
  function nameTicks(names) {
    const stride = [1, 2, 5, 10, 20, 50].find((each) => names.length / each <= 32) || 100;
    const written = names.filter((_, place) => place % stride === 0);
    return { tickvals: written.map(escaped), ticktext: written.map(short) };
  }

  const rowsHeight = (rows) => Math.max(60, Math.min(rows * (rows <= 24 ? 22 : 8), 620));

  function values(chart) {
    return chart.series.flatMap((one) => one.values).filter((value) => typeof value === "number");
  }

  // `shown` are the values that have a place on the axis.
  function axis(described, shown, extra) {
    const ticks = ["seconds", "bytes", "share"].includes(described.form) && shown.length ? evenTicks(Math.min(...shown), Math.max(...shown)) : null;
    const form = ticks ? { tickvals: ticks, ticktext: ticks.map((value) => Forms.tick(value, described.form)) } : described.form === "count" ? { tickformat: ",d" } : {};
    return { title: { text: escaped(described.name), standoff: 8, font: { size: 12.5 } }, automargin: true, zeroline: false, showline: false,
      gridcolor: colour("--line"), linecolor: colour("--strong-line"), tickcolor: colour("--strong-line"), ticks: "outside",
      ticklen: 4, ...form, ...extra };
  }

  function layout(chart, height, x, y, extra) {
    return { height, autosize: true, margin: { l: 12, r: 14, t: 10, b: 12 }, showlegend: false, paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)", font: { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: colour("--quiet") },
      hoverlabel: { bgcolor: colour("--raised"), bordercolor: colour("--strong-line"), font: { color: colour("--ink"), size: 13 } },
      dragmode: false, xaxis: x, yaxis: y, ...extra };
  }

  function roundsAxis(chart, positions) {
    const few = chart.x.form === "count" && positions.length && Math.max(...positions) - Math.min(...positions) <= 14;
    return axis(chart.x, positions, few ? { dtick: 1 } : {});
  }

  function lines(chart) {
    const positions = chart.series.flatMap((one) => one.at || chart.at);
    // Lines over positions of their own may be the same in part: those drawn later are broken.
    const dash = (one, number) => (one.at ? ["solid", "dash", "dot", "dashdot"][number % 4] : "solid");
    const traces = chart.series.map((one, number) => {
      const at = one.at || chart.at;
      const measured = at.map((position, index) => [position, one.values[index]]).filter((pair) => pair[1] !== null);
      return { type: "scatter", mode: measured.length <= 60 ? "lines+markers" : "lines", x: measured.map((pair) => pair[0]),
        y: measured.map((pair) => pair[1]), name: escaped(one.name), line: { color: series(chart, number), width: 2, dash: dash(one, number) },
        marker: { color: series(chart, number), size: 6, symbol: number % 6 },
        text: measured.map((pair) => `${escaped(one.name)}<br>${escaped(chart.x.name)} ${escaped(Forms.text(pair[0], chart.x.form))}: ` +
          `<b>${escaped(Forms.text(pair[1], chart.y.form))}</b>`), hoverinfo: "text" };
    });
    const shown = values(chart).concat(chart.goal === null ? [] : [chart.goal]);
    const logged = chart.y.log && shown.length;
    const ticks = logged ? logTicks(Math.min(...shown), Math.max(...shown)) : [];
    const y = axis(chart.y, shown, logged ? { type: "log", tickvals: ticks, ticktext: ticks.map((value) => Forms.tick(value)) } : {});
    const goal = chart.goal === null ? {} : {
      shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: chart.goal, y1: chart.goal, line: { color: colour("--bad"), width: 1.5, dash: "dash" } }] };
    return [traces, layout(chart, 300, roundsAxis(chart, positions), y, goal)];
  }

  function stack(chart) {
    const named = chart.x.form === "text", many = chart.at.length > 60;
    const traces = chart.series.map((one, number) => ({ type: "bar", x: chart.at.map((value) => (named ? escaped(value) : value)),
      y: one.values, name: escaped(one.name), marker: { color: series(chart, number), line: { width: 0 } },
      text: one.values.map((value, index) => `${escaped(one.name)}<br>${escaped(chart.x.name)} ${escaped(Forms.text(chart.at[index], chart.x.form))}: ` +
        `<b>${escaped(Forms.text(value, chart.y.form))}</b>`), textposition: "none", hoverinfo: "text" }));
    const x = named ? axis(chart.x, [], { type: "category", ...nameTicks(chart.at) }) : roundsAxis(chart, chart.at);
    const sums = chart.at.map((_, index) => chart.series.reduce((sum, one) => sum + (one.values[index] || 0), 0));
    const y = axis(chart.y, [0, ...sums], chart.y.form === "share" ? { range: [0, 1] } : { rangemode: "tozero" });
    return [traces, layout(chart, 300, x, y, { barmode: "stack", bargap: many ? 0 : chart.at.length < 8 && named ? 0.45 : 0.22 })];
  }

  function namesAxis(described, names) {
    return axis(described, [], { type: "category", range: [names.length - 0.5, -0.5], ...nameTicks(names), ticks: "",
      ticklabelstandoff: 6 });
  }

  function bars(chart) {
    const names = chart.at.map(escaped), [one] = chart.series;
    const trace = { type: "bar", orientation: "h", y: names, x: one.values, marker: { color: series(chart, 0) }, textposition: "none", hoverinfo: "text",
      text: names.map((name, row) => `${name}<br><b>${escaped(Forms.text(one.values[row], chart.x.form))}</b>`) };
    return [[trace], layout(chart, 78 + rowsHeight(names.length), axis(chart.x, [0, ...values(chart)], { rangemode: "tozero" }), namesAxis(chart.y, chart.at), { bargap: 0.3 })];
  }

  function map(chart) {
    const rows = chart.series.length, columns = chart.at.length, names = chart.series.map((one) => escaped(one.name));
    const word = (row, column) => {
      const found = chart.notes[`${chart.series[row].name}/${column}`];
      return MAP_WORDS[chart.series[row].values[column]] + (found ? `: ${escaped(found)}` : "");
    };
    const step = (value) => [[value / 3, colour(`--map-${value}`)], [(value + 1) / 3, colour(`--map-${value}`)]];
    const trace = { type: "heatmap", x: chart.at, y: names, z: chart.series.map((one) => one.values), zmin: -0.5, zmax: 2.5,
      colorscale: [0, 1, 2].flatMap(step), showscale: false, xgap: columns <= 120 ? 2 : 0, ygap: rows <= 24 ? 2 : rows <= 80 ? 1 : 0, hoverinfo: "text",
      text: chart.series.map((one, row) => one.values.map((_, column) =>
        `${names[row]}, ${escaped(chart.x.name)} ${Forms.text(chart.at[column], chart.x.form)}<br>${word(row, column)}`)) };
    return [[trace], layout(chart, 74 + rowsHeight(rows), { ...roundsAxis(chart, chart.at), showgrid: false }, { ...namesAxis(chart.y, chart.series.map((one) => one.name)), showgrid: false })];
  }

  function ranges(chart) {
    const [least, low, median, high, most] = chart.series.map((one) => one.values);
    const names = chart.at.map(escaped), blue = colour("--series-0");
    const bars = (from, to, width) => ({ type: "scatter", mode: "lines", hoverinfo: "skip", line: { color: blue, width },
      x: from.flatMap((value, row) => [value, to[row], null]), y: names.flatMap((name) => [name, name, null]) });
    const dots = { type: "scatter", mode: "markers", x: median, y: names, hoverinfo: "text",
      marker: { color: colour("--ground"), size: names.length > 24 ? 5 : 8, line: { color: blue, width: 2 } },
      text: names.map((name, row) => `${name}<br>` + chart.series.map((one) => `${one.name} ${Forms.text(one.values[row], chart.x.form)}`).join("<br>")) };
    return [[bars(least, most, 1), bars(low, high, names.length > 24 ? 3 : 5), dots],
      layout(chart, 78 + rowsHeight(names.length), axis(chart.x, [0, ...values(chart)], { rangemode: "tozero" }), namesAxis(chart.y, chart.at))];
  }

  const KINDS = { lines, stack, bars, map, ranges };

  function legend(chart) {
    if (chart.kind === "map") return MAP_WORDS.map((name, value) => [name, colour(`--map-${value}`), false]).reverse();
    if (chart.kind === "ranges") return [];
    const named = chart.series.length < 2 ? [] : chart.series.map((one, number) => [one.name, series(chart, number), chart.kind === "lines"]);
    return chart.goal === null ? named : [...named, [`goal ${Forms.text(chart.goal, "small")}`, colour("--bad"), true]];
  }

  // Plotly is large. The page asks for it when all but the charts is shown; in a report it is the last script.
  let plotly = null;
  function loaded() {
    if (window.Plotly) return null;
    plotly ??= new Promise((resolve) => {
      const source = document.body.dataset.plotly;
      if (source) document.head.append(Parts.make("script", { src: source }));
      (source ? document.head.lastChild : window).addEventListener("load", resolve, { once: true });
    });
    return plotly;
  }

  async function draw(element, chart) {
    await loaded();
    const [traces, described] = KINDS[chart.kind](chart);
    element.style.minHeight = `${described.height}px`;
    return Plotly.react(element, traces, described, { displayModeBar: false, responsive: true, scrollZoom: false });
  }

  return { draw, legend };
})();
