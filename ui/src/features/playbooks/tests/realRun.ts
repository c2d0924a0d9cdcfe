/** The command that a finding advises, which a page cannot run. */

const ADVICE = /\nor run it for real: --live (\S+)$/;

/** The message without that advice, and the command with the names of the files. */
export function realRunOf(message: string, playbook: string): { says: string; command?: string } {
  const kind = ADVICE.exec(message)?.[1];
  return kind ? { says: message.replace(ADVICE, ""), command: `noetl test ${playbook}.yaml --live ${kind}` } : { says: message };
}
