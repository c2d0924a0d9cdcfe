/** What can be done on the page that is shown; the palette offers it. */
import { useEffect } from "react";

import type { Scope } from "../api/session";

export interface PageAction {
  title: string;
  /** What the session must be allowed, if the action changes something. */
  scope?: Scope;
  act: () => void;
}

export interface PageActions {
  /** What they are actions of, in one word. */
  of: string;
  actions: PageAction[];
}

const NONE: PageActions = { of: "", actions: [] };

let shown = NONE;

/** Offer actions while the page is shown. */
export function usePageActions(of: string, actions: PageAction[]): void {
  useEffect(() => {
    shown = { of, actions };
    return () => {
      shown = NONE;
    };
  });
}

export function pageActions(): PageActions {
  return shown;
}
