// The column on the right: why a turn did what it did, or what the next one will do; lineage, context, session.
import { html, signal, useEffect } from "./lib.js";
import { get, of, segment } from "./api.js";
import { conversations, label, loaded, missed, runs } from "./data.js";
import { bytes, capital, duration, home, moment, money, percent, tokens } from "./format.js";
import { notices } from "./reasons.js";
import { link } from "./route.js";
import { t } from "./strings.js";
import { Copy, Gauge } from "./parts.js";
import { Checks, Ladder } from "./ladder.js";
import { LineageList } from "./lineage.js";
import { plannedFor } from "./plan.js";
import { panelFolded, panelOpen, selected } from "./selection.js";

/** @typedef {import("./types").Turn} Turn */

/** @type {{of: string, turn: Turn | null, sessions: import("./types").ConversationSession[]}} */
const NOTHING = { of: "", turn: null, sessions: [] };
const fetched = signal(NOTHING);

/** @param {{key_: string}} props */
export function Panel({ key_ }) {
  const run = selected.value;
  const known = conversations.value.get(key_);
  const gone = loaded.value && !known;
  const name = `${key_} ${run}`;
  const { turn, sessions } = fetched.value.of === name ? fetched.value : NOTHING;
  const changed = `${known?.last_used} ${known?.messages} ${known?.state} ${missed.value}`;
  useEffect(() => {
    if (gone) return undefined;
    let current = true;
    const show = async () => {
      try {
        const [found, sessions] = await Promise.all([run === null ? null : get(`/runs/${segment(run)}`), get(of(key_, "/sessions"))]);
        if (current) fetched.value = { of: name, turn: found?.turn ?? null, sessions };
      } catch {
        if (current) fetched.value = NOTHING;
      }
    };
    void show();
    return () => {
      current = false;
    };
  }, [key_, run, gone, changed, runs.value.get(run ?? "")?.state]);
  return html`<aside class="side r sheet ${panelOpen.value ? "open" : ""} ${panelFolded.value ? "folded" : ""}" aria-label=${t("panel")}>
    <div class="sheet-head"><b>${t("panel")}</b><button type="button" class="btn quiet" onClick=${() => (panelOpen.value = false)}>${t("close")}</button></div>
    <div class="scroll" tabindex="0" role="group" aria-label=${t("panel")}>
      ${run === null ? html`<${Next} key_=${key_} />` : html`<${Past} turn=${turn} />`}
      ${gone ? null : html`<${LineageList} key_=${key_} changed=${changed} />`}
      ${known?.context?.used ? html`<section class="sec"><h2>${t("context")} <span class="r">${t("context.of", { used: tokens(known.context.used), window: tokens(known.context.window) })}</span></h2>
        <${Gauge} used=${known.context.used} window=${known.context.window} words=${false} /><p class="why">${t("context.help")}</p></section>` : null}
      ${sessions.map((each) => html`<${Session} key=${`${each.agent}/${each.role}/${each.account}`} session=${each} />`)}
    </div></aside>`;
}

/** @param {{key_: string}} props */
function Next({ key_ }) {
  const { plan: next, problem } = plannedFor(key_);
  if (next === null) return html`<section class="sec"><p class="why">${capital(problem) || t("plan.unknown")}</p></section>`;
  return html`<section class="sec"><h2>${t("ladder.next", { mode: t(`mode.${next.mode}`) })} <span class="r">${label(next.agent)}</span></h2>
      <${Ladder} rungs=${next.rungs} />${next.first.map((each) => html`<p class="why" key=${each}>${each}</p>`)}</section>
    <${Checks} checks=${next.checks} />`;
}

/** @param {{turn: Turn | null}} props */
function Past({ turn: past }) {
  if (past === null) return html`<section class="sec"><p class="why">${t("ladder.soon")}</p>${back()}</section>`;
  return html`<section class="sec"><h2>${t("ladder.past", { mode: t(`mode.${past.mode}`) })} <span class="r">${t("ladder.price")}</span></h2>
      ${past.rungs.length ? html`<${Ladder} rungs=${past.rungs} />` : html`<p class="why">${t("ladder.none")}</p>`}
      <p class="why">${past.predicted_usd === null ? t("ladder.cost", { cost: money(past.cost_usd, past.cost_estimated) }) : t("ladder.predicted", { predicted: money(past.predicted_usd), cost: money(past.cost_usd, past.cost_estimated) })}
        ${past.saved.usd ? ` ${t("ladder.saved", { usd: money(past.saved.usd) })}` : ""}</p>
      ${notices(past).map((each) => html`<p class="why" key=${each}>${each}</p>`)}${back()}</section>
    <${Checks} checks=${past.why} />
    <section class="sec"><h2>${t("turn")}</h2><dl class="kv">
      <dt>${t("turn.run")}</dt><dd><${Copy} class="copy" text=${past.run} label=${t("copy.id")}>${past.run}</${Copy}></dd>
      <dt>${t("turn.agent")}</dt><dd>${label(past.agent)} ${past.agent_version ?? ""} ${past.model ?? ""}</dd>
      <dt>${t("turn.tokens")}</dt><dd class="wrap">${t("turn.usage", { input: tokens(past.usage.input), read: tokens(past.usage.cache_read), write: tokens(past.usage.cache_write), output: tokens(past.usage.output) })}</dd>
      <dt>${t("turn.time")}</dt><dd>${duration(past.duration_ms)}</dd>
      <dt>${t("turn.tools")}</dt><dd>${past.tools_run ?? "–"}${past.tools_denied?.count ? ` · ${t("turn.denied", { count: past.tools_denied.count })}` : ""}</dd>
      ${past.session_id ? html`<dt>${t("turn.session")}</dt><dd><a class="link mono" href=${link("sessions", past.agent, past.session_id)}>${past.session_id.slice(0, 8)}…</a></dd>` : null}
      ${past.attempts.length > 1 ? html`<dt>${t("turn.attempts")}</dt><dd class="wrap">${past.attempts.map((each) => `${t(`mode.${each.mode}`)}: ${t(each.outcome === "ok" ? "lineage.step.ok" : `failure.${each.outcome}`)}`).join(", ")}</dd>` : null}
    </dl></section>`;
}

const back = () => html`<p class="why"><button type="button" class="btn small" onClick=${() => (selected.value = null)}>${t("ladder.back")}</button></p>`;

/** @param {{session: import("./types").ConversationSession}} props */
function Session({ session }) {
  return html`<section class="sec"><h2>${t("session")} <span class="r">${label(session.agent)}${session.role ? ` · ${session.role}` : ""}</span></h2>
    <dl class="kv"><dt>${t("session.id")}</dt><dd><a class="link mono" href=${link("sessions", session.agent, session.session)}>${session.session.slice(0, 8)}…</a></dd>
      <dt>${t("session.cwd")}</dt><dd class="mono" title=${session.cwd}>${home(session.cwd)}</dd>
      ${session.path ? html`<dt>${t("session.file")}</dt><dd class="mono" title=${session.path}>${home(session.path)}</dd>` : null}
      ${session.size === null ? null : html`<dt>${t("session.size")}</dt><dd>${bytes(session.size)}${session.context?.used && session.context.window ? ` · ${percent(session.context.used / session.context.window)}` : ""}</dd>`}
      ${session.expires ? html`<dt>${t("session.expires")}</dt><dd>${moment(session.expires)}</dd>` : null}</dl>
    <div class="btns">${session.command ? html`<${Copy} class="btn small" text=${session.command} label=${session.command}>${t("terminal")}</${Copy}>` : null}
      <a class="btn small" href=${link("sessions", session.agent, session.session)}>${t("session.open")}</a></div></section>`;
}
