// What the page knows: conversations, unfinished runs, agents. Kept up to date by the feed.
import { batch, computed, signal } from "./lib.js";
import { get, of, post, segment } from "./api.js";
import { on } from "./feed.js";

/** @typedef {import("./types").ConversationShown} Conversation */
/** @typedef {import("./types").RunShown} Run */
/** @typedef {import("./types").AgentShown} Agent */
/** @typedef {{block: number, text: string}} Live the piece that a running turn is writing */

const PAUSE_MS = 60;
const UNFINISHED = ["queued", "running", "needs_you", "parked"];

export const conversations = signal(/** @type {Map<string, Conversation>} */ (new Map()));
export const loaded = signal(false);
/** Runs that are not over, and those that ended while the page was open. */
export const runs = signal(/** @type {Map<string, Run>} */ (new Map()));
export const agents = signal(/** @type {Agent[]} */ ([]));
/** Rises when something may have been missed: whoever shows fetched data fetches it again. */
export const missed = signal(0);
/** What is being written, by run. */
export const live = signal(/** @type {Map<string, Live>} */ (new Map()));

export const byUse = computed(() => [...conversations.value.values()].sort((a, b) => b.last_used - a.last_used));
export const flowsLoaded = signal(false);
/** The flows that need somebody, with what they ask. */
export const flowsNeeding = signal(/** @type {{flow: string, name: string, asks: string}[]} */ ([]));
export const needing = computed(() => byUse.value.filter((each) => each.state === "needs_you"));
export const running = computed(() => byUse.value.filter((each) => each.state === "running"));

/** The names of flows, by their ids, as far as they are known. */
export const flowNames = signal(/** @type {Map<string, string>} */ (new Map()));

/** @param {Run} run */
export const isUnfinished = (run) => UNFINISHED.includes(run.state);

/** The runs of a conversation that are not over, or ended with a question that is still open, in their order.
 * @param {string} key */
export function unfinished(key) {
  return [...runs.value.values()]
    .filter((run) => run.conversation === key && (isUnfinished(run) || run.questions.length))
    .sort((a, b) => (a.place ?? 0) - (b.place ?? 0) || a.created - b.created);
}

/** The name of an agent as people know it.  @param {string | null | undefined} name */
export function label(name) {
  return agents.value.find((each) => each.agent === name)?.label ?? name ?? "";
}

let [loads, shown] = [0, 0];

export async function load() {
  void loadAgents();
  const number = (loads += 1);
  const [before, beforeRuns] = [conversations.peek(), runs.peek()];
  const gone = new Set();
  const found = /** @type {[string, Conversation][]} */ ([]);
  const stop = on("removed", (change) => gone.add(change.conversation));
  const [listed, open] = await Promise.all([get("/conversations"), get("/runs")]).finally(stop);
  if (number < shown) return;
  shown = number;
  batch(() => {
    for (const each of listed) if (!gone.has(each.key)) found.push([each.key, each]);
    conversations.value = newest(before, conversations.peek(), found);
    runs.value = newest(beforeRuns, runs.peek(), open.map((/** @type {Run} */ each) => [each.run, each]));
    loaded.value = true;
  });
}

/** What was fetched, but for what the feed told while it was fetched: that is newer.
 * @template T @param {Map<string, T>} before @param {Map<string, T>} now @param {[string, T][]} fetched */
function newest(before, now, fetched) {
  const since = [...now].filter(([name, each]) => before.get(name) !== each);
  return new Map([...fetched, ...since]);
}

/** It takes longer: each program is asked for its version. Nothing else waits for it. */
async function loadAgents() {
  agents.value = await get("/agents").catch(() => agents.peek());
}

/** @type {Set<string>} */
const changed = new Set();
/** The last fetch of each conversation: an answer that was overtaken is not shown.  @type {Map<string, number>} */
const asked = new Map();
let fetches = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let soon;

/** Fetch a conversation again, with others that change at the same time.  @param {string | null} key */
function refresh(key) {
  if (key === null) return;
  changed.add(key);
  soon ??= setTimeout(fetchChanged, PAUSE_MS);
}

async function fetchChanged() {
  soon = undefined;
  const keys = [...changed];
  changed.clear();
  const fetch = (fetches += 1);
  for (const key of keys) asked.set(key, fetch);
  if (keys.length > 20) {
    await load().catch(() => undefined);
    return;
  }
  const found = await Promise.all(keys.map((key) => get(of(key)).catch((error) => error.status)));
  const next = new Map(conversations.value);
  keys.forEach((key, at) => {
    if (asked.get(key) !== fetch) return;
    if (found[at]?.key) next.set(key, found[at]);
    else if (found[at] === 404) next.delete(key);
    else changed.add(key); // with what changes next
  });
  conversations.value = next;
}

/** @param {Run} run */
export function know(run) {
  runs.value = new Map(runs.value).set(run.run, run);
  if (isUnfinished(run)) return;
  written.delete(run.run);
  if (live.value.has(run.run)) {
    const next = new Map(live.value);
    next.delete(run.run);
    live.value = next;
  }
}

/** The text of a message that waits was changed: its run shows it.  @param {string | null} message */
async function again(message) {
  for (const run of runs.peek().values()) {
    if (run.message !== message || !isUnfinished(run)) continue;
    const found = await get(`/runs/${segment(run.run)}`).catch(() => run);
    if (runs.peek().get(run.run) === run) know(found); // else the feed told something newer
  }
}

/** Where `offset` code points end in a text.  @param {string} text @param {number} offset */
function place(text, offset) {
  // Usually the fragment continues what is there, and no sign takes two units.
  if (offset === text.length && !/[\uD800-\uDFFF]/.test(text)) return offset;
  let at = 0;
  for (let count = 0; count < offset && at < text.length; count += 1)
    at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  return at;
}

/** What was written and is not shown yet, by run.  @type {Map<string, Live>} */
const written = new Map();
/** @type {ReturnType<typeof setTimeout> | undefined} */
let shows;

/** A long piece is shown less often: it is parsed anew each time.  @param {number} length */
const pause = (length) => Math.min(400, 30 + length / 80);

/** @param {import("./types").Delta} delta */
function write(delta) {
  const before = written.get(delta.run) ?? live.peek().get(delta.run);
  const same = before !== undefined && before.block === delta.block;
  if (before !== undefined && delta.block < before.block) return;
  const text = (same ? before.text.slice(0, place(before.text, delta.offset)) : "") + delta.text;
  written.set(delta.run, { block: delta.block, text });
  shows ??= setTimeout(showWritten, same ? pause(text.length) : 0);
}

function showWritten() {
  shows = undefined;
  live.value = new Map([...live.peek(), ...written]);
  written.clear();
}

export function follow() {
  let first = true;
  void load().catch(() => undefined); // shown at once
  on("hello", (hello) => {
    live.value = new Map();
    written.clear();
    hello.running.forEach(write);
    void load().catch(() => undefined);
    if (!first) missed.value += 1;
    first = false;
  });
  on("delta", write);
  on("run", (change) => {
    know(change.run);
    refresh(change.conversation);
  });
  on("message", (change) => {
    refresh(change.conversation);
    void again(change.message);
  });
  on("conversation", (change) => refresh(change.conversation));
  on("removed", (change) => {
    changed.delete(change.conversation);
    asked.set(change.conversation, (fetches += 1));
    const next = new Map(conversations.value);
    next.delete(change.conversation);
    conversations.value = next;
  });
}

/** @param {string} key */
export function markRead(key) {
  if (conversations.peek().get(key)?.unread) void post(of(key, "/read")).catch(() => undefined);
}
