/** What can be done to an execution as it is now: what it most likely needs beside its name, the rest in a menu. */
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { type PageAction, usePageActions } from "../../../app/pageActions";
import { ActionButton } from "../../../design/Button";
import { Menu } from "../../../design/Menu";
import type { Execution } from "../queries";
import { ActionDialog, type Asked } from "./ActionDialog";
import { type Change, CHANGES } from "./advice";

/** The change that an execution most likely needs. */
function nextOf({ status, ended_at }: Execution): Change {
  if (ended_at !== null) return "redrive";
  return ({ paused: "resume", waiting: "patch" } as const)[status as "paused" | "waiting"] ?? "pause";
}

export function Actions({ execution }: { execution: Execution }) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const navigate = useNavigate();
  const id = execution.execution_id;
  const ended = execution.ended_at !== null;
  const next = nextOf(execution);
  const playbook = { to: "/playbooks/$", params: { _splat: execution.path } } as const;
  const changes = (["patch", "pause"] as const).filter((change) => !ended && change !== next && !(change === "pause" && next === "resume"));
  const changeOf = (change: Change): PageAction => ({ title: CHANGES[change], scope: "execute", act: () => setAsked({ change }) });
  const again: PageAction = { title: "Run again…", act: () => void navigate({ ...playbook, search: { view: "run", like: id } }) };
  const seldom: PageAction[] = [
    ...changes.map(changeOf),
    ...(ended ? [] : [again]),
    { title: "Make a test…", act: () => void navigate({ ...playbook, search: { view: "tests", from: id } }) },
    { title: "Compare…", act: () => void navigate({ to: "/compare", search: { a: id } }) },
    { title: "Copy as…", act: () => setAsked({ change: "copy" }) },
  ];
  usePageActions("execution", [changeOf(next), ended ? again : changeOf("cancel"), ...seldom]);
  return (
    <>
      <ActionButton
        scope="execute"
        look={execution.status === "failed" || next === "resume" ? "main" : undefined}
        onPress={() => setAsked({ change: next })}
      >
        {CHANGES[next]}
      </ActionButton>
      {ended ? (
        <Link className="button" {...playbook} search={{ view: "run", like: id }}>
          Run again…
        </Link>
      ) : (
        <ActionButton scope="execute" look="risky" onPress={() => setAsked({ change: "cancel" })}>
          {CHANGES.cancel}
        </ActionButton>
      )}
      <Menu label="More" actions={seldom} />
      {asked ? <ActionDialog execution={execution} asked={asked} close={() => setAsked(null)} /> : null}
    </>
  );
}
