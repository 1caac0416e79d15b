// What needs the user: in the tab's title and icon, as a badge, and as a notification while nobody looks at the page.
import { effect } from "./lib.js";
import { conversations, flowsLoaded, flowsNeeding, loaded, needing, running } from "./data.js";
import { line } from "./format.js";
import { link, route } from "./route.js";
import { t } from "./strings.js";

/** @typedef {{to: string, name: string, asks: string}} Need where it is, what it is called, and what it asks */

export function watch() {
  effect(() => {
    const { view, parts } = route.value;
    const open = view === "conversations" ? conversations.value.get(parts[0] ?? "") : undefined;
    const count = needing.value.length + flowsNeeding.value.length;
    const name = open ? `${line(open.title || open.key, 60)} · Segue` : "Segue";
    document.title = `${count ? `(${count}) ` : running.value.length ? "● " : ""}${name}`;
    const icon = /** @type {HTMLLinkElement} */ (document.querySelector("link[rel=icon]"));
    const file = icon.href.replace(/[^/]+$/, count ? "icon-needs.svg" : "icon.svg");
    if (icon.href !== file) icon.href = file;
    const badge = /** @type {any} */ (navigator);
    if (count) badge.setAppBadge?.(count)?.catch?.(() => undefined);
    else badge.clearAppBadge?.()?.catch?.(() => undefined);
  });
  tellNew(loaded, () => needing.value.map((each) => ({ to: link("conversations", each.key), name: each.title || each.key, asks: each.asks ?? "" })));
  tellNew(flowsLoaded, () => flowsNeeding.value.map((each) => ({ to: link("flows", each.flow), name: each.name, asks: each.asks })));
}

/** Notify of what comes after the page was loaded.  @param {{value: boolean}} known @param {() => Need[]} read */
function tellNew(known, read) {
  /** @type {Map<string, string>} */
  let before = new Map();
  let first = true;
  effect(() => {
    const needs = read();
    for (const need of needs) if (!first && before.get(need.to) !== need.asks) notify(need);
    before = new Map(needs.map((need) => [need.to, need.asks]));
    first = !known.value;
  });
}

/** @param {Need} need */
function notify({ to, name, asks }) {
  if (!("Notification" in window) || Notification.permission !== "granted" || document.visibilityState === "visible") return;
  const shown = new Notification(t("notify.title", { title: line(name, 60) }), { body: line(asks, 160), tag: `segue-${to}` });
  shown.onclick = () => {
    focus();
    location.hash = to;
    shown.close();
  };
}
