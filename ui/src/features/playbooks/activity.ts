/** How executions of playbooks ended lately, as bars of a sparkline. */
import type { Schemas } from "../../api/client";
import type { SparkBar } from "../../design/charts/Sparkline";
import { toMillis } from "../../design/time";

export type Activity = Schemas["Activity"];

/** The lengths of time to choose from: days, and the seconds of a bar. */
export const SPANS = [
  { days: 1, label: "24 hours", bucket: 3_600 },
  { days: 7, label: "7 days", bucket: 21_600 },
] as const;

export type Days = (typeof SPANS)[number]["days"];

export function spanOf(days: Days) {
  return SPANS.find((span) => span.days === days) ?? SPANS[0];
}

/** A bar for each bucket of the answer's time, also where nothing ended. */
export function barsOf({ since, until, bucket_seconds }: Activity, buckets: Schemas["ActivityBucket"][]): SparkBar[] {
  const size = bucket_seconds * 1_000;
  const first = Math.floor(toMillis(since) / size);
  const bars = Array.from({ length: Math.ceil(toMillis(until) / size) - first }, () => ({ ended: 0, failed: 0 }));
  for (const { at, ended, failed } of buckets) {
    const bar = bars[Math.round(toMillis(at) / size) - first];
    if (bar) Object.assign(bar, { ended, failed });
  }
  return bars;
}

/** `12 runs, 2 failed`. */
export function activityText(ended: number, failed: number): string {
  const runs = `${ended.toLocaleString("en")} ${ended === 1 ? "run" : "runs"}`;
  return failed === 0 ? runs : `${runs}, ${failed.toLocaleString("en")} failed`;
}
