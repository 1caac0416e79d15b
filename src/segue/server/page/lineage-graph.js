// Turns as rows, lanes and edges of a picture, and as chains. Values in, values out: no page, no requests.

/** @typedef {import("./types").TurnLineage} Turn */
/** @typedef {import("./types").ConversationLineage} Lineage */
/** @typedef {{way: "from" | "into", how: "fork" | "adopt", conversation: string | null, agent: string | null, session: string | null}} End
 *   where the picture goes on: another conversation, or a native session that began elsewhere */
/** @typedef {{id: string, turn: Turn | null, end: End | null, from: string | null, edge: Edge, lane: number}} Row */
/** @typedef {"native" | "text" | "none"} Edge ``none``: nothing is known to be carried, it only stands below */
/** @typedef {{from: number, to: number, a: number, b: number, dash: boolean, late: boolean}} Line rows and lanes of its ends;
 *   ``late``: it follows the lane it comes from, and leaves it just before its end */
/** @typedef {{rows: Row[], lines: Line[], lanes: number}} Graph */
/** @typedef {{turns: number, stand: number, cost: number | null, estimated: boolean, unpriced: number, ms: number | null}} Sum */
/** @typedef {{id: string, session: string | null, agent: string, role: string | null, account: string | null, turns: Turn[],
 *   from: {how: string, session: string | null, conversation: string | null, turn: Turn | null} | null, sum: Sum}} Chain */

export const MOST_LANES = 9;
const NATIVE = ["resume", "branch", "graft"];
const TEXT = ["replay", "recap"];
const GIVEN = ["escalation", "review"];
const OVER = ["done", "failed", "cancelled", "withdrawn"];

/** @param {Turn} turn */
const voice = (turn) => `${turn.agent}\n${turn.role ?? ""}\n${turn.account ?? ""}`;

/** It ended, and its answer is not (or no longer) part of the conversation.  @param {Turn} turn */
export const aside = (turn) => OVER.includes(turn.state) && !turn.stands;

/** The turn that a turn came from, unless it is only the same message again.  @param {Turn} turn */
const continued = (turn) => turn.parents.find((each) => each.kind !== "retry");

/** How the past reached it. A fresh session was given what its flow says, or nothing.
 * @param {Turn} turn @param {string} kind @returns {Edge} */
const carried = (turn, kind) => (turn.mode === "fresh" ? (GIVEN.includes(kind) ? "text" : "none") : turn.mode !== null && TEXT.includes(turn.mode) ? "text" : "native");

/**
 * Where a turn came from. What the daemon did not record (a turn that runs, or ran before it was recorded) follows from
 * its mode: a session is always that of the same agent in the same role, a text is what stood before.
 * @param {Turn[]} turns @param {number} at @param {Map<string, Turn>} known @param {string} key @param {string | null} forked
 * @returns {{run: string | null, end: End | null, edge: Edge}}
 */
function origin(turns, at, known, key, forked) {
  const turn = /** @type {Turn} */ (turns[at]);
  const parent = continued(turn);
  /** @param {string | null} run @param {Edge} edge */
  const inside = (run, edge) => ({ run, end: null, edge });
  /** @param {Partial<End>} end @param {Edge} edge */
  const outside = (end, edge) => ({ run: null, edge, end: /** @type {End} */ ({ way: "from", how: "fork", conversation: null, agent: null, session: null, ...end }) });
  if (parent?.run && known.has(parent.run)) return inside(parent.run, carried(turn, parent.kind));
  if (parent?.conversation && parent.conversation !== key) return outside({ conversation: parent.conversation }, carried(turn, parent.kind));
  const earlier = (/** @type {(each: Turn) => boolean} */ fits) => {
    for (let place = at - 1; place >= 0; place -= 1) {
      const each = turns[place];
      if (each && each.message !== turn.message && each.state === "done" && fits(each)) return each.run;
    }
    return null;
  };
  const own = earlier((each) => voice(each) === voice(turn) && (each.stands || !turn.stands)) ?? earlier((each) => voice(each) === voice(turn));
  if (parent?.session && own === null) return outside({ how: "adopt", agent: turn.agent, session: parent.session }, "native");
  if (turn.mode !== null && NATIVE.includes(turn.mode)) {
    if (own !== null) return inside(own, "native");
    return forked ? outside({ conversation: forked }, "native") : inside(null, "none");
  }
  if (turn.mode !== null && TEXT.includes(turn.mode)) {
    const said = earlier((each) => each.stands) ?? earlier(() => true);
    if (said !== null) return inside(said, "text");
    return forked ? outside({ conversation: forked }, "text") : inside(null, "none");
  }
  // It waits, or never began: it stands below the last turn of its agent, whatever became of that.
  const last = turn.mode === null ? turns.slice(0, at).findLast((each) => voice(each) === voice(turn)) : undefined;
  return inside(last?.run ?? null, "none");
}

/** @param {Lineage} lineage @param {string} key @param {string | null} forked the conversation that this one was forked from */
function rowsOf(lineage, key, forked) {
  const known = new Map(lineage.turns.map((turn) => [turn.run, turn]));
  /** @type {Map<string | null, Row[]>} */
  const out = new Map();
  for (const child of lineage.children) {
    const at = child.parent !== null && known.has(child.parent) ? child.parent : null;
    const end = /** @type {End} */ ({ way: "into", how: child.kind, conversation: child.conversation, agent: null, session: null });
    const row = { id: `into ${child.kind} ${child.conversation}`, turn: null, end, from: at, edge: /** @type {Edge} */ (child.run ? "native" : "text"), lane: 0 };
    out.set(at, [...(out.get(at) ?? []), row]);
  }
  /** @type {Row[]} */
  const rows = [];
  const ends = new Set();
  lineage.turns.forEach((turn, at) => {
    const { run, end, edge } = origin(lineage.turns, at, known, key, forked);
    const id = end && `from ${end.conversation ?? end.session}`;
    if (end && id && !ends.has(id)) {
      ends.add(id);
      rows.push({ id, turn: null, end, from: null, edge: "none", lane: 0 });
    }
    rows.push({ id: turn.run, turn, end: null, from: id ?? run, edge, lane: 0 }, ...(out.get(turn.run) ?? []));
  });
  return [...rows, ...(out.get(null) ?? [])];
}

/** The rows that go straight on, each below the one it came from: what stands comes before what was set aside.
 * @param {Row[]} rows @param {Map<string, number>} places @returns {Map<string, string>} */
function straight(rows, places) {
  /** @type {Map<string, {id: string, worth: number}>} */
  const best = new Map();
  for (const row of rows) {
    const above = rows[places.get(row.from ?? "") ?? -1];
    if (!row.turn || !above || (above.turn && voice(above.turn) !== voice(row.turn))) continue;
    const worth = (aside(row.turn) ? 0 : 2) + (row.edge === "native" ? 1 : 0);
    const other = best.get(above.id);
    if (!other || worth >= other.worth) best.set(above.id, { id: row.id, worth });
  }
  return new Map([...best].map(([from, { id }]) => [from, id]));
}

/** Give each line of rows a lane that is free from where it leaves its origin to its end. Tells the rows that leave the
 * lane of their origin late: as long as nothing else stands in it, one line is enough for both.
 * @param {Row[]} rows @param {Map<string, number>} places @returns {Set<string>} */
function arrange(rows, places) {
  const next = straight(rows, places);
  const late = new Set(rows.filter((row) => row.from !== null && (places.get(next.get(row.from) ?? "") ?? -1) > (places.get(row.id) ?? 0)).map((row) => row.id));
  const inner = new Set(next.values());
  /** @type {number[]} the last row that each lane is taken for */
  const taken = [];
  const heads = rows.filter((row) => !inner.has(row.id));
  const begin = (/** @type {Row} */ row) => (row.from === null || late.has(row.id) ? (places.get(row.id) ?? 0) : (places.get(row.from) ?? 0) + 1);
  for (const head of heads.sort((a, b) => begin(a) - begin(b))) {
    const line = [head];
    for (let id = next.get(head.id); id !== undefined; id = next.get(id)) line.push(/** @type {Row} */ (rows[places.get(id) ?? 0]));
    const beside = head.from === null ? -1 : (rows[places.get(head.from) ?? 0]?.lane ?? -1);
    let lane = head.from === null ? 0 : beside + 1;
    while ((taken[lane] ?? -1) >= begin(head)) lane += 1;
    taken[lane] = places.get(/** @type {Row} */ (line.at(-1)).id) ?? 0;
    for (const row of line) row.lane = lane;
  }
  for (const row of rows) row.lane = Math.min(row.lane, MOST_LANES - 1);
  return late;
}

/** @param {Lineage} lineage @param {string} key @param {string | null} [forked] @returns {Graph} */
export function graph(lineage, key, forked = null) {
  return layout(rowsOf(lineage, key, forked));
}

/** Rows in the order in which they stand, each below the one it came from, as a picture.  @param {Row[]} rows @returns {Graph} */
export function layout(rows) {
  const places = new Map(rows.map((row, at) => [row.id, at]));
  const late = arrange(rows, places);
  /** @type {Line[]} */
  const lines = [];
  rows.forEach((row, to) => {
    const from = row.from === null ? undefined : places.get(row.from);
    if (from === undefined || row.edge === "none") return;
    lines.push({ from, to, a: rows[from]?.lane ?? 0, b: row.lane, dash: row.edge === "text", late: late.has(row.id) });
  });
  return { rows, lines, lanes: 1 + rows.reduce((most, row) => Math.max(most, row.lane), 0) };
}

/** @param {Turn[]} turns @returns {Sum} */
export function sum(turns) {
  const ran = turns.filter((turn) => turn.state !== "withdrawn");
  const add = (/** @type {(number | null)[]} */ values) => {
    const known = values.filter((value) => value !== null);
    return known.length ? known.reduce((total, value) => total + value, 0) : null;
  };
  return {
    turns: ran.length,
    stand: ran.filter((turn) => turn.stands).length,
    cost: add(ran.map((turn) => turn.cost_usd)),
    estimated: ran.some((turn) => turn.cost_estimated),
    unpriced: ran.filter((turn) => OVER.includes(turn.state) && turn.cost_usd === null).length,
    ms: add(ran.map((turn) => turn.duration_ms)),
  };
}

/** A chain for each native session: the turn that began it, and those that resumed it.
 * @param {Lineage} lineage @param {string} key @param {string | null} [forked] @returns {Chain[]} */
export function chains(lineage, key, forked = null) {
  const known = new Map(lineage.turns.map((turn) => [turn.run, turn]));
  /** The session that a turn wrote, if one of those after it tells.  @type {Map<string, string>} */
  const wrote = new Map();
  for (const turn of lineage.turns) {
    if (turn.session) wrote.set(turn.run, turn.session);
    for (const parent of turn.parents) if (parent.run && parent.session && !wrote.has(parent.run)) wrote.set(parent.run, parent.session);
  }
  /** @type {Map<string, Chain>} */
  const of = new Map();
  /** @type {Chain[]} */
  const found = [];
  lineage.turns.forEach((turn, at) => {
    const { run, end } = origin(lineage.turns, at, known, key, forked);
    const above = run === null ? undefined : of.get(run);
    if (above && (turn.mode === "resume" || turn.mode === null)) {
      above.turns.push(turn);
      above.session = wrote.get(turn.run) ?? above.session;
      of.set(turn.run, above);
      return;
    }
    const parent = continued(turn);
    const from = run === null && end === null ? null : {
      how: turn.mode ?? "", session: parent?.session ?? (run === null ? null : (wrote.get(run) ?? null)),
      conversation: end?.conversation ?? null, turn: run === null ? null : (known.get(run) ?? null),
    };
    const chain = { id: turn.run, session: wrote.get(turn.run) ?? null, agent: turn.agent, role: turn.role, account: turn.account, turns: [turn], from, sum: sum([]) };
    found.push(chain);
    of.set(turn.run, chain);
  });
  for (const chain of found) chain.sum = sum(chain.turns);
  return found;
}
