// The messages of one conversation: the newest page first, older ones as they are asked for.
import { batch, signal } from "./lib.js";
import { get, of } from "./api.js";
import { on } from "./feed.js";
import { runs } from "./data.js";

/** @typedef {import("./types").LogMessage} Message */
/** @typedef {import("./types").MessagePage} MessagePage */
/** @typedef {import("./types").FeedEvent} FeedEvent */

const PAGE = 40;
const PAUSE_MS = 50;

export class Dialogue {
  /** @param {string} key */
  constructor(key) {
    this.key = key;
    this.messages = signal(/** @type {Message[]} */ ([]));
    /** Older ones exist. */
    this.more = signal(false);
    /** Newer ones exist: the reader jumped to an earlier place. */
    this.newer = signal(false);
    this.state = signal(/** @type {"loading" | "ready" | "missing" | "lost"} */ ("loading"));
    /** The events of runs, by run: what the agent did. */
    this.events = signal(/** @type {Map<string, FeedEvent[]>} */ (new Map()));
    this.leftOut = signal(/** @type {Map<string, number>} */ (new Map()));
    this.opened = signal(/** @type {{at?: string} | null} */ (null));
    /** The message that the reader sees. */
    this.place = () => /** @type {string | null | undefined} */ (null);
    /** @private */ this.rewrites = -1;
    /** @private */ this.first = /** @type {string | null} */ (null);
    /** @private */ this.last = /** @type {string | null} */ (null);
    /** @private */ this.soon = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);
    /** @private */ this.asked = 0;
    /** @private */ this.busy = false;
    /** @private */ this.again = false;
    /** @private */ this.changed = /** @type {string | null} */ (null);
    /** @private */ this.wanted = /** @type {string | undefined} */ (undefined);
    const other = (/** @type {any} */ change) => {
      if (change.conversation !== key) return;
      if (this.messages.peek().some((each) => each.id === change.message)) this.changed = change.message;
      this.refresh();
    };
    const removed = (/** @type {any} */ change) => {
      if (change.conversation === key) this.forget();
    };
    this.stops = [
      on("message", other), on("run", other), on("removed", removed), on("event", (event) => this.hear(event)), on("hello", () => this.refresh()),
    ];
    this.closed = false;
  }

  close() {
    this.closed = true;
    clearTimeout(this.soon);
    for (const stop of this.stops) stop();
  }

  /** The conversation was deleted.  @private */
  forget() {
    clearTimeout(this.soon);
    this.soon = undefined;
    this.again = false;
    this.asked += 1;
    this.busy = false;
    this.state.value = "missing";
  }

  /** The newest page, or the one around a message.  @param {string} [at] @param {string} [around] @returns {Promise<void>} */
  async open(at, around = at) {
    this.wanted = at;
    const done = await this.ask(around ? { at: around } : {}, (page) => {
      this.take(page, false);
      this.opened.value = { at };
    });
    if (done === 404 && around) return this.open(at, "");
    if (done === 404) this.state.value = "missing";
    else if (done !== true && this.state.peek() === "loading") this.state.value = "lost";
  }

  /** Ask for a page. What is opened overtakes the rest. Returns true, or the status of an error.
   * @private @param {Record<string, unknown>} where @param {(page: MessagePage) => void} take @returns {Promise<boolean | number>} */
  async ask(where, take) {
    const number = (this.asked += 1);
    this.busy = true;
    try {
      const page = await get(of(this.key, "/messages"), { limit: PAGE, events: true, ...where });
      if (number !== this.asked || this.closed) return true;
      take(page);
      this.state.value = "ready";
      return true;
    } catch (error) {
      return number !== this.asked || /** @type {import("./api.js").Problem} */ (error).status;
    } finally {
      if (number === this.asked) {
        this.busy = false;
        if (this.again) this.refresh();
      }
    }
  }

  /** Fetch what is shown again, soon: several changes at once cost one request. */
  refresh() {
    this.soon ??= setTimeout(() => {
      this.soon = undefined;
      void this.renew();
    }, PAUSE_MS);
  }

  /** The newest page again, or what the reader sees of an earlier one; first, where an older message was changed.
   * @private @returns {Promise<void>} */
  async renew() {
    if (this.closed) return;
    this.again = this.busy;
    if (this.busy) return;
    if (this.state.peek() !== "ready") return this.open(this.wanted);
    const [all, newer, changed] = [this.messages.peek(), this.newer.peek(), this.changed];
    this.changed = null;
    const which = all.findIndex((each) => each.id === changed);
    const older = which >= 0 && (newer || which < all.length - PAGE);
    const at = older ? changed : newer ? (this.place() ?? all[0]?.id) : null;
    const done = await this.ask(at ? { at } : {}, (page) => {
      const fits = page.rewrites === this.rewrites;
      if (older) this.again = true;
      if (at && fits) this.mend(page);
      else if (!older) this.take(page, fits);
    });
    if (done !== 404) return;
    if (older) this.refresh();
    else if (at) await this.open();
    else this.state.value = "missing";
  }

  /** Older messages, in front of what is there. */
  older() {
    return this.extend(this.more, { before: this.first }, (page) => {
      this.messages.value = [...page.messages, ...this.messages.peek()];
      this.more.value = page.has_more;
      this.first = page.first_id ?? this.first;
    });
  }

  /** Newer messages, if the reader jumped to an earlier place. */
  later() {
    return this.extend(this.newer, { after: this.last }, (page) => {
      this.messages.value = [...this.messages.peek(), ...page.messages];
      this.newer.value = page.has_newer;
      this.last = page.last_id ?? this.last;
    });
  }

  /** Returns whether it did not fail.
   * @private @param {import("./lib.js").Signal<boolean>} exist @param {Record<string, unknown>} where @param {(page: MessagePage) => void} join */
  async extend(exist, where, join) {
    if (this.busy || !exist.peek()) return true;
    const done = await this.ask(where, (page) => {
      if (page.rewrites !== this.rewrites) this.again = true;
      else
        batch(() => {
          join(page);
          this.learn(page);
        });
    });
    if (done === 404) this.refresh();
    return done === true;
  }

  /** @private @param {MessagePage} page */
  mend(page) {
    batch(() => {
      const now = new Map(page.messages.map((each) => [each.id, each]));
      this.messages.value = this.messages.peek().map((each) => now.get(each.id) ?? each);
      this.learn(page);
    });
  }

  /** @private @param {MessagePage} page @param {boolean} joins older pages that are there still fit */
  take(page, joins) {
    batch(() => {
      const before = this.messages.peek();
      const at = joins && page.first_id !== null ? before.findIndex((each) => each.id === page.first_id) : -1;
      const unchanged = new Map(before.map((each) => [each.id ?? each.run, each]));
      const fresh = page.messages.map((each) => {
        const old = unchanged.get(each.id ?? each.run);
        return old !== undefined && JSON.stringify(old) === JSON.stringify(each) ? old : each;
      });
      this.messages.value = at > 0 ? [...before.slice(0, at), ...fresh] : fresh;
      if (at <= 0) {
        this.more.value = page.has_more;
        this.first = page.first_id;
      }
      this.newer.value = page.has_newer;
      this.last = page.last_id;
      this.rewrites = page.rewrites;
      this.learn(page);
    });
  }

  /** @private @param {MessagePage} page */
  learn(page) {
    const [next, left] = [new Map(this.events.peek()), new Map(this.leftOut.peek())];
    for (const [run, events] of Object.entries(page.events ?? {})) {
      const known = next.get(run) ?? [];
      const all = new Map([...events, ...known.filter((each) => !each.cut)].map((each) => [each.n, each]));
      for (const each of known) if (!all.has(each.n)) all.set(each.n, each);
      if (all.size > known.length || !known.length) next.set(run, [...all.values()].sort((a, b) => a.n - b.n));
      const before = known.filter((each) => each.n < (events[0]?.n ?? 0) && each.event.type !== "usage").length;
      left.set(run, Math.max(0, (page.events_left_out?.[run] ?? 0) - before));
    }
    this.events.value = next;
    this.leftOut.value = left;
  }

  /** @private @param {FeedEvent} event */
  hear(event) {
    const run = runs.peek().get(event.run);
    if (run && run.conversation !== this.key) return;
    const before = this.events.peek().get(event.run) ?? [];
    if (before.some((each) => each.n === event.n)) return;
    const next = [...before, event].sort((a, b) => a.n - b.n);
    this.events.value = new Map(this.events.peek()).set(event.run, next);
  }
}
