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
}

export function executionsSearch(search: RawSearch): ExecutionsSearch {
  const parent = textOf(search, "parent");
  return {
    status: oneOf(search, "status", STATUSES),
    path: textOf(search, "path"),
    version: numberOf(search, "version"),
    parent: parent && /^\d{1,19}$/.test(parent) ? parent : undefined,
    age: oneOf(search, "age", Object.keys(AGES) as Age[]),
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
