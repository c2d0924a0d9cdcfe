/** Register a playbook that is written here; its path comes from its metadata. */
import { useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";

import { ActionButton } from "../../design/Button";
import { Modal } from "../../design/Modal";
import { Skeleton } from "../../design/Skeleton";

const Editor = lazy(() => import("./Editor"));

const TEMPLATE = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: my_playbook, path: my/playbook }
workload: { who: world }
workflow:
  - step: start
    tool: { kind: noop, input: { text: "hello {{ workload.who }}" } }
`;

export function NewPlaybook() {
  const [open, setOpen] = useState(false);
  const navigate = useNavigate();
  return (
    <>
      <ActionButton scope="write" onPress={() => setOpen(true)}>
        New playbook…
      </ActionButton>
      {open ? (
        <Modal title="New playbook" close={() => setOpen(false)} wide>
          <Suspense fallback={<Skeleton />}>
            <Editor
              draft="new"
              text={TEMPLATE}
              registered={({ path }) => {
                setOpen(false);
                void navigate({ to: "/playbooks/$", params: { _splat: path } });
              }}
            />
          </Suspense>
        </Modal>
      ) : null}
    </>
  );
}
