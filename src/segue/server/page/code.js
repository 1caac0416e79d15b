// Code with a button that copies it, and changes of files line by line.
import { html, useLayoutEffect, useMemo, useRef } from "./lib.js";
import { diffLines, highlighter } from "./text-lib.js";
import { plural, visible } from "./format.js";
import { argument, besides, clipped, edits, patchOf, shownInput } from "./steps.js";
import { t } from "./strings.js";
import { Copy } from "./parts.js";

const LANGUAGES = /** @type {Record<string, string>} */ ({
  sh: "bash", shell: "bash", zsh: "bash", console: "bash", py: "python", ts: "typescript", tsx: "typescript",
  js: "typescript", jsx: "typescript", mjs: "typescript", javascript: "typescript", yml: "yaml", toml: "ini", html: "xml",
  svg: "xml", rs: "rust", md: "markdown", patch: "diff",
});
const KNOWN = new Set(
  "bash diff go ini json markdown python rust typescript xml yaml".split(" "),
);
/** What is longer is not coloured: it would hold up everything else. */
const LONG = 30_000;
const CONTEXT = 3;
const MOST_LINES = 400;

/** @param {string} name @returns {Promise<string | null>} */
async function prepared(name) {
  const language = LANGUAGES[name.toLowerCase()] ?? name.toLowerCase();
  if (!KNOWN.has(language)) return null;
  if (!highlighter.getLanguage(language))
    highlighter.registerLanguage(language, (await import(`./vendor/highlight-${language}.js`)).default);
  return language;
}

/** @param {{text: string, language?: string, caption?: string}} props */
export function Code({ text, language = "", caption }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const shown = visible(text);
  useLayoutEffect(() => {
    let current = true;
    const node = ref.current;
    if (!node) return undefined;
    node.textContent = shown;
    if (language && shown.length <= LONG)
      void prepared(language).then((name) => {
        if (!current || name === null) return;
        const { value } = highlighter.highlight(shown, { language: name, ignoreIllegals: true });
        node.replaceChildren(spans(value));
      });
    return () => {
      current = false;
    };
  }, [shown, language]);
  return html`<figure class="block"><figcaption><span class="cap">${caption ?? language}</span>
    <${Copy} text=${text} label=${t("copy.code")} /></figcaption>
    <pre tabindex="0" dir="ltr"><code ref=${ref}></code></pre></figure>`;
}

/** The highlighter's own markup as elements: spans with a class and text, nothing else.  @param {string} markup */
function spans(markup) {
  const root = document.createDocumentFragment();
  /** @type {Node[]} */
  const open = [root];
  for (const part of markup.split(/(<span class="[^"]*">|<\/span>)/)) {
    const begins = /^<span class="([^"]*)">$/.exec(part);
    if (begins) {
      const span = document.createElement("span");
      span.className = begins[1] ?? "";
      open.at(-1)?.appendChild(span);
      open.push(span);
    } else if (part === "</span>") open.pop();
    else if (part) open.at(-1)?.appendChild(document.createTextNode(decoded(part)));
  }
  return root;
}

const SIGNS = /** @type {Record<string, string>} */ ({ amp: "&", lt: "<", gt: ">", quot: '"', "#x27": "'" });
const decoded = (/** @type {string} */ text) => text.replace(/&(#x27|\w+);/g, (whole, name) => SIGNS[name] ?? whole);

/** @typedef {{sign: " " | "+" | "-" | "…", text: string, at: number | null}} Line */

/** The lines of a change, with some around it.  @param {string} before @param {string} after */
export function changed(before, after) {
  /** @type {Line[]} */
  const lines = [];
  let [added, removed, at] = [0, 0, 1];
  const parts = diffLines(before, after);
  parts.forEach((/** @type {any} */ part, /** @type {number} */ index) => {
    const texts = part.value.replace(/\n$/, "").split("\n");
    if (part.added || part.removed) {
      if (part.added) added += texts.length;
      else removed += texts.length;
      for (const text of texts) lines.push({ sign: part.added ? "+" : "-", text, at: part.added ? at++ : null });
      return;
    }
    const [first, last] = [index === 0, index === parts.length - 1];
    texts.forEach((/** @type {string} */ text, /** @type {number} */ place) => {
      const near = (!first && place < CONTEXT) || (!last && place >= texts.length - CONTEXT);
      if (near) lines.push({ sign: " ", text, at });
      else if (lines.at(-1)?.sign !== "…") lines.push({ sign: "…", text: "", at: null });
      at += 1;
    });
  });
  return { lines, added, removed };
}

/** @param {string} patch */
function patched(patch) {
  /** @type {Line[]} */
  const lines = patch.split("\n").map((text) => {
    const sign = /^[+-](?![+-]{2})/.test(text) ? /** @type {"+" | "-"} */ (text[0]) : " ";
    return { sign, text: sign === " " ? text : text.slice(1), at: null };
  });
  const count = (/** @type {string} */ sign) => lines.filter((each) => each.sign === sign).length;
  return { lines, added: count("+"), removed: count("-") };
}

/** @param {{path: string, before?: string, after?: string, patch?: string, whole?: boolean}} props ``whole``: every line */
export function Diff({ path, before = "", after = "", patch, whole = false }) {
  const { lines, added, removed } = useMemo(
    () => (patch === undefined ? changed(before, after) : patched(patch)),
    [before, after, patch],
  );
  const kinds = { "+": "a", "-": "d", " ": "", "…": "gap" };
  return html`<figure class="block diff"><figcaption><span class="cap">${visible(path)}</span>
    <${Amount} added=${added} removed=${removed} /><${Copy} text=${patch ?? after} label=${t("copy.code")} /></figcaption>
    <pre tabindex="0" dir="ltr"><code>${lines.slice(0, MOST_LINES).map(
      (line, at) => html`<span key=${at} class=${kinds[line.sign]}><i>${line.at ?? ""}</i><i class="sg">${line.sign}</i>${visible(line.text)}
</span>`,
    )}${whole ? lines.slice(MOST_LINES).map((line) => `${line.sign} ${visible(line.text)}\n`).join("") : null}</code></pre>${lines.length > MOST_LINES && !whole ? html`<p class="more">${plural("diff.more", lines.length - MOST_LINES)}</p>` : null}</figure>`;
}

/** What a tool is given: changes of files as such, anything else as text.
 * @param {{input: any, whole?: boolean}} props ``whole``: all of it, however long, and what else belongs to a change */
export function Given({ input, whole = false }) {
  const patch = useMemo(() => patchOf(input), [input]);
  const changes = useMemo(() => edits(input), [input]);
  const text = (/** @type {any} */ value) => html`<pre tabindex="0" dir="ltr">${visible(whole ? shownInput(value) : clipped(shownInput(value)))}</pre>`;
  if (patch === null && !changes.length) return text(input);
  const rest = whole ? besides(input) : {};
  return html`${patch !== null ? html`<${Diff} path=${argument(input).split("\n")[0] ?? ""} patch=${patch} whole=${whole} />` : changes.map((each, at) => html`<${Diff} key=${at} ...${each} whole=${whole} />`)}
    ${Object.keys(rest).length ? text({ ...rest }) : null}`;
}

/** @param {{added: number, removed: number}} props */
export const Amount = ({ added, removed }) => html`<span class="amount">${
  added ? html`<span class="plus">+${added}</span>` : null
} ${removed ? html`<span class="minus">−${removed}</span>` : null}</span>`;
