/** The filter of the executions list, as its link has it. */
import { numberOf, oneOf, type RawSearch, textOf } from "../../app/search";

export const STATUSES = ["scheduled", "queued", "running", "waiting", "paused", "completed", "failed", "cancelled"] as const;
export const AGES = { "1h": "the last hour", "24h": "the last 24 hours", "7d": "the last 7 days", "30d": "the last 30 days" } as const;

export type Age = keyof typeof AGES;

export interface ExecutionsSearch {
  status?: (typeof STATUSES)[number];
  path?: string;
  version?: number;
  parent?: string;
  age?: Age;
  /** Started from this moment on, and before that one (RFC 3339). */
  after?: string;
  before?: string;
  text?: string;
  error_code?: string;
  principal?: string;
  /** `name=value` with commas between them. */
  labels?: string;
}

/** What the form hides until it is asked for. */
export const MORE = ["after", "before", "error_code", "principal", "labels"] as const;

export function executionsSearch(search: RawSearch): ExecutionsSearch {
  const parent = textOf(search, "parent");
  return {
    status: oneOf(search, "status", STATUSES),
    path: textOf(search, "path"),
    version: numberOf(search, "version"),
    parent: parent && /^\d{1,19}$/.test(parent) ? parent : undefined,
    age: oneOf(search, "age", Object.keys(AGES) as Age[]),
    after: momentOf(search, "after"),
    before: momentOf(search, "before"),
    text: textOf(search, "text"),
    error_code: textOf(search, "error_code"),
    principal: textOf(search, "principal"),
    labels: labelsOf(search),
  };
}

function momentOf(search: RawSearch, name: string): string | undefined {
  const text = textOf(search, name);
  const millis = text === undefined ? Number.NaN : Date.parse(text);
  return Number.isNaN(millis) ? undefined : new Date(millis).toISOString();
}

/** Only whole labels, so that a bent link still lists something. */
function labelsOf(search: RawSearch): string | undefined {
  const labels = (textOf(search, "labels") ?? "").split(",").filter((label) => /^[^=]+=/.test(label.trim()));
  return labels.length > 0 ? labels.map((label) => label.trim()).join(",") : undefined;
}

/** The filter as `GET /api/executions` takes it. */
export function listQuery({ age, after, before, version, ...query }: ExecutionsSearch, now: number) {
  return {
    ...query,
    version: version === undefined ? undefined : String(version),
    started_after: after ?? startedAfter(age, now),
    started_before: before,
  };
}

/** The filter as the bulk actions take it. */
export function bulkFilter({ age, after, before, labels, ...filter }: ExecutionsSearch, now: number) {
  const pairs = (labels ?? "").split(",").filter(Boolean).map((label) => [label.slice(0, label.indexOf("=")), label.slice(label.indexOf("=") + 1)]);
  return {
    ...filter,
    labels: labels === undefined ? undefined : (Object.fromEntries(pairs) as Record<string, string>),
    started_after: after ?? startedAfter(age, now),
    started_before: before,
  };
}

const MINUTES: Record<Age, number> = { "1h": 60, "24h": 1_440, "7d": 10_080, "30d": 43_200 };

/** The earliest start that an age allows, on a whole minute: one minute asks the same. */
export function startedAfter(age: Age | undefined, now: number): string | undefined {
  if (!age) return undefined;
  const minute = Math.floor(now / 60_000);
  return new Date((minute - MINUTES[age]) * 60_000).toISOString();
}

/** Whether a filter leaves anything out. */
export function isFiltered(search: ExecutionsSearch): boolean {
  return Object.values(search).some((value) => value !== undefined);
}
