// The runs that wait in a conversation, above the entry: edited, moved, removed, started.
import { html, useEffect } from "./lib.js";
import { patch, post, remove, segment } from "./api.js";
import { loaded, unfinished } from "./data.js";
import { useKept } from "./drafts.js";
import { line, soon, visible } from "./format.js";
import { t } from "./strings.js";
import { attempt, tell } from "./parts.js";

/** @typedef {import("./types").RunShown} Run */

/** @param {{key_: string, onBegun: (text: string) => void}} props */
export function Queue({ key_, onBegun }) {
  /** The texts that are being edited, by run.  @type {[Record<string, string>, (edits: Record<string, string>) => void]} */
  const [edits, setEdits] = useKept(`queue:${key_}`, {});
  const waiting = unfinished(key_).filter((run) => run.state === "queued" || run.state === "parked");
  const edit = (/** @type {string} */ run, /** @type {string | null} */ text) => {
    const { [run]: _, ...others } = edits;
    setEdits(text === null ? others : { ...others, [run]: text });
  };
  // What began meanwhile cannot be changed any more. What was written for it is not lost.
  const begun = loaded.value ? Object.keys(edits).find((run) => !waiting.some((each) => each.run === run)) : undefined;
  useEffect(() => {
    if (begun === undefined) return;
    onBegun(edits[begun] ?? "");
    edit(begun, null);
    tell(t("queue.began"));
  }, [begun]);
  if (!waiting.length) return null;
  return html`<ul class="queue" aria-label=${t("queue.title")}>${waiting.map((run, at) => html`<${Waiting} key=${run.run} run=${run} text=${edits[run.run] ?? null}
    setText=${(/** @type {string | null} */ text) => edit(run.run, text)} at=${at} count=${waiting.length} />`)}</ul>`;
}

/** @param {{run: Run, text: string | null, setText: (text: string | null) => void, at: number, count: number}} props */
function Waiting({ run, text, setText, at, count }) {
  const path = `/queue/${segment(run.run)}`;
  const save = () => attempt(async () => {
    if (text !== null) await patch(path, { text });
    setText(null);
  });
  const move = (/** @type {number} */ place) => attempt(() => post(`${path}/move`, { place }));
  if (text !== null)
    return html`<li class="waiting edit"><textarea class="field" rows="2" value=${text} aria-label=${t("queue.edit")}
        onInput=${(/** @type {any} */ event) => setText(event.currentTarget.value)}></textarea>
      <button type="button" class="btn small primary" onClick=${save}>${t("save")}</button>
      <button type="button" class="btn small quiet" onClick=${() => setText(null)}>${t("cancel")}</button></li>`;
  return html`<li class="waiting"><b>${stateOf(run, at)}</b><span class="q" title=${visible(run.text)}>${line(run.text)}</span>
    ${run.state === "parked" || run.held_by ? html`<button type="button" class="btn quiet small" onClick=${() => attempt(() => post(`/runs/${segment(run.run)}/now`))}>${t("queue.now")}</button>` : null}
    ${at > 0 ? html`<button type="button" class="btn quiet small" onClick=${() => move(at)} aria-label=${t("queue.up")}>↑</button>` : null}
    ${at < count - 1 ? html`<button type="button" class="btn quiet small" onClick=${() => move(at + 2)} aria-label=${t("queue.down")}>↓</button>` : null}
    <button type="button" class="btn quiet small" onClick=${() => setText(run.text)}>${t("edit")}</button>
    <button type="button" class="btn quiet small" onClick=${() => attempt(() => remove(path))}>${t("remove")}</button></li>`;
}

/** @param {Run} run @param {number} at */
function stateOf(run, at) {
  if (run.held_by) return t("queue.held");
  if (run.not_before !== null) return t("until", { time: soon(run.not_before) });
  if (run.waits === "budget") return t("queue.budget");
  return t("queue.place", { place: at + 1 });
}
