/** What a page shows, and what it does, as commands to paste into a terminal, and as a link. */
import { lazy, Suspense, useState } from "react";

import { Button } from "./Button";
import type { Copyable } from "./copies";
import { Icon } from "./Icon";

const CopyDialog = lazy(() => import("./CopyDialog"));

/** `of`: asked when the dialog opens. */
export function CopyAs({ of, disabled }: { of: () => Copyable[]; disabled?: boolean }) {
  const [copies, setCopies] = useState<Copyable[] | null>(null);
  return (
    <>
      <Button disabled={disabled} onPress={() => setCopies(of())}>
        <Icon name="copy" />
        Copy as…
      </Button>
      <Suspense>{copies ? <CopyDialog copies={copies} close={() => setCopies(null)} /> : null}</Suspense>
    </>
  );
}
