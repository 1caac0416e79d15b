// Search everything: conversations, their messages, native sessions, views and commands. Ctrl-K.
import { html, signal, useEffect, useState } from "./lib.js";
import { get } from "./api.js";
import { byUse, label } from "./data.js";
import { line, when } from "./format.js";
import { VIEWS, link, route } from "./route.js";
import { t } from "./strings.js";
import { actionsOf } from "./actions.js";
import { Dialog, State, attempt, isComposing } from "./parts.js";
import { marked } from "./list.js";
import { themes } from "./theme.js";
import { focused } from "./selection.js";

/** @typedef {{id: string, group: string, text: string, more?: string, state?: string, act: () => unknown}} Item */

export const paletteOpen = signal(false);
const PAUSE_MS = 200;
const MOST = 8;

/** @param {string} to */
const goTo = (to) => () => (location.hash = to);

/** What can be done with the conversation that is open.  @returns {Item[]} */
function actions() {
  const { view, parts: [key] } = route.peek();
  if (view !== "conversations" || !key) return [];
  return actionsOf(key).map(({ id, text, act, to }) => ({ id, group: "do", text, act: to ? goTo(to) : () => attempt(async () => act?.()) }));
}

/** @returns {Item[]} */
const commands = () => [
  ...actions(),
  ...VIEWS.map((view) => ({ id: view, group: "go", text: t(view), act: goTo(link(view)) })),
  { id: "new", group: "go", text: t("new.title"), act: goTo(link("conversations")) },
  { id: "focused", group: "do", text: t("key.focused"), act: () => (focused.value = !focused.value) },
  ...themes.map((theme) => ({ id: theme.name, group: "do", text: theme.label(), act: theme.set })),
];

/** @param {string} text @returns {Item[]} */
function here(text) {
  const has = (/** @type {string} */ said) => said.toLowerCase().includes(text.toLowerCase());
  return [
    ...byUse.value.filter((each) => has(`${each.key} ${each.title}`)).slice(0, MOST).map((each) => ({
      id: each.key, group: "conversations", text: line(each.title || each.key, 90), more: each.key, state: each.state, act: goTo(link("conversations", each.key)),
    })),
    ...commands().filter((each) => has(each.text)),
  ];
}

/** @param {string} text @param {AbortSignal} stop @returns {Promise<Item[]>} */
async function elsewhere(text, stop) {
  const [messages, sessions] = await Promise.all([
    get("/search", { text, limit: MOST }, stop).catch(() => []),
    get("/sessions/search", { q: text, limit: MOST, index: "false" }, stop).catch(() => []),
  ]);
  return [
    ...messages.filter((/** @type {any} */ each) => each.where === "message").map((/** @type {any} */ each) => ({
      id: `${each.key}/${each.message}`, group: "messages", text: line(each.snippet, 400), more: `${each.key} · ${when(each.created)}`, act: goTo(link("conversations", each.key, each.message)),
    })),
    ...sessions.map((/** @type {any} */ each) => ({
      id: `${each.agent}/${each.session}/${each.place}`, group: "sessions", text: line(each.snippet, 120), more: `${label(each.agent)} · ${each.session.slice(0, 8)}`, act: goTo(link("sessions", each.agent, each.session, each.place)),
    })),
  ];
}

export function Palette() {
  return paletteOpen.value ? html`<${Open} />` : null;
}

function Open() {
  const [text, setText] = useState("");
  const [found, setFound] = useState(/** @type {Item[]} */ ([]));
  const [at, setAt] = useState(0);
  useEffect(() => {
    setAt(0);
    setFound([]);
    if (text.trim().length < 2) return undefined;
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      const items = await elsewhere(text.trim(), stop.signal);
      if (!stop.signal.aborted) setFound(items);
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text]);
  const items = [...here(text.trim()), ...found];
  const close = () => (paletteOpen.value = false);
  const choose = (/** @type {Item | undefined} */ item) => {
    close();
    item?.act();
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (isComposing(event)) return;
    if (event.key === "ArrowDown") setAt(Math.min(items.length - 1, at + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
    else if (event.key === "Enter") choose(items[at]);
    else return;
    event.preventDefault();
  };
  return html`<${Dialog} title=${t("palette")} onClose=${close} wide=${true}>
    <input class="field" type="search" autofocus value=${text} placeholder=${t("palette.find")} aria-label=${t("palette.find")} role="combobox"
      aria-expanded="true" aria-controls="palette" aria-activedescendant=${items[at] ? `p-${at}` : undefined}
      onInput=${(/** @type {any} */ event) => setText(event.currentTarget.value)} onKeyDown=${key} />
    <ul id="palette" role="listbox" aria-label=${t("palette")}>${items.map((item, place) => html`
      <li key=${`${item.group}/${item.id}`} id="p-${place}" role="option" aria-selected=${String(place === at)} onClick=${() => choose(item)}
          ref=${(/** @type {any} */ node) => place === at && node?.scrollIntoView({ block: "nearest" })}>
        <span class="g">${t(`palette.${item.group}`)}</span>${item.state ? html`<${State} state=${item.state} />` : null}
        <span class="t">${marked(item.text, text.trim())}</span><span class="more">${item.more ?? ""}</span></li>`)}</ul></${Dialog}>`;
}
