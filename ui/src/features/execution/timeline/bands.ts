/** Density bands of a loop: what each column of its bar shows. */
import { toMillis } from "../../../design/time";
import type { LoopBands } from "../queries";

export interface Column {
  from: number;
  to: number;
  done: number;
  failed: number;
  /** Shares of the height of the bar, from 0 to 1. */
  doneShare: number;
  failedShare: number;
}

/** What few items of a full bar are still drawn as. */
const LEAST = 0.15;

/** The columns of a loop's bar: as high as many items ended in their time, compared with the fullest one. */
export function columnsOf({ bands, span_ms: length }: LoopBands): Column[] {
  const most = Math.max(1, ...bands.map(({ done, failed }) => done + failed));
  return bands.map(({ at, done, failed }) => {
    const from = toMillis(at);
    const failedShare = failed > 0 ? Math.max(LEAST, failed / most) : 0;
    const doneShare = done > 0 ? Math.min(1 - failedShare, Math.max(LEAST, done / most)) : 0;
    return { from, to: from + Math.max(1, length), done, failed, doneShare, failedShare };
  });
}
