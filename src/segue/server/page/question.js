// What an agent asks, as a form. It is made from the run's state, so it is there again after a reload.
import { html } from "./lib.js";
import { post, segment } from "./api.js";
import { label } from "./data.js";
import { money, visible } from "./format.js";
import { t } from "./strings.js";
import { Given } from "./code.js";
import { Markdown } from "./markdown.js";
import { attempt } from "./parts.js";
import { kept, useKept } from "./drafts.js";

/** @typedef {import("./types").RunShown} Run */
/** @typedef {import("./types").OpenQuestion} OpenQuestion */
/** @typedef {{question: string, header?: string, options?: {label: string, description?: string}[], multiSelect?: boolean}} Asked */

/** @param {OpenQuestion} question */
const draftOf = (question) => `answer:${question.id}`;

/** @param {Run} run @param {OpenQuestion} question @param {Record<string, unknown>} answer */
const send = (run, question, answer) => attempt(async () => {
  await post(`/runs/${segment(run.run)}/tool-result`, { tool_use_id: question.id, ...answer });
  kept.remove(draftOf(question));
});

/** @param {{question: OpenQuestion, run: Run}} props */
export function Question({ question, run }) {
  const Form = { permission: Permission, environment: Environment, budget: Budget, went_on: WentOn, question: Asking }[question.kind] ?? Asking;
  return html`<${Form} question=${question} run=${run} />`;
}

/** @param {{question: OpenQuestion, run: Run}} props */
function Asking({ question, run }) {
  const asked = /** @type {Asked[]} */ (Array.isArray(question.questions) ? question.questions : [{ question: "" }]);
  const [given, setGiven] = useKept(draftOf(question), /** @type {Record<string, any>} */ ({}));
  const keep = (/** @type {string} */ name, /** @type {any} */ value) => setGiven({ ...given, [name]: value });
  const answers = Object.fromEntries(asked.map((each) => [each.question, answerOf(each, given)]));
  const complete = Object.values(answers).every((each) => each.length > 0);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (complete) await send(run, question, { answers });
  };
  return html`<form class="ask" onSubmit=${submit} aria-label=${t("ask.title", { agent: label(run.agent) })}>
    <p class="lead">${t(question.lapsed ? "ask.lapsed" : "ask.title", { agent: label(run.agent) })}</p>
    ${asked.map((each, at) => html`<${Options} key=${at} asked=${each} name="${question.id}-${at}" given=${given} keep=${keep} />`)}
    <div class="btns"><button class="btn primary" type="submit" disabled=${!complete}>${t("ask.answer")}</button>
      <button class="btn" type="button" onClick=${() => send(run, question, { allow: false })}>
        ${question.lapsed ? t("ask.drop") : t("ask.decide", { agent: label(run.agent) })}</button>
      <span class="hint">${t("ask.kept")}</span></div></form>`;
}

/** @param {Asked} asked @param {Record<string, any>} given */
function answerOf(asked, given) {
  const { chosen = [], words = "" } = given[asked.question] ?? {};
  const all = [...chosen.filter((/** @type {string} */ each) => each !== OTHER), ...(chosen.includes(OTHER) && words.trim() ? [words.trim()] : [])];
  return asked.multiSelect ? all : (all[0] ?? "");
}

const OTHER = "\u0000other";

/** @param {{asked: Asked, name: string, given: Record<string, any>, keep: (name: string, value: any) => void}} props */
function Options({ asked, name, given, keep }) {
  const { chosen = [], words = "" } = given[asked.question] ?? {};
  const pick = (/** @type {string} */ option, /** @type {boolean} */ on) => {
    const rest = asked.multiSelect ? chosen.filter((/** @type {string} */ each) => each !== option) : [];
    keep(asked.question, { chosen: on ? [...rest, option] : rest, words });
  };
  const type = asked.multiSelect ? "checkbox" : "radio";
  const input = (/** @type {string} */ option, /** @type {string | undefined} */ named) => html`<input type=${type} name=${name}
    checked=${chosen.includes(option)} aria-label=${named}
    onChange=${(/** @type {any} */ event) => pick(option, event.currentTarget.checked)} />`;
  return html`<fieldset><legend>${visible(asked.question)}</legend>
    ${(asked.options ?? []).map((each) => html`<label class="opt" key=${each.label}>${input(each.label, undefined)}
      <span>${visible(each.label)} ${each.description && each.description !== each.label ? html`<small>${visible(each.description)}</small>` : null}</span></label>`)}
    <div class="opt">${input(OTHER, t("ask.other"))}<input class="field" type="text" value=${words}
      placeholder=${t("ask.other")} aria-label=${t("ask.words")}
      onInput=${(/** @type {any} */ event) => keep(asked.question, {
        chosen: asked.multiSelect ? [...new Set([...chosen, OTHER])] : [OTHER], words: event.currentTarget.value,
      })} /></div></fieldset>`;
}

/** @param {{question: OpenQuestion, run: Run}} props */
function Permission({ question, run }) {
  const [why, setWhy] = useKept(draftOf(question), "");
  const answer = (/** @type {Record<string, unknown>} */ more) => send(run, question, more);
  return html`<form class="ask" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}
      aria-label=${t("permission.title", { agent: label(run.agent), tool: question.tool ?? "" })}>
    <p class="lead">${t("permission.title", { agent: label(run.agent), tool: visible(question.tool ?? "") })}</p>
    <div class="given"><${Given} input=${question.input} whole=${true} /></div>
    <div class="btns"><button type="button" class="btn primary" onClick=${() => answer({ allow: true })}>${t("permission.allow")}</button>
      ${question.lapsed ? null : html`<button type="button" class="btn" onClick=${() => answer({ always: true })}>${t("permission.always")}</button>`}
      <button type="button" class="btn" onClick=${() => answer({ allow: false, ...(why ? { content: why } : {}) })}>${t("permission.deny")}</button>
      <input class="field reason" type="text" value=${why} placeholder=${t("permission.why")} aria-label=${t("permission.why")}
        onInput=${(/** @type {any} */ event) => setWhy(event.currentTarget.value)} /></div></form>`;
}

/** @param {{question: OpenQuestion, run: Run}} props */
function Environment({ question, run }) {
  return html`<div class="ask"><p class="lead">${t("environment.title")}</p>
    <${Markdown} text=${t("environment.body", { names: question.variables.map((each) => `\`${each}\``).join(", ") })} />
    <div class="btns"><button type="button" class="btn primary"
      onClick=${() => attempt(() => post(`/runs/${segment(run.run)}/now`))}>${t("environment.again")}</button></div></div>`;
}

/** The user has written since a limit parked the message.  @param {{question: OpenQuestion, run: Run}} props */
function WentOn({ question, run }) {
  const answer = (/** @type {string} */ content) => send(run, question, { content });
  return html`<div class="ask"><p class="lead">${t("went_on.title")}</p><p>${visible(run.text ?? "")}</p>
    <div class="btns"><button type="button" class="btn primary" onClick=${() => answer("go on")}>${t("went_on.go_on")}</button>
      <button type="button" class="btn" onClick=${() => answer("drop it")}>${t("went_on.drop")}</button>
      <span class="hint">${t("went_on.hint")}</span></div></div>`;
}

/** What is spent, what waits, and how to go on.  @param {{question: OpenQuestion, run: Run}} props */
function Budget({ question, run }) {
  const at = question.budget;
  const [amount, setAmount] = useKept(draftOf(question), String(at?.suggested ?? ""));
  if (!at) return null;
  const raise = (/** @type {Event} */ event) => {
    event.preventDefault();
    void send(run, question, { budget: Number(amount) });
  };
  const title = t(`budget.${at.scope}`, { name: visible(at.name), usd: money(at.limit) });
  const price = at.predicted === null ? null : t(at.predicted_from === "last" ? "budget.last" : "budget.predicted", { usd: money(at.predicted, true) });
  const facts = [t("budget.spent", { usd: money(at.spent) }), at.running ? t("budget.running", { usd: money(at.running, true) }) : null, price];
  return html`<form class="ask" onSubmit=${raise} aria-label=${t("budget.title")}><p class="lead">${t("budget.title")}</p>
    <p>${title}: ${facts.filter(Boolean).join(" · ")}</p>
    ${at.spent_on.length ? html`<ul>${at.spent_on.map((each) => html`<li key=${each.name}>${visible(each.name)}: ${money(each.usd)}</li>`)}</ul>` : null}
    <p class="dim">${t("budget.waits")} ${visible(at.message)}</p>
    <div class="btns"><label>${t("budget.to")} <input class="field reason" type="number" min="0" step="any" required value=${amount}
        onInput=${(/** @type {any} */ event) => setAmount(event.currentTarget.value)} /></label>
      <button class="btn primary" type="submit">${t("budget.raise")}</button>
      <button class="btn" type="button" onClick=${() => send(run, question, { allow: false })}>${t("budget.stop")}</button></div></form>`;
}
