/** A history that grows: pages by cursor, read on by hand or when something changes; nothing is read twice. */
import { useCallback, useEffect, useRef, useState } from "react";

import { onChange } from "../../api/live/hub";

export interface HistoryPage<Item> {
  items: Item[];
  next: string;
  /** The execution has ended and everything was read. */
  complete: boolean;
}

interface State<Item> {
  items: Item[];
  next: string | undefined;
  complete: boolean;
  /** The last page was not full: what comes next has yet to happen. */
  caughtUp: boolean;
}

const NOTHING = { items: [], next: undefined, complete: false, caughtUp: false };

/** `readPage` has to stay the same function for the same history. */
export function usePages<Item>(topic: string, size: number, readPage: (after: string | undefined) => Promise<HistoryPage<Item>>) {
  const [state, setState] = useState<State<Item>>(NOTHING);
  const [error, setError] = useState<unknown>(null);
  const [reading, setReading] = useState(false);
  const busy = useRef(false);
  const current = useRef<State<Item>>(state);
  current.current = state;

  const readOn = useCallback(async () => {
    const before = current.current;
    if (busy.current || before.complete) return;
    busy.current = true;
    setReading(true);
    try {
      const page = await readPage(before.next);
      setState({
        items: [...before.items, ...page.items],
        next: page.next,
        complete: page.complete,
        caughtUp: page.items.length < size,
      });
      setError(null);
    } catch (failure) {
      setError(failure);
    } finally {
      busy.current = false;
      setReading(false);
    }
  }, [readPage, size]);

  useEffect(() => {
    void readOn();
  }, [readOn]);
  useEffect(
    () =>
      onChange((change) => {
        if (change.topic === topic && current.current.caughtUp) void readOn();
      }),
    [topic, readOn],
  );
  return { ...state, error, reading, readOn };
}
