// One conversation: its title, dialogue, composer, panel.
import { html, useState } from "./lib.js";
import { of, patch } from "./api.js";
import { agents, conversations, loaded, needing } from "./data.js";
import { capital, home, line, money, visible } from "./format.js";
import { link } from "./route.js";
import { t } from "./strings.js";
import { actionsOf } from "./actions.js";
import { Choice, Copy, attempt, isComposing } from "./parts.js";
import { Composer } from "./composer.js";
import { DialogueView } from "./dialogue.js";
import { listOpen } from "./list.js";
import { Panel } from "./panel.js";
import { Switcher } from "./switcher.js";
import { focused, isWide, panelFolded, panelOpen, showPanel } from "./selection.js";

/** One conversation; without a key, the form for a new one.  @param {{key_: string | null, at: string | undefined}} props */
export function Conversation({ key_, at }) {
  if (key_ === null) return html`<main class="main" id="main"><${NewConversation} /></main>`;
  return html`<main class="main" id="main"><${TopBar} key=${key_} key_=${key_} /><${DialogueView} key=${`d-${key_}`} key_=${key_} at=${at} /><${Composer} key=${`c-${key_}`} key_=${key_} /></main>
    <${Panel} key_=${key_} /><${Switcher} />`;
}

const focus = (/** @type {any} */ node) => node?.focus();

/** @param {{key_: string}} props */
function TopBar({ key_ }) {
  const known = conversations.value.get(key_);
  const [renaming, setRenaming] = useState(false);
  const save = (/** @type {any} */ event) => attempt(async () => {
    const title = event.currentTarget.value;
    if (title !== (known?.title ?? "")) await patch(of(key_), { title });
    setRenaming(false);
  });
  // Both keys leave the field, which saves what stands there.
  const leave = (/** @type {any} */ event) => {
    if (isComposing(event)) return;
    if (event.key === "Escape") event.currentTarget.value = known?.title ?? "";
    else if (event.key !== "Enter") return;
    event.stopPropagation();
    event.currentTarget.blur();
  };
  return html`<div class="bar-top">
    <button type="button" class="btn quiet only-phone" onClick=${() => (listOpen.value = true)}>‹ ${t("all")} ${needing.value.length ? html`<b class="t-needs">${needing.value.length}</b>` : null}</button>
    ${!renaming
      ? html`<div class="tt"><h1><button type="button" class="title" onClick=${() => setRenaming(true)} title=${t("rename")}>${line(known?.title || key_, 120)}</button></h1>
          <span class="only-phone dim dots"><span>${key_}</span>${known?.cwd ? html`<span>${home(known.cwd)}</span>` : null}</span></div>`
      : html`<input class="field" ref=${focus} defaultValue=${known?.title} aria-label=${t("rename")} onBlur=${save} onKeyDown=${leave} />`}
    <${Copy} class="copy no-phone" text=${key_} label=${`${t("copy.key")}: ${key_}`}>${key_}</${Copy}>
    ${known?.cwd ? html`<span class="dim no-phone" title=${known.cwd}><bdi dir="ltr">${home(known.cwd)}</bdi></span>` : null}
    <span class="dim dots no-phone">${known?.cost_usd == null ? null : html`<span>${money(known.cost_usd, known.cost_estimated)}</span>`}
      ${known?.saved_usd ? html`<span>${t("saved", { usd: money(known.saved_usd) })}</span>` : null}</span>
    <span class="r"><span class="no-phone"><${Choice} label=${t("detail")} value=${focused.value ? "focused" : "all"}
        options=${[["focused", t("focused")], ["all", t("everything")]]} onChange=${(/** @type {string} */ value) => (focused.value = value === "focused")} /></span>
      <${Menu} key_=${key_} />
      <button type="button" class="btn quiet small" aria-pressed=${String(isWide() ? !panelFolded.value : panelOpen.value)} onClick=${() => showPanel(isWide() ? panelFolded.value : !panelOpen.value)}>${t("why")}</button></span></div>`;
}

/** @param {{key_: string}} props */
function Menu({ key_ }) {
  const [open, setOpen] = useState(false);
  return html`<details class="menu" open=${open} onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}>
    <summary class="btn quiet small" aria-label=${t("menu")}>⋯</summary>
    <div class="menu-in"><button type="button" class="only-phone" aria-pressed=${String(focused.value)}
        onClick=${() => (setOpen(false), (focused.value = !focused.value))}>${capital(t("key.focused"))}</button>${actionsOf(key_).map(({ id, text, act, to, danger }) => to
      ? html`<a key=${id} href=${to}>${text}</a>`
      : html`<button key=${id} type="button" class=${danger && "danger"} onClick=${() => {
          setOpen(false);
          void attempt(async () => act?.());
        }}>${text}</button>`)}</div></details>`;
}

function NewConversation() {
  const empty = loaded.value && conversations.value.size === 0;
  return html`<div class="dialogue"><div class="empty"><h1>${t(empty ? "empty.title" : "new.title")}</h1>
      <p>${t(empty ? "empty.body" : "new.body")}</p>
      ${empty ? html`<figure class="block"><figcaption><span class="cap">${t("empty.terminal")}</span><${Copy} text=${EXAMPLE} /></figcaption><pre dir="ltr"><code>${EXAMPLE}</code></pre></figure>` : null}
      <p><a class="link" href=${link("sessions")}>${t("empty.sessions")}</a></p>
      ${agents.value.length ? html`<table><thead><tr><th>${t("agent")}</th><th>${t("version")}</th><th>${t("agent.state")}</th></tr></thead><tbody>
        ${agents.value.filter((each) => each.capabilities?.resume || each.problem).sort((a, b) => Number(Boolean(a.problem)) - Number(Boolean(b.problem))).map((each) => html`<tr key=${each.agent} class=${each.problem && "dim"}><td>${each.label}</td><td>${each.version ?? "–"}</td><td><${AgentState} agent=${each} /></td></tr>`)}</tbody></table>` : null}</div></div>
    <${Composer} key="c-new" key_=${null} />`;
}

/** @param {{agent: import("./types").AgentShown}} props */
const AgentState = ({ agent }) => agent.path === null
  ? html`${t("agent.missing")}: <a class="link" href=${link("setup")}>${t("agent.install")}</a>`
  : html`${visible(agent.problem ?? t("agent.ready"))}`;

const EXAMPLE = 'segue run hello "remember the number 456"\nsegue run hello "what number?"';
