/** Moments and durations as text. */

/** Milliseconds since 1970 of epoch seconds or RFC 3339. */
export function toMillis(moment: number | string): number {
  return typeof moment === "number" ? moment * 1000 : Date.parse(moment);
}

export type Zone = "local" | "UTC";

export function zoneName(zone: Zone): string {
  return zone === "UTC" ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone;
}

type Precision = "second" | "milli";

/** To make a format takes longer than to use it a hundred times, and a page has a thousand moments. */
const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: Zone, parts: Precision): Intl.DateTimeFormat {
  const name = `${zone} ${parts}`;
  const format = formats.get(name) ?? makeFormat(zone, parts);
  formats.set(name, format);
  return format;
}

function makeFormat(zone: Zone, parts: Precision): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat("sv-SE", {
    timeZone: zone === "UTC" ? "UTC" : undefined,
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
    fractionalSecondDigits: parts === "milli" ? 3 : undefined,
  });
}

/** A moment as `2026-11-24 18:36:36`, in the zone that the page prints. */
export function momentText(millis: number, zone: Zone, parts: Precision = "second"): string {
  return formatOf(zone, parts).format(millis).replace(",", ".");
}

const UNITS: [number, string][] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1_000, "s"],
];

/** A duration in its two largest units: `2 min 5 s`, `3.2 s`, `86 ms`. */
export function durationText(millis: number): string {
  if (millis < 1_000) return `${Math.round(millis)} ms`;
  if (millis < 60_000) return `${(millis / 1_000).toFixed(1).replace(/\.0$/, "")} s`;
  const at = UNITS.findIndex(([size]) => millis >= size);
  const [size, unit] = UNITS[at] ?? [1_000, "s"];
  const [nextSize, nextUnit] = UNITS[at + 1] ?? [1, "ms"];
  const rest = Math.floor((millis % size) / nextSize);
  return `${Math.floor(millis / size)} ${unit}${rest > 0 ? ` ${rest} ${nextUnit}` : ""}`;
}

/** How long ago, or how soon: `3 min ago`, `in 2 h`. */
export function relativeText(millis: number, now: number): string {
  const distance = Math.abs(now - millis);
  if (distance < 5_000) return "now";
  const [size, unit] = UNITS.find(([each]) => distance >= each) ?? [1_000, "s"];
  const text = `${Math.floor(distance / size)} ${unit}`;
  return millis > now ? `in ${text}` : `${text} ago`;
}
