// The tables of usage: by mode, agent and conversation; cache, predictions, and what did not pay.
import { html, useState } from "./lib.js";
import { conversations, label } from "./data.js";
import { line, moment, money, percent, tokens, when } from "./format.js";
import { reason } from "./reasons.js";
import { link } from "./route.js";
import { t } from "./strings.js";
import { Mode } from "./parts.js";
import { MODES, fresh, hits, sent } from "./usage-data.js";

/** @typedef {import("./usage-data.js").Sum} Sum */
/** @typedef {import("./usage-data.js").Statistics} Statistics */
/** @typedef {{id: string, cells: unknown[]}} Row */

const FIRST = 10;

/** A table that becomes a list of cards where it would be too wide.
 * @param {{name: string, heads: [string, string?][], rows: Row[]}} props */
export function Table({ name, heads, rows }) {
  return html`<div class="tw" tabindex="0" role="region" aria-label=${name}><table class="sums"><thead><tr>
      ${heads.map(([text, kind]) => html`<th scope="col" class=${kind}>${text}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.id}>${row.cells.map((cell, at) => html`<td class=${heads[at]?.[1]} data-label=${heads[at]?.[0]}>${cell}</td>`)}</tr>`)}</tbody></table></div>`;
}

/** @param {{title: string, kind: string, statistics: Statistics}} props */
export function SumTable({ title, kind, statistics }) {
  const [all, setAll] = useState(false);
  const sums = kind === "mode" ? [...statistics.sums].sort((a, b) => MODES.indexOf(a.name) - MODES.indexOf(b.name)) : statistics.sums;
  const cost = statistics.total.cost_usd;
  const byMode = kind === "mode";
  const rows = (all ? sums : sums.slice(0, FIRST)).map((each) => ({
    id: each.name,
    cells: [
      html`<${Name} kind=${kind} name=${each.name} />`,
      String(each.turns),
      byMode ? percent(each.turns / statistics.total.turns) : percent(each.resumed / each.turns),
      tokens(fresh(each.usage)),
      tokens(each.usage.cache_read),
      tokens(each.usage.output),
      money(each.cost_usd, each.cost_estimated),
      percent(each.cost_usd === null || !cost ? null : each.cost_usd / cost),
      money(each.cost_usd === null ? null : each.cost_usd / each.turns),
      money(each.saved_usd),
    ],
  }));
  return html`<section class="part" data-table=${kind}><h2>${title}</h2>
    <${Table} name=${title} heads=${[[t(`usage.split.${kind}`), "name"], [t("usage.figure.turns"), "num"], [t(byMode ? "usage.share.turns" : "usage.share.resumed"), "num"],
      [t("usage.measure.new"), "num"], [t("usage.measure.cached"), "num"], [t("usage.measure.out"), "num minor"], [t("usage.measure.cost"), "num"], [t("usage.share"), "num minor"], [t("usage.turn"), "num minor"], [t("usage.saved.short"), "num"]]} rows=${rows} />
    ${sums.length > FIRST ? html`<button type="button" class="btn quiet small more" aria-expanded=${String(all)} onClick=${() => setAll(!all)}>${all ? t("usage.fewer") : t("usage.more", { count: sums.length - FIRST })}</button>` : null}</section>`;
}

/** @param {{kind: string, name: string}} props */
function Name({ kind, name }) {
  if (kind === "mode") return name ? html`<${Mode} mode=${name} />` : html`<span class="dim">${t("usage.nomode")}</span>`;
  if (kind === "agent") return html`<span title=${line(name)}>${line(label(name), 60)}</span>`;
  const title = conversations.value.get(name)?.title;
  return html`<a class="to" href=${link("conversations", name)} rel="noreferrer"><span>${line(title || name, 90)}</span>${title && title !== name ? html` <span class="dim">${line(name, 60)}</span>` : null}</a>`;
}

/** @param {{share: number | null, label: string}} props */
const Share = ({ share, label: said }) => html`<svg class="bar" viewBox="0 0 100 5" preserveAspectRatio="none" role="img" aria-label=${said}>
  <rect class="bg" width="100" height="5" /><rect width=${100 * (share ?? 0)} height="5" /></svg>`;

/** @param {{versions: Statistics, total: Sum}} props */
export function CacheTable({ versions, total }) {
  const sums = [...versions.sums].sort((a, b) => (a.name < b.name ? -1 : 1));
  const rows = sums.map((each) => {
    const [agent = "", ...version] = each.name.split(" ");
    const share = hits(each.usage);
    return {
      id: each.name,
      cells: [
        html`${line(label(agent), 40)} <span class="dim">${line(version.join(" "), 30) || t("usage.version.unknown")}</span>`,
        share === null ? "–" : html`<${Share} share=${share} label=${percent(share)} />`,
        html`<b>${percent(share)}</b>`,
        t("usage.of", { part: tokens(each.usage.cache_read), all: tokens(sent(each.usage)) }),
      ],
    };
  });
  return html`<section class="part" data-table="version"><h2>${t("usage.cache.title")}<span class="r">${t("usage.cache.all", { share: percent(hits(total.usage)) })}</span></h2>
    <${Table} name=${t("usage.cache.title")} heads=${[[t("usage.cache.agent"), "name"], [t("usage.cache.bar"), "wide"], [t("usage.share"), "num"], [t("usage.measure.tokens"), "num"]]} rows=${rows} /></section>`;
}

/** How far from 1 the picture of a ratio reaches, in both directions. */
const REACH = 2;

/** Twice as dear is as far to the right as half as dear is to the left.  @param {{ratio: number | null}} props */
function Off({ ratio }) {
  if (ratio === null) return null;
  const off = Math.max(-1, Math.min(1, Math.log(ratio) / Math.log(REACH)));
  return html`<svg class="bar off" viewBox="0 0 100 5" preserveAspectRatio="none" aria-hidden="true"><rect class="bg" width="100" height="5" />
    <rect x=${50 + Math.min(0, 50 * off)} width=${Math.max(0.5, 50 * Math.abs(off))} height="5" /><rect class="tick" x="49.7" width=".6" height="5" /></svg>`;
}

/** @param {{statistics: Statistics}} props */
export function PredictionTable({ statistics }) {
  const known = [...statistics.sums, ...(statistics.sums.length > 1 ? [statistics.total] : [])].filter((each) => each.predicted_usd !== null);
  const rows = known.map((each) => {
    const [before, after] = [each.predicted_usd ?? 0, each.predicted_cost_usd ?? 0];
    const ratio = before > 0 && after > 0 ? after / before : null;
    return {
      id: each.name,
      cells: [each.name ? line(label(each.name), 60) : html`<b>${t("usage.total")}</b>`, money(before), money(each.predicted_cost_usd), money(each.predicted_cost_usd === null ? null : after - before),
        html`<${Off} ratio=${ratio} />`, ratio === null ? "–" : `${ratio.toFixed(2)} ×`],
    };
  });
  return html`<section class="part" data-table="prediction"><h2>${t("usage.prediction.title")}<span class="r">${t("usage.prediction.note")}</span></h2>
    ${rows.length
      ? html`<${Table} name=${t("usage.prediction.title")} heads=${[[t("usage.split.agent"), "name"], [t("usage.prediction.before"), "num"], [t("usage.prediction.after"), "num"], [t("usage.prediction.off"), "num"], [t("usage.prediction.bar"), "wide"], [t("usage.prediction.ratio"), "num"]]} rows=${rows} />`
      : html`<p class="none">${t("usage.prediction.none")}</p>`}</section>`;
}

/** @param {{turns: import("./usage-data.js").Unpaid[], resumed: number}} props */
export function UnpaidTable({ turns, resumed }) {
  const [all, setAll] = useState(false);
  const lost = turns.reduce((sum, each) => sum + Math.max(0, -(each.saved_usd ?? 0)), 0);
  const rows = (all ? turns : turns.slice(0, FIRST)).map((each) => ({
    id: each.run,
    cells: [
      html`<a class="to" href=${link("conversations", each.conversation, each.message)} rel="noreferrer"><span>${line(conversations.value.get(each.conversation)?.title || each.conversation, 60)}</span></a>`,
      html`<time title=${moment(each.created)}>${when(each.created)}</time>`,
      line(label(each.agent), 40),
      html`<${Mode} mode=${each.mode} />`,
      money(each.cost_usd),
      money(each.saved_usd === null ? null : Math.max(0, -each.saved_usd)),
      line(reason(each.reason, each.clauses), 400),
    ],
  }));
  return html`<section class="part" data-table="unpaid"><h2>${t("usage.unpaid.title")}<span class="dim">${turns.length ? t("usage.unpaid.sum", { count: turns.length, resumed, usd: money(lost) }) : ""}</span><span class="r">${t("usage.unpaid.note")}</span></h2>
    ${rows.length
      ? html`<${Table} name=${t("usage.unpaid.title")} heads=${[[t("turn"), "name"], [t("usage.when"), "nw"], [t("usage.split.agent"), "nw"], [t("usage.split.mode"), "nw"], [t("usage.measure.cost"), "num"], [t("usage.unpaid.lost"), "num"], [t("why"), "after"]]} rows=${rows} />`
      : html`<p class="none">${t("usage.unpaid.none", { resumed })}</p>`}
    ${turns.length > FIRST ? html`<button type="button" class="btn quiet small more" aria-expanded=${String(all)} onClick=${() => setAll(!all)}>${all ? t("usage.fewer") : t("usage.more", { count: turns.length - FIRST })}</button>` : null}</section>`;
}
