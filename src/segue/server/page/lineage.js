// The lineage of a conversation as a picture, small, beside the dialogue.
import { html, signal, useEffect, useMemo } from "./lib.js";
import { get, of } from "./api.js";
import { conversations, label } from "./data.js";
import { connection } from "./feed.js";
import { duration, line, moment, money, plural, visible } from "./format.js";
import { link } from "./route.js";
import { t } from "./strings.js";
import { Mode, tell } from "./parts.js";
import { aside, graph, sum } from "./lineage-graph.js";
import { select, selected } from "./selection.js";

/** @typedef {import("./lineage-graph.js").Graph} Graph */
/** @typedef {import("./lineage-graph.js").Row} Row */
/** @typedef {import("./lineage-graph.js").End} End */
/** @typedef {import("./lineage-graph.js").Sum} Sum */
/** @typedef {{row: number, step: number, left: number, r: number}} Sizes in pixels */

/** The panel shows the newest; the view has all of them. */
const MOST_ROWS = 40;
const SMALL = { row: 24, step: 14, left: 8, r: 4.5 };
const NOTHING = { turns: [], children: [] };

const found = signal(/** @type {{key: string, lineage: import("./types").ConversationLineage} | null} */ (null));

/** The lineage of a conversation, fetched again when it has changed.  @param {string} key @param {unknown} changed */
export function useLineage(key, changed) {
  useEffect(() => {
    const stop = new AbortController();
    void get(of(key, "/lineage"), {}, stop.signal)
      .then((lineage) => (found.value = { key, lineage }))
      .catch((error) => {
        if (!error.status) return; // Not reached: it is fetched again as soon as the daemon is back.
        found.value = { key, lineage: NOTHING };
        if (error.status !== 404) tell(error.message, true);
      });
    return () => stop.abort();
  }, [key, changed, connection.value === "live"]);
  return found.value?.key === key ? found.value.lineage : null;
}

/** @param {{key_: string, changed: unknown}} props */
export function LineageList({ key_, changed }) {
  const lineage = useLineage(key_, changed);
  const forked = conversations.value.get(key_)?.forked_from ?? null;
  const whole = useMemo(() => (lineage ? graph(lineage, key_, forked) : null), [lineage, key_, forked]);
  if (!lineage || !whole || !whole.rows.length) return null;
  const first = Math.max(0, whole.rows.length - MOST_ROWS);
  return html`<section class="sec"><h2><a class="link" href=${link("lineage", key_)}>${t("lineage")}</a> <span class="r">${totals(sum(lineage.turns)).join(", ")}</span></h2>
    ${first ? html`<p class="why lin-more"><a class="link" href=${link("lineage", key_)}>${plural("lineage.earlier", first)}</a></p>` : null}
    <div class="lin"><${Picture} graph=${whole} first=${first} last=${whole.rows.length - 1} sizes=${SMALL} />
      <ul>${whole.rows.slice(first).map((row) => html`<${Small} key=${row.id} row=${row} />`)}</ul></div></section>`;
}

/** Turns, money, time.  @param {Sum} all */
export const totals = (all) => [plural("lineage.turns", all.turns), all.cost === null ? "" : money(all.cost, all.estimated), all.ms === null ? "" : duration(all.ms)].filter(Boolean);

/** @param {{row: Row}} props */
function Small({ row }) {
  const { turn } = row;
  if (!turn) return html`<li class="end-row"><${EndLink} end=${row.end} /></li>`;
  const on = selected.value === turn.run;
  return html`<li class="${aside(turn) ? "off" : ""} ${on ? "on" : ""}"><button type="button" aria-pressed=${String(on)} title=${about(row)} onClick=${() => select(turn.run)}>
    <${Place} turn=${turn} /><${Mode} mode=${turn.mode} /><span class="who-row">${who(turn)}</span><${Condition} turn=${turn} />
    <span class="r">${turn.cost_usd === null ? "" : money(turn.cost_usd, turn.cost_estimated)}</span></button></li>`;
}

/** @param {{turn: import("./types").TurnLineage}} props */
export const Place = ({ turn }) => html`<span class="no">${turn.n === null ? "" : `#${turn.n}`}</span>`;

/** @param {import("./types").TurnLineage} turn */
export const who = (turn) => [label(turn.agent), turn.role].filter(Boolean).map((each) => line(String(each), 40)).join(" · ");

/** What a turn is, unless it simply stands.  @param {{turn: import("./types").TurnLineage}} props */
export function Condition({ turn }) {
  const kind = { failed: "t-failed", running: "t-run", needs_you: "t-needs", parked: "t-parked", queued: "t-parked" }[/** @type {string} */ (turn.state)] ?? "";
  const words = [turn.retry_of ? t("lineage.retry") : "", turn.state === "done" ? (turn.stands ? "" : t("lineage.aside")) : t(`state.${turn.state}`)].filter(Boolean);
  return words.length ? html`<span class="cond ${kind}">${words.join(", ")}</span>` : null;
}

/** Everything about a row, in words.  @param {Row} row */
export function about({ turn }) {
  if (!turn) return "";
  return [turn.n === null ? "" : `#${turn.n}`, turn.mode ? t(`mode.${turn.mode}`) : "", who(turn), turn.model ? line(turn.model, 60) : "", t(`state.${turn.state}`),
    aside(turn) ? t("lineage.aside.title") : "", money(turn.cost_usd, turn.cost_estimated), duration(turn.duration_ms), moment(turn.created)].filter(Boolean).join(", ");
}

/** @param {{end: End | null}} props */
export function EndLink({ end }) {
  if (!end) return null;
  if (end.conversation) {
    const name = end.way === "into" ? (end.how === "adopt" ? "lineage.into.adopt" : "lineage.into.fork") : "lineage.from.fork";
    return html`<a class="link" href=${link("conversations", end.conversation)} title=${t(name, { key: visible(end.conversation) })}>${t(name, { key: line(end.conversation, 60) })}</a>`;
  }
  return html`<a class="link" href=${link("sessions", end.agent ?? "", end.session ?? "")}>${t("lineage.from.session", { session: `${(end.session ?? "").slice(0, 8)}…` })}</a>`;
}

/** The edges and nodes of some rows. It is as high as these rows.
 * @param {{graph: Graph, first: number, last: number, sizes: Sizes}} props */
export function Picture({ graph: whole, first, last, sizes }) {
  const on = selected.value;
  const { row, step, left, r } = sizes;
  const x = (/** @type {number} */ lane) => left + lane * step;
  const y = (/** @type {number} */ at) => (at - first) * row + row / 2;
  const width = 2 * left + (whole.lanes - 1) * step;
  const height = (last - first + 1) * row;
  const path = (/** @type {import("./lineage-graph.js").Line} */ each) => {
    const [start, end] = [y(each.from), y(each.to)];
    if (each.a === each.b) return `M${x(each.a)} ${start}V${end}`;
    const leaves = each.late ? end - row : start;
    return `M${x(each.a)} ${start}V${leaves}C${x(each.a)} ${leaves + row * 0.6} ${x(each.b)} ${leaves + row * 0.3} ${x(each.b)} ${leaves + row * 0.9}V${end}`;
  };
  return html`<svg class="picture" width=${width} height=${height} viewBox="0 0 ${width} ${height}" aria-hidden="true">
    ${whole.lines.filter((each) => each.to >= first && each.from <= last).map((each) => html`<path key=${`${each.from}-${each.to}`} class="edge ${each.dash ? "dash" : ""}" d=${path(each)} />`)}
    ${whole.rows.slice(first, last + 1).map((each, at) => html`<${Node} key=${each.id} row=${each} x=${x(each.lane)} y=${y(first + at)} r=${r} on=${each.id === on} />`)}</svg>`;
}

/** @param {{row: Row, x: number, y: number, r: number, on: boolean}} props */
function Node({ row, x, y, r, on }) {
  const { turn } = row;
  if (!turn) return html`<rect class="node open" x=${x - r + 1} y=${y - r + 1} width=${2 * r - 2} height=${2 * r - 2} />`;
  const waits = turn.state === "queued" || turn.state === "parked";
  const kind = turn.state === "failed" ? "failed" : (turn.mode ?? "fresh");
  return html`${on ? html`<circle class="halo ${kind}" cx=${x} cy=${y} r=${r + 3} />` : null}
    <circle class="node ${kind} ${aside(turn) || waits ? "open" : ""} ${turn.state === "running" ? "runs" : ""}" cx=${x} cy=${y} r=${aside(turn) || waits ? r - 1 : r} />`;
}
