/** A limit in words: what runs at the same time, and what begins in a span of time. */
import type { Schemas } from "../../api/client";

type Numbers = Pick<Schemas["LimitView"], "concurrent" | "rate" | "per" | "burst">;

export function numbersText({ concurrent, rate, per, burst }: Numbers): string {
  const running = concurrent === null ? [] : [`at most ${concurrent} run at the same time`];
  const beginning = rate === null ? [] : [`at most ${rate} begin in ${per} s, ${burst > 1 ? `up to ${burst} of them together` : "spread evenly"}`];
  const text = [...running, ...beginning].join("; ");
  return text ? text[0]?.toUpperCase() + text.slice(1) : "No number";
}
