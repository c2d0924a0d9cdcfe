/** The playbook whose schedules and triggers are shown, as the link has it. */
import { type RawSearch, textOf } from "../../app/search";

export interface SchedulesSearch {
  path?: string;
}

export function schedulesSearch(search: RawSearch): SchedulesSearch {
  return { path: textOf(search, "path") };
}
