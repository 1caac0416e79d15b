// What was said and done in a session: opens at its end or at an event, reads on in both directions, follows at the end.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./lib.js";
import { conversations, label } from "./data.js";
import { on } from "./feed.js";
import { bytes, clock, duration, line, moment, plural, visible, when } from "./format.js";
import { argument, clipped, edits, patchOf, shownInput } from "./steps.js";
import { t } from "./strings.js";
import { Amount, Diff, changed } from "./code.js";
import { Markdown, Plain } from "./markdown.js";
import { focused, wanted } from "./sessions-data.js";
import { Transcript, isNote, isSaid } from "./transcript-data.js";

/** @typedef {import("./types").Entry} Entry */
/** @typedef {import("./transcript-data.js").Page} Page */
/** @typedef {{kind: "said" | "boundary" | "damaged", entry: Entry} | {kind: "side" | "work", entries: Entry[]}} Block */
/** @typedef {{results: Map<string, Entry>, calls: Set<string>, ends: Set<string>, counts: Map<string, number>, target: string | null}} Links */

const NEAR_PX = 40;
/** So near to an end, the next page is read. */
const AHEAD_PX = 1200;
const POLL_MS = 2000;
const LIVE_MS = 120_000;
/** A longer change of a file is shown as text: to compare it would hold up everything else. */
const LONG_CHANGE = 60_000;
const MOST_SIDE = 200;

/** @param {{agent: string, id: string, event: string | null, conversation: string | null, used: number | null}} props */
export function TranscriptView({ agent, id, event, conversation, used }) {
  const only = focused.value;
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  const [atEnd, setAtEnd] = useState(event === null);
  const seen = useRef(/** @type {string | null} */ (null));
  const transcript = useMemo(() => {
    // With more or less detail, the reader stays where he is.
    seen.current = atEnd ? null : (firstSeen(scroller.current)?.dataset.id ?? null);
    return new Transcript(agent, id, only);
  }, [agent, id, only]);
  const place = usePlace(scroller, transcript, event, atEnd, setAtEnd);
  useEffect(() => {
    const at = seen.current ?? event;
    seen.current = null;
    setAtEnd(at === null);
    void transcript.open(at).then(place.look);
  }, [transcript, event]);
  useEffect(() => () => transcript.close(), [transcript]);
  useGrowth(transcript, atEnd, conversation, used);
  const pages = transcript.pages.value;
  const links = useMemo(() => linksOf(pages, transcript.at), [pages]);
  const state = transcript.state.value;
  const toEnd = async () => {
    if (transcript.newer.peek()) await transcript.open(null);
    setAtEnd(true);
    requestAnimationFrame(place.settle);
  };
  return html`<div class="scroll prev" tabindex="0" role="log" aria-live="off" aria-label=${t("transcript")} aria-busy=${String(state === "loading")} ref=${scroller}><div>
      ${transcript.more.value ? html`<p class="earlier"><button type="button" class="btn quiet small" onClick=${() => transcript.older().then(place.look)}>${t("transcript.older")}</button></p>` : null}
      ${pages.map((page) => html`<${PageView} key=${page.key} page=${page} links=${links} agent=${agent} focused=${only} />`)}
      ${state === "ready" && pages.every((page) => page.lines === 0) && !transcript.more.value ? html`<p class="earlier">${t("transcript.empty")}</p>` : null}
      ${state === "missing" || state === "lost" ? html`<p class="earlier">${t(state === "lost" ? "banner.lost" : "transcript.missing")}</p>` : null}
      ${transcript.newer.value ? html`<p class="earlier"><button type="button" class="btn quiet small" onClick=${() => transcript.later().then(place.look)}>${t("transcript.newer")}</button></p>` : null}
    </div></div>
    <div class="jump">${atEnd ? null : html`<button type="button" class="btn" onClick=${toEnd}>${t("latest")} ↓</button>`}</div>`;
}

/** Keep the reader where he is while pages come and go; at the end, keep him there.
 * @param {import("./lib.js").Ref<HTMLElement | null>} scroller @param {Transcript} transcript
 * @param {string | null} event @param {boolean} atEnd @param {(at: boolean) => void} setAtEnd */
function usePlace(scroller, transcript, event, atEnd, setAtEnd) {
  const now = useMemo(() => ({ atEnd, top: 0, held: /** @type {{id: string, top: number} | null} */ (null) }), []);
  now.atEnd = atEnd;
  const settle = () => {
    const node = scroller.current;
    if (node) now.top = node.scrollTop = node.scrollHeight;
  };
  const look = () => {
    const node = scroller.current;
    if (!node || !node.clientHeight || transcript.state.peek() !== "ready") return;
    const below = node.scrollHeight - node.scrollTop - node.clientHeight;
    if (node.scrollTop < AHEAD_PX && transcript.more.peek()) void transcript.older().then(again);
    else if (below < AHEAD_PX && transcript.newer.peek()) void transcript.later().then(again);
  };
  // Reads on until there is enough around the screen, but not in circles if that does not fit.
  const again = () => requestAnimationFrame(() => !transcript.full && look());
  useLayoutEffect(() => {
    transcript.hold = () => {
      const first = firstSeen(scroller.current);
      now.held = first ? { id: first.dataset.id ?? "", top: first.getBoundingClientRect().top } : null;
    };
    const node = scroller.current;
    const inside = node?.firstElementChild;
    if (!node || !inside) return undefined;
    const scrolled = () => {
      const own = Math.abs(node.scrollTop - now.top) < 2;
      now.top = node.scrollTop;
      if (own) return;
      const there = node.scrollHeight - node.scrollTop - node.clientHeight < NEAR_PX && !transcript.newer.peek();
      if (there !== now.atEnd) setAtEnd((now.atEnd = there));
      look();
    };
    const watch = new ResizeObserver(() => now.atEnd && settle());
    watch.observe(inside);
    watch.observe(node);
    node.addEventListener("scroll", scrolled, { passive: true });
    return () => {
      watch.disconnect();
      node.removeEventListener("scroll", scrolled);
    };
  }, [transcript]);
  useLayoutEffect(() => {
    const node = scroller.current;
    const { held } = now;
    now.held = null;
    if (!node) return;
    if (transcript.pending) {
      transcript.pending = false;
      show(node, transcript.at ?? "", transcript.at === event);
      now.top = node.scrollTop;
      setAtEnd((now.atEnd = !transcript.newer.peek() && node.scrollHeight - node.scrollTop - node.clientHeight < NEAR_PX));
    } else if (now.atEnd) settle();
    else if (held) {
      const same = find(node, held.id);
      if (same) node.scrollTop += same.getBoundingClientRect().top - held.top;
      now.top = node.scrollTop;
    }
  }, [transcript.pages.value]);
  return { look, settle };
}

/** @param {HTMLElement} node @param {string} id @returns {HTMLElement | null} */
const find = (node, id) => node.querySelector(`[data-id="${CSS.escape(id)}"]`);

/** The first event on the screen.  @param {HTMLElement | null} node */
function firstSeen(node) {
  if (!node) return null;
  const edge = node.getBoundingClientRect().top;
  const all = /** @type {HTMLElement[]} */ ([...node.querySelectorAll("[data-id]")]);
  return all.find((each) => each.getBoundingClientRect().bottom > edge + 1) ?? null;
}

/** Bring the event that was jumped to to the middle, with the words that were looked for marked.
 * @param {HTMLElement} node @param {string} id @param {boolean} found */
function show(node, id, found) {
  const target = find(node, id);
  if (!target) return;
  const box = node.getBoundingClientRect();
  const at = target.getBoundingClientRect();
  node.scrollTop += at.top - box.top - Math.max(24, (box.height - at.height) / 2);
  if (!found) return;
  node.querySelector(".found")?.classList.remove("found");
  target.classList.add("found");
  markWords(target, wanted.peek());
}

/** @param {HTMLElement} node @param {string} text */
function markWords(node, text) {
  const words = text.toLowerCase().split(/[\s"]+/).filter((word) => word.length > 1 && !word.startsWith("-"));
  const registry = /** @type {any} */ (CSS).highlights;
  if (!registry) return;
  registry.delete("found");
  if (!words.length) return;
  const ranges = [];
  const walk = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  while (walk.nextNode() && ranges.length < 200) {
    const said = walk.currentNode.textContent?.toLowerCase() ?? "";
    for (const word of words)
      for (let at = said.indexOf(word); at >= 0 && ranges.length < 200; at = said.indexOf(word, at + word.length)) {
        const range = new Range();
        range.setStart(walk.currentNode, at);
        range.setEnd(walk.currentNode, at + word.length);
        ranges.push(range);
      }
  }
  registry.set("found", new /** @type {any} */ (globalThis).Highlight(...ranges));
}

/** Read what is new while the session may be growing and somebody sees its end.
 * @param {Transcript} transcript @param {boolean} atEnd @param {string | null} conversation @param {number | null} used */
function useGrowth(transcript, atEnd, conversation, used) {
  useEffect(() => {
    if (!atEnd) return undefined;
    const grow = () => {
      if (document.visibilityState === "visible" && !transcript.newer.peek() && transcript.state.peek() === "ready") void transcript.later();
    };
    const timer = setInterval(() => {
      const running = conversation !== null && conversations.peek().get(conversation)?.state === "running";
      if (running || Date.now() - Math.max(transcript.grew, used ?? 0) < LIVE_MS) grow();
    }, POLL_MS);
    const stop = on("run", (change) => conversation !== null && change.conversation === conversation && grow());
    return () => {
      clearInterval(timer);
      stop();
    };
  }, [transcript, atEnd, conversation, used]);
}

/** What belongs together across pages: calls and their results; which answers are the last of their turn.
 * @param {Page[]} pages @param {string | null} target @returns {Links} */
function linksOf(pages, target) {
  const links = /** @type {Links} */ ({ results: new Map(), calls: new Set(), ends: new Set(), counts: new Map(), target });
  let answer = /** @type {Entry | null} */ (null);
  // How many tools the turn has called; null: its beginning is not here.
  let called = /** @type {number | null} */ (null);
  const end = () => {
    if (!answer) return;
    links.ends.add(answer.id);
    if (called) links.counts.set(answer.id, called);
    answer = null;
  };
  for (const entry of pages.flatMap((page) => page.entries)) {
    if (entry.kind === "call") {
      if (entry.call) links.calls.add(entry.call);
      if (called !== null) called += 1;
    } else if (entry.kind === "result") links.results.set(entry.call, entry);
    else if (isSaid(entry) && entry.kind === "assistant") answer = entry;
    else if (isSaid(entry)) {
      end();
      called = 0;
    }
  }
  end();
  return links;
}

/** @param {Page} page @param {Links} links @param {boolean} only @returns {Block[]} */
function blocksOf(page, links, only) {
  /** @type {Block[]} */
  const blocks = [];
  const add = (/** @type {"side" | "work"} */ kind, /** @type {Entry} */ entry) => {
    const last = blocks.at(-1);
    if (last?.kind === kind) last.entries.push(entry);
    else blocks.push({ kind, entries: [entry] });
  };
  for (const entry of page.entries) {
    if (entry.kind === "boundary" || entry.kind === "damaged") blocks.push({ kind: entry.kind, entry });
    else if (entry.side) add("side", entry);
    else if (isSaid(entry)) {
      if (!only || entry.kind === "user" || links.ends.has(entry.id) || entry.id === links.target) blocks.push({ kind: "said", entry });
    } else if (only ? entry.id === links.target : !(entry.kind === "result" && links.calls.has(entry.call))) add("work", entry);
  }
  return blocks;
}

/** @param {{page: Page, links: Links, agent: string | null, focused: boolean}} props the agent is null in a subagent's chain */
function PageView({ page, links, agent, focused: only }) {
  const blocks = useMemo(() => blocksOf(page, links, only), [page, links, only]);
  return html`${blocks.map((block) => {
    if ("entries" in block) {
      const { kind, entries } = block;
      if (kind === "side") return html`<${Side} key=${entries[0]?.id} entries=${entries} links=${links} />`;
      return html`<div class="m" key=${entries[0]?.id}><${Work} entries=${entries} links=${links} /></div>`;
    }
    const { kind, entry } = block;
    if (kind === "boundary") return html`<${Boundary} key=${entry.id} entry=${entry} />`;
    if (kind === "damaged") return html`<p class="m damaged" key=${entry.id} data-id=${entry.id}><b>${t("transcript.damaged")}</b> ${line(entry.text, 400)}</p>`;
    return html`<${Said} key=${entry.id} entry=${entry} agent=${agent} tools=${only ? links.counts.get(entry.id) : undefined} />`;
  })}`;
}

/** @param {{entry: Entry, agent: string | null, tools?: number}} props */
const Said = ({ entry, agent, tools }) => html`<article class="m ${entry.kind === "user" ? "u" : ""}" data-id=${entry.id} tabindex="-1">
  <div class="who"><b>${agent === null ? t(entry.kind === "user" ? "transcript.side.to" : "transcript.side") : entry.kind === "user" ? t("you") : label(agent)}</b>${tools ? html`<span>${plural("transcript.tools", tools)}</span>` : null}
    ${entry.images.length ? html`<span title=${bytes(entry.images.reduce((sum, size) => sum + size, 0))}>${plural("transcript.images", entry.images.length)}</span>` : null}
    <${At} ms=${entry.at_ms} /></div>
  ${entry.kind === "user" ? html`<${Plain} text=${entry.text} />` : html`<${Markdown} text=${entry.text} />`}</article>`;

/** @param {{ms: number | null}} props */
const At = ({ ms }) => (ms === null ? null : html`<span class="r"><time title=${moment(ms)}>${Date.now() - ms < 43_200_000 ? clock(ms) : `${when(ms)} ${clock(ms)}`}</time></span>`);

/** @param {{entry: Entry}} props */
const Boundary = ({ entry }) => html`<div class="m" data-id=${entry.id}><p class="boundary"><span>${t("transcript.compacted")}</span></p>
  ${entry.text.trim() ? html`<${Folded} name=${t("transcript.summary")} about=${line(entry.text, 200)}><div class="thought"><${Markdown} text=${entry.text} /></div></${Folded}>` : null}</div>`;

/** @param {{name: string, about: string, ending?: unknown, id?: string, open?: boolean, children?: unknown}} props */
function Folded({ name, about, ending = null, id, open: first = false, children }) {
  const [open, setOpen] = useState(first);
  return html`<details class="tool" data-id=${id} open=${open} onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}>
    <summary><b>${name}</b><span class="arg">${about}</span><span class="res">${ending}</span></summary>${open ? children : null}</details>`;
}

/** What the agent did between texts: calls, thoughts, notes.  @param {{entries: Entry[], links: Links}} props */
function Work({ entries, links }) {
  /** @type {(Entry | Entry[])[]} */
  const items = [];
  for (const entry of entries) {
    const last = items.at(-1);
    if (!isNote(entry)) items.push(entry);
    else if (Array.isArray(last)) last.push(entry);
    else items.push([entry]);
  }
  return html`<div class="tools">${items.map((item) => {
    if (Array.isArray(item)) return html`<${Notes} key=${item[0]?.id} entries=${item} links=${links} />`;
    if (item.kind === "thinking") return item.text.trim() ? html`<${Folded} key=${item.id} id=${item.id} open=${links.target === item.id} name=${t("thinking")} about=${line(item.text, 160)}><div class="thought"><${Markdown} text=${item.text} /></div></${Folded}>` : null;
    return html`<${Call} key=${item.id} entry=${item} result=${item.kind === "result" ? item : (links.results.get(item.call) ?? null)} links=${links} />`;
  })}</div>`;
}

/** @param {{entry: Entry, result: Entry | null, links: Links}} props */
function Call({ entry, result, links }) {
  const changes = useMemo(() => changesOf(entry.input), [entry]);
  const amounts = useMemo(() => changes.map((each) => changed(each.before, each.after)), [changes]);
  const sum = (/** @type {"added" | "removed"} */ name) => amounts.reduce((total, each) => total + each[name], 0);
  const called = entry.kind === "call";
  const took = called && result?.at_ms != null && entry.at_ms !== null ? duration(Math.max(0, result.at_ms - entry.at_ms)) : "";
  const ending = html`<${Amount} added=${sum("added")} removed=${sum("removed")} />
    ${result?.failed ? html`<span class="bad">${t("tool.failed")}</span>${took ? " · " : ""}` : null}${called && result === null ? t("transcript.open") : took}`;
  const here = links.target !== null && (links.target === entry.id || links.target === result?.id);
  // A result is found under its own id, and stands in its call.
  return html`<${Folded} id=${result && links.target === result.id ? result.id : entry.id} open=${here} name=${called ? line(entry.tool, 60) || t("transcript.call") : t("transcript.result")}
      about=${line(called ? argument(entry.input) : entry.text, 300)} ending=${ending}>
    <${CallDetails} entry=${entry} result=${result} changes=${changes} /></${Folded}>`;
}

/** @param {any} input */
function changesOf(input) {
  const found = edits(input);
  return found.reduce((sum, each) => sum + each.before.length + each.after.length, 0) > LONG_CHANGE ? [] : found;
}

/** @param {{entry: Entry, result: Entry | null, changes: ReturnType<typeof edits>}} props */
function CallDetails({ entry, result, changes }) {
  const given = entry.kind === "call" ? entry.input : null;
  const patch = useMemo(() => {
    const text = given === null ? null : patchOf(given);
    return text !== null && text.length <= LONG_CHANGE ? text : null;
  }, [given]);
  return html`<div class="details">${patch ? html`<${Diff} path=${argument(given).split("\n")[0] ?? ""} patch=${patch} />` : changes.map((each, at) => html`<${Diff} key=${at} ...${each} />`)}
    ${patch || changes.length || given === null ? null : html`<pre tabindex="0" dir="ltr">${visible(clipped(shownInput(given)))}</pre>`}
    ${result?.text ? html`<pre tabindex="0" dir="ltr">${visible(clipped(result.text))}</pre>` : null}
    ${result?.images.length ? html`<p class="dim">${plural("transcript.images", result.images.length)}</p>` : null}</div>`;
}

/** @param {{entries: Entry[], links: Links}} props */
function Notes({ entries, links }) {
  const names = [...new Set(entries.map((each) => (each.inserted ? t("transcript.inserted") : each.label || t("transcript.note"))))].join(", ");
  const here = entries.some((each) => each.id === links.target);
  return html`<${Folded} id=${here ? (links.target ?? undefined) : entries[0]?.id} open=${here} name=${plural("transcript.notes", entries.length)} about=${line(names, 200)}>
    <div class="details">${entries.map((each) => html`<pre key=${each.id} tabindex="0">${line(each.label || each.kind, 60)}${each.text ? `: ${visible(clipped(each.text))}` : ""}</pre>`)}</div></${Folded}>`;
}

/** What a subagent did, folded.  @param {{entries: Entry[], links: Links}} props */
function Side({ entries, links }) {
  const here = entries.some((each) => each.id === links.target);
  const [open, setOpen] = useState(here);
  const first = entries.find((each) => each.text.trim());
  const own = useMemo(() => entries.map((each) => ({ ...each, side: false })), [entries]);
  const shown = own.slice(0, MOST_SIDE);
  const page = useMemo(() => ({ key: 0, first: null, last: null, entries: shown, lines: shown.length }), [own]);
  return html`<div class="m" data-id=${entries[0]?.id}><details class="tools tool" open=${open} onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}>
    <summary><b>${t("transcript.side")}</b><span class="arg">${line(first?.text ?? "", 200)}</span><span class="res">${plural("transcript.entries", entries.length)}</span></summary>
    ${open ? html`<div class="sub-chain"><${PageView} page=${page} links=${links} agent=${null} focused=${false} />
      ${own.length > shown.length ? html`<p class="earlier">${plural("events.left", own.length - shown.length)}</p>` : null}</div>` : null}</details></div>`;
}

