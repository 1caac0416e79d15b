// What can be done with a session: continue it here, see what a check found, write a repaired copy.
import { html, useState } from "./lib.js";
import { drawn, once, post } from "./api.js";
import { kept } from "./drafts.js";
import { bytes, home, line, visible } from "./format.js";
import { reason } from "./reasons.js";
import { go, link } from "./route.js";
import { t } from "./strings.js";
import { Copy, attempt, isComposing, touched } from "./parts.js";
import { pathOf, refresh } from "./sessions-data.js";

/** @typedef {import("./types").SessionShown} Session */
/** @typedef {import("./types").CheckReport} CheckReport */
/** @typedef {import("./types").Finding} Finding */
/** @typedef {import("./types").RepairReport} RepairReport */

/** A message that continues the session, in its conversation or in a new one.  @param {{session: Session, onClose: () => void}} props */
export function ContinueForm({ session, onClose }) {
  const draft = `draft:session:${session.agent}:${session.id}`;
  const [{ message, id }, setDraft] = useState(() => kept.read(draft, { message: "", id: "" }));
  const [key, setKey] = useState("");
  const [busy, setBusy] = useState(false);
  const write = (/** @type {string} */ text) => {
    const next = { message: text, id: drawn() };
    setDraft(next);
    if (text) kept.write(draft, next);
    else kept.remove(draft);
  };
  const owner = session.pinned ? session.conversation : null;
  const send = () =>
    attempt(async () => {
      if (!message.trim() || busy) return;
      setBusy(true);
      const body = owner || !key.trim() ? { message } : { message, key: key.trim() };
      const run = await once(pathOf(session.agent, session.id, "/continue"), body, id).finally(() => setBusy(false));
      kept.remove(draft);
      go("conversations", run.conversation);
    });
  const typed = (/** @type {KeyboardEvent} */ event) => {
    if (isComposing(event)) return;
    if (event.key === "Escape") onClose();
    if (event.key !== "Enter" || event.shiftKey || touched.matches) return;
    event.preventDefault();
    void send();
  };
  return html`<form class="ses-form" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), void send())}>
    <label class="vh" for="ses-message">${t("sessions.message")}</label>
    <textarea id="ses-message" class="field" rows="3" value=${message} placeholder=${t("sessions.message")} disabled=${busy} onKeyDown=${typed}
      ref=${(/** @type {any} */ node) => node && !node.dataset.seen && ((node.dataset.seen = "1"), node.focus())}
      onInput=${(/** @type {any} */ event) => write(event.currentTarget.value)}></textarea>
    ${owner ? html`<p class="why">${t("sessions.continue.there", { key: line(owner, 80) })}</p>`
      : html`<label class="newkey"><span>${t("new.key")}</span><input class="field" value=${key} placeholder=${`${session.agent}-${session.id.slice(0, 8)}`} onInput=${(/** @type {any} */ event) => setKey(event.currentTarget.value)} /></label>
        <p class="why">${t("sessions.continue.new")}</p>`}
    <div class="btns"><button type="submit" class="btn primary" disabled=${busy || !message.trim()}>${t("send")}</button>
      <button type="button" class="btn quiet" onClick=${onClose}>${t("cancel")}</button></div></form>`;
}

/** @param {{report: CheckReport | null, busy: boolean, onRepair: () => void}} props */
export function CheckResult({ report, busy, onRepair }) {
  if (busy || report === null) return html`<p class="why" role="status">${busy ? t("sessions.checking") : ""}</p>`;
  const wrong = report.findings.filter((each) => each.level !== "ok");
  const fine = report.findings.filter((each) => each.level === "ok");
  return html`<div class="ses-findings" role="status"><p><b class=${report.sound ? "t-sound" : "t-failed"}>${t(report.sound ? "sessions.sound" : "sessions.unsound")}</b>${" "}
      ${t("sessions.passed", { count: fine.length, all: report.findings.length })}</p>
    <${Findings} agent=${report.agent} session=${report.session} findings=${wrong} />
    ${report.sound ? null : html`<div class="btns"><button type="button" class="btn small" onClick=${onRepair}>${t("sessions.repair")}…</button></div>`}</div>`;
}

/** @param {{agent: string, session: string, findings: Finding[]}} props */
const Findings = ({ agent, session, findings }) => html`<ul>${findings.map((each) => html`<li key=${each.check} class=${each.level}><b>${line(each.check, 60)}</b>
  <span>${line(reason(each.means, each.means_clauses), 500)}${each.do ? html` <span class="dim">${t("sessions.do", { what: line(reason(each.do, each.do_clauses), 500) })}</span>` : null}
    ${each.where.map((place, at) => html` <a class="link mono" key=${place} href=${link("sessions", agent, session, place)} aria-label=${t("sessions.place", { at: at + 1 })}>${at + 1}</a>`)}</span></li>`)}</ul>`;

/** @param {{session: Session}} props */
export function RepairForm({ session }) {
  const [trim, setTrim] = useState(false);
  const [busy, setBusy] = useState(false);
  const [report, setReport] = useState(/** @type {RepairReport | null} */ (null));
  const repair = () =>
    attempt(async () => {
      setBusy(true);
      setReport(await post(pathOf(session.agent, session.id, "/repair"), { trim }).finally(() => setBusy(false)));
      await refresh();
    });
  return html`<div class="ses-form"><p class="why">${t("sessions.repair.body")}</p>
    <label class="opt"><input type="checkbox" checked=${trim} onChange=${(/** @type {any} */ event) => setTrim(event.currentTarget.checked)} /><span>${t("sessions.trim")}<small>${t("sessions.trim.help")}</small></span></label>
    <div class="btns"><button type="button" class="btn primary" disabled=${busy} onClick=${repair}>${t("sessions.repair.do")}</button>
      ${busy ? html`<span class="hint" role="status">${t("sessions.repairing")}</span>` : null}</div>
    ${report ? html`<${Repaired} session=${session} report=${report} />` : null}</div>`;
}

/** @param {{session: Session, report: RepairReport}} props */
function Repaired({ session, report }) {
  if (report.session === session.id) return html`<p class="why" role="status">${t("sessions.repair.none")}</p>`;
  return html`<div class="ses-findings" role="status"><p><b>${t("sessions.repair.done")}</b> <a class="link mono" href=${link("sessions", report.agent, report.session)}>${report.session.slice(0, 8)}…</a>${" · "}
      ${bytes(report.size_before)} → ${bytes(report.size)}</p>
    <ul class="done">${report.done.map((each, at) => html`<li key=${each}>${line(reason(each, report.done_clauses[at]), 300)}</li>`)}
      <li>${report.rehearsed ? t("sessions.rehearsed") : report.rehearsed === false ? html`<b class="t-failed">${t("sessions.rehearsed.not")}</b>` : visible(reason(report.why_not, report.why_not_clauses))}</li>
      ${report.conversation ? html`<li>${t("sessions.repair.moves", { key: line(report.conversation, 80) })}</li>` : null}
      ${report.stays ? html`<li>${line(reason(report.stays, report.stays_clauses), 300)}</li>` : null}</ul>
    <${Findings} agent=${report.agent} session=${report.session} findings=${report.findings.filter((each) => each.level !== "ok")} />
    <p class="why"><${Copy} class="copy" text=${report.path} label=${t("sessions.copy.path")}>${line(home(report.path), 300)}</${Copy}></p></div>`;
}
