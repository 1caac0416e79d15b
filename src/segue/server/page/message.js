// One message of a dialogue: yours or an agent's, with its versions, what can be done with it, and its turn.
import { html, signal, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./lib.js";
import { get, of, patch, post, remove, segment, submit } from "./api.js";
import { label, runs } from "./data.js";
import { bytes, clock, line, moment, plural, visible, when } from "./format.js";
import { notices } from "./reasons.js";
import { go } from "./route.js";
import { stepsOf } from "./steps.js";
import { t } from "./strings.js";
import { Code } from "./code.js";
import { Markdown, Plain } from "./markdown.js";
import { Copy, ask, attempt, isComposing, tell, useGrowth } from "./parts.js";
import { EndLine, LastSaid, LiveTurn, Steps } from "./turn.js";
import { kept } from "./drafts.js";
import { Question } from "./question.js";
import { selected } from "./selection.js";

/** @typedef {import("./types").LogMessage} Message */
/** @typedef {import("./types").FeedEvent} FeedEvent */
/** @typedef {import("./types").MessageVersion} Version */

/** @param {{key_: string, message: Message, events: FeedEvent[] | undefined, leftOut: number, focused: boolean, last: boolean}} props */
export function MessageView({ key_, message, events, leftOut, focused, last }) {
  if (message.kind === "carried")
    return html`<details class="tool carried" data-id=${message.id}><summary><span class="arg">${t("carried")}</span>
      <span class="res">${bytes(new Blob([message.text]).size)}</span></summary><div class="thought"><${Plain} text=${message.text} /></div></details>`;
  return message.from === "user"
    ? html`<${Yours} key_=${key_} message=${message} events=${events} focused=${focused} last=${last} />`
    : html`<${Answer} key_=${key_} message=${message} events=${events} leftOut=${leftOut} focused=${focused} />`;
}

/** The messages that are being edited. */
const editing = new Set();
/** @param {string | null} id */
const editOf = (id) => `edit:${id}`;

/** @param {{key_: string, message: Message, events: FeedEvent[] | undefined, focused: boolean, last: boolean}} props */
function Yours({ key_, message, events, focused, last }) {
  const [edit, setEdit] = useState(() => editing.has(message.id) || kept.read(editOf(message.id), null) !== null);
  // An edit that was begun before is shown again, but the reader may be elsewhere.
  const again = useRef(edit);
  const version = chosen(message);
  useEffect(() => {
    if (edit) editing.add(message.id);
    else editing.delete(message.id);
  }, [edit]);
  // A turn that is done and stands here gave an answer that was cut: nothing of it is shown.
  const steps = useMemo(() => stepsOf(message.state === "done" ? NOTHING : (events ?? NOTHING), true), [events, message.state]);
  const asks = (runs.value.get(message.run ?? "")?.questions.length ?? 0) > 0;
  if (!asks && (message.state === "queued" || (message.state === "parked" && message.n === null))) return null;
  const begun = message.state === "running" || message.state === "needs_you";
  return html`<article class="msg you ${message.state === "withdrawn" ? "off" : ""}" id="m-${message.id}" tabindex="-1" data-id=${message.id}>
      <div class="who"><span class="n">${message.n === null ? "" : `#${message.n}`}</span><b>${t("you")}</b>
        <span>${t("to", { agent: label(message.agent) })}${message.role ? ` · ${message.role}` : ""}</span>
        ${message.edited ? html`<span title=${moment(message.edited)}>${t("edited")}</span>` : null}
        ${message.blank ? html`<span>${t("blank")}</span>` : null}
        <${Versions} key_=${key_} message=${message} />
        <span class="r"><${Actions} key_=${key_} message=${message} last=${last} onEdit=${() => setEdit(true)} />
          <time title=${moment(message.created)}>${clockOrDay(message.created)}</time></span></div>
      ${edit
        ? html`<${Editor} key_=${key_} message=${message} focus=${!again.current} onDone=${() => ((again.current = false), setEdit(false))} />`
        : html`<${Plain} text=${version?.text ?? message.text} />`}
      <${Attachments} key_=${key_} message=${message} />
      ${begun ? null : html`${focused ? html`<${LastSaid} steps=${steps} run=${message.run ?? ""} />` : html`<${Steps} steps=${steps} run=${message.run ?? ""} />`}<${Failure} key_=${key_} message=${message} last=${last} />`}</article>
    ${begun && message.run ? html`<${LiveTurn} run=${message.run} events=${events ?? NOTHING} focused=${focused} />` : null}`;
}

/** @type {FeedEvent[]} */
const NOTHING = [];

/** @param {number} ms */
const clockOrDay = (ms) => (Date.now() - ms < 43_200_000 ? clock(ms) : when(ms));

/** @param {{key_: string, message: Message, events: FeedEvent[] | undefined, leftOut: number, focused: boolean}} props */
function Answer({ key_, message, events, leftOut, focused }) {
  const version = chosen(message);
  const steps = useMemo(() => stepsOf(events ?? []), [events]);
  const texts = steps.filter((each) => each.kind === "text");
  const run = version ? version.run : message.run;
  const turn = useTurn(version?.run ?? null) ?? (version ? null : message);
  const explained = run !== null && selected.value === run;
  return html`<article class="msg ${explained ? `sel ${turn?.mode ?? ""}` : ""}" id="m-${message.id}" tabindex="-1"
      data-id=${message.id} data-run=${message.run} aria-current=${explained ? "true" : undefined}>
    <div class="who"><span class="n">${message.n === null ? "" : `#${message.n}`}</span><b>${label(message.agent)}</b>
      ${message.role ? html`<span>${message.role}</span>` : null}
      ${message.account ? html`<span>${message.account}</span>` : null}
      ${message.model ? html`<span>${line(message.model, 60)}</span>` : null}
      ${message.edited ? html`<span>${t("edited")}</span>` : null}
      <${Versions} key_=${key_} message=${message} />
      <span class="r"><${Actions} key_=${key_} message=${message} last=${false} />
        <time title=${moment(message.created)}>${clockOrDay(message.created)}</time></span></div>
    ${focused || version ? null : html`${leftOut ? html`<p class="boundary"><span>${plural("events.left", leftOut)}</span></p>` : null}
      <${Steps} steps=${steps} run=${message.run ?? ""} except=${texts.at(-1)?.n ?? -1} />`}
    <${Markdown} text=${version?.text ?? message.text} />
    ${notices(turn ?? {}).map((notice) => html`<p class="notice" key=${notice}>${notice}</p>`)}
    <${EndLine} run=${run} mode=${turn?.mode ?? null} usage=${turn?.usage ?? null} cost=${turn?.cost_usd ?? null}
      estimated=${turn?.cost_estimated} ms=${turn?.duration_ms ?? null} sent=${turn?.sent} />
  </article>`;
}

/** The turn that gave an earlier version, once it is known.  @param {string | null} run */
function useTurn(run) {
  const [turn, setTurn] = useState(/** @type {import("./types").Turn | null} */ (null));
  useEffect(() => {
    if (run) void attempt(async () => setTurn((await get(`/runs/${segment(run)}`)).turn));
  }, [run]);
  return turn?.run === run ? turn : null;
}

/** The versions that were read of messages, and which one is shown; a new version is shown at once.
 * @type {import("./lib.js").Signal<Map<string, {all: Version[], at: number}>>} */
const looked = signal(new Map());
/** @param {Message} message */
const stateOf = (message) => `${message.id} ${message.versions} ${message.revision}`;

/** The version that is shown instead of the current one.  @param {Message} message */
function chosen(message) {
  const known = looked.value.get(stateOf(message));
  const version = known?.all[known.at];
  return version && !version.current ? version : null;
}

/** ‹ 2/3 ›  @param {{key_: string, message: Message}} props */
function Versions({ key_, message }) {
  const known = looked.value.get(stateOf(message));
  const count = known?.all.length ?? message.versions ?? 1;
  if (count < 2 || message.id === null) return null;
  const place = known?.at ?? count - 1;
  const show = async (/** @type {number} */ step) => {
    const all = known?.all ?? /** @type {Version[]} */ (await attempt(() => get(of(key_, `/messages/${segment(message.id ?? "")}/siblings`))));
    if (!all) return;
    const from = known?.at ?? all.findIndex((each) => each.current);
    const at = Math.min(all.length - 1, Math.max(0, from + step));
    looked.value = new Map(looked.peek()).set(stateOf(message), { all, at });
  };
  return html`<span class="sib" role="group" aria-label=${t("versions")}>
    <button type="button" onClick=${() => show(-1)} disabled=${place <= 0} aria-label=${t("versions.before")}>‹</button>
    <span>${place + 1}/${count}</span>
    <button type="button" onClick=${() => show(1)} disabled=${place >= count - 1} aria-label=${t("versions.after")}>›</button></span>`;
}

/** @param {{key_: string, message: Message, last: boolean, onEdit?: () => void}} props */
function Actions({ key_, message, last, onEdit }) {
  if (message.id === null) return null;
  const yours = message.from === "user";
  return html`<span class="acts">
    ${onEdit && message.n !== null ? html`<button type="button" class="btn quiet small" data-act="edit" onClick=${onEdit}>${t("edit")}</button>` : null}
    ${yours ? html`<button type="button" class="btn quiet small" data-act="retry" onClick=${() => retry(key_, message, last)}>${t("retry")}</button>` : null}
    ${message.n === null ? null : html`<button type="button" class="btn quiet small" onClick=${() => fork(key_, message)}>${t("fork")}</button>
      <button type="button" class="btn quiet small" data-act="truncate" onClick=${() => truncate(key_, message)}>${t("truncate")}</button>`}
    <${Copy} text=${chosen(message)?.text ?? message.text} label=${t("copy.message")} />
    <${Copy} text=${message.id} label=${t("copy.id")}>${t("copy.id")}</${Copy}></span>`;
}

/** @param {string} key @param {Message} message @param {boolean} last nothing but its own answer follows */
export function retry(key, message, last) {
  const run = (/** @type {boolean} */ cut) =>
    attempt(() => submit(key, { retry_of: message.id, cut, answers: true }));
  if (last) return run(false); // more may follow than the page knows: then it is refused
  ask({ title: t("retry.title"), body: t("retry.body"), confirm: t("retry"), act: () => run(true) });
  return undefined;
}

/** @param {string} key @param {Message} message */
export function truncate(key, message) {
  ask({
    title: t("truncate.title", { n: message.n ?? "" }), body: t("truncate.body"), confirm: t("truncate"), danger: true,
    act: async () => {
      const { dropped } = await remove(of(key, `/messages/${segment(message.id ?? "")}`));
      tell(plural("truncate.done", dropped));
    },
  });
}

/** @param {string} key @param {Message} message */
async function fork(key, message) {
  const made = await attempt(() => post(of(key, "/fork"), { upto: message.id }));
  if (made) go("conversations", /** @type {any} */ (made).key);
}

/** @param {{key_: string, message: Message, focus: boolean, onDone: () => void}} props */
function Editor({ key_, message, focus, onDone }) {
  const draft = editOf(message.id);
  const [text, setText] = useState(() => kept.read(draft, message.text));
  const done = () => {
    kept.remove(draft);
    onDone();
  };
  const save = (/** @type {boolean} */ again) =>
    attempt(async () => {
      await patch(of(key_, `/messages/${segment(message.id ?? "")}`), { text, cut: again });
      if (again) await submit(key_, { retry_of: message.id, cut: true, answers: true });
      done();
    });
  const type = (/** @type {any} */ event) => {
    setText(event.currentTarget.value);
    kept.write(draft, event.currentTarget.value);
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (isComposing(event)) return;
    if (event.key === "Escape") done();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void save(true);
    else return;
    event.stopPropagation();
  };
  const field = useGrowth(text);
  useLayoutEffect(() => {
    if (focus) field.current?.focus();
  }, []);
  return html`<div class="editor"><textarea class="field" rows="3" value=${text} onInput=${type} onKeyDown=${key}
      aria-label=${t("edit.label")} ref=${field}></textarea>
    <div class="btns"><button type="button" class="btn primary" onClick=${() => save(true)}>${t("edit.again")}</button>
      <button type="button" class="btn" onClick=${() => save(false)}>${t("edit.save")}</button>
      <button type="button" class="btn quiet" onClick=${done}>${t("cancel")}</button>
      <span class="hint">${t("edit.hint")}</span></div></div>`;
}

/** @param {{key_: string, message: Message}} props */
function Attachments({ key_, message }) {
  const files = message.attachments ?? [];
  if (!files.length) return null;
  return html`<div class="files">${files.map((each) => {
    const path = `/api/v1${of(key_, `/attachments/${segment(each.id)}`)}`;
    return each.media_type.startsWith("image/")
      ? html`<a href=${path} target="_blank" rel="noreferrer" key=${each.id}><img src=${path} alt=${each.name} loading="lazy" /></a>`
      : html`<a class="file" href=${path} download=${each.name} key=${each.id}>${visible(each.name)} <span class="dim">${bytes(each.bytes)}</span></a>`;
  })}</div>`;
}

/** How to log in to an account, if its agent has a command for it.  @param {{account: string}} props */
function Login({ account }) {
  const [command, setCommand] = useState("");
  useEffect(() => {
    void get(`/accounts/${segment(account)}`).then((found) => setCommand(found.login_command ?? "")).catch(() => undefined);
  }, [account]);
  return command ? html`<p>${t("failure.login")}</p><${Code} text=${command} language="bash" />` : null;
}

/** Why a message has no answer, what is safe, and what to do next.
 * @param {{key_: string, message: Message, last: boolean}} props */
function Failure({ key_, message, last }) {
  const { failure, state } = message;
  const again = html`<button type="button" class="btn small" onClick=${() => retry(key_, message, last)}>${t("retry")}</button>`;
  // What was asked and not answered can still be answered.
  const run = runs.value.get(message.run ?? "");
  if (run?.questions.length) return html`${run.questions.map((question) => html`<${Question} key=${question.id} question=${question} run=${run} />`)}`;
  if (state === "withdrawn")
    return html`<div class="ask parked"><p class="lead">${t("withdrawn")}</p>${failure ? html`<p>${visible(failure.message)}</p>` : null}
      <div class="btns">${again}</div></div>`;
  if (state === "parked")
    return html`<div class="ask parked"><p class="lead">${t("parked.title")}</p>${failure ? html`<p>${visible(failure.message)}</p>` : null}</div>`;
  if (!failure) return null;
  return html`<div class="ask failed"><p class="lead">${t(`failure.${failure.kind}`)}</p>
    <pre class="quote">${visible(failure.message)}</pre><p class="dim">${t("failure.safe")} ${message.tools_run ? t("failure.tools") : ""}</p>
    ${failure.kind === "auth" && message.account ? html`<${Login} account=${message.account} />` : null}
    <div class="btns">${again}</div>
    <${EndLine} run=${message.run} mode=${message.mode} usage=${message.usage} cost=${message.cost_usd}
      estimated=${message.cost_estimated} ms=${message.duration_ms} sent=${message.sent} /></div>`;
}
