// The session that is open: what it is, what a resume would do, what can be done with it, and its transcript.
import { html, signal, useEffect, useState } from "./lib.js";
import { get, post } from "./api.js";
import { label, missed } from "./data.js";
import { bytes, home, line, moment, percent, plural, tokens, visible, when } from "./format.js";
import { reason } from "./reasons.js";
import { go, link } from "./route.js";
import { t } from "./strings.js";
import { Choice, Copy, attempt, tell } from "./parts.js";
import { CheckResult, ContinueForm, RepairForm } from "./session-forms.js";
import { copies, focused, hitsOf, load, nameOf, pathOf, sessions } from "./sessions-data.js";
import { TranscriptView } from "./transcript.js";

/** @typedef {import("./types").SessionInfo} Info */
/** @typedef {import("./types").CheckReport} CheckReport */

/** The session that a key asked to check. */
export const checking = signal(/** @type {string | null} */ (null));
/** What the reader knows by name; the CLI's other notes are counted. Spaces of the label are hyphens here. */
const TELLING = new Set([
  "git-snapshot", "project-instructions", "file-history", "task", "worktree", "title", "tag", "agent-name", "title-by-the-model", "summary",
]);

/** @param {{agent: string | null, id: string | null, event: string | null}} props */
export function Details({ agent, id, event }) {
  if (agent === null || id === null)
    return html`<aside class="side r sheet" aria-label=${t("session")}><div class="empty small"><h2>${t("sessions.choose.title")}</h2><p>${t("sessions.choose.body")}</p></div></aside>`;
  return html`<${Open} agent=${agent} id=${id} event=${event} />`;
}

/** @param {{agent: string, id: string, event: string | null}} props */
function Open({ agent, id, event }) {
  const name = nameOf(agent, id);
  const listed = sessions.value.get(name);
  const copy = copies.value.get(name);
  const [info, setInfo] = useState(/** @type {Info | null} */ (null));
  const [problem, setProblem] = useState("");
  const changed = `${listed?.size} ${listed?.last_used} ${listed?.conversation}`;
  const gone = copy !== undefined && !copy.present && !listed;
  useEffect(() => {
    if (gone) return undefined;
    const stop = new AbortController();
    get(pathOf(agent, id), {}, stop.signal).then(
      (told) => {
        setInfo(told);
        setProblem("");
      },
      (error) => !stop.signal.aborted && setProblem(error.message),
    );
    return () => stop.abort();
  }, [changed, gone, missed.value]);
  const shown = info ?? listed ?? null;
  const title = line(shown?.title ?? "", 160) || t(shown ? "sessions.untitled" : copy ? "sessions.gone" : "session");
  return html`<aside class="side r sheet open" aria-label=${t("session")}>
    <div class="sheet-head"><b>${title}</b><button type="button" class="btn quiet" onClick=${() => go("sessions")}>${t("close")}</button></div>
    <section class="sec opened"><h2><span class="tt">${title}</span><span class="r">${label(agent)}${shown?.account ? `, ${shown.account}` : ""}</span></h2>
      ${shown ? html`<${Facts} session=${shown} info=${info} />` : copy ? html`<${Gone} copy=${copy} />` : html`<p class="why">${problem ? line(problem, 300) : t("sessions.reading")}</p>`}
      ${shown ? html`<${Actions} key=${name} session=${shown} kept=${copy !== undefined} name=${name} />` : null}</section>
    ${shown ? html`<${Bar} name=${name} agent=${agent} id=${id} event=${event} />
      <${TranscriptView} agent=${agent} id=${id} event=${event} conversation=${shown.conversation} used=${shown.last_used} />` : null}</aside>`;
}

/** @param {{session: import("./types").SessionShown, info: Info | null}} props */
function Facts({ session, info }) {
  const [more, setMore] = useState(false);
  return html`<dl class="kv">
      ${session.conversation ? html`<dt>${t("sessions.conversation")}</dt><dd><a class="link" href=${link("conversations", session.conversation)}>${line(session.conversation, 80)}</a></dd>` : null}
      <dt>${t("session.cwd")}</dt><dd class="mono" title=${line(session.cwd ?? "", 500)}>${line(home(session.cwd), 200) || "–"}</dd>
      ${info ? html`<${Resume} info=${info} />` : null}
      ${session.trouble ? html`<dt>${t("sessions.trouble")}</dt><dd class="wrap t-failed">${line(reason(session.trouble, session.trouble_clauses), 300)}</dd>` : null}
      ${more ? html`<dt>${t("session.id")}</dt><dd><${Copy} class="copy" text=${session.id} label=${t("copy.id")}>${session.id}</${Copy}></dd>
        <dt>${t("session.file")}</dt><dd><${Copy} class="copy" text=${session.path} label=${t("sessions.copy.path")}>${line(home(session.path), 300)}</${Copy}></dd>
        ${session.parent ? html`<dt>${t("sessions.parent")}</dt><dd><a class="link mono" href=${link("sessions", session.agent, session.parent)}>${line(session.parent, 12)}</a></dd>` : null}
        ${session.model ? html`<dt>${t("pick.model")}</dt><dd>${line(session.model, 80)}</dd>` : null}
        ${session.version ? html`<dt>${t("version")}</dt><dd>${line(session.version, 40)}</dd>` : null}
        ${session.branch ? html`<dt>${t("sessions.branch")}</dt><dd class="mono">${line(session.branch, 80)}</dd>` : null}
        <dt>${t("sessions.used")}</dt><dd>${moment(session.last_used)}</dd>
        <dt>${t("session.size")}</dt><dd>${bytes(session.size)}</dd>
        <dt>${t("session.expires")}</dt><dd class="wrap">${session.expires === null ? "–" : t("sessions.deletes", { agent: label(session.agent), date: moment(session.expires) })}</dd>` : null}</dl>
    <p class="why"><button type="button" class="btn quiet small fold" aria-expanded=${String(more)} onClick=${() => setMore(!more)}>${t(more ? "sessions.less" : "sessions.all")}</button></p>`;
}

/** What a resume would load and restore, and what not.  @param {{info: Info}} props */
function Resume({ info }) {
  const { load: loads, counts } = info;
  const back = [plural("sessions.messages.n", counts.messages), plural("transcript.tools", counts.calls), ...labels(counts.restored)];
  const left = [...labels(counts.left), ...(counts.side ? [t("sessions.side", { count: counts.side })] : []), t("sessions.screen")];
  const share = loads.tokens !== null && loads.window ? ` (${percent(loads.tokens / loads.window)})` : "";
  return html`<dt>${t("sessions.loads")}</dt><dd class="wrap">${loads.tokens === null ? t("sessions.loads.unknown") : t("sessions.loads.of", { tokens: tokens(loads.tokens), window: tokens(loads.window), share })}
      ${loads.compacts ? html` <b class="t-failed">${t("sessions.compacts")}</b>` : loads.compacts === false ? html` <span class="dim">${t("sessions.compacts.not")}</span>` : null}</dd>
    <dt>${t("sessions.restores")}</dt><dd class="wrap">${back.join(", ")}${counts.damaged ? html` <b class="t-failed">${plural("sessions.damaged", counts.damaged)}</b>` : null}
      ${counts.whole ? null : html` <span class="dim">${t("sessions.partly")}</span>`}</dd>
    <dt>${t("sessions.leaves")}</dt><dd class="wrap">${left.join(", ")}</dd>`;
}

/** @param {Record<string, number>} counts */
function labels(counts) {
  const all = Object.entries(counts).map(([label_, count]) => ({ name: label_.replaceAll(" ", "-"), count }));
  const rest = all.reduce((sum, { name, count }) => sum + (TELLING.has(name) ? 0 : count), 0);
  const named = all.filter(({ name }) => TELLING.has(name)).map(({ name, count }) => `${t(`sessions.label.${name}`)} (${count})`);
  return rest ? [...named, plural("transcript.notes", rest)] : named;
}

/** @param {{session: import("./types").SessionShown, kept: boolean, name: string}} props */
function Actions({ session, kept, name }) {
  const [shown, setShown] = useState("");
  const [report, setReport] = useState(/** @type {CheckReport | null} */ (null));
  const [busy, setBusy] = useState(false);
  const check = () =>
    attempt(async () => {
      setShown("check");
      setBusy(true);
      setReport(await get(pathOf(session.agent, session.id, "/check")).finally(() => setBusy(false)));
    });
  useEffect(() => {
    if (checking.value !== name) return;
    checking.value = null;
    void check();
  }, [checking.value]);
  const turn = (/** @type {string} */ what) => () => setShown(shown === what ? "" : what);
  return html`<div class="btns"><button type="button" class="btn primary" aria-expanded=${String(shown === "continue")} onClick=${turn("continue")}>${t("sessions.continue")}</button>
      ${session.command ? html`<button type="button" class="btn" aria-expanded=${String(shown === "terminal")} onClick=${turn("terminal")}>${t("terminal")}</button>` : null}
      <button type="button" class="btn" onClick=${check}>${t("sessions.check")}</button>
      <button type="button" class="btn" aria-expanded=${String(shown === "repair")} onClick=${turn("repair")}>${t("sessions.repair")}…</button></div>
    ${kept ? html`<p class="why">${t("sessions.kept.title")}</p>` : null}
    ${shown === "continue" ? html`<${ContinueForm} session=${session} onClose=${() => setShown("")} />` : null}
    ${shown === "terminal" && session.command ? html`<figure class="block"><figcaption><span class="cap">${t("empty.terminal")}</span><${Copy} text=${session.command} /></figcaption><pre tabindex="0" dir="ltr"><code>${visible(session.command)}</code></pre></figure>` : null}
    ${shown === "check" ? html`<${CheckResult} report=${report} busy=${busy} onRepair=${() => setShown("repair")} />` : null}
    ${shown === "repair" ? html`<${RepairForm} session=${session} />` : null}`;
}

/** A session that is no longer there, of which Segue has a copy.  @param {{copy: import("./types").CopyShown}} props */
function Gone({ copy }) {
  const [busy, setBusy] = useState(false);
  const restore = () =>
    attempt(async () => {
      setBusy(true);
      const { restored } = await post(pathOf(copy.agent, copy.id, "/restore")).finally(() => setBusy(false));
      tell(t("sessions.restored", { count: restored.length, path: home(restored[0]?.path) }));
      await load();
    });
  return html`<p class="why">${t("sessions.gone.body", { size: bytes(copy.size), date: when(copy.kept) })}</p>
    <dl class="kv"><dt>${t("session.id")}</dt><dd><${Copy} class="copy" text=${copy.id} label=${t("copy.id")}>${copy.id}</${Copy}></dd>
      <dt>${t("session.cwd")}</dt><dd class="mono">${line(home(copy.cwd), 200)}</dd>
      ${copy.conversation ? html`<dt>${t("sessions.conversation")}</dt><dd><a class="link" href=${link("conversations", copy.conversation)}>${line(copy.conversation, 80)}</a></dd>` : null}
      ${copy.path ? html`<dt>${t("session.file")}</dt><dd class="mono" title=${line(copy.path, 500)}>${line(home(copy.path), 300)}</dd>` : null}</dl>
    <div class="btns"><button type="button" class="btn primary" disabled=${busy || copy.path === null} onClick=${restore}>${t("sessions.restore")}</button></div>`;
}

/** How much is shown, and the way through the matches.  @param {{name: string, agent: string, id: string, event: string | null}} props */
function Bar({ name, agent, id, event }) {
  const hits = hitsOf.value.get(name) ?? [];
  const at = hits.findIndex((each) => each.place === event);
  const step = (/** @type {number} */ by) => () => {
    const next = hits[(at + by + hits.length) % hits.length];
    if (next) go("sessions", agent, id, next.place);
  };
  return html`<div class="sec bar-prev"><${Choice} label=${t("detail")} value=${focused.value ? "focused" : "all"}
      options=${[["focused", t("focused")], ["all", t("everything")]]} onChange=${(/** @type {string} */ value) => (focused.value = value === "focused")} />
    ${hits.length ? html`<span class="r">${at < 0 ? plural("sessions.matches", hits.length) : t("sessions.match", { at: at + 1, count: hits.length })}
      <button type="button" class="btn quiet small" aria-label=${t("sessions.match.before")} onClick=${step(at < 0 ? 0 : -1)}>↑</button><button type="button" class="btn quiet small" aria-label=${t("sessions.match.next")} onClick=${step(1)}>↓</button></span>` : null}</div>`;
}

