// What can be done with a conversation as a whole: for its menu and the command palette.
import { html } from "./lib.js";
import { get, of, patch, post, remove } from "./api.js";
import { conversations } from "./data.js";
import { plural } from "./format.js";
import { go, link } from "./route.js";
import { t } from "./strings.js";
import { ask, tell } from "./parts.js";
import { switching } from "./switcher.js";

/** @typedef {{id: string, text: string, act?: () => unknown, to?: string, danger?: boolean}} Action */

/** @param {string} key @returns {Action[]} */
export function actionsOf(key) {
  const known = conversations.value.get(key);
  return [
    { id: "star", text: t(known?.starred ? "star.off" : "star.on"), act: () => patch(of(key), { starred: !known?.starred }) },
    { id: "lineage", text: t("lineage"), to: link("lineage", key) },
    { id: "undo", text: t("undo"), act: () => undo(key) },
    { id: "fork", text: t("fork"), act: async () => go("conversations", (await post(of(key, "/fork"), {})).key) },
    { id: "switch", text: `${t("switch")}…`, act: () => (switching.value = key) },
    { id: "terminal", text: t("terminal"), act: () => terminal(key) },
    { id: "markdown", text: t("export.markdown"), act: () => save(key, "markdown") },
    { id: "json", text: t("export.json"), act: () => save(key, "json") },
    ...(known?.allowed_tools ?? []).map(({ agent, tool }) => ({
      id: `disallow ${agent} ${tool}`, text: t("disallow", { tool }), act: () => remove(of(key, `/allowed-tools/${encodeURIComponent(tool)}`)),
    })),
    { id: "delete", text: t("delete"), act: () => forget(key), danger: true },
  ];
}

/** @param {string} key */
async function undo(key) {
  const { kind, restored } = await post(of(key, "/undo"));
  tell(t("undo.done", { kind: t(`undo.${kind}`), back: plural("undo.back", restored) }));
}

/** Show the command that opens the newest native session in a terminal.  @param {string} key */
async function terminal(key) {
  const pins = await get(of(key, "/sessions"));
  const command = pins.find((/** @type {any} */ each) => each.command)?.command;
  if (!command) return tell(t("terminal.none"), true);
  return ask({ title: t("terminal"), body: html`<pre class="quote">${command}</pre>`, confirm: t("copy"), act: () => navigator.clipboard.writeText(command) });
}

/** @param {string} key @param {"json" | "markdown"} form */
function save(key, form) {
  const anchor = document.createElement("a");
  anchor.href = `/api/v1${of(key, "/export")}?form=${form}`;
  anchor.download = `${key.replace(/[^\w.-]+/g, "-")}.${form === "json" ? "json" : "md"}`;
  anchor.click();
}

/** @param {string} key */
function forget(key) {
  ask({
    title: t("delete.title", { key }), body: t("delete.body"), confirm: t("delete"), danger: true,
    act: async () => {
      await remove(of(key));
      go("conversations");
    },
  });
}
