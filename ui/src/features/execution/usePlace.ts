/** The place of the slider: where the hand has moved it, until the page is there. */
import { useEffect, useState } from "react";

const SETTLES_MS = 80;

/** `at`: the fact that the page shows; `go`: show another one, once the hand rests. */
export function usePlace(at: number, go: (fact: number) => void): { place: number; move: (fact: number) => void; step: (fact: number) => void } {
  /** Null: where the page is. An answer to an earlier move leaves a later one alone. */
  const [aimed, setAimed] = useState<number | null>(null);
  useEffect(() => {
    if (aimed === null) return;
    if (aimed === at) {
      setAimed(null);
      return;
    }
    const timer = setTimeout(() => go(aimed), SETTLES_MS);
    return () => clearTimeout(timer);
    // `go` is another function each time, and goes to the same place.
  }, [aimed, at]);
  const step = (fact: number) => {
    setAimed(null);
    go(fact);
  };
  return { place: aimed ?? at, move: setAimed, step };
}
