// The types of the API. Written by scripts/page_types.py from the OpenAPI document; do not edit.

export interface AccountDetails {
  name: string;
  agent: string;
  home: string | null;
  env: string[];
  pass_env: string[];
  default: boolean;
  directories: string[];
  limits: LimitShown[] | null;
  pays: "api_key" | "cloud" | "subscription" | "unknown";
  budget: number | null;
  fingerprint: Fingerprint | null;
  problem: string | null;
  carry_out: "allow" | "ask" | "never";
  carry_in: "allow" | "ask" | "never";
  never: string[];
  on_limit: "fail" | "park" | "switch";
  login_command: string | null;
}

export interface AccountShown {
  name: string;
  agent: string;
  home: string | null;
  env: string[];
  pass_env: string[];
  default: boolean;
  directories: string[];
  limits: LimitShown[] | null;
  pays: "api_key" | "cloud" | "subscription" | "unknown";
  budget: number | null;
}

export interface AccountSwitched {
  conversation: string;
  agent: string;
  account: string | null;
  carried: CarryShown | null;
  hidden: number;
  forbidden: string | null;
}

export interface AgentSetting {
  agent: string;
  program: string;
  declared: boolean;
}

export interface AgentShown {
  agent: string;
  label: string;
  path: string | null;
  version: string | null;
  distribution: string | null;
  capabilities: Capabilities | null;
  accounts: string[];
  problem: string | null;
  models: string[] | null;
}

export interface AllowedToolShown {
  agent: string;
  role: string | null;
  tool: string;
}

export interface Attached {
  name: string;
  media_type: string;
  bytes: number;
  id: string;
}

export interface AttachmentOrder {
  name: string | null;
  media_type: string | null;
  data: string | null;
  path: string | null;
}

export interface AttemptShown {
  mode: "branch" | "fresh" | "graft" | "recap" | "replay" | "resume";
  session_id: string | null;
  outcome: string;
  usage: Usage;
  cost_usd: number | null;
}

export interface BindBody {
  account: string | null;
  directory: string;
}

export interface Budgets {
  conversation: number;
  day: number;
  flow: number;
}

export interface Capabilities {
  resume: boolean;
  fork: boolean;
  branch: boolean;
  choose_id: boolean;
  no_save: boolean;
  questions: boolean;
  system_prompt: "none" | "run" | "session";
  usage_scope: "run" | "session";
  cost_scope: "none" | "run" | "session";
  cwd_scope: "any" | "same";
  stdin: boolean;
  prompt_limit: number | null;
  prompt_unit: "bytes" | "characters";
  max_turns: boolean;
  budget: boolean;
  schema: boolean;
  allow_tools: boolean;
  deny_tools: boolean;
  deny_with_full: boolean;
  tools: Tools | null;
  postures: ("default" | "edit" | "full" | "read")[];
  unable_to_read: string[];
  replays: boolean;
  compacts: boolean;
  denials: boolean;
  id_on_disk_only: boolean;
  attachments: string[];
  keeps_attachments: boolean;
}

export interface Carry {
  rule: "allow" | "ask" | "never";
  never: [string, string][];
  closed: string[];
  max_bytes: number;
  summary_model: string | null;
  summary_timeout: number;
  summary_budget: number | null;
}

export interface CarryShown {
  conversation: string;
  at: number;
  from_agent: string;
  from_account: string | null;
  to_agent: string;
  to_account: string | null;
  mode: "flow" | "none" | "raw" | "summary";
  bytes: number;
  turns: number;
  omitted: boolean;
  asked_by: string;
  cost_usd: number | null;
  why: string;
  left_out: number;
}

export interface Chain {
  turns: ChainTurn[];
  usage: Usage;
  cost_usd: number | null;
  cost_estimated: boolean;
  duration_ms: number;
}

export interface ChainTurn {
  run: string;
  conversation: string;
  flow: string | null;
  step: string | null;
  role: string | null;
  tier: number | null;
  agent: string;
  model: string | null;
  mode: "branch" | "fresh" | "graft" | "recap" | "replay" | "resume" | null;
  state: "cancelled" | "done" | "failed" | "needs_you" | "parked" | "queued" | "running" | "withdrawn";
  failure: string | null;
  parent: string | null;
  kind: "branch" | "escalation" | "fork" | "graft" | "new_session" | "resume" | "retry" | "review" | "step_down" | "switch" | null;
  depth: number;
  usage: Usage;
  cost_usd: number | null;
  cost_estimated: boolean;
  duration_ms: number | null;
  created: number;
}

export interface ChangeBody {
  title: string | null;
  starred: boolean | null;
}

export interface Changed {
  kind: "conversation" | "event" | "flow" | "message" | "removed" | "run";
  conversation: string | null;
  message: string | null;
  run: RunShown | null;
  flow: string | null;
}

export interface Check {
  check: string;
  verdict: "fail" | "pass" | "skip";
  bars: ("branch" | "fresh" | "graft" | "recap" | "replay" | "resume")[];
  detail: string;
  clauses: Clause[];
}

export interface CheckReport {
  schema: number;
  session: string;
  agent: string;
  sound: boolean;
  load: Load;
  findings: Finding[];
}

export interface Clause {
  code: string;
  values: Record<string, string | number>;
}

export interface Compacted {
  type: "compacted";
  trigger: string | null;
  tokens: number | null;
}

export interface ComparedReview {
  prompts: "delta" | "full";
  flow: string;
  state: "cancelled" | "done" | "failed" | "needs_you" | "parked" | "paused" | "running";
  end: string | null;
  approved: boolean;
  rounds: number;
  usage: Usage;
  input_tokens: number;
  new_tokens: number;
  cost_usd: number | null;
  duration_ms: number;
  cwd: string;
}

export interface Comparison {
  comparison: string;
  reviews: ComparedReview[];
  saved_input: number | null;
  saved_new: number | null;
  saved_cost: number | null;
}

export interface Context {
  used: number | null;
  window: number | null;
}

export interface ContinueBody {
  message: string;
  key: string | null;
  account: string | null;
  model: string | null;
  role: string | null;
  cwd: string | null;
  not_before: number | null;
  answers: boolean;
  attachments: AttachmentOrder[];
  options: RunOptions;
}

export interface ConversationHit {
  key: string;
  title: string;
  where: "message" | "title";
  message: string | null;
  from: "assistant" | "user" | null;
  agent: string | null;
  snippet: string;
  created: number;
}

export interface ConversationLineage {
  turns: TurnLineage[];
  children: TurnChild[];
}

export interface ConversationSession {
  agent: string;
  role: string | null;
  account: string | null;
  session: string;
  cwd: string;
  home: string;
  path: string | null;
  size: number | null;
  context: Context;
  last_used: number | null;
  expires: number | null;
  command: string | null;
}

export interface ConversationShown {
  key: string;
  title: string;
  agents: string[];
  agent: string | null;
  account: string | null;
  model: string | null;
  role: string | null;
  cwd: string | null;
  messages: number;
  state: "idle" | "needs_you" | "parked" | "queued" | "running";
  status: "cancelled" | "failed" | "ok" | null;
  recovery: "adopt" | "recover" | null;
  created: number;
  last_used: number;
  tokens: number | null;
  cost_usd: number | null;
  cost_estimated: boolean;
  saved_usd: number | null;
  forked_from: string | null;
  starred: boolean;
  unread: boolean;
  allowed_tools: AllowedToolShown[];
  asks: string | null;
  until: number | null;
  failure: FailureShown | null;
  context: Context | null;
  queued: number;
}

export interface CopyShown {
  id: string;
  agent: string;
  account: string | null;
  conversation: string | null;
  cwd: string;
  host: string;
  path: string | null;
  present: boolean;
  size: number;
  kept_size: number;
  kept: number;
  last_used: number;
}

export interface CreateBody {
  key: string;
  agent: string | null;
  account: string | null;
  model: string | null;
  role: string | null;
  cwd: string | null;
  title: string;
}

export interface Daemon {
  start: "auto" | "never";
  port: number;
  idle_exit: number | null;
}

export interface DaemonStatus {
  url: string;
  pid: number;
  version: string;
  protocol: number;
  started: number;
  memory: number | null;
  runs: Record<string, number>;
  questions: number;
}

export interface DefaultBody {
  remove: boolean;
}

export interface Defaults {
  agent: string | null;
  account: string | null;
  accounts: Record<string, string>;
  model: string | null;
  permission: "default" | "edit" | "full" | "read";
  instructions: string | null;
  allow_tools: string[];
  deny_tools: string[];
  timeout: number | null;
  wait: number | null;
  retries: number;
  directory: "here" | "remembered";
  max_turns: number | null;
  budget: number | null;
  questions: "auto" | "off" | "on";
  question_timeout: number;
}

export interface Delta {
  run: string;
  block: number;
  offset: number;
  text: string;
}

export interface DeniedTools {
  count: number;
  names: string[];
}

export interface Dropped {
  dropped: number;
}

export interface EditBody {
  text: string;
  cut: boolean;
}

export interface End {
  type: "end";
  ok: boolean;
  text: string | null;
  message: string;
  raw: any;
}

export interface Entry {
  id: string;
  kind: "assistant" | "boundary" | "call" | "damaged" | "result" | "state" | "thinking" | "unknown" | "user";
  text: string;
  at_ms: number | null;
  native: string;
  parent: string | null;
  tool: string;
  input: any;
  call: string;
  failed: boolean;
  side: boolean;
  inserted: boolean;
  label: string;
  restored: boolean;
  images: number[];
  model: string | null;
  tokens: number | null;
  again: boolean;
}

export interface EscalationOrder {
  file: string;
  dry_run: boolean;
  max_tier: number | null;
  cwd: string | null;
  key: string | null;
  label: string;
  budget: number | null;
}

export interface FailureShown {
  kind: "auth" | "budget" | "cancelled" | "context_exceeded" | "crashed" | "forbidden" | "killed" | "model_error" | "network" | "not_installed" | "protocol" | "rate_limited" | "refused" | "session_busy" | "session_rejected" | "timeout" | "tool_denied" | "unsettled" | "untrusted";
  reason: "corrupt" | "expired" | "foreign_account" | "form" | "not_found" | "unknown" | "wrong_cwd" | null;
  message: string;
  retryable: boolean;
  until: number | null;
}

export interface FeedEvent {
  run: string;
  n: number;
  ms: number;
  event: Session | Heard | Text | TextDelta | Thinking | ToolCall | ToolResult | Question | Permission | UsageReport | Retry | Compacted | Notice | LimitReport | End | Unknown;
  cut: boolean;
}

export interface Finding {
  check: string;
  level: "error" | "ok" | "warning";
  means: string;
  do: string;
  where: string[];
  means_clauses: Clause[];
  do_clauses: Clause[];
}

export interface Fingerprint {
  agent: string;
  home: string;
  login: string;
  method: "cloud" | "key" | "login" | "unknown";
  route: Record<string, string>;
  whole: string;
}

export interface FlowAnswer {
  answer: string;
  step: string | null;
}

export interface FlowArtefact {
  name: string;
  hash: string;
  media_type: string;
  size: number;
  made: number;
}

export interface FlowOrder {
  kind: string;
  input: Record<string, any>;
  cwd: string | null;
  key: string | null;
  label: string;
  budget: number | null;
  tree: boolean;
}

export interface FlowQuestionShown {
  step: string;
  text: string;
  needs: "budget" | "human" | "question" | "version";
  choices: string[];
  asked: number;
  budget: ReachedBudget | null;
}

export interface FlowReport {
  flow: string;
  kind: string;
  end: string | null;
  rounds: number;
  cost_usd: number | null;
  steps: FlowStepResult[];
  state: "cancelled" | "done" | "failed" | "needs_you" | "parked" | "paused" | "running";
  needs: "budget" | "human" | "question" | "version" | null;
  failure: string | null;
  result: any | null;
  next: string | null;
  waits: TreeUse | null;
}

export interface FlowShown {
  flow: string;
  key: string | null;
  kind: string;
  version: number;
  label: string;
  state: "cancelled" | "done" | "failed" | "needs_you" | "parked" | "paused" | "running";
  needs: "budget" | "human" | "question" | "version" | null;
  held: boolean;
  stops: "cancel" | "pause" | null;
  waits: TreeUse | null;
  end: string | null;
  rounds: number;
  cwd: string;
  host: string;
  built_in: boolean;
  input: any;
  result: any | null;
  artefact: string | null;
  failure: string | null;
  questions: FlowQuestionShown[];
  wake: number | null;
  usage: Usage;
  cost_usd: number | null;
  budget_usd: number | null;
  created: number;
  ended: number | null;
  next: string | null;
  steps: FlowStepShown[];
  artefacts: FlowArtefact[];
}

export interface FlowStepResult {
  key: string;
  role: string | null;
  tier: number | null;
  agent: string | null;
  mode: "branch" | "fresh" | "graft" | "recap" | "replay" | "resume" | null;
  run: string | null;
  cost_usd: number | null;
  result: any | null;
}

export interface FlowStepShown {
  key: string;
  kind: "ask" | "step" | "turn" | "wait";
  state: "done" | "failed" | "running" | "waiting";
  tries: number;
  role: string | null;
  tier: number | null;
  agent: string | null;
  model: string | null;
  mode: "branch" | "fresh" | "graft" | "recap" | "replay" | "resume" | null;
  conversation: string | null;
  run: string | null;
  runs: string[];
  sent_bytes: number | null;
  usage: Usage;
  cost_usd: number | null;
  result: any | null;
  artefact: string | null;
  failure: string | null;
  wake: number | null;
  began: number;
  ended: number | null;
}

export interface ForkBody {
  key: string | null;
  upto: string | null;
}

export interface Health {
  ok: boolean;
  version: string;
  protocol: number;
  capabilities: string[];
  pid: number;
}

export interface Heard {
  type: "heard";
  text: string;
}

export interface Heartbeat {
}

export interface Hello {
  status: "gap" | "ok";
  feed: string;
  seq: number;
  running: Delta[];
}

export interface Hit {
  agent: string;
  account: string | null;
  session: string;
  path: string;
  cwd: string | null;
  place: string;
  kind: "assistant" | "boundary" | "call" | "damaged" | "result" | "state" | "thinking" | "unknown" | "user";
  at: number | null;
  snippet: string;
  highlights: [number, number][];
  score: number;
}

export interface ImportBody {
  export: Record<string, any>;
  key: string | null;
}

export interface Keep {
  enabled: boolean;
  max_mb: number;
  max_session_mb: number;
  days: number;
}

export interface KeyShown {
  key: string;
}

export interface LastShown {
  text: string | null;
  turn: Turn | null;
  message: LogMessage | null;
  failed: Turn | null;
  agent: string | null;
  running: boolean;
}

export interface LimitReport {
  type: "limit";
  window: string;
  used: number | null;
  resets_at: number | null;
}

export interface LimitShown {
  window: string;
  used: number | null;
  resets_at: number | null;
  source: "app_server" | "failure" | "session" | "stream";
  age: number;
}

export interface Limits {
  on_limit: "fail" | "park" | "switch";
  order: "listed" | "most_room" | "soonest_reset";
  max_windows: number;
}

export interface LimitsRefreshed {
  account: string;
  limits: LimitShown[] | null;
  why_not: string | null;
}

export interface Load {
  tokens: number | null;
  reserved: number;
  window: number | null;
  compacts: boolean | null;
}

export interface LogMessage {
  id: string | null;
  n: number | null;
  from: "assistant" | "user";
  agent: string;
  role: string | null;
  account: string | null;
  text: string;
  attachments: Attached[];
  revision: number;
  edited: number | null;
  created: number;
  blank: boolean;
  kind: "carried" | "said";
  run: string | null;
  mode: "branch" | "fresh" | "graft" | "recap" | "replay" | "resume" | null;
  state: "cancelled" | "done" | "failed" | "needs_you" | "parked" | "queued" | "running" | "withdrawn";
  status: "cancelled" | "failed" | "ok" | null;
  recovery: "adopt" | "recover" | null;
  model: string | null;
  usage: Usage | null;
  cost_usd: number | null;
  cost_estimated: boolean | null;
  saved_usd: number | null;
  sent: Sent | null;
  failure: FailureShown | null;
  duration_ms: number | null;
  tools_run: number | null;
  notices: string[];
  notice_clauses: Clause[][];
  context: Context | null;
  predicted_usd: number | null;
  versions: number;
}

export interface LoginCommand {
  account: string;
  agent: string;
  command: string;
}

export interface LoginLink {
  url: string;
}

export interface MessagePage {
  messages: LogMessage[];
  first_id: string | null;
  has_more: boolean;
  rewrites: number;
  size: number;
  last_id: string | null;
  has_newer: boolean;
  events: Record<string, FeedEvent[]> | null;
  events_left_out: Record<string, number> | null;
}

export interface MessageVersion {
  message: string;
  revision: number;
  text: string;
  run: string | null;
  created: number;
  current: boolean;
}

export interface Model {
  window: number;
}

export interface NewPlace {
  place: number;
}

export interface NewText {
  text: string;
}

export interface Notice {
  type: "notice";
  text: string;
  until: number | null;
}

export interface OpenQuestion {
  id: string;
  kind: "budget" | "environment" | "permission" | "question" | "went_on";
  tool_use_id: string | null;
  questions: any;
  tool: string | null;
  input: any;
  variables: string[];
  budget: ReachedBudget | null;
  asked: number;
  lapsed: boolean;
}

export interface Page {
  firstId: string | null;
  hasMore: boolean;
  size: number;
  events: Entry[];
  lastId: string | null;
  hasNewer: boolean;
}

export interface Permission {
  type: "permission";
  id: string;
  tool: string;
  input: any;
  tool_id: string | null;
}

export interface Policy {
  enabled: boolean;
  modes: ("branch" | "fresh" | "graft" | "recap" | "replay" | "resume")[];
  graft: "account" | "any" | "off";
  history: "all" | "own";
  ttl_minutes: number;
  context_threshold: number;
  max_session_mb: number;
  retire_after: number;
  on_model_change: "replay" | "resume";
}

export interface Price {
  input: number;
  output: number;
  cache_read: number | null;
  cache_write: number | null;
  dated: string;
}

export interface Problem {
  type: "about:blank";
  title: string;
  status: number;
  detail: string;
  kind: "bad_request" | "conflict" | "conversation_busy" | "forbidden" | "gone" | "internal" | "method_not_allowed" | "misuse" | "not_found" | "rate_limited" | "too_large" | "unauthorized" | "unavailable" | "unsupported_media";
  page?: any;
}

export interface PruneBody {
  days: number | null;
  larger_than: number | null;
  agents: string[];
  cwd: string | null;
  keep_last: number;
  all_sessions: boolean;
  confirm: string | null;
  dry_run: boolean;
}

export interface PruneReport {
  schema: number;
  deleted: boolean;
  freed: number;
  failed: number;
  sessions: PrunedSession[];
  homes: string[];
}

export interface PrunedSession {
  id: string;
  agent: string;
  size: number;
  last_used: number;
  ours: boolean;
  conversation: string | null;
  path: string;
  why: string;
  why_clauses: Clause[];
}

export interface Question {
  type: "question";
  id: string;
  questions: any;
  tool_id: string | null;
}

export interface Queue {
  on_failure: "go_on" | "hold";
}

export interface ReachedBudget {
  scope: "account" | "conversation" | "day" | "flow" | "tier";
  name: string;
  day: string | null;
  limit: number;
  spent: number;
  running: number;
  predicted: number | null;
  predicted_from: "forecast" | "last" | null;
  suggested: number;
  spent_on: SpentOn[];
  message: string;
}

export interface Recap {
  max_bytes: number;
}

export interface RepairBody {
  trim: boolean;
  since: string | null;
}

export interface RepairReport {
  schema: number;
  agent: string;
  session: string;
  path: string;
  done: string[];
  size: number;
  size_before: number;
  rehearsed: boolean | null;
  why_not: string;
  findings: Finding[];
  conversation: string | null;
  stays: string | null;
  done_clauses: Clause[][];
  why_not_clauses: Clause[];
  stays_clauses: Clause[];
}

export interface RestoreReport {
  schema: number;
  restored: RestoredSession[];
}

export interface RestoredSession {
  id: string;
  agent: string;
  account: string | null;
  conversation: string | null;
  path: string;
  files: number;
  size: number;
}

export interface ResumeBody {
  from_step: string | null;
}

export interface Retention {
  days: number;
}

export interface Retry {
  type: "retry";
  attempt: number | null;
  limit: number | null;
  delay_ms: number | null;
  message: string;
}

export interface ReviewCall {
  task: string;
  task_file: string | null;
  coder: RoleOrder;
  reviewer: RoleOrder;
  coordinator: RoleOrder | null;
  rounds: number;
  stalemate: number;
  checks: string[];
  fork_coder: boolean;
  check_timeout_s: number;
  cwd: string | null;
  key: string | null;
  label: string;
  budget: number | null;
}

export interface RoleOrder {
  agent: string;
  model: string | null;
  account: string | null;
  memory: "fresh" | "resume";
  permission: "default" | "edit" | "full" | "read" | null;
}

export interface RunOptions {
  permission: "default" | "edit" | "full" | "read" | null;
  allow_tools: string[];
  deny_tools: string[];
  max_turns: number | null;
  budget: number | "none" | null;
  questions: "auto" | "off" | "on" | null;
  timeout: number | null;
  retries: number | null;
  park: boolean | number | null;
  fail_on_denied: boolean;
  save: boolean;
}

export interface RunOrder {
  message: string;
  agent: string | null;
  account: string | null;
  model: string | null;
  role: string | null;
  cwd: string | null;
  fresh_session: boolean;
  blank: boolean;
  fork: boolean;
  adopt: string | null;
  retry_of: string | null;
  cut: boolean;
  not_before: number | null;
  answers: boolean;
  attachments: AttachmentOrder[];
  options: RunOptions;
}

export interface RunShown {
  run: string;
  conversation: string;
  message: string;
  agent: string;
  account: string | null;
  model: string | null;
  role: string | null;
  cwd: string;
  mode: "branch" | "fresh" | "graft" | "recap" | "replay" | "resume" | null;
  state: "cancelled" | "done" | "failed" | "needs_you" | "parked" | "queued" | "running" | "withdrawn";
  place: number | null;
  not_before: number | null;
  question: OpenQuestion | null;
  questions: OpenQuestion[];
  continued_by: string | null;
  cancel_asked: boolean;
  retry_of: string | null;
  created: number;
  ended: number | null;
  turn: Turn | null;
  held_by: string | null;
  waits: "budget" | null;
  text: string;
  attachments: Attached[];
  options: RunOptions | null;
}

export interface RungShown {
  mode: "branch" | "fresh" | "graft" | "recap" | "replay" | "resume";
  state: string;
  why: string;
  new_tokens: number | null;
  cached_tokens: number | null;
  usd: number | null;
  clauses: Clause[];
}

export interface Saved {
  tokens: number | null;
  usd: number | null;
  against: "branch" | "fresh" | "graft" | "recap" | "replay" | "resume" | null;
  estimated: boolean;
}

export interface Sends {
  native_messages: number;
  text_messages: number;
  bytes: number;
  tokens: number;
  corrections: number;
}

export interface Sent {
  native_messages: number;
  text_messages: number;
  bytes: number;
}

export interface Session {
  type: "session";
  id: string;
  model: string | null;
  cwd: string | null;
  pays: "api_key" | "cloud" | "subscription" | "unknown" | null;
}

export interface SessionInfo {
  id: string;
  agent: string;
  account: string | null;
  cwd: string | null;
  title: string | null;
  title_by: string | null;
  first_prompt: string | null;
  last_prompt: string | null;
  messages: number | null;
  messages_estimated: boolean;
  size: number;
  tokens: number | null;
  cost_usd: number | null;
  context: Context;
  branch: string | null;
  created: number | null;
  last_used: number;
  expires: number | null;
  known: boolean;
  conversation: string | null;
  pinned: boolean;
  ours: boolean;
  tags: string[];
  agent_name: string | null;
  model: string | null;
  version: string | null;
  parent: string | null;
  path: string;
  trouble: string | null;
  command: string | null;
  trouble_clauses: Clause[];
  load: Load;
  counts: Tally;
}

export interface SessionShown {
  id: string;
  agent: string;
  account: string | null;
  cwd: string | null;
  title: string | null;
  title_by: string | null;
  first_prompt: string | null;
  last_prompt: string | null;
  messages: number | null;
  messages_estimated: boolean;
  size: number;
  tokens: number | null;
  cost_usd: number | null;
  context: Context;
  branch: string | null;
  created: number | null;
  last_used: number;
  expires: number | null;
  known: boolean;
  conversation: string | null;
  pinned: boolean;
  ours: boolean;
  tags: string[];
  agent_name: string | null;
  model: string | null;
  version: string | null;
  parent: string | null;
  path: string;
  trouble: string | null;
  command: string | null;
  trouble_clauses: Clause[];
}

export interface SettingsShown {
  schema: number;
  home: string;
  config_file: string;
  project: string | null;
  store: "postgresql" | "sqlite";
  host: string;
  continuity: Policy;
  recap: Recap;
  retention: Retention;
  limits: Limits;
  budgets: Budgets;
  carry: Carry;
  keep: Keep;
  daemon: Daemon;
  queue: Queue;
  defaults: Defaults;
  accounts: AccountShown[];
  agents: AgentSetting[];
  prices: Record<string, Price>;
  models: Record<string, Model>;
  notices: string[];
  notice_clauses: Clause[][];
}

export interface SetupFinding {
  check: string;
  level: "bad" | "note" | "ok" | "warn";
  what: string;
  fix: string;
  what_clauses: Clause[];
  fix_clauses: Clause[];
}

export interface SpentOn {
  name: string;
  turns: number;
  usd: number;
}

export interface StepBody {
  step: string;
}

export interface SwitchBody {
  account: string;
  carry_context: boolean;
  carry_mode: "raw" | "summary";
  cancel: boolean;
  queued: "keep" | "move" | null;
}

export interface Tally {
  messages: number;
  calls: number;
  side: number;
  boundaries: number;
  damaged: number;
  restored: Record<string, number>;
  left: Record<string, number>;
  whole: boolean;
}

export interface Terms {
  permission: "default" | "edit" | "full" | "read";
  allow_tools: string[];
  deny_tools: string[];
  max_turns: number | null;
  budget_usd: number | null;
  questions: boolean | null;
  remembered: string[];
}

export interface Text {
  type: "text";
  text: string;
}

export interface TextDelta {
  type: "text-delta";
  text: string;
}

export interface Thinking {
  type: "thinking";
  text: string;
}

export interface ToolAnswer {
  tool_use_id: string;
  answers: Record<string, any> | null;
  content: string | null;
  allow: boolean | null;
  always: boolean;
  budget: number | null;
}

export interface ToolCall {
  type: "tool-call";
  id: string;
  name: string;
  input: any;
  parent: string | null;
}

export interface ToolResult {
  type: "tool-result";
  id: string;
  ok: boolean;
  output: string;
  name: string | null;
  exit_code: number | null;
  denied: boolean;
  parent: string | null;
}

export interface Tools {
  names: string[];
  narrowed: string[];
  looking: string[];
  others: string;
  elsewhere: Record<string, string>;
}

export interface TreeUse {
  flow: string | null;
  why: string;
}

export interface Turn {
  schema: number;
  run: string;
  conversation: string;
  message: string | null;
  agent: string;
  account: string | null;
  model: string | null;
  role: string | null;
  terms: Terms;
  mode: "branch" | "fresh" | "graft" | "recap" | "replay" | "resume";
  resumed: boolean;
  why: Check[];
  session_id: string | null;
  resumed_from: string | null;
  sent: Sent;
  text: string;
  state: "cancelled" | "done" | "failed" | "needs_you" | "parked" | "queued" | "running" | "withdrawn";
  status: "cancelled" | "failed" | "ok";
  failure: FailureShown | null;
  retry_of: string | null;
  earlier: string[];
  next: string | null;
  transport: "daemon" | "process";
  usage: Usage;
  cost_usd: number | null;
  cost_estimated: boolean;
  predicted_usd: number | null;
  saved: Saved;
  context: Context;
  limits: LimitShown[] | null;
  pays: "api_key" | "cloud" | "subscription" | "unknown";
  model_turns: number | null;
  tools_run: number | null;
  tools_denied: DeniedTools | null;
  attempts: AttemptShown[];
  notices: string[];
  notice_clauses: Clause[][];
  duration_ms: number;
  rungs: RungShown[];
  agent_version: string | null;
}

export interface TurnChild {
  kind: "adopt" | "fork";
  run: string | null;
  conversation: string;
  parent: string | null;
}

export interface TurnLineage {
  run: string;
  message: string;
  agent: string;
  role: string | null;
  mode: "branch" | "fresh" | "graft" | "recap" | "replay" | "resume" | null;
  state: "cancelled" | "done" | "failed" | "needs_you" | "parked" | "queued" | "running" | "withdrawn";
  created: number;
  session: string | null;
  parents: TurnParent[];
  n: number | null;
  model: string | null;
  account: string | null;
  cost_usd: number | null;
  cost_estimated: boolean;
  duration_ms: number | null;
  retry_of: string | null;
  stands: boolean;
}

export interface TurnParent {
  kind: "branch" | "escalation" | "fork" | "graft" | "new_session" | "resume" | "retry" | "review" | "step_down" | "switch";
  run: string | null;
  conversation: string | null;
  session: string | null;
}

export interface Undone {
  kind: "edit" | "retry" | "truncate";
  restored: number;
}

export interface Unknown {
  type: "unknown";
  line: string;
  why: string;
}

export interface UnpaidTurn {
  run: string;
  conversation: string;
  message: string;
  agent: string;
  agent_version: string | null;
  model: string | null;
  mode: "branch" | "fresh" | "graft" | "recap" | "replay" | "resume" | null;
  created: number;
  cost_usd: number | null;
  saved_usd: number | null;
  usage: Usage;
  reason: string;
  clauses: Clause[];
}

export interface Usage {
  input: number | null;
  cache_read: number | null;
  cache_write: number | null;
  output: number | null;
}

export interface UsageReport {
  type: "usage";
  usage: Usage;
  model: string | null;
  request: string | null;
  side: boolean;
  cost_usd: number | null;
}

export interface UsageStatistics {
  schema: number;
  by: "agent" | "conversation" | "day" | "mode" | "version";
  since: number | null;
  sums: UsageSum[];
  total: UsageSum;
  split: "agent" | "conversation" | "day" | "mode" | "version" | null;
}

export interface UsageSum {
  name: string;
  turns: number;
  usage: Usage;
  cost_usd: number | null;
  cost_estimated: boolean;
  saved_usd: number | null;
  predicted_usd: number | null;
  predicted_cost_usd: number | null;
  resumed: number;
  parts: UsageSum[];
}

export interface Why {
  schema: number;
  conversation: string;
  agent: string;
  account: string | null;
  model: string | null;
  role: string | null;
  terms: Terms;
  refused: string[];
  given: string[];
  mode: "branch" | "fresh" | "graft" | "recap" | "replay" | "resume";
  sends: Sends;
  rungs: RungShown[];
  checks: Check[];
  epoch: number;
  cwd: string;
  session_id: string | null;
  session_cwd: string | null;
  context_window: number | null;
  limits: LimitShown[] | null;
  pays: "api_key" | "cloud" | "subscription" | "unknown";
  recovery: "adopt" | "recover" | null;
  first: string[];
  notices: string[];
  notice_clauses: Clause[][];
}
