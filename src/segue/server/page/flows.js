// The view of flows: the list, live, and the flow that is open.
import { computed, html, signal, useEffect, useLayoutEffect } from "./lib.js";
import { flowsLoaded, label, missed } from "./data.js";
import { line, moment, money, plural, when } from "./format.js";
import { viewKeys } from "./keys.js";
import { go, link, settle } from "./route.js";
import { t } from "./strings.js";
import { Copy, attempt } from "./parts.js";
import { isOpen, nameOf, needs, open, sorted, stateOf, whole } from "./flows-data.js";
import { Mark, endOf, kindOf, stateWord, whoOf } from "./flow-words.js";
import { FlowView } from "./flow-view.js";

/** @typedef {import("./types").FlowShown} Flow */

const FILTERS = ["all", "needs_you", "running", "ended"];
const EXAMPLE = 'segue review TASK.md --coder claude --reviewer codex --check "make test"\nsegue escalate FLOW.toml';

const wanted = signal("");
const filter = signal("all");

/** @param {string} name @param {Flow} flow */
const inFilter = (name, flow) => name === "all" || (name === "needs_you" ? needs(flow) : name === "ended" ? !isOpen(flow) : isOpen(flow) && !needs(flow));

const listed = computed(() => {
  const text = wanted.value.trim().toLowerCase();
  return sorted.value.filter((flow) => inFilter(filter.value, flow) && (!text || `${nameOf(flow)}\n${flow.key}\n${flow.kind}\n${flow.flow}`.toLowerCase().includes(text)));
});

/** @param {string | undefined} id @param {number} by */
function move(id, by) {
  const ids = listed.peek().map((flow) => flow.flow);
  const next = ids[Math.min(ids.length - 1, Math.max(0, ids.indexOf(id ?? "") + by))];
  if (next !== undefined && next !== id) go("flows", next);
}

/** @param {{parts: string[]}} props */
export function Flows({ parts }) {
  const [name] = parts;
  useLayoutEffect(() => {
    viewKeys.current = { j: () => move(name, 1), k: () => move(name, -1), Escape: () => (name ? go("flows") : undefined) };
    return () => {
      viewKeys.current = {};
    };
  }, [name]);
  useEffect(() => {
    if (name === undefined || whole.peek().has(name)) return;
    void attempt(async () => {
      const found = await open(name);
      if (found.flow !== name) settle("flows", found.flow);
    });
  }, [name, missed.value]);
  const flow = whole.value.get(name ?? "");
  return html`<div class="cols two flows"><${List} id=${name} />
    <main class="page ${name === undefined ? "none" : ""}" id="main" tabindex="-1"><div class="in">
      ${flow ? html`<${FlowView} key=${flow.flow} flow=${flow} />` : name === undefined ? html`<${Nothing} />` : html`<p class="dim" role="status">${t("flow.reading")}</p>`}</div></main></div>`;
}

function Nothing() {
  if (!flowsLoaded.value) return null;
  if (sorted.value.length) return html`<div class="empty"><p>${t("flow.choose")}</p></div>`;
  return html`<div class="empty"><h1>${t("flow.none.title")}</h1><p>${t("flow.none.body")}</p>
    <figure class="block"><figcaption><span class="cap">${t("empty.terminal")}</span><${Copy} text=${EXAMPLE} /></figcaption><pre dir="ltr" tabindex="0"><code>${EXAMPLE}</code></pre></figure></div>`;
}

/** @param {{id: string | undefined}} props */
function List({ id }) {
  const count = (/** @type {string} */ name) => sorted.value.filter((flow) => inFilter(name, flow)).length;
  const over = listed.value.findIndex((flow) => !isOpen(flow));
  return html`<aside class="side l sheet ${id === undefined ? "open" : ""}" aria-label=${t("flows")}>
    <div class="find"><input class="field" id="find" type="search" value=${wanted.value} placeholder=${t("flow.find")} aria-label=${t("flow.find")}
      onInput=${(/** @type {any} */ event) => (wanted.value = event.currentTarget.value)} /></div>
    <nav class="filters" aria-label=${t("filter")}>${FILTERS.map((name) => html`<button type="button" key=${name} aria-pressed=${String(filter.value === name)} onClick=${() => (filter.value = name)}>${t(name === "ended" ? "flow.ended" : `filter.${name}`)} ${count(name)}</button>`)}</nav>
    <div class="scroll" tabindex="0" role="group" aria-label=${t("list")}>
      ${listed.value.map((flow, at) => html`${at === over && at > 0 ? html`<p class="day" key="ended">${t("flow.ended")}</p>` : null}<${Row} key=${flow.flow} flow=${flow} here=${flow.flow === id} />`)}
      ${flowsLoaded.value && !listed.value.length && (wanted.value || filter.value !== "all") ? html`<p class="day">${t("found.nothing")}</p>` : null}</div>
    <p class="foot"><span><kbd>j</kbd> <kbd>k</kbd> ${t("foot.move")}</span><span><kbd>?</kbd> ${t("foot.help")}</span></p></aside>`;
}

/** @param {{flow: Flow, here: boolean}} props */
function Row({ flow, here }) {
  const name = line(nameOf(flow), 120);
  const said = about(flow);
  return html`<div class="row ${needs(flow) ? "unread" : ""}" aria-current=${here ? "true" : undefined} data-flow=${flow.flow}>
    <a class="over" href=${link("flows", flow.flow)} aria-label=${`${stateWord(flow)}: ${name}`}></a>
    <${Mark} flow=${flow} /><span class="t" title=${name}>${name}</span><span class="when" title=${moment(flow.ended ?? flow.created)}>${when(flow.ended ?? flow.created)}</span>
    <span class="sub ${needs(flow) ? "t-needs" : flow.state === "failed" ? "t-failed" : ""}" title=${said}>${said}</span>
    <span class="meta"><span class="c">${flow.cost_usd === null ? "" : money(flow.cost_usd)}</span></span></div>`;
}

/** What it is and how far: the kind, the round, and who works, what it waits for, or how it ended.  @param {Flow} flow */
function about(flow) {
  const works = flow.state === "running" ? flow.steps.find((step) => step.state === "running" && step.kind === "turn") : undefined;
  const asks = flow.questions[0];
  const now = asks ? t("asks", { what: line(asks.text, 90) })
    : flow.state === "parked" && flow.wake ? t("until", { time: when(flow.wake) })
    : works && stateOf(flow) === "running" ? whoOf(works, label)
    : isOpen(flow) ? stateWord(flow) : endOf(flow);
  return [kindOf(flow), flow.rounds ? plural("flow.rounds", flow.rounds) : "", now].filter(Boolean).join(" · ");
}
