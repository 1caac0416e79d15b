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
const sentence = (said) => said && `${capital(said)}${/[.。]$/.test(said) ? "" : t("stop.sign")}`;

/** What stands beside a check that passes: a number, if it has one.  @param {Check["clauses"]} clauses @param {string} said */
function figure([first] = [], said = "") {
  if (first?.code === "pressure.share") return percent(Number(first.values?.share));
  return said.length < 14 ? said : "";
}

/** @param {{checks: Check[]}} props */
export function Checks({ checks }) {
  const count = (/** @type {string} */ verdict) => checks.filter((each) => each.verdict === verdict).length;
  const all = checks.map((each) => ({ ...each, said: reason(each.detail, each.clauses) }));
  const failed = all.filter((each) => each.verdict === "fail");
  return html`<section class="sec"><h2>${t("checks")} <span class="r">${t("checks.sum", { pass: count("pass"), fail: count("fail"), skip: count("skip") })}</span></h2>
    <ul class="checks">${all.map(({ check, verdict, said, clauses }) => html`<li key=${check} class=${{ pass: "", fail: "x", skip: "o" }[verdict]} title=${said}>
      <span class="vh">${t(`verdict.${verdict}`)}: </span>${check}${verdict === "pass" ? html` <small>${figure(clauses, said)}</small>` : null}</li>`)}</ul>
    ${failed.map(({ check, said, bars }) => html`<p class="why" key=${check}><b class="t-failed">${check}</b> ${sentence(said)}${bars.length ? html` ${t("check.bars", { modes: bars.map((mode) => t(`mode.${mode}`)).join(", ") })}` : null}</p>`)}
  </section>`;
}
