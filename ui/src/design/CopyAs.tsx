/** What a page shows, as commands to paste into a terminal, and as a link. */
import { lazy, Suspense, useState } from "react";

import { Button } from "./Button";
import { Icon } from "./Icon";

const CopyDialog = lazy(() => import("./CopyDialog"));

export function CopyAs({ path, command }: { path: string; command?: string }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button onPress={() => setOpen(true)}>
        <Icon name="copy" />
        Copy as…
      </Button>
      <Suspense>{open ? <CopyDialog path={path} command={command} close={() => setOpen(false)} /> : null}</Suspense>
    </>
  );
}
