// Where messages are written: to whom, where, and what sending will do and cost, before it is sent.
import { computed, effect, html, signal, useEffect, useLayoutEffect, useMemo, useRef } from "./lib.js";
import { drawn, get, of, submit } from "./api.js";
import { agents, byUse, conversations, isUnfinished, label, missed, unfinished } from "./data.js";
import { bytes, home, visible } from "./format.js";
import { go } from "./route.js";
import { t } from "./strings.js";
import { Switch, attempt, isComposing, tell, touched, useGrowth } from "./parts.js";
import { kept } from "./drafts.js";
import { follow } from "./dialogue.js";
import { PlanLine, planned, plannedFor } from "./plan.js";
import { Queue } from "./queue.js";

/** @typedef {import("./types").Why} Why */
/** @typedef {{name: string, data: string, bytes: number, image: HTMLCanvasElement | null, file: File}} File_ */
/**
 * @typedef {object} Draft
 * @property {string} text
 * @property {string} key  of a conversation that does not exist yet
 * @property {string} agent  empty: as before
 * @property {string} account
 * @property {string} model
 * @property {string} role
 * @property {string} cwd
 * @property {string} permission
 * @property {boolean} fresh
 * @property {boolean} blank
 * @property {string} id  of a message that was sent and not accepted yet
 */

/** @type {Draft} */
const EMPTY = { text: "", key: "", agent: "", account: "", model: "", role: "", cwd: "", permission: "", fresh: false, blank: false, id: "" };
const SENT = { text: "", key: "", fresh: false, blank: false };
const UNPICKED = { agent: "", account: "" };
const NEW = "";
const PLAN_PAUSE_MS = 250;
/** A longer text is planned by its beginning; only its size matters, and an address has an end. */
const PLANNED = 4000;
const MOST_FILES = 8;
const LARGEST_FILE = 10 * 1024 * 1024;

/** @param {{key_: string | null}} props  null: a conversation that does not exist yet */
export function Composer({ key_ }) {
  const name = `draft:${key_ ?? NEW}`;
  const state = useMemo(() => underWay.get(name) ?? begun(name), [name]);
  const { draft, files, sending } = state;
  const newKey = useMemo(() => computed(() => draft.value.key), [name]);
  const change = (/** @type {Partial<Draft>} */ part) => {
    draft.value = { ...draft.value, id: "", ...part };
    kept.write(name, sending.reduceRight(joined, draft.value));
  };
  usePlan(key_, draft);
  const { plan } = plannedFor(key_);
  const busy = key_ !== null && unfinished(key_).some(isUnfinished);
  useTaken(key_, draft, change, busy);
  useDropped(files);
  const { text } = draft.value;
  const send = () => {
    const [before, attached] = [draft.peek(), files.peek()];
    if (!before.text.trim() && !attached.length) return;
    const key = key_ ?? (newKey.peek().trim() || suggested(before.text));
    const given = { ...before, id: before.id || drawn(), key };
    // The entry is free at once for the next message. They are sent one after the other, and kept until they are accepted.
    underWay.set(name, state);
    sending.push(given);
    change({ ...SENT, ...(taken(key_, given) && UNPICKED) });
    files.value = [];
    state.last = state.last.then(async () => {
      const sent = await attempt(() => submit(key, order(given, attached), given.id));
      sending.shift();
      if (!sending.length) underWay.delete(name);
      change(sent ? { id: draft.peek().id } : joined(draft.peek(), given));
      if (!sent) {
        files.value = [...attached, ...files.peek()];
      } else if (key_ === null) go("conversations", key);
      else follow();
    });
  };
  const typed = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" || event.shiftKey || isComposing(event) || touched.matches) return;
    event.preventDefault();
    send();
  };
  const target = draft.value.agent || (key_ && conversations.value.get(key_)?.agent) || plan?.agent || "";
  return html`<form class="composer" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), send())}><div>
    ${key_ === null ? null : html`<${Queue} key_=${key_} onBegun=${(/** @type {string} */ more) => change({ text: [text, more].filter(Boolean).join("\n\n") })} />`}
    <${PlanLine} draft=${draft.value} busy=${busy} key_=${key_} />
    ${key_ === null ? html`<label class="newkey"><span>${t("new.key")}</span><input class="field" value=${newKey.value}
      placeholder=${suggested(text)} onInput=${(/** @type {any} */ event) => change({ key: event.currentTarget.value })} />
      ${conversations.value.has(newKey.value.trim()) ? html`<span>${t("new.taken")}</span>` : null}</label>` : null}
    <div class="entry"><${Entry} value=${text} onInput=${(/** @type {string} */ value) => change({ text: value })} onKeyDown=${typed}
        onPaste=${(/** @type {ClipboardEvent} */ event) => event.clipboardData?.files.length && !event.clipboardData.getData("text/plain") && (event.preventDefault(), take(files, event.clipboardData))}
        label=${t("message.to", { agent: label(target) })} />
      <${Files} files=${files} />
      <div class="tray"><${Pickers} key_=${key_} draft=${draft.value} change=${change} plan=${plan} target=${target} files=${files} />
        <span class="r"><${Switch} checked=${draft.value.fresh} onChange=${(/** @type {boolean} */ on) => change({ fresh: on, blank: false })}
            title=${t("fresh.title")}>${t("fresh")}</${Switch}>
          <button class="btn primary" type="submit" disabled=${!text.trim() && !files.value.length}>
            ${t(busy ? "queue" : "send")}</button></span></div></div></div></form>`;
}

/** What is being sent, also while something else is shown.  @type {Map<string, ReturnType<typeof begun>>} */
const underWay = new Map();

/** @param {string} name */
const begun = (name) => ({
  draft: signal(/** @type {Draft} */ ({ ...EMPTY, ...kept.read(name, {}) })),
  files: filesOf(name),
  sending: /** @type {Draft[]} */ ([]),
  last: Promise.resolve(),
});

/** A message that is not accepted yet, and what was written since.  @param {Draft} since @param {Draft} given @returns {Draft} */
const joined = (since, given) => (since.text ? { ...given, text: `${given.text}\n\n${since.text}`, id: "" } : given);

/** @param {Draft} draft @param {File_[]} files */
function order(draft, files) {
  const { text, agent, account, model, role, cwd, permission, fresh, blank } = draft;
  return {
    message: text,
    ...(agent && { agent }),
    ...(account && { account }),
    ...(model && { model }),
    ...(role && { role }),
    ...(cwd && { cwd }),
    ...(fresh && { fresh_session: true }),
    ...(blank && { blank: true }),
    ...(files.length && { attachments: files.map(({ name, data }) => ({ name, data })) }),
    ...(permission && { options: { permission } }),
    answers: true,
  };
}

/** A key from the first words.  @param {string} text */
export function suggested(text) {
  const words = text.toLowerCase().normalize("NFD").replace(/[\u0300-\u036f]/g, "").match(/[a-z0-9]+/g) ?? [];
  const base = words.slice(0, 4).join("-").slice(0, 40) || "chat";
  const taken = conversations.value;
  for (let n = 1; ; n += 1) {
    const key = n === 1 ? base : `${base}-${n}`;
    if (!taken.has(key)) return key;
  }
}

/**
 * @param {string | null} key
 * @param {import("./lib.js").Signal<Draft>} draft
 */
function usePlan(key, draft) {
  const { agent, account, model, role, cwd, fresh, blank, permission, text, key: named } = draft.value;
  const known = key === null ? undefined : conversations.value.get(key);
  const size = Math.ceil(text.length / 200);
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const query = { text: text.slice(0, PLANNED), agent, account, model, role, cwd, permission, fresh_session: fresh, blank };
        planned.value = { key, plan: await get(of(key ?? (named.trim() || suggested(text)), "/plan"), query, stop.signal), problem: "" };
      } catch (error) {
        const { name, message } = /** @type {Error} */ (error);
        if (name !== "AbortError") planned.value = { key, plan: null, problem: message };
      }
    }, PLAN_PAUSE_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [key, named, agent, account, model, role, cwd, fresh, blank, permission, size, known?.agent, known?.account, known?.last_used, known?.state, known?.messages, missed.value]);
}

/** Whether the conversation now has the agent and account that were picked: nothing is left to ask for.
 * @param {string | null} key @param {Draft} draft */
function taken(key, { agent, account }) {
  const known = conversations.peek().get(key ?? NEW);
  return key === null || ((!agent || agent === known?.agent) && (!account || account === (known?.account ?? "none")));
}

/** A pick holds until the conversation has it, or was switched to another account.
 * @param {string | null} key @param {import("./lib.js").Signal<Draft>} draft @param {(part: Partial<Draft>) => void} change @param {boolean} busy */
function useTaken(key, draft, change, busy) {
  const known = conversations.value.get(key ?? NEW);
  const before = useRef(known);
  useEffect(() => {
    const picked = draft.peek().agent || draft.peek().account;
    if (picked && key !== null && before.current && (!busy || taken(key, draft.peek()))) change(UNPICKED);
    before.current = known;
  }, [known?.agent, known?.account]);
}

/** Files that are dropped anywhere on the page. Text goes where it is dropped.  @param {import("./lib.js").Signal<File_[]>} files */
function useDropped(files) {
  useLayoutEffect(() => {
    const handle = (/** @type {DragEvent} */ event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      if (event.type === "drop") void take(files, event.dataTransfer);
    };
    for (const name of /** @type {const} */ (["dragover", "drop"])) addEventListener(name, handle);
    return () => ["dragover", "drop"].forEach((name) => removeEventListener(name, /** @type {EventListener} */ (handle)));
  }, [files]);
}

/** A field that grows with its text.
 * @param {{value: string, onInput: (value: string) => void, onKeyDown: (event: KeyboardEvent) => void,
 *   onPaste: (event: ClipboardEvent) => void, label: string}} props */
function Entry({ value, onInput, onKeyDown, onPaste, label: name }) {
  const ref = useGrowth(value);
  return html`<textarea id="entry" rows="2" ref=${ref} value=${value} aria-label=${name} placeholder=${name}
    onInput=${(/** @type {any} */ event) => onInput(event.currentTarget.value)} onKeyDown=${onKeyDown} onPaste=${onPaste}></textarea>`;
}

/** @param {{key_: string | null, draft: Draft, change: (part: Partial<Draft>) => void, plan: Why | null, target: string,
 *   files: import("./lib.js").Signal<File_[]>}} props */
function Pickers({ key_, draft, change, plan, target, files }) {
  const known = key_ === null ? undefined : conversations.value.get(key_);
  const found = agents.value.find((each) => each.agent === target);
  const usable = agents.value.filter((each) => each.problem === null || each.agent === target);
  const directories = [...new Set(byUse.value.map((each) => each.cwd).filter(Boolean))].slice(0, 30);
  const value = (/** @type {any} */ event) => event.currentTarget.value;
  const list = `dirs-${key_ ?? "new"}`;
  return html`
    <label class="pick-l"><span>${t("pick.to")}</span><select class="pick" aria-label=${t("pick.agent")} value=${target}
      onChange=${(/** @type {any} */ event) => change({ agent: value(event), account: "", model: "" })}>
      ${usable.map((each) => html`<option key=${each.agent} value=${each.agent} selected=${each.agent === target}>${each.label}</option>`)}</select></label>
    ${found?.accounts.length ? html`<label class="pick-l"><span>${t("pick.account")}</span><select class="pick" aria-label=${t("pick.account")}
      onChange=${(/** @type {any} */ event) => change({ account: value(event) })}>
      ${["", "none", ...found.accounts].map((each) => html`<option key=${each} value=${each} selected=${each === draft.account}>
        ${each === "" ? (plan?.account ?? t("pick.none")) : each === "none" ? t("pick.none") : each}</option>`)}</select></label>` : null}
    <details class="pick-more"><summary>${t("pick.more")}${summary(draft, known)}</summary><div class="more-in">
      <label>${t("pick.model")}<input class="field" value=${draft.model} list="models" placeholder=${plan?.model ?? t("pick.default")}
        onInput=${(/** @type {any} */ event) => change({ model: value(event) })} /></label>
      <datalist id="models">${(found?.models ?? []).map((each) => html`<option key=${each} value=${each} />`)}</datalist>
      <label>${t("pick.role")}<input class="field" value=${draft.role} placeholder=${plan?.role ?? t("pick.none")}
        onInput=${(/** @type {any} */ event) => change({ role: value(event) })} /></label>
      <label>${t("pick.cwd")}<input class="field mono" value=${draft.cwd} list=${list} placeholder=${plan?.cwd ?? known?.cwd ?? ""}
        onInput=${(/** @type {any} */ event) => change({ cwd: value(event) })} /></label>
      <datalist id=${list}>${directories.map((each) => html`<option key=${each} value=${each} />`)}</datalist>
      <label>${t("pick.permission")}<select class="field" value=${draft.permission} onChange=${(/** @type {any} */ event) => change({ permission: value(event) })}>
        ${["", "read", "edit", "full"].map((each) => html`<option key=${each} value=${each} selected=${each === draft.permission}>
          ${each === "" ? t("permission.asbefore", { now: plan?.terms.permission ? t(`permission.${plan.terms.permission}`) : t("permission.own") }) : t(`permission.${each}`)}</option>`)}</select></label>
      <label class="opt"><input type="checkbox" checked=${draft.blank} onChange=${(/** @type {any} */ event) => change({ blank: event.currentTarget.checked, fresh: false })} />
        <span>${t("blank.label")} <small>${t("blank.help")}</small></span></label>
      <label class="btn small attach">${t("attach")}<input type="file" multiple class="vh" onChange=${(/** @type {any} */ event) => {
        void take(files, { files: [...event.currentTarget.files] });
        event.currentTarget.value = "";
      }} /></label>
    </div></details>`;
}

/** @param {Draft} draft @param {import("./types").ConversationShown | undefined} known */
function summary(draft, known) {
  const parts = [draft.model, draft.role, draft.cwd && home(draft.cwd), draft.permission && t(`permission.${draft.permission}`), draft.blank && t("blank.label")].filter(Boolean);
  const shown = parts.length ? parts : known?.cwd ? [home(known.cwd)] : [];
  return shown.length ? html`<span class="chosen">${shown.join(" · ")}</span>` : null;
}

/** @param {{files: import("./lib.js").Signal<File_[]>}} props */
function Files({ files }) {
  if (!files.value.length) return null;
  const drop = (/** @type {number} */ at) => (files.value = files.value.filter((_, place) => place !== at));
  return html`<ul class="files">${files.value.map((each, at) => html`<li key=${at} class="file">
    ${each.image ? html`<span class="thumb" ref=${(/** @type {any} */ node) => node && each.image && node.replaceChildren(each.image)}></span>` : null}
    ${visible(each.name)} <span class="dim">${bytes(each.bytes)}</span>
    <button type="button" class="btn quiet small" onClick=${() => drop(at)} aria-label=${t("attach.remove", { name: each.name })}>×</button></li>`)}</ul>`;
}

/** The files of each draft, while the page is open.  @type {Map<string, import("./lib.js").Signal<File_[]>>} */
const held = new Map();

/** @param {string} name of the draft */
function filesOf(name) {
  let files = held.get(name);
  if (!files) {
    held.set(name, (files = signal(/** @type {File_[]} */ ([]))));
    void restore(name, files).catch(() => undefined);
  }
  return files;
}

/** What was attached before a reload; from then on, what changes is kept.
 * @param {string} name @param {import("./lib.js").Signal<File_[]>} files */
async function restore(name, files) {
  const opening = indexedDB.open("segue");
  opening.onupgradeneeded = () => opening.result.createObjectStore("files");
  await new Promise((done) => (opening.onsuccess = done));
  const store = () => opening.result.transaction("files", "readwrite").objectStore("files");
  const reading = store().get(name);
  await new Promise((done) => (reading.onsuccess = done));
  await take(files, { files: reading.result ?? [] });
  effect(() => void (files.value.length ? store().put(files.value.map((each) => each.file), name) : store().delete(name)));
}

/** @param {import("./lib.js").Signal<File_[]>} files @param {{files: Iterable<File> | null} | null} given */
async function take(files, given) {
  for (const file of [...(given?.files ?? [])]) {
    if (files.value.length >= MOST_FILES) return tell(t("attach.many", { count: MOST_FILES }), true);
    if (file.size > LARGEST_FILE) {
      tell(t("attach.large", { name: file.name, size: bytes(LARGEST_FILE) }), true);
      continue;
    }
    const data = await encoded(file);
    files.value = [...files.value, { name: file.name || "image.png", data, bytes: file.size, image: await thumbnail(file), file }];
  }
  return undefined;
}

/** @param {Blob} file @returns {Promise<string>} base64 */
async function encoded(file) {
  const data = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < data.length; at += 0x8000) text += String.fromCharCode(...data.subarray(at, at + 0x8000));
  return btoa(text);
}

/** A small picture of an image, drawn here: nothing is loaded.  @param {Blob} file */
async function thumbnail(file) {
  if (!file.type.startsWith("image/")) return null;
  try {
    const picture = await createImageBitmap(file, { resizeHeight: 48, resizeQuality: "medium" });
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [picture.width, picture.height];
    canvas.getContext("2d")?.drawImage(picture, 0, 0);
    return canvas;
  } catch {
    return null;
  }
}
