// Reasons and notices: the daemon says them in English. In another language, they are put together from their clauses.
import { bytes, home, limits, money, number, percent, tokens, visible } from "./format.js";
import { knows, t } from "./strings.js";

/** @typedef {import("./types").Clause} Clause */
/** @typedef {Record<string, (value: any) => string>} Forms */

/** How a value is shown, by its name.  @type {Forms} */
const FORMS = {
  bytes, tokens, max_bytes: bytes, window: tokens, share: percent, count: number, limit: number, there: home, here: home,
  usd: money, max_usd: money, failure: (kind) => t(`failure.${kind}`).toLowerCase(),
  payer_now: (pays) => t(`pays.${pays}`), payer_before: (pays) => t(`pays.${pays}`),
};

/** @param {Clause} clause */
function told({ code, values = {} }) {
  if (code === "limits.used") return t(`why.${code}`, { said: limits([/** @type {any} */ ({ resets_at: null, ...values })])[0] ?? "" });
  const shown = Object.entries(values).map(([name, value]) => [name, value === "" ? t("why.default") : (FORMS[name] ?? String)(value)]);
  return t(`why.${code}`, Object.fromEntries(shown));
}

/** @param {string} text as the daemon says it @param {Clause[]} [clauses] none in turns of older versions */
export function reason(text, clauses = []) {
  return clauses.length && clauses.every(({ code }) => knows(`why.${code}`)) ? clauses.map(told).join(t("why.then")) : text;
}

/** The notices of a turn.  @param {{notices?: string[], notice_clauses?: Clause[][]}} turn */
export const notices = ({ notices: texts = [], notice_clauses: clauses = [] }) => texts.map((text, at) => visible(reason(text, clauses[at])));
