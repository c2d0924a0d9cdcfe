/** What a person has set on this browser: theme and time zone. */
import { useSyncExternalStore } from "react";

import type { Zone } from "../design/time";

export type Theme = "system" | "light" | "dark";

const listeners = new Set<() => void>();

function stored<Value extends string>(name: string, values: readonly Value[], fallback: Value): Value {
  const found = localStorage.getItem(name) as Value | null;
  return found !== null && values.includes(found) ? found : fallback;
}

const THEMES = ["system", "light", "dark"] as const;
const ZONES = ["local", "UTC"] as const;

let theme: Theme = stored("noetl-theme", THEMES, "system");
let zone: Zone = stored("noetl-zone", ZONES, "local");

export function setTheme(next: Theme): void {
  theme = next;
  localStorage.setItem("noetl-theme", next);
  showTheme();
  for (const listener of listeners) listener();
}

export function setZone(next: Zone): void {
  zone = next;
  localStorage.setItem("noetl-zone", next);
  for (const listener of listeners) listener();
}

/** Put the theme on the document; CSS does the rest. */
export function showTheme(): void {
  document.documentElement.dataset.theme = theme;
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, () => theme);
}

export function useZone(): Zone {
  return useSyncExternalStore(subscribe, () => zone);
}
