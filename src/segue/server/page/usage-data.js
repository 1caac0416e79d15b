// What the view of usage shows: fetched together, and again when a turn has ended.
import { signal } from "./lib.js";
import { get } from "./api.js";
import { language } from "./strings.js";

/** @typedef {import("./types").UsageSum} Sum */
/** @typedef {import("./types").UsageStatistics} Statistics */
/** @typedef {import("./types").UnpaidTurn} Unpaid */
/** @typedef {{period: string, split: string, measure: string}} Choices */
/** @typedef {{period: string, days: Statistics, agents: Statistics, conversations: Statistics, modes: Statistics, versions: Statistics, unpaid: Unpaid[]}} Found */
/** @typedef {{from: string, to: string, sums: Sum[]}} Span some days that are one bar */
/** @typedef {{name: string, shade: string, values: (number | null)[], turns: number[], total: number | null}} Series */

export const PERIODS = ["7", "30", "90", "all"];
export const SPLITS = ["mode", "agent", "conversation"];
export const MEASURES = ["cost", "new", "cached", "out"];
/** The order of the ladder. A turn that failed before one was chosen has none. */
export const MODES = ["resume", "branch", "graft", "replay", "recap", "fresh", ""];
export const REST = "\n";
const MOST = 8;
const MOST_UNPAID = 200;
const DAY_MS = 86_400_000;
/** More bars than this are too thin to be told apart. */
const MOST_BARS = 124;

export const found = signal(/** @type {Found | null} */ (null));
let asked = 0;

/** @param {Choices} choices */
export async function fetchUsage({ period, split }) {
  asked += 1;
  const number = asked;
  const since = sinceOf(period);
  const by = (/** @type {string} */ name) => get("/usage", { by: name, since });
  const [days, agents, conversations, modes, versions, unpaid] = await Promise.all([
    get("/usage", { by: "day", split, since }),
    by("agent"), by("conversation"), by("mode"), by("version"),
    get("/usage/unpaid", { since, limit: MOST_UNPAID }),
  ]);
  if (number === asked) found.value = { period, days, agents, conversations, modes, versions, unpaid };
}

/** The first day of a period that ends today. Whole days: half a day would look like a bad one.  @param {string} period */
export function sinceOf(period, now = new Date()) {
  if (period === "all") return undefined;
  return dayOf(new Date(now.getFullYear(), now.getMonth(), now.getDate() - Number(period) + 1, 12));
}

/** @param {Date} date */
export const dayOf = (date) =>
  `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, "0")}-${String(date.getDate()).padStart(2, "0")}`;

/** What was sent for the first time.  @param {import("./types").Usage} usage */
export const fresh = (usage) => added([usage.input, usage.cache_write]);

/** @param {import("./types").Usage} usage */
export const sent = (usage) => added([usage.input, usage.cache_write, usage.cache_read]);

/** How much of what was sent came from a cache.  @param {import("./types").Usage} usage */
export function hits(usage) {
  const all = sent(usage);
  return usage.cache_read === null || !all ? null : usage.cache_read / all;
}

/** A sum of what is known.  @param {(number | null)[]} parts @returns {number | null} */
export function added(parts) {
  const known = parts.filter((each) => each !== null);
  return known.length ? known.reduce((sum, each) => sum + each, 0) : null;
}

/** @param {Sum} sum @param {string} measure */
export function amount(sum, measure) {
  if (measure === "cost") return sum.cost_usd;
  return measure === "new" ? fresh(sum.usage) : measure === "cached" ? sum.usage.cache_read : sum.usage.output;
}

/** The bars from the first day to today: days, or weeks or months if there would be too many.
 * @param {Found} shown */
export function spansOf({ days, period }, today = dayOf(new Date())) {
  const first = sinceOf(period) ?? days.sums.at(-1)?.name ?? today;
  const last = [today, days.sums[0]?.name ?? ""].reduce((a, b) => (a > b ? a : b));
  const count = (stamp(last) - stamp(first)) / DAY_MS + 1;
  const step = count <= MOST_BARS ? "day" : count <= 7 * MOST_BARS ? "week" : "month";
  /** @type {Map<string, Span>} */
  const spans = new Map();
  for (let day = first; day <= last; day = after(day)) {
    const start = startOf(day, step);
    const span = spans.get(start);
    if (span) span.to = day;
    else spans.set(start, { from: day, to: day, sums: [] });
  }
  for (const sum of days.sums) spans.get(startOf(sum.name, step))?.sums.push(sum);
  return { step, spans: [...spans.values()] };
}

/** @param {string} day */
export const stamp = (day) => Date.parse(`${day}T12:00:00Z`);
/** @param {number} ms */
const named = (ms) => new Date(ms).toISOString().slice(0, 10);
/** @param {string} day */
const after = (day) => named(stamp(day) + DAY_MS);

/** @param {string} day @param {string} step */
function startOf(day, step) {
  if (step === "month") return day.slice(0, 7);
  if (step === "day") return day;
  const since = (new Date(stamp(day)).getUTCDay() + 6) % 7;
  return named(stamp(day) - since * DAY_MS);
}

/** What is stacked, from the bottom up.  @param {Found} shown @param {Span[]} spans @param {string} measure @returns {Series[]} */
export function seriesOf({ days }, spans, measure) {
  const parts = spans.map((span) => span.sums.flatMap((sum) => sum.parts));
  /** @type {Map<string, (number | null)[]>} */
  const all = new Map();
  for (const part of parts.flat()) all.set(part.name, [...(all.get(part.name) ?? []), amount(part, measure)]);
  const totals = new Map([...all].map(([name, values]) => [name, added(values)]));
  const names = [...totals.keys()];
  const byMode = days.split === "mode";
  if (byMode) names.sort((a, b) => MODES.indexOf(a) - MODES.indexOf(b));
  else names.sort((a, b) => (totals.get(b) ?? -1) - (totals.get(a) ?? -1) || (a < b ? -1 : 1));
  const most = byMode || names.length <= MOST + 1 ? names.length : MOST;
  const rest = new Set(names.slice(most));
  const place = new Map(names.map((name, at) => [name, Math.min(at, most)]));
  const rows = names.slice(0, most + (rest.size ? 1 : 0)).map(() => ({ values: spans.map(() => /** @type {number | null} */ (null)), turns: spans.map(() => 0) }));
  parts.forEach((each, at) => {
    for (const part of each) {
      const row = rows[place.get(part.name) ?? 0];
      if (!row) continue;
      row.values[at] = added([row.values[at] ?? null, amount(part, measure)]);
      row.turns[at] = (row.turns[at] ?? 0) + part.turns;
    }
  });
  return rows.map(({ values, turns }, at) => {
    const name = at === most ? REST : (names[at] ?? "");
    const shade = byMode ? name || "nomode" : `shade-${Math.min(at, MOST)}`;
    return { name, shade, values, turns, total: added(values) };
  });
}

/** What was paid so far, and what it would have been without continuing sessions.  @param {Span[]} spans */
export function savedOf(spans) {
  let [paid, whole] = [0, 0];
  /** @type {number[][]} */
  const lines = [[], []];
  for (const span of spans) {
    const cost = added(span.sums.map((each) => each.cost_usd)) ?? 0;
    paid += cost;
    whole += cost + (added(span.sums.map((each) => each.saved_usd)) ?? 0);
    lines[0]?.push(whole);
    lines[1]?.push(paid);
  }
  return { whole: lines[0] ?? [], paid: lines[1] ?? [] };
}

/** @param {string} day @param {Intl.DateTimeFormatOptions} [form] */
export const dayText = (day, form = { day: "numeric", month: "short" }) =>
  new Intl.DateTimeFormat(language.value, { ...form, timeZone: "UTC" }).format(stamp(day));

/** @param {Span} span @param {string} step */
export function spanText(span, step) {
  if (step === "month") return dayText(span.from, { month: "long", year: "numeric" });
  const whole = /** @type {Intl.DateTimeFormatOptions} */ ({ day: "numeric", month: "long", year: "numeric" });
  if (step === "day") return dayText(span.from, { ...whole, weekday: "short", year: undefined });
  return new Intl.DateTimeFormat(language.value, { ...whole, timeZone: "UTC" }).formatRange(stamp(span.from), stamp(span.to));
}
