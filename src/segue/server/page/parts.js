// Small parts that all views share: marks, badges, buttons that copy, bars, dialogs.
import { html, signal, useEffect, useLayoutEffect, useRef, useState } from "./lib.js";
import { mark, percent, tokens } from "./format.js";
import { t } from "./strings.js";

/** @param {{mode: string | null, button?: boolean, onClick?: () => void, name?: string}} props */
export function Mode({ mode, button = false, onClick, name }) {
  if (!mode) return null;
  const inside = html`<${Glyph} mode=${mode} />${t(`mode.${mode}`)}`;
  return button
    ? html`<button type="button" class="mode ${mode}" onClick=${onClick} aria-label=${name}>${inside}</button>`
    : html`<span class="mode ${mode}">${inside}</span>`;
}

/** @param {{mode: string}} props */
export const Glyph = ({ mode }) => html`<svg class="mg" aria-hidden="true"><use href="#m-${mode}" /></svg>`;

/** The state of a conversation or run, as a shape with its word.  @param {{state: string, quiet?: boolean}} props */
export const State = ({ state, quiet = false }) =>
  html`<i class="st ${state}" aria-hidden="true"></i>${quiet ? null : html`<span class="vh">${t(`state.${state}`)}: </span>`}`;

/** @param {{agent: string, label: string}} props */
export const Agent = ({ agent, label }) => html`<abbr class="ag" title=${label}>${mark(agent)}</abbr>`;

const COPIED_MS = 1500;

/** @param {{text: string | (() => string | Promise<string>), class?: string, label?: string, children?: unknown}} props */
export function Copy({ text, class: kind = "btn quiet small", label, children }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    const sure = await attempt(async () => {
      await navigator.clipboard.writeText(typeof text === "function" ? await text() : text);
      return true;
    });
    if (!sure) return;
    setDone(true);
    setTimeout(() => setDone(false), COPIED_MS);
  };
  // A name contains what is seen of the button.
  const name = label && typeof children === "string" && !label.includes(children) ? `${label}: ${children}` : label;
  return html`<button type="button" class=${kind} onClick=${copy} aria-label=${name} title=${name}>
    ${done ? t("copy.done") : (children ?? t("copy"))}</button>`;
}

/** Whether a key is part of writing a sign, as in Chinese. Safari tells the key that ends it after its end.
 * @param {KeyboardEvent} event */
export const isComposing = (event) => event.isComposing || event.keyCode === 229;

/** A keyboard on a screen has no Shift for a new line: there, Enter begins one, and only a button sends. */
export const touched = matchMedia("(hover: none) and (pointer: coarse)");

/** For a field that grows with its text.  @param {string} value */
export function useGrowth(value) {
  const ref = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  useLayoutEffect(() => {
    const node = ref.current;
    if (!node) return;
    node.style.height = "auto";
    node.style.height = `${Math.min(node.scrollHeight + 2, innerHeight * 0.4)}px`;
  }, [value]);
  return ref;
}

/** How full a window is.  @param {{used: number | null, window: number | null, warn?: number, words?: boolean}} props */
export function Gauge({ used, window, warn = 0.8, words = true }) {
  if (used === null || !window) return null;
  const share = Math.min(1, used / window);
  const said = t("context.of", { used: tokens(used), window: tokens(window) });
  return html`<span class="gauge" title=${said}>
    <svg class="bar" viewBox="0 0 100 5" preserveAspectRatio="none" role="img" aria-label=${said}>
      <rect class="bg" width="100" height="5" />
      <rect class=${share >= warn ? "hot" : ""} width=${100 * share} height="5" />
      <rect class="tick" x=${100 * warn} width="1" height="5" />
    </svg>${words ? percent(share) : null}</span>`;
}

/** @param {{label: string, options: [string, string][], value: string, onChange: (value: string) => void}} props */
export const Choice = ({ label, options, value, onChange }) => html`
  <span class="seg" role="group" aria-label=${label}>
    ${options.map(
      ([name, text]) => html`<button type="button" class="btn" key=${name} aria-pressed=${String(name === value)}
        onClick=${() => onChange(name)}>${text}</button>`,
    )}
  </span>`;

/** @param {{checked: boolean, onChange: (on: boolean) => void, children?: unknown, title?: string}} props */
export const Switch = ({ checked, onChange, children, title }) => html`
  <label class="switch" title=${title}><input type="checkbox" role="switch" checked=${checked}
    onChange=${(/** @type {any} */ event) => onChange(event.currentTarget.checked)} />${children}</label>`;

/** @typedef {{title: string, body?: unknown, confirm?: string, danger?: boolean, act?: () => unknown}} Asking */
export const asked = signal(/** @type {Asking | null} */ (null));

/** Ask before doing something.  @param {Asking} question */
export function ask(question) {
  asked.value = question;
}

/** What went wrong, or was done, in one line at the bottom. */
export const told = signal(/** @type {{text: string, bad: boolean} | null} */ (null));
/** @type {ReturnType<typeof setTimeout> | undefined} */
let hides;

/** @param {string} text @param {boolean} [bad] */
export function tell(text, bad = false) {
  told.value = { text, bad };
  clearTimeout(hides);
  hides = setTimeout(() => (told.value = null), bad ? 10_000 : 4000);
}

/** Do something, and say in one line what went wrong.  @param {() => Promise<unknown>} act */
export async function attempt(act) {
  try {
    return await act();
  } catch (error) {
    if (/** @type {Error} */ (error).name !== "AbortError") tell(/** @type {Error} */ (error).message, true);
    return undefined;
  }
}

/** A dialog over the page. Escape and a click beside it close it.
 * @param {{title: string, onClose: () => void, children?: unknown, wide?: boolean}} props */
export function Dialog({ title, onClose, children, wide = false }) {
  const ref = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const dialog = ref.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  const aside = (/** @type {MouseEvent} */ event) => event.target === ref.current && onClose();
  return html`<dialog class="dialog ${wide ? "wide" : ""}" ref=${ref} aria-label=${title} onClick=${aside}
    onCancel=${(/** @type {Event} */ event) => {
      event.preventDefault();
      onClose();
    }}>
    <div class="dialog-in"><header><h2>${title}</h2>
      <button type="button" class="btn quiet small" onClick=${onClose}>${t("close")}</button></header>
      ${children}</div></dialog>`;
}

export function Asked() {
  const question = asked.value;
  if (question === null) return null;
  const close = () => (asked.value = null);
  const yes = async () => {
    close();
    await attempt(async () => question.act?.());
  };
  return html`<${Dialog} title=${question.title} onClose=${close}>
    <div class="b">${question.body}</div>
    <footer><span class="r"><button type="button" class="btn" onClick=${close}>${t("cancel")}</button>
      <button type="button" class="btn ${question.danger ? "danger" : "primary"}" onClick=${yes}>
        ${question.confirm ?? t("ok")}</button></span></footer></${Dialog}>`;
}

export const Told = () => html`<div class="told" role="status">${
  told.value && html`<p class=${told.value.bad ? "bad" : ""}>${told.value.text}
    <button type="button" class="btn quiet small" onClick=${() => (told.value = null)}>${t("close")}</button></p>`
}</div>`;
