// The table of sessions. Only the rows near the screen are in the page, so that thousands scroll smoothly.
import { computed, html, signal, useEffect, useLayoutEffect, useMemo, useRef } from "./lib.js";
import { label } from "./data.js";
import { bytes, day, home, line, moment, money, number, when } from "./format.js";
import { link } from "./route.js";
import { t } from "./strings.js";
import { Agent, Gauge, State } from "./parts.js";
import { found, hitsOf, inOrder, isRunning, listed, sizeLimit, sort, state } from "./sessions-data.js";

/** @typedef {import("./sessions-data.js").Row} Row */
/** @typedef {import("./sessions-data.js").Column} Column */
/** @typedef {import("./types").Hit} Hit */

/** Rows come and go in steps, so that scrolling does not draw with every pixel. */
const STEP = 8;
const USUAL_ROW_PX = 47;
const BEFORE = 14;
const DAY_MS = 86_400_000;
const SOON_DAYS = 3;

/** The row that the keys are at. It has the focus if it is on the screen. */
export const cursor = signal(/** @type {string | null} */ (null));
const top = signal(0);
const room = signal(900);
const rowHeight = signal(USUAL_ROW_PX);
/** The table was moved by a key: the row takes the focus when it is drawn. */
let pending = false;
/** @type {HTMLElement | null} */
let scroller = null;

/** @type {[Column, boolean, boolean][]} name, aligned to the right, first sorted downwards */
const COLUMNS = [
  ["title", false, false], ["cwd", false, false], ["used", false, true], ["messages", true, true], ["size", true, true],
  ["context", false, true], ["cost", true, true], ["expires", false, false],
];

/** Go to the next or previous row; 0: to the one that the cursor is at, or the first.  @param {number} by */
export function moveCursor(by) {
  const shown = listed.peek();
  const at = shown.findIndex((each) => each.name === cursor.peek());
  const next = Math.min(shown.length - 1, Math.max(0, at < 0 ? 0 : at + by));
  const row = shown[next];
  if (!row) return;
  pending = true;
  cursor.value = row.name;
  reveal(next);
  focusPending();
}

/** @param {number} at */
function reveal(at) {
  if (!scroller) return;
  const head = /** @type {HTMLElement | null} */ (scroller.querySelector("thead"))?.offsetHeight ?? 0;
  const [begin, end] = [at * rowHeight.peek(), (at + 1) * rowHeight.peek()];
  if (begin < scroller.scrollTop) scroller.scrollTop = begin;
  else if (end > scroller.scrollTop + scroller.clientHeight - head) scroller.scrollTop = end - scroller.clientHeight + head;
  top.value = scroller.scrollTop;
}

function focusPending() {
  const node = pending && cursor.peek() !== null ? scroller?.querySelector(`[data-name="${CSS.escape(cursor.peek() ?? "")}"] a`) : null;
  if (!node) return;
  pending = false;
  /** @type {HTMLElement} */ (node).focus({ preventScroll: true });
}

/** @param {{name: string | null}} props the session that is open */
export function Table({ name }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const range = useMemo(() => computed(() => {
    const first = Math.floor(top.value / rowHeight.value / STEP) * STEP;
    return [Math.max(0, first - STEP), first + Math.ceil(room.value / rowHeight.value / STEP) * STEP + 2 * STEP].join();
  }), []);
  const [from = 0, to = 0] = range.value.split(",").map(Number);
  const shown = listed.value;
  const rows = shown.slice(from, to);
  useEffect(() => {
    const node = ref.current;
    if (!node) return undefined;
    scroller = node;
    const measure = () => {
      room.value = node.clientHeight;
      rowHeight.value = /** @type {HTMLElement | null} */ (node.querySelector("tr.r"))?.offsetHeight || USUAL_ROW_PX;
    };
    const watch = new ResizeObserver(measure);
    watch.observe(node);
    const scrolled = () => (top.value = node.scrollTop);
    node.addEventListener("scroll", scrolled, { passive: true });
    scrolled();
    return () => {
      scroller = null;
      watch.disconnect();
      node.removeEventListener("scroll", scrolled);
    };
  }, []);
  // A session that was opened by its address may stand far down.
  useEffect(() => {
    const at = name === null ? -1 : listed.peek().findIndex((each) => each.name === name);
    if (at >= 0 && state.value === "ready") reveal(at);
  }, [name, state.value]);
  useLayoutEffect(focusPending);
  useLayoutEffect(() => {
    const height = /** @type {HTMLElement | null} */ (ref.current?.querySelector("tr.r"))?.offsetHeight;
    if (height) rowHeight.value = height;
  }, [rows.length > 0]);
  useEffect(() => {
    if (ref.current) ref.current.scrollTop = 0;
  }, [found.value?.text, sort.value]);
  const gap = (/** @type {number} */ count) => html`<tr class="gap" aria-hidden="true"><td ref=${(/** @type {any} */ node) => node && (node.style.height = `${count * rowHeight.value}px`)}></td></tr>`;
  return html`<div class="page" tabindex="0" role="region" aria-label=${t("sessions")} aria-busy=${String(state.value === "loading")} ref=${ref}>
    <table class="ses" aria-rowcount=${shown.length + 1}><thead><tr aria-rowindex="1"><th><span class="vh">${t("agent")}</span></th>
      ${COLUMNS.map(([column, right, down]) => html`<${Head} key=${column} column=${column} right=${right} down=${down} />`)}</tr></thead>
    <tbody>${from > 0 ? gap(from) : null}
      ${rows.map((row, at) => html`<${Line} key=${row.name} row=${row} at=${from + at} open=${row.name === name} />`)}
      ${to < shown.length ? gap(shown.length - to) : null}</tbody></table>
    ${state.value === "lost" ? html`<p class="day">${t("banner.lost")}</p>` : null}
    ${state.value === "loading" ? html`<p class="day">${t("sessions.reading")}</p>` : null}
    ${state.value === "ready" && shown.length === 0 ? html`<p class="day">${t("found.nothing")}</p>` : null}</div>`;
}

/** @param {{column: Column, right: boolean, down: boolean}} props */
function Head({ column, right, down }) {
  const order = inOrder.value;
  const here = order?.by === column;
  const turn = () => {
    sort.value = here && order ? { by: column, down: !order.down } : { by: column, down };
  };
  return html`<th class="c-${column} ${right ? "num" : ""}" aria-sort=${here ? (order?.down ? "descending" : "ascending") : undefined}>
    <button type="button" onClick=${turn}>${t(`sessions.${column}`)}${here ? html`<span aria-hidden="true"> ${order?.down ? "↓" : "↑"}</span>` : null}</button></th>`;
}

/** @param {{row: Row, at: number, open: boolean}} props */
function Line({ row, at, open }) {
  const hits = hitsOf.value.get(row.name);
  const hit = hits?.[0];
  const title = line(row.title, 160) || t(row.gone ? "sessions.gone" : "sessions.untitled");
  const address = hit ? link("sessions", row.agent, row.id, hit.place) : link("sessions", row.agent, row.id);
  return html`<tr class="r ${open ? "sel" : ""}" aria-rowindex=${at + 2} aria-current=${open ? "true" : undefined} data-name=${row.name}>
    <td class="c-agent"><${Agent} agent=${row.agent} label=${label(row.agent)} /></td>
    <td class="ti"><span class="n1"><a href=${address} class=${row.title ? "" : "dim"} onFocus=${() => (cursor.value = row.name)}>${title}</a>
        ${isRunning(row) ? html`<${State} state="running" />` : null}
        ${row.conversation ? html`<span class="mono">${line(row.conversation, 60)}</span>` : null}<${Flag} row=${row} /></span>
      <span class="n2">${hit ? html`<${Snippet} hit=${hit} />${hits && hits.length > 1 ? html` <span class="more">${t("sessions.more", { count: hits.length - 1 })}</span>` : null}` : line(row.about, 200) || html`<span class="mono">${row.id.slice(0, 8)}</span> ${line(row.model, 40)}`}</span></td>
    <td class="dir" title=${line(row.cwd, 500)}>${line(home(row.cwd), 120) || "–"}</td>
    <td class="nw c-used" title=${moment(row.used)}>${when(row.used)}</td>
    <td class="num c-messages">${row.messages === null ? "–" : `${row.estimated ? "~" : ""}${number(row.messages)}`}</td>
    <td class="num c-size ${sizeLimit.value !== null && row.size > sizeLimit.value ? "t-failed" : ""}">${bytes(row.size)}</td>
    <td class="c-context">${row.tokens?.used != null && row.tokens.window ? html`<${Gauge} used=${row.tokens.used} window=${row.tokens.window} />` : "–"}</td>
    <td class="num c-cost">${money(row.cost)}</td>
    <td class="nw c-expires"><${Expiry} row=${row} /></td></tr>`;
}

/** What is wrong with it, in a word or two.  @param {{row: Row}} props */
function Flag({ row }) {
  if (row.trouble) return html`<span class="flag t-failed" title=${line(row.trouble, 300)}>${t("sessions.trouble")}</span>`;
  if (sizeLimit.value !== null && row.size > sizeLimit.value && !row.gone) return html`<span class="flag t-failed">${t("sessions.toobig")}</span>`;
  return null;
}

/** @param {{row: Row}} props */
function Expiry({ row }) {
  if (row.gone || (row.kept && row.expires === null)) return html`<span title=${t(row.gone ? "sessions.kept.gone" : "sessions.kept.title")}>${t("sessions.kept")}</span>`;
  if (row.expires === null) return html`<span class="dim">–</span>`;
  const about = t("sessions.deletes", { agent: label(row.agent), date: moment(row.expires) });
  if (row.kept) return html`<span title=${`${about} ${t("sessions.kept.title")}`}>${t("sessions.kept")}</span>`;
  const days = Math.floor((row.expires - Date.now()) / DAY_MS);
  return days < SOON_DAYS
    ? html`<span class="t-needs" title=${about}>${days < 1 ? t("sessions.today") : t("sessions.days", { count: days })}</span>`
    : html`<span title=${about}>${day(row.expires)}</span>`;
}

/** A match with its words marked. The places are code points.  @param {{hit: Hit}} props */
export function Snippet({ hit }) {
  const signs = [...hit.snippet];
  const first = hit.highlights[0]?.[0] ?? 0;
  /** @type {unknown[]} */
  const parts = [];
  // The column is narrow: the first word must be in sight.
  let at = first > 2 * BEFORE ? first - BEFORE : 0;
  if (at) parts.push("…");
  for (const [begin, end] of hit.highlights) {
    if (begin < at) continue;
    parts.push(clean(signs.slice(at, begin)), html`<mark>${clean(signs.slice(begin, end))}</mark>`);
    at = end;
  }
  return html`<span dir="auto">${parts}${clean(signs.slice(at))}</span>`;
}

/** @param {string[]} signs */
const clean = (signs) => {
  const text = signs.join("");
  const [before, after] = [/^\s/.test(text) ? " " : "", /\s$/.test(text) && text.trim() ? " " : ""];
  return `${before}${line(text, 400)}${after}`;
};

