// The frame around every view: the views, what runs, search, and what is wrong with the connection.
import { html, persist, signal, useEffect } from "./lib.js";
import { get } from "./api.js";
import { conversations, flowsNeeding, loaded, needing, running } from "./data.js";
import { connection, daemon } from "./feed.js";
import { money } from "./format.js";
import { INNER, VIEWS, link, route } from "./route.js";
import { t } from "./strings.js";
import { Asked, Told } from "./parts.js";
import { Help, helpOpen } from "./help.js";
import { Palette, paletteOpen } from "./palette.js";
import { Conversations } from "./conversations.js";

const today = signal(/** @type {import("./types").UsageSum | null} */ (null));
/** Views other than conversations are loaded when they are opened first.  @type {import("./lib.js").Signal<Record<string, any>>} */
const views = signal({ conversations: Conversations });
const LOADERS = /** @type {Record<string, () => Promise<any>>} */ ({
  sessions: async () => (await import("./sessions.js")).Sessions,
  lineage: async () => (await import("./lineage-view.js")).LineageView,
  flows: async () => (await import("./flows.js")).Flows,
  chain: async () => (await import("./chain-view.js")).ChainView,
  usage: async () => (await import("./usage.js")).Usage,
  setup: async () => (await import("./setup.js")).Setup,
});

export function Frame() {
  const { view, parts } = route.value;
  const View = views.value[view];
  useEffect(() => {
    if (loaded.value) void persist(() => import("./flows-data.js"));
  }, [loaded.value]);
  useEffect(() => {
    if (!View && LOADERS[view]) void persist(LOADERS[view]).then((found) => (views.value = { ...views.value, [view]: found }));
  }, [view]);
  if (connection.value === "refused") return html`<${Refused} />`;
  return html`<a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => (event.preventDefault(), document.getElementById("main")?.focus())}>${t("skip")}</a>
    <${Top} view=${view} /><${Banner} />
    ${View ? html`<${View} parts=${parts} />` : html`<main class="main" id="main" aria-busy="true"></main>`}
    <${Palette} /><${Help} /><${Asked} /><${Told} />`;
}

/** @param {{view: string}} props */
function Top({ view }) {
  const waiting = /** @type {Record<string, number>} */ ({ conversations: needing.value.length, flows: flowsNeeding.value.length });
  const newest = Math.max(0, ...[...conversations.value.values()].map((each) => each.last_used));
  useEffect(() => {
    void get("/usage", { by: "day", since: "1d" })
      .then((found) => (today.value = found.sums.find((/** @type {any} */ each) => each.name === new Date().toLocaleDateString("sv")) ?? null))
      .catch(() => undefined);
  }, [newest]);
  // On a phone, the views are wider than the screen.
  useEffect(() => document.querySelector(".views [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [view]);
  return html`<header class="top"><a class="logo" href=${link("conversations")}><svg class="mg" aria-hidden="true"><use href="#m-logo" /></svg>segue</a>
    <nav class="views" aria-label=${t("views")}>${VIEWS.map((name) => html`<a key=${name} href=${link(name)}
      aria-current=${name === (INNER[view] ?? view) ? "page" : undefined}>${t(name)}${waiting[name] ? html` <b>${waiting[name]}<span class="vh"> ${t("need.you")}</span></b>` : null}</a>`)}</nav>
    <div class="right">${running.value.length ? html`<span><b>${running.value.length}</b> ${t("running")}</span>` : null}
      ${today.value?.cost_usd ? html`<span><b>${money(today.value.cost_usd, today.value.cost_estimated)}</b> ${t("today")}</span>` : null}
      <button type="button" class="btn small" onClick=${() => (paletteOpen.value = true)}>${t("palette")} <kbd>Ctrl K</kbd></button>
      <button type="button" class="btn quiet small" aria-label=${t("keys")} onClick=${() => (helpOpen.value = true)}>?</button></div></header>`;
}

function Banner() {
  const replaced = daemon.value?.replaced;
  if (replaced) return html`<p class="banner" role="status">${t("banner.updated", { version: replaced })} <button type="button" class="btn small" onClick=${() => location.reload()}>${t("reload")}</button></p>`;
  if (connection.value === "lost") return html`<p class="banner" role="status">${t("banner.lost")}</p>`;
  return null;
}

function Refused() {
  return html`<main class="main refused" id="main"><div class="empty"><h1>${t("refused.title")}</h1><p>${t("refused.body")}</p>
    <pre class="quote">segue status --link</pre></div></main>`;
}
