/** What an execution's page shows, as its link has it. */
import { numberOf, oneOf, type RawSearch, textOf } from "../../app/search";

export const VIEWS = ["graph", "timeline", "events", "data", "logs", "code", "cost", "why"] as const;

export type View = (typeof VIEWS)[number];

/** Orders of the view of events, the default first. */
export const ORDERS = ["oldest", "newest"] as const;

/** Levels of lines, from the least to the gravest. */
export const LEVELS = ["debug", "info", "warning", "error", "critical"] as const;

/** Idle time of the timeline that is drawn as long as it was; without it, long idle time is collapsed. */
export const IDLE = ["shown"] as const;

/** Parts of the log that its view shows, the default first. */
export const PARTS = ["start", "newest", "end"] as const;

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
  /** The step also filters the log, with the text, the attempt and the step run that follow. */
  step?: string;
  search?: string;
  attempt?: number;
  ofRun?: number;
  /** The least level of the lines of the log. */
  level?: (typeof LEVELS)[number];
  /** The part of the log that is shown. */
  show?: (typeof PARTS)[number];
  /** How the timeline draws idle time. */
  idle?: (typeof IDLE)[number];
  /** The sub-executions whose steps are shown within, by their ids with commas between. */
  open?: string;
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
    search: textOf(search, "search"),
    attempt: numberOf(search, "attempt"),
    ofRun: numberOf(search, "ofRun"),
    show: oneOf(search, "show", PARTS),
    level: oneOf(search, "level", LEVELS),
    idle: oneOf(search, "idle", IDLE),
    open: textOf(search, "open"),
  };
}
