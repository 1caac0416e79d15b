// The list of conversations: newest use first, searched and filtered, live.
import { computed, html, signal, useEffect } from "./lib.js";
import { get, of, patch } from "./api.js";
import { byUse, flowNames, label, loaded } from "./data.js";
import { line, moment, money, soon, when } from "./format.js";
import { go, link } from "./route.js";
import { t } from "./strings.js";
import { Agent, State, attempt, isComposing } from "./parts.js";

/** @typedef {import("./types").ConversationShown} Conversation */
/** @typedef {import("./types").ConversationHit} Hit */

const SEARCH_PAUSE_MS = 180;
const MOST_ROWS = 400;
const MOST_HITS = 30;

export const wanted = signal("");
const filter = signal("all");
const agent = signal("");
const hits = signal(/** @type {{text: string, all: Hit[]} | null} */ (null));
/** The sheet on a phone. */
export const listOpen = signal(false);

const FILTERS = ["all", "needs_you", "running", "parked", "starred"];

/** @param {Conversation} each */
const inFilter = (each) =>
  (filter.value === "all" || (filter.value === "starred" ? each.starred : each.state === filter.value || (filter.value === "parked" && each.state === "queued"))) &&
  (!agent.value || each.agents.includes(agent.value) || each.agent === agent.value);

export const listed = computed(() => {
  const text = wanted.value.trim().toLowerCase();
  return byUse.value.filter((each) => inFilter(each) && (!text || `${each.key}\n${each.title}`.toLowerCase().includes(text)));
});

/** The messages that were found. */
const messages = computed(() => {
  const keys = new Set(byUse.value.filter(inFilter).map((each) => each.key));
  return (hits.value?.all ?? []).filter((each) => keys.has(each.key)).slice(0, MOST_HITS);
});

/** What was looked for when Enter was pressed, and not found yet. */
let hurried = "";

function openFirst() {
  const text = wanted.peek().trim();
  const [conversation] = listed.peek();
  const [message] = hits.peek()?.text === text ? messages.peek() : [];
  hurried = conversation || message ? "" : text;
  if (hurried) return;
  document.getElementById("find")?.blur();
  listOpen.value = false;
  if (conversation) go("conversations", conversation.key);
  else if (message) go("conversations", message.key, message.message ?? "");
}

/** @param {{key_: string | null}} props */
export function List({ key_ }) {
  useSearch();
  const all = byUse.value;
  const count = (/** @type {string} */ name) => (name === "all" ? all.length : name === "starred" ? all.filter((each) => each.starred).length : all.filter((each) => each.state === name || (name === "parked" && each.state === "queued")).length);
  const names = [...new Set(all.flatMap((each) => each.agents))].sort();
  const shown = messages.value;
  return html`<aside class="side l sheet ${listOpen.value || key_ === null ? "open" : ""}" aria-label=${t("conversations")}>
    <div class="sheet-head"><b>${t("conversations")}</b><button type="button" class="btn quiet" onClick=${() => (listOpen.value = false)}>${t("close")}</button></div>
    <div class="find"><input class="field" id="find" type="search" value=${wanted.value} placeholder=${t("find")} aria-label=${t("find")}
        onInput=${(/** @type {any} */ event) => ((hurried = ""), (wanted.value = event.currentTarget.value))} onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Enter" && !isComposing(event) && openFirst()} />
      <a class="btn" href=${link("conversations", "")} onClick=${() => (listOpen.value = false)} aria-label=${t("new.title")}>${t("new")}</a></div>
    <nav class="filters" aria-label=${t("filter")}>${FILTERS.map((name) => {
      const number = count(name);
      return number || name === "all" || name === filter.value
        ? html`<button type="button" key=${name} aria-pressed=${String(filter.value === name)} onClick=${() => (filter.value = name)}>${t(`filter.${name}`)} ${number}</button>`
        : null;
    })}
      ${names.length > 1 ? html`<select class="pick" aria-label=${t("filter.agent")} onChange=${(/** @type {any} */ event) => (agent.value = event.currentTarget.value)}>
        <option value="" selected=${!agent.value}>${t("filter.agents")}</option>
        ${names.map((name) => html`<option key=${name} value=${name} selected=${agent.value === name}>${label(name)}</option>`)}</select>` : null}</nav>
    <div class="scroll" tabindex="0" role="group" aria-label=${t("list")}>
      ${listed.value.slice(0, MOST_ROWS).map((each) => html`<${Row} key=${each.key} each=${each} here=${each.key === key_} />`)}
      ${listed.value.length > MOST_ROWS ? html`<p class="day">${t("list.more", { count: listed.value.length - MOST_ROWS })}</p>` : null}
      ${shown.length ? html`<p class="day">${t("found.messages")}</p>${shown.map((hit) => html`<${Found} key=${`${hit.key}/${hit.message}`} hit=${hit} />`)}` : null}
      ${loaded.value && !listed.value.length && !shown.length && (wanted.value || filter.value !== "all") ? html`<p class="day">${t("found.nothing")}</p>` : null}
    </div>
    <p class="foot"><span><kbd>j</kbd> <kbd>k</kbd> ${t("foot.move")}</span><span><kbd>e</kbd> ${t("foot.edit")}</span><span><kbd>r</kbd> ${t("foot.retry")}</span><span><kbd>?</kbd> ${t("foot.help")}</span></p></aside>`;
}

function useSearch() {
  const text = wanted.value.trim();
  useEffect(() => {
    if (text.length < 2) {
      hits.value = null;
      return undefined;
    }
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const found = await get("/search", { text, limit: 100 }, stop.signal);
        hits.value = { text, all: found.filter((/** @type {Hit} */ each) => each.where === "message") };
        if (hurried === text) openFirst();
      } catch {
        // The next letter searches again.
      }
    }, SEARCH_PAUSE_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text]);
}

/** @param {{each: Conversation, here: boolean}} props */
function Row({ each, here }) {
  const state = each.state === "idle" && each.failure ? "failed" : each.state;
  const about = about_(each);
  return html`<div class="row ${each.unread ? "unread" : ""}" aria-current=${here ? "true" : undefined} data-key=${each.key}>
    <a class="over" href=${link("conversations", each.key)} onClick=${() => (listOpen.value = false)} aria-label=${`${t(`state.${state}`)}: ${each.title || each.key}${each.unread ? `, ${t("unread")}` : ""}`}></a>
    <${State} state=${state} quiet=${true} /><span class="t" title=${each.title}>${line(each.title || each.key, 120)}</span>
    <span class="when" title=${moment(each.last_used)}>${when(each.last_used)}</span>
    <span class="sub ${each.state === "needs_you" ? "t-needs" : state === "failed" ? "t-failed" : ""}">${about}</span>
    <span class="meta"><button type="button" class="star" aria-pressed=${String(each.starred)} aria-label=${t(each.starred ? "star.off" : "star.on")}
        onClick=${() => attempt(() => patch(of(each.key), { starred: !each.starred }))}>${each.starred ? "★" : "☆"}</button>
      <span class="ags">${each.agents.map((name) => html`<${Agent} key=${name} agent=${name} label=${label(name)} />`)}</span>
      <span class="c">${each.cost_usd === null ? "" : money(each.cost_usd, each.cost_estimated)}</span></span></div>`;
}

/** @param {Conversation} each */
function about_(each) {
  if (each.state === "needs_you" && each.asks) return t("asks", { what: line(each.asks, 90) });
  if (each.state === "parked" && each.until) return t("until", { time: soon(each.until) });
  if (each.state === "idle" && each.failure) return line(each.failure.message, 90);
  return known(each.key);
}

/** A key, or of a flow its name and the part.  @param {string} key */
export function known(key) {
  const [, flow, part = ""] = /^flow\/([^/]+)\/?(.*)$/.exec(key) ?? [];
  return flow === undefined ? key : [flowNames.value.get(flow) ?? t("flows"), part].filter(Boolean).join(" · ");
}

/** @param {{hit: Hit}} props */
const Found = ({ hit }) => html`<a class="row hit" href=${link("conversations", hit.key, hit.message ?? "")}>
  <span class="t">${marked(line(hit.snippet, 400), wanted.value.trim())}</span><span class="when">${when(hit.created)}</span><span class="sub">${known(hit.key)}</span></a>`;

/** The words that were looked for, marked.  @param {string} text @param {string} words */
export function marked(text, words) {
  const at = words ? text.toLowerCase().indexOf(words.toLowerCase()) : -1;
  return at < 0 ? text : html`${text.slice(0, at)}<mark>${text.slice(at, at + words.length)}</mark>${text.slice(at + words.length)}`;
}

/** The conversation after or before this one.  @param {string | null} key @param {number} step */
export function step(key, step) {
  const keys = listed.peek().map((each) => each.key);
  const at = key === null ? -1 : keys.indexOf(key);
  const next = keys[Math.min(keys.length - 1, Math.max(0, at + step))];
  if (next !== undefined && next !== key) go("conversations", next);
}
