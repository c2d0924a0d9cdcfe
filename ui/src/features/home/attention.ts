/** What needs a person, out of the lists of the API. */
import type { Schemas } from "../../api/client";
import { durationText, toMillis } from "../../design/time";

const SLOW_SECONDS = 300;

export interface Stuck {
  key: string;
  what: string;
  why: string;
}

/** Commands that no worker takes, and commands of workers that have fallen silent. */
export function stuckWork({ pools, leases }: Pick<Schemas["QueuesAnswer"], "pools" | "leases">): Stuck[] {
  const slow = pools
    .filter(({ ready, oldest }) => ready > 0 && oldest > SLOW_SECONDS)
    .map(({ pool, ready, oldest }) => ({
      key: `pool ${pool}`,
      what: `Pool ${pool || "default"}`,
      why: `${ready} ready, the oldest for ${durationText(oldest * 1000)}`,
    }));
  const silent = leases
    .filter(({ alive }) => !alive)
    .map(({ owner, pool, commands }) => ({
      key: `lease ${owner} ${pool}`,
      what: owner,
      why: `silent, with ${commands} ${commands === 1 ? "command" : "commands"}`,
    }));
  return [...slow, ...silent];
}

/** Limits whose every slot is taken while something waits. */
export function fullLimits(limits: Schemas["LimitView"][]): Schemas["LimitView"][] {
  return limits.filter(({ concurrent, in_use, waiting }) => waiting > 0 || (concurrent !== null && in_use >= concurrent));
}

/** The next starts by schedule, the soonest first. */
export function nextRuns(schedules: Schemas["ScheduleView"][], most: number): Schemas["ScheduleView"][] {
  return schedules
    .filter(({ next_at }) => next_at !== null)
    .sort((a, b) => toMillis(a.next_at ?? 0) - toMillis(b.next_at ?? 0))
    .slice(0, most);
}
