// The events of one session. Only some pages are kept, around where the reader is, however large the session is.
import { batch, signal } from "./lib.js";
import { get } from "./api.js";
import { pathOf } from "./sessions-data.js";

/** @typedef {import("./types").Entry} Entry */
/** @typedef {import("./types").Page} PageShape */
/** @typedef {{key: number, first: string | null, last: string | null, entries: Entry[], lines: number}} Page */

const PAGE = 60;
/** Lines that may be shown at once, and events behind them. */
const MOST_LINES = 200;
const MOST_EVENTS = 1500;
/** A page that shows next to nothing is joined to its neighbour, up to this many events. */
const MOST_JOINED = 300;

/** What the daemon leaves out because it is usual.  @type {Entry} */
const USUAL = {
  id: "", kind: "unknown", text: "", at_ms: null, native: "", parent: null, tool: "", input: null, call: "", failed: false,
  side: false, inserted: false, label: "", restored: true, images: [], model: null, tokens: null, again: false,
};

/** @param {Entry} entry */
export const isSaid = (entry) =>
  (entry.kind === "user" || entry.kind === "assistant") && !entry.side && !entry.inserted && (entry.text.trim() !== "" || entry.images.length > 0);

/** Notes of the CLI for itself, and what it put into the dialogue without anybody saying it.  @param {Entry} entry */
export const isNote = (entry) =>
  entry.kind === "state" || entry.kind === "unknown" || entry.inserted || ((entry.kind === "user" || entry.kind === "assistant") && !isSaid(entry));

export class Transcript {
  /** @param {string} agent @param {string} id @param {boolean} focused prompts and answers only */
  constructor(agent, id, focused) {
    this.path = pathOf(agent, id, "/events");
    this.focused = focused;
    this.pages = signal(/** @type {Page[]} */ ([]));
    /** There are older events; newer ones than those that are kept. */
    this.more = signal(false);
    this.newer = signal(false);
    this.state = signal(/** @type {"loading" | "ready" | "missing" | "lost"} */ ("loading"));
    /** The event that was jumped to, and whether it is still to be brought to the screen. */
    this.at = /** @type {string | null} */ (null);
    this.pending = false;
    /** Events were taken away again: what is read next is up to the reader. */
    this.full = false;
    /** Called before the events change. */
    this.hold = () => {};
    /** When something new came last. */
    this.grew = 0;
    this.rewritten = false;
    /** @private */ this.busy = /** @type {Promise<void> | null} */ (null);
    /** @private */ this.keys = 0;
    this.stop = new AbortController();
  }

  close() {
    this.stop.abort();
  }

  /** The newest page, or the one around an event.  @param {string | null} at */
  async open(at) {
    while (this.busy) await this.busy;
    await this.alone(async () => {
      const shape = await this.fetch(at === null ? { anchor_to_latest: true } : { at });
      this.at = this.rewritten ? null : at;
      this.pending = this.at !== null;
      const after = this.at !== null && shape.hasNewer ? await this.fetch({ afterId: shape.lastId }) : null;
      this.take(shape, this.rewritten ? null : after);
    });
  }

  /** @private @param {Record<string, unknown>} where @returns {Promise<PageShape>} */
  async fetch(where) {
    try {
      return await get(this.path, { size: PAGE, ...where }, this.stop.signal);
    } catch (error) {
      const { status, body } = /** @type {import("./api.js").Problem} */ (error);
      if (status !== 410 || !body?.page) throw error;
      // The CLI has rewritten the session. The answer has its newest page.
      this.rewritten = true;
      return body.page;
    }
  }

  /** One request at a time.  @private @param {() => Promise<void>} act @returns {Promise<void>} */
  async alone(act) {
    if (this.busy || this.stop.signal.aborted) return;
    this.rewritten = false;
    this.busy = this.guarded(act);
    await this.busy;
  }

  /** @private @param {() => Promise<void>} act */
  async guarded(act) {
    try {
      await act();
      this.state.value = "ready";
    } catch (error) {
      const { status } = /** @type {import("./api.js").Problem} */ (error);
      if (!this.stop.signal.aborted && this.state.peek() === "loading")
        this.state.value = status === 404 || status === 422 ? "missing" : "lost";
    } finally {
      this.busy = null;
    }
  }

  /** @private @param {PageShape} shape @param {PageShape | null} [after] */
  take(shape, after = null) {
    batch(() => {
      this.full = false;
      this.pages.value = after ? continued([this.page(shape)], this.page(after)) : [this.page(shape)];
      this.more.value = shape.hasMore;
      this.newer.value = (after ?? shape).hasNewer;
    });
  }

  older() {
    return this.alone(async () => {
      const [first] = this.pages.peek();
      if (!first?.first || !this.more.peek()) return;
      const shape = await this.fetch({ beforeId: first.first });
      if (this.rewritten) return this.take(shape);
      const page = this.page(shape);
      this.hold();
      batch(() => {
        this.more.value = shape.hasMore && shape.firstId !== null;
        const pages = joined(page, this.pages.peek());
        while (pages.length > 2 && tooMany(pages)) {
          pages.pop();
          this.full = this.newer.value = true;
        }
        this.pages.value = pages;
      });
    });
  }

  later() {
    return this.alone(async () => {
      const last = this.pages.peek().at(-1);
      if (!last) return;
      const shape = await this.fetch(last.last === null ? { anchor_to_latest: true } : { afterId: last.last });
      if (this.rewritten || last.last === null) return this.take(shape);
      if (!shape.events.length) {
        this.newer.value = shape.hasNewer;
        return;
      }
      this.grew = Date.now();
      this.hold();
      batch(() => {
        this.newer.value = shape.hasNewer;
        const pages = continued(this.pages.peek(), this.page(shape));
        while (pages.length > 2 && tooMany(pages)) {
          pages.shift();
          this.full = this.more.value = true;
        }
        this.pages.value = pages;
      });
    });
  }

  /** @private @param {PageShape} shape @returns {Page} */
  page(shape) {
    const whole = shape.events.map((each) => ({ ...USUAL, ...each })).filter((each) => !each.again);
    const entries = this.focused ? whole.flatMap((each) => this.brief(each)) : whole;
    return { key: (this.keys += 1), first: shape.firstId, last: shape.lastId, entries, lines: linesOf(entries, this.focused) };
  }

  /** What is shown of prompts and answers only. Of tool calls, the number is.  @private @param {Entry} entry @returns {Entry[]} */
  brief(entry) {
    if (isSaid(entry) || entry.kind === "boundary" || entry.kind === "damaged" || entry.id === this.at) return [entry];
    return entry.kind === "call" && !entry.side ? [{ ...USUAL, id: entry.id, kind: "call" }] : [];
  }
}

/** How many lines the events take: neighbouring notes and events of a subagent share one.
 * @param {Entry[]} entries @param {boolean} focused */
function linesOf(entries, focused) {
  let lines = 0;
  let before = "";
  for (const each of entries) {
    const kind = each.side ? "side" : isNote(each) ? "note" : focused && each.kind === "call" ? "call" : "";
    if (kind === "" || (kind !== before && kind !== "call")) lines += 1;
    before = kind;
  }
  return lines;
}

/** @param {Page[]} pages */
function tooMany(pages) {
  const sum = (/** @type {(page: Page) => number} */ of) => pages.reduce((total, page) => total + of(page), 0);
  return sum((page) => page.lines) > MOST_LINES || sum((page) => page.entries.length) > MOST_EVENTS;
}

/** @param {Page} one @param {Page} other */
const isSmall = (one, other) => one.lines + other.lines <= PAGE && one.entries.length + other.entries.length <= MOST_JOINED;

/** In front of the others.  @param {Page} page @param {Page[]} pages */
function joined(page, pages) {
  const [first, ...rest] = pages;
  if (!first || !isSmall(page, first)) return [page, ...pages];
  const entries = [...page.entries, ...first.entries];
  return [{ key: first.key, first: page.first ?? first.first, last: first.last, entries, lines: page.lines + first.lines }, ...rest];
}

/** After the others. What was still being written comes again, complete.  @param {Page[]} pages @param {Page} page */
function continued(pages, page) {
  const again = new Set(page.entries.map((each) => each.id));
  const before = pages.slice(0, -1);
  const last = /** @type {Page} */ (pages.at(-1));
  const entries = last.entries.filter((each) => !again.has(each.id));
  const old = entries.length === last.entries.length ? last : { ...last, entries };
  if (!isSmall(page, old)) return [...before, old, page];
  return [...before, { key: last.key, first: last.first, last: page.last, entries: [...entries, ...page.entries], lines: page.lines + last.lines }];
}
