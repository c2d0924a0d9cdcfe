/** What can be done to an execution as it is now: what it most likely needs beside its name, the rest in a menu. */
import { Link, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";

import { api, read } from "../../../api/client";
import { ActionButton } from "../../../design/Button";
import { Menu, type MenuAction } from "../../../design/Menu";
import type { Execution } from "../queries";
import { PatchDialog } from "./PatchDialog";
import { RedriveDialog } from "./RedriveDialog";
import { SteerDialog } from "./SteerDialog";

const CopyDialog = lazy(() => import("../../../design/CopyDialog"));

const CHANGES = { cancel: "Cancel…", pause: "Pause…", resume: "Resume…", redrive: "Redrive…", patch: "Change context…" };

type Change = keyof typeof CHANGES;

/** The change that an execution most likely needs. */
function nextOf({ status, ended_at }: Execution): Change {
  if (ended_at !== null) return "redrive";
  return ({ paused: "resume", waiting: "patch" } as const)[status as "paused" | "waiting"] ?? "pause";
}

export function Actions({ execution }: { execution: Execution }) {
  const [asked, setAsked] = useState<Change | "copy" | null>(null);
  const navigate = useNavigate();
  const id = execution.execution_id;
  const ended = execution.ended_at !== null;
  const next = nextOf(execution);
  const params = { path: { execution_id: id } };
  const playbook = { to: "/playbooks/$", params: { _splat: execution.path } } as const;
  const close = () => setAsked(null);
  const changes = (["patch", "pause"] as const).filter((change) => !ended && change !== next && !(change === "pause" && next === "resume"));
  const seldom: MenuAction[] = [
    ...changes.map((change): MenuAction => ({ title: CHANGES[change], scope: "execute", act: () => setAsked(change) })),
    ...(ended ? [] : [{ title: "Run again…", act: () => void navigate({ ...playbook, search: { view: "run", like: id } }) }]),
    { title: "Make a test…", act: () => void navigate({ ...playbook, search: { view: "tests", from: id } }) },
    { title: "Compare…", act: () => void navigate({ to: "/compare", search: { a: id } }) },
    { title: "Copy as…", act: () => setAsked("copy") },
  ];
  return (
    <>
      <ActionButton
        scope="execute"
        look={execution.status === "failed" || next === "resume" ? "main" : undefined}
        onPress={() => setAsked(next)}
      >
        {CHANGES[next]}
      </ActionButton>
      {ended ? (
        <Link className="button" {...playbook} search={{ view: "run", like: id }}>
          Run again…
        </Link>
      ) : (
        <ActionButton scope="execute" look="risky" onPress={() => setAsked("cancel")}>
          {CHANGES.cancel}
        </ActionButton>
      )}
      <Menu label="More" actions={seldom} />
      <Suspense>
        {asked === "copy" ? <CopyDialog path={`/api/executions/${id}`} command={`noetl status ${id}`} close={close} /> : null}
      </Suspense>
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
      {asked === "patch" ? <PatchDialog executionId={id} close={close} /> : null}
    </>
  );
}
