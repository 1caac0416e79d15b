// What flows are and do, in words. A flow of the user's own has its own words for its kind and its end.
import { html } from "./lib.js";
import { line, visible } from "./format.js";
import { t } from "./strings.js";
import { State } from "./parts.js";
import { stateOf } from "./flows-data.js";

/** @typedef {import("./types").FlowShown} Flow */

const KINDS = ["review", "escalate", "trial"];
const ENDS = ["approved", "capped", "stalemate", "done", "failed", "cancelled"];

/** @param {Flow} flow */
export const kindOf = (flow) => (flow.built_in && KINDS.includes(flow.kind) ? t(`flow.of.${flow.kind}`) : line(flow.kind, 60));
/** @param {Flow} flow */
export const stateWord = (flow) => t(`flow.state.${stateOf(flow)}`);

/** How it ended, or what it is.  @param {Flow} flow */
export function endOf(flow) {
  if (flow.end === null) return stateWord(flow);
  return ENDS.includes(flow.end) ? t(`flow.end.${flow.end}`) : visible(flow.end);
}

/** The tier or role of a turn, and who it is.  @param {{tier: number | null, role: string | null, agent: string | null}} step
 * @param {(agent: string | null) => string} label */
export const whoOf = (step, label) => [partOf(step), step.agent ? line(label(step.agent), 40) : ""].filter(Boolean).join(" · ");

/** @param {{tier: number | null, role: string | null}} step */
export const partOf = (step) => (step.tier !== null ? t("flow.tier", { tier: step.tier }) : step.role ? line(step.role, 40) : "");

const MARKS = /** @type {Record<string, string>} */ ({ paused: "parked", pausing: "running", cancelling: "running", interrupted: "parked", cancelled: "idle" });

/** The shape of a state.  @param {{flow: Flow}} props */
export const Mark = ({ flow }) => html`<${State} state=${MARKS[stateOf(flow)] ?? stateOf(flow)} quiet=${true} />`;
