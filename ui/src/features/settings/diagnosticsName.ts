/** The name of a saved file: when it was made, without what file systems refuse. */
export function diagnosticsName(madeAt: string): string {
  return `noetl-diagnostics-${madeAt.slice(0, 19).replace(/\D/g, "")}.json`;
}
