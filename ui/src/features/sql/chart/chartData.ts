/** What of the rows of a query can be drawn, and how: lines over times or numbers, bars over anything else. */
import type { BarRows } from "../../../design/charts/Bars";
import type { Lines } from "../../../design/charts/LineChart";
import { MOST_SERIES } from "../../../design/charts/series";
import { momentText, type Zone } from "../../../design/time";
import { textOfCell } from "../csv";
import { momentOf, numberOf, roleOf, type Role } from "./columns";

/** Bars that are shown at most. */
export const MOST_BARS = 30;

export interface Column {
  /** Its name; of a second column of one name, that and its number. */
  key: string;
  type: string;
  role: Role;
  index: number;
}

/** What a person has chosen, as the link has it. */
export interface Choice {
  x?: string;
  y?: string[];
  by?: string;
}

export interface Chosen {
  x: Column;
  ys: Column[];
  by: Column | null;
}

export type Chart =
  | { kind: "lines"; data: Lines; notes: string[] }
  | { kind: "bars"; data: BarRows; notes: string[] }
  | { kind: "nothing"; why: string };

export function columnsOf(answered: { name: string; type: string }[]): Column[] {
  const seen = new Map<string, number>();
  return answered.map(({ name, type }, index) => {
    const times = (seen.get(name) ?? 0) + 1;
    seen.set(name, times);
    return { key: times === 1 ? name : `${name} (${times})`, type, role: roleOf(name, type), index };
  });
}

/** The columns of a chart: those that were chosen as far as the rows have them, else the likely ones. */
export function chosenOf(columns: Column[], rows: unknown[][], choice: Choice): Chosen | null {
  const named = (key: string | undefined) => columns.find((one) => one.key === key && one.role !== "none");
  const numbers = columns.filter(({ role }) => role === "number");
  const first = (role: Role) => columns.find((one) => one.role === role);
  const x = named(choice.x) ?? first("time") ?? first("text") ?? (numbers.length > 1 ? numbers[0] : undefined);
  if (!x) return null;
  const wanted = (choice.y ?? []).map(named).filter((one) => one?.role === "number" && one !== x) as Column[];
  const likely = numbers.find((one) => one !== x);
  const ys = wanted.length > 0 ? wanted : likely ? [likely] : [];
  if (ys.length === 0) return null;
  const texts = columns.filter((one) => one.role === "text" && one !== x);
  const by = choice.by === undefined ? likelySplit(x, texts, rows) : (texts.find(({ key }) => key === choice.by) ?? null);
  return { x, ys, by };
}

/** Rows that share a place are of several series when there is a text to tell them apart. */
function likelySplit(x: Column, texts: Column[], rows: unknown[][]): Column | null {
  const places = rows.map((row) => textOfCell(row[x.index]));
  return new Set(places).size < places.length ? (texts[0] ?? null) : null;
}

export function chartOf(rows: unknown[][], chosen: Chosen, zone: Zone): Chart {
  if (rows.length === 0) return { kind: "nothing", why: "The query has no rows." };
  if (!rows.some((row) => chosen.ys.some(({ index }) => numberOf(row[index]) !== null))) {
    return { kind: "nothing", why: `No row has a number in ${chosen.ys.map(({ key }) => key).join(", ")}.` };
  }
  const { kept, left } = seriesOf(rows, chosen);
  const notes = left > 0 ? [`${left.toLocaleString("en")} more series are left out: those with the smallest sums.`] : [];
  return chosen.x.role === "text" ? bars(kept, chosen, notes) : lines(kept, chosen, zone, notes);
}

interface Point {
  row: unknown[];
  value: unknown;
}

/** The points of each series, and how many series are left out. */
function seriesOf(rows: unknown[][], { ys, by }: Chosen): { kept: Map<string, Point[]>; left: number } {
  const found = new Map<string, Point[]>();
  for (const row of rows) {
    for (const { key, index } of ys) {
      const group = by === null ? null : cellText(row[by.index]);
      const name = group === null ? key : ys.length === 1 ? group : `${group}: ${key}`;
      const points = found.get(name);
      if (points) points.push({ row, value: row[index] });
      else found.set(name, [{ row, value: row[index] }]);
    }
  }
  if (found.size <= MOST_SERIES) return { kept: found, left: 0 };
  const sum = (points: Point[]) => points.reduce((all, { value }) => all + Math.abs(numberOf(value) ?? 0), 0);
  const sums = new Map([...found].map(([name, points]) => [name, sum(points)]));
  const largest = new Set([...sums].sort(([, one], [, other]) => other - one).slice(0, MOST_SERIES).map(([name]) => name));
  return { kept: new Map([...found].filter(([name]) => largest.has(name))), left: found.size - largest.size };
}

function lines(series: Map<string, Point[]>, { x }: Chosen, zone: Zone, notes: string[]): Chart {
  const placeOf = (row: unknown[]) => (x.role === "time" ? momentOf(row[x.index]) : numberOf(row[x.index]));
  const texts = new Map<number, string>();
  const placeless = new Set<unknown[]>();
  // A time without a zone, or a day, is the same everywhere.
  const shown = x.role === "time" ? (x.type.endsWith("with time zone") ? zone : "UTC") : null;
  for (const { row } of [...series.values()].flat()) {
    const place = placeOf(row);
    if (place === null) placeless.add(row);
    else if (!texts.has(place)) texts.set(place, shown === null ? textOfCell(row[x.index]) : momentText(place, shown));
  }
  if (texts.size === 0) return { kind: "nothing", why: `No row has a ${x.role} in ${x.key}.` };
  const places = [...texts.keys()].sort((one, other) => one - other);
  const at = new Map(places.map((place, index) => [place, index]));
  let repeated = 0;
  const drawn = [...series].map(([name, points]) => {
    const values = new Array<number | null | undefined>(places.length).fill(undefined);
    const said = new Array<string | undefined>(places.length).fill(undefined);
    for (const { row, value } of points) {
      const index = at.get(placeOf(row) ?? Number.NaN);
      if (index === undefined) continue;
      if (said[index] !== undefined) repeated++;
      values[index] = numberOf(value);
      said[index] = cellText(value);
    }
    return { name, values, texts: said };
  });
  if (placeless.size > 0) notes.push(`${rowsText(placeless.size)} without a ${x.role} in ${x.key} left out.`);
  if (repeated > 0) notes.push(`${rowsText(repeated)} at a place that another row of the series has: the last one is drawn.`);
  return { kind: "lines", data: { places, placeTexts: places.map((place) => texts.get(place) ?? ""), lines: drawn, zone: shown }, notes };
}

function bars(series: Map<string, Point[]>, { x }: Chosen, notes: string[]): Chart {
  const names = [...series.keys()];
  const found = new Map<string, { values: (number | null)[]; texts: string[] }>();
  let repeated = 0;
  for (const [at, points] of [...series.values()].entries()) {
    for (const { row, value } of points) {
      const category = cellText(row[x.index]);
      const bar = found.get(category) ?? { values: names.map(() => null), texts: names.map(() => "–") };
      if (bar.texts[at] !== "–") repeated++;
      bar.values[at] = numberOf(value);
      bar.texts[at] = cellText(value);
      found.set(category, bar);
    }
  }
  const all = [...found].map(([category, bar]) => ({ category, ...bar }));
  if (all.length > MOST_BARS) notes.push(`The first ${MOST_BARS} of ${all.length.toLocaleString("en")} are drawn: ORDER BY says which.`);
  if (repeated > 0) notes.push(`${rowsText(repeated)} with a ${x.key} that another row of the series has: the last one is drawn.`);
  return { kind: "bars", data: { series: names, bars: all.slice(0, MOST_BARS) }, notes };
}

function rowsText(count: number): string {
  return count === 1 ? "1 row" : `${count.toLocaleString("en")} rows`;
}

function cellText(value: unknown): string {
  return value === null || value === undefined ? "null" : textOfCell(value);
}
