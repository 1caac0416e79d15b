// The ladder: each way to carry the past, what rules it out or what it would cost, and every check with its reason.
import { html } from "./lib.js";
import { capital, money, percent, tokens } from "./format.js";
import { t } from "./strings.js";
import { Mode } from "./parts.js";
import { reason } from "./reasons.js";

/** @typedef {import("./types").RungShown} Rung */
/** @typedef {import("./types").Check} Check */

const SIGNS = /** @type {Record<string, string>} */ ({ chosen: "✓", barred: "✗", impossible: "–", open: "·" });
const SIDES = /** @type {Record<string, string>} */ ({ chosen: "on", barred: "no", impossible: "", open: "" });

/** @param {{rungs: Rung[]}} props */
export function Ladder({ rungs }) {
  const shown = rungs.filter((each) => each.mode !== "graft" || each.state === "chosen" || each.why !== "off");
  return html`<ol class="ladder">${shown.map((rung) => html`<li key=${rung.mode} class="${SIDES[rung.state] ?? ""} ${rung.state === "chosen" ? rung.mode : ""}">
    <span class="v" aria-hidden="true">${SIGNS[rung.state] ?? "·"}</span><${Mode} mode=${rung.mode} />
    <span><span class="vh">${t(`rung.${rung.state}`)}. </span>${rung.state === "barred" || rung.state === "impossible" ? sentence(reason(rung.why, rung.clauses)) || t(`rung.${rung.state}`) : t(`rung.${rung.mode}`)}</span>
    <span class="p">${rung.usd === null ? (rung.new_tokens === null ? "" : t("turn.new", { count: tokens(rung.new_tokens) })) : money(rung.usd, true)}
      ${rung.new_tokens === null || rung.usd === null ? null : html`<small>${t("turn.new", { count: tokens(rung.new_tokens) })}</small>`}</span></li>`)}</ol>`;
}

/** @param {string} said */
export const sentence = (said) => said && `${capital(said)}${/[.。]$/.test(said) ? "" : t("stop.sign")}`;

/** What stands beside a check that passes: a number, if it has one.
 * @param {Check & {said: string}} check */
function figure({ verdict, said, clauses: [first] = [] }) {
  if (verdict !== "pass") return "";
  if (first?.code === "pressure.share") return percent(Number(first.values?.share));
  return said.length < 14 ? said : "";
}

/** @param {{checks: Check[]}} props */
export function Checks({ checks }) {
  const count = (/** @type {string} */ verdict) => checks.filter((each) => each.verdict === verdict).length;
  const all = checks.map((each) => ({ ...each, said: reason(each.detail, each.clauses) }));
  const told = all.filter((each) => each.verdict === "fail" || (each.said && !figure(each)));
  return html`<section class="sec"><h2>${t("checks")} <span class="r">${t("checks.sum", { pass: count("pass"), fail: count("fail"), skip: count("skip") })}</span></h2>
    <ul class="checks">${all.map((each) => html`<li key=${each.check} class=${{ pass: "", fail: "x", skip: "o" }[each.verdict]} title=${each.said}>
      <span class="vh">${t(`verdict.${each.verdict}`)}: </span>${each.check} <small>${figure(each)}</small></li>`)}</ul>
    ${told.map(({ check, verdict, said, bars }) => html`<p class="why" key=${check}><b class=${verdict === "fail" ? "t-failed" : ""}>${check}</b> ${sentence(said)}${bars.length ? html` ${t("check.bars", { modes: bars.map((mode) => t(`mode.${mode}`)).join(", ") })}` : null}</p>`)}
  </section>`;
}
