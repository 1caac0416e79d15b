// What an agent did in a turn, from the events of its run: texts, thoughts and tool calls in their order.

/** @typedef {import("./types").FeedEvent} FeedEvent */
/**
 * @typedef {Said
 *   | {kind: "note", n: number, name: "compacted" | "retry" | "notice", text: string}
 *   | Tool} Step
 * @typedef {{kind: "text" | "thinking", n: number, text: string, cut: boolean}} Said ``cut``: only its beginning
 * @typedef {{kind: "tool", n: number, id: string, name: string, input: any, cut: boolean, ms: number,
 *   children: Tool[], result: {n: number, ok: boolean, output: string, exit: number | null, denied: boolean, cut: boolean, ms: number} | null}} Tool
 */

/** @param {FeedEvent[]} events @param {boolean} [over] the run has ended: nothing runs any more @returns {Step[]} */
export function stepsOf(events, over = false) {
  /** @type {Step[]} */
  const steps = [];
  /** @type {Map<string, Tool>} */
  const calls = new Map();
  for (const { n, ms, event, cut } of /** @type {any[]} */ (events)) {
    switch (event.type) {
      case "text":
      case "thinking":
        if (event.text.trim()) steps.push({ kind: event.type, n, text: event.text, cut: Boolean(cut) });
        break;
      case "tool-call": {
        const tool = /** @type {Tool} */ ({
          kind: "tool", n, id: event.id, name: event.name, input: event.input, cut: Boolean(cut), ms, children: [], result: null,
        });
        calls.set(event.id, tool);
        // What a subagent does belongs to the call that began it.
        (calls.get(event.parent)?.children ?? steps).push(tool);
        break;
      }
      case "tool-result": {
        const tool = calls.get(event.id);
        if (tool)
          tool.result = {
            n, ok: event.ok, output: event.output ?? "", exit: event.exit_code ?? null,
            denied: Boolean(event.denied), cut: Boolean(cut), ms,
          };
        break;
      }
      case "compacted":
        steps.push({ kind: "note", n, name: "compacted", text: "" });
        break;
      case "retry":
        steps.push({ kind: "note", n, name: "retry", text: event.message ?? "" });
        break;
      case "notice":
        steps.push({ kind: "note", n, name: "notice", text: event.text });
        break;
      default:
    }
  }
  if (over)
    for (const tool of calls.values())
      tool.result ??= { n: -1, ok: false, output: "", exit: null, denied: false, cut: false, ms: events.at(-1)?.ms ?? tool.ms };
  return steps;
}

const ARGUMENTS = [
  "command", "cmd", "file_path", "path", "notebook_path", "pattern", "query", "url", "description", "prompt", "name",
];

/** The part of a tool's input that says what it is about.  @param {any} input @returns {string} */
export function argument(input) {
  if (input === null || input === undefined) return "";
  if (typeof input !== "object") return String(input);
  for (const name of ARGUMENTS) {
    const value = input[name];
    if (typeof value === "string" && value) return value;
    if (Array.isArray(value) && value.length) return value.join(" ");
  }
  const first = Object.values(input).find((value) => typeof value === "string" && value);
  return first === undefined ? (Object.keys(input).length ? JSON.stringify(input) : "") : String(first);
}

/** Whether a tool call is another agent at work.  @param {Tool} tool */
export const isSubagent = (tool) =>
  typeof tool.input === "object" && tool.input !== null && "subagent_type" in tool.input;

/**
 * The change to a file that a tool's input describes, whatever the tool is called.
 * @param {any} input
 * @returns {{path: string, before: string, after: string}[]}
 */
export function edits(input) {
  if (typeof input !== "object" || input === null) return [];
  const path = input.file_path ?? input.path ?? "";
  const one = (/** @type {any} */ each) => ({
    path, before: String(each.old_string ?? each.old_str ?? ""), after: String(each.new_string ?? each.new_str ?? ""),
  });
  if (typeof (input.new_string ?? input.new_str) === "string") return [one(input)];
  if (Array.isArray(input.edits)) return input.edits.map(one);
  if (typeof input.content === "string" && path) return [{ path, before: "", after: input.content }];
  return [];
}

/** What an input says beside the change that is shown of it.  @param {any} input @returns {Record<string, unknown>} */
export function besides(input) {
  if (typeof input !== "object" || input === null) return {};
  const patch = patchOf(input);
  const names = typeof (input.new_string ?? input.new_str) === "string"
    ? ["old_string" in input ? "old_string" : "old_str", "new_string" in input ? "new_string" : "new_str"]
    : Array.isArray(input.edits) ? ["edits"] : ["content"];
  const shown = new Set([input.file_path == null ? "path" : "file_path", ...names]);
  const of = (/** @type {any} */ each) => Object.keys(each).every((name) => /^(old|new)_str(ing)?$/.test(name));
  if (Array.isArray(input.edits) && !input.edits.every(of)) shown.delete("edits");
  return Object.fromEntries(Object.entries(input).filter(([name, value]) => (patch === null ? !shown.has(name) : value !== patch)));
}

/** @param {any} input */
export function shownInput(input) {
  if (typeof input !== "object" || input === null) return String(input ?? "");
  const entries = Object.entries(input);
  const only = entries.length === 1 ? entries[0]?.[1] : null;
  return typeof only === "string" ? only : JSON.stringify(input, null, 2);
}

const MOST_OUTPUT = 200_000;
/** @param {string} text */
export const clipped = (text) => (text.length > MOST_OUTPUT ? `${text.slice(0, MOST_OUTPUT)}…` : text);

/** A patch as text, if the input holds one.  @param {any} input */
export function patchOf(input) {
  for (const text of typeof input === "string" ? [input] : Object.values(input ?? {}))
    if (typeof text === "string" && (/^\*\*\* Begin Patch/m.test(text) || /^@@ .*@@/m.test(text))) return text;
  return null;
}
