// The lineage of a conversation, large: every turn as a row of the picture, or session by session as chains.
import { html, signal, useEffect, useMemo, useRef, useState } from "./lib.js";
import { get, segment } from "./api.js";
import { conversations, label, missed, runs } from "./data.js";
import { duration, line, moment, money, plural, visible, when } from "./format.js";
import { notices } from "./reasons.js";
import { link } from "./route.js";
import { t } from "./strings.js";
import { Agent, Choice, Copy, Mode, attempt } from "./parts.js";
import { Checks, Ladder } from "./ladder.js";
import { Condition, EndLink, Picture, Place, about, totals, useLineage, who } from "./lineage.js";
import { aside, chains, graph, sum } from "./lineage-graph.js";
import { Markdown } from "./markdown.js";
import { panelOpen, select, selected } from "./selection.js";

/** @typedef {import("./lineage-graph.js").Chain} Chain */
/** @typedef {import("./lineage-graph.js").Graph} Graph */
/** @typedef {import("./lineage-graph.js").Row} Row */
/** @typedef {import("./types").TurnLineage} Turn */

const LARGE = { row: 34, step: 18, left: 14, r: 5.5 };
/** Rows that are drawn beyond the edges of what is seen, so that scrolling shows no gaps. */
const BEYOND = 12;
/** Links of a chain that are shown at first. */
const MOST_LINKS = 30;
const MOST_CHAINS = 120;
const MOST_ANSWER = 1200;

const shape = signal("picture");

/** @param {{parts: string[]}} props */
export function LineageView({ parts }) {
  const key = parts[0] ?? "";
  const known = conversations.value.get(key);
  const changed = `${known?.last_used} ${known?.messages} ${known?.state} ${missed.value}`;
  const lineage = useLineage(key, changed);
  const forked = known?.forked_from ?? null;
  const whole = useMemo(() => (lineage ? graph(lineage, key, forked) : null), [lineage, key, forked]);
  const list = useMemo(() => (lineage ? chains(lineage, key, forked) : []), [lineage, key, forked]);
  useEffect(() => {
    panelOpen.value = false;
  }, [key]);
  const chosen = lineage?.turns.find((each) => each.run === selected.value) ?? null;
  const all = sum(lineage?.turns ?? []);
  return html`<div class="cols wide-right"><main class="page" id="main" tabindex="-1"><div class="in">
      <div class="ptitle"><h1>${t("lineage")}</h1><a class="link" href=${link("conversations", key)} title=${t("lineage.back")}>${line(known?.title || key, 80)}</a>
        <a class="link" href=${link("chain", key)}>${t("chain.whole")}</a>
        <span class="r"><${Choice} label=${t("lineage.shape")} value=${shape.value} options=${[["picture", t("lineage.picture")], ["chains", t("lineage.chains")]]}
          onChange=${(/** @type {string} */ value) => (shape.value = value)} /></span></div>
      ${lineage && all.turns ? html`<p class="dim dots lin-sum"><span>${totals(all)[0]}</span>${all.stand === all.turns ? null : html`<span>${t("lineage.stand", { count: all.stand })}</span>`}
          <span>${plural("lineage.sessions", list.length)}</span><span><b>${money(all.cost, all.estimated)}</b></span>
          ${all.unpriced && all.cost !== null ? html`<span>${plural("lineage.unpriced", all.unpriced)}</span>` : null}<span><b>${duration(all.ms)}</b></span></p>` : null}
      ${lineage === null || whole === null ? html`<p class="dim">${t("lineage.soon")}</p>`
        : !whole.rows.length ? html`<div class="empty"><p>${t("lineage.empty")}</p><p><a class="link" href=${link("conversations", key)}>${t("lineage.back")}</a></p></div>`
        : shape.value === "picture" ? html`<${Legend} /><${Rows} graph=${whole} />` : html`<${Chains} chains=${list} />`}
    </div></main>${chosen ? html`<${Details} key=${chosen.run} turn=${chosen} key_=${key} />` : html`<${Hint} />`}</div>`;
}

const Legend = () => html`<ul class="lin-legend dim">
  <li><svg width="26" height="10" aria-hidden="true"><path class="edge" d="M1 5H25" /></svg>${t("lineage.legend.native")}</li>
  <li><svg width="26" height="10" aria-hidden="true"><path class="edge dash" d="M1 5H25" /></svg>${t("lineage.legend.text")}</li>
  <li><svg width="12" height="12" aria-hidden="true"><circle class="node open" cx="6" cy="6" r="4.5" /></svg>${t("lineage.legend.aside")}</li></ul>`;

/** The rows that can be seen, of any number.  @param {{graph: Graph}} props */
function Rows({ graph: whole }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [seen, setSeen] = useState([0, 40]);
  const [focus, setFocus] = useState(/** @type {number | null} */ (null));
  const count = whole.rows.length;
  useEffect(() => {
    const scroller = box.current?.closest(".page");
    if (!scroller) return undefined;
    let asked = 0;
    const look = () => {
      asked = 0;
      const top = scroller.getBoundingClientRect().top - (box.current?.getBoundingClientRect().top ?? 0);
      const first = Math.max(0, Math.floor(top / LARGE.row) - BEYOND);
      const last = Math.ceil((top + scroller.clientHeight) / LARGE.row) + BEYOND;
      setSeen((before) => (before[0] === first && before[1] === last ? before : [first, last]));
    };
    const soon = () => {
      asked ||= requestAnimationFrame(look);
    };
    look();
    scroller.addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", soon);
    return () => {
      cancelAnimationFrame(asked);
      scroller.removeEventListener("scroll", soon);
      removeEventListener("resize", soon);
    };
  }, [count]);
  const first = Math.max(0, Math.min(seen[0] ?? 0, count - 1));
  const last = Math.min(count - 1, seen[1] ?? 0);
  const chosen = whole.rows.findIndex((row) => row.id === selected.value);
  const stop = focus !== null && focus < count ? focus : chosen >= 0 ? chosen : first;
  const key = (/** @type {KeyboardEvent} */ event) => {
    const to = { ArrowDown: stop + 1, ArrowUp: stop - 1, Home: 0, End: count - 1, PageDown: stop + 10, PageUp: stop - 10 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(count - 1, to));
    setFocus(next);
    reveal(box.current, next);
  };
  return html`<div class="lin large" ref=${box} onKeyDown=${key}><div class="drawn" ref=${(/** @type {HTMLElement | null} */ node) => node && (node.style.paddingTop = `${first * LARGE.row}px`)}>
      <${Picture} graph=${whole} first=${first} last=${last} sizes=${LARGE} /></div>
    <ul aria-label=${t("lineage.picture")}><${Gap} rows=${first} />
      ${whole.rows.slice(first, last + 1).map((row, at) => html`<${Large} key=${row.id} row=${row} at=${first + at} count=${count}
        stop=${first + at === stop} take=${focus === first + at} onTake=${() => setFocus(first + at)} />`)}
      <${Gap} rows=${count - 1 - last} /></ul></div>`;
}

/** @param {HTMLElement | null} box @param {number} at */
function reveal(box, at) {
  const scroller = box?.closest(".page");
  if (!box || !scroller) return;
  const top = box.getBoundingClientRect().top + at * LARGE.row - scroller.getBoundingClientRect().top;
  if (top < 0) scroller.scrollTop += top - LARGE.row;
  else if (top + LARGE.row > scroller.clientHeight) scroller.scrollTop += top + 2 * LARGE.row - scroller.clientHeight;
}

/** The room of rows that are not drawn.  @param {{rows: number}} props */
const Gap = ({ rows }) => (rows > 0 ? html`<li class="gap" aria-hidden="true" ref=${(/** @type {HTMLElement | null} */ node) => node && (node.style.height = `${rows * LARGE.row}px`)}></li>` : null);

/** @param {{row: Row, at: number, count: number, stop: boolean, take: boolean, onTake: () => void}} props */
function Large({ row, at, count, stop, take, onTake }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const target = /** @type {HTMLElement | null | undefined} */ (ref.current?.querySelector("button, a"));
    if (take && target !== document.activeElement) target?.focus({ preventScroll: true });
  }, [take]);
  const { turn } = row;
  const place = { "aria-setsize": count, "aria-posinset": at + 1 };
  if (!turn) return html`<li class="end-row" ref=${ref} ...${place} onFocusIn=${onTake}><${EndLink} end=${row.end} /></li>`;
  const on = selected.value === turn.run;
  return html`<li class="${aside(turn) ? "off" : ""} ${on ? "on" : ""}" ref=${ref} ...${place}>
    <button type="button" tabindex=${stop ? 0 : -1} aria-pressed=${String(on)} title=${about(row)} onFocus=${onTake} onClick=${() => (on ? (selected.value = null) : select(turn.run))}>
      <${Place} turn=${turn} /><${Mode} mode=${turn.mode} /><span class="who-row">${who(turn)}</span>
      <span class="model">${turn.model ? line(turn.model, 40) : ""}</span><${Condition} turn=${turn} />
      <span class="num took">${duration(turn.duration_ms)}</span><span class="num cost">${money(turn.cost_usd, turn.cost_estimated)}</span>
      <span class="num date" title=${moment(turn.created)}>${when(turn.created)}</span></button></li>`;
}

/** @param {{chains: Chain[]}} props */
const Chains = ({ chains: list }) => html`<p class="dim lin-help">${t("lineage.chains.help")}</p>
  ${list.length > MOST_CHAINS ? html`<p class="dim">${t("lineage.latest.sessions", { count: MOST_CHAINS, all: list.length })}</p>` : null}
  ${list.slice(-MOST_CHAINS).map((chain) => html`<${OneChain} key=${chain.id} chain=${chain} />`)}
  <${Total} list=${list} />`;

/** @param {{list: Chain[]}} props */
function Total({ list }) {
  const all = sum(list.flatMap((chain) => chain.turns));
  return html`<p class="chain-total"><b>${t("lineage.total")}</b><span class="dim">${totals(all)[0]}, ${plural("lineage.sessions", list.length)}</span>
    <span class="num took">${duration(all.ms)}</span><span class="num cost">${money(all.cost, all.estimated)}</span></p>`;
}

/** @param {{chain: Chain}} props */
function OneChain({ chain }) {
  const [whole, setWhole] = useState(false);
  const hidden = whole ? 0 : Math.max(0, chain.turns.length - MOST_LINKS);
  return html`<section class="chain"><h2><${Agent} agent=${line(chain.agent, 40)} label=${line(label(chain.agent), 40)} />${line(label(chain.agent), 40)}${chain.role ? html` <span>${line(chain.role, 40)}</span>` : null}
      ${chain.session ? html`<a class="link mono" href=${link("sessions", chain.agent, chain.session)} title=${visible(chain.session)}>${chain.session.slice(0, 8)}…</a>` : null}
      ${chain.account ? html`<span class="dim">${line(chain.account, 40)}</span>` : null}<${Begun} chain=${chain} /></h2>
    <ol>${hidden ? html`<li class="more"><button type="button" class="btn small" onClick=${() => setWhole(true)}>${plural("lineage.earlier", hidden)}</button></li>` : null}
      ${chain.turns.slice(hidden).map((turn) => html`<${Link} key=${turn.run} turn=${turn} />`)}</ol>
    ${chain.turns.length > 1 ? html`<p class="chain-sum"><span>${plural("lineage.turns", chain.sum.turns)}</span><span class="num took">${duration(chain.sum.ms)}</span>
      <span class="num cost">${money(chain.sum.cost, chain.sum.estimated)}</span></p>` : null}</section>`;
}

/** Where a chain's session came from.  @param {{chain: Chain}} props */
function Begun({ chain }) {
  const { from } = chain;
  if (from === null) return null;
  if (from.conversation) return html`<span class="r"><a class="link" href=${link("conversations", from.conversation)}>${t("lineage.from.fork", { key: line(from.conversation, 50) })}</a></span>`;
  const place = from.turn === null ? (from.session ? `${from.session.slice(0, 8)}…` : null) : from.turn.n === null ? who(from.turn) : `#${from.turn.n}`;
  if (place === null || !(["branch", "graft", "replay", "recap", "resume"].includes(from.how))) return null;
  return html`<span class="r">${t(`lineage.begun.${from.how}`, { place })}</span>`;
}

/** @param {{turn: Turn}} props */
function Link({ turn }) {
  const on = selected.value === turn.run;
  const kind = turn.state === "failed" ? "failed" : (turn.mode ?? "fresh");
  return html`<li class="${kind} ${aside(turn) ? "off" : ""} ${on ? "on" : ""}"><button type="button" aria-pressed=${String(on)} onClick=${() => (on ? (selected.value = null) : select(turn.run))}>
    <${Place} turn=${turn} /><${Mode} mode=${turn.mode} /><span class="model">${turn.model ? line(turn.model, 40) : ""}</span>
    <span class="cond ${turn.state === "failed" ? "t-failed" : turn.state === "running" ? "t-run" : ""}">${turn.retry_of ? `${t("lineage.retry")}, ` : ""}${turn.state === "done" && !turn.stands ? t("lineage.aside") : t(`state.${turn.state}`)}</span>
    <span class="num took">${duration(turn.duration_ms)}</span><span class="num cost">${money(turn.cost_usd, turn.cost_estimated)}</span></button></li>`;
}

/** The place of the details stays, so that nothing moves when a turn is chosen. */
const Hint = () => html`<aside class="side r sheet" aria-label=${t("turn")}><section class="sec"><p class="why">${t("lineage.choose")}</p></section></aside>`;

/** Why a turn did what it did, and what came of it, also of one that was set aside.
 * @param {{turn: Turn, key_: string}} props */
function Details({ turn, key_ }) {
  const [run, setRun] = useState(/** @type {import("./types").RunShown | null} */ (null));
  const state = runs.value.get(turn.run)?.state ?? turn.state;
  useEffect(() => {
    let current = true;
    void attempt(async () => {
      const found = await get(`/runs/${segment(turn.run)}`);
      if (current) setRun(found);
    });
    return () => {
      current = false;
    };
  }, [turn.run, state]);
  const past = run?.turn ?? null;
  const asked = /** @type {any} */ (run)?.text;
  const said = past?.failure?.message ?? past?.text ?? "";
  return html`<aside class="side r sheet ${panelOpen.value ? "open" : ""}" aria-label=${t("turn")}>
    <div class="sheet-head"><b>${t("turn")}</b><button type="button" class="btn quiet" onClick=${() => (panelOpen.value = false)}>${t("close")}</button></div>
    <div class="scroll" tabindex="0" role="group" aria-label=${t("turn")}>
      <section class="sec"><h2>${turn.n === null ? t("turn") : `#${turn.n}`} <span>${who(turn)}</span> <span class="r">${moment(turn.created)}</span></h2>
        ${asked ? html`<p class="lin-asked">${clip(asked)}</p>` : null}
        ${past?.failure ? html`<p class="lin-said t-failed">${clip(said)}</p>` : said ? html`<div class="lin-said"><${Markdown} text=${clip(said)} /></div>` : null}
        <p class="btns">${turn.n === null ? html`<span class="why">${t("lineage.dropped")}</span>` : html`<a class="btn small" href=${link("conversations", key_, turn.message)}>${t("lineage.show")}</a>`}
          <${Copy} class="btn small" text=${turn.run}>${t("copy.id")}</${Copy}>
          <button type="button" class="btn quiet small" onClick=${() => (selected.value = null)}>${t("close")}</button></p></section>
      ${past && past.attempts.length > 1 ? html`<section class="sec"><h2>${t("lineage.steps")}</h2><ol class="lin-steps">${past.attempts.map((each, at) => html`<li key=${at}><${Mode} mode=${each.mode} />
        <span class=${each.outcome === "ok" ? "" : "t-failed"}>${t(each.outcome === "ok" ? "lineage.step.ok" : `failure.${each.outcome}`)}</span><span class="r">${money(each.cost_usd)}</span></li>`)}</ol></section>` : null}
      ${past ? html`<section class="sec"><h2>${t("ladder.past", { mode: t(`mode.${past.mode}`) })} <span class="r">${t("ladder.price")}</span></h2>
          ${past.rungs.length ? html`<${Ladder} rungs=${past.rungs} />` : html`<p class="why">${t("ladder.none")}</p>`}
          ${notices(past).map((each) => html`<p class="why" key=${each}>${each}</p>`)}</section><${Checks} checks=${past.why} />`
        : html`<section class="sec"><p class="why">${t("ladder.soon")}</p></section>`}
    </div></aside>`;
}

/** @param {string} text */
const clip = (text) => visible(text.length > MOST_ANSWER ? `${text.slice(0, MOST_ANSWER)}…` : text);
