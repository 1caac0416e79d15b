// The keys, on one sheet.
import { html, signal } from "./lib.js";
import { t } from "./strings.js";
import { Dialog } from "./parts.js";

export const helpOpen = signal(false);

/** @type {[string, string][]} */
const KEYS = [
  ["/", "find"], ["Ctrl K", "palette"], ["j k", "step"], ["J K", "walk"], ["c", "compose"], ["c", "check"], ["Enter", "send"], ["Shift Enter", "line"],
  ["e", "edit"], ["r", "retry"], ["w", "why"], ["f", "focused"], ["G", "latest"], ["n", "new"], ["Esc", "stop"],
  ["1 2 3 4 5", "views"], ["?", "help"],
];

export function Help() {
  if (!helpOpen.value) return null;
  return html`<${Dialog} title=${t("keys")} onClose=${() => (helpOpen.value = false)}><dl class="keys b">${KEYS.map(
    ([keys, name]) => html`<div key=${name}><dt>${keys.split(" ").map((key) => html`<kbd key=${key}>${key}</kbd> `)}</dt><dd>${t(`key.${name}`)}</dd></div>`,
  )}</dl></${Dialog}>`;
}
