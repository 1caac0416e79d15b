// Delete sessions that are no longer needed: first the list of what would go and why, then, after a second question, they go.
import { html, useEffect, useState } from "./lib.js";
import { call, get, post } from "./api.js";
import { label } from "./data.js";
import { bytes, home, line, moment, plural, when } from "./format.js";
import { reason } from "./reasons.js";
import { t } from "./strings.js";
import { Agent, Dialog, attempt, tell } from "./parts.js";
import { agentsSeen, load, sessions, nameOf } from "./sessions-data.js";

/** @typedef {import("./types").PruneReport} PruneReport */

const PAUSE_MS = 250;
/** Of a longer list, only this many are drawn. The sums are of all. */
const MOST = 300;

/** @param {{onClose: () => void}} props */
export function Prune({ onClose }) {
  const [days, setDays] = useState(/** @type {string | null} */ (null));
  const [larger, setLarger] = useState("");
  const [keep, setKeep] = useState("0");
  const [agents, setAgents] = useState(/** @type {string[]} */ ([]));
  const [report, setReport] = useState(/** @type {PruneReport | null} */ (null));
  const [problem, setProblem] = useState("");
  const [sure, setSure] = useState(false);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    get("/settings").then((told) => setDays((now) => now ?? String(told.retention.days)), () => setDays((now) => now ?? "7"));
  }, []);
  const rules = {
    days: days === "" || days === null ? null : Number(days), larger_than: larger === "" ? null : Number(larger), keep_last: Math.floor(Number(keep) || 0), agents,
  };
  const asked = JSON.stringify(rules);
  useEffect(() => {
    if (days === null) return undefined;
    setSure(false);
    setReport(null);
    const stop = new AbortController();
    const timer = setTimeout(() => {
      call("POST", "/sessions/prune", { body: { ...rules, dry_run: true }, stop: stop.signal }).then(
        (told) => {
          setReport(told);
          setProblem("");
        },
        (error) => !stop.signal.aborted && setProblem(error.message),
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [asked, days === null]);
  const prune = () =>
    attempt(async () => {
      setBusy(true);
      const done = await post("/sessions/prune", { ...rules, dry_run: false }).finally(() => setBusy(false));
      onClose();
      const gone = plural("sessions.count", done.sessions.length);
      tell(done.failed ? t("prune.failed", { sessions: gone, size: bytes(done.freed), count: done.failed }) : t("prune.done", { sessions: gone, size: bytes(done.freed) }), done.failed > 0);
      await load();
    });
  const count = (report?.sessions.length ?? 0) + (report?.homes.length ?? 0);
  const field = (/** @type {string} */ name, /** @type {string | null} */ value, /** @type {(text: string) => void} */ set) => html`<label><span>${t(`prune.${name}`)}</span>
    <input class="field" type="number" min="0" step=${name === "larger" ? "any" : "1"} value=${value ?? ""} onInput=${(/** @type {any} */ event) => set(event.currentTarget.value)} /></label>`;
  return html`<${Dialog} title=${t("prune.title")} onClose=${onClose} wide=${true}><div class="b prune-in">
      <p class="dim">${t("prune.body")}</p>
      <div class="prune-rules">${field("days", days, setDays)}${field("larger", larger, setLarger)}${field("keep", keep, setKeep)}
        ${agentsSeen.value.length > 1 ? html`<fieldset><legend>${t("prune.agents")}</legend>${agentsSeen.value.map((name) => html`<label class="opt" key=${name}><input type="checkbox" checked=${agents.includes(name)}
            onChange=${(/** @type {any} */ event) => setAgents(event.currentTarget.checked ? [...agents, name] : agents.filter((each) => each !== name))} />${label(name)}</label>`)}</fieldset>` : null}</div>
      ${problem ? html`<p class="t-failed" role="alert">${line(problem, 300)}</p>` : report === null ? html`<p class="dim" role="status">${t("prune.looking")}</p>` : html`<${Going} report=${report} />`}</div>
    <footer>${sure && report ? html`<span role="alert">${t("prune.sure")}</span>` : null}<span class="r">
      <button type="button" class="btn" onClick=${sure ? () => setSure(false) : onClose}>${t("cancel")}</button>
      ${sure ? html`<button type="button" class="btn danger" disabled=${busy} onClick=${prune}>${plural("prune.yes", count)}</button>`
        : html`<button type="button" class="btn" disabled=${!count || problem !== ""} onClick=${() => setSure(true)}>${count ? t("prune.delete", { size: bytes(report?.freed) }) : t("delete")}…</button>`}</span></footer></${Dialog}>`;
}

/** @param {{report: PruneReport}} props */
function Going({ report }) {
  if (!report.sessions.length && !report.homes.length) return html`<p role="status">${t("prune.nothing")}</p>`;
  return html`<p role="status"><b>${t("prune.sum", { sessions: plural("sessions.count", report.sessions.length), size: bytes(report.freed) })}</b>
      ${report.homes.length ? ` ${plural("prune.homes", report.homes.length)}` : ""}</p>
    <div class="tw" tabindex="0" role="region" aria-label=${t("prune.list")}><table><thead><tr><th><span class="vh">${t("agent")}</span></th><th>${t("sessions.title")}</th><th>${t("prune.why")}</th><th>${t("sessions.used")}</th><th class="num">${t("sessions.size")}</th></tr></thead>
      <tbody>${report.sessions.slice(0, MOST).map((each) => html`<tr key=${nameOf(each.agent, each.id)}><td><${Agent} agent=${each.agent} label=${label(each.agent)} /></td>
        <td class="ti" title=${line(home(each.path), 500)}>${line(sessions.value.get(nameOf(each.agent, each.id))?.title ?? "", 100) || each.id.slice(0, 8)}</td>
        <td class="wy">${line(reason(each.why, each.why_clauses), 200)}</td><td class="nw" title=${moment(each.last_used)}>${when(each.last_used)}</td><td class="num">${bytes(each.size)}</td></tr>`)}
      ${report.homes.map((path) => html`<tr key=${path}><td></td><td class="ti" colspan="4">${line(home(path), 300)}</td></tr>`)}</tbody></table></div>
    ${report.sessions.length > MOST ? html`<p class="dim">${t("prune.more", { count: report.sessions.length - MOST })}</p>` : null}`;
}
