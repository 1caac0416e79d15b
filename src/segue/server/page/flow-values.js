// What steps return and flows keep: verdicts, signals, checks, documents; shown so that people can read them.
import { html, useEffect, useState } from "./lib.js";
import { get, segment } from "./api.js";
import { bytes, line, plural, visible } from "./format.js";
import { t } from "./strings.js";
import { attempt } from "./parts.js";

/** @typedef {import("./types").FlowStepShown} Step */
/** @typedef {{id: string, text: string, severity?: string, state?: string}} Finding */
/** @typedef {{kind: "failure" | "verdict" | "signal" | "check" | "diff" | "text" | "value", said: any, text: string}} Outcome */

const STATES = ["open", "resolved", "outside"];
/** A longer document is shown in part; it can be saved as a whole. */
const LONG = 100_000;
/** The API gives so much of a turn's answer with its step. A verdict stands at the end: then the run is asked. */
const CUT = 2000;
const DEEPEST = 8;

/** The last JSON object of an answer, in a block or alone.  @param {string} text */
export function blockOf(text) {
  const blocks = [...text.matchAll(/```(?:json)?[^\S\n]*\n([\s\S]*?)```/g)].map((each) => each[1] ?? "");
  for (const each of [...blocks.reverse(), text]) {
    try {
      const found = JSON.parse(each);
      if (found && typeof found === "object") return found;
    } catch {
      // not this one
    }
  }
  return null;
}

/** What came of a step.  @param {Step} step @param {string | null} [whole] the whole answer, if the step has only its beginning
 * @returns {Outcome | null} */
export function outcome(step, whole = null) {
  const { result } = step;
  if (result === null || result === undefined) return null;
  if (step.kind !== "turn") {
    if (typeof result?.tree === "string" && typeof result.new === "string") return { kind: "diff", said: changes(result.new), text: result.new };
    if (typeof result === "object" && "command" in result && "code" in result) return { kind: "check", said: result, text: String(result.output ?? "") };
    return typeof result === "string" ? { kind: "text", said: null, text: result } : { kind: "value", said: result, text: "" };
  }
  const text = whole ?? String(result.text ?? "");
  if (result.failure) return { kind: "failure", said: result.failure, text };
  const said = blockOf(text);
  if (said && (said.verdict === "approve" || said.verdict === "reject")) return { kind: "verdict", said, text };
  if (said && typeof said.escalate === "boolean") return { kind: "signal", said, text };
  return { kind: "text", said: null, text };
}

/** How much a diff changes.  @param {string} text */
function changes(text) {
  const count = (/** @type {RegExp} */ sign) => text.match(sign)?.length ?? 0;
  return { files: count(/^diff --git /gm), added: count(/^\+(?!\+\+ )/gm), removed: count(/^-(?!-- )/gm) };
}

/** The whole answers that were fetched, by run.  @type {Map<string, string>} */
const answers = new Map();

/** The whole answer of a turn, if the step has only its beginning.  @param {Step} step @returns {string | null} */
export function useAnswer(step) {
  const run = step.kind === "turn" && step.run && step.result?.text?.length >= CUT ? step.run : null;
  const [, setFetched] = useState("");
  useEffect(() => {
    if (run === null || answers.has(run)) return;
    void get(`/runs/${segment(run)}`).then((found) => {
      answers.set(run, found.turn?.text ?? "");
      setFetched(run);
    }).catch(() => undefined);
  }, [run]);
  return run === null ? null : (answers.get(run) ?? null);
}

/** In one line.  @param {Outcome} found */
export function shortly({ kind, said, text }) {
  if (kind === "failure") return t(`failure.${said}`);
  if (kind === "verdict") {
    const open = findingsOf(said).filter((each) => each.state !== "resolved" && each.state !== "outside").length;
    return said.verdict === "approve" ? t("flow.end.approved") : [t("flow.rejected"), open ? plural("flow.findings", open) : ""].filter(Boolean).join(", ");
  }
  if (kind === "signal") return said.escalate ? t("flow.escalates", { reason: line(String(said.reason ?? ""), 90) }) : t("flow.settled");
  if (kind === "check") return `${line(said.command, 60)}: ${said.code === null ? t("failure.timeout") : t("tool.exit", { code: said.code })}`;
  if (kind === "diff") return said.files ? `${plural("flow.files", said.files)}, +${said.added} −${said.removed}` : t("flow.unchanged");
  if (/^[0-9a-f]{40}$/.test(text)) return text.slice(0, 12); // a commit
  return kind === "text" ? line(text, 90) : "";
}

/** Whether it is bad news.  @param {Outcome} found */
export const isBad = ({ kind, said }) => kind === "failure" || (kind === "check" && said.code !== 0);

/** @param {any} said @returns {Finding[]} */
export const findingsOf = (said) => (Array.isArray(said?.findings) ? said.findings.filter((/** @type {any} */ each) => each && typeof each === "object") : []);

/** @param {{findings: Finding[]}} props */
export const Findings = ({ findings }) => html`<ul class="found">${findings.map((each, at) => html`<li key=${at} class=${STATES.includes(each.state ?? "") ? each.state : "open"}>
  <b>${line(String(each.id ?? ""), 30)}</b> <span class="fs">${STATES.includes(each.state ?? "") ? t(`flow.finding.${each.state}`) : t("flow.finding.open")}</span>
  ${each.severity ? html`<span class="dim">${line(String(each.severity), 30)}</span>` : null} <span>${visible(String(each.text ?? ""))}</span></li>`)}</ul>`;

/** A JSON value as nested lists, without what is empty.  @param {{value: any, depth?: number}} props */
export function Value({ value, depth = 0 }) {
  if (value === null || typeof value !== "object") return html`<span class="val">${visible(String(value))}</span>`;
  if (depth > DEEPEST) return html`<code>${visible(JSON.stringify(value).slice(0, 500))}</code>`;
  if (Array.isArray(value) && value.length && value.every((each) => STATES.includes(each?.state))) return html`<${Findings} findings=${value} />`;
  if (Array.isArray(value)) return html`<ul class="vals">${value.map((each, at) => html`<li key=${at}><${Value} value=${each} depth=${depth + 1} /></li>`)}</ul>`;
  return html`<dl class="vals">${Object.entries(value).filter(([, each]) => !isEmpty(each)).map(([name, each]) => html`<div key=${name}><dt>${visible(name.replaceAll("_", " "))}</dt><dd><${Value} value=${each} depth=${depth + 1} /></dd></div>`)}</dl>`;
}

/** @param {any} value */
const isEmpty = (value) => value === null || value === "" || value === false || (typeof value === "object" && !Object.keys(value).length);

/** Something that a flow keeps: it is fetched when it is unfolded.
 * @param {{name: string, hash: string, size?: number | null, more?: string}} props */
export function Artefact({ name, hash, size = null, more = "" }) {
  const [text, setText] = useState(/** @type {string | null} */ (null));
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    if (!isOpen) return;
    void attempt(async () => setText(await get(`/artefacts/${segment(hash)}`)));
  }, [isOpen, hash]);
  return html`<details class="fold artefact" open=${isOpen} onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}>
    <summary><b>${line(name, 80)}</b> <span class="dim">${[size === null ? "" : bytes(size), more].filter(Boolean).join(" · ")}</span></summary>
    ${isOpen ? html`<p class="btns"><a class="btn small" href=${`/api/v1/artefacts/${segment(hash)}`} download=${name.replace(/[^\w.-]+/g, "-")}>${t("flow.save")}</a></p>
      ${text === null ? html`<p class="dim" role="status">${t("flow.reading")}</p>` : html`<${Document} text=${text} />`}` : null}</details>`;
}

/** @param {{text: string}} props */
export function Document({ text }) {
  const found = text.length < 10 * LONG ? parsed(text) : null;
  if (found && typeof found === "object") return html`<${Value} value=${found} />`;
  return html`<pre class="quote" tabindex="0" dir="ltr">${visible(text.slice(0, LONG))}${text.length > LONG ? "\n…" : ""}</pre>`;
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
