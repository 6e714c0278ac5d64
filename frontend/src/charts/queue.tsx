// How many activities were launched and not yet finished, along the recording: where it is empty, the GPU waits for the host.
import { Chart, mark, type Frame } from "../chart";
import { IDLE, SIDES } from "../colors";
import { ms, number, percent } from "../format";
import type { QueuePart } from "../types";
import { boxOf, Keys, XAxis, YAxis } from "./axes";
import { linear } from "./scale";

/** The share of a part's time in which the queue is empty from which on the part is pointed out. */
const MOSTLY = 50;

export function QueueDepth({ parts, span }: { parts: QueuePart[]; span: number }) {
  const draw = (frame: Frame) => {
    const { ink } = frame;
    const box = boxOf(frame, 56, 16, 30, 44);
    const x = linear(0, Math.max(span, 1e-6), [box.left, box.right]);
    const y = linear(0, Math.max(...parts.map((part) => part.most), 1), [box.bottom, box.top], true);
    return (
      <>
        <Keys keys={[{ name: "mean", color: SIDES[0] as string }, { name: `mean, empty at least ${MOSTLY} % of the time`, color: IDLE["host"] as string }, { name: "deepest", color: ink.faint, hollow: true }]} x={box.left} y={14} ink={ink} room={frame.width - box.left} />
        <XAxis scale={x} box={box} ink={ink} title="ms" />
        <YAxis scale={y} box={box} ink={ink} title="activities" />
        {parts.map((part, at) => {
          const [left, right] = [x(part.start_ms), x(parts[at + 1]?.start_ms ?? span)];
          const wide = Math.max(1, right - left - 1);
          return (
            <g key={at} {...mark(`${ms(part.start_ms)} on: ${number(part.mean)} in the mean, at most ${number(part.most)}`, part.empty_pct !== null && `empty ${percent(part.empty_pct)} of the time`)}>
              <rect x={left} y={box.top} width={wide} height={box.bottom - box.top} fill="transparent" />
              <rect x={left} y={y(part.mean)} width={wide} height={box.bottom - y(part.mean)} fill={(part.empty_pct ?? 0) >= MOSTLY ? IDLE["host"] : SIDES[0]} />
              <line x1={left} x2={left + wide} y1={y(part.most)} y2={y(part.most)} stroke={ink.faint} />
            </g>
          );
        })}
      </>
    );
  };
  return <Chart label={`Depth of the launch queue along the recording, in ${parts.length} parts`} height={190} draw={draw} />;
}
