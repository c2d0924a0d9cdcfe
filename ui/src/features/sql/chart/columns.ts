/** What the columns of an answer are for a chart, and their cells as numbers and moments. */
export type Role = "time" | "number" | "text" | "none";

const NUMBERS = /^(smallint|integer|bigint|numeric|real|double precision)$/;
const TIMES = /^(date|timestamp)/;
const WITHOUT_PLACE = /^(json|jsonb|bytea)$|\[\]$/;
const ID = /(^|_)id$/;

/** Ids are numbers that count nothing. */
export function roleOf(name: string, type: string): Role {
  if (TIMES.test(type)) return "time";
  if (NUMBERS.test(type)) return ID.test(name) ? "text" : "number";
  return WITHOUT_PLACE.test(type) ? "none" : "text";
}

/** A number that can be drawn; null for none, NaN and infinity. Digits beyond 2^53 come as text, or as BigInt. */
export function numberOf(cell: unknown): number | null {
  if (typeof cell !== "number" && typeof cell !== "bigint" && (typeof cell !== "string" || cell.trim() === "")) return null;
  const value = Number(cell);
  return Number.isFinite(value) ? value : null;
}

const MOMENT = /^(\d{4,6})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d+))?)?(?:Z|([+-])(\d\d)(?::?(\d\d))?)?$/;

/** Milliseconds since 1970 of a time as Postgres prints it; one without a zone is read as UTC. Null for infinity and what is before our era. */
export function momentOf(cell: unknown): number | null {
  const found = typeof cell === "string" ? MOMENT.exec(cell) : null;
  if (!found) return null;
  const [, year, month, day, hour = 0, minute = 0, second = 0, part = "", sign = "+", hours = 0, minutes = 0] = found;
  const millis = Date.UTC(Number(year), Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second), Math.floor(Number(`0.${part || 0}`) * 1_000));
  const offset = (Number(hours) * 60 + Number(minutes)) * 60_000;
  return sign === "-" ? millis + offset : millis - offset;
}
