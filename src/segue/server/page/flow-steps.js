// The steps of a flow as a table: who worked, how the session went on, what was sent, what came of it, what it cost.
import { html, signal, useEffect, useState } from "./lib.js";
import { get, post, segment } from "./api.js";
import { label, live, runs } from "./data.js";
import { bytes, clock, duration, line, money, plural, tokens, visible } from "./format.js";
import { go } from "./route.js";
import { t } from "./strings.js";
import { Agent, Copy, Mode, ask, attempt } from "./parts.js";
import { know } from "./flows-data.js";
import { partOf } from "./flow-words.js";
import { Artefact, Findings, Value, findingsOf, isBad, outcome, shortly, useAnswer } from "./flow-values.js";

/** @typedef {import("./types").FlowShown} Flow */
/** @typedef {import("./types").FlowStepShown} Step */

const now = signal(Date.now());

/** The time, second by second, while something is going on.  @param {boolean} on */
export function useNow(on) {
  useEffect(() => {
    if (!on) return undefined;
    now.value = Date.now();
    const timer = setInterval(() => (now.value = Date.now()), 1000);
    return () => clearInterval(timer);
  }, [on]);
  return now.value;
}

/** @param {number | null} a @param {number | null} b */
const plus = (a, b) => (a === null && b === null ? null : (a ?? 0) + (b ?? 0));
/** Tokens that were not in the cache.  @param {import("./types").Usage} usage */
export const fresh = (usage) => plus(usage.input, usage.cache_write);

/** Show a turn where it was said.  @param {string | null} conversation @param {string} run */
export const openTurn = (conversation, run) => attempt(async () => {
  const found = await get(`/runs/${segment(run)}`);
  go("conversations", found.conversation ?? conversation ?? "", found.message ?? "");
});

/** @param {{flow: Flow}} props */
export function Steps({ flow }) {
  const goesOn = flow.steps.some((step) => step.state === "running");
  const time = useNow(goesOn);
  const sent = flow.steps.map((step) => step.sent_bytes).filter((each) => each !== null);
  const heads = /** @type {[string, string][]} */ ([["step", ""], ["who", ""], ["mode", ""], ["sent", "num"], ["result", "after"], ["new", "num"], ["cached", "num"], ["out", "num"], ["time", "num"], ["cost", "num"]]);
  if (!flow.steps.length) return html`<p class="dim">${t("flow.nosteps")}</p>`;
  return html`<div class="tw" tabindex="0" role="region" aria-label=${t("flow.steps")}><table class="cards steps">
    <thead><tr>${heads.map(([name, kind]) => html`<th key=${name} class=${kind}>${t(`flow.col.${name}`)}</th>`)}</tr></thead>
    ${flow.steps.map((step) => html`<${OneStep} key=${step.key} flow=${flow} step=${step} time=${time} />`)}
    <tbody><tr class="total"><td colspan="3">${t("flow.total")}</td><td class="num" data-label=${t("flow.col.sent")}>${sent.length ? bytes(sent.reduce((sum, each) => sum + each, 0)) : ""}</td><td class="after"></td>
      <${Tokens} usage=${flow.usage} /><td class="num" data-label=${t("flow.col.time")}>${duration((flow.ended ?? time) - flow.created)}</td>
      <td class="num" data-label=${t("flow.col.cost")} data-sum="cost">${money(flow.cost_usd)}</td></tr></tbody></table></div>`;
}

/** @param {{usage: import("./types").Usage}} props */
const Tokens = ({ usage }) => html`<td class="num" data-label=${t("flow.col.new")}>${tokens(fresh(usage))}</td>
  <td class="num" data-label=${t("flow.col.cached")}>${tokens(usage.cache_read)}</td><td class="num" data-label=${t("flow.col.out")}>${tokens(usage.output)}</td>`;

/** @param {{flow: Flow, step: Step, time: number}} props */
function OneStep({ flow, step, time }) {
  const [isOpen, setOpen] = useState(false);
  const whole = useAnswer(step);
  const found = outcome(step, whole);
  const bad = step.state === "failed" || (found !== null && isBad(found));
  const mark = bad ? "✗" : { done: "✓", waiting: "?", running: "…", failed: "✗" }[step.state];
  const turn = step.kind === "turn";
  const tone = bad ? "t-failed" : step.state === "waiting" ? "t-needs" : step.state === "running" ? "t-run" : "";
  return html`<tbody class=${isOpen ? "on" : ""} data-step=${step.key}><tr><td class="key"><button type="button" class="stepkey" aria-expanded=${String(isOpen)} onClick=${() => setOpen(!isOpen)}>
      <span class="v ${tone}" aria-hidden="true">${mark}</span><span class="vh">${t(`flow.step.${step.state}`)}: </span>${line(step.key, 60)}</button></td>
    <td data-label=${t("flow.col.who")}>${turn ? html`<span class="who">${step.agent ? html`<${Agent} agent=${step.agent} label=${label(step.agent)} />` : null} ${partOf(step) || label(step.agent)} <span class="dim">${line(step.model ?? "", 40)}</span></span>` : html`<span class="dim">${t(`flow.kind.${step.kind}`)}${step.tier === null ? "" : `, ${partOf(step)}`}</span>`}</td>
    <td><${Mode} mode=${step.mode} /></td>
    <td class="num" data-label=${t("flow.col.sent")}>${step.sent_bytes === null ? "" : bytes(step.sent_bytes)}</td>
    <td class="after ${tone}" data-label=${t("flow.col.result")}>${said(step, found)}${step.tries > 1 ? html` <span class="dim">${t("flow.try", { n: step.tries })}</span>` : null}</td>
    ${turn ? html`<${Tokens} usage=${step.usage} />` : html`<td></td><td></td><td></td>`}
    <td class="num" data-label=${t("flow.col.time")}>${duration(Math.max(0, (step.ended ?? time) - step.began))}</td>
    <td class="num" data-label=${t("flow.col.cost")}>${step.cost_usd === null ? "" : money(step.cost_usd)}</td></tr>
    ${isOpen ? html`<tr class="sub"><td colspan="10"><${Details} flow=${flow} step=${step} found=${found} /></td></tr>` : null}</tbody>`;
}

/** What is to be said of a step in one line.  @param {Step} step @param {import("./flow-values.js").Outcome | null} found */
function said(step, found) {
  if (step.wake !== null && step.state !== "done") return t("flow.until", { time: clock(step.wake) });
  if (step.failure) return line(step.failure, 120);
  if (found) return shortly(found) || t(`flow.step.${step.state}`);
  if (step.state === "running" && step.run) {
    if (runs.value.get(step.run)?.questions.length) return html`<span class="t-needs">${t("flow.asks")}</span>`;
    const text = live.value.get(step.run)?.text;
    if (text) return line(text.slice(-90), 90);
  }
  return t(`flow.step.${step.state}`);
}

/** @param {{flow: Flow, step: Step, found: import("./flow-values.js").Outcome | null}} props */
function Details({ flow, step, found }) {
  const { kind, said: value, text } = found ?? { kind: "", said: null, text: "" };
  const block = kind === "verdict" || kind === "signal";
  const rest = block ? Object.fromEntries(Object.entries(value).filter(([name]) => !["findings", "verdict", "escalate"].includes(name) || (name === "findings" && kind === "signal"))) : null;
  const command = `segue flow retry-step ${flow.flow} ${step.key}`;
  return html`<div class="stepmore">
    ${step.failure ? html`<p class="t-failed">${visible(step.failure)}</p>` : null}
    ${kind === "verdict" ? html`<${Findings} findings=${findingsOf(value)} />` : null}
    ${rest ? html`<${Value} value=${rest} />` : kind === "value" ? html`<${Value} value=${value} />` : null}
    ${text ? html`<details class="fold" open=${!block}><summary>${t(step.kind === "turn" ? "flow.text" : "flow.output")}</summary><pre class="quote" tabindex="0" dir="auto">${visible(text)}</pre></details>` : null}
    ${step.artefact ? html`<${Artefact} name=${t("flow.whole")} hash=${step.artefact} />` : null}
    <p class="btns">${step.runs.map((run, at) => html`<button type="button" class="btn small" key=${run} onClick=${() => openTurn(step.conversation, run)}>${step.runs.length > 1 ? t("flow.show.try", { n: at + 1 }) : t("lineage.show")}</button>`)}
      ${step.run ? html`<${Copy} class="btn small" text=${step.run}>${t("copy.id")}</${Copy}>` : null}
      ${canRetry(flow) ? html`<button type="button" class="btn small" onClick=${() => retry(flow, step)}>${t("flow.retry")}</button>` : null}
      <${Copy} class="btn quiet small" text=${command} label=${`${t("flow.copy.retry")}: ${command}`}>${t("flow.copy.retry")}</${Copy}></p></div>`;
}

/** A flow that runs is paused first.  @param {Flow} flow */
const canRetry = (flow) => flow.built_in && flow.state !== "cancelled" && !flow.held;

/** @param {Flow} flow @param {Step} step */
function retry(flow, step) {
  const at = flow.steps.indexOf(step);
  const after = flow.steps.slice(at + 1);
  const spent = flow.steps.slice(at).reduce((sum, each) => sum + (each.cost_usd ?? 0), 0);
  ask({
    title: t("flow.retry.title", { step: line(step.key, 60) }),
    body: html`<p>${t("flow.retry.body")} ${after.length ? plural("flow.retry.after", after.length) : ""}</p>${spent ? html`<p>${t("flow.retry.spent", { usd: money(spent) })}</p>` : null}`,
    confirm: t("flow.retry"),
    act: async () => know(await post(`/flows/${segment(flow.flow)}/retry-step`, { step: step.key })),
  });
}
