// The view of conversations: the list, and the conversation that is open.
import { html, persist, signal, useEffect } from "./lib.js";
import { loaded } from "./data.js";
import { List } from "./list.js";
import { panelFolded, panelOpen, selected } from "./selection.js";

/** Loaded after the list is shown: it brings Markdown and highlighting, most of what the page loads. */
const Opened = signal(/** @type {any} */ (null));

/** @param {{parts: string[]}} props */
export function Conversations({ parts }) {
  const [key = null, at] = parts;
  const wanted = key !== null || loaded.value;
  useEffect(() => {
    if (wanted) void persist(() => import("./conversation.js")).then((found) => (Opened.value = found.Conversation));
  }, [wanted]);
  useEffect(() => {
    selected.value = null;
    panelOpen.value = false;
  }, [key]);
  return html`<div class="cols ${key === null || panelFolded.value ? "two" : ""}"><${List} key_=${key} />
    ${Opened.value ? html`<${Opened.value} key_=${key} at=${at} />` : html`<main class="main" id="main" aria-busy="true"></main>`}</div>`;
}
