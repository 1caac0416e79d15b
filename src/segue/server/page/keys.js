// The keyboard: one key for each thing, everywhere but in fields.
import { unfinished } from "./data.js";
import { go, route } from "./route.js";
import { asked, isComposing } from "./parts.js";
import { listOpen, step } from "./list.js";
import { helpOpen } from "./help.js";
import { paletteOpen } from "./palette.js";
import { cancel, focused, isWide, panelFolded, panelOpen, selected, showPanel } from "./selection.js";

const FIELDS = "input, textarea, select, [contenteditable]";

/** The conversation that is open. */
const open = () => (route.peek().view === "conversations" ? (route.peek().parts[0] ?? null) : null);

/** The message that the keys are about: the one with the focus, else the last of the user's. */
function target() {
  const focus = document.activeElement?.closest?.(".msg");
  const all = [...document.querySelectorAll(".msg.you")];
  return /** @type {HTMLElement | undefined} */ (focus ?? all.at(-1));
}

/** @param {string} name */
function act(name) {
  const node = target();
  const all = [...document.querySelectorAll(".msg")];
  const yours = all.slice(0, node ? all.indexOf(node) + 1 : 0).findLast((each) => each.classList.contains("you"));
  /** @type {HTMLElement | null | undefined} */ (yours?.querySelector(`[data-act="${name}"]`))?.click();
}

/** @param {string} selector */
function focus(selector) {
  const node = /** @type {HTMLElement | null} */ (document.querySelector(selector));
  node?.focus();
  return node !== null;
}

/** Go to the next or previous message.  @param {number} by */
function walk(by) {
  const all = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".msg")]);
  const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement?.closest?.(".msg")));
  const next = all[at < 0 ? (by < 0 ? all.length - 1 : 0) : Math.min(all.length - 1, Math.max(0, at + by))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

/** Close menus and options. Whether any was open.  @param {Node | null} [but] what is inside of one keeps it open */
function fold(but = null) {
  const open = /** @type {HTMLDetailsElement[]} */ ([...document.querySelectorAll("details.menu[open], details.pick-more[open]")]);
  const closed = open.filter((each) => !each.contains(but));
  for (const each of closed) each.open = false;
  return closed.length > 0;
}

function escape() {
  if (paletteOpen.value || helpOpen.value || asked.value) return;
  if (panelOpen.value && !isWide()) panelOpen.value = false;
  else if (listOpen.value) listOpen.value = false;
  else {
    const key = open();
    const run = key === null ? undefined : unfinished(key).find((each) => each.state === "running" || each.state === "needs_you");
    if (run) void cancel(run);
    else selected.value = null;
  }
}

/** @type {Record<string, () => unknown>} */
const KEYS = {
  "/": () => focus("#find, .tool-line input[type=search]"),
  j: () => route.peek().view === "conversations" && step(open(), 1),
  k: () => route.peek().view === "conversations" && step(open(), -1),
  J: () => walk(1),
  K: () => walk(-1),
  e: () => act("edit"),
  r: () => act("retry"),
  f: () => (focused.value = !focused.value),
  w: () => showPanel(isWide() ? panelFolded.value : !panelOpen.value),
  n: () => go("conversations"),
  c: () => focus("#entry"),
  G: () => /** @type {HTMLElement | null} */ (document.querySelector(".jump button"))?.click(),
  1: () => go("conversations"),
  2: () => go("sessions"),
  3: () => go("flows"),
  4: () => go("usage"),
  5: () => go("setup"),
  "?": () => (helpOpen.value = true),
  Enter: () => open() !== null && !document.activeElement?.closest?.("button, a, summary") && focus("#entry"),
};

/** What keys do in the view that is open, instead of what they do elsewhere. */
export const viewKeys = { current: /** @type {Record<string, () => unknown>} */ ({}) };

export function listen() {
  addEventListener("click", (event) => fold(/** @type {Node} */ (event.target)));
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      paletteOpen.value = !paletteOpen.value;
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isComposing(event)) return;
    const field = /** @type {Element} */ (event.target)?.closest?.(FIELDS);
    if (event.key === "Escape") {
      if (fold()) return;
      if (field) /** @type {HTMLElement} */ (field).blur();
      else if (document.querySelector("dialog[open]")) return;
      else (viewKeys.current.Escape ?? escape)();
      return;
    }
    if (field || document.querySelector("dialog[open]")) return;
    const does = viewKeys.current[event.key] ?? KEYS[event.key];
    if (does && does() !== false) event.preventDefault();
  });
}
