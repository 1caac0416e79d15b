// The runs that wait in a conversation, above the entry: edited, moved, removed, started.
import { html, useState } from "./lib.js";
import { patch, post, remove, segment } from "./api.js";
import { unfinished } from "./data.js";
import { clock, line, visible, when } from "./format.js";
import { t } from "./strings.js";
import { attempt } from "./parts.js";

/** @typedef {import("./types").RunShown} Run */

/** @param {{key_: string}} props */
export function Queue({ key_ }) {
  const waiting = unfinished(key_).filter((run) => run.state === "queued" || run.state === "parked");
  if (!waiting.length) return null;
  return html`<ul class="queue" aria-label=${t("queue.title")}>${waiting.map((run, at) => html`<${Waiting} key=${run.run} run=${run}
    at=${at} count=${waiting.length} />`)}</ul>`;
}

/** @param {{run: Run, at: number, count: number}} props */
function Waiting({ run, at, count }) {
  const [text, setText] = useState(/** @type {string | null} */ (null));
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
  if (run.not_before !== null) return t("queue.until", { time: run.not_before - Date.now() < 43_200_000 ? clock(run.not_before) : when(run.not_before) });
  return t("queue.place", { place: at + 1 });
}
