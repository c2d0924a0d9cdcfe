/** What can be done to an execution as it is now. */
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { api, read } from "../../../api/client";
import { ActionButton } from "../../../design/Button";
import type { Execution } from "../queries";
import { PatchDialog } from "./PatchDialog";
import { RedriveDialog } from "./RedriveDialog";
import { SteerDialog } from "./SteerDialog";

type Asked = "cancel" | "pause" | "resume" | "redrive" | "patch";

export function Actions({ execution }: { execution: Execution }) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const ended = execution.ended_at !== null;
  const params = { path: { execution_id: execution.execution_id } };
  const close = () => setAsked(null);
  return (
    <>
      {ended ? (
        <ActionButton scope="execute" look={execution.status === "failed" ? "main" : undefined} onPress={() => setAsked("redrive")}>
          Redrive…
        </ActionButton>
      ) : (
        <>
          <ActionButton scope="execute" onPress={() => setAsked("patch")}>
            Change context…
          </ActionButton>
          {execution.status === "paused" ? (
            <ActionButton scope="execute" look="main" onPress={() => setAsked("resume")}>
              Resume…
            </ActionButton>
          ) : (
            <ActionButton scope="execute" onPress={() => setAsked("pause")}>
              Pause…
            </ActionButton>
          )}
          <ActionButton scope="execute" look="risky" onPress={() => setAsked("cancel")}>
            Cancel…
          </ActionButton>
        </>
      )}
      <Link
        className="button"
        to="/playbooks/$"
        params={{ _splat: execution.path }}
        search={{ view: "run", like: execution.execution_id }}
      >
        Run again…
      </Link>
      <Link
        className="button"
        to="/playbooks/$"
        params={{ _splat: execution.path }}
        search={{ view: "tests", from: execution.execution_id }}
      >
        Make a test…
      </Link>
      <Link className="button" to="/compare" search={{ a: execution.execution_id }}>
        Compare…
      </Link>
      {asked === "cancel" ? (
        <SteerDialog
          title="Cancel the execution"
          says="Running tasks are asked to stop; no new task begins. A cancelled execution can be redriven."
          verb="Cancel the execution"
          family="Cancel its children too"
          risky
          close={close}
          act={(body) => read(api.POST("/api/executions/{execution_id}/cancel", { params, body }))}
        />
      ) : null}
      {asked === "pause" ? (
        <SteerDialog
          title="Pause the execution"
          says="No new task begins. Running tasks continue; their results are kept until the execution is resumed."
          verb="Pause"
          family="Pause its children too"
          close={close}
          act={(body) => read(api.POST("/api/executions/{execution_id}/pause", { params, body }))}
        />
      ) : null}
      {asked === "resume" ? (
        <SteerDialog
          title="Resume the execution"
          says="Results that were kept are taken, and what waited begins."
          verb="Resume"
          family="Resume its children too"
          close={close}
          act={(body) => read(api.POST("/api/executions/{execution_id}/resume", { params, body }))}
        />
      ) : null}
      {asked === "redrive" ? <RedriveDialog execution={execution} close={close} /> : null}
      {asked === "patch" ? <PatchDialog executionId={execution.execution_id} close={close} /> : null}
    </>
  );
}
