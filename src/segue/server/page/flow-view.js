// One flow: what it is, what it waits for, what can be done about it, its steps, what it keeps, and its chain.
import { html } from "./lib.js";
import { post, segment } from "./api.js";
import { duration, home, line, moment, money, plural, visible } from "./format.js";
import { link } from "./route.js";
import { t } from "./strings.js";
import { Copy, ask, attempt } from "./parts.js";
import { isOpen, know, nameOf, needs, stateOf } from "./flows-data.js";
import { Mark, endOf, kindOf, stateWord } from "./flow-words.js";
import { FlowQuestion } from "./flow-question.js";
import { Steps, useNow } from "./flow-steps.js";
import { Artefact, Document, Findings, Value, findingsOf } from "./flow-values.js";
import { ChainPart } from "./chain-view.js";

/** @typedef {import("./types").FlowShown} Flow */

/** @param {Flow} flow @param {string} what @param {unknown} [body] */
const tell = async (flow, what, body) => know(await post(`/flows/${segment(flow.flow)}/${what}`, body));

/** @param {{flow: Flow}} props */
export function FlowView({ flow }) {
  const time = useNow(isOpen(flow));
  const changed = `${flow.state} ${flow.cost_usd} ${flow.steps.map((step) => `${step.run} ${step.state}`).join()}`;
  return html`<div class="flow" data-flow=${flow.flow} data-state=${flow.state}><p class="only-phone"><a class="link" href=${link("flows")}>${t("flow.back")}</a></p>
    <div class="ptitle"><h1>${line(nameOf(flow), 120)}</h1><span class="dim">${kindOf(flow)}</span>
      <span class=${needs(flow) ? "t-needs" : flow.state === "failed" ? "t-failed" : flow.state === "running" && flow.held ? "t-run" : "dim"} role="status"><${Mark} flow=${flow} /> ${isOpen(flow) ? stateWord(flow) : endOf(flow)}</span>
      <span class="r"><${Buttons} flow=${flow} /></span></div>
    <p class="dim dots lin-sum">${flow.key ? html`<span>${line(flow.key, 80)}</span>` : null}<span><${Copy} class="copy" text=${flow.flow}>${flow.flow}</${Copy}></span><span title=${flow.cwd}>${home(flow.cwd)}</span>
      ${flow.rounds ? html`<span>${plural("flow.rounds", flow.rounds)}</span>` : null}<span>${moment(flow.created)}</span><span><b>${duration((flow.ended ?? time) - flow.created)}</b></span><span><b>${money(flow.cost_usd)}</b>${flow.budget_usd === null ? null : ` / ${money(flow.budget_usd)}`}</span></p>
    <${Waits} flow=${flow} />
    <section class="part"><h2>${t("flow.steps")}</h2><${Steps} flow=${flow} /></section>
    <${Result} flow=${flow} />
    ${flow.artefacts.length ? html`<section class="part"><h2>${t("flow.artefacts")}</h2>${flow.artefacts.map((each) => html`<${Artefact} key=${each.name} name=${each.name} hash=${each.hash} size=${each.size} more=${moment(each.made)} />`)}</section>` : null}
    <section class="part"><h2>${t("chain")} <span class="r"><a class="link" href=${link("chain", flow.flow)}>${t("chain.alone")}</a></span></h2><${ChainPart} name=${flow.flow} changed=${changed} flow=${flow.flow} /></section>
    <${Commands} flow=${flow} />
    <details class="fold"><summary>${t("flow.input")}</summary><${Value} value=${flow.input} /></details></div>`;
}

/** @param {{flow: Flow}} props */
function Buttons({ flow }) {
  const runs = isOpen(flow) && flow.state !== "paused" && !flow.stops;
  const stands = flow.state === "paused" || flow.state === "failed" || stateOf(flow) === "interrupted";
  const cancel = () => ask({ title: t("flow.cancel.title"), body: t("flow.cancel.body"), confirm: t("flow.cancel"), danger: true, act: () => tell(flow, "cancel") });
  return html`${stands && flow.built_in ? html`<button type="button" class="btn primary" title=${t("flow.resume.title")} onClick=${() => attempt(() => tell(flow, "resume", {}))}>${t("flow.resume")}</button>` : null}
    ${runs ? html`<button type="button" class="btn" title=${t("flow.pause.title")} onClick=${() => attempt(() => tell(flow, "pause"))}>${t("flow.pause")}</button>` : null}
    ${isOpen(flow) && flow.stops !== "cancel" ? html`<button type="button" class="btn quiet" onClick=${cancel}>${t("flow.cancel")}…</button>` : null}`;
}

/** What it waits for, or why it stands still, and what to do.  @param {{flow: Flow}} props */
function Waits({ flow }) {
  const last = flow.steps.at(-1);
  const word = stateOf(flow);
  /** @param {string} kind @param {string} lead @param {unknown} body */
  const note = (kind, lead, body) => html`<div class="ask ${kind}"><p class="lead">${lead}</p><p>${body}</p></div>`;
  if (flow.questions.length) return html`${flow.questions.map((each) => html`<${FlowQuestion} key=${`${each.step} ${each.asked}`} flow=${flow} question=${each} />`)}`;
  if (flow.stops && isOpen(flow)) return note("parked", stateWord(flow), t(flow.stops === "pause" ? "flow.pause.title" : "flow.cancel.body"));
  if (needs(flow)) return note("", t(`flow.needs.${flow.needs ?? "question"}`), html`${visible(flow.failure ?? "")} ${last ? html`<button type="button" class="btn small" onClick=${() => attempt(() => tell(flow, "resume", { from_step: last.key }))}>${t("flow.newest")}</button>` : null}`);
  if (flow.state === "parked" && flow.wake) return note("parked", t("flow.until", { time: moment(flow.wake) }), t("flow.parked"));
  if (word === "interrupted") return note("parked", stateWord(flow), flow.built_in ? t("flow.interrupted") : html`${t("flow.resumed.own")} <${Command} text=${`segue flow resume ${flow.flow}`} />`);
  if (flow.state === "paused") return note("parked", stateWord(flow), flow.built_in ? t("flow.paused") : html`${t("flow.resumed.own")} <${Command} text=${`segue flow resume ${flow.flow}`} />`);
  if (flow.failure) return note("failed", endOf(flow), visible(flow.failure));
  return null;
}

/** @param {{flow: Flow}} props */
function Result({ flow }) {
  const { result } = flow;
  if (result === null && !flow.artefact) return null;
  const findings = [...findingsOf(result), ...(Array.isArray(result?.outside) ? result.outside : [])];
  const rest = findings.length ? Object.fromEntries(Object.entries(result).filter(([name]) => name !== "findings" && name !== "outside")) : result;
  return html`<section class="part" data-part="result"><h2>${t("flow.result")} <span class="dim">${endOf(flow)}</span></h2>
    ${findings.length ? html`<${Findings} findings=${findings} />` : null}
    ${flow.artefact ? html`<${Artefact} name=${t("flow.whole")} hash=${flow.artefact} />` : typeof rest === "string" ? html`<${Document} text=${rest} />` : html`<${Value} value=${rest} />`}</section>`;
}

/** @param {{text: string}} props */
const Command = ({ text }) => html`<span class="cmd"><code dir="ltr">${visible(text)}</code> <${Copy} text=${text} label=${`${t("copy")}: ${text}`} /></span>`;

/** The same in a terminal.  @param {{flow: Flow}} props */
function Commands({ flow }) {
  const id = flow.flow;
  const open = isOpen(flow);
  const all = [`segue flow show ${id}`, ...(open ? [`segue flow watch ${id}`, `segue flow pause ${id}`, `segue flow cancel ${id}`] : []), ...(flow.state === "cancelled" ? [] : [`segue flow resume ${id}`]),
    ...flow.questions.map((each) => `segue answer ${id} ${each.choices[0] ?? "…"}`), `segue chain ${id}`];
  return html`<details class="fold commands"><summary>${t("flow.terminal")}</summary><ul>${all.map((each) => html`<li key=${each}><${Command} text=${each} /></li>`)}</ul></details>`;
}
