// What the user has begun to write, kept in this browser until it is sent.
import { useState } from "./lib.js";

const PREFIX = "segue.";
const MOST = 200;

export const kept = {
  /** @template T @param {string} name @param {T} otherwise @returns {T} */
  read(name, otherwise) {
    try {
      return JSON.parse(localStorage.getItem(PREFIX + name) ?? "null") ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  /** @param {string} name @param {unknown} value */
  write(name, value) {
    try {
      localStorage.setItem(PREFIX + name, JSON.stringify(value));
    } catch {
      forgetOldest();
    }
  },
  /** @param {string} name */
  remove(name) {
    localStorage.removeItem(PREFIX + name);
  },
};

/** State that is still there after a reload, or when a form is shown in another place.
 * @template T @param {string} name @param {T} otherwise @returns {[T, (value: T) => void]} */
export function useKept(name, otherwise) {
  const [value, setValue] = useState(() => kept.read(name, otherwise));
  const keep = (/** @type {T} */ next) => {
    setValue(next);
    kept.write(name, next);
  };
  return [value, keep];
}

/** The browser's store is full: drafts of conversations that were not opened for long go first. */
function forgetOldest() {
  const names = Object.keys(localStorage).filter((name) => name.startsWith(`${PREFIX}answer:`) || name.startsWith(`${PREFIX}draft:`));
  for (const name of names.slice(0, Math.max(1, names.length - MOST))) localStorage.removeItem(name);
}
