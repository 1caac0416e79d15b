// The libraries that the page uses, in one place. Everything else imports them from here.
import { h, render, Fragment } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { h, render, Fragment };
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact-hooks.js";
export { batch, computed, effect, signal, untracked } from "./vendor/signals.js";
export const html = htm.bind(h);

/** Load a module; as long as the daemon does not answer, try again.
 * @template T @param {() => Promise<T>} load @returns {Promise<T>} */
export function persist(load) {
  return load().catch(() => new Promise((done) => setTimeout(done, 1000)).then(() => persist(load)));
}
