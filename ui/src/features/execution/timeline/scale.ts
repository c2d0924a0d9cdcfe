/** A time axis on which long idle stretches take little room. */

export interface Span {
  from: number;
  to: number;
}

export interface Gap extends Span {
  /** Where it is drawn, from 0 to 1. */
  at: number;
}

export interface Scale {
  /** The place of a moment on the axis, from 0 to 1. */
  place: (moment: number) => number;
  gaps: Gap[];
  span: Span;
}

const GAP_SHARE = 0.25;
const SHORTEST_GAP_MS = 2_000;
const DRAWN_GAP = 0.03;

/** Make the axis of spans; a gap is idle for long, compared with what is busy. Without `collapse` there is none. */
export function timeScale(spans: Span[], collapse = true): Scale {
  const busy = merged(spans);
  const first = busy[0] ?? { from: 0, to: 1 };
  const span = { from: first.from, to: Math.max(first.from + 1, ...busy.map(({ to }) => to)) };
  const busyTime = Math.max(1, sum(busy.map(({ from, to }) => to - from)));
  const idle = busy.slice(1).map((each, index) => ({ from: busy[index]?.to ?? each.from, to: each.from }));
  const gaps = collapse ? idle.filter(({ from, to }) => to - from > Math.max(SHORTEST_GAP_MS, busyTime * GAP_SHARE)) : [];
  const shown = span.to - span.from - sum(gaps.map(({ from, to }) => to - from));
  const room = Math.max(0.2, 1 - gaps.length * DRAWN_GAP);
  const gapRoom = gaps.length > 0 ? (1 - room) / gaps.length : 0;
  const place = (moment: number): number => {
    let cut = 0;
    let drawn = 0;
    for (const { from, to } of gaps) {
      if (moment >= to) {
        cut += to - from;
        drawn += gapRoom;
      } else if (moment > from) {
        drawn += gapRoom * ((moment - from) / (to - from));
        cut += moment - from;
      }
    }
    return Math.min(1, Math.max(0, ((moment - span.from - cut) / Math.max(1, shown)) * room + drawn));
  };
  return { place, span, gaps: gaps.map((gap) => ({ ...gap, at: place(gap.from) })) };
}

/** Spans that overlap or touch as one, in order. */
function merged(spans: Span[]): Span[] {
  const result: Span[] = [];
  for (const span of [...spans].sort((a, b) => a.from - b.from)) {
    const last = result.at(-1);
    if (last && span.from <= last.to) last.to = Math.max(last.to, span.to);
    else result.push({ ...span });
  }
  return result;
}

function sum(numbers: number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

/** Share of the axis that the words of a break take; nearer ones are named together. */
const WORDS = 0.18;

/** The breaks of an axis for its words: the middle of each, how long it was idle, and how many are named together. */
export function breaksOf({ gaps, place }: Scale): { at: number; idle: number; count: number }[] {
  const found: { at: number; idle: number; count: number }[] = [];
  for (const gap of gaps) {
    const at = (gap.at + place(gap.to)) / 2;
    const last = found.at(-1);
    if (last && at - last.at < WORDS) {
      last.idle += gap.to - gap.from;
      last.count += 1;
    } else {
      found.push({ at, idle: gap.to - gap.from, count: 1 });
    }
  }
  return found;
}

/** The place of a span on the axis, as a style. */
export function placed(scale: Scale, from: number, to: number) {
  const left = scale.place(from);
  return { left: `${left * 100}%`, width: `${(scale.place(to) - left) * 100}%` };
}
