// What the view of usage shows, as a file.

/** @typedef {import("./usage-data.js").Found} Found */
/** @typedef {import("./usage-data.js").Sum} Sum */

const COLUMNS = ["by", "name", "split", "part", "turns", "resumed", "input", "cache_write", "cache_read", "output", "cost_usd", "cost_estimated", "saved_usd", "predicted_usd", "predicted_cost_usd"];

/** @param {unknown} value */
function cell(value) {
  if (value === null || value === undefined) return "";
  // A spreadsheet would run a text that begins like this as a formula.
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** @param {string} by @param {string} name @param {string} split @param {string} part @param {Sum} sum */
const row = (by, name, split, part, sum) => [by, name, split, part, sum.turns, sum.resumed, sum.usage.input, sum.usage.cache_write, sum.usage.cache_read, sum.usage.output, sum.cost_usd, sum.cost_estimated, sum.saved_usd, sum.predicted_usd, sum.predicted_cost_usd];

/** @param {Found} shown */
export function csvOf(shown) {
  const split = shown.days.split ?? "";
  const days = shown.days.sums.flatMap((day) => [row("day", day.name, "", "", day), ...day.parts.map((part) => row("day", day.name, split, part.name, part))]);
  const others = [shown.modes, shown.agents, shown.versions, shown.conversations].flatMap(({ by, sums }) => sums.map((sum) => row(by, sum.name, "", "", sum)));
  const rows = [COLUMNS, ...days, ...others, row("total", "", "", "", shown.days.total)];
  return rows.map((each) => `${each.map(cell).join(",")}\r\n`).join("");
}

/** @param {Found} shown @param {string} end */
const nameOf = (shown, end) => `segue-usage-${shown.period === "all" ? "all" : `${shown.period}-days`}.${end}`;

/** @param {Found} shown */
export const saveCsv = (shown) => save(nameOf(shown, "csv"), "text/csv;charset=utf-8", csvOf(shown));

/** @param {Found} shown */
export const saveJson = (shown) => save(nameOf(shown, "json"), "application/json", `${JSON.stringify(shown, null, 2)}\n`);

/** @param {string} name @param {string} type @param {string} text */
function save(name, type, text) {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(new Blob([text], { type }));
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 60_000);
}
