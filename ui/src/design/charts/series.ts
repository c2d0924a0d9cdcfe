/** How the series of a chart are told apart: a colour, and a dash for those who see none. */
import { isStatus, toneOf } from "../Status";

export interface Look {
  /** The name of a token. */
  colour: string;
  /** Lengths of strokes and gaps; none: an unbroken line. */
  dash: number[];
}

/** More lines than these are not told apart. */
export const MOST_SERIES = 6;

const DASHES = [[], [6, 3], [2, 2], [10, 3, 2, 3], [10, 4], [4, 2, 1, 2]];

/** The looks of series by their names: colours of states when all are states, else those of charts. */
export function looksOf(names: string[]): Look[] {
  const states = names.every(isStatus);
  return names.map((name, at) => ({
    colour: states ? `--${toneOf(name)}` : `--series-${(at % MOST_SERIES) + 1}`,
    dash: DASHES[at % DASHES.length] ?? [],
  }));
}
