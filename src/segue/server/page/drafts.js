// What the user has begun to write, kept in this browser until it is sent.
import { useState } from "./lib.js";

const PREFIX = "segue.";
/** What goes when the store is full, the oldest first. */
const DRAFT = /^segue\.(draft|answer|edit):/;

export const kept = {
  /** @template T @param {string} name @param {T} otherwise @returns {T} */
  read(name, otherwise) {
    const found = parsed(PREFIX + name);
    return (typeof found?.at === "number" ? found.value : found) ?? otherwise;
  },
  /** @param {string} name @param {unknown} value */
  write(name, value) {
    const place = PREFIX + name;
    const text = JSON.stringify(DRAFT.test(place) ? { at: Date.now(), value } : value);
    /** @type {string[] | undefined} */
    let older;
    for (;;)
      try {
        localStorage.setItem(place, text);
        return;
      } catch {
        older ??= oldest().filter((each) => each !== place);
        const first = older.shift();
        if (first === undefined) return;
        localStorage.removeItem(first);
      }
  },
  /** @param {string} name */
  remove(name) {
    localStorage.removeItem(PREFIX + name);
  },
};

/** @param {string} place */
function parsed(place) {
  try {
    return JSON.parse(localStorage.getItem(place) ?? "null");
  } catch {
    return null;
  }
}

function oldest() {
  const drafts = Object.keys(localStorage).filter((each) => DRAFT.test(each));
  const times = new Map(drafts.map((each) => [each, parsed(each)?.at ?? 0]));
  return drafts.sort((a, b) => times.get(a) - times.get(b));
}

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
