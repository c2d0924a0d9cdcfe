/** Numbers of bytes as people read them, in units of thousands. */

const UNITS = ["kB", "MB", "GB", "TB"];

export function sizeText(bytes: number): string {
  if (bytes < 1_000) return `${bytes} bytes`;
  let [amount, unit] = [bytes / 1_000, 0];
  while (amount >= 999.5 && unit < UNITS.length - 1) [amount, unit] = [amount / 1_000, unit + 1];
  return `${amount < 9.95 ? amount.toFixed(1) : amount.toFixed(0)} ${UNITS[unit]}`;
}
