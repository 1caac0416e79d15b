// Markdown of somebody else, as elements: parsed, sanitised, without anything that loads or runs.
import { html, useLayoutEffect, useMemo, useRef } from "./lib.js";
import { DOMPurify, lexer, parser } from "./text-lib.js";
import { bytes, visible } from "./format.js";
import { t } from "./strings.js";
import { Code } from "./code.js";
import { useUnfolded } from "./selection.js";

/** A longer text is shown in part at first. */
const LONG = 60_000;
/** A long text is known again by its beginning. */
const NAME = 1000;
const ALLOWED = {
  ALLOWED_TAGS: (
    "a b blockquote br code del em h1 h2 h3 h4 h5 h6 hr i input kbd li ol p s strong sub sup table tbody td th thead tr ul"
  ).split(" "),
  ALLOWED_ATTR: ["href", "title", "align", "start", "checked", "disabled", "type"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

DOMPurify.addHook("afterSanitizeAttributes", (/** @type {Element} */ node) => {
  if (node.tagName === "A") {
    node.setAttribute("rel", "noreferrer noopener");
    node.setAttribute("target", "_blank");
  }
  if (node.tagName === "INPUT" && node.getAttribute("type") !== "checkbox") node.remove();
});

/** @param {string} text @returns {DocumentFragment} */
const sanitised = (text) => /** @type {any} */ (DOMPurify.sanitize(text, ALLOWED));

/**
 * Elements are shown as the text that they are. A picture is never loaded from elsewhere: it becomes a link.
 * @param {any} token
 */
function withoutElements(token) {
  if (token.type === "html") {
    const words = { type: "text", raw: token.raw, text: token.raw, escaped: false };
    Object.assign(token, token.block ? { type: "paragraph", tokens: [words] } : words);
  }
  if (token.type === "image") {
    token.type = "link";
    token.tokens = [{ type: "text", raw: token.text, text: token.text || token.href }];
  }
  for (const list of [token.tokens, token.items]) if (list) list.forEach(withoutElements);
  if (token.type === "table")
    for (const cell of [...token.header, ...token.rows.flat()]) cell.tokens.forEach(withoutElements);
}

/** One block that is not code. It is made again only if its source has changed.  @param {{token: any, links: any}} props */
function Block({ token, links }) {
  const ref = useRef(/** @type {HTMLDivElement | null} */ (null));
  useLayoutEffect(() => {
    withoutElements(token);
    ref.current?.replaceChildren(sanitised(parser(Object.assign([token], { links }))));
  }, [token.raw]);
  return html`<div class="md" dir="auto" ref=${ref}></div>`;
}

/** @param {{text: string, live?: boolean}} props */
export function Markdown({ text, live = false }) {
  const [whole, setWhole] = useUnfolded(text.slice(0, NAME));
  const shown = whole || text.length <= LONG ? text : text.slice(0, LONG);
  const tokens = useMemo(() => lexer(visible(shown)), [shown]);
  return html`<div class="body ${live ? "live" : ""}">
    ${tokens.map((/** @type {any} */ token, /** @type {number} */ at) =>
      token.type === "space"
        ? null
        : token.type === "code"
          ? html`<${Code} key=${at} text=${token.text} language=${(token.lang ?? "").split(/\s/)[0]} />`
          : html`<${Block} key=${at} token=${token} links=${tokens.links} />`,
    )}
    ${shown === text
      ? null
      : html`<p><button type="button" class="btn small" onClick=${() => setWhole(true)}>
          ${t("text.whole", { size: bytes(text.length) })}</button></p>`}
  </div>`;
}

/** What the user said: as it was typed.  @param {{text: string}} props */
export function Plain({ text }) {
  const [whole, setWhole] = useUnfolded(text.slice(0, NAME));
  const shown = whole || text.length <= LONG / 3 ? text : text.slice(0, LONG / 3);
  return html`<div class="body plain" dir="auto">${visible(shown)}${
    shown === text
      ? null
      : html`… <button type="button" class="btn small" onClick=${() => setWhole(true)}>
          ${t("text.whole", { size: bytes(text.length) })}</button>`
  }</div>`;
}
