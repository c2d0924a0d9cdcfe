/** The moment of the schedule that started an execution, which tells its question from those of other days. */
import { useQuery } from "@tanstack/react-query";

import { api, read } from "../../api/client";
import { Moment } from "../../design/Moment";

interface Asking {
  execution_id: string;
  principal?: string;
}

export function ScheduledFor({ of: { execution_id: id, principal = "" } }: { of: Asking }) {
  // Tokens and playbooks that start executions have a colon in their names, and schedules none.
  const perhaps = principal !== "" && !principal.includes(":");
  const moment = useQuery({
    queryKey: ["scheduled-for", id],
    staleTime: Infinity,
    enabled: perhaps,
    retry: false,
    queryFn: async () => {
      const template = "{{ workload.schedule.at if workload.schedule.name | default('') == principal else '' }}";
      const asked = template.replace("principal", JSON.stringify(principal));
      return (await read(api.POST("/api/context/render", { body: { execution_id: id, template: asked } }))).rendered;
    },
  });
  if (typeof moment.data !== "string" || Number.isNaN(Date.parse(moment.data))) return null;
  return (
    <>
      {principal} of <Moment at={moment.data} />
    </>
  );
}
