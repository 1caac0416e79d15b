// The stream of everything that changes. One connection for the whole page; it reads on after a break.
import { signal } from "./lib.js";
import { get } from "./api.js";

/** @typedef {"connecting" | "live" | "lost" | "refused"} Connection */

const KINDS = ["hello", "delta", "event", "run", "message", "conversation", "removed", "flow", "heartbeat"];
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8000;
/** A heartbeat comes every 15 seconds: after so long without one, the connection is dead. */
const SILENT_MS = 40_000;
const BACKGROUND = "segue-feed-in-background";

export const connection = signal(/** @type {Connection} */ ("connecting"));
/** The daemon that answered first, and whether another one answers now. */
export const daemon = signal(/** @type {{version: string, pid: number, replaced: string | null} | null} */ (null));

/** @type {Map<string, Set<(data: any) => void>>} */
const listeners = new Map(KINDS.map((kind) => [kind, new Set()]));
/** @type {EventSource | null} */
let source = null;
let last = "";
let wait = FIRST_WAIT_MS;
let heard = 0;
let resting = false;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/** Be told of a kind of change.  @param {string} kind @param {(data: any) => void} tell @returns {() => void} */
export function on(kind, tell) {
  listeners.get(kind)?.add(tell);
  return () => listeners.get(kind)?.delete(tell);
}

export function connect() {
  clearTimeout(timer);
  if (resting) return;
  source?.close();
  const opened = new EventSource(`/api/v1/events${last ? `?after=${encodeURIComponent(last)}` : ""}`);
  source = opened;
  heard = Date.now();
  for (const kind of KINDS)
    opened.addEventListener(kind, (event) => {
      if (source === opened) receive(kind, /** @type {MessageEvent} */ (event));
    });
  opened.onerror = () => {
    if (source === opened) void again();
  };
}

/** @param {string} kind @param {MessageEvent} event */
function receive(kind, event) {
  heard = Date.now();
  wait = FIRST_WAIT_MS;
  if (event.lastEventId) last = event.lastEventId;
  const data = JSON.parse(event.data);
  if (kind === "hello") {
    last = `${data.feed}:${data.seq}`;
    connection.value = "live";
    void look();
  }
  for (const tell of listeners.get(kind) ?? []) tell(data);
}

/** Connect again after a while. Somebody who is not logged in (any more) is told so instead. */
async function again() {
  source?.close();
  source = null;
  connection.value = "lost";
  const pause = wait;
  wait = Math.min(2 * wait, LONGEST_WAIT_MS);
  try {
    await get("/status");
  } catch (error) {
    // 429: this browser was refused too often. Who is logged in is never told that.
    if ([401, 429].includes(/** @type {import("./api.js").Problem} */ (error).status)) {
      connection.value = "refused";
      return;
    }
  }
  timer = setTimeout(connect, pause);
}

/** Look whether the daemon is still the one that this page was loaded from. */
async function look() {
  const { version, pid } = await get("/health").catch(() => ({ version: null, pid: 0 }));
  if (!version) return;
  const first = daemon.peek();
  if (first === null) daemon.value = { version, pid, replaced: null };
  else if (first.version !== version) daemon.value = { ...first, replaced: version };
}

setInterval(() => {
  if (source && Date.now() - heard > SILENT_MS) void again();
}, 10_000);

// A browser opens at most six connections to one address, for all tabs. Of the tabs that nobody sees, one stays
// connected, for notifications. When it goes, the next one takes over.
let seen = new AbortController();

function share() {
  seen.abort();
  if (document.visibilityState === "visible") return wake();
  seen = new AbortController();
  const { signal: until } = seen;
  const hold = () => new Promise((done) => until.addEventListener("abort", done));
  void navigator.locks?.request(BACKGROUND, { ifAvailable: true }, (lock) => {
    if (until.aborted) return undefined;
    if (lock) return hold();
    resting = true;
    source?.close();
    source = null;
    void navigator.locks.request(BACKGROUND, { signal: until }, () => (wake(), hold())).catch(() => undefined);
    return undefined;
  });
}

function wake() {
  resting = false;
  if (!source && connection.value !== "refused") connect();
}

document.addEventListener("visibilitychange", share);
if (document.visibilityState !== "visible") share();
