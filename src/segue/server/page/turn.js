// What an agent did and said in one turn: tool calls as folded lines, thoughts folded, texts as Markdown.
import { html, signal, useEffect, useMemo, useState } from "./lib.js";
import { get, segment } from "./api.js";
import { label, live, runs } from "./data.js";
import { clock, duration, line, money, plural, tokens, visible } from "./format.js";
import { argument, clipped, edits, isSubagent, stepsOf } from "./steps.js";
import { t } from "./strings.js";
import { Amount, Given, changed } from "./code.js";
import { Markdown } from "./markdown.js";
import { Mode, attempt } from "./parts.js";
import { Question } from "./question.js";
import { cancel, select, useUnfolded } from "./selection.js";

/** @typedef {import("./steps.js").Step} Step */
/** @typedef {import("./steps.js").Tool} Tool */
/** @typedef {import("./types").RunShown} Run */

/** The time, second by second, while somebody looks at something that runs. */
export const now = signal(Date.now());
setInterval(() => {
  if (document.visibilityState === "visible") now.value = Date.now();
}, 1000);

/** @param {{steps: Step[], run: string, except?: number}} props the text of the step ``except`` is shown elsewhere */
export function Steps({ steps, run, except = -1 }) {
  /** @type {unknown[]} */
  const shown = [];
  /** @type {Step[]} */
  let group = [];
  const flush = () => {
    if (group.length)
      shown.push(html`<div class="tools" key=${group[0]?.n}>${group.map((each) =>
        each.kind === "tool" ? html`<${ToolLine} key=${each.n} tool=${each} run=${run} />` : html`<${Thought} key=${each.n} step=${each} run=${run} />`,
      )}</div>`);
    group = [];
  };
  for (const step of steps) {
    if (step.kind === "tool" || step.kind === "thinking") {
      group.push(step);
      continue;
    }
    flush();
    if (step.kind === "note") shown.push(html`<${Note} key=${step.n} step=${step} />`);
    else if (step.n !== except) shown.push(html`<${Said} key=${step.n} step=${step} run=${run} />`);
  }
  flush();
  return html`${shown}`;
}

/** One event of a run, as it is stored.  @param {string} run @param {number} n */
const fetchWhole = async (run, n) => (await get(`/runs/${segment(run)}/events/${n}`)).event;

/** The whole of a text of which only the beginning is known, once it is wanted.
 * @param {string} run @param {import("./steps.js").Said} step @param {boolean} wanted @param {() => void} [lost] it cannot be had now */
function useWhole(run, step, wanted, lost) {
  const [whole, setWhole] = useState(/** @type {string | null} */ (null));
  useEffect(() => {
    if (!wanted || !step.cut) return;
    void attempt(async () => (await fetchWhole(run, step.n)).text).then((text) => (typeof text === "string" ? setWhole(text) : lost?.()));
  }, [wanted, step.cut]);
  return whole ?? step.text;
}

/** A text between the calls.  @param {{step: import("./steps.js").Said, run: string}} props */
function Said({ step, run }) {
  const [wanted, want] = useUnfolded(`${run} ${step.n} whole`);
  const text = useWhole(run, step, wanted, () => want(false));
  return html`<${Markdown} text=${text} />${step.cut && text === step.text
    ? html`<p><button type="button" class="btn small" onClick=${() => want(true)}>${t("text.rest")}</button></p>` : null}`;
}

/** @param {{step: import("./steps.js").Said, run: string}} props */
const ThoughtDetails = ({ step, run }) => html`<div class="thought"><${Markdown} text=${useWhole(run, step, true)} /></div>`;

/** @param {{step: any, run: string}} props */
const Thought = ({ step, run }) => html`<${Fold} name=${`${run} ${step.n}`} summary=${html`<b>${t("thinking")}</b>
  <span class="arg">${line(step.text, 160)}</span><span class="res"></span>`}
  inside=${() => html`<${ThoughtDetails} step=${step} run=${run} />`} />`;

/** One line that unfolds, and stays so when the turn ends or the line is scrolled away.
 * @param {{name: string, kind?: string, summary: unknown, inside: () => unknown}} props */
function Fold({ name, kind = "", summary, inside }) {
  const [open, setOpen] = useUnfolded(name);
  return html`<details class="tool ${kind}" open=${open} onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}>
    <summary>${summary}</summary>${open ? inside() : null}</details>`;
}

/** @param {{step: any}} props */
const Note = ({ step }) => html`<p class="boundary"><span>${[step.name === "notice" ? "" : t(`note.${step.name}`), visible(step.text)].filter(Boolean).join(": ")}</span></p>`;

/** @param {{tool: Tool, run: string}} props */
function ToolLine({ tool, run }) {
  const changes = useMemo(() => edits(tool.input), [tool.input]);
  const amounts = useMemo(() => (tool.cut ? [] : changes.map((each) => changed(each.before, each.after))), [changes]);
  const { result } = tool;
  const failed = result !== null && (!result.ok || result.denied);
  return html`<${Fold} name=${`${run} ${tool.n}`} kind=${result ? "" : "live"} summary=${html`<b>${visible(tool.name)}</b><span class="arg">${line(argument(tool.input), 300)}</span>
      <span class="res">${tool.children.length ? `${t("tool.calls", { count: tool.children.length })} · ` : ""}<${Amount} added=${sum(amounts, "added")} removed=${sum(amounts, "removed")} />
        <${Ending} tool=${tool} failed=${failed} /></span>`}
    inside=${() => html`<${ToolDetails} tool=${tool} run=${run} />`} />`;
}

/** @param {{added: number, removed: number}[]} amounts @param {"added" | "removed"} name */
const sum = (amounts, name) => amounts.reduce((total, each) => total + each[name], 0);

/** @param {{tool: Tool, failed: boolean}} props */
function Ending({ tool, failed }) {
  const { result } = tool;
  if (result === null) return html`${t("tool.running")} ${duration(Math.max(0, now.value - tool.ms))}`;
  const how = result.denied ? t("tool.denied") : result.exit !== null ? t("tool.exit", { code: result.exit }) : failed ? t("tool.failed") : "";
  const took = duration(Math.max(0, result.ms - tool.ms));
  return html`${how ? html`<span class=${failed || result.exit ? "bad" : ""}>${how}</span> · ` : null}${took}`;
}

/** The whole of a call: what was cut in the list is fetched when it is unfolded.
 * @param {{tool: Tool, run: string}} props */
function ToolDetails({ tool, run }) {
  const [input, setInput] = useState(tool.input);
  const [output, setOutput] = useState(tool.result?.output ?? "");
  useEffect(() => {
    if (tool.cut) void attempt(async () => setInput((await fetchWhole(run, tool.n)).input));
  }, []);
  useEffect(() => {
    const { result } = tool;
    setOutput(result?.output ?? "");
    if (result?.cut) void attempt(async () => setOutput((await fetchWhole(run, result.n)).output ?? ""));
  }, [tool.result?.n]);
  return html`<div class="details"><${Given} input=${input} />
    ${tool.children.length ? html`<div class="tools">${tool.children.map((each) => html`<${ToolLine} key=${each.n} tool=${each} run=${run} />`)}</div>` : null}
    ${isSubagent(tool) && output ? html`<${Markdown} text=${output} />` : output ? html`<pre tabindex="0" dir="ltr">${visible(clipped(output))}</pre>` : null}
  </div>`;
}

/** Of a turn without an answer, the last text that there is.  @param {{steps: Step[], run: string}} props */
export function LastSaid({ steps, run }) {
  const last = steps.filter((each) => each.kind === "text").at(-1);
  return last ? html`<${Said} key=${last.n} step=${last} run=${run} />` : null;
}

/** The line at the end of each turn.
 * @param {{run: string | null, mode: string | null, usage: import("./types").Usage | null, cost: number | null,
 *   estimated?: boolean | null, ms: number | null, sent?: import("./types").Sent | null, children?: unknown}} props */
export function EndLine({ run, mode, usage, cost, estimated, ms, sent, children }) {
  if (!mode) return html`<div class="end">${children}</div>`;
  const fresh = usage === null || (usage.input === null && usage.cache_write === null) ? null : (usage.input ?? 0) + (usage.cache_write ?? 0);
  return html`<div class="end"><${Mode} mode=${mode} button=${true} onClick=${() => run && select(run)}
      name=${t("turn.why", { mode: t(`mode.${mode}`) })} />
    ${fresh === null ? null : html`<span>${t("turn.new", { count: tokens(fresh) })}</span>`}
    ${usage?.cache_read ? html`<span>${t("turn.cached", { count: tokens(usage.cache_read) })}</span>` : null}
    ${cost === null ? null : html`<span>${money(cost, estimated)}</span>`}
    ${ms === null ? null : html`<span>${duration(ms)}</span>`}
    ${sent && sent.text_messages > 1 ? html`<span>${mode === "resume" || mode === "branch" ? t("turn.catchup", { count: sent.text_messages - 1 }) : plural("turn.astext", sent.text_messages - 1)}</span>` : null}
    ${children}</div>`;
}

/** When the agent began, from what it told first; null: it has not, or it is not known yet. What waited before does not count.
 * @param {string} run @param {import("./types").FeedEvent[]} events */
function useBegan(run, events) {
  const [first, setFirst] = useState(/** @type {number | null} */ (null));
  const told = events.filter((each) => each.event.type === "session").at(-1) ?? (events[0]?.n === 1 ? events[0] : null);
  const missing = !told && events.length > 0;
  useEffect(() => {
    if (missing) void get(`/runs/${segment(run)}/events/1`).then((found) => setFirst(found.ms)).catch(() => undefined);
  }, [run, missing]);
  return told?.ms ?? first;
}

/** A turn that has not ended.  @param {{run: string, events: import("./types").FeedEvent[], focused: boolean}} props */
export function LiveTurn({ run: id, events, focused }) {
  const run = runs.value.get(id);
  const steps = useMemo(() => stepsOf(events), [events]);
  const began = useBegan(id, events);
  const piece = live.value.get(id);
  const settled = events.filter((/** @type {any} */ each) => each.event.type === "text").length;
  const text = piece !== undefined && piece.block >= settled ? piece.text : "";
  if (!run) return null;
  return html`<article class="msg" data-run=${id} aria-busy="true"><div class="who"><b>${label(run.agent)}</b>
      ${run.role ? html`<span>${run.role}</span>` : null} ${run.model ? html`<span>${line(run.model, 60)}</span>` : null}
      <span class=${run.state === "needs_you" ? "t-needs" : "t-run"}>${t(run.cancel_asked ? "state.cancelling" : `state.${run.state}`)}</span>
      <span class="r">${clock(began ?? run.created)}</span></div>
    ${focused ? null : html`<${Steps} steps=${steps} run=${id} />`}
    ${text ? html`<${Markdown} text=${text} live=${true} />` : focused ? html`<${LastSaid} steps=${steps} run=${id} />` : null}
    ${run.questions.map((question) => html`<${Question} key=${question.id} question=${question} run=${run} />`)}
    <${EndLine} run=${id} mode=${run.mode} usage=${null} cost=${null} ms=${began === null ? null : Math.max(0, now.value - began)}>
      <span class="r"><button type="button" class="btn quiet small" onClick=${() => cancel(run)}>
        ${t(run.cancel_asked ? "turn.kill" : "turn.stop")} <kbd>Esc</kbd></button></span></${EndLine}></article>`;
}
