// The dialogue of a conversation: opens at its end, follows only there, reads older pages as they are scrolled to.
import { computed, effect, html, signal, useEffect, useLayoutEffect, useMemo, useRef } from "./lib.js";
import { conversations, live, markRead, unfinished } from "./data.js";
import { Dialogue } from "./dialogue-data.js";
import { t } from "./strings.js";
import { MessageView } from "./message.js";
import { LiveTurn } from "./turn.js";
import { focused } from "./selection.js";

/** @typedef {import("./types").LogMessage} Message */

const CHUNK = 20;
const NEAR_PX = 60;
/** How far beyond the screen messages stay in the page. */
const MARGIN = "1500px 0px";

/** @param {{key_: string, at: string | undefined}} props */
export function DialogueView({ key_, at }) {
  const dialogue = useMemo(() => new Dialogue(key_), [key_]);
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  const atEnd = useMemo(() => signal(true), [key_]);
  useEffect(() => {
    void dialogue.open(at);
    return () => dialogue.close();
  }, [dialogue]);
  useEffect(() => {
    if (!at || dialogue.state.peek() !== "ready") return;
    atEnd.value = false;
    void dialogue.open(at);
  }, [at]);
  const chunks = useMemo(() => computed(() => chunked(dialogue.messages.value)), [dialogue]);
  useFollowing(scroller, dialogue, atEnd, at);
  const toEnd = useMemo(() => async () => {
    if (dialogue.newer.peek()) await dialogue.open();
    requestAnimationFrame(() => {
      atEnd.value = true;
      scroller.current?.scrollTo({ top: scroller.current.scrollHeight });
    });
  }, [dialogue]);
  useEffect(() => {
    end = toEnd;
  }, [toEnd]);
  const state = dialogue.state.value;
  if (state === "missing") return html`<div class="dialogue"><div class="empty"><h1>${t("missing.title")}</h1><p>${t("missing.body", { key: key_ })}</p></div></div>`;
  return html`<div class="dialogue" tabindex="0" role="log" aria-label=${t("dialogue")} aria-busy=${state === "loading"} ref=${scroller}>
      <div class="pages">
        ${state === "lost" ? html`<p class="earlier">${t("unreachable")}</p>` : null}
        ${dialogue.more.value ? html`<${Sentinel} scroller=${scroller} onSeen=${() => dialogue.older()} label=${t("older")} />` : null}
        ${chunks.value.map((each) => html`<${Chunk} key=${each.name} chunk=${each} dialogue=${dialogue} scroller=${scroller} />`)}
        ${dialogue.newer.value ? html`<${Sentinel} scroller=${scroller} onSeen=${() => dialogue.later()} label=${t("newer")} />` : html`<${Unheard} key_=${key_} dialogue=${dialogue} />`}
      </div></div>
    <div class="jump">${atEnd.value ? null : html`<button type="button" class="btn" onClick=${toEnd}>${t("latest")} ↓</button>`}</div>`;
}

/** Runs that began and whose message is not in the page yet.  @param {{key_: string, dialogue: Dialogue}} props */
function Unheard({ key_, dialogue }) {
  const shown = new Set(dialogue.messages.value.map((each) => each.run));
  const begun = unfinished(key_).filter((run) => (run.state === "running" || run.questions.length) && !shown.has(run.run));
  return html`${begun.map((run) => html`<${LiveTurn} key=${run.run} run=${run.run} events=${dialogue.events.value.get(run.run) ?? []} focused=${focused.value} />`)}`;
}

/** @typedef {{name: string, messages: Message[]}} ChunkOf */

/** Messages in groups that come and go together. A group's name is that of its first message: it does not change when
 * older ones arrive.  @param {Message[]} messages @returns {ChunkOf[]} */
function chunked(messages) {
  /** @type {ChunkOf[]} */
  const chunks = [];
  // From numbers, so that a group keeps its messages whatever page it was read with.
  let group = -1;
  for (const each of messages) {
    const next = each.n === null ? group : Math.floor((each.n - 1) / CHUNK);
    if (chunks.length === 0 || next !== group) {
      group = next;
      chunks.push({ name: `g${group}`, messages: [] });
    }
    chunks.at(-1)?.messages.push(each);
  }
  return chunks;
}

/** The heights of groups that were seen, so that one that is taken away leaves the same room.  @type {Map<string, number>} */
const heights = new Map();

/** @param {{chunk: ChunkOf, dialogue: Dialogue, scroller: import("./lib.js").Ref<HTMLElement | null>}} props */
function Chunk({ chunk, dialogue, scroller }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const near = useMemo(() => signal(true), []);
  const name = `${dialogue.key}/${chunk.name}`;
  useEffect(() => {
    const node = ref.current;
    if (!node || !scroller.current) return undefined;
    const watch = new IntersectionObserver(
      ([entry]) => {
        if (!entry) return;
        if (!entry.isIntersecting && near.peek()) heights.set(name, node.offsetHeight);
        near.value = entry.isIntersecting;
      },
      { root: scroller.current, rootMargin: MARGIN },
    );
    watch.observe(node);
    return () => watch.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (ref.current) ref.current.style.minHeight = near.value ? "" : `${heights.get(name) ?? 0}px`;
  }, [near.value]);
  const messages = chunk.messages;
  return html`<div class="chunk" ref=${ref}>${near.value
    ? messages.map((message) => html`<${Boundary} key=${`b-${message.id ?? message.run}`} all=${dialogue.messages.value} message=${message} />
        <${MessageView} key=${message.id ?? message.run} key_=${dialogue.key} message=${message}
        events=${message.run ? dialogue.events.value.get(message.run) : undefined}
        leftOut=${message.run ? (dialogue.leftOut.value.get(message.run) ?? 0) : 0} focused=${focused.value}
        last=${!dialogue.newer.value && isLast(dialogue.messages.value, message)} />`)
    : null}</div>`;
}

/** Where another account takes over, a line says so: it does not know what was said before.
 * @param {{all: Message[], message: Message}} props */
function Boundary({ all, message }) {
  let at = all.indexOf(message) - 1;
  while (at >= 0 && all[at]?.agent !== message.agent) at -= 1;
  const before = all[at];
  if (!before || before.account === message.account) return null;
  const name = (/** @type {string | null} */ account) => account ?? t("account.none");
  return html`<p class="boundary"><span>${t("account.changed", { from: name(before.account), to: name(message.account) })}</span></p>`;
}

/** Whether nothing but its own answer follows. What has no number is not in anybody's view.
 * @param {Message[]} messages @param {Message} message */
function isLast(messages, message) {
  if (message.n === null) return true;
  let answers = 0;
  for (let at = messages.length - 1; messages[at] !== message; at -= 1) {
    const after = messages[at];
    if (after?.n === null) continue;
    if (after?.from !== "assistant" || answers) return false;
    answers += 1;
  }
  return true;
}

/** @param {{scroller: import("./lib.js").Ref<HTMLElement | null>, onSeen: () => Promise<boolean>, label: string}} props */
function Sentinel({ scroller, onSeen, label }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const node = ref.current;
    if (!node) return undefined;
    let seen = false;
    const look = async () => {
      while (seen) {
        const pause = (await onSeen()) ? 50 : 1000;
        await new Promise((done) => setTimeout(done, pause));
      }
    };
    const watch = new IntersectionObserver(
      ([entry]) => {
        const before = seen;
        seen = entry?.isIntersecting ?? false;
        if (seen && !before) void look();
      },
      { root: scroller.current, rootMargin: "800px 0px" },
    );
    watch.observe(node);
    return () => {
      seen = false;
      watch.disconnect();
    };
  }, []);
  return html`<p class="earlier" ref=${ref}>${label}</p>`;
}

/**
 * Stay at the end if the reader is there; elsewhere nothing moves.
 * @param {import("./lib.js").Ref<HTMLElement | null>} scroller @param {Dialogue} dialogue
 * @param {import("./lib.js").Signal<boolean>} atEnd @param {string | undefined} at
 */
function useFollowing(scroller, dialogue, atEnd, at) {
  useLayoutEffect(() => {
    const node = scroller.current;
    const pages = node?.firstElementChild;
    if (!node || !pages) return undefined;
    let [top, height, first] = [node.scrollTop, node.scrollHeight, ""];
    const settle = () => {
      node.scrollTop = node.scrollHeight;
    };
    // Only the reader leaves the end, by scrolling up. What grows meanwhile does not count.
    const scrolled = () => {
      const near = node.scrollHeight - node.scrollTop - node.clientHeight < NEAR_PX;
      if (near && !dialogue.newer.peek()) atEnd.value = true;
      else if (node.scrollTop < top - 1) atEnd.value = false;
      if (atEnd.peek()) markRead(dialogue.key);
      top = node.scrollTop;
    };
    // Older messages may come in front while the reader is at the very top, where the browser does not compensate.
    const grown = () => {
      const oldest = dialogue.messages.peek()[0]?.id ?? "";
      if (atEnd.peek()) settle();
      else if (top < 1 && node.scrollTop < 1 && first && oldest !== first) node.scrollTop = node.scrollHeight - height;
      [height, first] = [node.scrollHeight, oldest];
    };
    const watch = new ResizeObserver(grown);
    watch.observe(pages);
    watch.observe(node);
    node.addEventListener("scroll", scrolled, { passive: true });
    dialogue.place = () => {
      const { top: edge } = node.getBoundingClientRect();
      return [...node.querySelectorAll(".msg[id]")].find((each) => each.getBoundingClientRect().bottom > edge)?.id.slice(2);
    };
    const stop = effect(() => {
      const opened = dialogue.opened.value;
      if (opened === null || opened.at !== at) return;
      requestAnimationFrame(() => {
        const target = at ? document.getElementById(`m-${at}`) : null;
        atEnd.value = !target;
        if (!target) return settle();
        target.scrollIntoView({ block: "center" });
        target.classList.add("found");
      });
    });
    return () => {
      stop();
      watch.disconnect();
      node.removeEventListener("scroll", scrolled);
    };
  }, [dialogue, at]);
  // What is new counts as seen if it stands on the screen.
  useEffect(
    () =>
      effect(() => {
        const unread = conversations.value.get(dialogue.key)?.unread;
        void live.value;
        if (unread && atEnd.value && document.visibilityState === "visible") markRead(dialogue.key);
      }),
    [dialogue],
  );
}

/** How to go to the end of the dialogue that is shown. */
let end = async () => {};

/** Go to the end, after something was sent. */
export const follow = () => void end();
