// One sensor over the time of the steps; two runs are overlaid.
import { Chart, mark, type Frame } from "../chart";
import { SIDES } from "../colors";
import { ms, number } from "../format";
import { Word } from "../parts";
import type { SensorLine } from "../types";
import { boxOf, lineOf, XAxis, YAxis } from "./axes";
import { linear } from "./scale";

/** Samples up to which each has a symbol. */
const FEW = 40;

export function Sensor({ line, labels, unit, bands = [] }: { line: SensorLine; labels: string[]; unit: string; /** Times to point out, from and to in ms. */ bands?: [number, number][] }) {
  const values = line.values.flat();
  const [low, high] = [Math.min(...values), Math.max(...values)];
  // An axis that begins elsewhere makes a small change look large: it begins at 0 unless that would hide the change.
  const start = low >= 0 && (high === low || high - low > 0.2 * high) ? 0 : low;
  const draw = (frame: Frame) => {
    const { ink } = frame;
    const box = boxOf(frame, 52, 10, 8, 24);
    const times = line.times_ms.flat();
    const x = linear(Math.min(...times), Math.max(...times), [box.left, box.right]);
    const y = linear(start, high, [box.bottom, box.top], true);
    return (
      <>
        {bands.map(([from, to]) => [Math.max(box.left, x(from)), Math.min(box.right, x(to))] as const).filter(([left, right]) => right > left).map(([left, right]) => <rect key={left} x={left} y={box.top} width={Math.max(1, right - left)} height={box.bottom - box.top} fill={SIDES[1]} fill-opacity="0.22" />)}
        <XAxis scale={x} box={box} ink={ink} />
        <YAxis scale={y} box={box} ink={ink} format={(value) => number(value, 4)} />
        {labels.map((label, side) => {
          const points = (line.times_ms[side] ?? []).map((at, index): [number, number, number, number] => [at, line.values[side]?.[index] ?? 0, x(at), y(line.values[side]?.[index] ?? 0)]);
          return (
            <g key={side}>
              <path d={lineOf(points.map(([, , px, py]) => [px, py]))} fill="none" stroke={SIDES[side]} stroke-width="1.5" />
              {points.length < FEW && points.map(([at, value, px, py], index) => <circle key={index} cx={px} cy={py} r="3" fill={SIDES[side]} {...mark(`${label}: ${number(value)} ${unit}`, `at ${ms(at)}`)} />)}
            </g>
          );
        })}
      </>
    );
  };
  return (
    <figure class="sensor">
      <figcaption><Word text={line.name} />{line.device === null ? "" : ` (GPU ${line.device})`} <span class="faint">{unit}{start > 0 ? `, axis from ${number(start)}` : ""}</span></figcaption>
      <Chart label={`${line.name}${labels.length > 1 ? " in both runs" : " along the run"}${start > 0 ? `; the axis does not start at 0` : ""}`} height={150} paper={215} draw={draw} />
    </figure>
  );
}
