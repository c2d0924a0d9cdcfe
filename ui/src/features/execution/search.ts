/** What an execution's page shows, as its link has it. */
import { numberOf, oneOf, type RawSearch, textOf } from "../../app/search";

export const VIEWS = ["graph", "timeline", "events", "data", "logs", "code", "cost", "why"] as const;

export type View = (typeof VIEWS)[number];

/** Orders of the view of events, the default first. */
export const ORDERS = ["oldest", "newest"] as const;

export interface ExecutionSearch {
  view?: View;
  /** The step run that is selected. */
  run?: number;
  /** The event that is opened. */
  event?: string;
  /** The moment of the history that is shown; now without it. */
  at?: string;
  /** How the view of events is ordered. */
  order?: (typeof ORDERS)[number];
  /** The type and the step of the events that it shows. The server refuses a type that it does not know. */
  type?: string;
  step?: string;
}

export function executionSearch(search: RawSearch): ExecutionSearch {
  return {
    view: oneOf(search, "view", VIEWS),
    run: numberOf(search, "run"),
    event: textOf(search, "event"),
    at: textOf(search, "at"),
    order: oneOf(search, "order", ORDERS),
    type: textOf(search, "type"),
    step: textOf(search, "step"),
  };
}
