/** A history that grows: pages by cursor, read on by hand or when something changes; nothing is read twice. */
import { useCallback, useEffect, useRef, useState } from "react";

import { onChange } from "../../api/live/hub";

export interface HistoryPage<Item> {
  items: Item[];
  next: string;
  /** The execution has ended and everything was read. */
  complete: boolean;
  /** Of a filtered history: how many entries this page has looked at, until when, and whether more are stored behind them. */
  scan?: { count: number; until: string | null; more: boolean };
}

interface State<Item> {
  items: Item[];
  next: string | undefined;
  complete: boolean;
  /** Everything stored was looked at: what comes next has yet to happen. */
  caughtUp: boolean;
  /** Entries that were looked at, where the pages say so. */
  scanned: number;
  /** The time of the last of them. */
  scannedUntil: string | null;
}

const NOTHING = { items: [], next: undefined, complete: false, caughtUp: false, scanned: 0, scannedUntil: null };
/** Pages that are read at once while a filter finds less than one page. */
const MOST_PAGES = 10;

/** `readPage` has to stay the same function for the same history. */
export function usePages<Item>(topic: string, size: number, readPage: (after: string | undefined) => Promise<HistoryPage<Item>>) {
  const [state, setState] = useState<State<Item>>(NOTHING);
  const [error, setError] = useState<unknown>(null);
  const [reading, setReading] = useState(false);
  const busy = useRef(false);
  /** Something has changed while a page was read, which may be older than that. */
  const missed = useRef(false);
  const shown = useRef(true);
  const current = useRef<State<Item>>(state);

  const readOn = useCallback(async () => {
    if (busy.current || current.current.complete) return;
    busy.current = true;
    missed.current = false;
    setReading(true);
    try {
      const enough = current.current.items.length + size;
      for (let pages = 0; pages < MOST_PAGES && shown.current; pages++) {
        const before = current.current;
        const page = await readPage(before.next);
        const more = page.scan ? page.scan.more : page.items.length >= size;
        current.current = {
          items: [...before.items, ...page.items],
          next: page.next,
          complete: page.complete,
          caughtUp: !more,
          scanned: before.scanned + (page.scan?.count ?? page.items.length),
          scannedUntil: page.scan?.until ?? before.scannedUntil,
        };
        setState(current.current);
        setError(null);
        if (!more || current.current.items.length >= enough) break;
      }
    } catch (failure) {
      setError(failure);
    } finally {
      busy.current = false;
      setReading(false);
    }
  }, [readPage, size]);

  useEffect(() => {
    shown.current = true;
    void readOn();
    return () => {
      shown.current = false;
    };
  }, [readOn]);
  useEffect(
    () =>
      onChange((change) => {
        if (change.topic !== topic) return;
        if (busy.current) missed.current = true;
        else if (current.current.caughtUp) void readOn();
      }),
    [topic, readOn],
  );
  useEffect(() => {
    if (!reading && !error && missed.current && state.caughtUp) void readOn();
  }, [reading, error, state.caughtUp, readOn]);
  return { ...state, error, reading, readOn };
}
