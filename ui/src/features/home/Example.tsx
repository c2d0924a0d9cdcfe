/** The first run in one click: register an example and start it. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { api, read } from "../../api/client";
import { ActionButton } from "../../design/Button";
import { Failure } from "../../design/Failure";

const EXAMPLE = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: first_steps, path: examples/first_steps, description: A loop over three names }
workload: { names: [Ada, Grace, Linus] }
workflow:
  - step: start
    desc: Greet everyone, two at a time
    loop: { in: "{{ workload.names }}", iterator: name, spec: { mode: parallel, max_in_flight: 2 } }
    tool:
      kind: python
      args: { name: "{{ iter.name }}" }
      code: |
        print("hello", name)
        result = {"greeting": f"Hello, {name}!", "letters": len(name)}
    next: { arcs: [{ step: count, when: "{{ event.name == 'loop.done' }}" }] }
  - step: count
    tool: { kind: noop, args: { letters: "{{ start.results | map(attribute='letters') | sum }}" } }
`;

export function Example() {
  const client = useQueryClient();
  const navigate = useNavigate();
  const start = useMutation({
    mutationFn: async () => {
      const { path } = await read(api.POST("/api/catalog/register", { body: { content: EXAMPLE } }));
      return read(api.POST("/api/executions", { body: { path } }));
    },
    onSuccess: ({ execution_id }) => {
      void client.invalidateQueries({ queryKey: ["catalog"] });
      void navigate({ to: "/executions/$id", params: { id: execution_id } });
    },
  });
  return (
    <>
      <ActionButton scope="write" look="main" disabled={start.isPending} onPress={() => start.mutate()}>
        Run an example
      </ActionButton>
      {start.error ? <Failure error={start.error} /> : null}
    </>
  );
}
