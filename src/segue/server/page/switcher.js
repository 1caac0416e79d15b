// Continues a conversation under another account. Nothing said before crosses unless the user ticks the box.
import { html, signal, useEffect, useState } from "./lib.js";
import { get, of, patch } from "./api.js";
import { conversations, label, unfinished } from "./data.js";
import { bytes, money, plural } from "./format.js";
import { t } from "./strings.js";
import { Choice, Dialog, attempt, tell } from "./parts.js";

/** The conversation whose account is being chosen. */
export const switching = signal(/** @type {string | null} */ (null));

export const Switcher = () => (switching.value === null ? null : html`<${Form} key=${switching.value} key_=${switching.value} />`);

/** @param {{key_: string}} props */
function Form({ key_ }) {
  const known = conversations.value.get(key_);
  const [accounts, setAccounts] = useState(/** @type {import("./types").AccountShown[]} */ ([]));
  const [account, setAccount] = useState("");
  const [carry, setCarry] = useState(false);
  const [mode, setMode] = useState("raw");
  const [queued, setQueued] = useState("keep");
  const [busy, setBusy] = useState(false);
  useEffect(() => void attempt(async () => setAccounts(await get("/accounts"))), []);
  const close = () => (switching.value = null);
  const waiting = unfinished(key_).filter((run) => run.state === "queued" || run.state === "parked").length;
  const others = accounts.filter((each) => each.name !== known?.account);
  const act = () =>
    attempt(async () => {
      setBusy(true);
      const body = { account, carry_context: carry, carry_mode: mode, ...(waiting && { queued }) };
      const done = await patch(of(key_, "/account"), body).finally(() => setBusy(false));
      const carried = done.carried;
      const cut = carried?.left_out ? ` ${t("switch.cut", { lost: bytes(carried.left_out) })}` : "";
      tell(t(carried === null ? "switch.done" : carried.mode === "none" ? "switch.nothing" : carried.mode === "summary" ? "switch.summarised" : carried.why ? "switch.instead" : "switch.carried",
        { account, turns: plural("switch.turns", carried?.turns ?? 0), size: bytes(carried?.bytes ?? 0), why: carried?.why, cost: money(carried?.cost_usd ?? null) }) + cut);
      close();
    });
  return html`<${Dialog} title=${t("switch")} onClose=${close}><div class="b">
      <label class="opt"><span>${t("switch.to")}</span> <select class="field" value=${account} onChange=${(/** @type {any} */ event) => setAccount(event.currentTarget.value)}>
        <option value=""></option>${others.map((each) => html`<option key=${each.name} value=${each.name}>${each.name} · ${label(each.agent)}</option>`)}
        ${known?.account ? html`<option value="none">${t("account.none")}</option>` : null}</select></label>
      <label class="opt"><input type="checkbox" checked=${carry} aria-describedby="consent" onChange=${(/** @type {any} */ event) => setCarry(event.currentTarget.checked)} />
        <span>${t("switch.carry")}<small id="consent">${t("switch.consent")}</small></span></label>
      ${carry ? html`<${Choice} label=${t("switch.carry")} value=${mode} options=${[["raw", t("switch.raw")], ["summary", t("switch.summary")]]} onChange=${setMode} />` : null}
      ${waiting ? html`<p>${t("switch.queued", { count: waiting })} <${Choice} label=${t("queue")} value=${queued} options=${[["keep", t("switch.keep")], ["move", t("switch.move")]]} onChange=${setQueued} /></p>` : null}</div>
    <footer><span class="r"><button type="button" class="btn" onClick=${close}>${t("cancel")}</button>
      <button type="button" class="btn primary" disabled=${!account || busy} onClick=${act}>${t("switch.do")}</button></span></footer></${Dialog}>`;
}
