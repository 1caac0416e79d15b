// Agents and settings: what the daemon finds on this machine, live, and how this page looks and speaks.
import { html, signal, useEffect, useState } from "./lib.js";
import { get } from "./api.js";
import { agents, missed, runs } from "./data.js";
import { connection } from "./feed.js";
import { bytes, clock, home, limits, line, moment, plural, visible } from "./format.js";
import { reason } from "./reasons.js";
import { LANGUAGES, choose, language, t } from "./strings.js";
import { theme, wear } from "./theme.js";
import { Agent, Choice, Copy, attempt, tell } from "./parts.js";
import { Settings } from "./setup-settings.js";

/** @typedef {import("./types").SetupFinding} Finding */
/** @typedef {import("./types").AgentShown} AgentShown */
/** @typedef {import("./types").AccountShown} Account */
/** @typedef {import("./types").DaemonStatus} Status */

const STATUS_MS = 15_000;
const SIGNS = /** @type {Record<string, string>} */ ({ bad: "✗", warn: "!", note: "–", ok: "✓" });
/** What needs to be done comes first. */
const LEVELS = ["bad", "warn", "note", "ok"];
const DECLARED = `[agents.mytool]
command = ["mytool", "run", "--json", ["--model", "{model}"]]
resume_command = ["mytool", "resume", "{session_id}", "--json"]
stdin = "prompt"
output = "jsonl"
session_id = { path = "$.session" }
text = { path = "$.message.text" }`;
const ACCOUNT = `[accounts.work]
agent = "claude"
home = "~/.claude-work"
pass_env = ["ANTHROPIC_API_KEY"]`;

const findings = signal(/** @type {Finding[] | null} */ (null));
const looked = signal(/** @type {number | null} */ (null));
const looking = signal(false);
const accounts = signal(/** @type {Account[] | null} */ (null));
const settings = signal(/** @type {import("./types").SettingsShown | null} */ (null));
const status = signal(/** @type {Status | null} */ (null));

async function look() {
  if (looking.value) return;
  looking.value = true;
  await attempt(async () => {
    const [found, known, named, chosen] = await Promise.all([get("/doctor"), get("/agents"), get("/accounts"), get("/settings")]);
    [findings.value, agents.value, accounts.value, settings.value] = [found, known, named, chosen];
    looked.value = Date.now();
  });
  looking.value = false;
}

const ask = () => get("/status").then((found) => (status.value = found)).catch(() => undefined);

export function Setup() {
  const live = connection.value === "live";
  useEffect(() => {
    // Who comes back to the page may have mended something elsewhere.
    const back = () => live && document.visibilityState === "visible" && void look();
    back();
    document.addEventListener("visibilitychange", back);
    return () => document.removeEventListener("visibilitychange", back);
  }, [live, missed.value]);
  useEffect(() => {
    if (live) void ask();
    const timer = setInterval(() => document.visibilityState === "visible" && ask(), STATUS_MS);
    return () => clearInterval(timer);
  }, [live, runs.value]);
  return html`<main class="page" id="main" tabindex="-1"><div class="in setup">
    <div class="ptitle"><h1>${t("setup")}</h1></div>
    <div class="setup-cols"><div><${Doctor} /><${Agents} /><${Accounts} /></div><div><${Page} /><${DaemonFacts} /></div></div>
    ${settings.value ? html`<${Settings} settings=${settings.value} />` : null}</div></main>`;
}

function Doctor() {
  const all = findings.value;
  const count = (/** @type {string} */ level) => all?.filter((each) => each.level === level).length ?? 0;
  const said = !all ? "" : LEVELS.filter((level) => level !== "note" && count(level)).map((level) => plural(`setup.level.${level}`, count(level))).join(", ");
  const fine = all?.filter((each) => each.level === "ok") ?? [];
  return html`<section class="part" id="doctor"><h2>${t("setup.doctor")} <span class="dim" role="status">${looking.value ? t("setup.looking") : said}</span>
      <span class="r">${looked.value === null ? "" : t("setup.looked", { time: clock(looked.value) })}
        <button type="button" class="btn small" disabled=${looking.value} onClick=${look}>${t("setup.again")}</button></span></h2>
    <ul class="findings">${LEVELS.slice(0, 3).flatMap((level) => (all ?? []).filter((each) => each.level === level)).map((each, at) => html`<${Found} key=${`${at} ${each.check}`} finding=${each} />`)}</ul>
    ${fine.length ? html`<details class="fold"><summary>${plural("setup.fine", fine.length)}</summary><ul class="findings">${fine.map((each, at) => html`<${Found} key=${at} finding=${each} />`)}</ul></details>` : null}
    <p class="why">${t("setup.doctor.help")} <code>segue doctor</code></p></section>`;
}

/** @param {{finding: Finding}} props */
const Found = ({ finding }) => html`<li class=${finding.level}><span class="v" aria-hidden="true">${SIGNS[finding.level] ?? "·"}</span>
  <span class="vh">${t(`setup.is.${finding.level}`)}: </span><b>${line(finding.check, 60)}</b>
  <span class="what">${visible(reason(finding.what, finding.what_clauses))}${finding.fix ? html`<span class="fix">→ ${visible(reason(finding.fix, finding.fix_clauses))}</span>` : null}</span></li>`;

function Agents() {
  const here = agents.value.filter((each) => each.path !== null);
  const missing = agents.value.filter((each) => each.path === null);
  const fix = (/** @type {AgentShown} */ each) => findings.value?.find((found) => found.check === each.agent && found.level === "note" && found.fix)?.fix ?? null;
  return html`<section class="part" id="agents"><h2>${t("setup.agents")}</h2>
      ${here.map((each) => html`<${OneAgent} key=${each.agent} agent=${each} />`)}</section>
    <section class="part" id="add"><h2>${t("setup.add")}</h2>
      ${missing.length ? html`<p class="why">${t("setup.add.help")}</p><ul class="installs">${missing.map((each) => html`<li key=${each.agent}><${Agent} agent=${each.agent} label=${each.label} /><b>${each.label}</b>
        ${fix(each) ? html`<code>${visible(fix(each) ?? "")}</code><${Copy} text=${fix(each) ?? ""} label=${t("setup.copy.install", { agent: each.label })} />` : html`<span class="dim">${visible(each.problem ?? "")}</span>`}</li>`)}</ul>` : null}
      <${Example} name="setup.declare" help=${t("setup.declare.help", { file: home(settings.value?.config_file) || "config.toml" })} text=${DECLARED} /></section>`;
}

/** Something to put into the configuration.  @param {{name: string, help: string, text: string, open?: boolean}} props */
const Example = ({ name, help, text, open = false }) => html`<details class="fold" open=${open}><summary>${t(name)}</summary>
  <p class="why">${help}</p><figure class="block"><figcaption><span class="cap">config.toml</span><${Copy} text=${text} /></figcaption><pre dir="ltr" tabindex="0"><code>${text}</code></pre></figure></details>`;

/** @param {AgentShown} agent @returns {[string, boolean, string][]} */
function abilities({ capabilities: can }) {
  if (!can) return [];
  return [
    ["resume", can.resume, ""], ["branch", can.branch, ""], ["questions", can.questions, ""],
    ["attachments", can.attachments.length > 0, can.attachments.join(", ")], ["permissions", can.postures.length > 1, can.postures.join(", ")],
    ["tools", can.allow_tools || can.deny_tools, ""], ["turns", can.max_turns, ""], ["budget", can.budget, ""],
    ["cwd", can.cwd_scope === "any", ""], ["cost", can.cost_scope !== "none", ""],
  ];
}

/** @param {{agent: AgentShown}} props */
function OneAgent({ agent }) {
  const models = /** @type {string[]} */ (/** @type {any} */ (agent).models ?? []);
  return html`<div class="agent"><h3><${Agent} agent=${agent.agent} label=${agent.label} />${visible(agent.label)} <span class="dim">${visible(agent.version ?? "–")}</span>
      ${agent.path === "built in" ? html`<span class="dim path">${t("agent.builtin")}</span>` : html`<span class="mono dim path" title=${agent.path}>${home(agent.path)}</span>`}</h3>
    ${agent.problem ? html`<p class="why t-failed">${visible(agent.problem)}</p>` : null}
    <ul class="checks" aria-label=${t("setup.can")}>${abilities(agent).map(([name, can, more]) => html`<li key=${name} class=${can ? "" : "o"} title=${more || undefined}>
      <span class="vh">${t(can ? "setup.yes" : "setup.no")}: </span>${t(`setup.can.${name}`)}</li>`)}</ul>
    ${models.length ? html`<p class="why">${t("setup.models")} ${models.slice(0, 8).map((each) => line(each, 40)).join(", ")}</p>` : null}
    ${agent.accounts.length ? html`<p class="why">${t("setup.accounts")}: ${agent.accounts.map((each) => line(each, 40)).join(", ")}</p>` : null}</div>`;
}

function Accounts() {
  const all = accounts.value;
  if (all === null) return null;
  return html`<section class="part" id="accounts"><h2>${t("setup.accounts")}</h2>
    ${all.length ? html`<div class="tw"><table class="cards"><thead><tr><th>${t("setup.account")}</th><th>${t("agent")}</th><th>${t("setup.account.home")}</th><th>${t("setup.account.sets")}</th><th>${t("setup.account.passes")}</th><th>${t("setup.account.limits")}</th></tr></thead>
      <tbody>${all.map((each) => html`<tr key=${`${each.agent}/${each.name}`}><td><b>${line(each.name, 60)}</b></td><td data-label=${t("agent")}>${line(each.agent, 40)}</td>
        <td class="mono" data-label=${t("setup.account.home")}>${each.home ? visible(home(each.home)) : "–"}</td><td class="mono" data-label=${t("setup.account.sets")}>${names(each.env)}</td><td class="mono" data-label=${t("setup.account.passes")}>${names(each.pass_env)}</td>
        <td data-label=${t("setup.account.limits")}>${[...(each.pays === "unknown" ? [] : [t(`pays.${each.pays}`)]), ...limits(each.limits)].join(" · ") || "–"}</td></tr>`)}</tbody></table></div>
      <p class="why">${t("setup.account.values")}</p>` : null}
    <${Example} name=${all.length ? "setup.account.add" : "setup.account.none"} help=${t("setup.account.help")} text=${ACCOUNT} /></section>`;
}

/** @param {string[]} all */
const names = (all) => (all.length ? all.map((each) => line(each, 60)).join(", ") : "–");

function Page() {
  return html`<section class="part" id="page-setup"><h2>${t("setup.page")}</h2><dl class="rows">
    <div><dt>${t("setup.language")}</dt><dd><${Choice} label=${t("setup.language")} value=${language.value} options=${Object.entries(LANGUAGES)} onChange=${(/** @type {any} */ value) => attempt(() => choose(value))} /></dd></div>
    <div><dt>${t("setup.theme")}</dt><dd><${Choice} label=${t("setup.theme")} value=${theme.value} options=${["system", "light", "dark"].map((name) => [name, t(`setup.theme.${name}`)])} onChange=${wear} /></dd></div>
    <div><dt>${t("setup.notify")}</dt><dd><${Notify} /></dd></div></dl></section>`;
}

function Notify() {
  const [permission, setPermission] = useState(() => ("Notification" in window ? Notification.permission : "missing"));
  const request = () => attempt(async () => {
    const answer = await Notification.requestPermission();
    setPermission(answer);
    if (answer !== "granted") tell(t("setup.notify.denied"), true);
  });
  return html`${permission === "default" ? html`<button type="button" class="btn small" onClick=${request}>${t("setup.notify.ask")}</button>` : html`<b>${t(`setup.notify.${permission}`)}</b>`}
    <p class="why">${t("setup.notify.help")}</p>`;
}

function DaemonFacts() {
  const now = status.value;
  if (now === null) return html`<section class="part" id="daemon"><h2>${t("setup.daemon")}</h2><p class="why">${t(connection.value === "lost" ? "banner.lost" : "setup.looking")}</p></section>`;
  const open = Object.entries(now.runs).filter(([, count]) => count);
  return html`<section class="part" id="daemon"><h2>${t("setup.daemon")}</h2><dl class="kv facts">
      <dt>${t("setup.version")}</dt><dd>${now.version}</dd>
      <dt>${t("setup.address")}</dt><dd><${Copy} class="copy" text=${now.url}>${now.url}</${Copy}></dd>
      <dt>${t("setup.pid")}</dt><dd>${now.pid}</dd>
      <dt>${t("setup.since")}</dt><dd>${moment(now.started)}</dd>
      <dt>${t("setup.memory")}</dt><dd>${bytes(now.memory)}</dd>
      <dt>${t("setup.runs")}</dt><dd class="wrap">${open.length ? open.map(([state, count]) => `${t(`state.${state}`)} ${count}`).join(", ") : t("setup.runs.none")}</dd>
      <dt>${t("setup.questions")}</dt><dd>${now.questions}</dd></dl>
    <p class="why">${t("setup.daemon.help")} <code>segue status</code> <code>segue stop</code> <code>segue serve</code></p></section>`;
}
