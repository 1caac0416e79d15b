// What sending will do and cost, in one line above the entry.
import { html, signal } from "./lib.js";
import { conversations, label } from "./data.js";
import { capital, home, limits, money, tokens } from "./format.js";
import { t } from "./strings.js";
import { sentence } from "./ladder.js";
import { Gauge, Mode } from "./parts.js";
import { notices, reason } from "./reasons.js";
import { select } from "./selection.js";

/** @typedef {import("./types").Why} Why */

const KEEPS = ["resume", "branch"];
/** @typedef {{key: string | null | undefined, plan: Why | null, problem: string}} Planned */
/** What sending the draft would do, or why that is not known. The line and the panel show the same. */
export const planned = signal(/** @type {Planned} */ ({ key: undefined, plan: null, problem: "" }));

/** @param {string | null} key @returns {Planned} */
export const plannedFor = (key) => (planned.value.key === key ? planned.value : { key, plan: null, problem: "" });

/** @param {{draft: import("./composer.js").Draft, busy: boolean, key_: string | null}} props */
export function PlanLine({ draft, busy, key_ }) {
  const { plan, problem } = plannedFor(key_);
  if (plan === null) return html`<p class="plan" role="status"><span class=${problem && "t-failed"}>${capital(problem) || t("plan.unknown")}</span></p>`;
  // The turn that runs may begin the session that the next one continues.
  if (busy && plan.session_id === null) return html`<p class="plan" role="status">${t("plan.later")}</p>`;
  const rung = plan.rungs.find((each) => each.mode === plan.mode);
  const earlier = Math.max(0, plan.sends.text_messages - 1);
  const kind = plan.mode === "resume" && earlier ? "catchup" : plan.mode === "fresh" && key_ === null ? "first" : plan.mode;
  const counted = (kind === "catchup" || kind === "replay") && earlier === 1 ? `${kind}.one` : kind;
  const context = KEEPS.includes(plan.mode) ? conversations.value.get(key_ ?? "")?.context : null;
  const said = t(`plan.${counted}`, { agent: label(plan.agent), count: earlier, cwd: home(plan.cwd) });
  const remarks = [...because(plan, draft), ...notices(plan).map(sentence)];
  return html`<p class="plan" role="status"><${Mode} mode=${plan.mode} button=${true} onClick=${() => select(null)}
      name=${`${t(`mode.${plan.mode}`)}: ${t("plan.why")}`} /><span>${said}${busy ? t("plan.queued") : ""}${said.endsWith(".") || !costs(rung).length ? "" : ":"}
    ${costs(rung).map((each, at) => html`${at ? ", " : " "}${each}`)}
    ${remarks.length ? html`. <span class="because">${remarks.join(" ")}</span>` : null}</span><${Gauge} used=${context?.used ?? null} window=${context?.window ?? null} /><${Limit} all=${plan.limits} /></p>`;
}

/** What is known of its price; an empty message adds nothing.  @param {import("./types").RungShown | undefined} rung */
const costs = (rung) => [
  rung?.new_tokens ? html`<b>${t("plan.new", { count: tokens(rung.new_tokens) })}</b>` : null,
  rung?.cached_tokens ? t("plan.cached", { count: tokens(rung.cached_tokens) }) : null,
  typeof rung?.usd === "number" ? html`<b>${money(rung.usd, true)}</b>` : null,
].filter((each) => each !== null);

/** How much of the account's fullest limit is used.  @param {{all: Why["limits"]}} props */
function Limit({ all }) {
  const said = limits(all);
  const hot = all?.some((each) => (each.used ?? 0) >= 0.9);
  return said.length ? html`<span class=${hot ? "limit t-needs" : "limit"} title=${said.join("\n")}>${said[0]}</span>` : null;
}

/** Why it is dearer than it could be, and what to do about it.  @param {Why} plan @param {import("./composer.js").Draft} draft */
function because(plan, draft) {
  if (KEEPS.includes(plan.mode) || draft.fresh || draft.blank) return [];
  const barring = plan.checks.find((each) => each.verdict === "fail" && each.bars.includes("resume") && each.detail);
  if (!barring || (barring.check === "pin" && plan.mode === "fresh")) return [];
  const cheaper = plan.rungs.find((each) => each.mode === "resume")?.usd ?? null;
  const advice = barring.check === "workdir" && plan.session_cwd ? [t("plan.cwd", { cwd: home(plan.session_cwd) })] : [];
  return [sentence(reason(barring.detail, barring.clauses)), ...advice, ...(cheaper === null ? [] : [t("plan.would", { usd: money(cheaper, true) })])];
}

