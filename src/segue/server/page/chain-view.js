// A chain: all turns that came out of each other, as a picture with who worked, what each used, and what it came to.
import { html, useEffect, useMemo, useState } from "./lib.js";
import { get, segment } from "./api.js";
import { label, missed } from "./data.js";
import { on } from "./feed.js";
import { duration, line, moment, money, plural, tokens } from "./format.js";
import { t } from "./strings.js";
import { Agent, Mode } from "./parts.js";
import { partOf } from "./flow-words.js";
import { fresh, openTurn } from "./flow-steps.js";
import { Picture } from "./lineage.js";
import { layout } from "./lineage-graph.js";

/** @typedef {import("./types").Chain} Chain */
/** @typedef {import("./types").ChainTurn} Turn */

const SIZES = { row: 34, step: 18, left: 14, r: 5.5 };
const TEXT = ["replay", "recap", "fresh"];
const PAUSE_MS = 400;
const MOST = 400;

/** The turns as rows of the picture, as they came in time.  @param {Chain} chain */
function drawn(chain) {
  const turns = chain.turns.map((turn, at) => ({ turn, at })).sort((a, b) => a.turn.created - b.turn.created || a.at - b.at).slice(-MOST).map(({ turn }) => turn);
  return layout(turns.map((turn) => ({
    id: turn.run, end: null, from: turn.parent, lane: 0, edge: /** @type {import("./lineage-graph.js").Edge} */ (TEXT.includes(turn.mode ?? "") ? "text" : "native"),
    turn: { ...turn, message: turn.run, session: null, parents: [], n: null, account: null, retry_of: null, stands: turn.state === "done" },
  })));
}

/** @param {{name: string, changed: unknown, flow?: string | null}} props ``flow``: the one whose view this is part of */
export function ChainPart({ name, changed, flow = null }) {
  const [chain, setChain] = useState(/** @type {Chain | null} */ (null));
  const [wrong, setWrong] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    void get(`/chains/${segment(name)}`, {}, stop.signal)
      .then((found) => (setChain(found), setWrong("")))
      .catch((error) => error.status && setWrong(error.message));
    return () => stop.abort();
  }, [name, changed, missed.value]);
  const whole = useMemo(() => (chain ? drawn(chain) : null), [chain]);
  if (wrong) return html`<p class="t-failed" role="status">${wrong}</p>`;
  if (!chain || !whole) return html`<p class="dim" role="status">${t("lineage.soon")}</p>`;
  if (!chain.turns.length) return html`<p class="dim">${t("chain.none")}</p>`;
  const turns = new Map(chain.turns.map((turn) => [turn.run, turn]));
  const many = new Set(chain.turns.map((turn) => turn.flow ?? turn.conversation)).size > 1;
  const all = chain.turns.length;
  return html`<div class="chained">${all > MOST ? html`<p class="dim">${t("lineage.latest.turns", { count: MOST, all })}</p>` : null}<p class="chain-head" aria-hidden="true"><span class="nums">${["new", "cached", "out", "time", "cost"].map((each) => html`<span key=${each} class="num ${each}">${t(`flow.col.${each}`)}</span>`)}</span></p><div class="lin large"><${Picture} graph=${whole} first=${0} last=${whole.rows.length - 1} sizes=${SIZES} />
      <ul aria-label=${t("chain")}>${whole.rows.map((row) => html`<${Row} key=${row.id} turn=${/** @type {Turn} */ (turns.get(row.id))} flow=${flow} many=${many} />`)}</ul></div>
    <p class="chain-total"><b>${t("lineage.total")}</b><span class="dim" data-sum="turns">${plural("lineage.turns", chain.turns.length)}</span>
      <${Numbers} usage=${chain.usage} ms=${chain.duration_ms} cost=${chain.cost_usd} estimated=${chain.cost_estimated} /></p></div>`;
}

/** @param {{usage: import("./types").Usage, ms: number | null, cost: number | null, estimated: boolean}} props */
const Numbers = ({ usage, ms, cost, estimated }) => html`<span class="nums"><span class="num" data-sum="new" title=${t("flow.col.new")}>${tokens(fresh(usage))}</span><span class="num" data-sum="cached" title=${t("flow.col.cached")}>${tokens(usage.cache_read)}</span>
  <span class="num" data-sum="out" title=${t("flow.col.out")}>${tokens(usage.output)}</span><span class="num took" data-sum="time">${duration(ms)}</span><span class="num cost" data-sum="cost">${money(cost, estimated)}</span></span>`;

/** @param {{turn: Turn, flow: string | null, many: boolean}} props */
function Row({ turn, flow, many }) {
  const came = turn.kind && turn.kind !== turn.mode ? t(`chain.${turn.kind}`) : "";
  const result = turn.failure ? t(`failure.${turn.failure}`) : t(`state.${turn.state}`);
  const where = turn.flow ? (turn.flow === flow || !many ? turn.step : `${turn.step} · ${turn.flow.slice(-6)}`) : turn.conversation;
  const who = [partOf(turn), label(turn.agent)].filter(Boolean).join(" · ");
  return html`<li data-run=${turn.run}><button type="button" onClick=${() => openTurn(turn.conversation, turn.run)}
      title=${[line(where ?? "", 60), who, turn.mode ? t(`mode.${turn.mode}`) : "", came, result, money(turn.cost_usd, turn.cost_estimated), duration(turn.duration_ms), moment(turn.created)].filter(Boolean).join(", ")}>
    <span class="who-row"><${Agent} agent=${turn.agent} label=${label(turn.agent)} /> ${partOf(turn) || label(turn.agent)} <span class="dim">${line(where ?? "", 60)}</span></span><span class="model">${line(turn.model ?? "", 40)}</span><${Mode} mode=${turn.mode} />
    <span class="cond ${turn.failure || turn.state === "failed" ? "t-failed" : turn.state === "running" ? "t-run" : turn.state === "needs_you" ? "t-needs" : ""}">${[came, result].filter(Boolean).join(", ")}</span>
    <${Numbers} usage=${turn.usage} ms=${turn.duration_ms} cost=${turn.cost_usd} estimated=${turn.cost_estimated} /></button></li>`;
}

/** @param {{parts: string[]}} props */
export function ChainView({ parts }) {
  const name = parts[0] ?? "";
  const [changed, setChanged] = useState(0);
  useEffect(() => {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let soon;
    const stop = on("run", () => {
      soon ??= setTimeout(() => {
        soon = undefined;
        setChanged((before) => before + 1);
      }, PAUSE_MS);
    });
    return () => {
      stop();
      clearTimeout(soon);
    };
  }, []);
  return html`<main class="page" id="main" tabindex="-1"><div class="in">
    <div class="ptitle"><h1>${t("chain")}</h1><span class="dim mono">${line(name, 80)}</span></div><p class="dim">${t("chain.help")} <code dir="ltr">segue chain ${line(name, 80)}</code></p>
    <${ChainPart} key=${name} name=${name} changed=${changed} /></div></main>`;
}
