// Turns the parts of a document into elements. All text is set as text, never as markup. Every number carries its value,
// and the path of that value in the document, in attributes.
"use strict";

const Parts = (() => {
  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "style") Object.assign(element.style, value);
      else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
    return element;
  }

  function shown(value, form, path) {
    const text = Forms.text(value, form);
    return typeof value === "number" ? make("data", { value: String(value), "data-path": path, "data-form": form }, text) : text;
  }

  function facts(item, path) {
    return make("dl", { class: item.leading ? "facts leading" : "facts" }, ...item.facts.map((fact, number) =>
      make("div", {}, make("dt", {}, fact.name),
        make("dd", {}, typeof fact.value === "number" ? shown(fact.value, fact.form, `${path}.facts.${number}.value`)
          : make("data", { value: String(fact.value) }, Forms.text(fact.value, fact.form)), fact.note ? make("small", {}, fact.note) : ""))));
  }

  function prose(item) {
    return make("div", { class: item.leading ? "prose leading" : "prose" }, ...item.paragraphs.map((text) => make("p", {}, text)));
  }

  function code(item) {
    return make("div", {}, make("h3", {}, item.title), make("pre", { tabindex: 0, role: "region", "aria-label": item.title }, item.text));
  }

  function grid(title, columns, rows) {
    const heading = (column) => make("th", { scope: "col", class: Forms.isNumber(column.form) ? "number" : undefined }, column.name);
    const cell = (value, column) => make("td", { class: Forms.isNumber(column.form) ? "number" : undefined }, value);
    return make("div", { class: rows.length > 16 ? "scroll long" : "scroll", tabindex: 0, role: "region", "aria-label": title },
      make("table", {}, make("caption", { class: "visually-hidden" }, title), make("thead", {}, make("tr", {}, ...columns.map(heading))),
        make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((value, place) => cell(value, columns[place])))))));
  }

  function rowsOf(item, path) {
    return item.rows.map((row, number) => row.map((value, place) => shown(value, item.columns[place].form, `${path}.rows.${number}.${place}`)));
  }

  function folded(label, content, kept) {
    const details = make("details", {}, make("summary", {}, label));
    const fill = () => { if (details.open && details.children.length === 1) details.append(content()); };
    details.addEventListener("toggle", fill);
    details.open = Boolean(kept);
    fill();
    return details;
  }

  function table(item, path, kept) {
    const content = () => grid(item.title, item.columns, rowsOf(item, path));
    if (item.folded) {
      const details = folded(item.title, () => make("div", {}, item.caption ? make("p", { class: "caption" }, item.caption) : "", content()), kept);
      details.className = "folded";
      return details;
    }
    return make("div", {}, make("h3", {}, item.title), item.caption ? make("p", { class: "caption" }, item.caption) : "", content());
  }

  // The table behind a chart: its own, or a column for each series.
  function behind(chart, path) {
    if (chart.table) return grid(chart.table.title, chart.table.columns, rowsOf(chart.table, `${path}.table`));
    const ranged = chart.kind === "ranges", [at, measured] = ranged ? [chart.y, chart.x] : [chart.x, chart.y];
    if (chart.series.some((one) => one.at)) {
      const columns = [{ name: "run", form: "text" }, { name: at.name, form: at.form }, { name: measured.name, form: measured.form }];
      return grid(chart.title, columns, chart.series.flatMap((one, number) => one.values.map((value, row) => [one.name,
        shown(one.at[row], at.form, `${path}.series.${number}.at.${row}`), shown(value, measured.form, `${path}.series.${number}.values.${row}`)])));
    }
    const columns = [{ name: at.name, form: at.form }, ...chart.series.map((one) => ({ name: one.name, form: measured.form }))];
    return grid(`${chart.title}: ${measured.name}`, columns, chart.at.map((position, row) => [shown(position, at.form, `${path}.at.${row}`),
      ...chart.series.map((one, number) => shown(one.values[row], measured.form, `${path}.series.${number}.values.${row}`))]));
  }

  function members(item, path) {
    const many = item.members.length > 12;
    const tile = (member, number) => make("li", { class: "member", "data-state": member.state, "data-party": member.name }, make("strong", {}, member.name),
      member.doing ? make("p", { class: "doing" }, member.doing) : "",
      member.since !== null && member.state === "absent" ? make("p", {}, "since ", shown(member.since, "time", `${path}.members.${number}.since`)) : "",
      make("p", {}, ...member.facts.flatMap((fact, place) => [make("span", {}, shown(fact.value, fact.form, `${path}.members.${number}.facts.${place}.value`),
        fact.note ? ` ${fact.note} ${fact.name}` : ` ${fact.name}`, place + 1 < member.facts.length ? "," : ""), " "])));
    return make("div", {}, make("h3", {}, item.title), make("ul", { class: many ? "members many" : "members" }, ...item.members.map(tile)));
  }

  function holdings(item, path, kept, states) {
    const percent = (part, whole) => `${(100 * part) / whole}%`;
    const state = (cell) => (cell.holders.some((name) => states[name] === "absent") ? "absent" : cell.holders.some((name) => states[name] === "working") ? "working" : undefined);
    const drawn = item.cells.map((cell) => make("div", { class: cell.holders.length > 1 ? "shared" : undefined, "data-state": state(cell), title: `${cell.holders.join(", ")}: ${cell.samples} samples × ${cell.features} features`,
      style: { top: percent(cell.first_sample, item.samples), height: percent(cell.samples, item.samples), left: percent(cell.first_feature, item.features), width: percent(cell.features, item.features) } },
      item.cells.length <= 36 ? cell.holders.join(", ") : ""));
    return make("div", {}, make("h3", {}, item.title),
      make("div", { class: item.cells.length > 36 ? "holdings many" : "holdings", role: "img", "aria-label": `${item.title}: ${item.samples} samples and ${item.features} features, held by the parties as the table below says` }, ...drawn),
      make("p", { class: "axes" }, make("span", {}, "↓ ", shown(item.samples, "count", `${path}.samples`), " samples"), make("span", {}, shown(item.features, "count", `${path}.features`), " features →")),
      make("p", { class: "caption" }, item.caption), folded("the same as a table", () => grid(item.table.title, item.table.columns, rowsOf(item.table, `${path}.table`)), kept));
  }

  const KINDS = { facts, prose, code, table, members, holdings };
  return { make, behind, folded, element: (item, path, kept, states) => KINDS[item.type](item, path, kept, states) };
})();
