/** Small bars beside a text that says what they add up to; failures are at the foot of their bar. */
import "./charts.css";

export interface SparkBar {
  ended: number;
  failed: number;
}

const STEP = 4;
const BAR = 3;
const HEIGHT = 20;
/** What happened once is visible beside what happened a thousand times. */
const LEAST = 2;

export function Sparkline({ bars }: { bars: SparkBar[] }) {
  const most = Math.max(1, ...bars.map(({ ended }) => ended));
  const heightOf = (count: number) => (count === 0 ? 0 : Math.max(LEAST, (count / most) * HEIGHT));
  return (
    <svg className="sparkline" viewBox={`0 0 ${bars.length * STEP} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      {bars.map(({ ended, failed }, at) => {
        if (ended === 0) return null;
        const below = heightOf(failed);
        const all = Math.max(heightOf(ended), failed > 0 && failed < ended ? below + LEAST : 0);
        const top = HEIGHT - Math.min(HEIGHT, all);
        return (
          <g key={at}>
            <rect className="sparkline-ended" x={at * STEP} y={top} width={BAR} height={HEIGHT - top} />
            {failed > 0 ? <rect className="sparkline-failed" x={at * STEP} y={HEIGHT - below} width={BAR} height={below} /> : null}
          </g>
        );
      })}
    </svg>
  );
}
