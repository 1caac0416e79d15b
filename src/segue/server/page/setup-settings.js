// The settings in effect, in words, each with its name in the configuration.
import { html } from "./lib.js";
import { bytes, duration, home, line, money, percent } from "./format.js";
import { notices } from "./reasons.js";
import { t } from "./strings.js";

/** @typedef {import("./types").SettingsShown} Shown */

const GROUPS = /** @type {const} */ (["defaults", "continuity", "recap", "limits", "budgets", "carry", "queue", "keep", "retention", "daemon"]);
const FILES = /** @type {const} */ (["home", "config_file", "project", "store", "host"]);
const LONG_MS = 36e5;

/** How numbers are written; everything else is written as in the file.  @type {Record<string, (value: number) => string>} */
const UNITS = {
  "continuity.ttl_minutes": (value) => (value ? duration(60_000 * value) : t("set.never")),
  "continuity.context_threshold": percent,
  "continuity.max_session_mb": megabytes,
  "recap.max_bytes": bytes,
  "keep.max_mb": megabytes,
  "keep.max_session_mb": megabytes,
  "keep.days": days,
  "retention.days": days,
  "daemon.port": (value) => (value ? String(value) : t("set.free")),
  "daemon.idle_exit": seconds,
  "defaults.timeout": seconds,
  "defaults.wait": seconds,
  "defaults.question_timeout": seconds,
  "defaults.budget": (value) => money(value),
  "budgets.conversation": budget,
  "budgets.day": budget,
};

/** @param {number} value */
function megabytes(value) {
  return bytes(value * 1024 * 1024);
}

/** @param {number} value */
function budget(value) {
  return value ? money(value) : t("set.unset");
}

/** @param {number} value */
function days(value) {
  return t(value === 1 ? "set.day" : "set.days", { count: value });
}

/** @param {number} value */
function seconds(value) {
  const ms = 1000 * value;
  return ms < LONG_MS && value % 60 === 0 && value ? t("set.minutes", { count: value / 60 }) : duration(ms);
}

/** @param {string} name @param {unknown} value */
function shown(name, value) {
  if (value === null || value === undefined || value === "") return html`<span class="dim">${t("set.unset")}</span>`;
  if (typeof value === "boolean") return t(value ? "setup.yes" : "setup.no");
  if (typeof value === "number") return (UNITS[name] ?? String)(value);
  if (Array.isArray(value)) return value.length ? html`<code>${line(value.join(", "), 300)}</code>` : html`<span class="dim">${t("set.empty")}</span>`;
  return html`<code>${line(typeof value === "string" ? value : JSON.stringify(value), 300)}</code>`;
}

/** A key that this page does not know yet is shown by its name.  @param {string} name @param {string} key */
function named(name, key) {
  const text = t(name);
  return text === name ? key : text;
}

/** @param {{settings: Shown}} props */
export function Settings({ settings }) {
  const prices = Object.entries(settings.prices);
  return html`<section class="part" id="settings"><h2>${t("setup.settings")} <span class="r">${t("setup.settings.help")}</span></h2>
    ${notices(settings).map((each) => html`<p class="why" key=${each}>! ${each}</p>`)}
    <div class="groups"><${Group} name="files" entries=${FILES.map((key) => [key, home(settings[key] ?? "") || null])} keys=${false} />
      ${GROUPS.map((group) => html`<${Group} key=${group} name=${group} entries=${Object.entries(settings[group] ?? {})} />`)}
      ${settings.agents.length ? html`<${Group} name="programs" entries=${settings.agents.map((each) => [each.agent, each.program])} plain=${true} keys=${false} />` : null}</div>
    ${prices.length ? html`<details class="fold"><summary>${t("set.prices", { count: prices.length })}</summary><div class="tw" tabindex="0" role="group" aria-label=${t("set.prices", { count: prices.length })}><table><thead><tr><th>${t("pick.model")}</th>
      <th class="num">${t("set.price.input")}</th><th class="num">${t("set.price.cache_read")}</th><th class="num">${t("set.price.cache_write")}</th><th class="num">${t("set.price.output")}</th><th>${t("set.price.dated")}</th></tr></thead>
      <tbody>${prices.map(([model, price]) => html`<tr key=${model}><td class="mono">${line(model, 60)}</td><td class="num">${money(price.input)}</td><td class="num">${money(price.cache_read)}</td><td class="num">${money(price.cache_write)}</td><td class="num">${money(price.output)}</td><td class="nw">${price.dated}</td></tr>`)}</tbody></table></div></details>` : null}</section>`;
}

/** @param {{name: string, entries: [string, unknown][], keys?: boolean, plain?: boolean}} props */
const Group = ({ name, entries, keys = true, plain = false }) => html`<section class="group"><h3>${t(`set.${name}`)} ${keys ? html`<code class="dim">[${name}]</code>` : null}</h3>
  <dl class="rows">${entries.map(([key, value]) => html`<div key=${key}><dt>${plain ? key : named(`set.${name}.${key}`, key)}${keys ? html` <code class="dim">${key}</code>` : null}</dt><dd>${shown(`${name}.${key}`, value)}</dd></div>`)}</dl></section>`;
