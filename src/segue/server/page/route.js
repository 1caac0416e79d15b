// Where the user is: the part of the address after the #. Keys and ids are percent-encoded segments.
import { signal } from "./lib.js";

/** @typedef {{view: string, parts: string[]}} Route */

export const VIEWS = ["conversations", "sessions", "flows", "usage", "setup"];
/** Views that are opened from others: with the view that they belong to.  @type {Record<string, string>} */
export const INNER = { lineage: "conversations", chain: "flows" };

/** @returns {Route} */
function read() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decode);
  const view = parts.shift() ?? "conversations";
  return VIEWS.includes(view) || Object.hasOwn(INNER, view) ? { view, parts } : { view: "conversations", parts: [] };
}

/** @param {string} part */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal(read());
let shown = location.hash;
/** Show what the address says. Its event comes later, after a key that is pressed at once. */
function arrive() {
  if (location.hash === shown) return;
  shown = location.hash;
  route.value = read();
}
addEventListener("hashchange", arrive);

/** The address of a view.  @param {string} view @param {...string} parts */
export const link = (view, ...parts) => `#/${[view, ...parts.map(encodeURIComponent)].join("/")}`;

/** @param {string} view @param {...string} parts */
export function go(view, ...parts) {
  location.hash = link(view, ...parts);
  arrive();
}

/** Change the address without a step in the history.  @param {string} view @param {...string} parts */
export function settle(view, ...parts) {
  history.replaceState(null, "", link(view, ...parts));
  arrive();
}
