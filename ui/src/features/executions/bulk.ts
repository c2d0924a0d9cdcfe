/** The actions that the API takes for many executions at once. */
import { api, read, type Schemas } from "../../api/client";

export type BulkAction = "cancel" | "pause" | "resume" | "redrive";

/** Ask for one of the bulk actions. */
export function steer(action: BulkAction, body: Schemas["BulkRequest"]): Promise<Schemas["SteeredMany"]> {
  switch (action) {
    case "cancel":
      return read(api.POST("/api/executions/cancel", { body }));
    case "pause":
      return read(api.POST("/api/executions/pause", { body }));
    case "resume":
      return read(api.POST("/api/executions/resume", { body }));
    case "redrive":
      return read(api.POST("/api/executions/redrive", { body }));
  }
}
