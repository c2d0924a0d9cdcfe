/** Texts of axes, and ranges that show what there is. */
import { momentText, type Zone } from "../time";

const SECOND = 1_000;
const DAY = 86_400_000;
/** Beyond it thousands of billions have no short word that everybody knows. */
const WORDLESS = 1e15;

const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
const powers = new Intl.NumberFormat("en", { notation: "scientific", maximumFractionDigits: 2 });

/** A number of an axis in a few characters: `1.5K`, `0.001`, `1.84E19`. */
export function axisNumber(value: number): string {
  const size = Math.abs(value);
  if (size >= WORDLESS || (size > 0 && size < 0.001)) return powers.format(value);
  return size < 1 ? String(Number(value.toPrecision(3))) : short.format(value);
}

/** Moments of an axis whose steps are `step` milliseconds: the time, and below it the day where one begins. */
export function axisTimes(moments: number[], step: number, zone: Zone): string[] {
  let day = "";
  return moments.map((millis) => {
    const [date = "", time = ""] = momentText(millis, zone, step < SECOND ? "milli" : "second").split(" ");
    if (step >= DAY) return date;
    const clock = step < 60 * SECOND ? time : time.slice(0, 5);
    const text = date === day ? clock : `${clock}\n${date}`;
    day = date;
    return text;
  });
}

/** The values of an axis: from zero when nothing is below it, with some room, and never empty. */
export function valueRange(least: number, most: number): [number, number] {
  if (least === most && most === 0) return [0, 1];
  const room = (most - Math.min(least, 0)) * 0.05 || Math.abs(most) * 0.05;
  return [least < 0 ? least - room : 0, most > 0 ? most + room : 0];
}

/** The places of an axis; one place alone has room on both sides. */
export function placeRange(first: number, last: number, time: boolean): [number, number] {
  if (first !== last) return [first, last];
  const room = time ? 30 * 60 * SECOND : Math.abs(first) * 0.1 || 1;
  return [first - room, first + room];
}
