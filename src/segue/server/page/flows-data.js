// What the page knows of flows. Loaded after the first view is there, and kept up to date by the feed.
import { computed, effect, signal } from "./lib.js";
import { get, segment } from "./api.js";
import { flowNames, flowsLoaded, flowsNeeding } from "./data.js";
import { on } from "./feed.js";

/** @typedef {import("./types").FlowShown} Flow */

const PAUSE_MS = 60;
const MOST = 200;
/** A process that was killed says nothing: what should run is looked at again after a while. */
const LOOK_MS = 15_000;
const OPEN = ["running", "needs_you", "parked", "paused"];

/** All flows, in short. */
export const flows = signal(/** @type {Map<string, Flow>} */ (new Map()));
/** Those that were opened, with their steps. */
export const whole = signal(/** @type {Map<string, Flow>} */ (new Map()));

/** @param {Flow} flow */
export const isOpen = (flow) => OPEN.includes(flow.state);
/** Somebody has to do something, or it stands still.  @param {Flow} flow */
export const needs = (flow) => flow.state === "needs_you";

/** What needs somebody first, then what goes on, then what is over. */
export const sorted = computed(() => {
  const rank = (/** @type {Flow} */ flow) => (needs(flow) ? 0 : isOpen(flow) ? 1 : 2);
  return [...flows.value.values()].sort((a, b) => rank(a) - rank(b) || (b.ended ?? b.created) - (a.ended ?? a.created));
});

effect(() => {
  flowNames.value = new Map([...flows.value.values()].map((flow) => [flow.flow, nameOf(flow)]));
  flowsNeeding.value = sorted.value.filter(needs).map((flow) => ({ flow: flow.flow, name: nameOf(flow), asks: flow.questions[0]?.text ?? "" }));
});

/** The word for its state: what is said to run is run by somebody.  @param {Flow} flow */
export function stateOf(flow) {
  if (flow.stops && isOpen(flow)) return flow.stops === "pause" ? "pausing" : "cancelling";
  return flow.state === "running" && !flow.held ? "interrupted" : flow.state;
}

/** What people call it.  @param {Flow} flow */
export function nameOf(flow) {
  const task = typeof flow.input?.task === "string" ? flow.input.task : "";
  return flow.label || task.split("\n").find((/** @type {string} */ each) => each.trim())?.replace(/^#+\s*/, "") || flow.key || flow.kind;
}

export async function load() {
  const before = flows.peek();
  const [open, newest] = await Promise.all([get("/flows", { brief: true, limit: MOST }), get("/flows", { every: true, brief: true, limit: MOST })]);
  const listed = /** @type {Flow[]} */ ([...open, ...newest]);
  const since = [...flows.peek()].filter(([id, each]) => before.get(id) !== each);
  flows.value = new Map([...listed.map((each) => /** @type {[string, Flow]} */ ([each.flow, each])), ...since]);
  flowsLoaded.value = true;
}

/** @type {Set<string>} */
const changed = new Set();
/** The last fetch of each: an answer that was overtaken is not shown.  @type {Map<string, number>} */
const asked = new Map();
let fetches = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let soon;

/** Fetch a flow again, with others that change at the same time.  @param {string} id */
export function refresh(id) {
  changed.add(id);
  soon ??= setTimeout(fetchChanged, PAUSE_MS);
}

async function fetchChanged() {
  soon = undefined;
  const ids = [...changed];
  changed.clear();
  const fetch = (fetches += 1);
  for (const id of ids) asked.set(id, fetch);
  await Promise.all(ids.map(async (id) => {
    const found = await get(`/flows/${segment(id)}`).catch(() => null);
    if (found && asked.get(id) === fetch) know(found);
  }));
}

/** @param {Flow} flow */
export function know(flow) {
  flows.value = new Map(flows.value).set(flow.flow, flow);
  if (whole.value.has(flow.flow)) whole.value = new Map(whole.value).set(flow.flow, flow);
}

/** A flow by its id, its key or its last letters, with its steps.  @param {string} name @returns {Promise<Flow>} */
export async function open(name) {
  const found = await get(`/flows/${segment(name)}`);
  whole.value = new Map([[found.flow, found]]);
  know(found);
  return found;
}

on("flow", (change) => refresh(change.flow));
on("hello", () => {
  void load().catch(() => undefined);
  for (const id of whole.peek().keys()) refresh(id);
});
setInterval(() => {
  if (document.visibilityState !== "visible") return;
  for (const flow of flows.peek().values()) if (flow.state === "running") refresh(flow.flow);
}, LOOK_MS);
void load().catch(() => undefined);
