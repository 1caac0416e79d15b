// Requests to the daemon. The types are generated from its OpenAPI document (types.d.ts).
import { t } from "./strings.js";

/** An error that the daemon answered with, or that it could not be reached. */
export class Problem extends Error {
  /** @param {string} kind @param {string} detail @param {number} status @param {any} [body] */
  constructor(kind, detail, status, body) {
    super(detail);
    this.kind = kind;
    this.status = status;
    this.body = body;
  }
}

/** One segment of a path.  @param {string} part */
export const segment = (part) => encodeURIComponent(part);

/** @param {Record<string, unknown>} given */
function queryOf(given) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) {
    if (Array.isArray(value)) for (const each of value) query.append(name, String(each));
    else if (value !== undefined && value !== null && value !== "" && value !== false)
      query.append(name, String(value));
  }
  const text = query.toString();
  return text ? `?${text}` : "";
}

/**
 * @param {string} method
 * @param {string} path below /api/v1
 * @param {{query?: Record<string, unknown>, body?: unknown, headers?: Record<string, string>, stop?: AbortSignal}} [more]
 * @returns {Promise<any>}
 */
export async function call(method, path, more = {}) {
  const { query = {}, body, headers = {}, stop } = more;
  let answer;
  try {
    answer = await fetch(`/api/v1${path}${queryOf(query)}`, {
      method,
      headers: body === undefined ? headers : { ...headers, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: stop,
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem("unreachable", t("unreachable"), 0);
  }
  if (answer.status === 204) return null;
  const type = answer.headers.get("content-type") ?? "";
  const told = type.includes("json") ? await answer.json() : await answer.text();
  if (answer.ok) return told;
  throw new Problem(told?.kind ?? "internal", told?.detail ?? `HTTP ${answer.status}`, answer.status, told);
}

/** @param {string} path @param {Record<string, unknown>} [query] @param {AbortSignal} [stop] */
export const get = (path, query, stop) => call("GET", path, { query, stop });
/** @param {string} path @param {unknown} [body] */
export const post = (path, body) => call("POST", path, { body });
/** @param {string} path @param {unknown} body */
export const patch = (path, body) => call("PATCH", path, { body });
/** @param {string} path */
export const remove = (path) => call("DELETE", path);

/** The path of a conversation.  @param {string} key @param {string} [rest] */
export const of = (key, rest = "") => `/conversations/${segment(key)}${rest}`;

/** @type {Map<string, string>} */
const unanswered = new Map();

export const drawn = () => [...crypto.getRandomValues(new Uint32Array(4))].map((each) => each.toString(36)).join("");

/** Queue a run, once: without an answer, the same again under that name, or within a minute, is the same run.
 * @param {string} path @param {object} order @param {string} [name] */
export async function once(path, order, name) {
  const body = JSON.stringify([path, order]);
  const known = name ? `${name}-${body.length}` : (unanswered.get(body) ?? drawn());
  if (!name) unanswered.set(body, known);
  setTimeout(() => unanswered.delete(body), 60_000);
  const run = await call("POST", path, { body: order, headers: { "idempotency-key": known } });
  unanswered.delete(body);
  return run;
}

/** @param {string} key @param {object} order @param {string} [name] */
export const submit = (key, order, name) => once(of(key, "/runs"), order, name);
