// The messages of one conversation: the newest page first, older ones as they are asked for.
import { batch, signal } from "./lib.js";
import { get, of } from "./api.js";
import { on } from "./feed.js";
import { missed, runs } from "./data.js";

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
    this.size = signal(0);
    this.state = signal(/** @type {"loading" | "ready" | "missing" | "lost"} */ ("loading"));
    /** The events of runs, by run: what the agent did. */
    this.events = signal(/** @type {Map<string, FeedEvent[]>} */ (new Map()));
    this.leftOut = signal(/** @type {Map<string, number>} */ (new Map()));
    /** @private */ this.rewrites = -1;
    /** @private */ this.first = /** @type {string | null} */ (null);
    /** @private */ this.last = /** @type {string | null} */ (null);
    /** @private */ this.soon = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);
    /** @private */ this.busy = false;
    /** @private */ this.again = false;
    const other = (/** @type {any} */ change) => change.conversation === key && this.refresh();
    this.stops = [
      on("message", other),
      on("run", other),
      on("event", (event) => this.hear(event)),
      missed.subscribe((count) => count && this.refresh()),
    ];
    this.closed = false;
  }

  close() {
    this.closed = true;
    clearTimeout(this.soon);
    for (const stop of this.stops) stop();
  }

  /** The newest page, or the one around a message.  @param {string} [at] @returns {Promise<void>} */
  async open(at) {
    try {
      const page = await this.fetch(at ? { at } : {});
      this.take(page, false);
      this.state.value = "ready";
    } catch (error) {
      const { status } = /** @type {import("./api.js").Problem} */ (error);
      if (at && status === 404) return this.open();
      this.state.value = status === 404 ? "missing" : "lost";
    }
  }

  /** @param {Record<string, unknown>} where @returns {Promise<MessagePage>} */
  fetch(where) {
    return get(of(this.key, "/messages"), { limit: PAGE, events: true, ...where });
  }

  /** Fetch the newest page again, soon: several changes at once cost one request. */
  refresh() {
    this.soon ??= setTimeout(() => {
      this.soon = undefined;
      void this.renew();
    }, PAUSE_MS);
  }

  /** @private */
  async renew() {
    if (this.closed) return;
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    try {
      if (this.newer.peek()) return;
      const page = await this.fetch({});
      if (!this.closed) this.take(page, page.rewrites === this.rewrites);
      this.state.value = "ready";
    } catch (error) {
      if (/** @type {import("./api.js").Problem} */ (error).status === 404) this.state.value = "missing";
    } finally {
      this.busy = false;
      if (this.again) {
        this.again = false;
        this.refresh();
      }
    }
  }

  /** Older messages, in front of what is there. */
  async older() {
    if (this.busy || !this.more.peek() || this.first === null) return;
    this.busy = true;
    try {
      const page = await this.fetch({ before: this.first });
      if (this.closed) return;
      if (page.rewrites !== this.rewrites) this.again = true;
      else
        batch(() => {
          this.messages.value = [...page.messages, ...this.messages.peek()];
          this.more.value = page.has_more;
          this.first = page.first_id ?? this.first;
          this.learn(page);
        });
    } catch {
      this.again = true;
    } finally {
      this.busy = false;
      if (this.again) {
        this.again = false;
        this.refresh();
      }
    }
  }

  /** Newer messages, if the reader jumped to an earlier place. */
  async later() {
    if (this.busy || !this.newer.peek() || this.last === null) return;
    this.busy = true;
    try {
      const page = await this.fetch({ after: this.last });
      if (this.closed) return;
      batch(() => {
        this.messages.value = [...this.messages.peek(), ...page.messages];
        this.newer.value = page.has_newer;
        this.last = page.last_id ?? this.last;
        this.learn(page);
      });
    } finally {
      this.busy = false;
    }
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
      this.size.value = page.size;
      this.learn(page);
    });
  }

  /** @private @param {MessagePage} page */
  learn(page) {
    const next = new Map(this.events.peek());
    for (const [run, events] of Object.entries(page.events ?? {})) {
      const known = next.get(run) ?? [];
      const last = events.at(-1)?.n ?? -1;
      next.set(run, [...events, ...known.filter((each) => each.n > last)]);
    }
    this.events.value = next;
    const left = Object.entries(page.events_left_out ?? {});
    if (left.length) this.leftOut.value = new Map([...this.leftOut.peek(), ...left]);
  }

  /** @private @param {FeedEvent} event */
  hear(event) {
    const run = runs.peek().get(event.run);
    const known = this.events.peek().get(event.run);
    if (run?.conversation !== this.key && known === undefined) return;
    const before = known ?? [];
    if (before.some((each) => each.n === event.n)) return;
    const next = [...before, event].sort((a, b) => a.n - b.n);
    this.events.value = new Map(this.events.peek()).set(event.run, next);
  }
}
