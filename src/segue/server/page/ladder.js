// The ladder: each way to carry the past, what rules it out or what it would cost, and every check with its reason.
import { html } from "./lib.js";
import { money, tokens } from "./format.js";
import { t } from "./strings.js";
import { Mode } from "./parts.js";

/** @typedef {import("./types").RungShown} Rung */
/** @typedef {import("./types").Check} Check */

const SIGNS = /** @type {Record<string, string>} */ ({ chosen: "✓", barred: "✗", impossible: "–", open: "·" });
const SIDES = /** @type {Record<string, string>} */ ({ chosen: "on", barred: "no", impossible: "", open: "" });

/** @param {{rungs: Rung[]}} props */
export function Ladder({ rungs }) {
  const shown = rungs.filter((each) => each.mode !== "graft" || each.state === "chosen" || each.why !== "off");
  return html`<ol class="ladder">${shown.map((rung) => html`<li key=${rung.mode} class="${SIDES[rung.state] ?? ""} ${rung.state === "chosen" ? rung.mode : ""}">
    <span class="v" aria-hidden="true">${SIGNS[rung.state] ?? "·"}</span><${Mode} mode=${rung.mode} />
    <span><span class="vh">${t(`rung.${rung.state}`)}. </span>${rung.state === "barred" || rung.state === "impossible" ? rung.why || t(`rung.${rung.state}`) : t(`rung.${rung.mode}`)}</span>
    <span class="p">${rung.usd === null ? (rung.new_tokens === null ? "" : t("turn.new", { count: tokens(rung.new_tokens) })) : money(rung.usd, true)}
      ${rung.new_tokens === null || rung.usd === null ? null : html`<small>${t("turn.new", { count: tokens(rung.new_tokens) })}</small>`}</span></li>`)}</ol>`;
}

/** @param {{checks: Check[]}} props */
export function Checks({ checks }) {
  const count = (/** @type {string} */ verdict) => checks.filter((each) => each.verdict === verdict).length;
  const failed = checks.filter((each) => each.verdict === "fail");
  return html`<section class="sec"><h2>${t("checks")} <span class="r">${t("checks.sum", { pass: count("pass"), fail: count("fail"), skip: count("skip") })}</span></h2>
    <ul class="checks">${checks.map((each) => html`<li key=${each.check} class=${{ pass: "", fail: "x", skip: "o" }[each.verdict]} title=${each.detail}>
      <span class="vh">${t(`verdict.${each.verdict}`)}: </span>${each.check}${each.detail && each.verdict === "pass" && each.detail.length < 14 ? html` <small>${each.detail}</small>` : null}</li>`)}</ul>
    ${failed.map((each) => html`<p class="why" key=${each.check}><b class="t-failed">${each.check}</b> ${each.detail}${each.bars.length ? html`. ${t("check.bars", { modes: each.bars.map((mode) => t(`mode.${mode}`)).join(", ") })}` : null}</p>`)}
  </section>`;
}
