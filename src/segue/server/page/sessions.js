// The view of native sessions: all of them in a table, searched and sorted, and the selected one beside it.
import { html, signal, useEffect, useLayoutEffect } from "./lib.js";
import { get } from "./api.js";
import { label, missed } from "./data.js";
import { on } from "./feed.js";
import { bytes, home, line, number, plural } from "./format.js";
import { viewKeys } from "./keys.js";
import { go } from "./route.js";
import { t } from "./strings.js";
import { Choice, isComposing } from "./parts.js";
import { Prune } from "./prune.js";
import { Details, checking } from "./session-details.js";
import { Table, cursor, moveCursor } from "./session-table.js";
import {
  agent, agentsSeen, cwd, directories, focused, found, listed, load, nameOf, refresh, rows, searching, state, wanted, whole,
} from "./sessions-data.js";

const SEARCH_PAUSE_MS = 180;
const INDEX_PAUSE_MS = 400;
const REFRESH_PAUSE_MS = 1500;
const MOST_HITS = 300;
const MOST_SEGMENTS = 5;
const SETTLED = ["done", "failed", "cancelled", "parked"];

const pruning = signal(false);

/** @param {{parts: string[]}} props */
export function Sessions({ parts }) {
  const [of_ = null, id = null, event = null] = parts;
  useList();
  useSearch();
  const open = of_ !== null && id !== null;
  const name = open ? nameOf(of_, id) : null;
  useEffect(() => {
    if (name !== null) cursor.value = name;
  }, [name]);
  useLayoutEffect(() => {
    viewKeys.current = {
      j: () => moveCursor(1),
      k: () => moveCursor(-1),
      c: () => check(name),
      f: () => (focused.value = !focused.value),
      Escape: () => (open ? go("sessions") : undefined),
    };
    return () => {
      viewKeys.current = {};
    };
  }, [name]);
  return html`<div class="cols wide-right"><main class="main" id="main" tabindex="-1"><h1 class="vh">${t("sessions.heading")}</h1>
      <${Tools} />
      ${state.value === "ready" && rows.value.length === 0 ? html`<${Nothing} />` : html`<${Table} name=${name} />`}
      <${Foot} /></main>
    <${Details} key=${name ?? "none"} agent=${of_} id=${id} event=${event} />
    ${pruning.value ? html`<${Prune} onClose=${() => (pruning.value = false)} />` : null}</div>`;
}

/** Check the session that is open, or that the cursor is at.  @param {string | null} name */
function check(name) {
  const target = cursor.value ?? name;
  const row = listed.value.find((each) => each.name === target);
  if (!row) return false;
  checking.value = row.name;
  if (row.name !== name) go("sessions", row.agent, row.id);
  return true;
}

function useList() {
  useEffect(() => {
    void load();
  }, [missed.value]);
  useEffect(() => {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let soon;
    const stop = on("run", (change) => {
      if (!SETTLED.includes(change.run?.state)) return;
      clearTimeout(soon);
      soon = setTimeout(() => refresh().catch(() => undefined), REFRESH_PAUSE_MS);
    });
    return () => {
      stop();
      clearTimeout(soon);
    };
  }, []);
}

/** What the index has comes first; then it is brought up to date, which may take a while, and asked again. */
function useSearch() {
  const text = wanted.value.trim();
  const named = agent.value;
  useEffect(() => {
    if (text.length < 2) {
      [found.value, searching.value] = [null, ""];
      return undefined;
    }
    const stop = new AbortController();
    const pause = (/** @type {number} */ ms) => new Promise((done) => setTimeout(done, ms));
    const ask = async (/** @type {boolean} */ index) => {
      const hits = await get("/sessions/search", { q: text, limit: MOST_HITS, agent: named || undefined, index: String(index) }, stop.signal);
      if (!stop.signal.aborted) found.value = { text, hits };
    };
    const search = async () => {
      await pause(SEARCH_PAUSE_MS);
      if (stop.signal.aborted) return;
      searching.value = "search";
      try {
        await ask(false);
        searching.value = "index";
        await pause(INDEX_PAUSE_MS);
        if (!stop.signal.aborted) await ask(true);
      } catch (error) {
        // What cannot be searched for, such as a lone quotation mark, finds nothing until the next letter.
        if (!stop.signal.aborted && /** @type {any} */ (error).status) found.value ??= { text, hits: [] };
      }
      if (!stop.signal.aborted) searching.value = "";
    };
    void search();
    return () => stop.abort();
  }, [text, named]);
}

function Tools() {
  const names = agentsSeen.value;
  const choose = (/** @type {any} */ event) => (cwd.value = event.currentTarget.value);
  return html`<form class="tool-line" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
    <input class="field" type="search" value=${wanted.value} placeholder=${t("sessions.find")} aria-label=${t("sessions.find")}
      onInput=${(/** @type {any} */ event) => (wanted.value = event.currentTarget.value)}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Enter" && !isComposing(event) && moveCursor(0)} />
    <span class="dim count" role="status">${status()}</span>
    ${names.length > 1 && names.length <= MOST_SEGMENTS
      ? html`<${Choice} label=${t("filter.agent")} value=${agent.value} onChange=${(/** @type {string} */ name) => (agent.value = name)}
          options=${[["", t("filter.agents")], ...names.map((name) => [name, label(name)])]} />`
      : null}
    ${names.length > MOST_SEGMENTS ? html`<select class="pick" aria-label=${t("filter.agent")} onChange=${(/** @type {any} */ event) => (agent.value = event.currentTarget.value)}>
        <option value="" selected=${!agent.value}>${t("filter.agents")}</option>
        ${names.map((name) => html`<option key=${name} value=${name} selected=${agent.value === name}>${label(name)}</option>`)}</select>` : null}
    ${directories.value.length > 1 || cwd.value ? html`<select class="pick" aria-label=${t("sessions.directory.filter")} onChange=${choose}>
        <option value="" selected=${!cwd.value}>${t("sessions.directories")}</option>
        ${directories.value.map(([path, count]) => html`<option key=${path} value=${path} selected=${cwd.value === path}>${line(home(path), 60)} (${count})</option>`)}</select>` : null}
    <button type="button" class="btn quiet small prune" onClick=${() => (pruning.value = true)}>${t("prune")}…</button></form>`;
}

function status() {
  if (searching.value === "search" && found.value === null) return t("sessions.searching");
  const all = whole.value ? rows.value.length : null;
  if (found.value === null)
    return agent.value || cwd.value ? t("sessions.some", { count: number(listed.value.length), all: number(all) }) : "";
  const counted = t("sessions.some", { count: number(listed.value.length), all: number(all) });
  return searching.value === "index" ? `${counted} · ${t("sessions.indexing")}` : counted;
}

function Foot() {
  const size = rows.value.reduce((sum, each) => sum + (each.gone ? 0 : each.size), 0);
  return html`<p class="foot"><span><kbd>/</kbd> ${t("key.find")}</span><span><kbd>j</kbd> <kbd>k</kbd> ${t("foot.move")}</span>
    <span><kbd>Enter</kbd> ${t("sessions.foot.open")}</span><span><kbd>c</kbd> ${t("sessions.foot.check")}</span>
    ${whole.value && rows.value.length ? html`<span class="r">${t("sessions.sum", { sessions: plural("sessions.count", rows.value.length), size: bytes(size) })}</span>` : null}</p>`;
}

function Nothing() {
  return html`<div class="page" tabindex="0" role="region" aria-label=${t("sessions")}><div class="empty"><h1>${t("sessions.none.title")}</h1><p>${t("sessions.none.body")}</p>
    <pre class="quote">segue doctor</pre></div></div>`;
}

