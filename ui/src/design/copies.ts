/** The table of what can be copied: for each page and dialog, the requests of the API and the commands that show or do the same. */
import { printJson } from "../api/json";
import { shellWord } from "./clipboard";

/** `command`: of `noetl`, where it has one. `file`: the body is this file. */
export interface Copyable {
  what: string;
  path: string;
  method?: "POST" | "PUT" | "PATCH" | "DELETE";
  body?: unknown;
  file?: string;
  command?: string;
}

const MOST_ROWS = 50;

type Word = string | number | null | undefined;

function noetl(...words: Word[]): string {
  return ["noetl", ...words.filter((word) => word !== null && word !== undefined).map((word) => shellWord(String(word)))].join(" ");
}

/** A command about what somebody has named or typed, which is no option, whatever it begins with. */
function onNamed(words: Word[], named: string, ...options: Word[]): string {
  return named.startsWith("-") ? noetl(...words, ...options, "--", named) : noetl(...words, named, ...options);
}

/** A command that reads JSON from its input. */
function fed(value: unknown, command: string): string {
  return `printf %s ${shellWord(printJson(value))} | ${command}`;
}

const part = encodeURIComponent;

function ofRows<Row>(rows: Row[], copies: (row: Row) => Copyable[]): Copyable[] {
  return rows.slice(0, MOST_ROWS).flatMap(copies);
}

interface Steered {
  execution_id: string;
  status: string;
  ended_at: string | null;
}

interface Asked {
  token: string;
  step: string;
  message: string;
  approve: boolean;
}

interface Letters {
  ids?: string[] | null;
  all?: boolean;
  queue?: string | null;
  execution_id?: string | null;
}

interface Numbers {
  concurrent?: number | null;
  rate?: number | null;
  per?: number | null;
  burst?: number | null;
}

const limitSet = (key: string, { concurrent, rate, per, burst }: Numbers): Copyable => ({
  what: `Set the limit of ${key}`,
  method: "PUT",
  path: `/api/limits/${part(key)}`,
  body: { concurrent: concurrent ?? null, ...(rate === null || rate === undefined ? {} : { rate, per, burst }) },
  command: onNamed(
    ["limit", "set"],
    key,
    ...(concurrent === null || concurrent === undefined ? [] : ["--concurrent", concurrent]),
    ...(rate === null || rate === undefined ? [] : ["--rate", rate, "--per", per]),
    ...(rate === null || rate === undefined || burst === null || burst === undefined ? [] : ["--burst", burst]),
  ),
});

type Steering = "cancel" | "pause" | "resume" | "redrive";

const COMMANDS: Record<Steering, string> = { cancel: "cancel", pause: "pause", resume: "unpause", redrive: "redrive" };

const steering = (id: string, verb: Steering): Copyable => ({
  what: { cancel: "Cancel it", pause: "Pause it", resume: "Resume it", redrive: "Redrive it" }[verb],
  method: "POST",
  path: `/api/executions/${id}/${verb}`,
  body: {},
  command: noetl(COMMANDS[verb], id),
});

/** A filter of executions as options of a command. */
function filterWords(filter: { [name: string]: unknown }): string[] {
  const named = Object.entries(filter).flatMap(([name, value]) => {
    if (value === null || value === undefined) return [];
    if (name === "ids") return (value as string[]).map((id) => `id=${id}`);
    if (name === "labels") return Object.entries(value as object).map(([label, text]) => `label=${label}=${text}`);
    return [`${name}=${value}`];
  });
  return named.flatMap((word) => ["--filter", word]);
}

export const COPIES = {
  home: (): Copyable[] => [
    { what: "Failures by playbook and error code", path: "/api/executions/failures" },
    { what: "Failed executions", path: "/api/executions?status=failed", command: noetl("list", "--status", "failed") },
    { what: "Executions that wait", path: "/api/executions?status=waiting", command: noetl("list", "--status", "waiting") },
  ],

  executions: (path: string, command: string): Copyable[] => [{ what: "These executions", path, command }],

  /** What a bulk action does to what a filter names. */
  many: (verb: Steering, filter: { [name: string]: unknown }, reason: string): Copyable[] => [
    {
      what: "This action",
      method: "POST",
      path: `/api/executions/${verb}`,
      body: { filter, reason },
      command: noetl(COMMANDS[verb], ...filterWords(filter), ...(reason ? ["--reason", reason] : [])),
    },
  ],

  execution: ({ execution_id: id, status, ended_at }: Steered): Copyable[] => {
    const at = `/api/executions/${id}`;
    const verbs = ended_at !== null ? (["redrive"] as const) : status === "paused" ? (["resume", "cancel"] as const) : (["pause", "cancel"] as const);
    return [
      { what: "State and steps", path: at, command: noetl("status", id) },
      { what: "Events", path: `${at}/events`, command: noetl("events", id) },
      { what: "Logs", path: `${at}/logs`, command: noetl("logs", id) },
      ...(status === "completed" ? [{ what: "Result", path: `${at}/result`, command: noetl("result", id) }] : []),
      { what: "Why", method: "POST", path: `${at}/analyze`, command: noetl("analyze", id) },
      { what: "Cost", path: `${at}/cost`, command: noetl("cost", id) },
      ...verbs.map((verb) => steering(id, verb)),
    ];
  },

  redrive: (id: string, from: string, version: number | null, reason: string): Copyable[] => [
    {
      what: "This redrive",
      method: "POST",
      path: `/api/executions/${id}/redrive`,
      body: { from, version, reason },
      command: noetl(
        ...["redrive", id],
        ...(from === "failure" ? [] : ["--from", from]),
        ...(version === null ? [] : ["--version", version]),
        ...(reason ? ["--reason", reason] : []),
      ),
    },
  ],

  patch: (id: string, patch: unknown, reason: string): Copyable[] => [
    {
      what: "This change",
      method: "PATCH",
      path: `/api/executions/${id}/ctx`,
      body: { patch, reason },
      command: fed(patch, noetl("ctx", "patch", id, "--patch", "-", ...(reason ? ["--reason", reason] : []))),
    },
  ],

  compare: (a: string, b: string): Copyable[] => [{ what: "This comparison", path: `/api/compare?a=${a}&b=${b}`, command: noetl("compare", a, b) }],

  playbooks: (): Copyable[] => [
    { what: "All playbooks", path: "/api/catalog" },
    { what: "Register a playbook", method: "POST", path: "/api/catalog/register", file: "my.yaml", command: noetl("register", "my.yaml") },
  ],

  playbook: (path: string, version: number | undefined): Copyable[] => {
    const named = version === undefined ? path : `${path}@${version}`;
    const query = version === undefined ? "" : `?version=${version}`;
    return [
      { what: "Its text", path: `/api/catalog/${part(path)}${query}` },
      ...COPIES.start(path, version, {}),
      { what: "What it calls, and what calls it", path: `/api/catalog/${part(path)}/relations${query}`, command: noetl("catalog", "show", named) },
      { what: "Its graph", path: `/api/catalog/${part(path)}/graph${query}` },
    ];
  },

  start: (path: string, version: number | undefined, payload: unknown): Copyable[] => {
    const command = noetl("exec", version === undefined ? path : `${path}@${version}`);
    const plain = printJson(payload) === "{}";
    return [
      {
        what: "Start it",
        method: "POST",
        path: "/api/executions",
        body: { path, ...(version === undefined ? {} : { version }), payload },
        command: plain ? command : fed(payload, `${command} --payload -`),
      },
    ];
  },

  approvals: (open: Asked[]): Copyable[] => [
    { what: "Open questions", path: "/api/callbacks", command: noetl("list", "--status", "waiting") },
    ...ofRows(open, ({ token, step, message, approve }) => {
      const about = message || `step ${step}`;
      const path = `/api/callbacks/${part(token)}`;
      const asked = { what: `The question: ${about}`, path, command: onNamed(["callback"], token) };
      if (!approve) return [asked];
      const answer = (approved: boolean): Copyable => ({
        what: `${approved ? "Approve" : "Reject"}: ${about}`,
        method: "POST",
        path,
        body: { approved },
        command: onNamed(["callback"], token, "--set", `approved=${approved}`),
      });
      return [asked, answer(true), answer(false)];
    }),
  ],

  schedules: (schedules: { name: string; state: string }[], triggers: { name: string; enabled: boolean }[]): Copyable[] => [
    { what: "All schedules", path: "/api/schedules", command: noetl("schedule", "list") },
    { what: "All triggers", path: "/api/triggers", command: noetl("trigger", "list") },
    ...ofRows(schedules, ({ name, state }) => {
      const verb = state === "paused" ? "resume" : "pause";
      const at = `/api/schedules/${part(name)}`;
      return [
        { what: `When ${name} fires next`, path: `${at}/next`, command: onNamed(["schedule", "next"], name) },
        { what: `${verb === "pause" ? "Pause" : "Resume"} ${name}`, method: "POST", path: `${at}/${verb}`, command: onNamed(["schedule", verb], name) },
      ];
    }),
    ...ofRows(triggers, ({ name, enabled }) => {
      const verb = enabled ? "disable" : "enable";
      const at = `/api/triggers/${part(name)}`;
      return [
        { what: `The trigger ${name}`, path: at, command: onNamed(["trigger", "show"], name) },
        { what: `${enabled ? "Disable" : "Enable"} ${name}`, method: "POST", path: `${at}/${verb}`, command: onNamed(["trigger", verb], name) },
      ];
    }),
  ],

  backfill: (name: string, from: string, to: string, only_missed: boolean, limit: number): Copyable[] => [
    {
      what: "This backfill",
      method: "POST",
      path: `/api/schedules/${part(name)}/backfill`,
      body: { from, to, only_missed, limit },
      command: onNamed(["schedule", "backfill"], name, "--from", from, "--to", to, ...(only_missed ? ["--only-missed"] : []), "--limit", limit),
    },
  ],

  fire: (name: string, event: unknown): Copyable[] => [
    {
      what: "This event",
      method: "POST",
      path: `/api/triggers/${part(name)}/fire`,
      body: event,
      command: fed(event, onNamed(["trigger", "fire"], name, "--payload", "-")),
    },
  ],

  limits: (limits: (Numbers & { key: string; source: string })[]): Copyable[] => [
    { what: "All limits", path: "/api/limits", command: noetl("limit", "list") },
    ...ofRows(limits, (limit) => [
      limitSet(limit.key, limit),
      ...(limit.source === "operator"
        ? [
            {
              what: `Remove the operator's limit of ${limit.key}`,
              method: "DELETE" as const,
              path: `/api/limits/${part(limit.key)}`,
              command: onNamed(["limit", "remove"], limit.key),
            },
          ]
        : []),
    ]),
  ],

  limit: (key: string, numbers: Numbers): Copyable[] => [limitSet(key, numbers)],

  workers: (): Copyable[] => [
    { what: "Queues and pools", path: "/api/queue" },
    { what: "Registered workers", path: "/api/worker/pools" },
  ],

  deadLetters: (): Copyable[] => [
    { what: "Dead letters", path: "/api/dead-letters", command: noetl("dead-letters", "list") },
    {
      what: "Which would be sent back",
      method: "POST",
      path: "/api/dead-letters/retry",
      body: { all: true, dry_run: true },
      command: noetl("dead-letters", "retry", "--all", "--dry-run"),
    },
    { what: "Send all back", method: "POST", path: "/api/dead-letters/retry", body: { all: true }, command: noetl("dead-letters", "retry", "--all") },
  ],

  letters: (verb: "retry" | "delete", wish: Letters): Copyable[] => [
    {
      what: "This action",
      method: "POST",
      path: `/api/dead-letters/${verb}`,
      body: wish,
      command: noetl(
        ...["dead-letters", verb, ...(wish.ids ?? [])],
        ...(wish.all ? ["--all"] : []),
        ...(wish.queue ? ["--queue", wish.queue] : []),
        ...(wish.execution_id ? ["--execution", wish.execution_id] : []),
      ),
    },
  ],

  credentials: (rows: { name: string }[]): Copyable[] => [
    { what: "All credentials, without data", path: "/api/credentials", command: noetl("credential", "list") },
    { what: "Latest uses", path: "/api/access/credentials", command: noetl("credential", "log") },
    ...ofRows(rows, ({ name }) => [
      { what: `Uses of ${name}`, path: `/api/access/credentials?name=${part(name)}`, command: noetl("credential", "log", name) },
    ]),
  ],

  sql: (sql: string): Copyable[] => [{ what: "This query", method: "POST", path: "/api/sql", body: { sql }, command: onNamed(["sql"], sql) }],

  settings: (): Copyable[] => [
    { what: "Sessions of browsers", path: "/api/sessions" },
    { what: "Tokens", path: "/api/tokens", command: noetl("token", "list") },
    { what: "Version", path: "/api/version", command: noetl("version") },
  ],
};

/** The request as a command of `curl`; `root`: the address that the API is at. */
export function curlOf({ path, method, body, file }: Copyable, root: string): string {
  const words = ['curl -H "Authorization: Bearer $(cat "${NOETL_HOME:-$HOME/.noetl}/token")"'];
  if (method) words.push(`-X ${method}`);
  if (file) words.push("-H 'Content-Type: application/yaml'", `--data-binary @${shellWord(file)}`);
  if (body !== undefined) words.push("-H 'Content-Type: application/json'", `-d ${shellWord(printJson(body))}`);
  return [...words, shellWord(root + path)].join(" ");
}
