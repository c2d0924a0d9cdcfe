/** Which version of its playbook a redrive may run with. */
import type { Choice } from "../../../design/Field";

/** The version that it ran, then the others, the newest first; a newer one is said to be the latest, since it may mend the failure. */
export function versionChoices(ran: number | null, versions: { version: number }[]): Choice[] {
  const latest = Math.max(0, ...versions.map(({ version }) => version));
  const others = versions.filter(({ version }) => version !== ran);
  return [
    { value: "", label: ran === null ? "the version it ran" : `${ran}, the version it ran` },
    ...others.map(({ version }) => ({ value: String(version), label: version === latest ? `${version}, the latest` : String(version) })),
  ];
}
