/** The dialog of a change to an execution, wherever it was asked for. */
import { lazy, Suspense } from "react";

import { api, read } from "../../../api/client";
import { COPIES } from "../../../design/copies";
import type { Execution } from "../queries";
import type { Change } from "./advice";
import { PatchDialog } from "./PatchDialog";
import { RedriveDialog } from "./RedriveDialog";
import { SteerDialog } from "./SteerDialog";

const CopyDialog = lazy(() => import("../../../design/CopyDialog"));

/** `from`: where a redrive begins. */
export interface Asked {
  change: Change | "copy";
  from?: string;
}

export function ActionDialog({ execution, asked, close }: { execution: Execution; asked: Asked; close: () => void }) {
  const id = execution.execution_id;
  const params = { path: { execution_id: id } };
  switch (asked.change) {
    case "copy":
      return (
        <Suspense>
          <CopyDialog copies={COPIES.execution(execution)} close={close} />
        </Suspense>
      );
    case "cancel":
      return (
        <SteerDialog
          title="Cancel the execution"
          says="Running tasks are asked to stop; no new task begins. A cancelled execution can be redriven."
          verb="Cancel the execution"
          executionId={id}
          family="Cancel its children too"
          risky
          close={close}
          act={(body) => read(api.POST("/api/executions/{execution_id}/cancel", { params, body }))}
        />
      );
    case "pause":
      return (
        <SteerDialog
          title="Pause the execution"
          says="No new task begins. Running tasks continue; their results are kept until the execution is resumed."
          verb="Pause"
          executionId={id}
          family="Pause its children too"
          close={close}
          act={(body) => read(api.POST("/api/executions/{execution_id}/pause", { params, body }))}
        />
      );
    case "resume":
      return (
        <SteerDialog
          title="Resume the execution"
          says="Results that were kept are taken, and what waited begins."
          verb="Resume"
          executionId={id}
          family="Resume its children too"
          close={close}
          act={(body) => read(api.POST("/api/executions/{execution_id}/resume", { params, body }))}
        />
      );
    case "redrive":
      return <RedriveDialog execution={execution} start={asked.from} close={close} />;
    case "patch":
      return <PatchDialog executionId={id} close={close} />;
  }
}
