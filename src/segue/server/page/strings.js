// Every text of the page, from one table per language. A test compares the tables and finds texts outside them.
import { signal } from "./lib.js";
import en from "./strings-en.js";

/** @typedef {keyof typeof en} Name */
export const LANGUAGES = { en: "English", es: "Español", zh: "中文" };
const STORED = "segue.language";

/** @returns {keyof typeof LANGUAGES} */
function preferred() {
  const wanted = localStorage.getItem(STORED) ?? navigator.language;
  const short = wanted.slice(0, 2).toLowerCase();
  return /** @type {keyof typeof LANGUAGES} */ (short in LANGUAGES ? short : "en");
}

export const language = signal(/** @type {keyof typeof LANGUAGES} */ ("en"));
const table = signal(/** @type {Record<string, string>} */ (en));

/** @param {keyof typeof LANGUAGES} [wanted] */
export async function speak(wanted = preferred()) {
  const tables = { en: () => ({ default: en }), es: () => import("./strings-es.js"), zh: () => import("./strings-zh.js") };
  table.value = (await tables[wanted]()).default;
  language.value = wanted;
  document.documentElement.lang = wanted;
}

/** @param {keyof typeof LANGUAGES} wanted */
export function choose(wanted) {
  localStorage.setItem(STORED, wanted);
  return speak(wanted);
}

/** Whether the language has this text of its own.  @param {string} name */
export const knows = (name) => name in table.value;

/**
 * A text, with the places in braces filled in.
 * @param {string} name @param {Record<string, unknown>} [values]
 */
export function t(name, values = {}) {
  const text = table.value[name] ?? /** @type {Record<string, string>} */ (en)[name] ?? name;
  return text.replace(/\{(\w+)\}/g, (whole, place) => (place in values ? String(values[place]) : whole));
}
