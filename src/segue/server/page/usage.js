// The view of usage: what turns used, cost and saved, and whether continuing sessions paid.
import { html, useEffect, useMemo, useState } from "./lib.js";
import { conversations, label, missed } from "./data.js";
import { kept } from "./drafts.js";
import { on } from "./feed.js";
import { line, money, percent, tokens } from "./format.js";
import { settle } from "./route.js";
import { language, t } from "./strings.js";
import { Choice, Copy, Mode, attempt } from "./parts.js";
import { Chart } from "./chart.js";
import { MEASURES, PERIODS, REST, SPLITS, amount, dayText, fetchUsage, found, fresh, hits, savedOf, sent, seriesOf, spanText, spansOf } from "./usage-data.js";
import { saveCsv, saveJson } from "./usage-export.js";
import { CacheTable, PredictionTable, SumTable, Table, UnpaidTable } from "./usage-tables.js";

/** @typedef {import("./usage-data.js").Choices} Choices */
/** @typedef {import("./usage-data.js").Found} Found */
/** @typedef {import("./usage-data.js").Series} Series */
/** @typedef {import("./usage-data.js").Span} Span */

const ENDED = ["done", "failed", "cancelled"];
const PAUSE_MS = 400;
const EXAMPLE = 'segue run hello "remember the number 456"\nsegue run hello "what number?"';

/** @param {string[]} parts @returns {Choices} */
function chosen([period = "", split = "", measure = ""]) {
  const before = kept.read("usage", { period: "30", split: "mode", measure: "cost" });
  return {
    period: PERIODS.includes(period) ? period : before.period,
    split: SPLITS.includes(split) ? split : before.split,
    measure: MEASURES.includes(measure) ? measure : before.measure,
  };
}

/** @param {{parts: string[]}} props */
export function Usage({ parts }) {
  const choices = chosen(parts);
  const { period, split } = choices;
  useEffect(() => {
    void attempt(() => fetchUsage(choices));
    return whenTurnsEnd(() => void attempt(() => fetchUsage(choices)));
  }, [period, split, missed.value]);
  const choose = (/** @type {Partial<Choices>} */ change) => {
    const next = { ...choices, ...change };
    kept.write("usage", next);
    settle("usage", next.period, next.split, next.measure);
  };
  const shown = found.value;
  return html`<main class="page usage" id="main" tabindex="-1" aria-busy=${String(shown === null)}><div class="in">
    <div class="ptitle"><h1>${t("usage")}</h1>${shown ? html`<span class="dim">${range(shown)}</span>` : null}
      <span class="r"><${Choice} label=${t("usage.period")} value=${period} onChange=${(/** @type {string} */ value) => choose({ period: value })}
          options=${PERIODS.map((each) => [each, each === "all" ? t("usage.always") : t("usage.days", { count: each })])} />
        ${shown?.days.total.turns ? html`<span class="seg" role="group" aria-label=${t("usage.save")}>
          <button type="button" class="btn" onClick=${() => saveCsv(shown)} aria-label=${t("usage.save.csv")}>${t("usage.csv")} <span aria-hidden="true">↓</span></button>
          <button type="button" class="btn" onClick=${() => saveJson(shown)} aria-label=${t("usage.save.json")}>${t("usage.json")} <span aria-hidden="true">↓</span></button></span>` : null}</span></div>
    ${shown === null ? null : shown.days.total.turns ? html`<${Report} shown=${shown} choices=${choices} choose=${choose} />` : html`<${Nothing} period=${shown.period} choose=${choose} />`}</div></main>`;
}

/** Be told, now and then, that turns have ended.  @param {() => void} tell */
function whenTurnsEnd(tell) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const soon = () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      tell();
    }, PAUSE_MS);
  };
  const stops = [on("run", (change) => ENDED.includes(change.run?.state) && soon()), on("removed", soon)];
  return () => {
    clearTimeout(timer);
    stops.forEach((stop) => stop());
  };
}

/** @param {Found} shown */
function range(shown) {
  const { spans } = spansOf(shown);
  const [first, last] = [spans[0]?.from, spans.at(-1)?.to];
  if (!first || !last || !shown.days.sums.length) return "";
  return new Intl.DateTimeFormat(language.value, { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" }).formatRange(Date.parse(first), Date.parse(last));
}

/** @param {{period: string, choose: (change: Partial<Choices>) => void}} props */
function Nothing({ period, choose }) {
  const first = period === "all" || conversations.value.size === 0;
  return html`<div class="empty"><h1>${t(first ? "usage.empty.title" : "usage.empty.period")}</h1><p>${t("usage.empty.body")}</p>
    ${first
      ? html`<figure class="block"><figcaption><span class="cap">${t("empty.terminal")}</span><${Copy} text=${EXAMPLE} /></figcaption><pre dir="ltr"><code>${EXAMPLE}</code></pre></figure>`
      : html`<p><button type="button" class="btn" onClick=${() => choose({ period: "all" })}>${t("usage.empty.all")}</button></p>`}</div>`;
}

/** @param {{shown: Found, choices: Choices, choose: (change: Partial<Choices>) => void}} props */
function Report({ shown, choices, choose }) {
  const { step, spans } = useMemo(() => spansOf(shown), [shown]);
  return html`<${Figures} shown=${shown} />
    <${OverTime} shown=${shown} spans=${spans} step=${step} choices=${choices} choose=${choose} />
    <${SumTable} title=${t("usage.by.mode")} kind="mode" statistics=${shown.modes} />
    <div class="grid2"><${Saved} shown=${shown} spans=${spans} step=${step} /><${CacheTable} versions=${shown.versions} total=${shown.days.total} /></div>
    <${SumTable} title=${t("usage.by.agent")} kind="agent" statistics=${shown.agents} />
    <${SumTable} title=${t("usage.by.conversation")} kind="conversation" statistics=${shown.conversations} />
    <${PredictionTable} statistics=${shown.agents} />
    <${UnpaidTable} turns=${shown.unpaid} resumed=${shown.days.total.resumed} />`;
}

/** @param {{shown: Found}} props */
function Figures({ shown }) {
  const { total } = shown.days;
  const { usage, turns } = total;
  const each = (/** @type {number | null} */ value) => (value === null ? null : value / turns);
  const whole = total.cost_usd === null || total.saved_usd === null ? null : total.cost_usd + total.saved_usd;
  const figures = [
    ["cost", money(total.cost_usd, total.cost_estimated), total.cost_usd === null ? t("usage.cost.unknown") : t("usage.each", { amount: money(each(total.cost_usd)) })],
    ["saved", money(total.saved_usd, total.saved_usd !== null), t("usage.saved.of", { amount: money(whole, whole !== null) })],
    ["turns", String(turns), t("usage.turns.resumed", { count: total.resumed, share: percent(total.resumed / turns) })],
    ["hits", percent(hits(usage)), t("usage.hits.of", { read: tokens(usage.cache_read), all: tokens(sent(usage)) })],
    ["new", tokens(fresh(usage)), t("usage.each", { amount: tokens(round(each(fresh(usage)))) })],
    ["out", tokens(usage.output), t("usage.each", { amount: tokens(round(each(usage.output))) })],
  ];
  return html`<dl class="figs">${figures.map(([name, value, more]) => html`<div key=${name} data-figure=${name}><dt>${t(`usage.figure.${name}`)}</dt><dd>${value}<small>${more}</small></dd></div>`)}</dl>`;
}

/** @param {number | null} value */
const round = (value) => (value === null ? null : Math.round(value));

/** @param {string} measure */
const formatOf = (measure) => (measure === "cost" ? (/** @type {number | null | undefined} */ value) => money(value) : tokens);

/** On the axis: $2, not $2.00.  @param {string} measure */
const tickOf = (measure) => (/** @type {number} */ value) =>
  measure === "cost" ? `$${Number(value.toPrecision(6))}` : tokens(value).replace(".0", "");

/** The name of what is stacked.  @param {string} split @param {string} name @param {number} others */
function nameOf(split, name, others) {
  if (name === REST) return t("usage.rest", { count: others });
  if (split === "mode") return name ? t(`mode.${name}`) : t("usage.nomode");
  return line(split === "agent" ? label(name) : conversations.value.get(name)?.title || name, 60);
}

/** @param {{shown: Found, spans: Span[], step: string, choices: Choices, choose: (change: Partial<Choices>) => void}} props */
function OverTime({ shown, spans, step, choices, choose }) {
  const { measure } = choices;
  const split = shown.days.split ?? "mode";
  const series = useMemo(() => seriesOf(shown, spans, measure), [shown, spans, measure]);
  const places = useMemo(() => spans.map((each) => dayText(each.from, step === "month" ? { month: "short", year: "2-digit" } : undefined)), [spans, language.value]);
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const [pointed, setPointed] = useState(/** @type {string | null} */ (null));
  const format = formatOf(measure);
  const point = at !== null ? spans[at] : undefined;
  const total = amount(shown.days.total, measure);
  const title = t(`usage.per.${step}`, { measure: t(`usage.figure.${measure}`) });
  const others = new Set(spans.flatMap((each) => each.sums.flatMap((sum) => sum.parts.map((part) => part.name)))).size - series.length + 1;
  const names = series.map((each) => nameOf(split, each.name, others));
  const only = pointed !== null && series.some((each) => each.name === pointed) ? pointed : null;
  return html`<section class="part"><h2>${title}<span class="r">
      <${Choice} label=${t("usage.measure")} value=${measure} onChange=${(/** @type {string} */ value) => choose({ measure: value })} options=${MEASURES.map((each) => [each, t(`usage.measure.${each}`)])} />
      <${Choice} label=${t("usage.split")} value=${choices.split} onChange=${(/** @type {string} */ value) => choose({ split: value })} options=${SPLITS.map((each) => [each, t(`usage.split.${each}`)])} /></span></h2>
    <div class="stack"><${Chart} kind="bars" label=${t("usage.chart", { title, range: range(shown), total: format(total) })} places=${places} series=${series} format=${tickOf(measure)} only=${only} onPoint=${setAt} />
      <div class="key"><p class="key-head"><span>${point ? spanText(point, step) : t("usage.period.whole")}</span><b>${point && !point.sums.length ? t("usage.noturns") : format(point ? sumAt(series, at ?? 0) : total)}</b></p>
        <${Legend} split=${split} series=${series} names=${names} at=${point ? at : null} format=${format} only=${only} onOnly=${setPointed} /></div></div>
    <${AsTable} title=${title} spans=${spans} step=${step} series=${series} names=${names} format=${format} /></section>`;
}

/** @param {Series[]} series @param {number} at */
function sumAt(series, at) {
  const known = series.map((each) => each.values[at] ?? null).filter((each) => each !== null);
  return known.length ? known.reduce((sum, each) => sum + each, 0) : null;
}

const ROW = 26;
const BAR = 12;
const REACH = 22;

/** The shares as one bar, with the names beside their parts.
 * @param {{split: string, series: Series[], names: string[], at: number | null, format: (value: number | null) => string, only: string | null, onOnly: (name: string | null) => void}} props */
function Legend({ split, series, names, at, format, only, onOnly }) {
  const values = series.map((each) => (at === null ? each.total : (each.values[at] ?? null)));
  const all = values.reduce((sum, each) => (sum ?? 0) + (each ?? 0), 0) ?? 0;
  const height = series.length * ROW;
  let top = height;
  const pieces = series.map((each, place) => {
    const size = all ? ((values[place] ?? 0) / all) * height : 0;
    top -= size;
    return { each, size, top, middle: top + size / 2, row: height - (place + 0.5) * ROW };
  });
  return html`<div class="legend"><svg class="shares" width=${BAR + REACH} height=${height} aria-hidden="true">
      ${pieces.map(({ each, size, top: y, middle, row }) => html`<g key=${each.name} class="${each.shade} ${only !== null && only !== each.name ? "pale" : ""}">
        <rect class="fill" x="0" y=${y} width=${BAR} height=${Math.max(0, size - 1)} />
        ${size > 0 ? html`<path class="lead" d=${`M${BAR + 2} ${middle}C${BAR + 12} ${middle} ${BAR + 10} ${row} ${BAR + REACH - 2} ${row}`} />` : null}</g>`)}</svg>
    <ol reversed>${[...pieces].reverse().map(({ each }) => {
      const place = series.indexOf(each);
      const share = all && values[place] != null ? (values[place] ?? 0) / all : null;
      return html`<li key=${each.name}><button type="button" aria-pressed=${String(only === each.name)} onClick=${() => onOnly(only === each.name ? null : each.name)}
          onPointerEnter=${(/** @type {PointerEvent} */ event) => event.pointerType === "mouse" && onOnly(each.name)} onPointerLeave=${(/** @type {PointerEvent} */ event) => event.pointerType === "mouse" && onOnly(null)}>
        <span class="n">${split === "mode" && each.name ? html`<${Mode} mode=${each.name} />` : html`<i class="swatch ${each.shade}" aria-hidden="true"></i>${names[place]}`}</span>
        ${at === null || each.turns[at] ? html`<span class="v">${format(values[place] ?? null)}</span><span class="s">${percent(share)}</span>` : null}</button></li>`;
    })}</ol></div>`;
}

/** The same numbers as text.  @param {{title: string, spans: Span[], step: string, series: Series[], names: string[], format: (value: number | null) => string}} props */
function AsTable({ title, spans, step, series, names, format }) {
  const rows = spans.map((span, at) => ({ span, at })).filter(({ span }) => span.sums.length).reverse();
  return html`<details class="as-table"><summary>${t("usage.table")}</summary>
    <${Table} name=${title} heads=${[[t("usage.when")], [t("usage.figure.turns"), "num"], ...names.map((each) => [each, "num"]), [t("usage.total"), "num"]]}
      rows=${rows.map(({ span, at }) => ({ id: span.from, cells: [spanText(span, step), span.sums.reduce((sum, each) => sum + each.turns, 0), ...series.map((each) => (each.turns[at] ? format(each.values[at] ?? null) : "")), format(sumAt(series, at))] }))} /></details>`;
}

/** @param {{shown: Found, spans: Span[], step: string}} props */
function Saved({ shown, spans, step }) {
  const { total } = shown.days;
  const { whole, paid } = useMemo(() => savedOf(spans), [spans]);
  const places = useMemo(() => spans.map((each) => dayText(each.from, step === "month" ? { month: "short", year: "2-digit" } : undefined)), [spans, language.value]);
  const series = useMemo(() => [{ name: "whole", shade: "line-whole", values: whole }, { name: "paid", shade: "line-paid", values: paid }], [whole, paid]);
  const [all, real] = [whole.at(-1) ?? 0, paid.at(-1) ?? 0];
  const notes = useMemo(() => [{ at: all, text: t("usage.saved.whole", { usd: money(all) }) }, { at: real, text: t("usage.saved.paid", { usd: money(real) }) }].sort((a, b) => b.at - a.at), [all, real, language.value]);
  return html`<section class="part"><h2>${t("usage.saved.title")}<span class="r">${t("usage.saved.sum")}</span></h2>
    ${total.saved_usd === null
      ? html`<p class="none">${t("usage.saved.unknown")}</p>`
      : html`<${Chart} kind="lines" height=${196} label=${t("usage.saved.chart", { whole: money(all), paid: money(real), saved: money(total.saved_usd) })} places=${places} series=${series} format=${tickOf("cost")} notes=${notes} />
        <p class="none">${t(total.saved_usd < 0 ? "usage.saved.lost" : "usage.saved.text", { usd: money(Math.abs(total.saved_usd)) })}</p>`}</section>`;
}
