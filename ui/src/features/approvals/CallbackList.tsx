/** The answers that an execution waits for, each with its form. */
import { useQuery } from "@tanstack/react-query";

import { useScope } from "../../app/SessionContext";
import { Loaded } from "../../design/Loaded";
import { Note } from "../../design/Note";
import { callbacksOf } from "../execution/queries";
import { AnswerForm } from "./AnswerForm";

export function CallbackList({ executionId }: { executionId: string }) {
  const allowed = useScope("execute");
  const callbacks = useQuery({ ...callbacksOf(executionId), enabled: allowed });
  if (!allowed) {
    return (
      <Note tone="idle">
        <p>Answering needs the scope execute.</p>
      </Note>
    );
  }
  return (
    <Loaded query={callbacks} lines={2}>
      {(answer) => (
        <>
          {answer.callbacks.map((callback) => (
            <AnswerForm key={callback.token} executionId={executionId} callback={callback} />
          ))}
        </>
      )}
    </Loaded>
  );
}
