import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect } from "react";

import type { Schemas } from "../../api/client";
import { isTyping } from "../../app/keys";
import { Page } from "../../app/Page";
import { useScope } from "../../app/SessionContext";
import { Button } from "../../design/Button";
import { COPIES } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Empty } from "../../design/Empty";
import { Loaded } from "../../design/Loaded";
import { Note } from "../../design/Note";
import { ExecutionLink } from "../execution/Header";
import { AnswerForm } from "./AnswerForm";
import { approvals } from "./queries";
import { ScheduledFor } from "./ScheduledFor";

export default function ApprovalsPage() {
  const allowed = useScope("execute");
  useRowKeys();
  const query = useInfiniteQuery({ ...approvals(), refetchInterval: 10_000, enabled: allowed });
  if (!allowed) {
    return (
      <Page title="Approvals">
        <Note tone="idle">
          <p>Open questions, and their answers, need the scope execute.</p>
        </Note>
      </Page>
    );
  }
  return (
    <Page title="Approvals" actions={<CopyAs of={() => COPIES.approvals((query.data?.pages ?? []).flatMap((page) => page.callbacks))} />}>
      <Loaded query={query}>{({ pages }) => <List pages={pages} />}</Loaded>
      {query.hasNextPage ? (
        <div>
          <Button disabled={query.isFetchingNextPage} onPress={() => void query.fetchNextPage()}>
            Show more
          </Button>
        </div>
      ) : null}
    </Page>
  );
}

function List({ pages }: { pages: Schemas["CallbackPage"][] }) {
  const open = pages.flatMap((page) => page.callbacks);
  const leftOut = pages.reduce((sum, page) => sum + page.left_out, 0);
  if (open.length === 0) {
    return (
      <Empty title="Nothing waits for an answer.">
        <p>A playbook waits with a task of the kind wait; its question then appears here.</p>
      </Empty>
    );
  }
  return (
    <>
      <p className="muted small" role="status">
        {open.length} {open.length === 1 ? "question" : "questions"}, the oldest execution first; j and k go from one to the next.
      </p>
      {leftOut > 0 ? (
        <Note tone="idle">
          <p>{leftOut} more questions of loops are not shown; they follow as these are answered.</p>
        </Note>
      ) : null}
      {open.map((callback) => (
        <article key={callback.token} className="card stack" data-triage tabIndex={-1} aria-label={callback.message || callback.step}>
          <div className="row spread">
            <Link to="/playbooks/$" params={{ _splat: callback.path }}>
              {callback.path}
            </Link>
            <span className="muted small">
              <ScheduledFor of={callback} />
            </span>
            <ExecutionLink id={callback.execution_id} />
          </div>
          <AnswerForm executionId={callback.execution_id} callback={callback} />
        </article>
      ))}
    </>
  );
}

/** j and k move from question to question. */
function useRowKeys(): void {
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const step = { j: 1, k: -1 }[event.key];
      if (step === undefined || isTyping(event) || document.querySelector(".overlay")) return;
      const cards = [...document.querySelectorAll<HTMLElement>("[data-triage]")];
      const at = cards.findIndex((card) => card.contains(document.activeElement));
      cards[Math.max(0, Math.min(cards.length - 1, at + step))]?.focus();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}
