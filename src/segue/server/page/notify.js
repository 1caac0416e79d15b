// What needs the user: in the tab's title, as a badge, and as a notification while nobody looks at the page.
import { effect } from "./lib.js";
import { conversations, flowsNeeding, needing, running } from "./data.js";
import { line } from "./format.js";
import { link, route } from "./route.js";
import { t } from "./strings.js";

/** What was told already, by conversation.  @type {Map<string, string>} */
const before = new Map();
let first = true;

export function watch() {
  effect(() => {
    const { view, parts } = route.value;
    const open = view === "conversations" ? conversations.value.get(parts[0] ?? "") : undefined;
    const count = needing.value.length + flowsNeeding.value;
    const name = open ? `${line(open.title || open.key, 60)} · Segue` : "Segue";
    document.title = `${count ? `(${count}) ` : running.value.length ? "● " : ""}${name}`;
    const badge = /** @type {any} */ (navigator);
    if (count) badge.setAppBadge?.(count)?.catch?.(() => undefined);
    else badge.clearAppBadge?.()?.catch?.(() => undefined);
  });
  effect(() => {
    const now = new Map(needing.value.map((each) => [each.key, each.asks ?? ""]));
    for (const [key, asks] of now) if (!first && before.get(key) !== asks) notify(key, asks);
    before.clear();
    for (const [key, asks] of now) before.set(key, asks);
    first = conversations.value.size === 0;
  });
}

/** @param {string} key @param {string} asks */
function notify(key, asks) {
  if (!("Notification" in window) || Notification.permission !== "granted" || document.visibilityState === "visible") return;
  const title = conversations.peek().get(key)?.title || key;
  const shown = new Notification(t("notify.title", { title: line(title, 60) }), { body: line(asks, 160), tag: `segue-${key}` });
  shown.onclick = () => {
    focus();
    location.hash = link("conversations", key);
    shown.close();
  };
}
