// What a flow asks, as a form. It is made from the flow's state, so it is there again after a reload.
import { html, useState } from "./lib.js";
import { post, segment } from "./api.js";
import { kept, useKept } from "./drafts.js";
import { moment, visible } from "./format.js";
import { t } from "./strings.js";
import { attempt } from "./parts.js";
import { know } from "./flows-data.js";

/** @typedef {import("./types").FlowShown} Flow */
/** @typedef {import("./types").FlowQuestionShown} Asked */

/** As it is typed: without an exponent.  @param {number | undefined} usd */
const plain = (usd) => usd?.toFixed(9).replace(/\.?0+$/, "") ?? "";

/** @param {{flow: Flow, question: Asked}} props */
export function FlowQuestion({ flow, question }) {
  const place = `answer:flow:${flow.flow}:${question.step}:${question.asked}`;
  const [given, keep] = useKept(place, plain(question.budget?.suggested));
  const [busy, setBusy] = useState(false);
  const send = (/** @type {string} */ answer) => attempt(async () => {
    setBusy(true);
    know(await post(`/flows/${segment(flow.flow)}/answer`, { answer, step: question.step }).finally(() => setBusy(false)));
    kept.remove(place);
  });
  const money = question.needs === "budget" && !question.choices.length;
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (given.trim() && !busy) void send(given.trim());
  };
  const title = t(`flow.needs.${question.needs}`);
  const type = (/** @type {any} */ event) => keep(event.currentTarget.value);
  return html`<form class="ask" onSubmit=${submit} aria-label=${title}><p class="lead">${title} <span class="dim">${visible(question.step)} · ${moment(question.asked)}</span></p>
    <p class="asked">${visible(question.text)}</p>
    ${question.choices.length ? html`<fieldset><legend class="vh">${title}</legend>${question.choices.map((each) => html`<label class="opt" key=${each}><input type="radio" name=${place} value=${each} checked=${given === each} onChange=${() => keep(each)} /> <span>${visible(each)}</span></label>`)}</fieldset>`
      : money ? null : html`<textarea class="field" rows="3" value=${given} aria-label=${t("flow.answer")} placeholder=${t("flow.answer")} onInput=${type}></textarea>`}
    <div class="btns">${money ? html`<label>${t("budget.to")} <input class="field reason" type="number" min="0" step="any" required value=${given} onInput=${type} /></label>` : null}
      <button class="btn primary" type="submit" disabled=${busy || !given.trim()}>${t(money ? "budget.raise" : "ask.answer")}</button>
      ${money && (question.budget || /\bstop\b/i.test(question.text)) ? html`<button class="btn" type="button" disabled=${busy} onClick=${() => send("stop")}>${t("budget.stop")}</button>` : null}
      <span class="hint">${t(flow.built_in ? "flow.goeson" : "flow.resumed.own")}</span></div></form>`;
}
