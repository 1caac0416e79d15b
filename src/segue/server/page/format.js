// Numbers, times and texts as they are shown. What is not known is a dash, never 0.
import { signal } from "./lib.js";
import { language, t } from "./strings.js";

const UNKNOWN = "–";

/** 1234 → 1.2k.  @param {number | null | undefined} count */
export function tokens(count) {
  if (count === null || count === undefined) return UNKNOWN;
  if (count < 1000) return String(count);
  if (count < 99_950) return `${(count / 1000).toFixed(1)}k`;
  if (count < 999_500) return `${Math.round(count / 1000)}k`;
  return `${(count / 1e6).toFixed(1)}M`;
}

/** @param {number | null | undefined} usd @param {boolean | null} [estimated] */
export function money(usd, estimated = false) {
  if (usd === null || usd === undefined) return UNKNOWN;
  const sign = usd < 0 ? "−" : "";
  const amount = Math.abs(usd);
  if (amount > 0 && amount < 0.0005) return `${sign}<$0.001`;
  const digits = amount >= 100 ? 0 : amount >= 1 || amount === 0 ? 2 : amount >= 0.0995 ? 2 : 3;
  return `${estimated ? "~" : ""}${sign}$${amount.toFixed(digits)}`;
}

/** @param {number | null | undefined} size */
export function bytes(size) {
  if (size === null || size === undefined) return UNKNOWN;
  const units = ["B", "KB", "MB", "GB"];
  let at = 0;
  let amount = size;
  while (amount >= 1000 && at < units.length - 1) {
    amount /= 1024;
    at += 1;
  }
  return `${at && amount < 10 ? amount.toFixed(1) : Math.round(amount)} ${units[at]}`;
}

/** @param {number | null | undefined} share 0 to 1 */
export function percent(share) {
  return share === null || share === undefined || !Number.isFinite(share) ? UNKNOWN : `${Math.round(share * 100)} %`;
}

/** @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms === null || ms === undefined) return UNKNOWN;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const rest = String(seconds % 60).padStart(2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

/** Formatters are dear to make, and tables need many.  @type {Map<string, Intl.DateTimeFormat | Intl.NumberFormat>} */
const made = new Map();

/** @param {Intl.DateTimeFormatOptions} options */
function dates(options) {
  const name = `${language.value} ${JSON.stringify(options)}`;
  const known = made.get(name) ?? new Intl.DateTimeFormat(language.value, options);
  made.set(name, known);
  return /** @type {Intl.DateTimeFormat} */ (known);
}

/** 1234 → 1,234.  @param {number | null | undefined} count */
export function number(count) {
  if (count === null || count === undefined) return UNKNOWN;
  const known = made.get(language.value) ?? new Intl.NumberFormat(language.value);
  made.set(language.value, known);
  return /** @type {Intl.NumberFormat} */ (known).format(count);
}

/** Rises while somebody looks, so that what is shown of a time does not stay what it was. */
const minute = signal(0);
const tick = () => document.visibilityState === "visible" && (minute.value += 1);
setInterval(tick, 60_000);
document.addEventListener("visibilitychange", tick);

/** @param {number} ms */
export function when(ms) {
  void minute.value;
  const now = Date.now();
  const moment = new Date(ms);
  const today = new Date(now);
  if (now - ms < 60_000 && now >= ms) return t("time.now");
  if (moment.toDateString() === today.toDateString()) return clock(ms);
  if (Math.abs(now - ms) < 6 * 86_400_000)
    return dates({ weekday: "short" }).format(moment);
  const year = moment.getFullYear() === today.getFullYear() ? undefined : "numeric";
  return dates({ day: "numeric", month: "short", year }).format(moment);
}

/** @param {number} ms */
export const clock = (ms) => dates({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" }).format(ms);

/** When something goes on: the hour alone if it is near.  @param {number} ms */
export const soon = (ms) => (ms - Date.now() < 43_200_000 ? clock(ms) : moment(ms));

/** The whole date, for titles.  @param {number} ms */
export const moment = (ms) => dates({ dateStyle: "medium", timeStyle: "short", hourCycle: "h23" }).format(ms);

/** Usage limits in words, the fullest first; without those that have been reset. Null: they are not known.
 * @param {import("./types").LimitShown[] | null} all */
export function limits(all) {
  const now = Date.now();
  const left = (all ?? []).filter((each) => each.used !== null && (each.resets_at ?? Infinity) > now);
  return left.sort((a, b) => (b.used ?? 0) - (a.used ?? 0)).map(({ window, used, resets_at: ms }) => {
    const [, count, unit, of] = /^(\d+)([mhd])(?:_(.*))?$/.exec(window) ?? [];
    const name = t(`limit.${unit ?? "any"}`, { count }) + (of ? ` (${visible(of)})` : "");
    const said = t("limit.used", { name, used: percent(used) });
    return ms === null ? said : t("limit.resets", { said, time: ms - now < 86_400_000 ? clock(ms) : moment(ms) });
  });
}

/** The day alone, with its year if that is another.  @param {number} ms */
export function day(ms) {
  const year = new Date(ms).getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  return dates({ day: "numeric", month: "short", year }).format(ms);
}

/** @param {string | null | undefined} path */
export function home(path) {
  return path ? path.replace(/^\/(?:home|Users)\/[^/]+(?=\/|$)|^\/root(?=\/|$)/, "~") : "";
}

/** Two letters for an agent.  @param {string} agent */
export const mark = (agent) => agent.slice(0, 1).toUpperCase() + agent.slice(1, 2);

// Control characters that could move, hide or reverse what stands around them.
const CONTROLS = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F]/g;
const DIRECTIONS = /[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/g;

/**
 * A text of somebody else, safe to show: controls become visible signs. Elements and links are not its business:
 * texts are shown as text, or as Markdown that was sanitised.
 * @param {string} text
 */
export function visible(text) {
  return text
    .replace(/\r\n?/g, "\n")
    .replace(CONTROLS, (sign) => {
      const code = sign.charCodeAt(0);
      return code < 0x20 ? String.fromCharCode(0x2400 + code) : "␡";
    })
    .replace(DIRECTIONS, (sign) => `‹U+${sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
}

/** On one line, at most so long.  @param {string} text @param {number} [most] */
export function line(text, most = 200) {
  const short = visible(text.slice(0, 4 * most)).replace(/\s+/g, " ").trim();
  return short.length > most ? `${short.slice(0, most - 1)}…` : short;
}

/** @param {string} text @param {number} count */
export const plural = (text, count) => t(count === 1 ? `${text}.one` : `${text}.many`, { count });

/** @param {string} text */
export const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
