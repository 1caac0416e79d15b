// The agents' own sessions: all of them, the copies that Segue kept, what a search found, and the list made of these.
import { batch, computed, effect, signal } from "./lib.js";
import { get, segment } from "./api.js";
import { conversations } from "./data.js";
import { kept } from "./drafts.js";
import { reason } from "./reasons.js";

/** @typedef {import("./types").SessionShown} Session */
/** @typedef {import("./types").CopyShown} CopyShown */
/** @typedef {import("./types").Hit} Hit */
/**
 * A line of the table. ``gone``: the session is no longer there, only its copy.
 * @typedef {{name: string, agent: string, id: string, title: string, about: string, model: string, cwd: string, used: number,
 *   messages: number | null, estimated: boolean, size: number, context: number | null, tokens: Session["context"] | null,
 *   cost: number | null, expires: number | null, kept: boolean, gone: boolean, conversation: string | null,
 *   pinned: boolean, trouble: string | null}} Row
 * @typedef {"title" | "cwd" | "used" | "messages" | "size" | "context" | "cost" | "expires"} Column
 * @typedef {{by: Column, down: boolean}} Sort
 */

/** So many come at once; then all of them. */
const FIRST = 200;
/** What is new is among the newest. */
const NEWEST = 100;

export const sessions = signal(/** @type {Map<string, Session>} */ (new Map()));
export const copies = signal(/** @type {Map<string, CopyShown>} */ (new Map()));
export const state = signal(/** @type {"loading" | "ready" | "lost"} */ ("loading"));
/** All sessions are there, not only the newest. */
export const whole = signal(false);
/** Sessions above this are not resumed. */
export const sizeLimit = signal(/** @type {number | null} */ (null));

export const agent = signal("");
export const cwd = signal("");
export const sort = signal(/** @type {Sort | null} */ (null));
export const wanted = signal("");
export const found = signal(/** @type {{text: string, hits: Hit[]} | null} */ (null));
/** ``index``: what was found so far is shown, and the index is being brought up to date. */
export const searching = signal(/** @type {"" | "search" | "index"} */ (""));
/** Prompts and final answers only. */
export const focused = signal(kept.read("sessions.focused", true));
effect(() => kept.write("sessions.focused", focused.value));

/** @param {string} agent @param {string} id */
export const nameOf = (agent, id) => `${agent}:${id}`;
/** @param {string} agent @param {string} id @param {string} [rest] */
export const pathOf = (agent, id, rest = "") => `/sessions/${segment(agent)}/${segment(id)}${rest}`;

/** @param {Session[]} listed */
const byName = (listed) => listed.map((each) => /** @type {[string, Session]} */ ([nameOf(each.agent, each.id), each]));

/** Everything: the newest first, so that there is something to see at once. */
export async function load() {
  try {
    const [first, keptCopies] = await Promise.all([get("/sessions", { everywhere: true, limit: FIRST }), get("/sessions/copies")]);
    batch(() => {
      if (!whole.peek() || first.length < FIRST) sessions.value = new Map(byName(first));
      takeCopies(keptCopies);
      state.value = "ready";
      whole.value ||= first.length < FIRST;
    });
    if (first.length >= FIRST) {
      const all = await get("/sessions", { everywhere: true });
      batch(() => {
        sessions.value = new Map(byName(all));
        whole.value = true;
      });
    }
  } catch {
    if (state.peek() === "loading") state.value = "lost";
  }
  if (sizeLimit.peek() === null)
    void get("/settings").then((told) => (sizeLimit.value = told.continuity.max_session_mb * 1024 * 1024)).catch(() => undefined);
}

/** What changed lately. */
export async function refresh() {
  const [newest, keptCopies] = await Promise.all([get("/sessions", { everywhere: true, limit: NEWEST }), get("/sessions/copies")]);
  batch(() => {
    sessions.value = new Map([...sessions.peek(), ...byName(newest)]);
    takeCopies(keptCopies);
  });
}

/** @param {CopyShown[]} listed */
function takeCopies(listed) {
  copies.value = new Map(listed.map((each) => [nameOf(each.agent, each.id), each]));
}

/** @param {Session} each @param {boolean} isKept @returns {Row} */
function rowOf(each, isKept) {
  const { used, window } = each.context;
  return {
    name: nameOf(each.agent, each.id), agent: each.agent, id: each.id, title: each.title ?? "",
    about: (each.last_prompt !== each.title && each.last_prompt) || "", model: each.model ?? "", cwd: each.cwd ?? "", used: each.last_used,
    messages: each.messages, estimated: each.messages_estimated, size: each.size,
    context: used !== null && window ? used / window : null, tokens: each.context, cost: each.cost_usd, expires: each.expires,
    kept: isKept, gone: false, conversation: each.conversation, pinned: each.pinned,
    trouble: each.trouble && reason(each.trouble, each.trouble_clauses),
  };
}

/** @param {CopyShown} copy @returns {Row} */
const goneRow = (copy) => ({
  name: nameOf(copy.agent, copy.id), agent: copy.agent, id: copy.id, title: "", about: "", model: "", cwd: copy.cwd, used: copy.last_used,
  messages: null, estimated: false, size: copy.size, context: null, tokens: null, cost: null, expires: null, kept: true, gone: true,
  conversation: copy.conversation, pinned: false, trouble: null,
});

export const rows = computed(() => {
  const kept_ = copies.value;
  const listed = [...sessions.value].map(([name, each]) => rowOf(each, kept_.has(name)));
  for (const [name, copy] of kept_) if (!copy.present && !sessions.value.has(name)) listed.push(goneRow(copy));
  return listed;
});

export const agentsSeen = computed(() => [...new Set(rows.value.map((each) => each.agent))].sort());

/** Directories by how many sessions they have. */
export const directories = computed(() => {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const each of rows.value) if (each.cwd) counts.set(each.cwd, (counts.get(each.cwd) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
});

/** The matches of each session, in their order. */
export const hitsOf = computed(() => {
  /** @type {Map<string, Hit[]>} */
  const hits = new Map();
  for (const hit of found.value?.hits ?? []) {
    const name = nameOf(hit.agent, hit.session);
    const before = hits.get(name);
    if (before) before.push(hit);
    else hits.set(name, [hit]);
  }
  return hits;
});

export const inOrder = computed(() => sort.value ?? (found.value === null ? /** @type {Sort} */ ({ by: "used", down: true }) : null));

export const listed = computed(() => {
  const shown = rows.value.filter((each) => (!agent.value || each.agent === agent.value) && (!cwd.value || each.cwd === cwd.value));
  const matching = found.value === null ? shown : matches(shown, found.value.text);
  const order = inOrder.value;
  return order === null ? matching : [...matching].sort(compare(order));
});

/** First what the search found, best first; then sessions whose title, key or id has the text.
 * @param {Row[]} shown @param {string} text */
function matches(shown, text) {
  const byName_ = new Map(shown.map((each) => [each.name, each]));
  const best = [...hitsOf.value.keys()].flatMap((name) => byName_.get(name) ?? []);
  const words = text.toLowerCase();
  const more = shown.filter((each) => !hitsOf.value.has(each.name) && `${each.id}\n${each.conversation ?? ""}\n${each.title}`.toLowerCase().includes(words));
  return [...best, ...more.sort(compare({ by: "used", down: true }))];
}

const letters = new Intl.Collator();

/** What is not known comes last, whatever the direction.  @param {Sort} order */
function compare({ by, down }) {
  return (/** @type {Row} */ a, /** @type {Row} */ b) => {
    const [left, right] = [a[by], b[by]];
    const [blank, other] = [left === null || left === "", right === null || right === ""];
    if (blank || other) return Number(blank) - Number(other) || b.used - a.used;
    const less = typeof left === "string" ? letters.compare(left, String(right)) : Number(left) - Number(right);
    return (down ? -less : less) || b.used - a.used;
  };
}

/** A turn of Segue is writing to it now.  @param {Row} row */
export const isRunning = (row) =>
  row.pinned && row.conversation !== null && ["running", "needs_you"].includes(conversations.value.get(row.conversation)?.state ?? "");
