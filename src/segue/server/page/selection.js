// What is chosen in the view of conversations: the turn that the panel explains, how much is shown, what is stopped.
import { effect, signal, useState } from "./lib.js";
import { post, segment } from "./api.js";
import { kept } from "./drafts.js";
import { attempt } from "./parts.js";

/** Only questions and final answers. */
export const focused = signal(kept.read("focused", false));
effect(() => kept.write("focused", focused.value));

const unfolded = new Set();
/** Whether something is unfolded, by its name. It stays so when another element shows it.
 * @param {string} name @returns {[boolean, (on: boolean) => void]} */
export function useUnfolded(name) {
  const [on, setOn] = useState(() => unfolded.has(name));
  const keep = (/** @type {boolean} */ next) => {
    if (next) unfolded.add(name);
    else unfolded.delete(name);
    setOn(next);
  };
  return [on, keep];
}

/** The turn whose ladder the panel shows. */
export const selected = signal(/** @type {string | null} */ (null));
/** The panel as a sheet, where there is no room for a column. */
export const panelOpen = signal(false);
/** The panel's column, folded away. */
export const panelFolded = signal(kept.read("panel-folded", false));

/** Whether there is room for the panel as a column. */
export const isWide = () => matchMedia("(min-width: 1181px)").matches;

/** @param {boolean} on */
export function showPanel(on) {
  if (!isWide()) panelOpen.value = on;
  else {
    panelFolded.value = !on;
    kept.write("panel-folded", !on);
  }
}

/** @param {string | null} run */
export function select(run) {
  selected.value = run;
  showPanel(true);
}

/** Stop a run; a second time, kill it.  @param {import("./types").RunShown} run */
export const cancel = (run) => attempt(() => post(`/runs/${segment(run.run)}/cancel`));
