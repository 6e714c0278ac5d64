// The ranks of a run as rows of one time line: own work, waiting for the last rank, transfer. A drag zooms in.
import { useMemo, useRef, useState } from "preact/hooks";
import { Chart, mark, type Frame } from "../chart";
import { categoryColor, IDLE } from "../colors";
import { percent, time } from "../format";
import { useParam } from "../params";
import type { LayerLoad, RankLanes } from "../types";
import { boxOf, Clip, Keys, newClip, XAxis } from "./axes";
import { HeatMap, type HeatRow } from "./heatmap";
import { linear } from "./scale";

const ROW = 30;
const [WORK, WAIT, TRANSFER] = [categoryColor("gemm"), IDLE["host"] as string, categoryColor("comm")];
/** Own work is what the others are seen against. */
const FAINT = 0.45;

export function RankTimeline({ lanes, straggler }: { lanes: RankLanes; straggler: number | null }) {
  const clip = useMemo(newClip, []);
  const [zoomed, setZoomed] = useParam("ranks");
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const zoom = zoomed?.split("-").map(Number);
  const [from, to] = zoom && zoom.length === 2 && zoom[1]! > zoom[0]! ? [zoom[0]!, zoom[1]!] : [0, lanes.span_us];
  const moved = useRef(false);
  const draw = (frame: Frame) => {
    const { ink } = frame;
    const box = boxOf(frame, 64, 12, 46, 44);
    const x = linear(from, to, [box.left, box.right]);
    const timeAt = (event: PointerEvent) => from + ((Math.max(box.left, Math.min(box.right, event.clientX - (event.currentTarget as Element).getBoundingClientRect().left)) - box.left) / (box.right - box.left)) * (to - from);
    return (
      <g onPointerDown={(event: PointerEvent) => event.button === 0 && setDrag([timeAt(event), timeAt(event)])} onPointerMove={(event: PointerEvent) => drag && setDrag([drag[0], timeAt(event)])} onPointerUp={() => {
        moved.current = drag !== null && Math.abs(x(drag[1]) - x(drag[0])) > 5;
        if (drag && moved.current) setZoomed([Math.min(...drag), Math.max(...drag)].map((at) => at.toFixed(1)).join("-"));
        setDrag(null);
      }}>
        <rect width={frame.width} height={frame.height} fill="transparent" />
        <Clip id={clip} box={box} />
        <Keys keys={[{ name: "own work and gaps", color: WORK, opacity: FAINT }, { name: "waiting for the last rank", color: WAIT }, { name: "transfer", color: TRANSFER }]} x={box.left} y={14} ink={ink} room={frame.width - box.left} />
        <XAxis scale={x} box={box} ink={ink} title="time on the common clock" format={(value) => time(value * 1000)} />
        {lanes.lanes.map((lane, at) => <text key={lane.rank} x={box.left - 8} y={box.top + at * ROW + 18} text-anchor="end" font-size="12" font-weight={lane.rank === straggler ? "bold" : "normal"} fill={ink.text}>{`rank ${lane.rank}`}</text>)}
        <g clip-path={`url(#${clip})`}>
          {lanes.lanes.map((lane, at) => {
            const top = box.top + at * ROW + 3;
            const bars = lane.start_us.map((start, index) => {
              const [wait, transfer] = [lane.wait_us[index] ?? 0, lane.transfer_us[index] ?? 0];
              if (start > to || start + wait + transfer < from) return null;
              return (
                <g key={index} {...mark(`rank ${lane.rank}: ${lanes.kinds[lane.kind[index] ?? 0]}`, `waits ${time(wait * 1000)} for the last rank, transfers for ${time(transfer * 1000)}`, `${percent((100 * wait) / (wait + transfer || 1))} of it is waiting`)}>
                  <rect x={x(start)} y={top} width={Math.max(0.4, x(start + wait) - x(start))} height={ROW - 6} fill={WAIT} />
                  <rect x={x(start + wait)} y={top} width={Math.max(0.4, x(start + wait + transfer) - x(start + wait))} height={ROW - 6} fill={TRANSFER} />
                </g>
              );
            });
            return <g key={lane.rank}><rect x={x(lane.start_us[0] ?? 0)} y={top} width={Math.max(0, x((lane.start_us[lane.start_us.length - 1] ?? 0)) - x(lane.start_us[0] ?? 0))} height={ROW - 6} fill={WORK} fill-opacity={FAINT} />{bars}</g>;
          })}
          {lanes.steps.map(([step, start]) => <g key={step}><line x1={x(start)} x2={x(start)} y1={box.top} y2={box.bottom} stroke={ink.text} stroke-opacity="0.55" stroke-dasharray="3 3" /></g>)}
          {drag && <rect x={Math.min(x(drag[0]), x(drag[1]))} y={box.top} width={Math.abs(x(drag[1]) - x(drag[0]))} height={box.bottom - box.top} fill={ink.text} fill-opacity="0.12" />}
        </g>
        {lanes.steps.map(([step, start], index) => x(start) >= box.left && x(start) < box.right - 30 && (index === 0 || x(start) - x(lanes.steps[index - 1]?.[1] ?? 0) > 48) && <text key={step} x={x(start) + 3} y={box.top - 5} fill={ink.faint}>{`step ${step}`}</text>)}
      </g>
    );
  };
  return (
    <>
      <Chart label={`${lanes.lanes.length} ranks along time: own work, waiting and transfer`} height={94 + lanes.lanes.length * ROW} draw={draw} />
      {zoom && <p class="about"><button type="button" onClick={() => setZoomed(null)}>Show all</button></p>}
      {lanes.left_out > 0 && <p class="about">{lanes.left_out} later steps are not drawn.</p>}
    </>
  );
}

/** Rows that reach the experts of each rank, layer by layer. */
export function ExpertLoad({ layers, ranks }: { layers: LayerLoad[]; ranks: number[] }) {
  const most = Math.max(...layers.flatMap((layer) => layer.tokens.map((one) => one ?? 0)), 1);
  const rows = ranks.map((rank, at): HeatRow => {
    const known = layers.flatMap((layer) => layer.tokens[at] ?? []);
    return {
      name: `rank ${rank}`, color: categoryColor("moe"), note: known.length ? (known.reduce((sum, one) => sum + one, 0) / known.length).toFixed(0) : "–",
      cells: layers.map((layer) => {
        const tokens = layer.tokens[at];
        return tokens == null ? null : { share: tokens / most, text: tokens.toFixed(0), tip: [`layer ${layer.layer}, rank ${rank}: ${tokens.toFixed(0)} rows per step`, `the busiest rank has ${layer.max_over_mean.toFixed(2)} times the mean`] };
      }),
    };
  });
  return <HeatMap label={`Rows that reach the experts of ${ranks.length} ranks in ${layers.length} layers`} rows={rows} columns={layers.map((layer) => `layer ${layer.layer}`)} noteTitle="mean" tall={22} />;
}
