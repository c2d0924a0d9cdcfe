/** Start moments as a calendar: days of the page's zone, and in each what starts and when. */
import { momentText, type Zone } from "../../design/time";

export interface Start {
  schedule: string;
  path: string;
  at: number;
}

export interface Line {
  schedule: string;
  path: string;
  /** Times of the day, the first ones. */
  times: string[];
  /** How many moments more this day has, as far as they are known. */
  more: number;
}

export interface Day {
  day: string;
  lines: Line[];
}

const MOST_TIMES = 6;

/** The first `most` days that have a moment. */
export function byDay(starts: Start[], zone: Zone, most: number): Day[] {
  const days = new Map<string, Map<string, Line>>();
  for (const { schedule, path, at } of starts.toSorted((one, other) => one.at - other.at)) {
    const text = momentText(at, zone);
    const day = text.slice(0, 10);
    const lines = days.get(day) ?? new Map<string, Line>();
    days.set(day, lines);
    const line = lines.get(schedule) ?? { schedule, path, times: [], more: 0 };
    lines.set(schedule, line);
    if (line.times.length < MOST_TIMES) line.times.push(text.slice(11));
    else line.more += 1;
  }
  return [...days].slice(0, most).map(([day, lines]) => ({ day, lines: [...lines.values()] }));
}
